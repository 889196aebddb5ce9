"""Vector symbolic architectures with one interface, to compare them and to choose one.

A model describes vectors, which are plain batched tensors. It has the operations ``random``, ``bind``, ``unbind``,
``bundle``, ``normalize``, ``similarity``, ``pairwise_similarity``, ``shift``, ``identity`` and ``inverse``, and its
properties as data, ``facts``. ``MODELS`` lists all models by name.
"""

from ghrr.models.bsc import BSC
from ghrr.models.facts import Facts, Scores
from ghrr.models.fhrr import FHRR
from ghrr.models.ghrr import GHRR
from ghrr.models.hlb import HLB
from ghrr.models.hrr import HRR
from ghrr.models.laws import LAWS, Law
from ghrr.models.map import MAP
from ghrr.models.mbat import MBAT
from ghrr.models.protocol import Architecture
from ghrr.models.registry import MODELS, make
from ghrr.models.sbc import SBC
from ghrr.models.smr import SMR
from ghrr.models.theory import bundling_accuracy, dimension_for
from ghrr.models.tpr import TPR
from ghrr.models.vtb import VTB

__all__ = [
    "BSC",
    "FHRR",
    "GHRR",
    "HLB",
    "HRR",
    "LAWS",
    "MAP",
    "MBAT",
    "MODELS",
    "SBC",
    "SMR",
    "TPR",
    "VTB",
    "Architecture",
    "Facts",
    "Law",
    "Scores",
    "bundling_accuracy",
    "dimension_for",
    "make",
]

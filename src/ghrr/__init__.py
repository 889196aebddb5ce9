"""Generalized Holographic Reduced Representations: computing with structured high-dimensional vectors.

A hypervector is a complex tensor ``(*batch, dim, m, m)``: ``dim`` slots, each an m x m unitary matrix. Binding is the
matrix product in every slot, so order matters; bundling is the sum; m = 1 is FHRR.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from ghrr import encoding, memory, models, nn, ops, structures, testing, unitary
from ghrr.algebra import (
    adjoint,
    bind,
    bind_bundle,
    bundle,
    commutativity,
    commutator,
    multibind,
    normalize,
    pairwise_similarity,
    power,
    shift,
    similarity,
    unbind,
    unbind_similarity,
)
from ghrr.files import load, save
from ghrr.hypervector import Hypervector
from ghrr.memory import ItemMemory, Match, resonator
from ghrr.ops import backend
from ghrr.space import Space
from ghrr.structures import Record

if TYPE_CHECKING:
    from ghrr import learn as learn
    from ghrr import lm as lm
    from ghrr import paper as paper
    from ghrr import relations as relations
    from ghrr import search as search

__version__ = "0.2.0"

__all__ = [
    "Hypervector",
    "ItemMemory",
    "Match",
    "Record",
    "Space",
    "__version__",
    "adjoint",
    "backend",
    "bind",
    "bind_bundle",
    "bundle",
    "commutativity",
    "commutator",
    "encoding",
    "load",
    "memory",
    "models",
    "multibind",
    "nn",
    "normalize",
    "ops",
    "pairwise_similarity",
    "power",
    "resonator",
    "save",
    "shift",
    "similarity",
    "structures",
    "testing",
    "unbind",
    "unbind_similarity",
    "unitary",
]

# Imported on first use: they need optional packages and take long to import. Not in __all__ for the same reason.
_LAZY = ("learn", "lm", "paper", "relations", "search")


def __getattr__(name: str) -> ModuleType:
    if name in _LAZY:
        return importlib.import_module(f"ghrr.{name}")
    raise AttributeError(f"module 'ghrr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})

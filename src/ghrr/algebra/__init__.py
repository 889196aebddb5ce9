r"""The algebra of hypervectors: pure functions of complex tensors ``(*batch, dim, m, m)``.

Every function checks its arguments, broadcasts over batches, computes on the device of its arguments, is differentiable
with respect to every tensor, and works under ``torch.vmap`` and ``torch.compile``. A :class:`ghrr.Hypervector` is
accepted in place of a tensor; the result is a plain tensor. :math:`A_j` is slot j of A, an m x m matrix, and
:math:`\delta` the similarity.
"""

from ghrr.algebra.combining import bind, bind_bundle, bundle, multibind, unbind
from ghrr.algebra.comparing import commutativity, commutator, pairwise_similarity, similarity, unbind_similarity
from ghrr.algebra.powers import power
from ghrr.algebra.transforming import adjoint, normalize, shift

__all__ = [
    "adjoint",
    "bind",
    "bind_bundle",
    "bundle",
    "commutativity",
    "commutator",
    "multibind",
    "normalize",
    "pairwise_similarity",
    "power",
    "shift",
    "similarity",
    "unbind",
    "unbind_similarity",
]

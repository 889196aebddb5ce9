"""The arithmetic of hypervectors and the choice of the backend that computes it.

``ghrr.ops.reference`` is the specification, ``ghrr.ops.operations`` declares every operation with its
implementations, and ``ghrr.ops.dispatch`` chooses between them. Kernels are in ``ops/cpu`` (numba) and ``ops/gpu``
(triton).
"""

from ghrr.ops.backends import backend, in_use
from ghrr.ops.operations import (
    adjoint,
    bind,
    bind_bags,
    bind_bundle,
    bind_similarity,
    bundle,
    cos_sin,
    fractional_power,
    multibind,
    pairwise_similarity,
    polar,
    power,
    shift,
    similarity,
    unitary_power,
)

__all__ = [
    "adjoint",
    "backend",
    "bind",
    "bind_bags",
    "bind_bundle",
    "bind_similarity",
    "bundle",
    "cos_sin",
    "fractional_power",
    "in_use",
    "multibind",
    "pairwise_similarity",
    "polar",
    "power",
    "shift",
    "similarity",
    "unitary_power",
]

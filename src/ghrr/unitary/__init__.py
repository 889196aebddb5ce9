"""Unitary matrices: sampling, projection, tests, and sampling at a given diagonality."""

from ghrr.unitary.diagonal import diagonality, with_diagonality
from ghrr.unitary.projection import is_unitary, polar, unitarity_error
from ghrr.unitary.sampling import exp_hermitian, haar, orthonormalize

__all__ = [
    "diagonality",
    "exp_hermitian",
    "haar",
    "is_unitary",
    "orthonormalize",
    "polar",
    "unitarity_error",
    "with_diagonality",
]

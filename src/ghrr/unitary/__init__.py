"""Unitary matrices: sampled, projected to, checked, and drawn with a wanted diagonality."""

from ghrr.unitary.diagonal import diagonality, with_diagonality
from ghrr.unitary.projection import check_unitary, polar, unitarity_error
from ghrr.unitary.sampling import exp_hermitian, haar, orthonormalize

__all__ = [
    "check_unitary",
    "diagonality",
    "exp_hermitian",
    "haar",
    "orthonormalize",
    "polar",
    "unitarity_error",
    "with_diagonality",
]

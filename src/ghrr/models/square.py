"""Vectors that are square matrices: sizes, identity and inverse of VTB and SMR."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ghrr.models.protocol import Architecture, Device


class SquareMatrices(Architecture):
    """Base class of models whose vectors of :math:`d = r^2` numbers are read as r × r matrices."""

    def possible_sizes(self, near: int) -> tuple[int, ...]:
        """Return the square numbers around a number."""
        return squares_around(near)

    @classmethod
    def _nearest_dim(cls, wanted: int, settings: dict[str, Any]) -> int:
        return min(squares_around(wanted), key=lambda size: abs(size - wanted))

    @property
    def _root(self) -> int:
        return math.isqrt(self.dim)

    def _matrix(self, x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:-1], self._root, self._root)

    def _identity(self, device: Device) -> Tensor:
        return torch.eye(self._root, dtype=self.dtype, device=device).flatten()

    def inverse(self, x: Tensor) -> Tensor:
        """Transpose: the exact inverse of an orthogonal matrix, and an approximate one of other random matrices."""
        (x,) = self._check(x=x)
        return self._matrix(x).mT.flatten(-2)


def squares_around(dim: int) -> tuple[int, ...]:
    """Return the square numbers at or around a number.

    Examples
    --------
    >>> squares_around(1024), squares_around(1000)
    ((1024,), (961, 1024))
    """
    root = math.isqrt(dim)
    return (dim,) if root * root == dim else (root * root, (root + 1) ** 2)

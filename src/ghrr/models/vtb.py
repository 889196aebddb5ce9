"""VTB: vector-derived transformation binding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Device, unit_gaussian
from ghrr.models.square import SquareMatrices


@names_errors
@dataclass(frozen=True, repr=False)
class VTB(SquareMatrices):
    r"""Vector-derived transformation binding: the right factor is a matrix that transforms the left one.

    Both factors are read as matrices A and B of :math:`r \times r` numbers, :math:`d = r^2`; then

    .. math:: a \circ b = \sqrt r\, A B^\top .

    It is neither commutative nor associative. Swapping the factors transposes the product, so a key can be removed on
    both sides, with noise: :math:`\sqrt r\, X B` on the right and :math:`\sqrt r\, X^\top A` on the left.

    References
    ----------
    J. Gosmann, C. Eliasmith, Vector-derived transformation binding: an improved binding operation for deep symbol-like
    processing in neural networks, Neural Computation 31(5), 2019.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.VTB(1024)
    >>> key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> pair = model.bind(key, value)
    >>> [f"{model.similarity(model.unbind(pair, key, side=side), value).abs():.0f}" for side in ("left", "right")]
    ['1', '0']
    """

    name: ClassVar[str] = "VTB"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=False,
            associative=False,
            inverse="approximate",
            self_inverse=False,
            keeps_similarity=False,
            identity="right",
            bind_cost="O(d^1.5)",
            paper="Gosmann and Eliasmith 2019",
            slotwise=False,
        )

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        return (a @ b).flatten(-2) * math.sqrt(self._root)

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return unit_gaussian((*batch, self.dim), self.dtype, generator, device)

    def _identity(self, device: Device) -> Tensor:
        return super()._identity(device) / math.sqrt(self._root)  # neutral on the right; on the left it transposes

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Transform the rows of a by the matrix b."""
        a, b = self._check(a=a, b=b)
        return self._product(self._matrix(a), self._matrix(b).mT)

    def unbind(self, x: Tensor, key: Tensor, *, side: str) -> Tensor:
        """Remove a key, approximately; on the left after transposing the product, which swaps its factors."""
        self._check_side(side)
        x, key = self._check(x=x, key=key)
        product = self._matrix(x) if side == "right" else self._matrix(x).mT
        return self._product(product, self._matrix(key))

"""SMR: square matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Device, random_orthogonal
from ghrr.models.square import SquareMatrices


@names_errors
@dataclass(frozen=True, repr=False)
class SMR(SquareMatrices):
    r"""Square matrices, bound by the matrix product, :math:`a \circ b = A B`.

    A vector is one orthogonal :math:`r \times r` matrix, :math:`d = r^2`, drawn from the Haar measure, so that the
    transpose is the exact inverse. Binding is associative and not commutative. GHRR with one slot is the complex form.

    References
    ----------
    M. A. Kelly, D. Blostein, D. J. K. Mewhort, Encoding structure in holographic reduced representations, Canadian
    Journal of Experimental Psychology 67(2), 2013.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.SMR(1024)
    >>> key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> pair = model.bind(key, value)
    >>> [f"{model.similarity(model.unbind(pair, key, side=side), value).abs():.0f}" for side in ("left", "right")]
    ['1', '0']
    """

    name: ClassVar[str] = "SMR"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=False,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=True,
            bind_cost="O(d^1.5)",
            paper="Kelly, Blostein and Mewhort 2013",
            slotwise=False,
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return random_orthogonal(batch, self._root, self.dtype, generator, device).flatten(-2)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the matrices."""
        a, b = self._check(a=a, b=b)
        return (self._matrix(a) @ self._matrix(b)).flatten(-2)

    @property
    def _scale(self) -> float:
        return 1 / self._root

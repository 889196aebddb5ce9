"""TPR: tensor product representations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr.checks import check_broadcast, describe, names_errors, value_error
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device, unit_gaussian


@names_errors
@dataclass(frozen=True, repr=False)
class TPR(Architecture):
    r"""Tensor product representations: :math:`a \circ b = a \otimes b`, a vector of :math:`d^2` numbers.

    A product of n vectors has order n and :math:`d^n` numbers, so only products of one order can be bundled. A tensor
    of order n is stored flat, as ``(*batch, dim**n)``; the first factor varies slowest. Unbinding contracts a tensor
    with the key, which is exact for a single pair, as random vectors have norm 1.

    References
    ----------
    P. Smolensky, Tensor product variable binding and the representation of symbolic structures in connectionist
    systems, Artificial Intelligence 46, 1990.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.TPR(32)
    >>> key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> pair = model.bind(key, value)
    >>> pair.shape
    torch.Size([1024])
    >>> f"{model.similarity(model.unbind(pair, key, side='left'), value):.3f}"
    '1.000'
    """

    name: ClassVar[str] = "TPR"

    @classmethod
    def _nearest(cls, budget: int, unit: str, order: int, settings: dict[str, Any]) -> Self:
        dtype = settings.get("dtype", cls.dtype)
        wanted = budget / (dtype.itemsize if unit == "nbytes" else 1)
        root = max(1, math.floor(wanted ** (1 / order)))
        return cls(min((root, root + 1), key=lambda dim: abs(dim**order - wanted)), **settings)

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=False,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=True,
            identity="none",
            closed=False,
            bind_cost="O(d^2)",
            paper="Smolensky 1990",
            slotwise=False,
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        return unit_gaussian((*batch, self.dim), self.dtype, generator, device)

    def _identity(self, device: Device) -> Tensor:
        raise value_error("binding raises the order of a tensor, so no vector is an identity")

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Take the tensor product."""
        self._check(a=a, b=b)
        return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(-2)

    def inverse(self, x: Tensor) -> Tensor:
        """Raise: binding raises the order, so unbinding is a contraction."""
        raise value_error("binding raises the order of a tensor, so no vector is an inverse; use unbind")

    def unbind(self, x: Tensor, key: Tensor, *, side: str) -> Tensor:
        """Contract a tensor with a key, over its first axes (left) or its last (right)."""
        self._check_side(side)
        self._check(x=x, key=key)
        size = key.shape[-1]
        if x.shape[-1] <= size:
            raise value_error(
                f"x must have a higher order than key, got {describe(x)} and {describe(key)}; unbind a product"
            )
        if side == "left":
            return torch.einsum("...p,...pq->...q", key, x.reshape(*x.shape[:-1], size, x.shape[-1] // size))
        return torch.einsum("...qp,...p->...q", x.reshape(*x.shape[:-1], x.shape[-1] // size, size), key)

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the similarity of tensors of one order."""
        _check_orders(*self._check(a=a, b=b))
        return super().similarity(a, b)

    def _check(self, **given: Any) -> list[Tensor]:
        """Return the arguments; raise unless they are tensors of some order."""
        for name, x in given.items():
            if not isinstance(x, Tensor) or x.dtype != self.dtype or x.ndim < 1 or not self._is_order(x.shape[-1]):
                self._refuse(name, x, (self.dim,))
        self._check_devices(given)
        check_broadcast(**{name: tuple(x.shape[:-1]) for name, x in given.items()})
        return list(given.values())

    def _check_pairwise(self, queries: Any, items: Any) -> tuple[Tensor, Tensor]:
        queries, items = super()._check_pairwise(queries, items)
        _check_orders(queries, items)
        return queries, items

    def _is_order(self, size: int) -> bool:
        power = self.dim
        while power < size and self.dim > 1:
            power *= self.dim
        return power == size


def _check_orders(a: Tensor, b: Tensor) -> None:
    if a.shape[-1] != b.shape[-1]:
        raise value_error(f"tensors must have one order, got sizes {[a.shape[-1], b.shape[-1]]}")

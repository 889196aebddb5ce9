"""MAP: multiply, add, permute."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.checks import check_choice, names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device, draw_on, signs

_VALUES = ("bipolar", "continuous")


@names_errors
@dataclass(frozen=True, repr=False)
class MAP(Architecture):
    r"""Multiply-add-permute: real vectors, bound by the product of components, :math:`(a \circ b)_j = a_j b_j`.

    A vector is its own inverse: exactly for bipolar vectors, whose components are -1 or 1, and approximately for
    continuous ones, uniform in [-1, 1]. Bundling adds. ``normalize`` takes the sign (bipolar) or clips to [-1, 1]
    (continuous), which the literature calls MAP-B and MAP-C; without it, bipolar vectors are MAP-I. Bipolar vectors
    that are normalised after every bundle are BSC in another notation: choose :class:`BSC` to store them as bits.

    Parameters
    ----------
    dim
        Number of components.
    dtype
        ``torch.float32`` or ``torch.float64``.
    values
        ``"bipolar"`` or ``"continuous"``.

    References
    ----------
    R. W. Gayler, Multiplicative binding, representation operators and analogy, 1998.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.MAP(1000)
    >>> a, b = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> torch.equal(model.bind(a, model.bind(a, b)), b)
    True
    """

    values: str = "bipolar"
    name: ClassVar[str] = "MAP"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("values", self.values, _VALUES)

    @property
    def _is_bipolar(self) -> bool:
        return self.values == "bipolar"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact" if self._is_bipolar else "approximate",
            self_inverse=self._is_bipolar,
            keeps_similarity=self._is_bipolar,
            bind_cost="O(d)",
            paper="Gayler 1998",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        x = torch.rand((*batch, self.dim), dtype=self.dtype, generator=generator, device=device)
        return signs(x < 0.5, self.dtype) if self._is_bipolar else 2 * x - 1

    def _identity(self, device: Device) -> Tensor:
        return torch.ones(self.dim, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the components."""
        a, b = self._check(a=a, b=b)
        return a * b

    def inverse(self, x: Tensor) -> Tensor:
        """Return the vector; a continuous one is multiplied by 3, which makes unbinding unbiased."""
        (x,) = self._check(x=x)
        return x if self._is_bipolar else 3 * x

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Take signs, with random signs for zeros (bipolar), or clip to [-1, 1] (continuous)."""
        (x,) = self._check(x=x)
        if not self._is_bipolar:
            return x.clamp(-1, 1)
        ties = x == 0
        count = int(ties.sum())
        random = draw_on(x.device, generator, lambda d: torch.rand(count, generator=generator, device=d))
        return x.sign().masked_scatter(ties, signs(random < 0.5, self.dtype))

    @property
    def _scale(self) -> float:
        return (1.0 if self._is_bipolar else 3.0) / self.dim

    @property
    def _self_similarity_std(self) -> float:
        return 0.0 if self._is_bipolar else math.sqrt(0.8 / self.dim)  # the variance of x² is 4/45

    def _settings(self) -> Iterable[str]:
        yield from super()._settings()
        if not self._is_bipolar:
            yield f"values={self.values!r}"

"""FHRR: vectors of phases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.algebra.number_range import within_range
from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device


@names_errors
@dataclass(frozen=True, repr=False)
class FHRR(Architecture):
    r"""Fourier holographic reduced representations: complex numbers of absolute value 1.

    Binding is the product of components, :math:`(a \circ b)_j = a_j b_j`; the inverse is the conjugate. It is GHRR with
    m = 1.

    References
    ----------
    T. A. Plate, Holographic reduced representation: distributed representation for cognitive structures, CSLI 2003.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.FHRR(1000)
    >>> key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> f"{model.similarity(model.unbind(model.bind(key, value), key, side='left'), value):.3f}"
    '1.000'
    """

    dtype: torch.dtype = torch.complex64
    name: ClassVar[str] = "FHRR"
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.complex64, torch.complex128)

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=True,
            bind_cost="O(d)",
            paper="Plate 2003",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        real = torch.float64 if self.dtype == torch.complex128 else torch.float32
        angles = torch.rand((*batch, self.dim), dtype=real, generator=generator, device=device) * (2 * math.pi)
        return torch.polar(torch.ones_like(angles), angles)

    def _identity(self, device: Device) -> Tensor:
        return torch.ones(self.dim, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the components."""
        a, b = self._check(a=a, b=b)
        return a * b

    def inverse(self, x: Tensor) -> Tensor:
        """Return the conjugate."""
        (x,) = self._check(x=x)
        return x.conj()

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Divide every component by its absolute value; zero stays zero."""
        (x,) = self._check(x=x)
        return torch.sgn(x)

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        r"""Return the mean of :math:`\mathrm{Re}(a_j \bar b_j)`."""
        a, b = self._check(a=a, b=b)
        return within_range(lambda a, b: torch.linalg.vecdot(_reals(a), _reals(b)) / self.dim, a, b)

    def pairwise_similarity(self, queries: Tensor, items: Tensor) -> Tensor:
        """Return the similarity of every query with every item, by one real matrix product."""
        queries, items = self._check_pairwise(queries, items)
        return within_range(lambda a, b: (_reals(a) @ _reals(b).mT) / self.dim, queries, items)

    @property
    def noise_std(self) -> float:
        r"""Standard deviation of the similarity of two independent random vectors, :math:`1/\sqrt{2d}`."""
        return 1 / math.sqrt(2 * self.dim)


def _reals(x: Tensor) -> Tensor:
    return torch.view_as_real(x.resolve_conj()).flatten(-2)

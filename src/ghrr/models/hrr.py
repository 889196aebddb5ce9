"""HRR: real vectors and circular convolution."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.algebra.number_range import scale_to_one
from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device, unit_gaussian
from ghrr.ops.fourier import irfft, rfft


@names_errors
@dataclass(frozen=True, repr=False)
class HRR(Architecture):
    r"""Holographic reduced representations: real vectors, bound by circular convolution.

    .. math:: (a \circ b)_j = \sum_k a_k b_{(j - k) \bmod d}

    Convolution multiplies Fourier coefficients, so it is commutative and associative. The approximate inverse reverses
    the order of the components, :math:`a^\dagger_j = a_{-j \bmod d}`. It is exact for unitary vectors, whose Fourier
    coefficients have absolute value 1.

    Parameters
    ----------
    dim
        Number of components.
    dtype
        ``torch.float32`` or ``torch.float64``.
    unitary
        Draw unitary vectors. By default random vectors are uniform on the unit sphere, and unbinding is noisy.

    References
    ----------
    T. A. Plate, Holographic reduced representations, IEEE Transactions on Neural Networks 6(3), 1995.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> for unitary in (False, True):
    ...     model = models.HRR(1000, unitary=unitary)
    ...     key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    ...     back = model.unbind(model.bind(key, value), key, side="left")
    ...     print(f"{model.similarity(model.normalize(back), value):.1f}")
    0.7
    1.0
    """

    unitary: bool = False
    name: ClassVar[str] = "HRR"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact" if self.unitary else "approximate",
            self_inverse=False,
            keeps_similarity=self.unitary,
            bind_cost="O(d log d)",
            paper="Plate 1995",
            slotwise=False,
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        x = unit_gaussian((*batch, self.dim), self.dtype, generator, device)
        return self._project(x) if self.unitary else x

    def _project(self, x: Tensor) -> Tensor:
        """Return the nearest unitary vector."""
        return irfft(torch.sgn(rfft(scale_to_one(x, axes=1))), self.dim)

    def _identity(self, device: Device) -> Tensor:
        x = torch.zeros(self.dim, dtype=self.dtype, device=device)
        x[0] = 1
        return x

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Convolve."""
        a, b = self._check(a=a, b=b)
        return irfft(rfft(a) * rfft(b), self.dim)

    def inverse(self, x: Tensor) -> Tensor:
        """Reverse the components, except the first: exact for unitary vectors."""
        (x,) = self._check(x=x)
        return x.flip(-1).roll(1, -1)

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Scale to norm 1, or to the nearest unitary vector."""
        return self._project(*self._check(x=x)) if self.unitary else super().normalize(x)

    def _settings(self) -> Iterable[str]:
        yield from super()._settings()
        if self.unitary:
            yield "unitary=True"

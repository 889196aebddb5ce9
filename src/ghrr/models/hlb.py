"""HLB: Hadamard-derived linear binding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.facts import Facts
from ghrr.models.protocol import Architecture, Device, signs


@names_errors
@dataclass(frozen=True, repr=False)
class HLB(Architecture):
    r"""Hadamard-derived linear binding: the product of components, undone by division.

    The Walsh-Hadamard transforms of the derivation cancel, so that :math:`(a \circ b)_j = a_j b_j` and the inverse is
    :math:`1/a_j`. Components are drawn from a mixture of two normal distributions around -1 and 1 with variance 1/d,
    which keeps them away from zero, so that division does not amplify noise.

    References
    ----------
    M. M. Alam, A. Oberle, E. Raff, S. Biderman, T. Oates, J. Holt, A Walsh Hadamard derived linear vector symbolic
    architecture, NeurIPS 2024, arXiv:2410.22669.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.HLB(1000)
    >>> a, b = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> torch.allclose(model.unbind(model.bind(a, b), a, side="left"), b, atol=1e-5)
    True
    """

    name: ClassVar[str] = "HLB"

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact",
            self_inverse=False,
            keeps_similarity=False,
            bind_cost="O(d)",
            paper="Alam et al. 2024",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        shape = (*batch, self.dim)
        negative = torch.rand(shape, generator=generator, device=device, dtype=self.dtype) < 0.5
        noise = torch.randn(shape, generator=generator, device=device, dtype=self.dtype) / math.sqrt(self.dim)
        return signs(negative, self.dtype) + noise

    def _identity(self, device: Device) -> Tensor:
        return torch.ones(self.dim, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply the components."""
        a, b = self._check(a=a, b=b)
        return a * b

    def inverse(self, x: Tensor) -> Tensor:
        """Return the reciprocals."""
        (x,) = self._check(x=x)
        return x.reciprocal()

    @property
    def _scale(self) -> float:
        return 1 / (self.dim + 1)  # the mean square of a component is 1 + 1/d

    @property
    def _self_similarity_std(self) -> float:
        # The variance of (±1 + e)² is 4 s² + 2 s⁴ for a normal e with variance s² = 1/d.
        return math.sqrt(self.dim * (4 / self.dim + 2 / self.dim**2)) / (self.dim + 1)

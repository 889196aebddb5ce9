r"""Hypervectors of whole numbers: powers of one base, with as many slots as the range of the numbers needs.

The base is :math:`B = Q\,\mathrm{diag}(e^{i\theta})\,Q^\dagger` per slot, so :math:`B^x * B^y = B^{x+y}`. With the
phases :math:`\theta_f = \pi (f + \tfrac12) / G` for f = 0 … G − 1, the similarity of two powers is exact:

.. math:: \delta(B^x, B^y) = [x = y] \quad \text{for } |x - y| < 2G .

A bundle :math:`\sum_v p_v B^v` is then a distribution, and :math:`\delta` of two of them is the probability that two
independent draws agree. With fewer phases than G, drawn from the grid without replacement, every similarity has noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ghrr.seeding import labelled_generator
from ghrr.space import Space

__all__ = ["PowerCode", "number_code", "place_codes"]


@dataclass(frozen=True, eq=False)
class PowerCode:
    """Base of numbers that are encoded as powers.

    Attributes
    ----------
    phases
        Eigenphases of the base, ``(dim, m)``, in double precision.
    rotation
        Q, ``(dim, m, m)``.
    noise
        Standard deviation of the similarity of two different powers; 0 if the similarity is exact.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.reasoning.codes import number_code
    >>> code = number_code(10, columns=3)
    >>> three, four, seven = code.powers([3, 4, 7])
    >>> round(float(ghrr.similarity(ghrr.bind(three, four), seven)), 5)
    1.0
    """

    phases: Tensor
    rotation: Tensor
    noise: float

    @property
    def dim(self) -> int:
        """Number of slots."""
        return self.phases.shape[0]

    @lru_cache(maxsize=32)  # noqa: B019 (codes are kept by their own caches)
    def table(self, size: int) -> Tensor:
        """Return the powers 0 … size − 1, ``(size, dim, m, m)``."""
        return self.powers(range(size))

    def powers(self, exponents: Tensor | list[int] | list[float] | range) -> Tensor:
        """Return the powers of the base, ``(len(exponents), dim, m, m)``; exponents may be real."""
        x = torch.as_tensor(list(exponents) if isinstance(exponents, range) else exponents, dtype=torch.float64)
        return from_phases(x[..., None, None] * self.phases, self.rotation)


def from_phases(phases: Tensor, rotation: Tensor) -> Tensor:
    """Return the hypervectors with these eigenphases ``(*batch, dim, m)``, in single precision."""
    values = torch.polar(torch.ones_like(phases), phases).to(torch.complex64)
    if rotation.shape[-1] == 1:
        return values[..., None]
    return torch.einsum("dij,...dj,dkj->...dik", rotation, values, rotation.conj())


@lru_cache(maxsize=64)
def number_code(size: int, *, columns: int, m: int = 1, max_dim: int = 128, seed: int = 0) -> PowerCode:
    r"""Return the base of the numbers 0 … size − 1 in rows of some columns.

    The grid has :math:`G = \lceil(\text{columns} + 1)\,\text{size} / 2\rceil` phases, so that sums and differences of
    three panels do not alias. ``max_dim`` bounds the stored complex numbers, :math:`D m^2`; beyond it, similarities
    have noise.
    """
    return _choose(_grid(math.ceil((columns + 1) * size / 2)), m, max_dim, seed, f"numbers {size} {columns}")


@lru_cache(maxsize=64)
def place_codes(
    period: int, size: int, *, m: int = 1, max_dim: int = 128, seed: int = 0
) -> tuple[PowerCode, PowerCode]:
    """Return the bases S of places on a circle and B of values: products S^k * B^v of all k and v are orthogonal."""
    circle = 2 * math.pi * torch.arange(period, dtype=torch.float64) / period
    values = _grid(math.ceil(size / 2))
    pairs = torch.cartesian_prod(circle, values)
    code = _choose(torch.arange(len(pairs)), m, max_dim, seed, f"places {period} {size}")
    places, numbers = (PowerCode(pairs[code.phases, i], code.rotation, code.noise) for i in (0, 1))
    return places, numbers


def _grid(count: int) -> Tensor:
    return math.pi * (torch.arange(count, dtype=torch.float64) + 0.5) / count


def _choose(grid: Tensor, m: int, max_dim: int, seed: int, label: str) -> PowerCode:
    """Distribute phases over slots of m each: whole copies of the grid if they fit, otherwise a sample of it."""
    copies = m // math.gcd(m, len(grid))
    fits = len(grid) * copies // m * m**2 <= max_dim
    if fits:
        chosen = grid.repeat(copies)
    else:
        order = torch.randperm(len(grid), generator=labelled_generator(seed, "reasoning", label))
        chosen = grid[order[: min(max(1, max_dim // m**2), len(grid) // m) * m]]
    slots = chosen.reshape(-1, m)
    noise = 0.0 if fits else math.sqrt((1 - len(chosen) / len(grid)) / (2 * len(chosen)))
    rotation = Space(dim=len(slots), m=m, seed=seed).rotations([label], namespace="reasoning")[0]
    return PowerCode(slots, rotation, noise)

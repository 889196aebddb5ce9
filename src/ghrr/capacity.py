r"""What theory says about noise and capacity, before anything is simulated.

A hypervector :math:`Q \Lambda` has independent phases with :math:`E\lambda = 0`. The similarity of two of them, or
of a value with what unbinding leaves over, is then a sum of many small zero-mean terms, nearly Gaussian; this
module holds its variance. With p the mean weight :math:`E|Q_{kk}|^2` of a diagonal entry, the others sharing 1 - p
evenly, let

.. math:: g(p) = p^2 + (1 - p)^2 / (m - 1).

This is the mean weight of a diagonal entry of :math:`R^\dagger Q`, R being an independent copy of Q. Haar rotations
have p = 1/m, where g(p) = p; diagonal ones have p = 1 = g(p).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from ghrr._random import labelled_uniform
from ghrr.unitary.diagonal import circulant_entries

__all__ = ["diagonal_weight", "first_true", "recall_error", "relative_weight"]


def relative_weight(p: float, m: int) -> float:
    """The function g above: weight of a diagonal entry in the relative rotation of two independent hypervectors."""
    return p * p + ((1 - p) ** 2 / (m - 1) if m > 1 else 0.0)


@functools.lru_cache
def diagonal_weight(m: int, diagonality: float | None) -> float:
    r"""The mean weight :math:`E|Q_{kk}|^2` of a diagonal entry of a random rotation.

    It is 1/m for Haar rotations. For a requested diagonality it has no closed form and is averaged over 4096 rotations
    of a fixed stream.
    """
    if m == 1:
        return 1.0
    if diagonality is None:
        return 1 / m
    spectrum, ranks = labelled_uniform(2 * 4096 * m, 0, "diagonal weight").reshape(2, 4096, m)
    return circulant_entries(diagonality, spectrum, ranks)[:, 0].abs().square().mean().item()


def recall_error(items: int, candidates: int, noise: float, crosstalk: float) -> float:
    r"""Chance that reading one of ``items`` bundled key-value pairs picks a wrong value among ``candidates``.

    Unbinding gives the value plus crosstalk from the other pairs. The right candidate scores :math:`S = 1 + \sigma
    z` with :math:`\sigma^2 = (n - 1) c^2`. Each wrong one scores noise in proportion to the size of the whole
    answer, which is larger when the right score is: :math:`\tau^2 = s^2 (S^2 - \sigma^2) + (n - 1) c^2`. So

    .. math:: P(\text{right}) = \int \varphi(z)\, \Phi(S/\tau)^{M - 1} dz .

    Parameters
    ----------
    items
        Number n of pairs in the bundle.
    candidates
        Number M of values to choose from.
    noise, crosstalk
        Standard deviations s and c of the two kinds of noise, as in ``Space.noise_std`` and ``Space.crosstalk_std``.

    Examples
    --------
    >>> from ghrr.capacity import recall_error
    >>> f"{recall_error(50, 1000, 1 / 1200**0.5, 1 / 1200**0.5):.3f}"
    '0.056'
    """
    sigma = math.sqrt(items - 1) * crosstalk
    z = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    score = 1 + sigma * z
    tau = torch.sqrt(noise**2 * (score.square() - sigma**2).clamp(min=0) + sigma**2).clamp(min=1e-300)
    all_below = (candidates - 1) * torch.special.log_ndtr(score / tau)
    return float(torch.trapezoid(-torch.expm1(all_below) * density, z))


def first_true(condition: Callable[[int], bool], start: int = 1) -> int:
    """The smallest whole number from ``start`` on that fulfils a condition which, once true, stays true."""
    low, high = start - 1, start
    while not condition(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high

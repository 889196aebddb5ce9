r"""Theory of noise and capacity.

The phases of a hypervector :math:`Q \Lambda` are independent, with :math:`E\lambda = 0`. So the similarity of two
hypervectors, or of a value with crosstalk noise, is a sum of many small terms of mean zero: it is nearly Gaussian, and
its variance follows from the rotations. Let p be the mean weight :math:`E|Q_{kk}|^2` of a diagonal entry, and let the
other entries have equal weights. Then

.. math:: g(p) = p^2 + (1 - p)^2 / (m - 1)

is the mean weight of a diagonal entry of :math:`R^\dagger Q`, for an independent copy R of Q. Haar rotations have p =
1/m = g(p), diagonal ones p = 1 = g(p).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from ghrr.seeding import labelled_uniform
from ghrr.unitary.diagonal import circulant_entries

__all__ = ["diagonal_weight", "first_true", "recall_error", "relative_weight", "scores_at"]


def relative_weight(p: float, m: int) -> float:
    """Return g(p), the mean weight of a diagonal entry in the relative rotation of two independent hypervectors.

    Examples
    --------
    >>> from ghrr.capacity import relative_weight
    >>> relative_weight(0.5, m=2), relative_weight(1.0, m=2)
    (0.5, 1.0)
    """
    return p * p + ((1 - p) ** 2 / (m - 1) if m > 1 else 0.0)


@functools.lru_cache
def diagonal_weight(m: int, diagonality: float | None) -> float:
    r"""Return the mean weight :math:`E|Q_{kk}|^2` of a diagonal entry of a random rotation.

    It is 1/m for Haar rotations. For rotations of a given diagonality there is no closed form: it is the mean over 4096
    rotations from a fixed seed.

    Examples
    --------
    >>> from ghrr.capacity import diagonal_weight
    >>> diagonal_weight(4, None), diagonal_weight(1, None)
    (0.25, 1.0)
    """
    if m == 1:
        return 1.0
    if diagonality is None:
        return 1 / m
    spectrum, ranks = labelled_uniform(2 * 4096 * m, 0, "diagonal weight").reshape(2, 4096, m)
    return circulant_entries(diagonality, spectrum, ranks)[:, 0].abs().square().mean().item()


def scores_at(z: Tensor, items: int, noise: float, crosstalk: float) -> tuple[Tensor, Tensor]:
    r"""Return the score of the correct candidate, and the standard deviation of wrong ones, for a pair of a bundle.

    Unbinding the key gives the value plus crosstalk noise of the other pairs. The correct one scores :math:`S = 1 +
    \sigma z` with :math:`\sigma^2 = (n - 1) c^2` and Gaussian z. A wrong candidate scores noise in proportion to the
    norm of the answer, which grows with S: its variance is :math:`\tau^2 = s^2 (S^2 - \sigma^2) + (n - 1) c^2`.

    Parameters
    ----------
    z
        Values of z, in double precision.
    items
        Number n of pairs in the bundle.
    noise, crosstalk
        Standard deviations s and c: ``Space.noise_std`` and ``Space.crosstalk_std``.

    Examples
    --------
    >>> import torch
    >>> from ghrr.capacity import scores_at
    >>> scores_at(torch.tensor([-1.0, 0.0, 1.0]), items=5, noise=0.1, crosstalk=0.1)
    (tensor([0.8000, 1.0000, 1.2000]), tensor([0.2145, 0.2227, 0.2324]))
    """
    sigma = math.sqrt(items - 1) * crosstalk
    score = 1 + sigma * z
    tau = torch.sqrt(noise**2 * (score.square() - sigma**2).clamp(min=0) + sigma**2).clamp(min=1e-300)
    return score, tau


def recall_error(items: int, candidates: int, noise: float, crosstalk: float) -> float:
    r"""Return the probability of a wrong answer when one of ``items`` bundled key-value pairs is read.

    With the score S of the right candidate and the noise :math:`\tau` of the wrong ones (:func:`scores_at`),

    .. math:: P(\text{correct}) = \int \varphi(z)\, \Phi(S/\tau)^{M - 1} dz .

    Parameters
    ----------
    items
        Number n of pairs in the bundle.
    candidates
        Number M of values that the answer is chosen from.
    noise, crosstalk
        Standard deviations s and c: ``Space.noise_std`` and ``Space.crosstalk_std``.

    Examples
    --------
    >>> from ghrr.capacity import recall_error
    >>> f"{recall_error(50, 1000, 1 / 1200**0.5, 1 / 1200**0.5):.3f}"
    '0.056'
    """
    z = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    score, tau = scores_at(z, items, noise, crosstalk)
    all_below = (candidates - 1) * torch.special.log_ndtr(score / tau)
    return float(torch.trapezoid(-torch.expm1(all_below) * density, z))


def first_true(condition: Callable[[int], bool], start: int = 1) -> int:
    """Return the smallest integer from ``start`` on that fulfils a condition, which must hold for all larger ones.

    Examples
    --------
    >>> from ghrr.capacity import first_true
    >>> first_true(lambda n: n * n > 50)
    8
    """
    low, high = start - 1, start
    while not condition(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if condition(middle) else (middle, high)
    return high

"""Scales of numbers: prices and populations differ by factors, temperatures by differences."""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

_FEWEST = 20  # numbers that show a scale
_MOST = 0.9  # share of positive numbers
_SKEWED = 1.0  # skewness of a multiplicative scale
_BELOW = 10.0  # the logarithmic scale is exact down to the smallest positive number over this


def is_multiplicative(numbers: NDArray[np.float64]) -> bool:
    """Return whether numbers are positive and skewed to the right, and their logarithms are at most half as skewed.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.number_scales import is_multiplicative
    >>> normal = np.random.default_rng(0).normal(size=1000)
    >>> is_multiplicative(np.exp(normal)), is_multiplicative(normal + 20)
    (True, False)
    """
    if len(numbers) < _FEWEST or (numbers > 0).mean() < _MOST or np.ptp(numbers) == 0:
        return False
    skewness = _skewness(numbers)
    smallest = smallest_exact(numbers)
    return skewness > _SKEWED and abs(_skewness(logarithms(numbers, smallest))) < skewness / 2


def smallest_exact(numbers: NDArray[np.float64]) -> float:
    """Return the number from which on the logarithmic scale of these numbers is exact."""
    return max(float(numbers[numbers > 0].min()) / _BELOW, sys.float_info.min)


def logarithms(numbers: NDArray[np.float64], smallest: float) -> NDArray[np.float64]:
    """Return :func:`logarithm` of each number; NaN stays NaN."""
    return np.array([logarithm(number, smallest) for number in numbers.tolist()])


def logarithm(number: float, smallest: float) -> float:
    r"""Return the logarithm of numbers from ``smallest`` on, continued by its tangent to 0, and by symmetry below 0.

    .. math:: t(x) = \ln x \text{ for } x \ge s, \qquad \ln s + x/s - 1 \text{ for } 0 \le x < s, \qquad
              2\,t(0) - t(-x) \text{ for } x < 0

    Examples
    --------
    >>> from ghrr.encoding.number_scales import logarithm
    >>> [round(logarithm(number, smallest=1.0), 2) for number in (100, 10, 1, 0, -1, -10)]
    [4.61, 2.3, 0.0, -1.0, -2.0, -4.3]
    """
    zero = math.log(smallest) - 1
    size = abs(number)
    above = math.log(size) - zero if size >= smallest else size / smallest
    return zero + math.copysign(above, number)


def _skewness(numbers: NDArray[np.float64]) -> float:
    scaled = numbers / np.abs(numbers).max()  # cubes of large numbers overflow
    standard = (scaled - scaled.mean()) / max(scaled.std(), sys.float_info.min)
    return float((standard**3).mean())

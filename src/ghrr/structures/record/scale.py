"""Scale: range and bandwidth of numbers that are encoded by fractional power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghrr._checks import check_real

_MAX_POINTS = 1 << 18  # points of a scale, which reading tries one by one
_SMALLEST, _LARGEST = 1e-30, 1e30  # bandwidths whose frequencies fit in single precision
_RESOLVED = 1e-3  # largest spacing of doubles at the ends of a scale, in bandwidths


@dataclass(frozen=True)
class Scale:
    """Encode numbers by fractional power instead of as atoms, so that near numbers are similar.

    Parameters
    ----------
    low, high
        Range of the numbers.
    bandwidth
        Distance at which the similarity of two numbers falls. The range can have at most 131,071 bandwidths.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record, Scale
    >>> record = Record(ghrr.Space(dim=500, m=3), numbers=Scale(1000, 2000, bandwidth=5))
    >>> record.query(record.encode({"name": "Ada", "born": 1815}), "born")
    Match(1814.91 ± 0.056, score=0.992, margin=0.992, confident=True)
    """

    low: float
    high: float
    bandwidth: float

    @property
    def points(self) -> int:
        """Number of distinguishable values, which is the number of candidates when a number is read."""
        return math.ceil(2 * (self.high - self.low) / self.bandwidth) + 1

    def __post_init__(self) -> None:
        check_real("Scale", "low", self.low, low=-math.inf, high=math.inf, open_ends=True)
        check_real("Scale", "high", self.high, low=self.low, high=math.inf, open_ends=True)
        check_real("Scale", "bandwidth", self.bandwidth, low=0.0, high=math.inf, open_ends=True)
        span = self.high - self.low
        if not math.isfinite(span):
            raise ValueError(f"Scale: the length of the range must be finite, got {self!r}; give a smaller range")
        if 2 * span / self.bandwidth + 1 > _MAX_POINTS:
            raise ValueError(
                f"Scale: {self!r} has {2 * span / self.bandwidth + 1:.3g} points to try when reading, expected at most "
                f"{_MAX_POINTS}; give a bandwidth of at least {2 * span / (_MAX_POINTS - 1):.3g}, or a smaller range"
            )
        check_real("Scale", "bandwidth", self.bandwidth, low=_SMALLEST, high=_LARGEST)
        spacing = math.ulp(max(abs(self.low), abs(self.high)))
        if spacing > _RESOLVED * self.bandwidth:
            raise ValueError(
                f"Scale: numbers near the end of {self!r} are {spacing:.3g} apart in double precision, expected at "
                f"most {_RESOLVED} of the bandwidth; encode the distance from a number in the range instead"
            )

"""Scale: how numbers are encoded so that near numbers are similar."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ghrr._checks import check_real

_MOST_POINTS = 1 << 18  # on a scale: reading tries them all
_SMALLEST, _LARGEST = 1e-30, 1e30  # bandwidths whose frequencies single precision holds
_RESOLVED = 1e-3  # spacing of doubles, in bandwidths, that a scale may have at its far end


@dataclass(frozen=True)
class Scale:
    """Encode numbers by fractional power instead of as atoms: near numbers are then similar.

    Parameters
    ----------
    low, high
        All numbers must lie between these.
    bandwidth
        The distance at which similarity falls. There may be at most 131,071 of it between low and high.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record, Scale
    >>> record = Record(ghrr.Space(dim=500, m=3), numbers=Scale(1000, 2000, bandwidth=5))
    >>> record.query(record.encode({"name": "Ada", "born": 1815}), "born")
    Match(1814.99 ± 0.055, score=1.015, margin=1.015, confident=True)
    """

    low: float
    high: float
    bandwidth: float

    @property
    def points(self) -> int:
        """Number of values on the scale that can be distinguished: it counts as so many candidates."""
        return math.ceil(2 * (self.high - self.low) / self.bandwidth) + 1

    def __post_init__(self) -> None:
        check_real("Scale", "low", self.low, low=-math.inf, high=math.inf, open_ends=True)
        check_real("Scale", "high", self.high, low=self.low, high=math.inf, open_ends=True)
        check_real("Scale", "bandwidth", self.bandwidth, low=0.0, high=math.inf, open_ends=True)
        span = self.high - self.low
        if not math.isfinite(span):
            raise ValueError(f"Scale: the range of {self!r} is too large for a number; give a smaller range")
        if 2 * span / self.bandwidth + 1 > _MOST_POINTS:
            raise ValueError(
                f"Scale: {self!r} has {2 * span / self.bandwidth + 1:.3g} points to try when reading, expected at most "
                f"{_MOST_POINTS}; give a bandwidth of at least {2 * span / (_MOST_POINTS - 1):.3g}, or a smaller range"
            )
        check_real("Scale", "bandwidth", self.bandwidth, low=_SMALLEST, high=_LARGEST)
        spacing = math.ulp(max(abs(self.low), abs(self.high)))
        if spacing > _RESOLVED * self.bandwidth:
            raise ValueError(
                f"Scale: numbers near the end of {self!r} are {spacing:.3g} apart in double precision, expected at "
                f"most {_RESOLVED} of the bandwidth; encode the distance from a number in the range instead"
            )

r"""Kernel fields: numbers, dates, points on the Earth and embeddings, compared by a kernel.

- ``number``, ``date``: :math:`K = \tfrac{1}{2} (e^{-\Delta^2 / 2b^2} + e^{-\Delta^2 / 2c^2})` with :math:`c = b / 20`.
  The second term makes equal values agree more than near ones. Positive numbers over several orders of magnitude, and
  numbers on a multiplicative scale (:mod:`ghrr.encoding.number_scales`), are compared by their logarithms, and dates in
  days.
  The bandwidth b is Silverman's rule, :math:`0.9\,\sigma n^{-1/5}`, with σ the smaller of the standard deviation and
  the interquartile range over 1.34.
- ``point``: latitude and longitude. K is the first of these two terms, a function of the chord
  :math:`2 \sin(\theta/2)` of the great-circle angle θ, which is a valid kernel on the sphere.
- ``embedding``: vectors of your own. A random projection keeps their cosine.

A :class:`Range` in an example stands for an interval: similarity 1 inside, and the kernel of the distance outside. The
hypervector of a range with an open end is 0: only the documents are compared with it.

A value of another type, such as ``"A-77"`` among numbers, is compared with other such values as text. Its similarity to
a number is 0.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._old_checks import describe
from ghrr.encoding import FractionalPower
from ghrr.encoding.column_values import Notation, find_notation, parse_date, parse_number
from ghrr.encoding.kernels import Kernel
from ghrr.encoding.number_scales import is_multiplicative, logarithm, smallest_exact
from ghrr.search.bags import BagField, Bags
from ghrr.search.values import Range
from ghrr.space import Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
KERNEL_KINDS = ("number", "date", "point", "embedding")
SHARP_KINDS = ("number", "date")  # kinds whose kernel has a second term
_NARROW = 1 / 20  # the smaller bandwidth over the larger one
_RANGE_POINTS = 16
_SQUARABLE = 1e100  # squares and sums of numbers up to here do not overflow
_OPEN = sys.float_info.max  # end of a range that has none
_FARTHEST = 1e12  # bandwidths from 0; vectors of farther numbers are equal


@dataclass(frozen=True)
class Coordinates:
    """Prepared values of a field.

    Parameters
    ----------
    low, high
        Ends of each value, ``(n, coordinates)``, which differ for ranges; NaN for a value of another type.
    other
        Trigrams of values of another type.
    """

    low: Floats
    high: Floats
    other: Bags

    @property
    def is_kernel(self) -> NDArray[np.bool_]:
        """Whether each value is compared by the kernel."""
        return np.asarray(np.isfinite(self.low).all(axis=1))

    @property
    def present(self) -> NDArray[np.bool_]:
        """Whether each value can be compared at all."""
        return self.is_kernel | self.other.present

    def __len__(self) -> int:
        return len(self.low)

    def take(self, rows: Integers) -> Coordinates:
        """Select rows."""
        return Coordinates(self.low[rows], self.high[rows], self.other.take(rows))


def as_number(value: Any) -> float | None:
    """Return a number, or None if the value is not one; True and False are none."""
    return None if isinstance(value, bool) else parse_number(value)


class KernelField:
    """Encoder of one field of numbers, dates, points or embeddings.

    Prepared values are :class:`Coordinates`.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.kernel_fields import KernelField
    >>> from ghrr.search.values import Range
    >>> field = KernelField("number")
    >>> field.fit([1990.0, 1995.0, 2000.0, 2005.0])
    >>> a, b = field.prepare([2000, Range(1990, 1994)]), field.prepare([2001, 1991])
    >>> field.pair_scores(a, np.array([0, 1]), b, np.array([0, 1])).round(2)
    array([0.48, 1.  ])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.notation = Notation()
        self.logarithmic = False
        self.smallest = sys.float_info.min  # from here on the logarithmic scale is exact
        self.bandwidth = 1.0
        self.is_sharp = kind in SHARP_KINDS
        self.width = 0  # numbers of an embedding
        self._others = BagField("text")  # not fitted: values of another type are rare
        self._encoders: dict[tuple[Space, str], Any] = {}

    def parse(self, value: Any) -> tuple[Floats, Floats] | None:
        """Return the lowest and the highest coordinates of a value, or None if it has another type."""
        if isinstance(value, Range):
            has_order = self.kind in SHARP_KINDS and not value.low is value.high is None
            low = np.array([-_OPEN]) if has_order and value.low is None else self._coordinates(value.low)
            high = np.array([_OPEN]) if has_order and value.high is None else self._coordinates(value.high)
            return None if low is None or high is None else (np.minimum(low, high), np.maximum(low, high))
        one = self._coordinates(value)
        return None if one is None else (one, one)

    def _coordinates(self, value: Any) -> Floats | None:
        if self.kind == "embedding":
            return self._embedding(value)
        if self.kind == "point":
            return _sphere(value)
        number = self._number(value)
        if number is None:
            return None
        return np.array([logarithm(number, self.smallest) if self.logarithmic else number])

    def _number(self, value: Any) -> float | None:
        if self.kind == "date":
            return parse_date(value, self.notation)
        return None if isinstance(value, bool) else parse_number(value, self.notation)

    def _embedding(self, value: Any) -> Floats | None:
        try:
            row = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
        if row.ndim != 1 or len(row) != self.width or not np.isfinite(row).all() or not row.any():
            return None
        row = row / np.abs(row).max()  # squares of the largest and smallest numbers are no numbers
        unit: Floats = row / np.linalg.norm(row)
        return unit

    def fit(self, values: Sequence[Any]) -> None:
        """Choose scale and bandwidth from data."""
        if self.kind == "embedding":
            self.width = _common_width(values)
            return
        if self.kind in ("number", "date"):
            self.notation = find_notation(values)
        if self.kind == "number":
            numbers = np.array([x for x in map(self._number, values) if x is not None])
            self.logarithmic = is_multiplicative(numbers) or _has_many_magnitudes(numbers)
            if self.logarithmic:
                self.smallest = smallest_exact(numbers)
        rows = [row for row in map(self._coordinates, values) if row is not None]
        self.bandwidth = silverman(np.stack(rows)) if rows else 1.0

    def prepare(self, values: Sequence[Any]) -> Coordinates:
        """Return the coordinates of values."""
        parsed = [self.parse(value) for value in values]
        low, high = np.full((2, len(values), self.coordinates), np.nan)
        for row, ends in enumerate(parsed):
            if ends is not None:
                low[row], high[row] = ends
        pairs = zip(values, parsed, strict=True)
        others = ["" if ends is not None or isinstance(value, Range) else value for value, ends in pairs]
        return Coordinates(low, high, self._others.prepare(others))

    @property
    def coordinates(self) -> int:
        """Numbers per value."""
        return {"point": 3, "embedding": max(1, self.width)}.get(self.kind, 1)

    def pair_scores(self, a: Coordinates, a_rows: Integers, b: Coordinates, b_rows: Integers) -> Floats:
        """Return the similarity of each pair of rows, between 0 and 1."""
        scores = self._others.pair_scores(a.other, a_rows, b.other, b_rows)
        numeric = np.flatnonzero(a.is_kernel[a_rows] & b.is_kernel[b_rows])
        a_rows, b_rows = a_rows[numeric], b_rows[numeric]
        if self.kind == "embedding":
            scores[numeric] = np.clip((a.low[a_rows] * b.low[b_rows]).sum(axis=1), 0, 1)
            return scores
        with np.errstate(over="ignore"):  # an infinite distance is far
            gap = np.maximum(0, np.maximum(a.low[a_rows] - b.high[b_rows], b.low[b_rows] - a.high[a_rows]))
            far = np.minimum(gap / self.bandwidth, 1e3)  # the square of a larger one could overflow; the kernel is 0
        squares = np.square(far).sum(axis=1)
        kernel = np.exp(-squares / 2)
        scores[numeric] = (kernel + np.exp(-squares / (2 * _NARROW**2))) / 2 if self.is_sharp else kernel
        return scores

    def encode(self, space: Space, values: Coordinates, name: str) -> Tensor:
        """Return the hypervectors of prepared values, ``(n, dim, m, m)``; a range is the mean of points in it."""
        numeric = values.is_kernel
        if numeric.all():
            return self._encode_ends(space, values.low, values.high, name)
        out = self._others.encode(space, values.other)
        if numeric.any():
            out[torch.from_numpy(numeric)] = self._encode_ends(space, values.low[numeric], values.high[numeric], name)
        return out

    def _encode_ends(self, space: Space, low: Floats, high: Floats, name: str) -> Tensor:
        encoder = self._encoder(space, name)
        if self.kind == "embedding":
            rows = torch.from_numpy(low).to(encoder.dtype) @ encoder
            return torch.view_as_complex(rows.view(len(low), *space.shape, 2)).to(space.dtype)
        is_open = (low == -_OPEN) | (high == _OPEN)
        far = _FARTHEST * self.bandwidth
        low, high = np.clip(low, -far, far), np.clip(high, -far, far)
        encoded: Tensor = encoder(torch.from_numpy(low))
        wide = np.flatnonzero((high > low).any(axis=1))
        if len(wide):
            steps = np.linspace(0, 1, _RANGE_POINTS)[:, None, None]
            points = low[wide] + steps * (high - low)[wide]
            mean = encoder(torch.from_numpy(points)).mean(dim=0)
            energy = torch.linalg.vector_norm(mean.flatten(1), dim=1) / math.sqrt(space.dim * space.m)
            encoded[wide] = mean / energy.clamp(min=1e-6)[:, None, None, None]
            encoded[torch.from_numpy(is_open.any(axis=1))] = 0
        return encoded

    def _encoder(self, space: Space, name: str) -> Any:
        if (space, name) not in self._encoders:
            if self.kind == "embedding":
                generator = space.generator(f"embedding {name}")
                made: Any = torch.randn(self.coordinates, 2 * space.total_dim, generator=generator)
                made *= math.sqrt(1 / (2 * space.m))  # unit vectors get the energy of an atom
            else:
                kernel: Kernel = _sharp_frequencies if self.is_sharp else "rbf"
                made = FractionalPower(
                    space, self.coordinates, kernel=kernel, bandwidth=self.bandwidth, name=f"field {name}"
                )
            self._encoders[space, name] = made
        return self._encoders[space, name]

    def state(self) -> dict[str, Tensor]:
        """Return what :meth:`fit` found, as tensors."""
        marks = [self.notation.decimal == ",", self.notation.day_first, self.notation.compact]
        numbers = [self.bandwidth, self.logarithmic, self.width, self.smallest, *marks]
        return {"kernel": torch.tensor(list(map(float, numbers)), dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Use what :meth:`state` returned; earlier files have the first three numbers only."""
        numbers = state["kernel"]
        usable = numbers.dtype == torch.float64 and numbers.shape in ((3,), (7,))
        if not usable or not bool((numbers >= 0).all()):
            raise ValueError(f"the kernel of a field must be seven numbers, got {describe(numbers)}")
        self.bandwidth, self.logarithmic, self.width = float(numbers[0]), bool(numbers[1]), int(numbers[2])
        self.is_sharp = self.is_sharp and len(numbers) > 3
        if len(numbers) > 3:
            self.smallest = max(float(numbers[3]), sys.float_info.min)
            self.notation = Notation("," if numbers[4] else ".", bool(numbers[5]), bool(numbers[6]))


def _sharp_frequencies(count: int, n_features: int, generator: torch.Generator) -> Tensor:
    """Draw frequencies whose kernel has two terms; every other frequency is larger."""
    frequencies = torch.randn(count, n_features, generator=generator, dtype=torch.float64)
    frequencies[1::2] /= _NARROW
    return frequencies


def _common_width(values: Sequence[Any]) -> int:
    """Return the most common length of lists."""
    lengths = [len(value) for value in values if isinstance(value, list | tuple)]
    return max(set(lengths), key=lengths.count, default=0)


def silverman(rows: Floats) -> float:
    r"""Return a bandwidth by Silverman's rule, :math:`0.9\,\sigma n^{-1/5}`.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.kernel_fields import silverman
    >>> round(silverman(np.arange(1000.0)[:, None]), 1)
    65.3
    """
    largest = float(np.abs(rows).max())
    unit = largest if largest > _SQUARABLE else 1.0
    rows = rows / unit
    deviations = rows.std(axis=0)
    quartiles = np.subtract(*np.percentile(rows, [75, 25], axis=0)) / 1.34
    scale = np.where(quartiles > 0, np.minimum(deviations, quartiles), deviations)
    typical = float(np.sqrt(np.mean(scale**2)))
    return 0.9 * typical * len(rows) ** -0.2 * unit if typical > 0 else 1.0


def _has_many_magnitudes(numbers: Floats) -> bool:
    if not len(numbers) or (numbers > 0).mean() <= 0.9:
        return False
    low, high = np.percentile(numbers[numbers > 0], [5, 95])
    return bool(high / 20 > low)


def _sphere(value: Any) -> Floats | None:
    """Return latitude and longitude as a point on the unit sphere."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    pair = [as_number(number) for number in value]
    if pair[0] is None or pair[1] is None or abs(pair[0]) > 90 or abs(pair[1]) > 360:
        return None
    latitude, longitude = math.radians(pair[0]), math.radians(pair[1])
    ring = math.cos(latitude)
    return np.array([ring * math.cos(longitude), ring * math.sin(longitude), math.sin(latitude)])

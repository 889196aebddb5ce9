r"""Kernel fields: numbers, dates, points on the Earth and embeddings, compared by a kernel.

- ``number``, ``date``: :math:`K = e^{-\Delta^2 / 2b^2}`. Positive numbers over several orders of magnitude are compared
  by their logarithms, and dates in days. The bandwidth b is Silverman's rule, :math:`0.9\,\sigma n^{-1/5}`, with σ the
  smaller of the standard deviation and the interquartile range over 1.34.
- ``point``: latitude and longitude. K is the same function of the chord :math:`2 \sin(\theta/2)` of the great-circle
  angle θ, which is a valid kernel on the sphere.
- ``embedding``: vectors of your own. A random projection keeps their cosine.

A :class:`Range` in an example stands for an interval: similarity 1 inside, and the kernel of the distance outside.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import describe
from ghrr.encoding import FractionalPower
from ghrr.space import Space

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
KERNEL_KINDS = ("number", "date", "point", "embedding")
_RANGE_POINTS = 16
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


@dataclass(frozen=True)
class Range:
    """Interval of numbers, or of dates, in an example: all values inside agree fully.

    Examples
    --------
    >>> from ghrr.search import Range
    >>> {"name": "turntable", "price": Range(50, 100)}
    {'name': 'turntable', 'price': Range(low=50, high=100)}
    """

    low: Any
    high: Any


def as_date(value: Any) -> float | None:
    """Return a date as days since 1970, or None if it is not one."""
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime.datetime):
        moment = value.replace(tzinfo=value.tzinfo or datetime.UTC)
        return moment.timestamp() / 86400
    if isinstance(value, datetime.date):
        return float((value - datetime.date(1970, 1, 1)).days)
    return None


def as_number(value: Any) -> float | None:
    """Return a number, or None if the value is not a finite one."""
    try:
        number = float(value) if not isinstance(value, list | tuple | bytes) else math.nan
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class KernelField:
    """Encoder of one field of numbers, dates, points or embeddings.

    A prepared value is a row of numbers; a range has its two ends.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.kernel_fields import KernelField, Range
    >>> field = KernelField("number")
    >>> field.fit([1990.0, 1995.0, 2000.0, 2005.0])
    >>> a, b = field.prepare([2000, Range(1990, 1994)]), field.prepare([2001, 1991])
    >>> field.pair_scores(a, np.array([0, 1]), b, np.array([0, 1])).round(2)
    array([0.97, 1.  ])
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.logarithmic = False
        self.bandwidth = 1.0
        self.width = 0  # numbers of an embedding
        self._encoders: dict[tuple[Space, str], Any] = {}

    def parse(self, value: Any) -> tuple[Floats, Floats] | None:
        """Return the lowest and the highest coordinates of a value, or None if it has another type."""
        if isinstance(value, Range):
            low, high = self._coordinates(value.low), self._coordinates(value.high)
            return None if low is None or high is None else (np.minimum(low, high), np.maximum(low, high))
        one = self._coordinates(value)
        return None if one is None else (one, one)

    def _coordinates(self, value: Any) -> Floats | None:
        if self.kind == "embedding":
            return self._embedding(value)
        if self.kind == "point":
            return _sphere(value)
        number = as_date(value) if self.kind == "date" else as_number(value)
        if number is None or (self.logarithmic and number <= 0):
            return None
        return np.array([math.log(number) if self.logarithmic else number])

    def _embedding(self, value: Any) -> Floats | None:
        try:
            row = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return None
        if row.ndim != 1 or not len(row) or (self.width and len(row) != self.width) or not np.isfinite(row).all():
            return None
        length = float(np.linalg.norm(row))
        unit: Floats = row / max(length, 1e-300)
        return unit if length > 0 else None

    def fit(self, values: Sequence[Any]) -> None:
        """Choose scale and bandwidth from data."""
        if self.kind == "embedding":
            rows = [row for row in map(self._embedding, values) if row is not None]
            self.width = len(rows[0]) if rows else 0
            return
        if self.kind == "number":
            numbers = np.array([x for x in map(as_number, values) if x is not None])
            self.logarithmic = bool(len(numbers)) and bool((numbers > 0).mean() > 0.9) and _is_skewed(numbers)
        rows = [row for row in map(self._coordinates, values) if row is not None]
        self.bandwidth = silverman(np.stack(rows)) if rows else 1.0

    def prepare(self, values: Sequence[Any]) -> tuple[Floats, Floats]:
        """Return the ends of values as two arrays, ``(n, coordinates)``; NaN where a value has another type."""
        parsed = [self.parse(value) for value in values]
        size = next((len(one[0]) for one in parsed if one is not None), self.coordinates)
        nothing = np.full(size, np.nan)
        ends = [(nothing, nothing) if one is None else one for one in parsed]
        empty = np.empty((0, size))
        return (
            np.stack([low for low, _ in ends]) if ends else empty,
            np.stack([high for _, high in ends]) if ends else empty,
        )

    @property
    def coordinates(self) -> int:
        """Numbers per value."""
        return {"point": 3, "embedding": max(1, self.width)}.get(self.kind, 1)

    def pair_scores(
        self, a: tuple[Floats, Floats], a_rows: Integers, b: tuple[Floats, Floats], b_rows: Integers
    ) -> Floats:
        """Return the similarity of each pair of rows, between 0 and 1."""
        a_low, a_high, b_low, b_high = a[0][a_rows], a[1][a_rows], b[0][b_rows], b[1][b_rows]
        if self.kind == "embedding":
            return np.asarray(np.clip((a_low * b_low).sum(axis=1), 0, 1))
        gap = np.maximum(0, np.maximum(a_low - b_high, b_low - a_high))
        return np.asarray(np.exp(-np.square(gap / self.bandwidth).sum(axis=1) / 2))

    def encode(self, space: Space, ends: tuple[Floats, Floats], name: str) -> Tensor:
        """Return the hypervectors of prepared values, ``(n, dim, m, m)``; a range is the mean of points in it."""
        low, high = ends
        encoder = self._encoder(space, name)
        if self.kind == "embedding":
            rows = torch.from_numpy(low).to(encoder.dtype) @ encoder
            return torch.view_as_complex(rows.view(len(low), *space.shape, 2)).to(space.dtype)
        encoded: Tensor = encoder(torch.from_numpy(low))
        wide = np.flatnonzero((high > low).any(axis=1))
        if len(wide):
            steps = np.linspace(0, 1, _RANGE_POINTS)[:, None, None]
            points = low[wide] + steps * (high - low)[wide]
            mean = encoder(torch.from_numpy(points)).mean(dim=0)
            energy = torch.linalg.vector_norm(mean.flatten(1), dim=1) / math.sqrt(space.dim * space.m)
            encoded[wide] = mean / energy.clamp(min=1e-6)[:, None, None, None]
        return encoded

    def _encoder(self, space: Space, name: str) -> Any:
        if (space, name) not in self._encoders:
            if self.kind == "embedding":
                generator = space.generator(f"embedding {name}")
                made: Any = torch.randn(self.coordinates, 2 * space.total_dim, generator=generator)
                made *= math.sqrt(1 / (2 * space.m))  # unit vectors get the energy of an atom
            else:
                made = FractionalPower(space, self.coordinates, bandwidth=self.bandwidth, name=f"field {name}")
            self._encoders[space, name] = made
        return self._encoders[space, name]

    def state(self) -> dict[str, Tensor]:
        """Return what :meth:`fit` found, as tensors."""
        numbers = [self.bandwidth, float(self.logarithmic), float(self.width)]
        return {"kernel": torch.tensor(numbers, dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Use what :meth:`state` returned."""
        numbers = state["kernel"]
        if numbers.dtype != torch.float64 or numbers.shape != (3,) or not bool((numbers >= 0).all()):
            raise ValueError(f"the kernel of a field must be three numbers, got {describe(numbers)}")
        self.bandwidth, self.logarithmic, self.width = float(numbers[0]), bool(numbers[1]), int(numbers[2])


def silverman(rows: Floats) -> float:
    r"""Return a bandwidth by Silverman's rule, :math:`0.9\,\sigma n^{-1/5}`.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.kernel_fields import silverman
    >>> round(silverman(np.arange(1000.0)[:, None]), 1)
    65.3
    """
    deviations = rows.std(axis=0)
    quartiles = np.subtract(*np.percentile(rows, [75, 25], axis=0)) / 1.34
    scale = np.where(quartiles > 0, np.minimum(deviations, quartiles), deviations)
    typical = float(np.sqrt(np.mean(scale**2)))
    return 0.9 * typical * len(rows) ** -0.2 if typical > 0 else 1.0


def _is_skewed(numbers: Floats) -> bool:
    positive = numbers[numbers > 0]
    low, high = np.percentile(positive, [5, 95])
    return bool(high > 20 * low)


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

"""Values of a record: their names, scales of numbers, hypervectors, and which values occurred at which path."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import files
from ghrr._locks import Lock
from ghrr.checks import add_place, check_real, current_call, names_errors, value_error
from ghrr.encoding import FractionalPower
from ghrr.hypervector import Hypervector
from ghrr.space import Space
from ghrr.structures.record.paths import PathSettings
from ghrr.structures.vocabulary import Vocabulary

_CONSTANTS = {"null": None, "true": True, "false": False}
_MAX_BITS = 4096
_MAX_POINTS = 1 << 18  # points of a scale, which reading tries one by one
_SMALLEST, _LARGEST = 1e-30, 1e30  # bandwidths whose frequencies fit in single precision
_RESOLVED = 1e-3  # largest spacing of doubles at the ends of a scale, in bandwidths
_CHUNK_NUMBERS = 1 << 24  # complex numbers in the encodings that exist at a time: 128 MiB in complex64
_FEW = 64  # unsorted indices that are kept before sorting
ON_SCALE = -1  # index that stands for all numbers on the scale of a path

Integers = NDArray[np.int64]


@names_errors
def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text strictly: duplicate keys, NaN and infinity are errors.

    Examples
    --------
    >>> from ghrr.structures import parse_json
    >>> parse_json('{"name": "Ada", "name": "Grace"}')
    Traceback (most recent call last):
    ...
    ValueError: parse_json: not valid JSON (an object has the key 'name' more than once)
    """
    return files.parse_json(text, current_call(), strict=True)


def name_of(value: Any, where: Callable[[], str]) -> str:
    """Return the name of a JSON value, which includes its type: 1, "1" and True have different names.

    1 and 1.0 are the same number, as in JSON (below 10²¹, from which on floats are written with exponents). ``where``
    returns the path for error messages.
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return "string:" + value  # joined, because formatting an enum would give the name of its member
    if isinstance(value, (int, float)):
        return f"number:{_plain_number(value, where)!r}"
    return "object" if isinstance(value, dict) else "array"


def _plain_number(value: float, where: Callable[[], str]) -> float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise value_error(f"{where()}: integers can have at most {_MAX_BITS} bits, got one of {value.bit_length()}")
        return int(value)
    if not math.isfinite(value):
        raise value_error(f"{where()}: numbers must be finite as in JSON, got {value!r}")
    return int(value) if value.is_integer() and abs(value) < 1e21 else float(value)


def label_of(name: str) -> Any:
    """Return the value of a name; the name itself for a given hypervector."""
    try:
        return value_of(name)
    except ValueError:
        return name


def value_of(name: str) -> Any:
    """Return the JSON value of a name from :func:`name_of`."""
    kind, colon, text = name.partition(":")
    if kind == "string" and colon:
        return text
    if kind == "number" and colon:
        return float(text) if set(text) & set(".en") else int(text)
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name in {"object", "array"}:
        return {} if name == "object" else []
    raise ValueError(f"{name!r} is not the name of a JSON value")


@names_errors
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
        check_real("low", self.low, low=-math.inf, high=math.inf, open_ends=True)
        check_real("high", self.high, low=self.low, high=math.inf, open_ends=True)
        check_real("bandwidth", self.bandwidth, low=0.0, high=math.inf, open_ends=True)
        span = self.high - self.low
        if not math.isfinite(span):
            raise value_error(f"the length of the range must be finite, got {self!r}; give a smaller range")
        if 2 * span / self.bandwidth + 1 > _MAX_POINTS:
            raise value_error(
                f"{self!r} has {2 * span / self.bandwidth + 1:.3g} points to try when reading, expected at most "
                f"{_MAX_POINTS}; give a bandwidth of at least {2 * span / (_MAX_POINTS - 1):.3g}, or a smaller range"
            )
        check_real("bandwidth", self.bandwidth, low=_SMALLEST, high=_LARGEST)
        spacing = math.ulp(max(abs(self.low), abs(self.high)))
        if spacing > _RESOLVED * self.bandwidth:
            raise value_error(
                f"numbers near the end of {self!r} are {spacing:.3g} apart in double precision, expected at "
                f"most {_RESOLVED} of the bandwidth; encode the distance from a number in the range instead"
            )


Item = str | tuple[Scale, float]  # a name in the vocabulary, or a number on a scale


class ValueTable:
    """Values of a record and their hypervectors.

    Parameters
    ----------
    space
        Space of the hypervectors.
    numbers
        Scales of numbers by path.
    device
        Device of the hypervectors.
    """

    def __init__(self, space: Space, numbers: PathSettings[Scale | None], *, device: torch.device) -> None:
        self.space, self.device = space, device
        self.vocabulary = Vocabulary(space, "record value", device=device)
        self._common_scale = None if numbers.patterns else numbers.default
        self._encoders: dict[Scale, FractionalPower] = {}

    def encoder(self, scale: Scale) -> FractionalPower:
        """Return the encoder of a scale; different scales have independent encoders."""
        if scale not in self._encoders:
            ends = " ".join(repr(float(number)) for number in (scale.low, scale.high, scale.bandwidth))
            name = "record number" if scale == self._common_scale else f"record number {ends}"
            encoder = FractionalPower(self.space, 1, bandwidth=scale.bandwidth, name=name)
            self._encoders[scale] = encoder.to(self.device)
        return self._encoders[scale]

    def items(self, values: Sequence[Any], scales: Sequence[Scale | None], where: Callable[[int], str]) -> list[Item]:
        """Return values as items of this table; ``where(n)`` is the path of value n.

        Raises for values that cannot be encoded, before anything is added to the vocabulary.
        """
        items: list[Item] = []
        given: list[int] = []
        for n, (value, scale) in enumerate(zip(values, scales, strict=True)):
            if isinstance(value, Tensor | Hypervector):
                given.append(n)
                items.append("")
                continue
            name = name_of(value, lambda n=n: where(n))  # type: ignore[misc]
            if scale is None:
                items.append(name)
            elif scale.low <= value <= scale.high:
                items.append((scale, float(value)))
            else:
                raise value_error(f"{where(n)}: {value!r} is outside of {scale!r}; use a larger range")
        for n in given:
            try:
                items[n] = self.vocabulary.resolve(values[n])
            except (TypeError, ValueError) as error:
                raise add_place(error, where(n)) from None
        return items

    def vectors(self, items: Sequence[Item]) -> Tensor:
        """Return the hypervectors of items, ``(len(items), dim, m, m)``; new names are added."""
        vectors = torch.empty((len(items), *self.space.shape), dtype=self.space.dtype, device=self.device)
        for row_of, table in self.tables(items):
            is_in_table = row_of >= 0
            vectors[is_in_table] = table[row_of[is_in_table]]
        return vectors

    def tables(self, items: Sequence[Item]) -> Iterator[tuple[Integers, Tensor]]:
        """Yield the hypervectors of items in tables; new names are added.

        The first table belongs to the vocabulary; the others have numbers on a scale.

        Yields
        ------
        row_of, vectors
            The row of each item in the table, -1 for items in other tables, and the table, ``(n, dim, m, m)``.
        """
        yield self.indices(items), self.vocabulary.vectors()
        step = max(1, _CHUNK_NUMBERS // self.space.total_dim)
        by_scale: dict[Scale, list[int]] = {}
        for n, item in enumerate(items):
            if not isinstance(item, str):
                by_scale.setdefault(item[0], []).append(n)
        for scale, members in by_scale.items():
            for start in range(0, len(members), step):
                chosen = members[start : start + step]
                row_of = np.full(len(items), -1)
                row_of[chosen] = np.arange(len(chosen))
                numbers = torch.tensor([items[n][1] for n in chosen], dtype=torch.float64, device=self.device)
                yield row_of, self.encoder(scale)(numbers[:, None])

    def indices(self, items: Sequence[Item]) -> Integers:
        """Return the index of every item in the vocabulary, -1 for numbers on a scale; new names are added."""
        names = [item for item in items if isinstance(item, str)]
        rows = self.vocabulary.indices(names)
        if len(names) == len(items):
            return np.array(rows, dtype=np.int64)
        found = np.full(len(items), -1)
        found[[n for n, item in enumerate(items) if isinstance(item, str)]] = rows
        return found


@dataclass(slots=True)
class _NodeValues:
    sorted: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    unsorted: list[int] = field(default_factory=list)


class SeenValues:
    """Indices of the values that occurred at each node of a path tree.

    Each node has a sorted array. New indices are collected in a list until it is as long as the array, so adding takes
    amortised O(log n). Several threads may use one object.

    Examples
    --------
    >>> from ghrr.structures.record.values import SeenValues
    >>> seen = SeenValues()
    >>> seen.add([(4, [7, 2]), (4, [2, 3])])
    >>> seen.at(4), seen.at(5)
    (array([2, 3, 7]), None)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: dict[int, _NodeValues] = {}
        self._unrestricted: set[int] = set()

    def add(self, columns: Iterable[tuple[int, list[int]]]) -> None:
        """Add values, as indices, that occurred at nodes."""
        with self._lock:
            for node, indices in columns:
                values = self._nodes.get(node)
                if values is None:
                    values = self._nodes[node] = _NodeValues()
                values.unsorted += indices
                if len(values.unsorted) > max(_FEW, len(values.sorted)):
                    _sort(values)

    def allow_all(self, node: int) -> None:
        """Make every value a candidate at a node, because it is not known which occurred there."""
        with self._lock:
            self._unrestricted.add(node)

    def at(self, node: int | None) -> Integers | None:
        """Return the indices of the values that occurred at a node; None if every value is a candidate."""
        if node is None or node in self._unrestricted or node not in self._nodes:
            return None
        with self._lock:
            values = self._nodes[node]
            if values.unsorted:
                _sort(values)
            return values.sorted


def _sort(values: _NodeValues) -> None:
    # An interrupt between the two lines leaves indices in both: the next call has the same result.
    values.sorted = np.union1d(values.sorted, np.array(values.unsorted, dtype=np.int64))
    values.unsorted = []


@dataclass(frozen=True)
class Candidates:
    """Candidates of a path.

    Parameters
    ----------
    indices
        Rows of the vocabulary in ascending order; None for all.
    scale
        Scale whose numbers are candidates too.
    """

    indices: Integers | None
    scale: Scale | None

    @classmethod
    def of(cls, seen: Integers | None, scale: Scale | None) -> Candidates:
        """Return the candidates of a path with these seen values and this scale."""
        if seen is None:
            return cls(None, scale)
        on_scale = bool(len(seen)) and seen[0] == ON_SCALE
        return cls(seen[1:] if on_scale else seen, scale if on_scale else None)

    def count(self, vocabulary: Vocabulary) -> int:
        """Return the number of candidates."""
        atoms = len(vocabulary) if self.indices is None else len(self.indices)
        return atoms + (0 if self.scale is None else self.scale.points)

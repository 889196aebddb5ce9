r"""Filters: exact tests of the values of documents, for ``must`` and ``must_not``.

A filter is a part of a document. At each of its paths it has one of these, or a list of them, of which one must hold:

- a value: the record has an equal one. Text is equal without regard to case and to blanks around it. In a field of
  numbers or dates, values that can be read are equal as numbers or dates: ``"$1,200"`` equals 1200.
- a :class:`ghrr.search.Range`: the record has a number or a date in it. Its ends belong to it.
- :class:`ghrr.search.Contains`: the record has this text, without regard to case, in a value.
- None: the record has no value at this path, nor at a longer one.

Of a list in a record, one element has to fulfil it. The key ``"*"`` stands for all fields, of which one has to.

Documents decide. Engines that filter get bounds on numbers which leave out no record that fulfils the filter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr._similar import did_you_mean
from ghrr.checks import describe, type_error, value_error
from ghrr.encoding.column_values import Notation, parse_date, parse_number
from ghrr.memory import Bound
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engine_columns import FARTHEST, ROUNDING, column_name, limited, numbers_of
from ghrr.search.fields import Field, list_names
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import MAX_DEPTH, STAR, WHOLE, Column, Path, as_point, show
from ghrr.search.values import Contains, Range, fold, is_missing, normalize, plain

Test = Callable[[Any], bool]
Reader = Callable[[Any], Any]
_SINGLE_KINDS = ("point", "embedding")  # a list of numbers is one value


@dataclass(frozen=True)
class _Part:
    """What a filter has at one path."""

    path: Path
    fields: tuple[Field, ...]  # several for "*", none for a path that only longer ones begin with
    wanted: tuple[Any, ...]
    is_wanted: bool


class Filters:
    """Exact conditions that records have to fulfil.

    Parameters
    ----------
    encoder
        Encoder of the index.
    must, must_not
        Parts of documents; see :mod:`ghrr.search.filters`.
    """

    def __init__(
        self,
        encoder: RecordEncoder,
        must: Mapping[str, Any] | None,
        must_not: Mapping[str, Any] | None,
    ) -> None:
        self._fields = {one.path: one for one in encoder.fields if one.path != WHOLE}
        self._parts: list[_Part] = []
        self._tests: list[dict[Path, list[Test]]] = []
        for where, given, is_wanted in (("must", must, True), ("must_not", must_not, False)):
            found: dict[Path, list[Any]] = {}
            if given is not None:
                check_object(where, given)
                _collect(given, (), found, where, 0)
            for path, wanted in found.items():
                resolved = path if path in self._fields else encoder.aliases.get(path, path)
                part = _Part(resolved, self._fields_at(where, resolved, wanted), tuple(wanted), is_wanted)
                self._parts.append(part)
                self._tests.append(_tests(where, part))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def _fields_at(self, where: str, path: Path, wanted: Sequence[Any]) -> tuple[Field, ...]:
        if path in self._fields:
            return (self._fields[path],)
        if path == STAR and not any(map(_is_none, wanted)):
            return tuple(self._fields.values())
        if all(map(_is_none, wanted)) and any(one[: len(path)] == path for one in self._fields):
            return ()
        raise no_field(where, path, self._fields.values())

    def fulfilled(self, found: Mapping[Path, Column], count: int) -> NDArray[np.bool_]:
        """Return which of the documents, given as columns, fulfil all conditions."""
        keep = np.ones(count, dtype=bool)
        for part, tests in zip(self._parts, self._tests, strict=True):
            holds = np.zeros(count, dtype=bool)
            if any(map(_is_none, part.wanted)):
                holds[:] = True
                for path, column in found.items():
                    if path[: len(part.path)] == part.path:
                        holds[column.rows] = False
            for path, own in tests.items():
                if path not in found:
                    continue
                for row, value in zip(found[path].rows, found[path].values, strict=True):
                    elements = _elements(value, self._fields[path].kind)
                    holds[row] = holds[row] or any(test(element) for element in elements for test in own)
            keep &= holds if part.is_wanted else ~holds
        return keep

    def bounds(self) -> list[Bound]:
        """Return bounds that every record which fulfils the conditions is within, if it has one number."""
        return [bound for part in self._parts if len(part.fields) == 1 for bound in _bounds(part, part.fields[0])]


def check_object(where: str, given: Any) -> None:
    """Raise TypeError unless a condition is a part of a document."""
    if not isinstance(given, Mapping):
        raise type_error(f"{where} must be an object with fields, such as a dict, got {describe(given)}")


def no_field(where: str, path: Path, fields: Iterable[Field]) -> ValueError:
    """Return the error for a condition at a path without a field."""
    names = [field.name for field in fields]
    return value_error(
        f"{where}: there is no field {show(path)!r} to compare, expected one of {list_names(names)}"
        f"{did_you_mean(show(path), names)}; leave it out, or add documents with this field"
    )


def _is_none(wanted: Any) -> bool:
    return wanted is None


# ----------------------------------------------------------------------------------------------------------- conditions


def _collect(value: Any, path: Path, found: dict[Path, list[Any]], where: str, depth: int) -> None:
    """Add the values of a condition to the values at each path."""
    if depth > MAX_DEPTH:
        raise value_error(f"{where} is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it first")
    value = plain(value)
    if isinstance(value, Mapping):
        point = as_point(value) if path else None
        if point is not None:
            found.setdefault(path, []).append(point)
            return
        if path and not value:
            raise _nothing(where, path, value)
        for key, child in value.items():
            if not isinstance(key, str):
                raise type_error(f"{where}: a key must be a string as in JSON, got {describe(key)}")
            _collect(child, (*path, normalize(key)), found, where, depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise _nothing(where, path, value)
        for element in value:
            _collect(element, path, found, where, depth + 1)
    else:
        found.setdefault(path, []).append(_checked(value, path, where))


def _checked(value: Any, path: Path, where: str) -> Any:
    if isinstance(value, Range) and value.low is None and value.high is None:
        raise value_error(f"{where}: {show(path)!r} needs a range with at least one end, got {value!r}")
    if isinstance(value, Contains) and (not isinstance(value.text, str) or not value.text):
        raise value_error(f"{where}: {show(path)!r} must contain a text that is not empty, got {value!r}")
    return None if is_missing(value) else value


def _nothing(where: str, path: Path, value: Any) -> ValueError:
    return value_error(
        f"{where}: {show(path)!r} needs a value, got {describe(value)}; use None for records without a value"
    )


# ---------------------------------------------------------------------------------------------------------------- tests


def _tests(where: str, part: _Part) -> dict[Path, list[Test]]:
    """Return the tests of a value at each path; one of them has to hold."""
    found: dict[Path, list[Test]] = {}
    for field in part.fields:
        wanted = [one for one in part.wanted if one is not None]
        equal = [one for one in wanted if not isinstance(one, Range | Contains)]
        if field.kind in _SINGLE_KINDS and equal and all(map(_is_number, equal)):
            equal = [tuple(equal), *equal[:1]] if len(equal) == 1 else [tuple(equal)]
        tests = [_contains(one.text) for one in wanted if isinstance(one, Contains)]
        for one in wanted:
            if isinstance(one, Range):
                inside = _inside(field, one)
                if inside is not None:
                    tests.append(inside)
                elif len(part.fields) == 1:
                    kind = field.kind if field.kind in ("number", "date") else "number or a date"
                    raise value_error(
                        f"{where}: {field.name!r} must be a {kind}, got {one!r}; a range needs two such ends, the "
                        f"lower first, or None for an open end"
                    )
        if equal:
            tests.append(_equals(field, equal))
        if tests:
            found[field.path] = tests
    return found


def _equals(field: Field, wanted: Sequence[Any]) -> Test:
    keys = {_key(field, one) for one in wanted}
    return lambda value: _key(field, value) in keys


def _contains(text: str) -> Test:
    letters = _letters(text)
    return lambda value: letters in _letters(value)


def _letters(value: Any) -> str:
    return normalize(value.casefold()) if isinstance(value, str) else fold(value)


def _inside(field: Field, wanted: Range) -> Test | None:
    """Return the test of a range, or None if its ends have no order in a field."""
    for read in _readers(field):
        low, high = (None if end is None else read(plain(end)) for end in (wanted.low, wanted.high))
        is_read = (low is None) == (wanted.low is None) and (high is None) == (wanted.high is None)
        if is_read and (low is None or high is None or low <= high):
            return lambda value, read=read, low=low, high=high: _is_between(read(value), low, high)  # type: ignore[misc]
    return None


def _is_between(number: Any, low: Any, high: Any) -> bool:
    return number is not None and (low is None or low <= number) and (high is None or number <= high)


def _key(field: Field, value: Any) -> Any:
    """Return a key of a value: equal values have equal keys."""
    if isinstance(value, tuple):
        return tuple(_key(field, one) for one in value)
    if field.kind in ("number", "date"):
        number = _readers(field)[0](value)
        if number is not None:
            return number
    return fold(value)


def _readers(field: Field) -> list[Reader]:
    """Return the functions that read an ordered value of a field; they return None for others."""
    notation = field.encoder.notation if isinstance(field.encoder, KernelField) else Notation()
    number: Reader = lambda value: _exact_number(value, notation)  # noqa: E731
    date: Reader = lambda value: parse_date(value, notation)  # noqa: E731
    return {"number": [number], "date": [date]}.get(field.kind, [number, date])


def _exact_number(value: Any, notation: Notation) -> float | None:
    """Return a number as it is, so that large integers are not rounded, or read it from text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else None
    return parse_number(value, notation)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _elements(value: Any, kind: str) -> Sequence[Any]:
    """Return the values of a record at one path; a point and a vector are one value."""
    if not isinstance(value, list):
        return (value,)
    if kind in _SINGLE_KINDS and all(map(_is_number, value)):
        return (tuple(value),)
    return value


# --------------------------------------------------------------------------------------------------------------- bounds


def _bounds(part: _Part, field: Field) -> list[Bound]:
    """Return bounds of one column. Rows without a number, such as lists, are left to the documents."""
    if any(one is None or isinstance(one, Contains) for one in part.wanted):
        return []
    name = column_name(field)
    if isinstance(field.encoder, KernelField) and field.kind in ("number", "date"):
        ends = [_ends(field.encoder, one) for one in part.wanted]
        known = [pair for pair in ends if pair is not None]
        if part.is_wanted and len(known) == len(ends):
            low, high = min(low for low, _ in known), max(high for _, high in known)
            return [Bound(name, _moved(low, -1), _moved(high, 1), or_missing=True)]
        if not part.is_wanted:
            inner = [(max(_moved(low, 1), -FARTHEST), _moved(high, -1)) for low, high in known]
            return [Bound(name, low, high, inside=False) for low, high in inner if low <= high]
    if field.kind in ("category", "boolean") and part.is_wanted and field.encoder is not None:
        if any(isinstance(one, Range) for one in part.wanted):
            return []
        values: Any = field.encoder.prepare(list(part.wanted))
        hashes = numbers_of(field, values, np.flatnonzero(values.present))[0]
        return [Bound(name, float(hashes.min()), float(hashes.max()), or_missing=True)] if len(hashes) else []
    return []


def _ends(encoder: KernelField, wanted: Any) -> tuple[float, float] | None:
    """Return the lowest and the highest coordinate of a value; None if it is not compared as a number."""
    parsed = encoder.parse(wanted)
    return None if parsed is None else (float(parsed[0][0]), float(parsed[1][0]))


def _moved(end: float, sign: int) -> float:
    """Return an end of an interval, moved by more than the rounding of numbers near it."""
    return limited(end + sign * ROUNDING * (1 + abs(end)))

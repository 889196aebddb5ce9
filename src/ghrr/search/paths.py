"""Paths: documents as columns, one for each path, with the rows that have a value there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ghrr.checks import describe, type_error, value_error
from ghrr.search.values import SCALARS, is_missing, normalize, plain

Path = tuple[str, ...]
Leaves = dict[Path, Any]  # the values of one document
WHOLE: Path = ()  # the text of all fields, which has no key of its own
STAR: Path = ("*",)  # the key under which an example gives that text; a document may have a field of this name
MAX_DEPTH = 100
MAX_LEAVES = 100_000  # values of one document
_LATITUDE, _LONGITUDE = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


@dataclass
class Column:
    """Values at one path: the rows that have one, ascending, and their values."""

    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def show(path: Path) -> str:
    r"""Return a path as text, ``"born.city"``. Different paths have different texts.

    A dot or a backslash in a key is written with a backslash before it. ``"*"`` is the text of all fields, so a field
    of that name is ``"\*"``.

    Examples
    --------
    >>> from ghrr.search.paths import WHOLE, show
    >>> print(*map(show, [("born", "city"), ("born.city",), ("*",), WHOLE]))
    born.city born\.city \* *
    """
    name = ".".join(key.replace("\\", r"\\").replace(".", r"\.") for key in path)
    if name == "*":
        return r"\*"
    return "*" if path == WHOLE else name


def columns(documents: Sequence[Mapping[str, Any]], *, noun: str = "document") -> dict[Path, Column]:
    """Split documents into columns by path; see :func:`split`.

    Examples
    --------
    >>> from ghrr.search.paths import columns
    >>> found = columns([{"name": "Ada", "born": {"city": "London"}}, {"name": None, "tags": ["a", "b"]}])
    >>> {path: (column.rows, column.values) for path, column in found.items()}
    {('name',): ([0], ['Ada']), ('born', 'city'): ([0], ['London']), ('tags',): ([1], [['a', 'b']])}
    """
    return as_columns(split(documents, noun=noun))


def as_columns(parts: Sequence[Leaves]) -> dict[Path, Column]:
    """Return the values of documents by path as columns."""
    found: dict[Path, Column] = {}
    for row, leaves in enumerate(parts):
        for path, value in leaves.items():
            column = found.get(path)
            if column is None:
                column = found[path] = Column()
            column.rows.append(row)
            column.values.append(value)
    return found


def split(documents: Sequence[Mapping[str, Any]], *, noun: str = "document") -> list[Leaves]:
    """Return the values of each document by path.

    ``None``, NaN, infinity and empty strings, lists and objects count as missing
    (:func:`ghrr.search.values.is_missing`). An object of a latitude and a longitude is one value, a point. The objects
    of a list share the paths of their keys: each path has the list of their values. Keys are in the composed form of
    Unicode; the values of keys that become equal are one list. Error messages call a document by the ``noun``.

    Examples
    --------
    >>> from ghrr.search.paths import split
    >>> split([{"name": "Ada", "born": {"city": "London"}}, {"name": None, "tags": ["a", "b"]}])
    [{('name',): 'Ada', ('born', 'city'): 'London'}, {('tags',): ['a', 'b']}]
    """
    parts: list[Leaves] = []
    for row, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise type_error(f"{noun} {row} must be an object with fields, such as a dict, got {describe(document)}")
        leaves: Leaves = {}
        _collect(document, (), leaves, f"{noun} {row}", 0)
        parts.append(leaves)
    return parts


def _collect(value: Any, path: Path, leaves: Leaves, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise value_error(f"{where} is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it first")
    value = plain(value)
    if isinstance(value, Mapping):
        _collect_children(value, path, leaves, where, depth)
    elif isinstance(value, list | tuple):
        _check_size(len(leaves) + len(value), where)
        elements = [element if type(element) in SCALARS else plain(element) for element in value]
        if any(isinstance(element, Mapping | list | tuple) for element in elements):
            _collect_elements(elements, path, leaves, where, depth)
        else:
            present = [element for element in elements if not is_missing(element)]
            if present:
                _put(leaves, path, present)
    elif not is_missing(value):
        _put(leaves, path, value)


def _put(leaves: Leaves, path: Path, value: Any) -> None:
    """Set the value of a path, or make a list of all values if two keys have the same path."""
    if path in leaves:
        _extend(leaves, path, value)
    else:
        leaves[path] = value


def _extend(leaves: Leaves, path: Path, value: Any) -> None:
    values = leaves.get(path)
    if not isinstance(values, list):
        values = leaves[path] = [] if values is None else [values]
    values.extend(value if isinstance(value, list) else [value])


def _check_size(count: int, where: str) -> None:
    if count > MAX_LEAVES:
        raise value_error(f"{where} has more than {MAX_LEAVES:,} values; split it, or leave fields out")


def _collect_children(value: Mapping[str, Any], path: Path, leaves: Leaves, where: str, depth: int) -> None:
    point = as_point(value) if path else None
    if point is not None:
        _put(leaves, path, point)
        return
    _check_size(len(leaves) + len(value), where)
    for key, child in value.items():
        if not isinstance(key, str):
            raise type_error(f"{where}: a key must be a string as in JSON, got {describe(key)} in {'.'.join(path)!r}")
        one = (*path, normalize(key))
        if type(child) not in SCALARS:  # isinstance of a Mapping is slow
            _collect(child, one, leaves, where, depth + 1)
        elif not is_missing(child):
            _put(leaves, one, child)


def _collect_elements(value: Sequence[Any], path: Path, leaves: Leaves, where: str, depth: int) -> None:
    """Merge the values of the elements of a list: one list for each path."""
    for element in value:
        inner: Leaves = {}
        _collect(element, path, inner, where, depth + 1)
        for one, leaf in inner.items():
            _extend(leaves, one, leaf)


def as_point(value: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return latitude and longitude of an object that has these two keys and no other, or None."""
    if len(value) != 2:
        return None
    names = {str(key).lower(): key for key in value}
    latitude = next((names[name] for name in _LATITUDE if name in names), None)
    longitude = next((names[name] for name in _LONGITUDE if name in names), None)
    if latitude is None or longitude is None:
        return None
    pair = [plain(value[latitude]), plain(value[longitude])]
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in pair):
        return None
    try:
        latitude_longitude = (float(pair[0]), float(pair[1]))
    except OverflowError:
        return None
    return latitude_longitude if all(map(math.isfinite, latitude_longitude)) else None

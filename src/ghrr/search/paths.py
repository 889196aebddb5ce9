"""Paths: documents as columns, one for each path, with the rows that have a value there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ghrr._checks import describe

Path = tuple[str, ...]
WHOLE: Path = ("*",)  # the text of all fields
MAX_DEPTH = 100
MAX_LEAVES = 100_000  # values of one document
_MISSING = ("NAType", "NaTType")  # of pandas
_SCALARS = frozenset({str, int, float, bool})
_LATITUDE, _LONGITUDE = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


@dataclass
class Column:
    """Values at one path: the rows that have one, ascending, and their values."""

    rows: list[int] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)


def show(path: Path) -> str:
    """Return a path as text, ``"born.city"``."""
    return ".".join(path)


def columns(
    documents: Sequence[Mapping[str, Any]], operation: str = "RecordIndex", *, first: int = 0
) -> dict[Path, Column]:
    """Split documents into columns by path.

    ``None``, NaN, infinity and empty strings, lists and objects count as missing. An object of a latitude and a
    longitude is one value, a point. The objects of a list share the paths of their keys: each path has the list of
    their values. Error messages number the documents from ``first`` on.

    Examples
    --------
    >>> from ghrr.search.paths import columns
    >>> found = columns([{"name": "Ada", "born": {"city": "London"}}, {"name": None, "tags": ["a", "b"]}])
    >>> {path: (column.rows, column.values) for path, column in found.items()}
    {('name',): ([0], ['Ada']), ('born', 'city'): ([0], ['London']), ('tags',): ([1], [['a', 'b']])}
    """
    found: dict[Path, Column] = {}
    for row, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise TypeError(
                f"{operation}: document {first + row} must be an object with fields, such as a dict, got "
                f"{describe(document)}"
            )
        leaves: dict[Path, Any] = {}
        _collect(document, (), leaves, f"{operation}: document {first + row}", 0)
        for path, value in leaves.items():
            column = found.get(path)
            if column is None:
                column = found[path] = Column()
            column.rows.append(row)
            column.values.append(value)
    return found


def _collect(value: Any, path: Path, leaves: dict[Path, Any], where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it first")
    if hasattr(value, "tolist"):  # an array or a number of NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        _collect_children(value, path, leaves, where, depth)
    elif isinstance(value, list | tuple):
        _check_size(len(leaves) + len(value), where)
        if any(isinstance(element, Mapping | list | tuple) for element in value):
            _collect_elements(value, path, leaves, where, depth)
        else:
            present = [element for element in value if not is_missing(element)]
            if present:
                leaves[path] = present
    elif not is_missing(value):
        leaves[path] = value


def _check_size(count: int, where: str) -> None:
    if count > MAX_LEAVES:
        raise ValueError(f"{where} has more than {MAX_LEAVES:,} values; split it, or leave fields out")


def _collect_children(value: Mapping[str, Any], path: Path, leaves: dict[Path, Any], where: str, depth: int) -> None:
    point = as_point(value) if path else None
    if point is not None:
        leaves[path] = point
        return
    _check_size(len(leaves) + len(value), where)
    for key, child in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{where}: a key must be a string as in JSON, got {describe(key)} at {show(path)!r}")
        if type(child) not in _SCALARS:  # isinstance of a Mapping is slow
            _collect(child, (*path, key), leaves, where, depth + 1)
        elif not is_missing(child):
            leaves[*path, key] = child


def _collect_elements(value: Sequence[Any], path: Path, leaves: dict[Path, Any], where: str, depth: int) -> None:
    """Merge the values of the elements of a list: one list for each path."""
    for element in value:
        inner: dict[Path, Any] = {}
        _collect(element, path, inner, where, depth + 1)
        for one, leaf in inner.items():
            leaves.setdefault(one, []).extend(leaf if isinstance(leaf, list) else [leaf])


def is_missing(value: Any) -> bool:
    """Whether a value counts as missing: None, an empty string, NaN and infinity, and NA and NaT of pandas."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float) and not math.isfinite(value)) or type(value).__name__ in _MISSING


def as_point(value: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return latitude and longitude of an object that has these two keys and no other, or None."""
    if len(value) != 2:
        return None
    names = {str(key).lower(): key for key in value}
    latitude = next((names[name] for name in _LATITUDE if name in names), None)
    longitude = next((names[name] for name in _LONGITUDE if name in names), None)
    if latitude is None or longitude is None:
        return None
    pair = (value[latitude], value[longitude])
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in pair):
        return None
    return (float(pair[0]), float(pair[1]))

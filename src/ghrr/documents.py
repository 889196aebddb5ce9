r"""Nested documents: dicts, lists and values, as columns of values by path.

A path is a tuple of keys: a string is a key of a dict, an integer an index of a list, and None any element of a list
whose elements are not distinguished. ``born.city`` and ``tags[0]`` are paths as text (:func:`show_path`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import describe, names_errors, type_error, value_error

__all__ = ["MAX_DEPTH", "Column", "Key", "Path", "check_path", "columns", "leaves", "parse_path", "show_path"]

MAX_DEPTH = 100  # of nesting
_ATOMIC = frozenset({str, int, float, bool, type(None)})
_JSON_TYPES = (dict, list, tuple, str, bool, int, float)
_INDEX = r"\[(\d+|\*)\]"
_PART = re.compile(rf"{_INDEX}|\.((?:\\[\\.\[$\d]|(?!{_INDEX})[^.])*)")  # an index, or a key after a dot

Key = str | int | None
Path = tuple[Key, ...]
Integers = NDArray[np.int64]


class Column(NamedTuple):
    """Values of one type at one path, of documents of the same form there. A path can have several columns.

    Parameters
    ----------
    path
        Where the values are.
    kind
        Their type: str, int, float, bool, ``type(None)``, one of the other types that :func:`columns` was given, or
        dict or list for empty ones. Types derived from these, and tuples, count as these.
    rows
        The number of the document of each value, ascending.
    values
        The values.
    """

    path: Path
    kind: type
    rows: Integers
    values: Sequence[Any]


@names_errors
def columns(
    documents: Sequence[Any],
    *,
    root: Path = (),
    is_set: Callable[[Path], bool] = lambda _: False,
    other: Mapping[type, str] | None = None,
) -> list[Column]:
    """Split documents into columns of values by path, in the order of the first document that has them.

    Empty dicts and lists are values. The values under one path are processed together for all documents, so that many
    documents of the same form take little more time than one.

    Parameters
    ----------
    documents
        Nested dicts, lists, strings, numbers, booleans and None, at most 100 levels deep.
    root
        Path of the documents.
    is_set
        Whether the elements of the list at a path are not distinguished. They then share a path that ends with None,
        and must be single values.
    other
        Further types of values, with their names in the plural for error messages.

    Examples
    --------
    >>> from ghrr.documents import columns
    >>> for column in columns([{"name": "Ada", "tags": ["poet"]}, {"name": "Alan", "tags": []}]):
    ...     print(column.path, column.kind.__name__, column.rows, column.values)
    ('name',) str [0 1] ['Ada', 'Alan']
    ('tags', 0) str [0] ['poet']
    ('tags',) list [1] [[]]
    """
    walk = _Walk(documents, len(root), is_set, other or {})
    walk.add(documents, np.arange(len(documents)), root)
    return walk.columns


@names_errors
def leaves(document: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the path and the value of every leaf of a document; empty dicts and lists are values.

    Examples
    --------
    >>> from ghrr.documents import leaves
    >>> list(leaves({"name": "Ada", "tags": ["poet", "countess"]}))
    [(('name',), 'Ada'), (('tags', 0), 'poet'), (('tags', 1), 'countess')]
    """
    for column in columns([document]):
        path: Any = column.path  # no key is None, because no list is a set
        yield path, column.values[0]


class _Walk:
    """Collects the columns of some documents; see :func:`columns`."""

    def __init__(
        self,
        documents: Sequence[Any],
        root_depth: int,
        is_set: Callable[[Path], bool],
        other: Mapping[type, str],
    ) -> None:
        self.documents, self.root_depth = documents, root_depth
        self.is_set, self.other = is_set, other
        self.columns: list[Column] = []

    def add(self, values: Sequence[Any], rows: Integers, path: Path) -> None:
        """Add the values at a path; ``rows`` are the numbers of their documents."""
        for given, members in _grouped(type, values):
            kind = given if given in _ATOMIC else self._kind(given, path, values[members[0]])
            group, group_rows = _chosen(values, rows, members)
            if kind is dict or kind is list:
                self._add_branches(kind, group, group_rows, path)
            else:
                self.columns.append(Column(path, kind, group_rows, group))

    def _add_branches(self, kind: type, values: Sequence[Any], rows: Integers, path: Path) -> None:
        """Split dicts with the same keys in the same order, or lists of the same length, into columns."""
        as_set = kind is list and self.is_set(path)
        for shape, members in _grouped(tuple if kind is dict else len, values):
            group, group_rows = _chosen(values, rows, members)
            if not shape:
                self.columns.append(Column(path, kind, group_rows, group))
                continue
            if len(path) - self.root_depth >= MAX_DEPTH:
                self._raise_for_depth(self.documents[group_rows[0]], path[self.root_depth :])
            if as_set:
                self._add_elements(group, np.repeat(group_rows, shape), path)
                continue
            for key in shape if kind is dict else range(shape):
                if kind is dict and not isinstance(key, str):
                    raise type_error(f"{show_path(path)}: a key must be a string as in JSON, got {describe(key)}")
                self.add(list(map(itemgetter(key), group)), group_rows, (*path, key))

    def _add_elements(self, lists: Sequence[Sequence[Any]], rows: Integers, path: Path) -> None:
        """Add the elements of lists that are encoded as sets: all under one path."""
        elements = list(itertools.chain.from_iterable(lists))
        nested = next((element for element in elements if isinstance(element, dict | list | tuple) and element), None)
        if nested is not None:
            raise value_error(
                f"{show_path(path)}: an element of a list that is encoded as a set must be a "
                f'single value, got {describe(nested)}; use lists="positions" for this path'
            )
        self.add(elements, rows, (*path, None))

    def _kind(self, given: type, path: Path, value: Any) -> type:
        for kind in (*_JSON_TYPES, *self.other):
            if issubclass(given, kind):
                return list if kind is tuple else kind
        *first, last = "dicts", "lists", "strings", "numbers", "booleans", "None", *dict.fromkeys(self.other.values())
        raise type_error(f"{show_path(path)}: cannot encode {describe(value)}, expected {', '.join(first)} or {last}")

    def _raise_for_depth(self, document: Any, path: Path) -> NoReturn:
        """Raise for data that continues at a path of ``MAX_DEPTH`` keys: it contains itself, or is nested deeply."""
        seen: dict[int, Path] = {}
        value = document
        for depth in range(len(path) + 1):
            if id(value) in seen:
                where, first = show_path(path[:depth]), show_path(seen[id(value)])
                raise value_error(f"{where}: the data is cyclic, this object is also at {first}")
            seen[id(value)] = path[:depth]
            value = value[path[depth]] if depth < len(path) else None
        raise value_error(f"{show_path(path[:3])}...: the data is nested deeper than {MAX_DEPTH} levels")


def _grouped(label: Callable[[Any], Any], values: Sequence[Any]) -> list[tuple[Any, Sequence[int]]]:
    """Return each distinct label with the indices of its values, in the order of first occurrence.

    Labels are made one at a time, because thousands of live tuples would slow down the garbage collector.
    """
    if len(values) == 1:
        return [(label(values[0]), range(1))]
    labels = set(map(label, values))
    if len(labels) == 1:
        return [(labels.pop(), range(len(values)))]
    groups: dict[Any, list[int]] = {}
    for n, value in enumerate(values):
        groups.setdefault(label(value), []).append(n)
    return list(groups.items())


def _chosen(values: Sequence[Any], rows: Integers, members: Sequence[int]) -> tuple[Sequence[Any], Integers]:
    if len(members) == len(values):
        return values, rows
    return [values[n] for n in members], rows[np.array(members)]


def check_path(path: Any) -> Path:
    """Return a path as a tuple: a single key, or a sequence of keys, where an integer is a list index.

    Examples
    --------
    >>> from ghrr.documents import check_path
    >>> check_path("name"), check_path(["tags", 0])
    (('name',), ('tags', 0))
    """
    keys = (path,) if isinstance(path, str | int) else path
    if not isinstance(keys, Sequence):
        raise type_error(
            f"path must be a key or a list of keys and list indices, such as ['born', 'city']; got {describe(path)}"
        )
    for key in keys:
        if not isinstance(key, str) and (not isinstance(key, int) or isinstance(key, bool) or key < 0):
            raise type_error(f"a key of a path must be a string or a list index from 0, got {describe(key)}")
    if len(keys) > MAX_DEPTH:
        raise value_error(f"path has {len(keys)} keys, expected at most {MAX_DEPTH}")
    return tuple(keys)


def show_path(path: Path) -> str:
    r"""Return a path as text: born.city, tags[0], tags[*] for any element of a list; the root is $.

    Dots, opening brackets and backslashes in a key have a backslash before them, as have keys that consist of digits,
    so that :func:`parse_path` returns the path, unless its first key is empty.

    Examples
    --------
    >>> from ghrr.documents import show_path
    >>> print(*map(show_path, [("born", "city"), ("born.city",), ("tags", 0), ("tags", "0"), ("tags", None), ()]))
    born.city born\.city tags[0] tags.\0 tags[*] $
    """
    parts = (f".{_escaped(key)}" if isinstance(key, str) else "[*]" if key is None else f"[{key}]" for key in path)
    return "".join(parts).removeprefix(".") or "$"


def _escaped(key: str) -> str:
    return f"\\{key}" if key == "$" or key.isdecimal() else re.sub(r"([\\.\[])", r"\\\1", key)


@names_errors
def parse_path(text: str) -> Path:
    r"""Return the path that :func:`show_path` writes as this text; ``tags.0`` is ``tags[0]`` too.

    Examples
    --------
    >>> from ghrr.documents import parse_path
    >>> parse_path("born.city"), parse_path(r"born\.city"), parse_path("tags[0]"), parse_path("tags.0")
    (('born', 'city'), ('born.city',), ('tags', 0), ('tags', 0))
    """
    if text in {"", "$"}:
        return ()
    keys: list[Key] = []
    rest = text if re.match(_INDEX, text) else f".{text}"
    while rest:
        part = _PART.match(rest)
        if part is None:
            raise value_error(f"a dot or an index must follow an index, got {rest!r} in {text!r}")
        index, key = part[1], part[2]
        if index is not None:
            keys.append(None if index == "*" else int(index))
        else:
            keys.append(int(key) if key.isdecimal() else re.sub(r"\\([\\.\[$\d])", r"\1", key))
        rest = rest[part.end() :]
    return tuple(keys)

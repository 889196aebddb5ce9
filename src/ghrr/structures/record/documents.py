"""The leaves of many documents as arrays: in which document, under which path, and which of the distinct values."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import describe
from ghrr.hypervector import Hypervector
from ghrr.structures.layout import MOST_DEPTH, Layout, Path, show
from ghrr.structures.record.by_path import ByPath
from ghrr.structures.record.scale import Scale

_ATOMIC = frozenset({str, int, float, bool, type(None)})

Lists = Literal["positions", "set"]
Numbers = NDArray[np.int64]


class Batch:
    """The leaves of a batch of documents. A leaf is a row, a node of the layout and the number of its value.

    Values under one path are handled together for all documents, as a column.

    Parameters
    ----------
    layout
        New paths are added to it.
    documents
        JSON values, whose roots are at ``node``.
    numbers, lists
        Scales of numbers and encoding of lists, by path.
    """

    def __init__(
        self,
        layout: Layout,
        documents: Sequence[Any],
        node: int = 0,
        *,
        numbers: ByPath[Scale | None],
        lists: ByPath[Lists],
    ) -> None:
        self.layout, self.documents = layout, documents
        self._numbers, self._lists = numbers, lists
        self.values: list[Any] = []
        self.scales: list[Scale | None] = []  # of each value; None for values that are atoms
        self._first: list[int] = []  # the node at which each value was seen first
        self._top = len(layout.path(node))
        number = itertools.count()
        self._tables: dict[Any, dict[Any, int]] = defaultdict(lambda: defaultdict(number.__next__))
        self.columns: list[tuple[int, Numbers, Numbers]] = []  # node, rows, numbers of values
        self._add(documents, np.arange(len(documents)), node)

    @property
    def nodes(self) -> list[int]:
        """Return the nodes at which there are leaves."""
        return list(dict.fromkeys(node for node, _, _ in self.columns))

    def where(self, value: int) -> str:
        """Return the path at which a value was seen first, as people write it."""
        return show(self.layout.path(self._first[value]))

    def leaves(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return nodes and values of all leaves, document by document, and the start of each document, and the end."""
        nothing = np.empty(0, dtype=np.int64)
        rows = np.concatenate([nothing, *(rows for _, rows, _ in self.columns)])
        nodes = np.concatenate([nothing, *(np.full(len(rows), node) for node, rows, _ in self.columns)])
        values = np.concatenate([nothing, *(numbers for _, _, numbers in self.columns)])
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=len(self.documents))
        return nodes[order], values[order], np.concatenate([[0], np.cumsum(counts)])

    def _add(self, values: Sequence[Any], rows: Numbers, node: int) -> None:
        """Add the values at a node; ``rows`` are the numbers of their documents."""
        for given, members in _grouped(type, values):
            kind = self._plain_kind(given, node, values[members[0]])
            if kind in _ATOMIC or kind is Tensor:
                self._add_leaves(kind, *_chosen(values, rows, members), node)
            else:
                self._add_branches(kind, *_chosen(values, rows, members), node)

    def _add_branches(self, kind: type, values: Sequence[Any], rows: Numbers, node: int) -> None:
        """Split dicts with the same keys in the same order, or lists of the same length, into columns."""
        as_set = kind is list and self._is_set(node)
        for shape, members in _grouped(tuple if kind is dict else len, values):
            alike, theirs = _chosen(values, rows, members)
            if not shape:
                self._add_leaves(kind, [None] * len(alike), theirs, node)
                continue
            self._check_depth(node, theirs)
            if as_set:
                self._add_elements(alike, np.repeat(theirs, shape), node)
                continue
            for part in shape if kind is dict else range(shape):
                if kind is dict:
                    self._check_key(node, part)
                self._add(list(map(itemgetter(part), alike)), theirs, self.layout.child(node, part))

    def _add_elements(self, lists: Sequence[Sequence[Any]], rows: Numbers, node: int) -> None:
        """Add the elements of lists that are sets: all under one path."""
        elements = list(itertools.chain.from_iterable(lists))
        nested = next((element for element in elements if isinstance(element, dict | list | tuple) and element), None)
        if nested is not None:
            raise ValueError(
                f"Record: {show(self.layout.path(node))}: an element of a list that is encoded as a set must be a "
                f'single value, got {describe(nested)}; use lists="positions" for this path'
            )
        self._add(elements, rows, self.layout.child(node, None))

    def _add_leaves(self, kind: type, values: Sequence[Any], rows: Numbers, node: int) -> None:
        scale = self._scale(node) if kind is int or kind is float else None
        table = self._tables[kind if scale is None else (kind, scale)]
        known = len(table)
        keys = values if kind is not Tensor else [(known, at) for at in range(len(values))]  # vectors are not compared
        numbers = np.fromiter(map(table.__getitem__, keys), dtype=np.int64, count=len(values))
        if kind is Tensor:
            self.values.extend(values)
        elif kind in _ATOMIC:
            self.values.extend(itertools.islice(table, known, None))  # those that were numbered just now
        else:
            self.values.extend(kind() for _ in range(len(table) - known))
        new = len(table) - known
        self.scales.extend([scale] * new)
        self._first.extend([node] * new)
        self.columns.append((node, rows, numbers))

    def _scale(self, node: int) -> Scale | None:
        return self._numbers.at(self.layout.path(node)) if self._numbers.patterns else self._numbers.default

    def _is_set(self, node: int) -> bool:
        lists = self._lists
        return (lists.at(self.layout.path(node)) if lists.patterns else lists.default) == "set"

    def _plain_kind(self, given: type, node: int, value: Any) -> type:
        """The kind of data of a type: subclasses count, a tuple is a list, a Hypervector a tensor."""
        if given in _ATOMIC:
            return given
        for kind in (dict, list, tuple, str, bool, int, float, Tensor, Hypervector):
            if issubclass(given, kind):
                return list if kind is tuple else Tensor if kind is Hypervector else kind
        raise TypeError(
            f"Record: {show(self.layout.path(node))}: {describe(value)} cannot be encoded; a record holds dicts, "
            f"lists, strings, numbers, booleans, None and hypervectors"
        )

    def _check_depth(self, node: int, rows: Numbers) -> None:
        if self.layout.depth(node) - self._top >= MOST_DEPTH:
            _refuse_depth(self.documents[rows[0]], self.layout.path(node)[self._top :])

    def _check_key(self, node: int, key: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"Record: {show(self.layout.path(node))}: the key {describe(key)} is not a string; JSON has no other "
                f"keys"
            )


def _refuse_depth(document: Any, path: Path) -> NoReturn:
    """Raise for data that goes on at a path of ``MOST_DEPTH`` parts: because it contains itself, or is too deep."""
    seen: dict[int, Path] = {}
    at = document
    for step in range(len(path) + 1):
        if id(at) in seen:
            raise ValueError(f"Record: {show(path[:step])}: the data is cyclic: this is {show(seen[id(at)])} again")
        seen[id(at)] = path[:step]
        at = at[path[step]] if step < len(path) else None
    raise ValueError(f"Record: {show(path[:3])}...: nested deeper than {MOST_DEPTH} levels")


def distinct(numbers: Numbers, count: int) -> Numbers:
    """Return which of the numbers below ``count`` occur, in rising order."""
    if len(numbers) == 1:
        return numbers
    if len(numbers) < count // 16:
        return np.unique(numbers)
    occurs = np.zeros(count, dtype=bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs)


def _grouped(label: Callable[[Any], Any], values: Sequence[Any]) -> list[tuple[Any, Sequence[int]]]:
    """Each distinct label of values with the indices of its values, in the order of first occurrence.

    Labels are made one at a time: thousands of tuples alive at once would keep the garbage collector busy.
    """
    labels = set(map(label, values))
    if len(labels) == 1:
        return [(labels.pop(), range(len(values)))]
    groups: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        groups.setdefault(label(value), []).append(place)
    return list(groups.items())


def _chosen(values: Sequence[Any], rows: Numbers, members: Sequence[int]) -> tuple[Sequence[Any], Numbers]:
    if len(members) == len(values):
        return values, rows
    return [values[place] for place in members], rows[np.array(members)]

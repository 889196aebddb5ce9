"""The leaves of many documents at once: in which document, under which path, and which of the distinct values."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr._checks import describe
from ghrr.structures.layout import MOST_DEPTH, Layout, check_key, refuse_depth, show

_ATOMIC = frozenset({str, int, float, bool, type(None)})

Rows = NDArray[np.int64]


class Batch:
    """Documents of a batch as numbers: a leaf is a row, a node and the place of its value among the distinct ones.

    What stands under one path is handled together for all documents, as a column.

    Parameters
    ----------
    layout
        Takes up the paths that are new.
    documents
        Their roots stand at ``node``.
    """

    def __init__(self, layout: Layout, documents: Sequence[Any], node: int = 0) -> None:
        self.layout, self.documents = layout, documents
        self.values: list[Any] = []
        self._top = len(layout.path(node))
        self._met: list[int] = []  # the node at which each value was met first
        number = itertools.count()
        self._tables: dict[type, dict[Any, int]] = defaultdict(lambda: defaultdict(number.__next__))
        self._columns: list[tuple[int, Rows, Rows]] = []  # node, rows, places of values
        self._add(documents, np.arange(len(documents)), node)

    @property
    def nodes(self) -> list[int]:
        """The nodes at which there are leaves, in the order in which they were met."""
        return list(dict.fromkeys(node for node, _, _ in self._columns))

    def where(self, value: int) -> str:
        """The path at which a value was met first, as people write it."""
        return show(self.layout.path(self._met[value]))

    def _add(self, values: Sequence[Any], rows: Rows, node: int) -> None:
        """Take up the values at a node; ``rows`` says to which document each belongs."""
        for given, members in _grouped(type, values):
            kind = self._plain_kind(given, node, values[members[0]])
            if kind in _ATOMIC:
                self._add_leaves(kind, *_chosen(values, rows, members), node)
            else:
                self._add_branches(kind, *_chosen(values, rows, members), node)

    def _add_branches(self, kind: type, values: Sequence[Any], rows: Rows, node: int) -> None:
        """Dicts with the same keys in the same order, or lists of the same length, are taken apart column by column."""
        for shape, members in _grouped(tuple if kind is dict else len, values):
            alike, theirs = _chosen(values, rows, members)
            if not shape:
                self._add_leaves(kind, [None] * len(alike), theirs, node)
                continue
            self._check_depth(node, theirs)
            for part in shape if kind is dict else range(shape):
                if kind is dict:
                    check_key(self.layout, node, part)
                self._add(list(map(itemgetter(part), alike)), theirs, self.layout.child(node, part))

    def _add_leaves(self, kind: type, values: Sequence[Any], rows: Rows, node: int) -> None:
        table = self._tables[kind]
        known = len(table)
        places = np.fromiter(map(table.__getitem__, values), dtype=np.int64, count=len(values))
        for value in itertools.islice(table, known, None):  # those that were numbered just now
            self.values.append(value if kind in _ATOMIC else kind())
            self._met.append(node)
        self._columns.append((node, rows, places))

    def _plain_kind(self, given: type, node: int, value: Any) -> type:
        """Which kind of data values of this type are: subclasses count, and a tuple is a list."""
        if given in _ATOMIC:
            return given
        for kind in (dict, list, tuple, str, bool, int, float):
            if issubclass(given, kind):
                return list if kind is tuple else kind
        raise TypeError(
            f"Record: {show(self.layout.path(node))}: {describe(value)} cannot be encoded; a record holds dicts, "
            f"lists, strings, numbers, booleans and None"
        )

    def _check_depth(self, node: int, rows: Rows) -> None:
        path = self.layout.path(node)[self._top :]
        if len(path) >= MOST_DEPTH:
            refuse_depth(self.documents[rows[0]], path)

    def leaves(self) -> tuple[Rows, Rows, Rows]:
        """Nodes and values of all leaves, document after document, and where each document begins and the last ends."""
        nothing = np.empty(0, dtype=np.int64)
        rows = np.concatenate([nothing, *(rows for _, rows, _ in self._columns)])
        nodes = np.concatenate([nothing, *(np.full(len(rows), node) for node, rows, _ in self._columns)])
        values = np.concatenate([nothing, *(places for _, _, places in self._columns)])
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=len(self.documents))
        return nodes[order], values[order], np.concatenate([[0], np.cumsum(counts)])


def _grouped(label: Callable[[Any], Any], values: Sequence[Any]) -> list[tuple[Any, Sequence[int]]]:
    """Each distinct label of values with the places at which it stands, in the order of first occurrence.

    Labels are made one at a time: thousands of tuples alive at once would keep the garbage collector busy.
    """
    distinct = set(map(label, values))
    if len(distinct) == 1:
        return [(distinct.pop(), range(len(values)))]
    groups: dict[Any, list[int]] = {}
    for place, value in enumerate(values):
        groups.setdefault(label(value), []).append(place)
    return list(groups.items())


def _chosen(values: Sequence[Any], rows: Rows, members: Sequence[int]) -> tuple[Sequence[Any], Rows]:
    if len(members) == len(values):
        return values, rows
    return [values[place] for place in members], rows[np.array(members)]

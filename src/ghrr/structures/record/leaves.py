"""Leaves of many documents as arrays: the document, the path and the value of each leaf."""

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
from ghrr.structures.path_tree import MAX_DEPTH, Path, PathTree, show_path
from ghrr.structures.record.path_settings import PathSettings
from ghrr.structures.record.scale import Scale

_ATOMIC = frozenset({str, int, float, bool, type(None)})

ListEncoding = Literal["positions", "set"]
Integers = NDArray[np.int64]


class Leaves:
    """Leaves of a batch of documents.

    A leaf has a row (its document), a node of the path tree, and the number of its value among the distinct values of
    the batch. The values under one path are processed together for all documents, as a column.

    Parameters
    ----------
    paths
        Path tree; new paths are added to it.
    documents
        JSON values, whose roots are at ``node``.
    numbers, lists
        Scales of numbers and encoding of lists, by path.

    Examples
    --------
    >>> import ghrr
    >>> record = ghrr.Record(ghrr.Space(dim=100, m=2))
    >>> leaves = record._tables.leaves([{"name": "Ada"}, {"name": "Alan"}])
    >>> leaves.values, leaves.columns
    (['Ada', 'Alan'], [(1, array([0, 1]), array([0, 1]))])
    """

    def __init__(
        self,
        paths: PathTree,
        documents: Sequence[Any],
        node: int = 0,
        *,
        numbers: PathSettings[Scale | None],
        lists: PathSettings[ListEncoding],
    ) -> None:
        self.paths, self.documents = paths, documents
        self._numbers, self._lists = numbers, lists
        self.values: list[Any] = []  # the distinct values
        self.scales: list[Scale | None] = []  # of each value; None for values that are atoms
        self._first_node: list[int] = []  # the node at which each value occurred first
        self._root_depth = paths.depth(node)
        number = itertools.count()
        self._number_of: dict[Any, dict[Any, int]] = defaultdict(lambda: defaultdict(number.__next__))
        self.columns: list[tuple[int, Integers, Integers]] = []  # node, rows, numbers of values
        self._add(documents, np.arange(len(documents)), node)

    @property
    def nodes(self) -> list[int]:
        """The nodes that have leaves."""
        return list(dict.fromkeys(node for node, _, _ in self.columns))

    def where(self, value: int) -> str:
        """Return the path at which a value occurred first, as text."""
        return show_path(self.paths.path(self._first_node[value]))

    def arrays(self) -> tuple[Integers, Integers, Integers]:
        """Return rows, nodes and value numbers of all leaves."""
        empty = np.empty(0, dtype=np.int64)
        rows = np.concatenate([empty, *(rows for _, rows, _ in self.columns)])
        values = np.concatenate([empty, *(numbers for _, _, numbers in self.columns)])
        return rows, self.per_leaf(lambda node: node), values

    def per_leaf(self, function: Callable[[int], int]) -> Integers:
        """Return a function of the node of every leaf, in the order of :meth:`arrays`."""
        of_columns = np.array([function(node) for node, _, _ in self.columns], dtype=np.int64)
        return np.repeat(of_columns, [len(rows) for _, rows, _ in self.columns])

    def _add(self, values: Sequence[Any], rows: Integers, node: int) -> None:
        """Add the values at a node; ``rows`` are the numbers of their documents."""
        for given, members in _grouped(type, values):
            kind = self._plain_kind(given, node, values[members[0]])
            if kind in _ATOMIC or kind is Tensor:
                self._add_leaves(kind, *_chosen(values, rows, members), node)
            else:
                self._add_branches(kind, *_chosen(values, rows, members), node)

    def _add_branches(self, kind: type, values: Sequence[Any], rows: Integers, node: int) -> None:
        """Split dicts with the same keys in the same order, or lists of the same length, into columns."""
        as_set = kind is list and self._is_set(node)
        for shape, members in _grouped(tuple if kind is dict else len, values):
            group, group_rows = _chosen(values, rows, members)
            if not shape:
                self._add_leaves(kind, [None] * len(group), group_rows, node)
                continue
            self._check_depth(node, group_rows)
            if as_set:
                self._add_elements(group, np.repeat(group_rows, shape), node)
                continue
            for key in shape if kind is dict else range(shape):
                if kind is dict:
                    self._check_key(node, key)
                self._add(list(map(itemgetter(key), group)), group_rows, self.paths.child(node, key))

    def _add_elements(self, lists: Sequence[Sequence[Any]], rows: Integers, node: int) -> None:
        """Add the elements of lists that are encoded as sets: all under one path."""
        elements = list(itertools.chain.from_iterable(lists))
        nested = next((element for element in elements if isinstance(element, dict | list | tuple) and element), None)
        if nested is not None:
            raise ValueError(
                f"Record: {show_path(self.paths.path(node))}: an element of a list that is encoded as a set must be a "
                f'single value, got {describe(nested)}; use lists="positions" for this path'
            )
        self._add(elements, rows, self.paths.child(node, None))

    def _add_leaves(self, kind: type, values: Sequence[Any], rows: Integers, node: int) -> None:
        scale = self._scale(node) if kind is int or kind is float else None
        number_of = self._number_of[kind if scale is None else (kind, scale)]
        known = len(number_of)
        # Hypervectors are not compared: each is a distinct value.
        keys = values if kind is not Tensor else [(known, n) for n in range(len(values))]
        numbers = np.fromiter(map(number_of.__getitem__, keys), dtype=np.int64, count=len(values))
        if kind is Tensor:
            self.values.extend(values)
        elif kind in _ATOMIC:
            self.values.extend(itertools.islice(number_of, known, None))  # the new ones
        else:
            self.values.extend(kind() for _ in range(len(number_of) - known))
        new = len(number_of) - known
        self.scales.extend([scale] * new)
        self._first_node.extend([node] * new)
        self.columns.append((node, rows, numbers))

    def _scale(self, node: int) -> Scale | None:
        return self._numbers.at(self.paths.path(node)) if self._numbers.patterns else self._numbers.default

    def _is_set(self, node: int) -> bool:
        lists = self._lists
        return (lists.at(self.paths.path(node)) if lists.patterns else lists.default) == "set"

    def _plain_kind(self, given: type, node: int, value: Any) -> type:
        """Return the kind of data of a type: that of its base class, list for a tuple, Tensor for a Hypervector."""
        if given in _ATOMIC:
            return given
        for kind in (dict, list, tuple, str, bool, int, float, Tensor, Hypervector):
            if issubclass(given, kind):
                return list if kind is tuple else Tensor if kind is Hypervector else kind
        raise TypeError(
            f"Record: {show_path(self.paths.path(node))}: cannot encode {describe(value)}, expected dicts, lists, "
            f"strings, numbers, booleans, None or hypervectors"
        )

    def _check_depth(self, node: int, rows: Integers) -> None:
        if self.paths.depth(node) - self._root_depth >= MAX_DEPTH:
            _raise_for_depth(self.documents[rows[0]], self.paths.path(node)[self._root_depth :])

    def _check_key(self, node: int, key: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(
                f"Record: {show_path(self.paths.path(node))}: a key must be a string as in JSON, got {describe(key)}"
            )


def _raise_for_depth(document: Any, path: Path) -> NoReturn:
    """Raise for data that continues at a path of ``MAX_DEPTH`` keys: it contains itself, or is nested too deeply."""
    seen: dict[int, Path] = {}
    value = document
    for depth in range(len(path) + 1):
        if id(value) in seen:
            where, first = show_path(path[:depth]), show_path(seen[id(value)])
            raise ValueError(f"Record: {where}: the data is cyclic, this object is also at {first}")
        seen[id(value)] = path[:depth]
        value = value[path[depth]] if depth < len(path) else None
    raise ValueError(f"Record: {show_path(path[:3])}...: the data is nested deeper than {MAX_DEPTH} levels")


def distinct(numbers: Integers, count: int) -> Integers:
    """Return which of the numbers below ``count`` occur, in ascending order."""
    if len(numbers) == 1:
        return numbers
    if len(numbers) < count // 16:
        return np.unique(numbers)
    occurs = np.zeros(count, dtype=bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs)


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

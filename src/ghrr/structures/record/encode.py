r"""Encoding: the sum of the leaves of a document, each of which is its value bound to its path.

A value V under a path of depth d is :math:`B * V`, or :math:`\rho^d(B * V)` with shifts, where B is the hypervector of
the path (:mod:`ghrr.structures.path_tree`).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr import ops
from ghrr.algebra import shift
from ghrr.documents import Column, Path, columns, show_path
from ghrr.hypervector import Hypervector
from ghrr.structures.inputs import chunks
from ghrr.structures.record.tables import RecordTables
from ghrr.structures.record.values import Integers, Item, Scale

_FEW_NUMBERS = 1 << 16  # complex numbers in the sums of one depth: 512 KiB in complex64
_VECTORS = {Tensor: "hypervectors", Hypervector: "hypervectors"}


def record_columns(tables: RecordTables, documents: Sequence[Any], path: Path = ()) -> list[Column]:
    """Return the columns of documents at a path, with lists as sets where the settings say so."""
    return columns(documents, root=path, is_set=lambda one: tables.lists.at(one) == "set", other=_VECTORS)


class Leaves:
    """Leaves of a batch of documents at a path as arrays. New paths are added to the tree.

    A leaf has a row (its document), a node of the path tree, and the number of its value among the distinct values of
    the batch.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.record.encode import Leaves
    >>> record = ghrr.Record(ghrr.Space(dim=100, m=2))
    >>> leaves = Leaves(record._tables, [{"name": "Ada"}, {"name": "Alan"}])
    >>> leaves.values, leaves.columns
    (['Ada', 'Alan'], [(1, array([0, 1]), array([0, 1]))])
    """

    def __init__(self, tables: RecordTables, documents: Sequence[Any], path: Path = ()) -> None:
        self.count = len(documents)
        self.values: list[Any] = []  # the distinct values
        self.scales: list[Scale | None] = []  # of each value; None for values that are atoms
        self.columns: list[tuple[int, Integers, Integers]] = []  # node, rows, numbers of values
        self._first_path: list[Path] = []  # at which each value occurred first
        number = itertools.count()
        self._number_of: dict[Any, dict[Any, int]] = defaultdict(lambda: defaultdict(number.__next__))
        for column in record_columns(tables, documents, path):
            scale = tables.numbers.at(column.path) if column.kind in {int, float} else None
            self.columns.append((tables.paths.insert(column.path), column.rows, self._numbers_of(column, scale)))

    def where(self, value: int) -> str:
        """Return the path at which a value occurred first, as text."""
        return show_path(self._first_path[value])

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

    def _numbers_of(self, column: Column, scale: Scale | None) -> Integers:
        """Return the number of each value of a column; new values are added."""
        kind, values = column.kind, column.values
        number_of = self._number_of[kind if scale is None else (kind, scale)]
        known = len(number_of)
        is_vector, is_empty = kind in _VECTORS, kind is dict or kind is list
        keys: Sequence[Any] = [None] * len(values) if is_empty else values
        if is_vector:  # hypervectors are not compared: each is a distinct value
            keys = [(known, n) for n in range(len(values))]
        numbers = np.fromiter(map(number_of.__getitem__, keys), dtype=np.int64, count=len(values))
        added = itertools.islice(number_of, known, None)
        self.values.extend(values if is_vector else (kind() for _ in added) if is_empty else added)
        new = len(number_of) - known
        self.scales.extend([scale] * new)
        self._first_path.extend([column.path] * new)
        return numbers


def _distinct(numbers: Integers, count: int) -> Integers:
    """Return which of the numbers below ``count`` occur, in ascending order."""
    if len(numbers) == 1:
        return numbers
    if len(numbers) < count // 16:
        return np.unique(numbers)
    occurs = np.zeros(count, dtype=bool)
    occurs[numbers] = True
    return np.flatnonzero(occurs)


def encode_documents(tables: RecordTables, documents: Sequence[Any], path: Path = ()) -> Tensor:
    """Return the hypervectors of documents at a path, ``(len(documents), dim, m, m)``."""
    with tables.lock:
        leaves = Leaves(tables, documents, path)
        items = tables.values.items(leaves.values, leaves.scales, leaves.where)
        total, index = _sum_leaves(tables, leaves, items)
        _remember(tables, leaves, index)
    return total


def _sum_leaves(tables: RecordTables, leaves: Leaves, items: Sequence[Item]) -> tuple[Tensor, Integers]:
    """Return the sum of each document, and the index of each value in the vocabulary."""
    rows, nodes, values = leaves.arrays()
    count = leaves.count
    shifts = leaves.per_leaf(tables.paths.shift_of)
    depths = sorted(set(shifts.tolist())) or [0]
    # The leaves of a document at one depth are a bag, whose sum is shifted by the depth. All bags of a few documents
    # are summed in one call; for many documents the sums of one depth at a time take less memory.
    together = len(depths) if count * tables.space.total_dim <= _FEW_NUMBERS else 1
    total: Tensor | None = None
    index: Integers | None = None
    for value_rows, value_vectors in tables.values.tables(items):
        index = value_rows if index is None else index  # the first table is the vocabulary
        for row_of, path_vectors in tables.paths.tables(nodes):
            key_indices = nodes if row_of is None else row_of[nodes]
            for start in range(0, len(depths), together):
                group = depths[start : start + together]
                bags = np.searchsorted(group, shifts) * count + rows if len(group) > 1 else rows
                is_in_tables = (key_indices >= 0) & (value_rows[values] >= 0)
                if len(group) < len(depths):
                    is_in_tables &= shifts == group[0]
                chosen = np.flatnonzero(is_in_tables)[np.argsort(bags[is_in_tables], kind="stable")]
                offsets = np.concatenate([[0], np.cumsum(np.bincount(bags[chosen], minlength=count * len(group)))])
                arrays = key_indices[chosen], value_rows[values[chosen]], offsets
                sums = ops.bind_bags(
                    path_vectors, value_vectors, *(torch.from_numpy(array).to(tables.device) for array in arrays)
                )
                for depth, part in zip(group, sums.reshape(len(group), count, *sums.shape[1:]), strict=True):
                    total = _add_shifted(total, part, depth)
    assert total is not None  # there is always a vocabulary
    assert index is not None
    return total, index


def _add_shifted(total: Tensor | None, part: Tensor, depth: int) -> Tensor:
    """Return total + shift(part, depth); total is changed in place."""
    if total is None:
        return shift(part, depth) if depth else part
    if not depth:
        return total.add_(part)
    total[:, depth:] += part[:, :-depth]
    total[:, :depth] += part[:, -depth:]
    return total


def _remember(tables: RecordTables, leaves: Leaves, index: Integers) -> None:
    """Make paths and values known to readers, after everything that can fail.

    ``index`` holds the row of each value in the vocabulary, -1 for numbers on a scale.
    """
    count = len(index)
    tables.seen.add((node, index[_distinct(numbers, count)].tolist()) for node, _, numbers in leaves.columns)
    for node, _, _ in leaves.columns:
        tables.paths.mark_leaf(node)


def encode_items(tables: RecordTables, paths: Sequence[Path], items: Sequence[Item]) -> Tensor:
    """Return the sum of items bound to paths, ``(dim, m, m)``."""
    total = tables.space.zeros().to(tables.device)
    for chunk in chunks(len(paths), tables.space):
        total = total + tables.paths.bundle(paths[chunk], tables.values.vectors(items[chunk]))
    return total

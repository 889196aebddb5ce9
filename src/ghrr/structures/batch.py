"""The leaves of many documents at once: every distinct pair of path and value, and which documents hold which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from ghrr._checks import describe
from ghrr.structures.layout import MOST_DEPTH, Layout, check_key, refuse_depth, show

_ATOMIC = frozenset({str, int, float, bool, type(None)})

Rows = NDArray[np.int64]


class Batch:
    """Documents of a batch as lists of numbers; a number stands for a pair of path and value.

    Documents that are alike share their pairs, so that each is bound once for all of them. What stands under one path
    is handled together for all documents, as a column.

    Parameters
    ----------
    layout
        Takes up the paths that are new.
    documents
        Their roots stand at ``node``.
    """

    def __init__(self, layout: Layout, documents: Sequence[Any], node: int = 0) -> None:
        self.layout, self.documents = layout, documents
        self.nodes: list[int] = []
        self.values: list[Any] = []
        self._top = len(layout.path(node))
        self._tables: dict[tuple[int, type], dict[Any, int]] = {}
        self._rows: list[Rows] = []
        self._places: list[list[int]] = []
        self._add(documents, np.arange(len(documents)), node)

    def where(self, pair: int) -> str:
        """The path of a pair, as people write it."""
        return show(self.layout.path(self.nodes[pair]))

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
                self._add([value[part] for value in alike], theirs, self.layout.child(node, part))

    def _add_leaves(self, kind: type, values: Sequence[Any], rows: Rows, node: int) -> None:
        table = self._tables.setdefault((node, kind), {})
        for value in dict.fromkeys(values):
            if value not in table:
                table[value] = len(self.nodes)
                self.nodes.append(node)
                self.values.append(value if kind in _ATOMIC else kind())
        self._rows.append(rows)
        self._places.append([table[value] for value in values])

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

    def bundle(self, make_pairs: Callable[[slice], Tensor], step: int, like: Tensor) -> Tensor:
        """The sum of each document's pairs, ``(len(documents), dim, m, m)``.

        ``make_pairs`` gives the hypervectors of a run of pairs; at most ``step`` of them exist at a time.
        """
        rows = np.concatenate([np.empty(0, dtype=np.int64), *self._rows])
        places = np.concatenate([np.empty(0, dtype=np.int64), *map(np.array, self._places)])
        order = np.argsort(rows, kind="stable")
        rows, places = rows[order], places[order]
        total = None
        for start in range(0, len(self.nodes), step):
            run = slice(start, min(start + step, len(self.nodes)))
            chosen = (places >= run.start) & (places < run.stop)
            counts = np.bincount(rows[chosen], minlength=len(self.documents))
            part = embedding_bag(
                torch.from_numpy(places[chosen] - run.start),
                torch.view_as_real(make_pairs(run)).flatten(start_dim=1),
                torch.from_numpy(np.cumsum(counts) - counts),
                mode="sum",
            )
            total = part if total is None else total.add_(part)
        if total is None:  # no documents
            return like.new_zeros(0, *like.shape)
        return torch.view_as_complex(total.reshape(len(self.documents), *like.shape, 2))


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

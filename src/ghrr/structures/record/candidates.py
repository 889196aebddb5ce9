"""Candidates of each path: the values that were seen there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ghrr._locks import Lock

ON_SCALE = -1  # stands for the numbers on the scale of a path
_FEW = 64  # numbers waiting to be sorted in

Indices = NDArray[np.int64]


@dataclass(slots=True)
class _Seen:
    sorted: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    waiting: list[int] = field(default_factory=list)


class Candidates:
    """Which values of a vocabulary were seen at which node of a layout.

    A node has a sorted array of indices. New ones wait in a list until it is as long as the array, so that adding takes
    amortised O(log n). Several threads may use one object.

    Examples
    --------
    >>> from ghrr.structures.record.candidates import Candidates
    >>> seen = Candidates()
    >>> seen.add([(4, [7, 2]), (4, [2, 3])])
    >>> seen.at(4), seen.at(5)
    (array([2, 3, 7]), None)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: dict[int, _Seen] = {}
        self._open: set[int] = set()

    def add(self, columns: Iterable[tuple[int, list[int]]]) -> None:
        """Add values, as indices, that were seen at nodes."""
        with self._lock:
            for node, indices in columns:
                seen = self._nodes.get(node)
                if seen is None:
                    seen = self._nodes[node] = _Seen()
                seen.waiting += indices
                if len(seen.waiting) > max(_FEW, len(seen.sorted)):
                    _sort_in(seen)

    def add_all(self, node: int) -> None:
        """Make every value a candidate at a node, because it is not known which were seen there."""
        with self._lock:
            self._open.add(node)

    def at(self, node: int | None) -> Indices | None:
        """Return the indices of values that were seen at a node; None, for all of them, if there were none."""
        if node is None or node in self._open or node not in self._nodes:
            return None
        with self._lock:
            seen = self._nodes[node]
            if seen.waiting:
                _sort_in(seen)
            return seen.sorted


def _sort_in(seen: _Seen) -> None:
    # Interrupted between the two lines, values wait that are sorted in already: this changes nothing.
    seen.sorted = np.union1d(seen.sorted, np.array(seen.waiting, dtype=np.int64))
    seen.waiting = []

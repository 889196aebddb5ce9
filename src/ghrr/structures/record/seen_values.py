"""Values that occurred at each path: the candidates when the path is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ghrr._locks import Lock

ON_SCALE = -1  # stands for all numbers on the scale of a path
_FEW = 64  # unsorted indices that are kept before sorting

Indices = NDArray[np.int64]


@dataclass(slots=True)
class _NodeValues:
    sorted: Indices = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    unsorted: list[int] = field(default_factory=list)


class SeenValues:
    """Indices of the values that occurred at each node of a path tree.

    Each node has a sorted array. New indices are collected in a list until it is as long as the array, so adding takes
    amortised O(log n). Several threads may use one object.

    Examples
    --------
    >>> from ghrr.structures.record.seen_values import SeenValues
    >>> seen = SeenValues()
    >>> seen.add([(4, [7, 2]), (4, [2, 3])])
    >>> seen.at(4), seen.at(5)
    (array([2, 3, 7]), None)
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: dict[int, _NodeValues] = {}
        self._unrestricted: set[int] = set()

    def add(self, columns: Iterable[tuple[int, list[int]]]) -> None:
        """Add values, as indices, that occurred at nodes."""
        with self._lock:
            for node, indices in columns:
                values = self._nodes.get(node)
                if values is None:
                    values = self._nodes[node] = _NodeValues()
                values.unsorted += indices
                if len(values.unsorted) > max(_FEW, len(values.sorted)):
                    _sort(values)

    def allow_all(self, node: int) -> None:
        """Make every value a candidate at a node, because it is not known which occurred there."""
        with self._lock:
            self._unrestricted.add(node)

    def at(self, node: int | None) -> Indices | None:
        """Return the indices of the values that occurred at a node; None if every value is a candidate."""
        if node is None or node in self._unrestricted or node not in self._nodes:
            return None
        with self._lock:
            values = self._nodes[node]
            if values.unsorted:
                _sort(values)
            return values.sorted


def _sort(values: _NodeValues) -> None:
    # An interrupt between the two lines leaves indices in both: the next call has the same result.
    values.sorted = np.union1d(values.sorted, np.array(values.unsorted, dtype=np.int64))
    values.unsorted = []

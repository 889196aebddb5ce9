"""Duplicates: groups of records of one index that describe the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Cluster:
    """Records that are duplicates of each other.

    Parameters
    ----------
    ids
        Ids of the records, in the order in which they were added.
    score
        Lowest probability of the pairs that connect them.
    pairs
        These pairs: two ids, and the probability that both are of the same thing.

    Examples
    --------
    >>> from ghrr.search import Cluster
    >>> Cluster(("a", "b"), 0.9, (("a", "b", 0.9),))
    Cluster('a', 'b', score=0.900)
    """

    ids: tuple[str, ...]
    score: float
    pairs: tuple[tuple[str, str, float], ...] = ()

    def __repr__(self) -> str:
        return f"Cluster({', '.join(map(repr, self.ids))}, score={self.score:.3f})"


def connect(labels: Sequence[str], pairs: Iterable[tuple[int, int, float]]) -> list[Cluster]:
    """Return the connected components of pairs of rows, largest score first.

    Examples
    --------
    >>> from ghrr.search.duplicates import connect
    >>> connect(["a", "b", "c", "d", "e"], [(0, 1, 0.9), (1, 4, 0.8), (2, 3, 0.95)])
    [Cluster('c', 'd', score=0.950), Cluster('a', 'b', 'e', score=0.800)]
    """
    parent: dict[int, int] = {}
    edges: dict[int, list[tuple[str, str, float]]] = {}

    def root(row: int) -> int:
        while parent.setdefault(row, row) != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    given = list(pairs)
    for a, b, _ in given:
        first, second = sorted((root(a), root(b)))
        parent[second] = first
    members: dict[int, list[int]] = {}
    for row in sorted(parent):
        members.setdefault(root(row), []).append(row)
    for a, b, score in given:
        edges.setdefault(root(a), []).append((labels[a], labels[b], score))
    clusters = [
        Cluster(tuple(labels[row] for row in rows), min(score for _, _, score in edges[first]), tuple(edges[first]))
        for first, rows in members.items()
    ]
    return sorted(clusters, key=lambda cluster: -cluster.score)

"""Duplicates: groups of records of one index that describe the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BINS = 200
_LEAST = 2  # scores in a group
_LOWEST = 0.4  # threshold; a small table, or one without duplicates, has no two groups


@dataclass(frozen=True, repr=False)
class Cluster:
    """Records that are duplicates of each other.

    Parameters
    ----------
    ids
        Ids of the records, in the order in which they were added.
    score
        Lowest score of the pairs that connect them.
    pairs
        These pairs: two ids and their score.

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


def valley(scores: Floats) -> float:
    r"""Return a threshold between two groups of scores.

    It is the higher of two: Otsu's, which has the least variance inside the groups but is too low if one group is
    small, and that of Kittler and Illingworth (the least error of two Gaussians), which is too low if groups overlap.
    With the shares :math:`p_i`, means :math:`\mu_i` and variances :math:`\sigma_i^2` of the groups below and above a
    threshold, they maximise :math:`p_1 p_2 (\mu_1 - \mu_2)^2` and minimise
    :math:`\sum_i p_i \ln (\sigma_i^2 / p_i^2)`. It is at least 0.4, since there may be no second group.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.duplicates import valley
    >>> rng = np.random.default_rng(0)
    >>> 0.4 < valley(np.concatenate([rng.normal(0.2, 0.05, 900), rng.normal(0.8, 0.05, 30)])) < 0.8
    True
    """
    counts, edges = np.histogram(np.clip(scores, 0, 1), bins=_BINS, range=(0, 1))
    centres = (edges[:-1] + edges[1:]) / 2
    sums = [np.cumsum(counts * centres**power) for power in range(3)]
    groups = (sums, [total[-1] - total for total in sums])  # below and above each edge
    usable = np.flatnonzero((groups[0][0] >= _LEAST) & (groups[1][0] >= _LEAST))
    if not len(usable):
        return 1.0
    (share, mean, variance), (other_share, other_mean, other_variance) = (
        _moments([total[usable] for total in group], len(scores)) for group in groups
    )
    between = share * other_share * np.square(mean - other_mean)
    error = share * np.log(variance / share**2) + other_share * np.log(other_variance / other_share**2)
    return max(_LOWEST, float(edges[1:][usable][max(_middle_of_highest(between), _middle_of_highest(-error))]))


def _middle_of_highest(values: Floats) -> int:
    """Return the middle index of the highest values: all thresholds in a gap between scores are equal."""
    return int(np.flatnonzero(np.isclose(values, values.max())).mean())


def _moments(sums: list[Floats], count: int) -> tuple[Floats, Floats, Floats]:
    """Return share, mean and variance of groups from their sums of powers."""
    mean = sums[1] / sums[0]
    return sums[0] / count, mean, np.maximum(sums[2] / sums[0] - mean**2, 1 / _BINS**2)

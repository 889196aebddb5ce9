"""Series and graphs in ``benchmarks/learn/measure.py``: our encoders, and the usual baselines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from sklearn.svm import SVC
from torch import Tensor

import ghrr.learn

_CHUNK_NUMBERS = (1 << 22, 1 << 27)  # differences of series made at a time, on a CPU and on a GPU

# Search spaces of our encoders.
ENCODER_SPACES: dict[str, dict[str, Any]] = {
    "graph": {"encoder": ["graph"], "radius": [0, 1, 2, 3, 4], "directed": [True], "weighting": ["sqrt", "count"]},
    "series": {
        "encoder": ["series"],
        "window": [3, 5, 7, 9],
        "positions": ["neighbours", "powers"],
        "position_bandwidth": [0.05, 0.1, 0.2, 0.4],
        "normalize": [True, False],
        "bandwidth": [0.4, 0.6, 0.9, 1.4],
    },
}


def encoder(kind: str, dim: int, config: dict[str, Any], common: dict[str, Any]) -> Any:
    """Return our encoder of series or graphs; one that loses the order for ``shift=False``."""
    settings = {name: value for name, value in config.items() if name not in ("encoder", "shift", "scale")}
    make = ghrr.learn.GraphFeatures if kind == "graph" else ghrr.learn.SeriesFeatures
    if config.get("shift") is False:
        make = {"graph": _unordered_graphs, "series": _unordered_series}[kind](make)
    return make(dim, **settings, **common)


def _unordered_graphs(encoder_class: Any) -> Any:
    """Return an encoder that loses the direction of edges, as binding does for m = 1 without shifts."""

    class UnorderedGraphs(encoder_class):  # type: ignore[misc]
        def _bind_edges(self, triples: Any) -> Any:
            ends = np.sort(triples[:, [0, 2]], axis=1)
            return super()._bind_edges(np.stack([ends[:, 0], triples[:, 1], ends[:, 1]], axis=1))

    return UnorderedGraphs


def _unordered_series(encoder_class: Any) -> Any:
    """Return an encoder that loses the order inside of windows: all places have the same frequencies."""

    class UnorderedSeries(encoder_class):  # type: ignore[misc]
        def fit(self, X: Any, y: Any = None) -> Any:
            super().fit(X, y)
            drawn: Any = getattr(self, "frequencies_")  # noqa: B009 (its type is not known here)
            self.frequencies_ = drawn[:1].expand_as(drawn).contiguous()
            return self

    return UnorderedSeries


class Converted:
    """A model that takes graphs as pairs of labels and edges, and series without the NaN behind their end."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, samples: Any, labels: Any) -> Converted:
        """Fit the model."""
        self.model.fit(self._convert(samples), labels)
        return self

    def predict(self, samples: Any) -> Any:
        """Predict classes."""
        return self.model.predict(self._convert(samples))

    def _convert(self, samples: Any) -> Any:
        if isinstance(samples, list):
            return [(graph.labels, graph.edges) for graph in samples]
        if np.isfinite(samples).all():
            return samples
        return [series[:, np.isfinite(series).all(axis=0)] for series in samples]


# ----------------------------------------------------------------------------------------------------------- series


class NearestSeries:
    """Nearest neighbour by dynamic time warping.

    Parameters
    ----------
    window
        Width of the Sakoe-Chiba band, as a share of the length.
    device
        Device that computes the distances.
    """

    def __init__(self, window: float, device: str) -> None:
        self.window, self.device = window, device

    def fit(self, samples: Any, labels: Any) -> NearestSeries:
        """Keep the series."""
        self.samples, self.labels = samples, labels
        return self

    def predict(self, samples: Any) -> Any:
        """Return the class of the nearest series of each."""
        known, asked = (torch.as_tensor(x, device=self.device) for x in (self.samples, samples))
        step = max(1, _CHUNK_NUMBERS[self.device != "cpu"] // known.numel())
        nearest = [warped_distances(rows, known, self.window).argmin(dim=1) for rows in torch.split(asked, step)]
        return self.labels[torch.cat(nearest).numpy(force=True)]


def warped_distances(a: Tensor, b: Tensor, window: float) -> Tensor:
    r"""Return the distances of all pairs by dynamic time warping, :math:`\min \sum \|a_i - b_j\|^2`.

    One step per diagonal i + j of the table of all pairs at once. NaN marks the end of a short series.

    Shapes
    ------
    a: ``(k, channels, length)``; b: ``(n, channels, length)``; output: ``(k, n)``
    """
    k, n, length = len(a), len(b), a.shape[-1]
    ends_a, ends_b = (torch.isfinite(x[:, 0]).sum(dim=1) for x in (a, b))
    a, b = a.nan_to_num(), b.nan_to_num()
    band = max(1, math.ceil(window * length)) if window > 0 else 0
    infinity = torch.tensor(torch.inf, device=a.device)
    rows = torch.arange(length, device=a.device)
    before = last = infinity.expand(k, n, length)
    out = infinity.repeat(k, n)
    for diagonal in range(2 * length - 1):
        columns = diagonal - rows
        inside = (columns >= 0) & (columns < length) & ((rows - columns).abs() <= band)
        cost = (a[:, None] - b[None, :, :, columns.clamp(0, length - 1)]).square().sum(dim=2)
        step = torch.minimum(torch.minimum(last, _down(last)), _down(before))
        if diagonal == 0:
            step = torch.where(rows == 0, 0.0, infinity).expand(k, n, length)
        before, last = last, torch.where(inside, cost + step, infinity)
        done = (ends_a[:, None] - 1) + (ends_b[None] - 1) == diagonal
        reached = last.gather(2, (ends_a - 1)[:, None, None].expand(k, n, 1))[..., 0]
        out = torch.where(done, reached, out)
    return out


def _down(diagonal: Tensor) -> Tensor:
    """Move entries of a diagonal from row i to row i + 1."""
    return torch.nn.functional.pad(diagonal[..., :-1], (1, 0), value=torch.inf)


# ----------------------------------------------------------------------------------------------------------- graphs


class WeisfeilerLehman:
    """Support vector machine on the normalised Weisfeiler-Lehman subtree kernel (Shervashidze et al., JMLR 2011)."""

    def __init__(self, rounds: int, penalty: float) -> None:
        self.rounds, self.penalty = rounds, penalty

    def fit(self, samples: Sequence[Any], labels: Any) -> WeisfeilerLehman:
        """Count the subtrees of training graphs and fit."""
        self.names: dict[Any, int] = {}
        counts = self._counts(samples, grow=True)
        self.known = counts
        self.model = SVC(C=self.penalty, kernel="precomputed", cache_size=500)
        self.model.fit((counts @ counts.T).toarray(), labels)
        return self

    def predict(self, samples: Sequence[Any]) -> Any:
        """Predict classes; subtrees that no training graph has do not count."""
        return self.model.predict((self._counts(samples, grow=False) @ self.known.T).toarray())

    def _counts(self, samples: Sequence[Any], *, grow: bool) -> Any:
        nodes = np.cumsum([0, *(len(graph.labels) for graph in samples)])
        owner = np.repeat(np.arange(len(samples)), np.diff(nodes))
        ends = np.concatenate([graph.edges + start for graph, start in zip(samples, nodes[:-1], strict=True)])
        ends = ends[np.argsort(ends[:, 0], kind="stable")]
        bounds = np.searchsorted(ends[:, 0], np.arange(len(owner) + 1))
        current = [self._name((0, int(x)), grow) for graph in samples for x in graph.labels]
        rows, columns = [owner], [np.array(current)]
        for round_ in range(1, self.rounds + 1):
            around = np.array(current)[ends[:, 1]]
            current = [
                self._name((round_, own, *sorted(around[bounds[node] : bounds[node + 1]].tolist())), grow)
                for node, own in enumerate(current)
            ]
            rows.append(owner)
            columns.append(np.array(current))
        row, column = np.concatenate(rows), np.concatenate(columns)
        seen = column >= 0
        width = len(self.names) if grow else self.known.shape[1]
        shape = (len(samples), width)
        counts = scipy.sparse.csr_matrix((np.ones(int(seen.sum())), (row[seen], column[seen])), shape=shape)
        norms = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)))
        return scipy.sparse.csr_matrix(counts.multiply(1 / np.maximum(norms, 1e-12)))

    def _name(self, key: Any, grow: bool) -> int:
        return self.names.setdefault(key, len(self.names)) if grow else self.names.get(key, -1)


class LabelHistogram:
    """A model of vectors on the share of each node label, with the numbers of nodes and edges."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, samples: Sequence[Any], labels: Any) -> LabelHistogram:
        """Fit on the histograms."""
        self.width = 1 + max(int(graph.labels.max()) for graph in samples)
        self.model.fit(self._rows(samples), labels)
        return self

    def predict(self, samples: Sequence[Any]) -> Any:
        """Predict classes."""
        return self.model.predict(self._rows(samples))

    def _rows(self, samples: Sequence[Any]) -> Any:
        return np.array(
            [
                [
                    *np.bincount(np.minimum(graph.labels, self.width), minlength=self.width + 1) / len(graph.labels),
                    len(graph.labels),
                    len(graph.edges) / len(graph.labels),
                ]
                for graph in samples
            ]
        )

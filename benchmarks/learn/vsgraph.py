"""VS-Graph, a published classifier of graphs (Poursiami et al. 2025, arXiv:2512.03394), from descriptions of it.

Every node starts with a spike of 1. In each of ``hops`` steps a node receives the spikes of its neighbours, and the
nodes are ranked by the result. The random binary vector of its rank is the first vector of a node. In each of
``layers`` steps it is mixed with the largest values of its neighbours. A graph is the mean of its nodes, scaled to
length 1, and a class the mean of its graphs. Labels of nodes are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.learn.torchhd import EncodedCentroids


class VSGraph(EncodedCentroids):
    """Centroids of graphs encoded by VS-Graph."""

    def __init__(self, n_classes: int, hops: int, layers: int, blend: float, *, epochs: int = 0, **common: Any) -> None:
        super().__init__(n_classes, epochs=epochs, **{"lr": 1.0, **common})
        self.hops, self.layers, self.blend = hops, layers, blend

    def prepare(self, samples: Sequence[Any]) -> None:
        """Draw the vectors of ranks; graphs with more nodes than any training graph reuse the last."""
        most = max(len(graph.labels) for graph in samples)
        self.ranks = torch.randint(2, (most, self.dimensions)).float().numpy()

    def encode(self, samples: Sequence[Any]) -> Tensor:
        """Return the vectors of graphs."""
        out = np.stack([self._encode(graph) for graph in samples])
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
        return torch.as_tensor(out, device=self.device)

    def _encode(self, graph: Any) -> Any:
        order = np.argsort(graph.edges[:, 1], kind="stable")
        sources, targets = graph.edges[order].T
        ranks = spike_ranks(len(graph.labels), graph.edges, self.hops)
        vectors = self.ranks[np.minimum(ranks, len(self.ranks) - 1)]
        receivers, starts = np.unique(targets, return_index=True)
        for _ in range(self.layers):
            largest = np.zeros_like(vectors)
            if len(starts):
                largest[receivers] = np.maximum.reduceat(vectors[sources], starts, axis=0)
            vectors = self.blend * vectors + (1 - self.blend) * largest
        return vectors.mean(axis=0)


def spike_ranks(n_nodes: int, edges: Any, hops: int) -> Any:
    """Return the ranks of nodes by the spikes that they receive, 0 for the largest."""
    spikes: Any = np.ones(n_nodes)
    for _ in range(hops):
        spikes = np.bincount(edges[:, 1], weights=spikes[edges[:, 0]], minlength=n_nodes)
    ranks = np.empty(n_nodes, dtype=np.int64)
    ranks[np.argsort(-spikes, kind="stable")] = np.arange(n_nodes)
    return ranks

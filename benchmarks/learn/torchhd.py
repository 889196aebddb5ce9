"""torch-hd's classifiers behind ``fit`` and ``predict``, and its examples for text and graphs.

The classifiers run as they are, with four changes that only help them: where the encoder does not change during
training, samples are encoded once instead of once per epoch; on a CPU, a compiled loop adds levels, with the same
result (``learn/levels.py``); dropout is off in predictions (its example leaves it on); DistHD does not fail when no
training sample is wrong. Encoding goes in chunks, because torch-hd makes an array of samples x features x dimensions.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

if not all(importlib.util.find_spec(name) for name in ("pandas", "openpyxl", "requests")):
    sys.modules["torchhd.datasets"] = types.ModuleType("torchhd.datasets")  # alone needs them, and is not used here
import torchhd
import torchhd.classifiers

from benchmarks.learn.levels import level_sums

# Settings of examples/classifiers.py of torch-hd, at 1,024 dimensions and a batch size of 12. Its comment recommends
# larger batches on a GPU: with more than 20,000 samples they have ten times the size.
DOCUMENTED: dict[str, dict[str, Any]] = {
    "Vanilla": {},
    "AdaptHD": {"epochs": 10},
    "OnlineHD": {"epochs": 10},
    "NeuralHD": {"epochs": 10, "regen_freq": 5},
    "DistHD": {"epochs": 10, "regen_freq": 5},
    "CompHD": {},
    "SparseHD": {"epochs": 10},
    "QuantHD": {"epochs": 10},
    "LeHDC": {"epochs": 10},
    "IntRVFL": {},
}
_CHUNK_NUMBERS = (1 << 24, 1 << 29)  # numbers of an encoding made at a time, on a CPU and on a GPU
_MANY = 20_000
_CHANGING = ("NeuralHD", "DistHD")  # their encoders change during training

torchhd.classifiers.trange = lambda *bounds, desc="": range(*bounds)  # noqa: PLW0108 (no progress bars)


class Batches:
    """Shuffled batches of samples and labels, as a data loader gives them."""

    def __init__(self, samples: Tensor, labels: Tensor, size: int) -> None:
        self.samples, self.labels, self.size = samples, labels, size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.labels), device=self.labels.device)
        for rows in torch.split(order, self.size):
            yield self.samples[rows], self.labels[rows]


class TorchHD:
    """A classifier of torch-hd.

    Parameters
    ----------
    name, dimensions, n_classes
        Class in ``torchhd.classifiers`` and its size.
    settings
        Settings of the class, ``batch_size``, ``gain`` (factor for the samples) and ``level_range`` (bounds of the
        levels).
    seed, device
        Seed of torch and device.
    """

    def __init__(
        self, name: str, dimensions: int, n_classes: int, settings: dict[str, Any], *, seed: int, device: str
    ) -> None:
        self.name, self.dimensions, self.n_classes = name, dimensions, n_classes
        self.settings, self.seed, self.device = dict(settings), seed, device
        self.batch_size = int(self.settings.pop("batch_size", 512))
        self.large_batch_size = int(self.settings.pop("large_batch_size", self.batch_size))
        self.gain = float(self.settings.pop("gain", 1.0))
        bound = self.settings.pop("level_range", None)
        if bound is not None:
            self.settings |= {"min_level": -bound, "max_level": bound}

    def fit(self, samples: Any, labels: Any) -> TorchHD:
        """Train on samples ``(n, features)`` and labels from 0."""
        torch.manual_seed(self.seed)
        rows = self._as_tensor(samples)
        batch_size = self.large_batch_size if len(rows) > _MANY else self.batch_size
        own = torch.as_tensor(labels, device=self.device)
        make = getattr(torchhd.classifiers, self.name)
        size = rows.shape[1], self.dimensions, self.n_classes
        self.model = make(*size, device=self.device, **self.settings)
        self._set_encoder(rows.shape[1])
        if self.name == "IntRVFL":
            self.model.model.encode = lambda x: x
            encoded = self._encode(rows)
            self.model.fit([(encoded, own)])
        elif self.name in _CHANGING:
            if self.name == "DistHD":
                score, none = self.model.regen_score, torch.zeros(self.dimensions, device=self.device)
                self.model.regen_score = lambda x, y: score(x, y) + none  # it returns the number 0 without mistakes
            self.model.fit(Batches(rows, own, batch_size))
        else:
            is_module = isinstance(self._encoder, torch.nn.Module)  # only a module can replace a module
            self.model.encoder = torch.nn.Identity() if is_module else _identity
            self.model.fit(Batches(self._encode(rows), own, batch_size))
        self.model.eval()
        return self

    def predict(self, samples: Any) -> Any:
        """Return the predicted labels, ``(n,)``."""
        rows = self._as_tensor(samples)
        with torch.no_grad():
            if self.name in _CHANGING:
                parts = [self.model(part).argmax(-1) for part in torch.split(rows, 4096)]
            else:
                parts = [self.model(self._encoder(part)).argmax(-1) for part in torch.split(rows, self._chunk)]
        return torch.cat([part.as_subclass(Tensor) for part in parts]).numpy(force=True)

    @property
    def class_vectors_(self) -> Tensor:
        """Class vectors, ``(classes, dimensions)``."""
        vectors: Tensor = self.model.model.weight
        return vectors

    def _as_tensor(self, samples: Any) -> Tensor:
        rows = torch.as_tensor(np.ascontiguousarray(samples, dtype=np.float32), device=self.device)
        return rows * self.gain

    def _set_encoder(self, n_features: int) -> None:
        model = self.model
        if self.device == "cpu" and self.name == "IntRVFL":
            model.model.encoding.forward = level_sums(model.encoder.key, model.encoder.density_encoding)
        elif self.device == "cpu" and hasattr(model, "levels"):
            add = level_sums(model.keys if hasattr(model, "keys") else model.feat_keys, model.levels)
            model.encoder = lambda samples: add(samples).sign()
        self._encoder = model.model.encode if self.name == "IntRVFL" else model.encoder
        self._chunk = max(1, _CHUNK_NUMBERS[self.device != "cpu"] // (n_features * self.dimensions))

    def _encode(self, rows: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([self._encoder(part) for part in torch.split(rows, self._chunk)])


def _identity(encoded: Tensor) -> Tensor:
    return encoded


class EncodedCentroids:
    """Centroids of encoded samples, then epochs of updates on mistakes (``Centroid.add_adapt``)."""

    def __init__(self, n_classes: int, *, dimensions: int, epochs: int, lr: float, seed: int, device: str) -> None:
        self.n_classes, self.dimensions, self.device = n_classes, dimensions, device
        self.epochs, self.lr, self.seed = epochs, lr, seed

    def fit(self, samples: Any, labels: Any) -> EncodedCentroids:
        """Encode and train."""
        torch.manual_seed(self.seed)
        self.prepare(samples)
        own = torch.as_tensor(labels, device=self.device)
        encoded = self.encode(samples)
        self.model = torchhd.models.Centroid(self.dimensions, self.n_classes, device=self.device)
        with torch.no_grad():
            self.model.add(encoded, own)
            for _ in range(self.epochs):
                for part, goals in Batches(encoded, own, 128):
                    self.model.add_adapt(part, goals, lr=self.lr)
        return self

    def predict(self, samples: Any) -> Any:
        """Return the predicted labels."""
        with torch.no_grad():
            scores = self.model(self.encode(samples))
        return scores.argmax(-1).as_subclass(Tensor).numpy(force=True)

    @property
    def class_vectors_(self) -> Tensor:
        """Class vectors, ``(classes, dimensions)``."""
        vectors: Tensor = self.model.weight
        return vectors

    def prepare(self, samples: Any) -> None:
        """Draw the vectors of symbols or nodes."""
        raise NotImplementedError

    def encode(self, samples: Any) -> Tensor:
        """Return the hypervectors of samples."""
        raise NotImplementedError


class NgramHD(EncodedCentroids):
    """Bundles of n-grams of characters, as in torch-hd's example of language recognition."""

    def __init__(  # noqa: PLR0917
        self,
        n_classes: int,
        n: int,
        quantize: bool,
        most: int,
        dimensions: int,
        epochs: int = 0,
        lr: float = 1.0,
        *,
        seed: int,
        device: str,
    ) -> None:
        super().__init__(n_classes, dimensions=dimensions, epochs=epochs, lr=lr, seed=seed, device=device)
        self.n, self.quantize, self.most = n, quantize, most

    def prepare(self, samples: Sequence[str]) -> None:
        """Draw one vector per letter, one for the space, and zeros as padding."""
        self.symbols = torchhd.embeddings.Random(28, self.dimensions, padding_idx=0, device=self.device)

    def encode(self, samples: Sequence[str]) -> Tensor:
        """Return the bundles of the n-grams of texts."""
        table = np.zeros(256, dtype=np.int64)
        table[np.arange(ord("a"), ord("z") + 1)] = np.arange(1, 27)
        table[ord(" ")] = 27
        padded = b"".join(text.lower().encode()[: self.most].ljust(self.most, b"\0") for text in samples)
        rows = torch.as_tensor(table[np.frombuffer(padded, np.uint8)].reshape(-1, self.most), device=self.device)
        step = max(1, _CHUNK_NUMBERS[self.device != "cpu"] // (self.most * self.dimensions))
        bundles = torch.cat([torchhd.ngrams(self.symbols(part), n=self.n) for part in torch.split(rows, step)])
        return torchhd.hard_quantize(bundles) if self.quantize else bundles


class GraphHD(EncodedCentroids):
    """Bundles of edges between nodes numbered by PageRank, as in torch-hd's example GraphHD."""

    def __init__(
        self, n_classes: int, dimensions: int, epochs: int = 0, lr: float = 1.0, *, seed: int, device: str
    ) -> None:
        super().__init__(n_classes, dimensions=dimensions, epochs=epochs, lr=lr, seed=seed, device=device)

    def prepare(self, samples: Sequence[Any]) -> None:
        """Draw one vector per rank; graphs with more nodes than any training graph reuse the last."""
        self.most = max(len(graph.labels) for graph in samples)
        self.ranks = torchhd.embeddings.Random(self.most, self.dimensions, device=self.device).weight

    def encode(self, samples: Sequence[Any]) -> Tensor:
        """Return the bundles of the edges of graphs."""
        ends, owner = [], []
        for place, graph in enumerate(samples):
            ranks = np.argsort(np.argsort(page_rank(len(graph.labels), graph.edges)))
            edges = np.unique(np.sort(ranks[graph.edges], axis=1), axis=0)
            ends.append(np.minimum(edges, self.most - 1))
            owner.append(np.full(len(edges), place))
        pairs = torch.as_tensor(np.concatenate(ends), device=self.device)
        places = torch.as_tensor(np.concatenate(owner), device=self.device)
        out = torch.zeros(len(samples), self.dimensions, device=self.device)
        step = max(1, _CHUNK_NUMBERS[self.device != "cpu"] // (4 * self.dimensions))
        for ranked, rows in zip(torch.split(pairs, step), torch.split(places, step), strict=True):
            bound = torchhd.bind(self.ranks[ranked[:, 0]], self.ranks[ranked[:, 1]])
            out.index_add_(0, rows, bound.as_subclass(Tensor))
        return out


def page_rank(n_nodes: int, edges: Any, alpha: float = 0.85, rounds: int = 100) -> Any:
    """Return the PageRank of the nodes of a graph."""
    degrees = np.maximum(np.bincount(edges[:, 1], minlength=n_nodes), 1)
    matrix = np.zeros((n_nodes, n_nodes))
    matrix[edges[:, 0], edges[:, 1]] = 1.0 / degrees[edges[:, 1]]
    rank = np.full(n_nodes, 1.0 / n_nodes)
    for _ in range(rounds):
        new = alpha * matrix @ rank + (1 - alpha) / n_nodes
        if np.abs(new - rank).sum() < n_nodes * 1e-6:
            return new
        rank = new
    return rank

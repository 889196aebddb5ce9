"""Texts as bundles of n-grams, bound in order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from ghrr import ops
from ghrr.learn.base import FeatureEncoder, seed_of
from ghrr.learn.ngram_counts import NGramCounts, count_ngrams
from ghrr.space import Space

WEIGHTING = ("count", "sqrt", "idf")
_CHUNK_NUMBERS = (1 << 21, 1 << 27)  # complex numbers of n-gram vectors made at a time, on a CPU and on a GPU
_WORDS = re.compile(r"\w+")


class TextFeatures(FeatureEncoder):
    r"""Encode texts by their n-grams: :math:`\sum_g w_g\, x_{g_1} * x_{g_2} * \dots * x_{g_n}`, scaled to length 1.

    The symbols of an n-gram, characters or words, are bound in order, so ``"abc"`` and ``"cba"`` differ. For m = 1
    binding commutes, and factor j is shifted by j slots instead. Texts are similar if they share n-grams.

    The weights matter more than the dimension: in a bundle of all n-grams, the most frequent ones drown the rest.
    ``"sqrt"`` weights by the root of the count, ``"idf"`` also by rarity.

    Parameters
    ----------
    dim, m
        Size of the hypervectors. The output has ``2 * dim * m**2`` columns.
    n
        Symbols per n-gram, or a list of several lengths.
    analyzer
        ``"char"`` or ``"word"``.
    weighting
        ``"count"``, ``"sqrt"`` or ``"idf"``: the root of the count times the logarithm of the inverse share of texts
        that contain the n-gram.
    lowercase
        Change texts to lower case first.
    random_state
        Seed of the symbols.
    device
        Device that computes the features.

    Attributes
    ----------
    space_
        Space of the hypervectors.
    symbols_
        Symbols of the training texts, in the order of their vectors. Others are ignored.

    Examples
    --------
    >>> from ghrr.learn import TextFeatures
    >>> z = TextFeatures(dim=500, n=3, random_state=0).fit_transform(["the cat sat", "the cat ran", "un chat noir"])
    >>> bool(z[0] @ z[1] > 0.4 > z[0] @ z[2])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dim": [Interval(Integral, 1, None, closed="left")],
        "m": [Interval(Integral, 1, None, closed="left")],
        "n": [Interval(Integral, 1, None, closed="left"), list, tuple],
        "analyzer": [StrOptions({"char", "word"})],
        "weighting": [StrOptions(set(WEIGHTING))],
        "lowercase": ["boolean"],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        m: int = 1,
        n: int | Sequence[int] = 3,
        analyzer: str = "char",
        weighting: str = "sqrt",
        lowercase: bool = True,
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.m = m
        self.n = n
        self.analyzer = analyzer
        self.weighting = weighting
        self.lowercase = lowercase
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None) -> Self:
        """Collect the symbols of the texts and, for ``"idf"``, how many texts contain each n-gram."""
        self._validate_params()
        texts = self.check_samples(X)
        tokens = [self._split(text) for text in texts]
        self.symbols_ = sorted(set().union(*tokens))
        if not self.symbols_:
            raise ValueError("TextFeatures: the texts have no symbols; expected at least one character or word")
        self.space_ = Space(dim=int(self.dim), m=int(self.m), seed=seed_of(self.random_state))
        self._vectors = self.space_.vectors(self.symbols_, namespace="symbol", device=self.device)
        self.n_features_out_ = 2 * self.space_.total_dim
        self._grams, self._rarity = [], []
        if self.weighting == "idf":
            for n in self._lengths():
                counted = count_ngrams(self._indices(texts), n)
                shares = np.bincount(counted.indices, minlength=len(counted.grams)) / len(texts)
                self._grams.append(counted.grams)
                self._rarity.append(np.log(1 / shares) + 1)
        return self

    def _lengths(self) -> list[int]:
        lengths: list[Any] = list(self.n) if isinstance(self.n, (list, tuple)) else [self.n]
        if not lengths or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in lengths):
            raise ValueError(f"TextFeatures: n must be a positive integer or a list of them, got {self.n!r}")
        return [int(n) for n in lengths]

    def check_samples(self, X: Any) -> list[str]:
        """Return texts as a list of strings."""
        if isinstance(X, str):
            raise ValueError("TextFeatures: needs a list of texts, got one string; put it into a list")
        texts = list(X)
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, str)), None)
        if wrong is not None:
            raise ValueError(f"TextFeatures: needs strings, got {type(texts[wrong]).__name__} for text {wrong}")
        if not texts:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required by TextFeatures.")
        return texts

    def _split(self, text: str) -> Sequence[str]:
        text = text.lower() if self.lowercase else text
        return text if self.analyzer == "char" else _WORDS.findall(text)

    def _indices(self, texts: Sequence[str]) -> list[NDArray[Any]]:
        """Return the rows of the known symbols of each text."""
        rows = {symbol: row for row, symbol in enumerate(self.symbols_)}
        return [np.array([rows[s] for s in self._split(text) if s in rows], dtype=np.int64) for text in texts]

    def encode(self, samples: Sequence[str]) -> Tensor:
        """Return the features of texts, ``(n, 2 * dim * m**2)``."""
        out = torch.zeros(len(samples), self.n_features_out_, device=self._vectors.device)
        indices = self._indices(samples)
        for place, n in enumerate(self._lengths()):
            counted = count_ngrams(indices, n)
            self._add_ngrams(counted, self._weights(counted, place), out)
        return torch.nn.functional.normalize(out, dim=1)

    def _add_ngrams(self, counted: NGramCounts, weights: NDArray[Any], out: Tensor) -> None:
        """Add the weighted n-gram vectors of each text to its row."""
        order = np.argsort(counted.indices, kind="stable")  # by n-gram: a chunk of n-grams is a range of pairs
        step = max(1, _CHUNK_NUMBERS[out.is_cuda] // self.space_.total_dim)
        bounds = np.searchsorted(counted.indices[order], np.arange(0, len(counted.grams) + step, step))
        for chunk, (first, last) in enumerate(itertools.pairwise(bounds)):
            pairs = order[first:last]
            vectors = self.ngram_vectors(counted.grams[chunk * step : (chunk + 1) * step])
            sparse = torch.sparse_coo_tensor(
                torch.as_tensor(np.stack([counted.texts[pairs], counted.indices[pairs] - chunk * step])),
                torch.as_tensor(weights[pairs], dtype=torch.float32),
                (len(out), len(vectors)),
                check_invariants=False,
            )
            out += torch.sparse.mm(sparse.to(out.device), torch.view_as_real(vectors).flatten(start_dim=1))

    def _weights(self, counted: NGramCounts, place: int) -> NDArray[Any]:
        """Return the weight of each pair of a text and an n-gram; ``place`` is that of its length."""
        if self.weighting == "count":
            return counted.counts.astype(np.float64)
        weights: NDArray[Any] = np.sqrt(counted.counts)
        if self.weighting == "idf":
            keys, rarity, own = _as_keys(self._grams[place]), self._rarity[place], _as_keys(counted.grams)
            at = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
            most = rarity.max()  # n-grams that were never seen are as rare as the rarest
            weights = weights * np.where(keys[at] == own, rarity[at], most)[counted.indices]
        return weights

    def ngram_vectors(self, grams: NDArray[Any]) -> Tensor:
        """Return the hypervectors of n-grams, given as rows of symbol indices: ``(k, n)`` to ``(k, dim, m, m)``."""
        index = torch.as_tensor(grams, device=self._vectors.device)
        result = self._vectors[index[:, 0]]
        for factor in range(1, index.shape[1]):
            table = ops.shift(self._vectors, factor) if self.space_.m == 1 else self._vectors
            result = ops.bind(result, table[index[:, factor]])
        return result

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        return tags


def _as_keys(grams: NDArray[Any]) -> NDArray[Any]:
    """Return rows of indices as one sortable value each."""
    contiguous = np.ascontiguousarray(grams.astype(">u4"))
    return contiguous.view(np.dtype((np.void, contiguous.dtype.itemsize * grams.shape[1])))[:, 0]

"""Texts as bundles of n-grams, bound in order."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence, Set
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d
from torch import Tensor

from ghrr.checks import names_errors, value_error
from ghrr.encoding.bags import WeightedBags, weighted_bags
from ghrr.encoding.ngram_counts import NGramCounts, as_keys, count_ngrams, find_keys
from ghrr.encoding.ngram_vectors import ngram_vectors
from ghrr.learn.base import Effects, FeatureEncoder, as_array, as_features, run_on_rows, seed_of
from ghrr.learn.ngram_weights import class_information, rarity
from ghrr.space import Space

WEIGHTING = ("count", "sqrt", "idf", "learned")
_GRAMS = 1 << 13  # n-grams bundled at a time: few enough to make many slots of each
_SHARES = 1e5  # shares of n-grams count in this unit: below by themselves, above by their logarithm
_WORDS = re.compile(r"\w+")


@names_errors
class TextFeatures(FeatureEncoder):
    r"""Encode texts by their n-grams: :math:`\sum_g w_g\, x_{g_1} * x_{g_2} * \dots * x_{g_n}`, scaled to length 1.

    The symbols of an n-gram, characters, words or tokens of your own, are bound in order, so ``"abc"`` and ``"cba"``
    differ. For m = 1 binding commutes, and factor j is shifted by j slots instead. Texts are similar if they share
    n-grams.

    The weights matter more than the dimension: in a bundle of all n-grams, the most frequent ones dominate.
    ``"sqrt"`` weights by the root of the count, ``"idf"`` also by rarity, and ``"learned"`` by the logarithm of the
    share of the n-gram in the text and by its information about the class.

    Parameters
    ----------
    dim, m
        Size of the hypervectors. The output has ``2 * dim * m**2`` columns.
    n
        Symbols per n-gram, or a list of several lengths.
    analyzer
        ``"char"``, ``"word"``, or ``"token"``: samples are lists of tokens, compared as strings, instead of texts.
    weighting
        ``"count"``; ``"sqrt"``, the root of the count; ``"idf"``, the root times the logarithm of the inverse share of
        texts that contain the n-gram; or ``"learned"``, :math:`\ln(1 + 10^5 s)` for the share s of the n-gram in the
        text, times the root of its information about the class. ``"learned"`` needs labels in ``fit``; see
        ``ghrr.learn.ngram_weights.class_information``.
    lowercase
        Change texts to lower case first; tokens stay as they are.
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
        "analyzer": [StrOptions({"char", "word", "token"})],
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Collect the symbols of the texts and, for ``"idf"`` and ``"learned"``, the weights of their n-grams.

        Parameters
        ----------
        X
            Texts: a list of strings, or one column of a table.
        y
            Labels, for ``"learned"``.
        sample_weight
            Weights of the texts, for ``"idf"`` and ``"learned"``.
        """
        self._validate_params()
        self._lengths()  # checks n
        texts = self.check_samples(X)
        shares = _check_sample_weight(sample_weight, texts, dtype=np.float64, ensure_non_negative=True)
        labels = self._check_labels(texts, y) if self.weighting == "learned" else None
        kept = np.flatnonzero(shares)  # texts of weight 0 do not count
        texts, shares = [texts[row] for row in kept], shares[kept]
        self.symbols_ = sorted(set().union(*(self._split(text) for text in texts)))
        if not self.symbols_:
            raise value_error("the texts have no symbols; expected at least one character, word or token")
        self.space_ = Space(dim=int(self.dim), m=int(self.m), seed=seed_of(self.random_state))
        self._vectors = self.space_.vectors(self.symbols_, namespace="symbol", device=self.device)
        self.n_features_out_ = 2 * self.space_.total_dim
        self._grams, self._gram_weights = [], []
        if self.weighting in ("idf", "learned"):
            indices = self._indices(texts)
            for n in self._lengths():
                counted = count_ngrams(indices, n)
                self._grams.append(counted.grams)
                self._gram_weights.append(
                    rarity(counted, shares)
                    if labels is None
                    else class_information(counted, labels[kept], shares) ** 0.5
                )
        return self

    def _check_labels(self, texts: list[str], y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError(
                'TextFeatures(weighting="learned") requires y to be passed, but the target y is None; give labels'
            )
        y = column_or_1d(as_array(y))
        if y.dtype.kind == "f" and (y != np.round(y)).any():
            raise ValueError('TextFeatures(weighting="learned"): needs labels of classes, got continuous numbers')
        check_consistent_length(texts, y)
        labels: NDArray[Any] = np.unique(y, return_inverse=True)[1]
        return labels

    def _lengths(self) -> list[int]:
        lengths: list[Any] = list(self.n) if isinstance(self.n, (list, tuple)) else [self.n]
        if not lengths or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in lengths):
            raise value_error(f"n must be a positive integer or a list of them, got {self.n!r}")
        return [int(n) for n in lengths]

    def check_samples(self, X: Any) -> list[Any]:
        """Return texts as a list of strings, or of lists of tokens."""
        if isinstance(X, str):
            raise value_error("needs a list of texts, got one string; put it into a list")
        if not (self.analyzer == "token" and isinstance(X, np.ndarray)):  # the rows of an array are lists of tokens
            X = _one_column(X)
        texts = X.to_list() if hasattr(X, "to_list") else list(X)
        kinds, name = ((list, tuple, np.ndarray), "lists of tokens") if self.analyzer == "token" else (str, "strings")
        wrong = next((i for i, text in enumerate(texts) if not isinstance(text, kinds)), None)
        if wrong is not None:
            raise value_error(f"needs {name}, got {type(texts[wrong]).__name__} for text {wrong}")
        if not texts:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required by TextFeatures.")
        return texts

    def _split(self, text: Any) -> Sequence[str]:
        if self.analyzer == "token":
            return [str(token) for token in text]
        text = text.lower() if self.lowercase else text
        return text if self.analyzer == "char" else _WORDS.findall(text)

    def _indices(self, texts: Sequence[Any]) -> list[NDArray[Any]]:
        """Return the rows of the known symbols of each text."""
        if self.analyzer == "char":
            return _rows_of_characters(self.symbols_, [self._split(text) for text in texts])
        rows = {symbol: row for row, symbol in enumerate(self.symbols_)}
        return [np.array([rows[s] for s in self._split(text) if s in rows], dtype=np.int64) for text in texts]

    def encode(self, samples: Sequence[Any]) -> Tensor:
        """Return the features of texts, ``(n, 2 * dim * m**2)``."""
        return torch.nn.functional.normalize(self._bundle(*self._count(samples), len(samples)), dim=1)

    def _count(self, texts: Sequence[str]) -> tuple[list[NGramCounts], list[NDArray[Any]]]:
        """Return the n-grams of each length and their weights."""
        indices = self._indices(texts)
        counts = [count_ngrams(indices, n) for n in self._lengths()]
        return counts, [self._weights(counted, place) for place, counted in enumerate(counts)]

    def _bundle(self, counts: Sequence[NGramCounts], weights: Sequence[NDArray[Any]], n_texts: int) -> Tensor:
        """Return the sum of the weighted n-gram vectors of each text."""
        out = torch.zeros(n_texts, *self.space_.shape, dtype=self._vectors.dtype, device=self._vectors.device)
        for counted, own in zip(counts, weights, strict=True):
            for rows, bags in weighted_bags(counted.texts, counted.indices, own, _GRAMS, out):
                add = functools.partial(self._add_slots, bags, counted.grams[rows], out)
                run_on_rows(add, self.space_.dim, out.device)
        return as_features(out)

    def _add_slots(self, bags: WeightedBags, grams: NDArray[Any], out: Tensor, slots: slice) -> None:
        """Add the weighted n-gram vectors of each text for a range of slots."""
        for chunk, vectors in ngram_vectors(self._vectors, grams, slots):
            bags.add_to(out[:, chunk], vectors)

    def _weights(self, counted: NGramCounts, place: int) -> NDArray[Any]:
        """Return the weight of each pair of a text and an n-gram; ``place`` is the place of its length."""
        if self.weighting == "count":
            return counted.counts.astype(np.float64)
        if self.weighting == "learned":
            totals = np.bincount(counted.texts, counted.counts)
            weights: NDArray[Any] = np.log1p(_SHARES * counted.counts / totals[counted.texts])
        else:
            weights = np.sqrt(counted.counts)
        if self._grams and len(self._grams[place]):
            keys, table, own = as_keys(self._grams[place]), self._gram_weights[place], as_keys(counted.grams)
            at = find_keys(keys, own)
            # N-grams that were never seen are as rare as the rarest, and have no information about the class.
            unseen = table.max() if self.weighting == "idf" else 0.0
            weights = weights * np.where(at >= 0, table[at], unseen)[counted.indices]
        return weights

    def effects(self, samples: Sequence[str], vector: Tensor, reference: Any) -> Effects:
        r"""Return what each n-gram contributes: its weight in a text times the similarity of its hypervector with v.

        Weights are divided by the length of the hypervector of the text, so the contributions in a text add up to the
        inner product :math:`\langle z, v \rangle`.
        """
        counts, weights = self._count(samples)
        lengths = torch.linalg.vector_norm(self._bundle(counts, weights, len(samples)), dim=1).clamp(min=1e-12)
        v = vector.to(lengths).view(self.space_.dim, -1)
        names: list[str] = []
        parts = []
        for counted, own in zip(counts, weights, strict=True):
            shares = np.bincount(
                counted.indices, own / lengths.numpy(force=True)[counted.texts], minlength=len(counted.grams)
            )
            similar = sum(
                as_features(vectors) @ v[slots].flatten()
                for slots, vectors in ngram_vectors(self._vectors, counted.grams)
            )
            parts.append(torch.as_tensor(shares / len(samples)) * torch.as_tensor(similar).cpu())
            joint = "" if self.analyzer == "char" else " "
            names += [joint.join(self.symbols_[row] for row in gram) for gram in counted.grams.tolist()]
        mean = torch.cat(parts)
        return Effects(names, mean, mean.abs())  # weights are never negative

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.target_tags.required = self.weighting == "learned"
        return tags


def _one_column(X: Any) -> Any:
    """Return the column of a table or an array that has only one; lists and single columns as they are."""
    shape: tuple[int, ...] = getattr(X, "shape", (0,))
    if len(shape) == 2 and shape[1] == 1:
        return np.asarray(X)[:, 0]
    if len(shape) != 1 or isinstance(X, (Mapping, Set)) or not hasattr(X, "__iter__"):
        size = f" of shape {tuple(shape)}" if len(shape) != 1 else ""
        raise value_error(
            f"needs a list of texts or one column of a table, got {type(X).__name__}{size}; give one "
            f'column, for example df["note"]'
        )
    return X


def _rows_of_characters(symbols: Sequence[str], texts: Sequence[Any]) -> list[NDArray[Any]]:
    """Return the rows of the characters of each text; unknown characters are left out."""
    codes = [ord(symbol) for symbol in symbols]
    table = np.full(max(codes) + 2, -1)  # the last entry is for all characters beyond
    table[codes] = np.arange(len(codes))
    joined = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    rows = table[np.minimum(joined, len(table) - 1)]
    ends = np.cumsum([len(text) for text in texts])
    known = np.concatenate([[0], np.cumsum(rows >= 0)])
    return np.split(rows[rows >= 0], known[ends[:-1]])

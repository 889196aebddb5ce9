"""Count the n-grams of many texts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class NGramCounts:
    """N-grams of several texts.

    Parameters
    ----------
    grams
        Distinct n-grams, as indices of symbols, ``(k, n)``.
    texts, indices, counts
        For each pair of a text and one of its n-grams: the text, the row of the n-gram, and how often it occurs.
        Sorted by text.
    """

    grams: Integers
    texts: Integers
    indices: Integers
    counts: Integers


def count_ngrams(symbols: Sequence[NDArray[Any]], n: int) -> NGramCounts:
    """Count the n-grams of texts, given as arrays of symbol indices. A text shorter than n has none.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn.ngram_counts import count_ngrams
    >>> counted = count_ngrams([np.array([0, 1, 0, 1]), np.array([1])], 2)
    >>> counted.grams.tolist(), counted.texts.tolist(), counted.counts.tolist()
    ([[0, 1], [1, 0]], [0, 0], [2, 1])
    """
    lengths = np.array([len(text) for text in symbols], dtype=np.int64)
    flat = np.concatenate([*symbols, np.empty(0, dtype=np.int64)]).astype(np.int64)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    starts = np.flatnonzero(owner[: len(owner) - n + 1] == owner[n - 1 :]) if len(flat) >= n else np.empty(0, np.int64)
    base = int(flat.max(initial=0)) + 1
    keys = flat[starts]
    for k in range(1, n):
        if int(keys.max(initial=0)) >= 2**62 // base:  # too large for 64 bits: number the distinct keys
            keys = np.unique(keys, return_inverse=True)[1]
        keys = keys * base + flat[starts + k]
    _, first, rows = np.unique(keys, return_index=True, return_inverse=True)
    grams = flat[starts[first][:, None] + np.arange(n)]
    pairs, counts = np.unique(owner[starts] * max(1, len(first)) + rows, return_counts=True)
    return NGramCounts(grams, pairs // max(1, len(first)), pairs % max(1, len(first)), counts)

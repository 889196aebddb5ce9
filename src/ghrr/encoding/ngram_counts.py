"""Count the n-grams of many texts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_TABLE = 8  # keys up to this many times their number are numbered by a table, which is faster than sorting them


@dataclass(frozen=True)
class NGramCounts:
    """N-grams of several texts, or other products of symbols in several samples.

    Parameters
    ----------
    grams
        Distinct n-grams, as indices of symbols, ``(k, n)``.
    texts, indices, counts
        For each pair of a text and one of its n-grams: the text, the row of the n-gram, and how often it occurs.
        Sorted by text.
    """

    grams: NDArray[Any]
    texts: Integers
    indices: Integers
    counts: Integers


def count_ngrams(symbols: Sequence[NDArray[Any]], n: int) -> NGramCounts:
    """Count the n-grams of texts, given as arrays of symbol indices. A text shorter than n has none.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.ngram_counts import count_ngrams
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
            keys = number_keys(keys)[1]
        keys = keys * base + flat[starts + k]
    first, *pairs = count_pairs(owner[starts], keys)
    return NGramCounts(flat[starts[first][:, None] + np.arange(n)], *pairs)


def count_pairs(owners: Integers, keys: NDArray[Any]) -> tuple[Integers, Integers, Integers, Integers]:
    """Count the distinct keys of each owner.

    Returns the index of one occurrence of each distinct key; then, for each pair of an owner and one of its keys, the
    owner, the row of the key, and how often it occurs. Sorted by owner.
    """
    first, rows = number_keys(keys)
    pairs, counts = np.unique(owners * max(1, len(first)) + rows, return_counts=True)
    return first, pairs // max(1, len(first)), pairs % max(1, len(first)), counts


def stable_order(keys: NDArray[Any]) -> Integers:
    """Return the indices that sort integers of at least 0, equal ones in their order.

    Like ``argsort(kind="stable")``, but NumPy sorts numbers several times faster than their indices, so the index is
    put into the lower bits of each number where there are enough of them.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.ngram_counts import stable_order
    >>> stable_order(np.array([3, 1, 3, 0]))
    array([3, 1, 0, 2])
    """
    bits = len(keys).bit_length()
    if int(keys.max(initial=0)).bit_length() + bits > 63:
        return np.argsort(keys, kind="stable")
    packed = (keys.astype(np.int64) << bits) | np.arange(len(keys))
    packed.sort()
    return packed & ((1 << bits) - 1)


def number_keys(keys: NDArray[Any]) -> tuple[Integers, Integers]:
    """Return where each distinct key occurs, in ascending order of keys, and the number of each key in that order."""
    size = int(keys.max()) + 1 if len(keys) else 0
    if size > _TABLE * len(keys):
        order = stable_order(keys)
        ranked = keys[order]
        starts = np.concatenate([[True], ranked[1:] != ranked[:-1]])
        rows = np.empty(len(keys), dtype=np.int64)
        rows[order] = np.cumsum(starts) - 1
        return order[starts], rows
    places = np.full(size, -1)
    places[keys] = np.arange(len(keys))
    present = np.flatnonzero(places >= 0)
    first = places[present]
    places[present] = np.arange(len(present))
    return first, places[keys]


def as_keys(grams: NDArray[Any]) -> NDArray[Any]:
    """Return rows of indices as one sortable value each."""
    contiguous = np.ascontiguousarray(grams.astype(">u4"))
    return contiguous.view(np.dtype((np.void, contiguous.dtype.itemsize * grams.shape[1])))[:, 0]


def find_keys(keys: NDArray[Any], wanted: NDArray[Any]) -> Integers:
    """Return the index of each wanted key among ascending keys, or -1.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.ngram_counts import find_keys
    >>> find_keys(np.array([2, 5, 7]), np.array([7, 3]))
    array([ 2, -1])
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)

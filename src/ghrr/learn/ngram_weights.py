"""Weights of n-grams: their rarity, and their information about the class of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.encoding.ngram_counts import NGramCounts, stable_order

_CHUNK_NUMBERS = 1 << 22  # of the table of n-grams by classes, made in parts


def rarity(counted: NGramCounts, weights: NDArray[Any]) -> NDArray[Any]:
    r"""Return :math:`1 + \ln(N / N_g)` for each n-gram g that :math:`N_g` of N texts contain, by their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.ngram_counts import count_ngrams
    >>> from ghrr.learn.ngram_weights import rarity
    >>> rarity(count_ngrams([np.array([0, 1]), np.array([0])], 1), np.ones(2)).round(2)
    array([1.  , 1.69])
    """
    found = np.bincount(counted.indices, weights[counted.texts], minlength=len(counted.grams))
    inverse: NDArray[Any] = np.log(weights.sum() / np.maximum(found, np.finfo(float).tiny)) * (found > 0)
    return inverse + 1


def class_information(counted: NGramCounts, labels: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    r"""Return the information of each n-gram about the class of a text, in nats, from 0 to the logarithm of K classes.

    For an n-gram g with :math:`c_{gk}` occurrences in class k, of which :math:`e_{gk}` are expected from the length of
    the class alone, the lift is :math:`r_{gk} = (c_{gk} + 1) / (e_{gk} + 1)`, and the class of a text with g has the
    probabilities :math:`p_{gk} = r_{gk} / \sum_l r_{gl}`. The information is their divergence from K equally probable
    classes,

    .. math:: \sum_k p_{gk} \ln (K p_{gk}) .

    An n-gram that is equally frequent in all classes has 0. The added 1 keeps n-grams that occur once from counting as
    certain.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.encoding.ngram_counts import count_ngrams
    >>> from ghrr.learn.ngram_weights import class_information
    >>> counted = count_ngrams([np.array([0, 1] * 50), np.array([0, 2] * 50)], 1)
    >>> class_information(counted, np.array([0, 1]), np.ones(2)).round(2)  # symbol 0 is in both classes
    array([0. , 0.6, 0.6])
    """
    n_classes, n_grams = int(labels.max()) + 1, len(counted.grams)
    occurrences = counted.counts * weights[counted.texts]
    owners = labels[counted.texts]
    lengths = np.bincount(owners, occurrences, minlength=n_classes)
    shares = lengths / max(lengths.sum(), np.finfo(float).tiny)
    order = stable_order(counted.indices)
    step = max(1, _CHUNK_NUMBERS // n_classes)
    ranked = counted.indices[order]
    result: NDArray[Any] = np.zeros(n_grams)
    for start in range(0, n_grams, step):
        size = min(step, n_grams - start)
        first, last = np.searchsorted(ranked, [start, start + size])
        pairs = order[first:last]
        cells = (counted.indices[pairs] - start) * n_classes + owners[pairs]
        table = np.bincount(cells, occurrences[pairs], minlength=size * n_classes).reshape(size, n_classes)
        lift = (table + 1) / (table.sum(axis=1, keepdims=True) * shares + 1)
        p = lift / lift.sum(axis=1, keepdims=True)
        result[start : start + size] = np.maximum((p * np.log(n_classes * p)).sum(axis=1), 0.0)
    return result

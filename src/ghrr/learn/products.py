"""Weighted bundles of products of symbols, for many samples at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.learn.ngram_counts import NGramCounts, stable_order
from ghrr.learn.ngram_vectors import CHUNK_NUMBERS, ngram_vectors


def bind_in_order(table: Tensor, grams: NDArray[Any]) -> Tensor:
    """Bind rows of a table in order; for m = 1, where binding commutes, factor j is shifted by j slots.

    Shapes
    ------
    table: ``(symbols, dim, m, m)``, grams: ``(k, n)``, indices of rows; output: ``(k, dim, m, m)``

    Examples
    --------
    >>> import numpy as np, ghrr
    >>> from ghrr.learn.products import bind_in_order
    >>> table = ghrr.Space(dim=500, m=1).vectors(["a", "b"])
    >>> ab, ba = bind_in_order(table, np.array([[0, 1], [1, 0]]))
    >>> bool(abs(ghrr.similarity(ab, ba)) < 0.2)
    True
    """
    return torch.cat([vectors for _, vectors in ngram_vectors(table, grams)], dim=1)


def add_products(
    counted: NGramCounts, weights: NDArray[Any], vectors_of: Callable[[NDArray[Any]], Tensor], out: Tensor
) -> None:
    """Add the weighted sum of the products of each sample to its row of ``out``, ``(samples, 2 * dim * m**2)``.

    Parameters
    ----------
    counted
        Distinct products, and which sample contains which.
    weights
        Weight of each pair of a sample and a product.
    vectors_of
        Function from some rows of ``counted.grams`` to their hypervectors. It is called on one chunk at a time.
    out
        Features, as pairs of real and imaginary parts.
    """
    step = max(1, CHUNK_NUMBERS[out.is_cuda] // (out.shape[1] // 2))
    for grams, sparse in weight_matrices(counted, weights, step, out):
        out += torch.sparse.mm(sparse, torch.view_as_real(vectors_of(grams)).flatten(start_dim=1))


def weight_matrices(
    counted: NGramCounts, weights: NDArray[Any], step: int, out: Tensor
) -> Iterator[tuple[NDArray[Any], Tensor]]:
    """Yield ``step`` distinct products at a time, and their weights as a sparse matrix ``(samples, products)``.

    The matrix has the rows and the device of ``out``. Other parameters are those of :func:`add_products`.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from ghrr.learn.ngram_counts import count_ngrams
    >>> from ghrr.learn.products import weight_matrices
    >>> counted = count_ngrams([np.array([4, 5, 4]), np.array([5])], 1)
    >>> [(grams, sparse)] = weight_matrices(counted, counted.counts, 10, torch.zeros(2, 8))
    >>> grams.tolist(), sparse.to_dense().tolist()
    ([[4], [5]], [[2.0, 1.0], [0.0, 1.0]])
    """
    order = stable_order(counted.indices)  # by product: a chunk of products is a range of pairs
    ranked = counted.indices[order]
    for start in range(0, len(counted.grams), step):
        grams = counted.grams[start : start + step]
        first, last = np.searchsorted(ranked, [start, start + len(grams)])
        pairs = order[first:last]
        sparse = torch.sparse_coo_tensor(
            torch.as_tensor(np.stack([counted.texts[pairs], counted.indices[pairs] - start])),
            torch.as_tensor(weights[pairs], dtype=torch.float32),
            (len(out), len(grams)),
            check_invariants=False,
        )
        yield grams, sparse.to(out.device)

"""Weighted bundles of products of symbols, for many samples at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.learn.ngram_counts import NGramCounts, stable_order
from ghrr.learn.ngram_vectors import ngram_vectors

_CHUNK_NUMBERS = (1 << 21, 1 << 27)  # complex numbers of products made at a time, on a CPU and on a GPU


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
    order = stable_order(counted.indices)  # by product: a chunk of products is a range of pairs
    step = max(1, _CHUNK_NUMBERS[out.is_cuda] // (out.shape[1] // 2))
    bounds = np.searchsorted(counted.indices[order], np.arange(0, len(counted.grams) + step, step))
    for chunk, (first, last) in enumerate(itertools.pairwise(bounds)):
        pairs = order[first:last]
        vectors = vectors_of(counted.grams[chunk * step : (chunk + 1) * step])
        sparse = torch.sparse_coo_tensor(
            torch.as_tensor(np.stack([counted.texts[pairs], counted.indices[pairs] - chunk * step])),
            torch.as_tensor(weights[pairs], dtype=torch.float32),
            (len(out), len(vectors)),
            check_invariants=False,
        )
        out += torch.sparse.mm(sparse.to(out.device), torch.view_as_real(vectors).flatten(start_dim=1))

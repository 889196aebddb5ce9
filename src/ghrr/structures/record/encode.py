r"""Encoding: the sum of a document's leaves, each its value bound to its path.

With shifts, a value V under a path P of depth d is :math:`P * \rho^d(V)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.algebra import bind_bundle, shift
from ghrr.structures.layout import Path, PathTable, shift_each
from ghrr.structures.record.codebook import Codebook
from ghrr.structures.record.documents import Batch, distinct
from ghrr.structures.record.value_table import Item
from ghrr.structures.vocabulary import chunks

Numbers = NDArray[np.int64]


def encode_documents(book: Codebook, documents: Sequence[Any], path: Path = ()) -> Tensor:
    """Return the sums of the leaves of documents that are at a path, ``(len(documents), dim, m, m)``."""
    with book.lock:
        batch = book.batch(documents, path)
        items = book.table.items(batch.values, batch.scales, batch.where)
        nodes, values, starts = batch.leaves()
        total: Tensor | None = None
        index: Numbers | None = None
        for value_rows, value_vectors in book.table.tables(items):
            index = value_rows if index is None else index  # the first table is the vocabulary
            for keys in book.layout.tables(nodes):
                part = _bags(keys, value_vectors, value_rows[values], nodes, starts)
                total = part if total is None else total.add_(part)
        if index is not None:
            _remember(book, batch, index)
    return book.space.zeros(len(documents)) if total is None else total


def _bags(keys: PathTable, values: Tensor, rows: Numbers, nodes: Numbers, starts: Numbers) -> Tensor:
    """The sums of those leaves whose path and value are in the tables."""
    if keys.row_of is not None:
        nodes = keys.row_of[nodes]
    here = (rows >= 0) & (nodes >= 0)
    before = np.concatenate([[0], np.cumsum(here)])
    bags = map(torch.from_numpy, (nodes[here], rows[here], before[starts]))
    total = ops.bind_bags(keys.vectors, values, *bags)
    return shift(total, keys.depth) if keys.depth else total


def _remember(book: Codebook, batch: Batch, index: Numbers) -> None:
    """Make paths and values of a batch known to readers, after everything that can fail.

    ``index`` holds the row of each value in the vocabulary, -1 for numbers on a scale.
    """
    count = len(index)
    book.seen.add((node, index[distinct(numbers, count)].tolist()) for node, _, numbers in batch.columns)
    for node in batch.nodes:
        book.layout.mark_leaf(node)


def bind_items(book: Codebook, paths: Sequence[Path], items: Sequence[Item]) -> Tensor:
    """Return the sum of items bound to paths, ``(dim, m, m)``."""
    total = book.space.zeros()
    for run in chunks(len(paths), book.space):
        some = paths[run]
        vectors = book.table.vectors(items[run])
        if book.permute:
            vectors = shift_each(vectors, [len(path) for path in some])
        total = total + bind_bundle(book.layout.path_vectors(some), vectors)
    return total

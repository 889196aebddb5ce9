r"""Encoding: the sum of the leaves of a document, each of which is its value bound to its path.

A value V under a path of depth d is :math:`B * V`, or :math:`\rho^d(B * V)` with shifts, where B is the hypervector of
the path (:mod:`ghrr.structures.path_tree`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr import ops
from ghrr.algebra import shift
from ghrr.structures.inputs import chunks
from ghrr.structures.path_tree import Path
from ghrr.structures.record.leaves import Integers, Leaves, distinct
from ghrr.structures.record.tables import RecordTables
from ghrr.structures.record.value_table import Item


def encode_documents(tables: RecordTables, documents: Sequence[Any], path: Path = ()) -> Tensor:
    """Return the hypervectors of documents at a path, ``(len(documents), dim, m, m)``."""
    with tables.lock:
        leaves = tables.leaves(documents, path)
        items = tables.values.items(leaves.values, leaves.scales, leaves.where)
        total, index = _sum_leaves(tables, leaves, items)
        _remember(tables, leaves, index)
    return total


def _sum_leaves(tables: RecordTables, leaves: Leaves, items: Sequence[Item]) -> tuple[Tensor, Integers]:
    """Return the sum of each document, and the index of each value in the vocabulary."""
    rows, nodes, values = leaves.arrays()
    # All leaves of a document at the same depth are one bag; the sum of a bag is shifted by its depth.
    count = len(leaves.documents)
    depths = tables.paths.depths(nodes)
    different = np.unique(depths) if tables.paths.permute else np.zeros(1, dtype=np.int64)
    bag = np.searchsorted(different, depths) * count + rows
    order = np.argsort(bag, kind="stable")
    nodes, values = nodes[order], values[order]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(bag, minlength=count * len(different)))])
    sums: Tensor | None = None
    index: Integers | None = None
    for value_rows, value_vectors in tables.values.tables(items):
        index = value_rows if index is None else index  # the first table is the vocabulary
        for row_of, path_vectors in tables.paths.tables(nodes):
            key_indices = nodes if row_of is None else row_of[nodes]
            part = _bind_bags(path_vectors, value_vectors, key_indices, value_rows[values], offsets)
            sums = part if sums is None else sums.add_(part)
    assert sums is not None  # there is always a vocabulary
    assert index is not None
    by_depth = [shift(sums[n * count : (n + 1) * count], depth) for n, depth in enumerate(different.tolist())]
    return sum(by_depth[1:], start=by_depth[0]), index


def _bind_bags(
    keys: Tensor, values: Tensor, key_indices: Integers, value_indices: Integers, offsets: Integers
) -> Tensor:
    """Return the sum of each bag, without the leaves whose key or value has the index -1."""
    here = (value_indices >= 0) & (key_indices >= 0)
    if not here.all():
        offsets = np.concatenate([[0], np.cumsum(here)])[offsets]
        key_indices, value_indices = key_indices[here], value_indices[here]
    bags = (torch.from_numpy(array).to(keys.device) for array in (key_indices, value_indices, offsets))
    return ops.bind_bags(keys, values, *bags)


def _remember(tables: RecordTables, leaves: Leaves, index: Integers) -> None:
    """Make paths and values known to readers, after everything that can fail.

    ``index`` holds the row of each value in the vocabulary, -1 for numbers on a scale.
    """
    count = len(index)
    tables.seen.add((node, index[distinct(numbers, count)].tolist()) for node, _, numbers in leaves.columns)
    for node in leaves.nodes:
        tables.paths.mark_leaf(node)


def encode_items(tables: RecordTables, paths: Sequence[Path], items: Sequence[Item]) -> Tensor:
    """Return the sum of items bound to paths, ``(dim, m, m)``."""
    total = tables.space.zeros().to(tables.device)
    for chunk in chunks(len(paths), tables.space):
        total = total + tables.paths.bundle(paths[chunk], tables.values.vectors(items[chunk]))
    return total

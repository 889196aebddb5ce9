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

_FEW_NUMBERS = 1 << 16  # complex numbers in the sums of one depth: 512 KiB in complex64


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
    count = len(leaves.documents)
    shifts = leaves.per_leaf(tables.paths.shift_of)
    depths = sorted(set(shifts.tolist())) or [0]
    # The leaves of a document at one depth are a bag, whose sum is shifted by the depth. All bags of a few documents
    # are summed in one call; for many documents the sums of one depth at a time take less memory.
    together = len(depths) if count * tables.space.total_dim <= _FEW_NUMBERS else 1
    total: Tensor | None = None
    index: Integers | None = None
    for value_rows, value_vectors in tables.values.tables(items):
        index = value_rows if index is None else index  # the first table is the vocabulary
        for row_of, path_vectors in tables.paths.tables(nodes):
            key_indices = nodes if row_of is None else row_of[nodes]
            for start in range(0, len(depths), together):
                group = depths[start : start + together]
                bags = np.searchsorted(group, shifts) * count + rows if len(group) > 1 else rows
                is_in_tables = (key_indices >= 0) & (value_rows[values] >= 0)
                if len(group) < len(depths):
                    is_in_tables &= shifts == group[0]
                chosen = np.flatnonzero(is_in_tables)[np.argsort(bags[is_in_tables], kind="stable")]
                offsets = np.concatenate([[0], np.cumsum(np.bincount(bags[chosen], minlength=count * len(group)))])
                arrays = key_indices[chosen], value_rows[values[chosen]], offsets
                sums = ops.bind_bags(
                    path_vectors, value_vectors, *(torch.from_numpy(array).to(tables.device) for array in arrays)
                )
                for depth, part in zip(group, sums.reshape(len(group), count, *sums.shape[1:]), strict=True):
                    total = _add_shifted(total, part, depth)
    assert total is not None  # there is always a vocabulary
    assert index is not None
    return total, index


def _add_shifted(total: Tensor | None, part: Tensor, depth: int) -> Tensor:
    """Return total + shift(part, depth); total is changed in place."""
    if total is None:
        return shift(part, depth) if depth else part
    if not depth:
        return total.add_(part)
    total[:, depth:] += part[:, :-depth]
    total[:, :depth] += part[:, -depth:]
    return total


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

"""Sums given by indices into tables: of bound pairs, and of weighted rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.encoding.ngram_counts import Integers


def bind_rows(
    keys: Tensor,
    values: Tensor,
    key_indices: Tensor,
    value_indices: Tensor,
    offsets: Tensor,
    *,
    shifted: bool = False,
) -> Tensor:
    r"""Return sums of bound pairs, :math:`\sum_n K_{k_n} * V_{v_n}`, without storing the pairs.

    Differentiable with respect to keys and values.

    Parameters
    ----------
    keys, values
        Tables of hypervectors.
    key_indices, value_indices
        Row of the key and row of the value of each pair.
    offsets
        Index of the first pair of each sum, followed by the number of pairs.
    shifted
        Shift values by one slot before binding. The table is not copied.

    Shapes
    ------
    keys: ``(p, dim, m, m)``, values: ``(q, dim, m, m)``, indices: ``(n,)``, offsets: ``(sums + 1,)``; output:
    ``(sums, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.encoding.bags import bind_rows
    >>> x = ghrr.Space(dim=10, m=2).random(3)
    >>> keys, values, offsets = torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([0, 1, 2])
    >>> sums = bind_rows(x, x, keys, values, offsets, shifted=True)
    >>> torch.allclose(sums, ghrr.bind(x[:2], ghrr.shift(x[2])), atol=1e-6)
    True
    """
    if not shifted or keys.shape[1] == 1:
        return ops.bind_bags(keys, values, key_indices, value_indices, offsets)
    first = ops.bind(keys[key_indices, :1], values[value_indices, -1:])  # a single slot: storing the pairs is cheap
    sum_of_pair = torch.repeat_interleave(offsets.diff())
    others = ops.bind_bags(keys[:, 1:], values[:, :-1], key_indices, value_indices, offsets)
    zeros = first.new_zeros((len(others), *first.shape[1:]))
    return torch.cat([zeros.index_add_(0, sum_of_pair, first), others], dim=1)


@dataclass(frozen=True)
class WeightedBags:
    """Weighted sums of hypervectors in a table, one sum per bag, as a sparse matrix by rows.

    Parameters
    ----------
    offsets
        Bag i has the entries from ``offsets[i]`` to ``offsets[i + 1]``.
    rows, weights
        Row of the table and weight of each entry.
    """

    offsets: Tensor
    rows: Tensor
    weights: Tensor

    def add_to(self, out: Tensor, vectors: Tensor) -> None:
        """Add the sums to ``out``, ``(bags, slots, m, m)``, given the table ``(k, slots, m, m)``."""
        sums = torch.nn.functional.embedding_bag(
            self.rows,
            torch.view_as_real(vectors.to(out.dtype)).flatten(1),
            self.offsets,
            mode="sum",
            per_sample_weights=self.weights,
            include_last_offset=True,
        )
        parts = torch.view_as_real(out)
        parts += sums.view(parts.shape)


def weighted_bags(
    bags: Integers, rows: Integers, weights: NDArray[Any], step: int, out: Tensor
) -> Iterator[tuple[slice, WeightedBags]]:
    """Yield the sums over ``step`` rows of a table at a time, so that no more rows have to be made at once.

    Parameters
    ----------
    bags, rows, weights
        For each entry: its bag, ascending; its row of the table; and its weight.
    step
        Number of rows in a chunk.
    out
        Tensor that the sums will be added to. It gives the number of bags and the device.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from ghrr.encoding.bags import weighted_bags
    >>> table, out = torch.tensor([1, 10, 100 + 5j]).view(3, 1, 1, 1), torch.zeros(2, 1, 1, 1, dtype=torch.complex64)
    >>> for chunk, sums in weighted_bags(np.array([0, 0, 1]), np.array([0, 2, 1]), np.array([2, 1, 3]), 2, out):
    ...     sums.add_to(out, table[chunk])
    >>> out.flatten()
    tensor([102.+5.j,  30.+0.j])
    """
    chunks = rows // step
    bounds = [0, *np.cumsum(np.bincount(chunks)).tolist()]
    # By chunk, and in a chunk by bag, as they are given. NumPy sorts numbers of up to 16 bits in linear time.
    order = np.argsort(chunks.astype(np.min_scalar_type(len(bounds))), kind="stable")
    for number, (first, last) in enumerate(itertools.pairwise(bounds)):
        entries = order[first:last]
        offsets = np.concatenate([[0], np.cumsum(np.bincount(bags[entries], minlength=len(out)))])
        parts = offsets, rows[entries] - number * step, weights[entries].astype(np.float32)
        on_device = (torch.from_numpy(part).to(out.device) for part in parts)
        yield slice(number * step, (number + 1) * step), WeightedBags(*on_device)

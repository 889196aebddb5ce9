"""Sums of bound pairs that are given by their rows in two tables."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr import ops


def bind_rows(
    keys: Tensor, values: Tensor, key_rows: Tensor, value_rows: Tensor, starts: Tensor, *, shifted: bool = False
) -> Tensor:
    r"""Return sums of keys times values, :math:`\sum_n K_{k_n} * V_{v_n}`, without the bound pairs in memory.

    Parameters
    ----------
    keys, values
        Two tables of hypervectors.
    key_rows, value_rows
        Rows of the tables, pair by pair.
    starts
        Pair at which each sum starts, and the number of pairs.
    shifted
        Bind values that are shifted by one slot; the table is not copied.

    Shapes
    ------
    keys: ``(p, dim, m, m)``, values: ``(q, dim, m, m)``, rows: ``(n,)``, starts: ``(sums + 1,)``; output:
    ``(sums, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.encoding.bags import bind_rows
    >>> x = ghrr.Space(dim=10, m=2).random(3, generator=torch.Generator().manual_seed(0))
    >>> sums = bind_rows(x, x, torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([0, 1, 2]), shifted=True)
    >>> torch.allclose(sums, ghrr.bind(x[:2], ghrr.shift(x[2])), atol=1e-6)
    True
    """
    if not shifted or keys.shape[1] == 1:
        return ops.bind_bags(keys, values, key_rows, value_rows, starts)
    first = ops.bind(keys[key_rows, :1], values[value_rows, -1:])  # one slot: the pairs may exist
    sums = torch.repeat_interleave(starts.diff())
    others = ops.bind_bags(keys[:, 1:], values[:, :-1], key_rows, value_rows, starts)
    return torch.cat([first.new_zeros((len(others), *first.shape[1:])).index_add_(0, sums, first), others], dim=1)

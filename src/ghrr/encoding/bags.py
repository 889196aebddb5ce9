"""Sums of bound pairs, given by indices into two tables."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr import ops


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

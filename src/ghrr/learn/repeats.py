"""Find repeated samples, so that leaving out a sample leaves out its copies too."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

_DIRECTIONS = 4
_FEW_ROWS, _MOST_COPIES = 32, 10  # a table of no more different samples has few values, so more copies are samples
# Encoding a sample twice differs by rounding, about 1e-7 of its length. Where all samples are far from 0, or one is,
# the smaller of a share of the length and of the standard deviation tells samples apart.
_OF_LENGTH, _OF_SPREAD = 1e-6, 1e-5


def sample_keys(features: Tensor) -> Tensor:
    """Return a few numbers per sample, equal within rounding for equal features: ``(n, f)`` to ``(n, 5)``.

    They are inner products with :func:`directions`, and the length of the features.
    """
    keys = features.double() @ directions(features.shape[1]).to(features.device)
    return torch.cat([keys, torch.linalg.vector_norm(features, dim=1, keepdim=True, dtype=torch.float64)], dim=1)


@functools.lru_cache(maxsize=4)
def directions(n_features: int) -> Tensor:
    """Return random vectors, ``(f, 4)``."""
    source = torch.Generator().manual_seed(0)
    return torch.randn(n_features, _DIRECTIONS, generator=source, dtype=torch.float64)


def left_out_weights(keys: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    r"""Return the weight that is left out with each sample, in double precision.

    Equal samples with equal targets are copies of one: the weights of all are left out. They are different samples,
    and of each a weight of at most 1 is left out, if their targets differ, or if there are more than ten of them and no
    more than 32 different samples in all: the features then have few values. A weight of 2 thus equals a repeated
    sample. With :math:`w_i` the weights and :math:`v_i` the result, there are :math:`\sum_i w_i / v_i` independent
    samples.

    Shapes
    ------
    keys: ``(n, k)`` of :func:`sample_keys`; targets: ``(n,)`` or ``(n, outputs)``; weights and output: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.repeats import left_out_weights, sample_keys
    >>> keys = sample_keys(torch.tensor([[1.0], [2.0], [1.0], [3.0], [3.0]]))
    >>> left_out_weights(keys, torch.tensor([0, 1, 0, 0, 1]), torch.ones(5)).tolist()
    [2.0, 1.0, 2.0, 1.0, 1.0]
    """
    weights = weights.double()
    groups, are_copies = _groups(keys, targets, weights)
    sums = weights.new_zeros(len(groups)).index_add_(0, groups, weights)
    return torch.where(are_copies, sums[groups], weights.clamp(max=1.0))


def first_copies(keys: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the index of the first copy of each sample; parameters are as in :func:`left_out_weights`.

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.repeats import first_copies, sample_keys
    >>> keys = sample_keys(torch.tensor([[1.0], [2.0], [1.0], [3.0], [3.0]]))
    >>> first_copies(keys, torch.tensor([0, 1, 0, 0, 1]), torch.ones(5)).tolist()
    [0, 1, 0, 3, 4]
    """
    groups, are_copies = _groups(keys, targets, weights)
    rows = torch.arange(len(groups), device=groups.device)
    first = rows.new_full((len(rows),), len(rows)).scatter_reduce_(0, groups, rows, "amin")
    return torch.where(are_copies, first[groups], rows)


def _groups(keys: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of the group of equal samples that each one is in, and whether these are copies of one."""
    targets = targets.reshape(len(targets), -1)
    order = keys[:, 0].argsort()
    projections, lengths = keys[order][:, :-1], keys[order][:, -1:]
    tolerance = torch.minimum(_OF_LENGTH * lengths[1:], _OF_SPREAD * projections.std(dim=0, correction=0))
    starts = (projections.diff(dim=0).abs() > tolerance).any(dim=1)
    ranked = torch.cat([starts.new_zeros(1), starts]).cumsum(0)
    groups = torch.empty_like(ranked)
    groups[order] = ranked
    count = int(ranked[-1]) + 1
    first = groups.new_empty(count)
    first[groups] = torch.arange(len(groups), device=groups.device)  # one sample of each group
    sums = weights.new_zeros(count).index_add_(0, groups, weights)
    differ = (sums > _MOST_COPIES) & (count <= _FEW_ROWS)
    differ[groups[(targets != targets[first[groups]]).any(dim=1)]] = True
    return groups, ~differ[groups]


def independent_count(keys: Tensor, targets: Tensor, weights: Tensor) -> float:
    """Return the number of independent samples; parameters are as in :func:`left_out_weights`."""
    return float((weights.double() / left_out_weights(keys, targets, weights)).sum())

"""Memory layout of slots, as sizes and strides for kernels."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def slots_in_rows(x: Tensor, adjoint: bool = False) -> tuple[Tensor, bool]:
    """Return a tensor whose slots are stored row by row, and whether its adjoint is to be used.

    A lazy adjoint, ``x.mH``, becomes the tensor in memory and the flag. Other slots that are transposed, conjugated or
    strided are copied; axes along which a tensor is expanded are not.
    """
    m, conjugated = x.shape[-1], x.is_conj()
    row, column = x.stride()[-2:]
    if not x.is_neg():
        if ((row == m and column == 1) or m == 1) and not conjugated:
            return x, adjoint
        if ((row == 1 and column == m) or m == 1) and conjugated:
            return x.mH, not adjoint
    unexpanded = x[tuple(slice(1) if stride == 0 else slice(None) for stride in x.stride()[:-2])]
    copy = torch.empty(unexpanded.shape, dtype=x.dtype, device=x.device).copy_(unexpanded)
    return copy.expand(x.shape), adjoint


@functools.lru_cache(maxsize=1024)
def broadcast_strides(
    sizes: tuple[int, ...], itemsize: int, *operands: tuple[tuple[int, ...], tuple[int, ...]]
) -> NDArray[np.int64]:
    """Return the sizes of the axes of a result and the strides of each operand: ``(1 + operands, axes)``.

    Axes that are contiguous in every operand are merged. Strides are multiplied by ``itemsize``, and 0 where an operand
    is broadcast.

    Parameters
    ----------
    sizes
        The axes of the result before the matrix axes: batch and slots.
    itemsize
        Bytes per number, or 1 for strides in numbers.
    operands
        Shape and strides of each operand, including the matrix axes.

    Examples
    --------
    >>> broadcast_strides((5, 7, 10), 8, ((5, 7, 10, 2, 2), (280, 40, 4, 2, 1)), ((7, 10, 2, 2), (40, 4, 2, 1)))
    array([[   5,   70],
           [2240,   32],
           [   0,   32]])
    """
    strides = [_expand(sizes, shape[:-2], strides[:-2]) for shape, strides in operands]
    merged: list[list[int]] = []
    for size, *strides_of_axis in zip(sizes, *strides, strict=True):
        if merged and all(outer == size * inner for outer, inner in zip(merged[-1][1:], strides_of_axis, strict=True)):
            merged[-1] = [merged[-1][0] * size, *strides_of_axis]
        elif merged and merged[-1][0] == 1:
            merged[-1] = [size, *strides_of_axis]
        elif size != 1 or not merged:
            merged.append([size, *strides_of_axis])
    table = np.array(merged, dtype=np.int64).T.copy()
    table[1:] *= itemsize
    return table


def _expand(sizes: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    missing = len(sizes) - len(shape)
    return [0] * missing + [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]

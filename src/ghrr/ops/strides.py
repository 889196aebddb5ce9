"""Where the slots of a tensor lie in memory, in the form that kernels take."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def by_slots(x: Tensor, adjoint: bool = False) -> tuple[Tensor, bool]:
    """The same numbers with each slot row by row in memory, and whether their adjoint is meant.

    A lazy adjoint, ``x.mH``, is the adjoint of what lies in memory. Other slots that are transposed, conjugated or
    strided inside are copied; axes along which a tensor repeats itself are not.
    """
    m, conjugated = x.shape[-1], x.is_conj()
    row, column = x.stride()[-2:]
    if not x.is_neg():
        if ((row == m and column == 1) or m == 1) and not conjugated:
            return x, adjoint
        if ((row == 1 and column == m) or m == 1) and conjugated:
            return x.mH, not adjoint
    return copied(x, axes=2), adjoint


def copied(x: Tensor, *, axes: int) -> Tensor:
    """A copy in the order of the shape; of the axes before the last ones, those that repeat are not written out."""
    once = x[tuple(slice(1) if step == 0 else slice(None) for step in x.stride()[:-axes])]
    return torch.empty(once.shape, dtype=x.dtype, device=x.device).copy_(once).expand(x.shape)


@functools.lru_cache(maxsize=1024)
def table_of_axes(
    sizes: tuple[int, ...], item: int, *operands: tuple[tuple[int, ...], tuple[int, ...]]
) -> NDArray[np.int64]:
    """Sizes of the axes of a result, and the steps of each operand along them: ``(1 + operands, axes)``.

    Axes that follow each other in every operand become one; steps are in units of ``item``, 0 where an operand is
    broadcast.

    Parameters
    ----------
    sizes
        The axes of the result before those of the matrices: the batch and the slots.
    item
        Bytes of a number.
    operands
        Shape and strides of each operand, matrix axes included.

    Examples
    --------
    >>> table_of_axes((5, 7, 10), 8, ((5, 7, 10, 2, 2), (280, 40, 4, 2, 1)), ((7, 10, 2, 2), (40, 4, 2, 1)))
    array([[   5,   70],
           [2240,   32],
           [   0,   32]])
    """
    steps = [_broadcast(sizes, shape[:-2], strides[:-2]) for shape, strides in operands]
    merged: list[list[int]] = []
    for size, *along in zip(sizes, *steps, strict=True):
        if merged and all(outer == size * inner for outer, inner in zip(merged[-1][1:], along, strict=True)):
            merged[-1] = [merged[-1][0] * size, *along]
        elif merged and merged[-1][0] == 1:
            merged[-1] = [size, *along]
        elif size != 1 or not merged:
            merged.append([size, *along])
    table = np.array(merged, dtype=np.int64).T.copy()
    table[1:] *= item
    return table


def _broadcast(sizes: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    missing = len(sizes) - len(shape)
    return [0] * missing + [0 if size == 1 else step for size, step in zip(shape, strides, strict=True)]

"""Compiled counts of different bits and equal bytes, for the similarities of binary and sparse models."""

from __future__ import annotations

import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from ghrr.ops.cpu.compilation import compiled
from ghrr.ops.threads import run_in_threads


@intrinsic
def _popcount(context, word):
    """Count the bits of a word that are 1."""

    def build(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), build


@compiled
def _pack(x, out):  # pragma: no cover
    """Pack rows of bytes that are 0 or 1 into words of 64 bits; the last word is filled with zeros."""
    for row in range(x.shape[0]):
        for word in range(out.shape[1]):
            value = np.uint64(0)
            for bit in range(min(64, x.shape[1] - 64 * word)):
                value |= np.uint64(x[row, 64 * word + bit]) << np.uint64(bit)
            out[row, word] = value


@compiled
def _count_bits(a, b, out, start, stop):  # pragma: no cover
    for i in range(start, stop):
        for j in range(b.shape[0]):
            total = np.uint64(0)
            for word in range(a.shape[1]):
                total += _popcount(a[i, word] ^ b[j, word])
            out[i, j] = total


@compiled
def _count_bytes(a, b, out, start, stop):  # pragma: no cover
    """Count the bytes that are zero in the exclusive or of two words."""
    low = np.uint64(0x7F7F7F7F7F7F7F7F)
    for i in range(start, stop):
        for j in range(b.shape[0]):
            total = np.uint64(0)
            for word in range(a.shape[1]):
                x = a[i, word] ^ b[j, word]
                total += _popcount(~(((x & low) + low) | x | low))  # the highest bit of each byte that is zero
            out[i, j] = total


def count_different_bits(a: Tensor, b: Tensor) -> Tensor:
    """Count the different bits of all pairs of rows."""
    words = []
    for x in (a, b):
        rows = x.contiguous().view(torch.uint8).numpy()
        packed = np.empty((len(rows), (x.shape[1] + 63) // 64), dtype=np.uint64)
        _pack(rows, packed)
        words.append(packed)
    out = torch.empty(len(a), len(b), dtype=torch.int32)
    target = out.numpy()
    run_in_threads(lambda rows: _count_bits(*words, target, rows.start, rows.stop), len(a))
    return out


def count_equal_bytes(a: Tensor, b: Tensor) -> Tensor:
    """Count the equal bytes of all pairs of rows."""
    # The bytes that fill the last word differ, so that they are not counted.
    padded = [torch.nn.functional.pad(x, (0, -x.shape[1] % 8), value=n) for n, x in enumerate((a, b))]
    words = [x.contiguous().numpy().view(np.uint64) for x in padded]
    out = torch.empty(len(a), len(b), dtype=torch.int32)
    target = out.numpy()
    run_in_threads(lambda rows: _count_bytes(*words, target, rows.start, rows.stop), len(a))
    return out

"""Counts of equal bytes and different bits between all pairs of rows: the similarities of binary and sparse models."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.ops.dispatch import Kernel, Operation

_CHUNK = 1 << 24  # entries that are compared at a time
_GATHER = 0x0102040810204080  # moves the lowest bit of each of 8 bytes to the highest byte


def pack_bits(x: Tensor) -> Tensor:
    """Pack bool rows ``(*batch, n)`` into bytes ``(*batch, ceil(n / 8))``; the first bit is the lowest.

    Examples
    --------
    >>> import torch
    >>> pack_bits(torch.tensor([True, False, False, False, False, False, False, False, True]))
    tensor([1, 1], dtype=torch.uint8)
    """
    padded = torch.nn.functional.pad(x.view(torch.uint8), (0, -x.shape[-1] % 8)).contiguous()
    if padded.numel() == 0:
        return padded.reshape(*x.shape[:-1], -1)
    # Bytes are in little-endian order on every platform that PyTorch supports.
    return (padded.view(torch.int64).mul(_GATHER) >> 56).to(torch.uint8)


def _count_different_bits(a: Tensor, b: Tensor) -> Tensor:
    """Count by a matrix product of signs: d minus the inner product is twice the count."""
    signs = [1 - 2 * x.to(torch.float32) for x in (a, b)]
    return ((a.shape[-1] - signs[0] @ signs[1].mT) / 2).round().to(torch.int32)


def _count_equal_bytes(a: Tensor, b: Tensor) -> Tensor:
    rows = max(1, _CHUNK // max(1, b.numel()))
    counts = [(part.unsqueeze(1) == b).sum(dim=-1, dtype=torch.int32) for part in torch.split(a, rows)]
    return torch.cat(counts) if counts else torch.zeros(0, len(b), dtype=torch.int32, device=a.device)


def _on_cpu(a: Tensor, b: Tensor) -> bool:
    return a.is_cpu and b.is_cpu and a.numel() > 0 and b.numel() > 0


#: Number of different bits of every row of ``a`` and every row of ``b``, bool tensors ``(n, d)`` and ``(k, d)``.
count_different_bits = Operation(
    "count_different_bits",
    torch=_count_different_bits,
    kernels=[Kernel("numba", "ghrr.ops.cpu.counting:count_different_bits", _on_cpu)],
)

#: Number of equal bytes of every row of ``a`` and every row of ``b``, uint8 tensors ``(n, d)`` and ``(k, d)``.
count_equal_bytes = Operation(
    "count_equal_bytes",
    torch=_count_equal_bytes,
    kernels=[Kernel("numba", "ghrr.ops.cpu.counting:count_equal_bytes", _on_cpu)],
)

"""Launch kernels with little host time.

``kernel[grid](...)`` examines every argument to find the compiled kernel, which takes several times as long as the
launch itself. A :class:`Launch` is made once for a set of arguments and keeps the compiled kernel; later launches pass
addresses only. triton's launch hooks, which profilers set, are called at the first launch only.
"""

# triton has no types.
# mypy: ignore-errors

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

# Compiled kernels assume that addresses are multiples of this; other addresses need another compiled kernel.
_ALIGNMENT = 16
# As in torch.cuda, without checks that CUDA is initialised. PyTorch without CUDA does not have them.
_current_device = getattr(torch._C, "_cuda_getDevice", lambda: -1)
_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0)


class Launch:
    """A kernel with all arguments but its tensors.

    Parameters
    ----------
    kernel
        Takes the tensors first, then ``arguments``, in the order of its signature.
    grid
        Number of programs along one or two axes.
    arguments
        The arguments after the tensors: numbers, tuples of numbers and compile-time constants.
    warps
        Number of warps per program.
    """

    __slots__ = ("_arguments", "_compiled", "_grid", "_kernel", "_warps")

    def __init__(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], warps: int) -> None:
        self._kernel, self._grid, self._arguments, self._warps = kernel, (*grid, 1, 1)[:3], arguments, warps
        self._compiled: dict[int, tuple[Any, ...]] = {}  # by device

    def __call__(self, *tensors: Tensor) -> None:
        """Launch on the device of the tensors. The tensors must agree in shape, strides and dtype at every call."""
        device = tensors[0].get_device()
        addresses = [x.data_ptr() for x in tensors]
        compiled = self._compiled.get(device)
        if compiled is None or device != _current_device() or not _are_aligned(addresses):
            self._launch_by_triton(tensors, device, _are_aligned(addresses))
        else:
            run, function, metadata = compiled
            # The three that are None: data for launch hooks, and the hooks.
            run(
                *self._grid, _current_stream(device), function, metadata, None, None, None, *addresses, *self._arguments
            )

    def _launch_by_triton(self, tensors: tuple[Tensor, ...], device: int, keep: bool) -> None:
        # Complex numbers are passed as words of 64 bits.
        words = [x.view(torch.int64) if x.dtype == torch.complex64 else x for x in tensors]
        with torch.cuda.device_of(tensors[0]):
            compiled = self._kernel[self._grid](*words, *self._arguments, num_warps=self._warps)
        if keep and compiled is not None:  # triton's interpreter compiles nothing
            self._compiled[device] = compiled.run, compiled.function, compiled.packed_metadata


def _are_aligned(addresses: list[int]) -> bool:
    return not functools.reduce(int.__or__, addresses) % _ALIGNMENT

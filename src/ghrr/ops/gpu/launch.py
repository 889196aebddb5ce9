"""Launch kernels with little host time.

``kernel[grid](...)`` examines every argument to find the compiled kernel, which takes longer than the launch itself. A
:class:`Launch` is made once for a set of arguments and keeps the compiled kernel; later launches pass only addresses.
"""

# triton has no types.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Compiled kernels assume that addresses are multiples of this, so others are compiled separately.
_ALIGNMENT = 16


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

    __slots__ = ("_arguments", "_grid", "_kernel", "_runners", "_warps")

    def __init__(self, kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], warps: int) -> None:
        self._kernel, self._grid, self._arguments, self._warps = kernel, (*grid, 1, 1)[:3], arguments, warps
        self._runners: dict[int, Any] = {}

    def __call__(self, *tensors: Tensor) -> None:
        """Launch on the device of the tensors. The tensors must agree in shape, strides and dtype at every call."""
        device = tensors[0].get_device()
        addresses = [x.data_ptr() for x in tensors]
        runner = self._runners.get(device)
        if runner is None or device != torch.cuda.current_device() or not _are_aligned(addresses):
            self._launch_by_triton(tensors, device, _are_aligned(addresses))
        else:
            runner(*addresses, *self._arguments)

    def _launch_by_triton(self, tensors: tuple[Tensor, ...], device: int, keep: bool) -> None:
        # Complex numbers are passed as words of 64 bits.
        words = [x.view(torch.int64) if x.dtype == torch.complex64 else x for x in tensors]
        with torch.cuda.device_of(tensors[0]):
            compiled = self._kernel[self._grid](*words, *self._arguments, num_warps=self._warps)
            if keep and compiled is not None:  # triton's interpreter compiles nothing
                self._runners[device] = compiled[self._grid]


def _are_aligned(addresses: list[int]) -> bool:
    combined = 0
    for address in addresses:
        combined |= address
    return combined % _ALIGNMENT == 0

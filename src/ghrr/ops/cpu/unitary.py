"""Unitary matrices on the CPU: projection, real powers and random sampling."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.ops import torch_polar
from ghrr.ops.cpu import lanes, power, sampling
from ghrr.ops.cpu.polar import polar_kernel
from ghrr.ops.cpu.products import MIN_THREADED, empty, run_loop_in_threads
from ghrr.ops.threads import run_in_threads

# Sampling of at least this many entries is divided between threads. An entry takes longer than in a product.
_MIN_THREADED_SAMPLES = 1 << 16


def polar(x: Tensor) -> Tensor:
    """Compute the nearest unitary matrices. PyTorch computes slots that are singular or nearly so."""
    m = x.shape[-1]
    x = x.resolve_conj().contiguous()
    out = empty(x.shape, x)
    is_skipped = np.zeros(x.shape[:-2].numel(), dtype=np.bool_)
    loop, bits = polar_kernel(m), 32 if x.dtype == torch.complex64 else 64
    skipped: list[int] = []

    def work(rows: slice, keep: object = (x, out)) -> None:
        skipped.append(loop(bits, rows.start, rows.stop, x.data_ptr(), out.data_ptr(), is_skipped))

    _run(work, out.shape[:-2].numel(), out.numel())
    if any(skipped):
        slots = torch.from_numpy(is_skipped)
        out.view(-1, m, m)[slots] = torch_polar.polar_factor(x.view(-1, m, m)[slots])
    return out


def unitary_power(a: Tensor, exponents: Tensor) -> Tensor | None:
    """Raise unitary slots to real powers. Returns None if a slot is not unitary."""
    dim, m = a.shape[-3], a.shape[-1]
    base_shape = tuple(a.shape[:-3])
    bases = math.prod(base_shape)
    # Powers sorted by their base: exponents, indices in the result, and the offset of each base.
    if exponents.ndim == 0:
        batch, numbers, targets = base_shape, np.full(bases, exponents.item(), dtype=np.float64), np.arange(bases)
        offsets = np.arange(bases + 1)
    else:
        batch = np.broadcast_shapes(base_shape, exponents.shape)
        base_of_power = np.broadcast_to(np.arange(bases).reshape(base_shape), batch).ravel()
        targets = np.argsort(base_of_power, kind="stable")
        offsets = np.searchsorted(base_of_power[targets], np.arange(bases + 1))
        numbers = np.broadcast_to(exponents.to(torch.float64).numpy(), batch).ravel()[targets]
    out = empty((*batch, dim, m, m), a)
    tolerance = torch_polar.unitarity_tolerance(m, a.dtype)
    source = a.detach().resolve_conj().contiguous()

    def remaining(chunks: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
        """Raise chunks of slots; return those for which that was not possible."""
        done = np.zeros(len(chunks), dtype=np.bool_)
        addresses = source.data_ptr(), out.data_ptr()
        bits_of_slots = 32 if a.dtype == torch.complex64 else 64
        arguments = (dim, addresses[0], tolerance, numbers, targets, offsets, addresses[1], bits_of_slots, done)

        def work(part: slice, keep: object = (source, out)) -> None:
            power.power(bits, m, part.start, part.stop, chunks, *arguments)

        _run(work, len(chunks), m * max(a.numel(), out.numel()))
        return chunks[~done]

    chunks = np.arange(bases * -(-dim // lanes.SLOTS))
    if len(chunks) and a.dtype == torch.complex64 and np.abs(numbers).max(initial=0.0) <= power.SMALL:
        chunks = remaining(chunks, 32)
    if len(chunks):
        chunks = remaining(chunks, 64)
    return None if len(chunks) else out


def base_slots(
    rotation_keys: NDArray[np.uint64],
    phase_keys: NDArray[np.uint64],
    shape: tuple[int, int, int],
    roots: int,
    dtype: torch.dtype,
) -> Tensor:
    """Make slots of base hypervectors from random keys."""
    rows, slots, m = shape
    is_single = dtype == torch.complex64
    single = np.empty((rows if is_single else 0, slots, m * m), dtype=np.complex64)
    double = np.empty((0 if is_single else rows, slots, m * m), dtype=np.complex128)
    out: NDArray[Any] = single if is_single else double

    def work(chunks: slice) -> None:
        sampling.base_slots(m, chunks.start, chunks.stop, slots, rotation_keys, phase_keys, roots, single, double)

    chunks = rows * -(-slots // lanes.SLOTS)
    if out.size < _MIN_THREADED_SAMPLES:
        work(slice(0, chunks))
    else:
        run_in_threads(work, chunks)
    return torch.from_numpy(out.reshape(rows, slots, m, m))


def _run(work: Callable[[slice], Any], rows: int, numbers: int) -> None:
    """Do the work in several threads if there are enough numbers, otherwise in this one."""
    if numbers < MIN_THREADED:
        work(slice(0, rows))
    else:
        run_loop_in_threads(work, rows)

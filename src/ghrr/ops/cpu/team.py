"""Binding divided between PyTorch's own threads, for products that take tens of microseconds.

PyTorch divides elementwise operations between OpenMP threads, which wait actively for more work after each operation.
Waking them takes about a microsecond, and waking a Python thread as long as binding 100,000 numbers. The OpenMP library
that PyTorch has loaded is called by its address. Where it is not found, as on Windows and macOS, and in a forked
process, which has none of its threads, products of this size are computed in one thread.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares the results with the
reference.
"""

# Types of compiled code are known when it is compiled.
# mypy: ignore-errors

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ghrr.ops.cpu.compilation import compiled, compiled_callback
from ghrr.ops.cpu.loops import multiply

# Products of at least this many numbers are divided. PyTorch divides elementwise operations at the same size.
_NUMBERS_PER_THREAD = 1 << 15
MIN_NUMBERS = 2 * _NUMBERS_PER_THREAD


def _find() -> int:
    """Return the address of the function that starts work in all threads, or 0."""
    if not hasattr(os, "RTLD_NOLOAD"):  # on Windows
        return 0
    for path in (*Path(torch.__file__).parent.glob("lib/libgomp*.so*"), "libgomp.so.1"):
        try:
            library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            return ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            continue
    return 0


_start = _find()


def _forget() -> None:
    global _start  # noqa: PLW0603 (a property of the process)
    _start = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def threads_for(numbers: int) -> int:
    """Return the number of threads for a product of this size: 1, or more if :func:`bind_flat` can be used."""
    return min(torch.get_num_threads(), numbers // _NUMBERS_PER_THREAD) if _start else 1


def bind_flat(threads: int, *arguments: Any) -> None:
    """Compute A B for contiguous slots: :func:`ghrr.ops.cpu.loops.bind_flat` in several threads."""
    _bind_flat(_start, _part().address, threads, *arguments)


@intrinsic
def _run(context, start, part, shared, threads):
    """Call ``part(shared)`` in several threads, and wait for all of them."""

    def build(context, builder, signature, args):
        number, integer = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [number, number, integer, integer])
        start, part, shared, threads = args
        threads = builder.trunc(threads, integer)
        builder.call(builder.inttoptr(start, kind.as_pointer()), [part, shared, threads, ir.Constant(integer, 0)])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), build


@intrinsic
def _read(context, address, index):
    """Return one of the integers at an address."""

    def build(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(builder.gep(pointer, [args[1]]))

    return types.int64(types.int64, types.int64), build


@intrinsic
def _claim(context, address):
    """Add 1 to the integer at an address and return what it was, undisturbed by other threads."""

    def build(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(types.int64), build


@functools.cache
def _part() -> Any:
    """Compile the work of a thread."""

    @compiled_callback(types.void(types.int64))
    def part(shared):  # pragma: no cover
        """Multiply parts of the slots until none is left; a system may grant fewer threads than there are parts."""
        parts, product, out, a = _read(shared, 1), _read(shared, 2), _read(shared, 3), _read(shared, 4)
        b, count, slot = _read(shared, 5), _read(shared, 6), _read(shared, 7)
        n = _claim(shared)
        while n < parts:
            first, last = count * n // parts, count * (n + 1) // parts
            at = first * slot
            multiply(product, out + at, a + at, b + at, last - first, slot, slot, slot)
            n = _claim(shared)

    return part


@compiled
def _bind_flat(start, part, threads, product, out, a, b, count, slot):  # noqa: PLR0917 # pragma: no cover
    shared = np.empty(8, np.int64)
    shared[0], shared[1], shared[2], shared[3] = 0, threads, product, out
    shared[4], shared[5], shared[6], shared[7] = a, b, count, slot
    _run(start, part, shared.ctypes.data, threads)

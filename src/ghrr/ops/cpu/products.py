"""Products and similarities of hypervectors on the CPU.

Same names and meaning as :mod:`ghrr.ops.reference`. The functions take plain tensors of complex64 or complex128 with
m <= 8 and have no gradient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.ops import torch_implementation
from ghrr.ops.cpu import loops, team
from ghrr.ops.cpu.multiply import multiply_loop
from ghrr.ops.strides import broadcast_strides, slots_in_rows
from ghrr.ops.threads import run_in_threads

# Products of at least this many numbers are divided between threads. For fewer, waking a thread takes about as long as
# its share of the work.
MIN_THREADED = 1 << 19
# Results of at least this many numbers are allocated on huge pages.
_MIN_HUGE = 1 << 19
_BITS = {torch.complex64: 32, torch.complex128: 64}
_EMPTY_REALS: dict[torch.dtype, NDArray[Any]] = {
    torch.complex64: np.empty(0, dtype=np.float32),
    torch.complex128: np.empty(0, dtype=np.float64),
}


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(a, adjoint_a)
    b, adjoint_b = slots_in_rows(b, adjoint_b)
    out = empty(_broadcast(a, b), a)
    addresses = out.data_ptr(), a.data_ptr(), b.data_ptr()
    _run("bind", (adjoint_a, adjoint_b, False), out.shape, (a, b), addresses, out, work=out.numel())
    return out


def bind_flat(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    """Compute :func:`bind` of two contiguous tensors of one shape, with as little overhead as possible."""
    size = a.numel()
    if size >= MIN_THREADED:
        return bind(a, b, adjoint_a, adjoint_b)
    out = torch.empty_like(a)
    multiply, numbers, slot = _flat_loop(a.dtype, a.shape[-1], adjoint_a, adjoint_b)
    arguments = multiply, out.data_ptr(), a.data_ptr(), b.data_ptr(), size // numbers, slot
    if size < team.MIN_NUMBERS or (threads := team.threads_for(size)) == 1:
        loops.bind_flat(*arguments)
    else:
        team.bind_flat(threads, *arguments)
    return out


@functools.cache
def _flat_loop(dtype: torch.dtype, m: int, adjoint_a: bool, adjoint_b: bool) -> tuple[int, int, int]:
    """Return the address of an inner loop, and the numbers and the bytes of a slot."""
    return multiply_loop(_BITS[dtype], m, adjoint_a, adjoint_b, False).address, m * m, m * m * dtype.itemsize


def similarity(a: Tensor, b: Tensor) -> Tensor:
    """Compute the similarity of two contiguous tensors of one shape."""
    *batch, dim, m, _ = a.shape
    size = 2 * dim * m * m
    rows = 2 * a.numel() // size
    out = torch.empty(batch, dtype=a.dtype.to_real(), device="cpu")
    arguments = size, 1 / (m * dim), _EMPTY_REALS[a.dtype], out.data_ptr(), a.data_ptr(), b.data_ptr()
    if a.numel() < MIN_THREADED:
        loops.similarity(0, rows, *arguments)
    else:
        run_loop_in_threads(lambda rows: loops.similarity(rows.start, rows.stop, *arguments), rows, keep=(out, a, b))
    return out


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(keys, adjoint_keys)
    b, adjoint_b = slots_in_rows(values, adjoint_values)
    *batch, items, dim, m, _ = _broadcast(a, b)
    if items == 0:
        return a.new_zeros((*batch, dim, m, m))
    (a, stride_a), (b, stride_b) = _first_item(a), _first_item(b)
    out = empty((*batch, dim, m, m), a)
    arguments = torch.view_as_real(out).flatten().numpy(), items, a.data_ptr(), stride_a, b.data_ptr(), stride_b
    _run("bind_bundle", (adjoint_a, adjoint_b, True), out.shape, (a, b), arguments, out, work=items * out.numel())
    return out


def bind_bags(keys: Tensor, values: Tensor, key_indices: Tensor, value_indices: Tensor, offsets: Tensor) -> Tensor:
    torch_implementation.check_bags(keys, values, key_indices, value_indices, offsets)
    a, adjoint_a = slots_in_rows(keys)
    b, adjoint_b = slots_in_rows(values)
    dim, m, _ = keys.shape[1:]
    multiply = multiply_loop(_BITS[a.dtype], m, adjoint_a, adjoint_b, True).address
    # Not on huge pages: a virtual machine that returns free memory to its host returns huge pages, and getting them
    # back takes longer than a single large sum (150 ms for 72 MB, against 35).
    out = a.new_empty((len(offsets) - 1, dim, m, m))
    arguments = [torch.view_as_real(out).flatten().numpy(), dim, m * m * a.itemsize]
    for x in (a, b):
        arguments += [x.data_ptr(), x.stride(0) * x.itemsize, x.stride(1) * x.itemsize]
    arguments += [x.contiguous().numpy() for x in (key_indices, value_indices, offsets)]
    if len(key_indices) * out.shape[1:].numel() < MIN_THREADED:
        loops.bind_bags(0, len(out), multiply, *arguments)
    else:
        run_loop_in_threads(
            lambda rows: loops.bind_bags(rows.start, rows.stop, multiply, *arguments), len(out), keep=(a, b, out)
        )
    return out


def multibind(items: Tensor) -> Tensor:
    count = items.shape[-4]
    if count < 2:
        return torch_implementation.multibind(items)
    a, stride = _first_item(slots_in_rows(items.resolve_conj())[0])
    out = empty(a.shape, a)
    arguments = out.data_ptr(), count, a.data_ptr(), stride
    _run("multibind", (False, False, False), out.shape, (a,), arguments, out, work=count * out.numel())
    return out


def whole_power(a: Tensor, exponent: int) -> Tensor:
    if exponent < 2:
        return torch_implementation.whole_power(a, exponent)
    a, _ = slots_in_rows(a.resolve_conj())
    out = empty(a.shape, a)
    arguments = out.data_ptr(), exponent, a.data_ptr()
    work = exponent.bit_length() * out.numel()
    _run("whole_power", (False, False, False), out.shape, (a,), arguments, out, work=work)
    return out


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(a, adjoint_a)
    b, adjoint_b = slots_in_rows(b, adjoint_b)
    c, _ = slots_in_rows(c.resolve_conj())
    shape = _broadcast(a, b, c)
    dim, m = shape[-3], shape[-1]
    sums = np.zeros(shape[:-3].numel())
    arguments = dim, sums, _EMPTY_REALS[a.dtype], a.data_ptr(), b.data_ptr(), c.data_ptr()
    flags = (adjoint_a, adjoint_b, False)
    _run("bind_similarity", flags, shape, (a, b, c), arguments, sums, work=shape.numel(), per_thread=dim)
    return torch.from_numpy(sums / (m * dim)).to(a.dtype.to_real()).reshape(shape[:-3])


def _run(  # noqa: PLR0917
    name: str,
    flags: tuple[bool, bool, bool],
    shape: torch.Size,
    operands: tuple[Tensor, ...],
    arguments: tuple[Any, ...],
    out: object,
    *,
    work: int,
    per_thread: int = 1,
) -> None:
    """Call a loop for all slots of the result. Threads get multiples of ``per_thread`` slots."""
    x, m, axes = operands[0], shape[-1], shape[:-2]
    slot, slots = m * m * x.itemsize, axes.numel()
    table = broadcast_strides(axes, x.itemsize, *[(x.shape, x.stride()) for x in operands])
    multiply = multiply_loop(_BITS[x.dtype], m, *flags).address
    loop = getattr(loops, name)
    if work < MIN_THREADED:
        loop(0, slots, multiply, slot, table, *arguments)
    else:
        run_loop_in_threads(
            lambda part: loop(part.start * per_thread, part.stop * per_thread, multiply, slot, table, *arguments),
            slots // per_thread,
            keep=(out, operands),
        )


def run_loop_in_threads(work: Callable[[slice], Any], rows: int, keep: tuple[object, ...] = ()) -> None:
    """Divide rows between threads; the loops release the interpreter's lock.

    Loops know only the addresses of their operands, so ``keep`` keeps these objects alive while a thread may use them.
    numba's own threads are not used: they end the process if two threads enter them, or after a fork.
    """

    def keeping(rows: slice, keep: tuple[object, ...] = keep) -> None:
        work(rows)

    run_in_threads(keeping, rows)


def _first_item(x: Tensor) -> tuple[Tensor, int]:
    """Return the first item, and the bytes from one item to the next (0 if there is only one)."""
    return x.select(-4, 0), x.stride(-4) * x.itemsize if x.shape[-4] > 1 else 0


def _broadcast(*tensors: Tensor) -> torch.Size:
    return _broadcast_shapes(*[x.shape for x in tensors])


@functools.lru_cache(maxsize=1024)  # takes longer than a small product
def _broadcast_shapes(*shapes: torch.Size) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    return shape


def empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Allocate a result, on huge pages if it is large."""
    if math.prod(shape) < _MIN_HUGE:
        return like.new_empty(shape)
    return torch_implementation.allocate(shape, like)

"""Products of hypervectors on a GPU.

Same names and meaning as :mod:`ghrr.ops.reference`. The functions take plain complex64 tensors with m <= 8 and have no
gradient.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ghrr.ops import torch_implementation
from ghrr.ops.gpu import product_kernels as kernels
from ghrr.ops.gpu.launch import Launch
from ghrr.ops.strides import broadcast_strides, slots_in_rows

# For each m, fastest on an H200: rows of a column per thread, threads per program, warps.
_CONFIGURATIONS = dict.fromkeys(range(2, 7), (1, 256, 4)) | {1: (1, 512, 4), 7: (1, 128, 4), 8: (4, 128, 4)}
# In multibind and powers each thread computes a whole column.
_COLUMNS, _COLUMN_WARPS = 128, 4
# Programs that fill a GPU. A sum is split if there are fewer, into parts of at least _MIN_ITEMS items.
_PROGRAMS = 1 << 11
_MIN_ITEMS = 16
# Larger exponents take fewer steps by repeated squaring, although each of these goes through memory.
_LARGEST_CHAIN = 8
# Offsets up to this fit in 32 bits, including offsets beyond the end in the last program.
_LARGEST_OFFSET = (1 << 31) - (1 << 12)
_Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(a, adjoint_a)
    b, adjoint_b = slots_in_rows(b, adjoint_b)
    launch, shape = _bind_launch(_layout(a), _layout(b), adjoint_a, adjoint_b, _LARGEST_OFFSET)
    out = _empty(shape, a)
    if launch is not None:
        launch(out, a, b)
    return out


def bind_flat(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    """Compute :func:`bind` of two contiguous tensors of one shape, with as little overhead as possible."""
    out = torch.empty_like(a)
    _flat_launch(a.numel(), a.shape[-1], adjoint_a, adjoint_b, _LARGEST_OFFSET)(out, a, b)
    return out


@functools.lru_cache(maxsize=4096)
def _flat_launch(numbers: int, m: int, adjoint_a: bool, adjoint_b: bool, largest_offset: int) -> Launch:
    layout = (numbers // (m * m), m, m), (m * m, m, 1)
    launch, _ = _bind_launch(layout, layout, adjoint_a, adjoint_b, largest_offset)
    assert launch is not None  # dispatch sends large tensors only
    return launch


@functools.lru_cache(maxsize=4096)
def _bind_launch(
    a: _Layout, b: _Layout, adjoint_a: bool, adjoint_b: bool, largest_offset: int
) -> tuple[Launch | None, torch.Size]:
    shape = _broadcast(a, b)
    rows, block, warps = _CONFIGURATIONS[shape[-1]]
    threads = shape.numel() // rows
    axes = _axes(shape, (), largest_offset, a, b)
    arguments = threads, axes.sizes, *axes.steps, axes.unit, shape[-1], rows, adjoint_a, adjoint_b, axes.wide, block
    return _launch(kernels.bind, (_divide(threads, block),), arguments, warps), shape


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(keys, adjoint_keys)
    b, adjoint_b = slots_in_rows(values, adjoint_values)
    launch, shape = _bind_bundle_launch(
        _layout(a), _layout(b), adjoint_a, adjoint_b, _LARGEST_OFFSET, _MIN_ITEMS, _PROGRAMS
    )
    if launch is None:
        return a.new_zeros(shape[1:])
    sums = _empty(shape, a)
    launch(sums, a, b)
    return sums[0] if len(sums) == 1 else sums.sum(dim=0)


@functools.lru_cache(maxsize=4096)
def _bind_bundle_launch(  # noqa: PLR0917
    a: _Layout, b: _Layout, adjoint_a: bool, adjoint_b: bool, largest_offset: int, least_items: int, most_programs: int
) -> tuple[Launch | None, torch.Size]:
    """Return the launch and the shape of its result, partial sums first."""
    *batch, items, dim, m, _ = _broadcast(a, b)
    shape = torch.Size((*batch, dim, m, m))
    if items == 0:
        return None, torch.Size((1, *shape))
    (a, item_a), (b, item_b) = _first_item(a), _first_item(b)
    rows, block, warps = _CONFIGURATIONS[m]
    threads = shape.numel() // rows
    programs = _divide(threads, block)
    share = _divide(items, min(_divide(items, least_items), max(1, most_programs // max(1, programs))))
    parts = _divide(items, share)
    axes = _axes(shape, (item_a, item_b), largest_offset, a, b)
    constants = axes.unit, m, rows, adjoint_a, adjoint_b, axes.wide, block
    arguments = threads, items, share, axes.sizes, *axes.steps, *axes.items, *constants
    return _launch(kernels.bind_bundle, (programs, parts), arguments, warps), torch.Size((parts, *shape))


def multibind(items: Tensor) -> Tensor:
    count = items.shape[-4]
    if count < 2:
        return torch_implementation.multibind(items)
    a, adjoint = slots_in_rows(items)
    layout, stride = _first_item(_layout(a))
    return _chain(a, layout, stride, count, adjoint)


def whole_power(a: Tensor, exponent: int) -> Tensor:
    if exponent < 2:
        return torch_implementation.whole_power(a, exponent)
    if exponent > _LARGEST_CHAIN:
        return torch_implementation.whole_power(a, exponent, bind)
    a, adjoint = slots_in_rows(a)
    return _chain(a, _layout(a), 0, exponent, adjoint)


def _chain(a: Tensor, layout: _Layout, stride: int, count: int, adjoint: bool) -> Tensor:
    """Multiply ``count`` items; ``stride`` numbers lie between one and the next."""
    out = _empty(layout[0], a)
    launch = _chain_launch(layout, stride, count, adjoint, _LARGEST_OFFSET)
    if launch is not None:
        launch(out, a)
    return out


@functools.lru_cache(maxsize=4096)
def _chain_launch(layout: _Layout, stride: int, count: int, adjoint: bool, largest_offset: int) -> Launch | None:
    shape = torch.Size(layout[0])
    threads = shape.numel() // shape[-1]
    axes = _axes(shape, (stride,), largest_offset, layout)
    constants = axes.unit, shape[-1], adjoint, axes.wide, _COLUMNS
    arguments = threads, count, axes.sizes, *axes.steps, *axes.items, *constants
    return _launch(kernels.multibind, (_divide(threads, _COLUMNS),), arguments, _COLUMN_WARPS)


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = slots_in_rows(a, adjoint_a)
    b, adjoint_b = slots_in_rows(b, adjoint_b)
    c, adjoint_c = slots_in_rows(c)
    layouts = _layout(a), _layout(b), _layout(c)
    launch, shape = _bind_similarity_launch(layouts, adjoint_a, adjoint_b, adjoint_c, _LARGEST_OFFSET, _PROGRAMS)
    sums = _empty(shape, a.real)
    if launch is not None:
        launch(sums, a, b, c)
    return sums.sum(dim=-1) / (a.shape[-1] * a.shape[-3])


@functools.lru_cache(maxsize=4096)
def _bind_similarity_launch(  # noqa: PLR0917
    layouts: tuple[_Layout, ...], adjoint_a: bool, adjoint_b: bool, adjoint_c: bool, largest_offset: int, programs: int
) -> tuple[Launch | None, torch.Size]:
    """Return the launch and the shape of its result, partial sums last."""
    *batch, dim, m, _ = shape = _broadcast(*layouts)
    rows, block, warps = _CONFIGURATIONS[m]
    hypervectors = torch.Size(batch).numel()
    parts = max(1, min(_divide(dim * m * m, rows * block), 4 * programs // max(1, hypervectors)))
    axes = _axes(shape, (), largest_offset, *layouts)
    constants = axes.unit, m, rows, adjoint_a, adjoint_b, adjoint_c, axes.wide, block
    arguments = dim, parts, axes.sizes, *axes.steps, *constants
    return _launch(kernels.bind_similarity, (hypervectors * parts,), arguments, warps), torch.Size((*batch, parts))


class _Axes(NamedTuple):
    """The axes of a result, and the strides of the operands along them and between items, as kernels take them."""

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    items: tuple[int, ...]
    unit: int
    wide: bool


def _axes(shape: tuple[int, ...], items: tuple[int, ...], largest_offset: int, *operands: _Layout) -> _Axes:
    sizes, *steps = broadcast_strides(tuple(shape[:-2]), 1, *operands).tolist()
    slot = shape[-1] * shape[-2]
    largest_offsets = [sum((size - 1) * step for size, step in zip(sizes, strides, strict=True)) for strides in steps]
    wide = max(torch.Size(shape).numel(), *largest_offsets) + slot > largest_offset
    # The compiler treats a stride of 1 as a constant: it then knows that slots are contiguous, and their alignment.
    unit = slot if all(step % slot == 0 for strides in (*steps, items) for step in strides) else 1
    in_units = [tuple(step // unit for step in strides) for strides in (*steps, items)]
    return _Axes(tuple(sizes), tuple(in_units[:-1]), in_units[-1], unit, wide)


def _launch(kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], warps: int) -> Launch | None:
    return None if 0 in grid else Launch(kernel, grid, arguments, warps)


def _layout(x: Tensor) -> _Layout:
    return x.shape, x.stride()


def _first_item(layout: _Layout) -> tuple[_Layout, int]:
    """Return the layout of the first item, and the stride to the next (0 if there is only one)."""
    shape, strides = layout
    return (shape[:-4] + shape[-3:], strides[:-4] + strides[-3:]), strides[-4] if shape[-4] > 1 else 0


def _broadcast(*layouts: _Layout) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*[shape for shape, _ in layouts])  # type: ignore[no-untyped-call]
    return shape


def _divide(work: int, each: int) -> int:
    return -(-work // each)


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return like.new_empty(shape)

"""Operations for which triton has faster kernels on a GPU, and which tensors they take.

Same names and meaning as :mod:`ghrr.ops.reference`; forward only, on plain numbers whose shapes fit. triton comes with
torch's builds for GPUs. It is imported when the first tensor arrives there, and a kernel is compiled when it is first
used (then kept on disk). What goes wrong is raised, and :mod:`ghrr.ops.choice` goes on with torch.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ghrr.ops import torch_backend
from ghrr.ops.pairs import DTYPES, as_words, from_words, rounded
from ghrr.ops.strides import by_slots, table_of_axes

# For each m, by measurement on an H200: rows of a column in one thread, threads' work in one program, warps.
_SHAPES = dict.fromkeys(range(2, 7), (1, 256, 4)) | {1: (1, 512, 4), 7: (1, 128, 4), 8: (4, 128, 4)}
LARGEST_M = max(_SHAPES)
# In products of many items and in powers each thread has a whole column.
_COLUMNS, _COLUMN_WARPS = 128, 4
# So many programs fill a GPU; sums are split where there are fewer, but not into parts of less than so many items.
_PROGRAMS = 1 << 11
_FEWEST_ITEMS = 16
# Powers up to this are one product of equal items; above it squares of squares are fewer steps, each through memory.
_LARGEST_CHAIN = 8
# Offsets up to this have 32 bits, with room for what the last program has beyond the end.
_NARROW = (1 << 31) - (1 << 12)
# Below so many numbers torch's own products are done before a kernel has been started.
_WORTH_IT = 1 << 18
_OLDEST_GPU = (7, 0)


def suits(operation: str, *tensors: Tensor) -> bool:
    """Hypervectors in single precision, or pairs, on a GPU that triton knows, of an m for which there are kernels."""
    x = tensors[0]
    known = DTYPES if operation.endswith("_pairs") else (torch.complex64,)
    return x.is_cuda and x.dtype in known and x.shape[-2] <= LARGEST_M and _recent(x.get_device())


def pays(operation: str, *tensors: Tensor) -> bool:
    """Whether kernels are quicker than torch for tensors of this size."""
    return max([x.numel() for x in tensors]) >= _WORTH_IT


@functools.cache
def _recent(device: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= _OLDEST_GPU


def bind(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    return _bind(a, b, adjoint_a, adjoint_b, torch.float32)


def bind_pairs(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    return from_words(_bind(as_words(a), as_words(b), adjoint_a, adjoint_b, a.dtype), a.dtype)


def _bind(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool, part: torch.dtype) -> Tensor:
    """A B of words whose parts have this precision."""
    a, adjoint_a = by_slots(a, adjoint_a)
    b, adjoint_b = by_slots(b, adjoint_b)
    out = _empty(_broadcast(a, b), a)
    rows, block, warps = _SHAPES[a.shape[-1]]
    threads = out.numel() // rows
    axes = _axes_of(out.shape, a, b)
    kind = {"ROWS": rows, "ADJOINT_A": adjoint_a, "ADJOINT_B": adjoint_b, "PART": part, "BLOCK": block}
    _launch("bind", (_programs(threads, block),), (out, a, b), (threads,), axes, kind, warps)
    return out


def bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    return _bind_bundle(keys, values, adjoint_keys, adjoint_values, torch.float32)


def bind_bundle_pairs(keys: Tensor, values: Tensor, adjoint_keys: bool = False, adjoint_values: bool = False) -> Tensor:
    dtype = keys.dtype
    out = _bind_bundle(as_words(keys), as_words(values), adjoint_keys, adjoint_values, dtype)
    return rounded(out, dtype) if out.is_complex() else from_words(out, dtype)


def _bind_bundle(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool, part: torch.dtype) -> Tensor:
    """The sum of A B of words whose parts have this precision, as such words or, if it was split, as complex64."""
    a, adjoint_a = by_slots(a, adjoint_a)
    b, adjoint_b = by_slots(b, adjoint_b)
    *batch, items, dim, m, _ = _broadcast(a, b)
    shape = (*batch, dim, m, m)
    if items == 0:
        return a.new_zeros(shape)
    (a, step_a), (b, step_b) = _first_item(a), _first_item(b)
    rows, block, warps = _SHAPES[m]
    threads = torch.Size(shape).numel() // rows
    programs = _programs(threads, block)
    share = _programs(items, min(_programs(items, _FEWEST_ITEMS), max(1, _PROGRAMS // max(1, programs))))
    parts = _programs(items, share)
    whole = parts == 1
    like = a if whole else a.new_empty(0, dtype=torch.complex64)  # parts of a sum are not rounded
    sums = _empty((parts, *shape), like)
    axes = _axes_of(shape, a, b, items=(step_a, step_b))
    kind = {"ROWS": rows, "ADJOINT_A": adjoint_a, "ADJOINT_B": adjoint_b, "PART": part, "BLOCK": block}
    kind["OUT_PART"] = part if whole else torch.float32
    _launch("bind_bundle", (programs, parts), (sums, a, b), (threads, items, share), axes, kind, warps)
    return sums[0] if whole else sums.sum(dim=0)


def multibind(items: Tensor) -> Tensor:
    count = items.shape[-4]
    if count < 2:
        return torch_backend.multibind(items)
    a, adjoint = by_slots(items)
    return _chain(*_first_item(a), count, adjoint)


def whole_power(a: Tensor, exponent: int) -> Tensor:
    if exponent < 2:
        return torch_backend.whole_power(a, exponent)
    if exponent > _LARGEST_CHAIN:
        return torch_backend.whole_power(a, exponent, bind)
    a, adjoint = by_slots(a)
    return _chain(a, 0, exponent, adjoint)


def _chain(a: Tensor, step: int, count: int, adjoint: bool) -> Tensor:
    """The product of so many items, ``step`` numbers apart."""
    out = _empty(a.shape, a)
    threads = out.numel() // a.shape[-1]
    kind = {"ADJOINT": adjoint, "BLOCK": _COLUMNS}
    axes = _axes_of(out.shape, a, items=(step,))
    _launch("multibind", (_programs(threads, _COLUMNS),), (out, a), (threads, count), axes, kind, _COLUMN_WARPS)
    return out


def bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, adjoint_a = by_slots(a, adjoint_a)
    b, adjoint_b = by_slots(b, adjoint_b)
    c, adjoint_c = by_slots(c)
    *batch, dim, m, _ = shape = _broadcast(a, b, c)
    rows, block, warps = _SHAPES[m]
    hypervectors = torch.Size(batch).numel()
    parts = max(1, min(_programs(dim * m * m, rows * block), 4 * _PROGRAMS // max(1, hypervectors)))
    sums = _empty((*batch, parts), a.real)
    axes = _axes_of(shape, a, b, c)
    kind = {"ROWS": rows, "ADJOINT_A": adjoint_a, "ADJOINT_B": adjoint_b, "ADJOINT_C": adjoint_c, "BLOCK": block}
    _launch("bind_similarity", (hypervectors * parts,), (sums, a, b, c), (dim, parts), axes, kind, warps)
    return sums.sum(dim=-1) / (m * dim)


class _Axes(NamedTuple):
    """Axes of a result, and the steps of the operands along them and from item to item, as kernels take them."""

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    items: tuple[int, ...]
    unit: int
    wide: bool


def _axes_of(shape: tuple[int, ...], *operands: Tensor, items: tuple[int, ...] = ()) -> _Axes:
    return _axes(tuple(shape), items, _NARROW, *[(tuple(x.shape), x.stride()) for x in operands])


@functools.lru_cache(maxsize=1024)
def _axes(
    shape: tuple[int, ...],
    items: tuple[int, ...],
    narrow: int,
    *operands: tuple[tuple[int, ...], tuple[int, ...]],
) -> _Axes:
    sizes, *steps = table_of_axes(shape[:-2], 1, *operands).tolist()
    slot = shape[-1] * shape[-2]
    reach = [sum((size - 1) * step for size, step in zip(sizes, along, strict=True)) for along in steps]
    wide = max(torch.Size(shape).numel(), *reach) + slot > narrow
    # A step of 1 is known to the compiler: where slots follow each other it sees that, and how they are aligned.
    unit = slot if all(step % slot == 0 for along in (*steps, items) for step in along) else 1
    in_units = [tuple(step // unit for step in along) for along in (*steps, items)]
    return _Axes(tuple(sizes), tuple(in_units[:-1]), in_units[-1], unit, wide)


def _launch(  # noqa: PLR0917
    name: str,
    grid: tuple[int, ...],
    tensors: tuple[Tensor, ...],
    numbers: tuple[int, ...],
    axes: _Axes,
    kind: dict[str, Any],
    warps: int,
) -> None:
    """Start a kernel, unless there is nothing to compute; complex numbers go as words of 64 bits."""
    if 0 in grid:
        return
    words = [x.view(torch.int64) if x.is_complex() else x for x in tensors]
    kernel = getattr(_kernels(), name)[grid]
    kind = {key: _of_triton(x) if isinstance(x, torch.dtype) else x for key, x in kind.items()}
    with torch.cuda.device_of(tensors[0]):  # type: ignore[no-untyped-call]
        kernel(
            *words,
            *numbers,
            axes.sizes,
            *axes.steps,
            *axes.items,
            UNIT=axes.unit,
            M=tensors[-1].shape[-1],
            WIDE=axes.wide,
            **kind,
            num_warps=warps,
        )


@functools.cache
def _of_triton(dtype: torch.dtype) -> Any:
    return getattr(_kernels().tl, str(dtype).removeprefix("torch."))


@functools.cache
def _kernels() -> ModuleType:
    from ghrr.ops import triton_kernels  # noqa: PLC0415 (triton takes long to import)

    return triton_kernels


def _programs(work: int, each: int) -> int:
    return -(-work // each)


def _first_item(x: Tensor) -> tuple[Tensor, int]:
    """The first of an axis of items, and the numbers to the next; 0 where it stands for all."""
    return x.select(-4, 0), x.stride(-4) if x.shape[-4] > 1 else 0


def _broadcast(*tensors: Tensor) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*[x.shape for x in tensors])  # type: ignore[no-untyped-call]
    return shape


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)

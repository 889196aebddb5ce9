"""Philox4x64-10, the random number generator of named atoms, as a compiled loop.

The numbers equal ``numpy.random.Philox``. A block of four words depends only on its index and the key, so
several blocks are computed at once, one per lane of a vector; NumPy computes them one by one. Vector instructions
have no 64-bit product that keeps the upper half, so it is composed of 32-bit halves.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares with NumPy's numbers.
"""

# Types of generated code are known when it is generated.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from ghrr.ops.cpu.lanes import SLOTS

Words = NDArray[np.uint64]

ROUNDS = 10
_LANES = SLOTS // 8
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B  # added to the two halves of the key in each round
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_INDEX, _LANES)
_DOUBLES = ir.VectorType(ir.DoubleType(), _LANES)


def _constant(number: int) -> Any:
    return ir.Constant(_VECTOR, [number] * _LANES)


def _product(builder: Any, factor: int, x: Any) -> tuple[Any, Any]:
    """Return the upper and lower 64 bits of x times a factor."""
    half, mask = _constant(32), _constant(0xFFFFFFFF)
    low, high = _constant(factor & 0xFFFFFFFF), _constant(factor >> 32)
    x_low, x_high = builder.and_(x, mask), builder.lshr(x, half)
    first = builder.mul(low, x_low)
    second = builder.add(builder.mul(high, x_low), builder.lshr(first, half))
    third = builder.add(builder.mul(low, x_high), builder.and_(second, mask))
    upper = builder.add(builder.add(builder.mul(high, x_high), builder.lshr(second, half)), builder.lshr(third, half))
    return upper, builder.or_(builder.shl(third, half), builder.and_(first, mask))


def _words(builder: Any, block: Any, key: tuple[Any, Any]) -> list[Any]:
    """Return the four words of several blocks."""
    starts = builder.add(block, _constant(1)), *[_constant(0)] * 3  # NumPy starts at 1
    words = [cgutils.alloca_once_value(builder, x) for x in starts]
    keys = [cgutils.alloca_once_value(builder, x) for x in key]
    for place, x in zip(words + keys, (*starts, *key), strict=True):
        builder.store(x, place)
    with cgutils.for_range(builder, ir.Constant(_INDEX, ROUNDS)):
        a, b, c, d, key_0, key_1 = (builder.load(place) for place in words + keys)
        (high_0, low_0), (high_1, low_1) = _product(builder, _FACTORS[0], a), _product(builder, _FACTORS[1], c)
        mixed = builder.xor(builder.xor(high_1, b), key_0), low_1, builder.xor(builder.xor(high_0, d), key_1), low_0
        later = (builder.add(x, _constant(added)) for x, added in zip((key_0, key_1), _WEYL, strict=True))
        for place, x in zip(words + keys, (*mixed, *later), strict=True):
            builder.store(x, place)
    return [builder.load(place) for place in words]


def _splat(builder: Any, number: Any) -> Any:
    single = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), _LANES), [0] * _LANES)
    return builder.shuffle_vector(single, ir.Constant(_VECTOR, ir.Undefined), zeros)


@intrinsic
def fill(context, key_0, key_1, first, numbers, out):  # noqa: PLR0917
    """Write the uniform numbers of the slots from ``first`` on to the address of doubles ``(numbers, SLOTS)``.

    They equal the result of :func:`ghrr.seeding.slot_uniform`. Slot ``first + i`` is in column
    ``i % 8 * (SLOTS // 8) + i // 8``, because the slots of one block are written by different instructions. ``first``
    must be a multiple of 8.
    """

    def build(context, builder, signature, args):
        key_0, key_1, first, numbers, out = args
        key = _splat(builder, key_0), _splat(builder, key_1)
        start = builder.mul(builder.udiv(first, ir.Constant(_INDEX, 8)), numbers)
        lane = ir.Constant(_VECTOR, list(range(_LANES)))
        steps = builder.add(_splat(builder, start), builder.mul(lane, _splat(builder, numbers)))
        half, mask = _constant(32), _constant(0xFFFFFFFF)
        with cgutils.for_range(builder, numbers) as loop:
            words = _words(builder, builder.add(steps, _splat(builder, loop.index)), key)
            row = builder.add(out, builder.mul(loop.index, ir.Constant(_INDEX, 8 * SLOTS)))
            halves = [part for x in words for part in (builder.and_(x, mask), builder.lshr(x, half))]
            for n, x in enumerate(halves):
                uniform = builder.fmul(builder.sitofp(x, _DOUBLES), ir.Constant(_DOUBLES, [2.0**-32] * _LANES))
                at = builder.add(row, ir.Constant(_INDEX, 8 * _LANES * n))
                builder.store(uniform, builder.inttoptr(at, _DOUBLES.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.int64, types.int64, types.int64), build

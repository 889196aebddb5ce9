"""Philox4x64-10, the random number generator of named atoms, as a compiled loop.

The numbers are those of ``numpy.random.Philox``. A block of four numbers depends only on its index and the key, so
several blocks are computed at once, one per lane of a vector; NumPy computes them one by one. Vector instructions
have no 64-bit product that keeps the upper half, so it is composed of 32-bit halves.

numba's cache on disk checks the file of the calling loop only: after a change here, change
:mod:`ghrr.ops.cpu.sampling` too, or empty the cache.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares with NumPy's numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]
Columns = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])

ROUNDS = 10
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_LOW_0, _LOW_1 = (np.uint64(factor & 0xFFFFFFFF) for factor in _FACTORS)
_HIGH_0, _HIGH_1 = (np.uint64(factor >> 32) for factor in _FACTORS)
# Added to the two halves of the key in each round.
_ADDED_0, _ADDED_1 = (tuple(np.uint64(n * weyl % 2**64) for n in range(ROUNDS)) for weyl in _WEYL)
_UNUSED_BITS = np.uint64(11)  # a double has 53


def _compiled(function: Function) -> Function:
    compiled: Function = numba.njit(function, nogil=True, error_model="numpy", cache=True)
    return compiled


def _inlined(function: Function) -> Function:
    inlined: Function = numba.njit(function, inline="always")
    return inlined


@_inlined
def _product(low, high, x):  # pragma: no cover
    """Return the upper and lower 64 bits of x times a factor, which is given in halves."""
    x_low, x_high = x & _LOW, x >> _HALF
    first = low * x_low
    second = high * x_low + (first >> _HALF)
    third = low * x_high + (second & _LOW)
    return high * x_high + (second >> _HALF) + (third >> _HALF), (third << _HALF) | (first & _LOW)


@_inlined
def _round(n, a, b, c, d, key_0, key_1):  # noqa: PLR0917 # pragma: no cover
    high_0, low_0 = _product(_LOW_0, _HIGH_0, a)
    high_1, low_1 = _product(_LOW_1, _HIGH_1, c)
    return high_1 ^ b ^ (key_0 + _ADDED_0[n]), low_1, high_0 ^ d ^ (key_1 + _ADDED_1[n]), low_0


@_inlined
def _words(block, key_0, key_1):  # pragma: no cover
    a, b, c, d = np.uint64(block + 1), np.uint64(0), np.uint64(0), np.uint64(0)  # NumPy starts at 1
    # Ten rounds, unrolled: an inner loop would prevent the compiler from processing several blocks at a time.
    a, b, c, d = _round(0, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(1, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(2, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(3, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(4, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(5, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(6, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(7, a, b, c, d, key_0, key_1)
    a, b, c, d = _round(8, a, b, c, d, key_0, key_1)
    return _round(9, a, b, c, d, key_0, key_1)


@_inlined
def _whole(word):  # pragma: no cover
    return np.float64(np.int64(word >> _UNUSED_BITS)) * 2.0**-53


@_inlined
def _half(word):  # pragma: no cover
    return np.float64(np.int64(word)) * 2.0**-32


@_compiled
def whole_words(key, first, step, w, x, y, z):  # noqa: PLR0917 # pragma: no cover
    """Write numbers of 53 bits: the four of each of the blocks ``first``, ``first + step``, ... to w, x, y, z."""
    key_0, key_1 = key[0], key[1]
    for i in range(len(w)):
        a, b, c, d = _words(first + step * i, key_0, key_1)
        w[i], x[i], y[i], z[i] = _whole(a), _whole(b), _whole(c), _whole(d)


@_compiled
def half_words(key, first, step, w0, w1, x0, x1, y0, y1, z0, z1):  # noqa: PLR0917 # pragma: no cover
    """Write numbers of 32 bits, two of each word, the lower half first; otherwise as :func:`whole_words`."""
    key_0, key_1 = key[0], key[1]
    for i in range(len(w0)):
        a, b, c, d = _words(first + step * i, key_0, key_1)
        w0[i], w1[i] = _half(a & _LOW), _half(a >> _HALF)
        x0[i], x1[i] = _half(b & _LOW), _half(b >> _HALF)
        y0[i], y1[i] = _half(c & _LOW), _half(c >> _HALF)
        z0[i], z1[i] = _half(d & _LOW), _half(d >> _HALF)


@_compiled
def shared_blocks(numbers: int, halves: bool) -> int:  # pragma: no cover
    """Return the logarithm to base 2 of the number of slots that share whole blocks."""
    power = 0
    while (numbers << power) % (8 if halves else 4):
        power += 1
    return power


@_compiled
def columns(numbers: int, halves: bool, slots: int) -> Columns:  # pragma: no cover
    """Return the column in which :func:`fill` puts each slot."""
    power = shared_blocks(numbers, halves)
    found = np.empty(slots, dtype=np.int64)
    for i in range(slots):
        found[i] = (i & ((1 << power) - 1)) * (slots >> power) + (i >> power)
    return found


@_inlined
def _part(flat, n, numbers, slots, lanes):  # pragma: no cover
    """Return the view of number n of all groups of slots that share blocks."""
    start = n % numbers * slots + n // numbers * lanes
    return flat[start : start + lanes]


@_compiled
def fill(key: Words, first: int, halves: bool, out: Doubles) -> None:  # pragma: no cover
    """Write uniform numbers of the slots from ``first`` on, ``(numbers of a slot, slots)``.

    With ``halves`` a word gives two numbers of 32 bits, otherwise one of 53. Slots that share blocks are in distant
    columns, see :func:`columns`, so that every loop runs along slots. ``first`` and the number of slots must be
    multiples of 8.
    """
    numbers, slots = out.shape
    power = shared_blocks(numbers, halves)
    lanes, per_lane = slots >> power, (numbers << power) // (8 if halves else 4)
    flat = out.reshape(numbers * slots)
    for block in range(per_lane):
        start = (first >> power) * per_lane + block
        if halves:
            n = 8 * block
            half_words(
                key,
                start,
                per_lane,
                _part(flat, n, numbers, slots, lanes),
                _part(flat, n + 1, numbers, slots, lanes),
                _part(flat, n + 2, numbers, slots, lanes),
                _part(flat, n + 3, numbers, slots, lanes),
                _part(flat, n + 4, numbers, slots, lanes),
                _part(flat, n + 5, numbers, slots, lanes),
                _part(flat, n + 6, numbers, slots, lanes),
                _part(flat, n + 7, numbers, slots, lanes),
            )
        else:
            n = 4 * block
            whole_words(
                key,
                start,
                per_lane,
                _part(flat, n, numbers, slots, lanes),
                _part(flat, n + 1, numbers, slots, lanes),
                _part(flat, n + 2, numbers, slots, lanes),
                _part(flat, n + 3, numbers, slots, lanes),
            )

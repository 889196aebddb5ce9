"""Philox4x64-10, the random number generator of named atoms, as a compiled loop.

The numbers equal ``numpy.random.Philox``. A block of four words depends only on its index and the key, so
several blocks are computed at once, one per lane of a vector; NumPy computes them one by one. Vector instructions
have no 64-bit product that keeps the upper half, so it is composed of 32-bit halves.

numba's cache on disk checks the file of the calling loop only: after a change here or in :mod:`ghrr.ops.cpu.lanes`,
change :mod:`ghrr.ops.cpu.sampling` too, or empty the cache.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares with NumPy's numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import compiled, linked
from ghrr.ops.cpu.lanes import SLOTS

Doubles = NDArray[np.float64]
Words = NDArray[np.uint64]

ROUNDS = 10
_LANES = SLOTS // 8
_FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_LOW_0, _LOW_1 = (np.uint64(factor & 0xFFFFFFFF) for factor in _FACTORS)
_HIGH_0, _HIGH_1 = (np.uint64(factor >> 32) for factor in _FACTORS)
# Added to the two halves of the key in each round.
_ADDED_0, _ADDED_1 = (tuple(np.uint64(n * weyl % 2**64) for n in range(ROUNDS)) for weyl in _WEYL)


@linked
def _product(low, high, x):  # pragma: no cover
    """Return the upper and lower 64 bits of x times a factor, which is given in halves."""
    x_low, x_high = x & _LOW, x >> _HALF
    first = low * x_low
    second = high * x_low + (first >> _HALF)
    third = low * x_high + (second & _LOW)
    return high * x_high + (second >> _HALF) + (third >> _HALF), (third << _HALF) | (first & _LOW)


@linked
def _round(a, b, c, d, key_0, key_1):  # noqa: PLR0917 # pragma: no cover
    high_0, low_0 = _product(_LOW_0, _HIGH_0, a)
    high_1, low_1 = _product(_LOW_1, _HIGH_1, c)
    return high_1 ^ b ^ key_0, low_1, high_0 ^ d ^ key_1, low_0


@linked
def _words(block, key_0, key_1):  # pragma: no cover
    a, b, c, d = np.uint64(block + 1), np.uint64(0), np.uint64(0), np.uint64(0)  # NumPy starts at 1
    # Ten rounds, unrolled: an inner loop would prevent the compiler from processing several blocks at a time.
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[0], key_1 + _ADDED_1[0])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[1], key_1 + _ADDED_1[1])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[2], key_1 + _ADDED_1[2])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[3], key_1 + _ADDED_1[3])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[4], key_1 + _ADDED_1[4])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[5], key_1 + _ADDED_1[5])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[6], key_1 + _ADDED_1[6])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[7], key_1 + _ADDED_1[7])
    a, b, c, d = _round(a, b, c, d, key_0 + _ADDED_0[8], key_1 + _ADDED_1[8])
    return _round(a, b, c, d, key_0 + _ADDED_0[9], key_1 + _ADDED_1[9])


@linked
def _half(word):  # pragma: no cover
    return np.float64(np.int64(word)) * 2.0**-32


@compiled
def fill(key: Words, first: int, out: Doubles) -> None:  # pragma: no cover
    """Write the uniform numbers of the slots from ``first`` on, ``(numbers of a slot, SLOTS)``.

    They equal the result of :func:`ghrr.seeding.slot_uniform`. Slot ``first + i`` is in column
    ``i % 8 * (SLOTS // 8) + i // 8``, because the slots of one block are written by different instructions. ``first``
    must be a multiple of 8.
    """
    key_0, key_1 = key[0], key[1]
    numbers, block = len(out), first // 8 * len(out)
    for n in range(numbers):
        for i in range(_LANES):
            a, b, c, d = _words(block + n + numbers * i, key_0, key_1)
            out[n, i], out[n, _LANES + i] = _half(a & _LOW), _half(a >> _HALF)
            out[n, 2 * _LANES + i], out[n, 3 * _LANES + i] = _half(b & _LOW), _half(b >> _HALF)
            out[n, 4 * _LANES + i], out[n, 5 * _LANES + i] = _half(c & _LOW), _half(c >> _HALF)
            out[n, 6 * _LANES + i], out[n, 7 * _LANES + i] = _half(d & _LOW), _half(d >> _HALF)

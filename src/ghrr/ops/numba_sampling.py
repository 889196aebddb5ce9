"""Loops that numba compiles for the CPU: Haar matrices, with phases, from uniform numbers in one pass.

Importing this module imports numba; :mod:`ghrr.unitary.sampling` does so when the first large batch is drawn. A few
slots at a time are turned round in a buffer, so that every instruction works on the same number of several slots, and
stay in the first cache from the uniform numbers to the result. All arithmetic is in double precision; the library's
logarithms and sines take the numbers one by one, so that they are spelled out here. Where slots run out the last one
fills the buffer.

Coverage cannot see into compiled code, hence the marks; ``tests/unitary`` compares what it computes with LAPACK's QR.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

_SLOTS = 32  # at a time
# Taylor's series, ended where the next term is below the last digit: of 2 artanh(s) / s in s² for s² < 0.0295, and of
# sin(2πx) / x and cos(2πx) in x² for x up to an eighth.
_LOG = tuple(2 / (2 * n + 1) for n in range(11))
_SIN = tuple((-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(9))
_LOG_2 = math.log(2)
_DIGITS = 52  # binary ones of a double, below its exponent
_BITS_OF_ROOT_HALF = int(np.float64(math.sqrt(0.5)).view(np.int64))
# Rounding grows as a column shrinks. For single precision it is mended where less is left of its squared length.
_LITTLE = 1e-8


def _compiled(function: Function) -> Function:
    # Products and sums may be fused into one instruction, which only makes them more exact.
    compiled: Function = numba.njit(function, nogil=True, fastmath={"contract"}, error_model="numpy", cache=True)
    return compiled


def _inlined(function: Function) -> Function:
    inlined: Function = numba.njit(function, inline="always")  # before it is compiled, so that it knows m
    return inlined


@_compiled
def radii(u: Doubles) -> None:  # pragma: no cover
    r"""Uniform numbers to :math:`\sqrt{-2 \log(1 - u)}`, in place.

    The sources of uniform numbers give multiples of 2⁻⁵³, so that 1 - u is exact. It is taken apart into a power of 2
    and a factor f between √½ and √2, and :math:`\log f = 2\,\mathrm{artanh}\frac{f - 1}{f + 1}`.
    """
    for i in range(u.shape[0]):
        bits = np.float64(1.0 - u[i]).view(np.int64)
        exponent = (bits - _BITS_OF_ROOT_HALF) >> _DIGITS
        factor = np.int64(bits - (exponent << _DIGITS)).view(np.float64)
        s = (factor - 1.0) / (factor + 1.0)
        series = _LOG[-1]
        for n in range(len(_LOG) - 2, -1, -1):
            series = series * (s * s) + _LOG[n]
        u[i] = math.sqrt(-2.0 * (exponent * _LOG_2 + s * series))


@_compiled
def turn(radius: Doubles, angle: Doubles, more: Doubles) -> None:  # pragma: no cover
    """Polar coordinates to the two usual ones, in place; angles are in turns, and those of ``more`` are added.

    A turn is taken apart into quarters and what is left, exactly, which it could not be in radians.
    """
    for i in range(radius.shape[0]):
        x = angle[i] + more[i]
        quarters = np.rint(4.0 * x)
        x -= 0.25 * quarters
        sin, cos = _SIN[-1], _COS[-1]
        for n in range(len(_SIN) - 2, -1, -1):
            sin = sin * (x * x) + _SIN[n]
            cos = cos * (x * x) + _COS[n]
        sin *= x
        quarter = np.int64(quarters)
        first = sin if quarter & 1 else cos
        second = cos if quarter & 1 else sin
        angle[i] = radius[i] * (-second if quarter & 2 else second)
        radius[i] *= -first if (quarter + 1) & 2 else first


@_inlined
def _gram_schmidt(m: int, x: Doubles, c: Doubles, d: Doubles) -> tuple[int, int]:  # pragma: no cover
    """Orthonormalise the columns of matrices ``(row, column, real or imaginary part, slot)`` in place.

    Gives the number of columns of which little was left, and nothing. ``c`` and ``d`` are overwritten.
    """
    short = lost = 0
    for j in range(m):
        for i in range(_SLOTS):
            left = 0.0
            for row in range(m):
                left += x[row, j, 0, i] * x[row, j, 0, i] + x[row, j, 1, i] * x[row, j, 1, i]
            short += left < _LITTLE
            lost += left == 0
            c[i] = 1.0 / math.sqrt(left)
        for row in range(m):
            for i in range(_SLOTS):
                x[row, j, 0, i] *= c[i]
                x[row, j, 1, i] *= c[i]
        for k in range(j + 1, m):
            for i in range(_SLOTS):
                real = imaginary = 0.0
                for row in range(m):
                    real += x[row, j, 0, i] * x[row, k, 0, i] + x[row, j, 1, i] * x[row, k, 1, i]
                    imaginary += x[row, j, 0, i] * x[row, k, 1, i] - x[row, j, 1, i] * x[row, k, 0, i]
                c[i], d[i] = real, imaginary
            for row in range(m):
                for i in range(_SLOTS):
                    x[row, k, 0, i] -= x[row, j, 0, i] * c[i] - x[row, j, 1, i] * d[i]
                    x[row, k, 1, i] -= x[row, j, 0, i] * d[i] + x[row, j, 1, i] * c[i]
    return short, lost


@functools.cache
def haar_kernel(m: int) -> Callable[[int, int, Doubles, Doubles, NDArray[Any]], int]:
    """The loop for one m, which the compiler must know to spell out its sums."""

    @_compiled
    def haar(start: int, stop: int, u: Doubles, turns: Doubles, out: NDArray[Any]) -> int:  # pragma: no cover
        """Fill the slots from start to stop: ``(slots, 2 m m)`` and turns ``(slots, m)`` to reals ``(slots, 2 m m)``.

        A single row of turns stands for all slots. Gives 0 if all columns are known, and not if those before leave
        nothing of one.
        """
        x, more = np.empty((m, m, 2, _SLOTS)), np.empty((m, _SLOTS))
        rows = x.reshape(2 * m * m, _SLOTS)
        c, d = np.empty(_SLOTS), np.empty(_SLOTS)
        unknown = 0
        for first in range(start, stop, _SLOTS):
            count = min(_SLOTS, stop - first)
            for i in range(_SLOTS):
                slot = first + min(i, count - 1)
                for n in range(2 * m * m):
                    rows[n, i] = u[slot, n]
                for n in range(m):
                    more[n, i] = turns[min(slot, len(turns) - 1), n]
            for n in range(m * m):
                radii(rows[2 * n])
                turn(rows[2 * n], rows[2 * n + 1], more[n % m])
            for _ in range(2):  # a second time mends what rounding left
                short, lost = _gram_schmidt(m, x, c, d)
                unknown += lost
                if short == 0 and out.itemsize == 4:
                    break
            for i in range(count):
                for n in range(2 * m * m):
                    out[first + i, n] = rows[n, i]
        return unknown

    return haar

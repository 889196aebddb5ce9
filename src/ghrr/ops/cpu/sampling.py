"""Compiled loops: Haar matrices, with phases, from uniform numbers in one pass.

A few slots at a time are transposed into a buffer, so that every vector instruction processes the same entry of several
slots, and stay in the first-level cache from the uniform numbers to the result. The last slot fills the rest of the
buffer. All arithmetic is in double precision. Logarithms and sines are implemented here, since those of the C library
process one number at a time.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/unitary`` compares the results with
LAPACK's QR.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu import philox

Doubles = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

SLOTS = 64  # per chunk
PHASES = 512  # per chunk, for m = 1


def _fitted(taylor: list[float], largest: float, terms: int) -> tuple[float, ...]:
    """Shorten a Taylor series by the last terms of its Chebyshev series on [0, largest], which are below rounding."""
    series = np.polynomial.Polynomial(taylor).convert(kind=np.polynomial.Chebyshev, domain=[0, largest])
    return tuple(float(c) for c in series.truncate(terms).convert(kind=np.polynomial.Polynomial).coef)


# 2 artanh(s) / s in s² for s² < 0.0295, and sin(2πx) / x and cos(2πx) in x² for x up to an eighth.
_LOG = _fitted([2 / (2 * n + 1) for n in range(12)], 0.0295, 8)
_SIN = _fitted([(-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(10)], 1 / 64, 7)
_COS = _fitted([(-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(10)], 1 / 64, 7)
_LOG_2 = math.log(2)
_DIGITS = 52  # bits of a double below its exponent
_BITS_OF_ROOT_HALF = int(np.float64(math.sqrt(0.5)).view(np.int64))
# Rounding errors grow as a column shrinks. For single precision a second pass is needed below this squared length.
_LITTLE = 1e-8


def _compiled(function: Function) -> Function:
    # Allows fused multiply-add, which is more exact.
    compiled: Function = numba.njit(function, nogil=True, fastmath={"contract"}, error_model="numpy", cache=True)
    return compiled


def _inlined(function: Function) -> Function:
    inlined: Function = numba.njit(function, inline="always")  # before compilation, so that m is a constant
    return inlined


@_compiled
def radii(u: Doubles) -> None:  # pragma: no cover
    r"""Transform uniform numbers to :math:`\sqrt{-2 \log(1 - u)}`, in place.

    Uniform numbers are multiples of 2⁻⁵³, so that 1 - u is exact. It is split into a power of 2 and a factor f between
    √½ and √2, and :math:`\log f = 2\,\mathrm{artanh}\frac{f - 1}{f + 1}`.
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
    """Transform polar to Cartesian coordinates in place; angles are in turns (360°), and ``more`` is added to them.

    Subtracting quarter turns is exact, which it would not be in radians.
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

    Returns how many columns became short and how many became zero. ``c`` and ``d`` are overwritten.
    """
    short = lost = 0
    for j in range(m):
        for i in range(SLOTS):
            left = 0.0
            for row in range(m):
                left += x[row, j, 0, i] * x[row, j, 0, i] + x[row, j, 1, i] * x[row, j, 1, i]
            short += left < _LITTLE
            lost += left == 0
            c[i] = 1.0 / math.sqrt(left)
        for row in range(m):
            for i in range(SLOTS):
                x[row, j, 0, i] *= c[i]
                x[row, j, 1, i] *= c[i]
        for k in range(j + 1, m):
            for i in range(SLOTS):
                real = imaginary = 0.0
                for row in range(m):
                    real += x[row, j, 0, i] * x[row, k, 0, i] + x[row, j, 1, i] * x[row, k, 1, i]
                    imaginary += x[row, j, 0, i] * x[row, k, 1, i] - x[row, j, 1, i] * x[row, k, 0, i]
                c[i], d[i] = real, imaginary
            for row in range(m):
                for i in range(SLOTS):
                    x[row, k, 0, i] -= x[row, j, 0, i] * c[i] - x[row, j, 1, i] * d[i]
                    x[row, k, 1, i] -= x[row, j, 0, i] * d[i] + x[row, j, 1, i] * c[i]
    return short, lost


@functools.cache
def haar_kernel(m: int) -> Callable[[int, int, Doubles, Doubles, NDArray[Any]], int]:
    """Return the loop for one m, a compile-time constant so that sums are unrolled."""

    @_compiled
    def haar(start: int, stop: int, u: Doubles, turns: Doubles, out: NDArray[Any]) -> int:  # pragma: no cover
        """Fill the slots from start to stop: ``(slots, 2 m m)`` and turns ``(slots, m)`` to reals ``(slots, 2 m m)``.

        A single row of turns applies to all slots. Returns 0 unless a column depends linearly on those before it.
        """
        x, more = np.empty((m, m, 2, SLOTS)), np.empty((m, SLOTS))
        rows = x.reshape(2 * m * m, SLOTS)
        c, d = np.empty(SLOTS), np.empty(SLOTS)
        unknown = 0
        for first in range(start, stop, SLOTS):
            count = min(SLOTS, stop - first)
            for i in range(SLOTS):
                slot = first + min(i, count - 1)
                for n in range(2 * m * m):
                    rows[n, i] = u[slot, n]
                for n in range(m):
                    more[n, i] = turns[min(slot, len(turns) - 1), n]
            for n in range(m * m):
                radii(rows[2 * n])
                turn(rows[2 * n], rows[2 * n + 1], more[n % m])
            for _ in range(2):  # a second pass removes rounding errors
                short, lost = _gram_schmidt(m, x, c, d)
                unknown += lost
                if short == 0 and out.itemsize == 4:
                    break
            for i in range(count):
                for n in range(2 * m * m):
                    out[first + i, n] = rows[n, i]
        return unknown

    return haar


@_compiled
def to_roots(turns: Doubles, roots: int) -> None:  # pragma: no cover
    """Round uniform numbers down to multiples of 1 / roots, in place."""
    for i in range(turns.shape[0]):
        turns[i] = math.floor(turns[i] * roots) / roots


@functools.cache
def base_kernel(m: int) -> Callable[..., int]:
    """Return the loop for one m that makes base hypervectors from Philox keys: random numbers, rotations, phases."""

    @_compiled
    def base(start, stop, slots, rotation_keys, phase_keys, halves, roots, out):  # type: ignore[no-untyped-def] # noqa: PLR0917 # pragma: no cover
        """Fill chunks of ``SLOTS`` slots from start to stop, counted through the rows of ``out``.

        Keys are ``(rows, 2)`` and ``out`` is ``(rows, slots, m * m)``, complex. Without phase keys there are no phases;
        with ``roots`` phases are roots of unity. ``halves`` is that of :func:`ghrr.ops.cpu.philox.fill`.
        Returns 0 unless a column depends linearly on those before it.
        """
        x, more, turns = np.empty((m, m, 2, SLOTS)), np.zeros((m, SLOTS)), np.empty((m, SLOTS))
        rows, entries = x.reshape(2 * m * m, SLOTS), np.empty((m * m, SLOTS), dtype=out.dtype)
        c, d = np.empty(SLOTS), np.empty(SLOTS)
        columns = philox.columns(2 * m * m, halves, SLOTS)
        turned = philox.columns(m, halves, SLOTS)
        chunks = (slots + SLOTS - 1) // SLOTS
        unknown = 0
        for chunk in range(start, stop):
            row, first = chunk // chunks, chunk % chunks * SLOTS
            philox.fill(rotation_keys[row], first, halves, rows)
            if len(phase_keys):
                philox.fill(phase_keys[row], first, halves, turns)
                for n in range(m):
                    for i in range(SLOTS):
                        more[n, columns[i]] = turns[n, turned[i]]
                    if roots:
                        to_roots(more[n], roots)
            for n in range(m * m):
                radii(rows[2 * n])
                turn(rows[2 * n], rows[2 * n + 1], more[n % m])
            for _ in range(2):  # a second pass removes rounding errors
                short, lost = _gram_schmidt(m, x, c, d)
                unknown += lost
                if short == 0 and out.itemsize == 8:
                    break
            for n in range(m * m):
                for i in range(SLOTS):
                    entries[n, i] = complex(rows[2 * n, i], rows[2 * n + 1, i])
            for i in range(min(SLOTS, slots - first)):
                for n in range(m * m):
                    out[row, first + i, n] = entries[n, columns[i]]
        return unknown

    return base


@_compiled
def phasors(start, stop, slots, _, keys, halves, roots, out):  # type: ignore[no-untyped-def] # noqa: PLR0917 # pragma: no cover
    """Make base hypervectors for m = 1, where the rotation is 1; as :func:`base_kernel`, in chunks of ``PHASES``."""
    turns, radius, none = np.empty((1, PHASES)), np.empty(PHASES), np.zeros(PHASES)
    angle, columns = turns[0], philox.columns(1, halves, PHASES)
    chunks = (slots + PHASES - 1) // PHASES
    for chunk in range(start, stop):
        row, first = chunk // chunks, chunk % chunks * PHASES
        philox.fill(keys[row], first, halves, turns)
        if roots:
            to_roots(angle, roots)
        radius[:] = 1.0
        turn(radius, angle, none)
        for i in range(min(PHASES, slots - first)):
            out[row, first + i, 0] = complex(radius[columns[i]], angle[columns[i]])
    return 0

"""Compiled loops: base hypervectors from Philox keys, in one pass.

A few slots at a time are in a buffer, so that every vector instruction processes the same entry of several slots, and
stay in the first-level cache from the uniform numbers to the result. The loop along slots is always the innermost one,
so one compiled loop serves every m. All arithmetic is in double precision. Cosines and sines are implemented here,
since those of the C library process one number at a time.

:func:`ghrr.unitary.sampling.haar_from_uniform` explains the method. Coverage tools cannot trace compiled code, hence
the ``no cover`` marks; ``tests/unitary`` compares the results with that function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu import philox
from ghrr.ops.cpu.compilation import compiled, inlined
from ghrr.ops.cpu.lanes import SLOTS
from ghrr.ops.cpu.philox import Doubles, Words


def _fitted(taylor: list[float], largest: float, terms: int) -> tuple[float, ...]:
    """Shorten a Taylor series by the last terms of its Chebyshev series on [0, largest], which are below rounding."""
    series = np.polynomial.Polynomial(taylor).convert(kind=np.polynomial.Chebyshev, domain=[0, largest])
    return tuple(float(c) for c in series.truncate(terms).convert(kind=np.polynomial.Polynomial).coef)


# sin(2πx) / x and cos(2πx) in x², for x up to an eighth.
_SIN = _fitted([(-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(10)], 1 / 64, 7)
_COS = _fitted([(-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(10)], 1 / 64, 7)


@compiled
def cos_sin(turns: Doubles, cos: Doubles, sin: Doubles) -> None:  # pragma: no cover
    """Compute the cosine and sine of angles in turns (360°).

    Subtracting quarter turns is exact, which it would not be in radians.
    """
    for i in range(turns.shape[0]):
        quarters = np.rint(4.0 * turns[i])
        x = turns[i] - 0.25 * quarters
        s, c = _SIN[-1], _COS[-1]
        for n in range(len(_SIN) - 2, -1, -1):
            s = s * (x * x) + _SIN[n]
            c = c * (x * x) + _COS[n]
        s *= x
        quarter = np.int64(quarters)
        first = s if quarter & 1 else c
        second = c if quarter & 1 else s
        cos[i] = -first if (quarter + 1) & 2 else first
        sin[i] = -second if quarter & 2 else second


@compiled
def to_roots(turns: Doubles, roots: int) -> None:  # pragma: no cover
    """Round uniform numbers down to multiples of 1 / roots, in place."""
    for i in range(turns.shape[0]):
        turns[i] = math.floor(turns[i] * roots) / roots


@inlined
def _lengths(k: int, u: Doubles, r: Doubles) -> None:  # pragma: no cover
    """Write the square roots of the gaps between 0, the first k - 1 rows of u in order, and 1. Sorts u."""
    for n in range(1, k - 1):
        for j in range(n, 0, -1):
            for i in range(SLOTS):
                one, other = u[j - 1, i], u[j, i]
                u[j - 1, i] = one if one < other else other
                u[j, i] = other if one < other else one
    if k == 1:
        r[0] = 1.0
    else:
        for i in range(SLOTS):
            r[0, i] = math.sqrt(u[0, i])
            r[k - 1, i] = math.sqrt(1.0 - u[k - 2, i])
    for j in range(1, k - 1):
        for i in range(SLOTS):
            r[j, i] = math.sqrt(u[j, i] - u[j - 1, i])


@inlined
def _extend(k: int, u: Doubles, r: Doubles, cos: Doubles, sin: Doubles, p: Doubles, x: Doubles) -> None:  # noqa: PLR0917 # pragma: no cover
    """Extend the unitary matrices in the first k - 1 rows and columns of x by a row and a column.

    ``u`` has the 2k - 1 uniform numbers of this step. All other arrays are overwritten.
    """
    last = k - 1
    _lengths(k, u, r)
    for j in range(k):
        cos_sin(u[last + j], cos[j], sin[j])
    for i in range(SLOTS):
        p[2, i] = 1.0 / (1.0 + r[last, i])
    for row in range(last):
        for i in range(SLOTS):
            p[0, i] = p[1, i] = 0.0
        for j in range(last):
            for i in range(SLOTS):
                p[0, i] += x[row, j, 0, i] * r[j, i]
                p[1, i] += x[row, j, 1, i] * r[j, i]
        for i in range(SLOTS):
            x[row, last, 0, i] = p[0, i] * cos[last, i] - p[1, i] * sin[last, i]
            x[row, last, 1, i] = p[0, i] * sin[last, i] + p[1, i] * cos[last, i]
            p[0, i] *= p[2, i]
            p[1, i] *= p[2, i]
        for j in range(last):
            for i in range(SLOTS):
                a = p[0, i] * r[j, i] - x[row, j, 0, i]
                b = p[1, i] * r[j, i] - x[row, j, 1, i]
                x[row, j, 0, i] = a * cos[j, i] - b * sin[j, i]
                x[row, j, 1, i] = a * sin[j, i] + b * cos[j, i]
    for j in range(k):
        for i in range(SLOTS):
            x[last, j, 0, i] = r[j, i] * cos[j, i]
            x[last, j, 1, i] = r[j, i] * sin[j, i]


@compiled
def base_slots(  # noqa: PLR0917
    m: int, start: int, stop: int, slots: int, rotation_keys: Words, phase_keys: Words, roots: int, out: NDArray[Any]
) -> None:  # pragma: no cover
    """Fill chunks of ``SLOTS`` slots from start to stop, counted through the rows of ``out``.

    Keys are ``(rows, 2)`` and ``out`` is ``(rows, slots, m * m)``, complex. Without rotation keys, for m = 1, the
    rotation is 1. Without phase keys there are no phases; with ``roots`` phases are roots of unity.
    """
    u, turns, x = np.empty((m * m, SLOTS)), np.empty((m, SLOTS)), np.empty((m, m, 2, SLOTS))
    r, cos, sin, p = np.empty((m, SLOTS)), np.empty((m, SLOTS)), np.empty((m, SLOTS)), np.empty((3, SLOTS))
    chunks = (slots + SLOTS - 1) // SLOTS
    for chunk in range(start, stop):
        row, first = chunk // chunks, chunk % chunks * SLOTS
        if len(rotation_keys):
            philox.fill(rotation_keys[row], first, u)
        else:
            u[:] = 0.0
        if len(phase_keys):
            philox.fill(phase_keys[row], first, turns)
            for n in range(m):
                if roots:
                    to_roots(turns[n], roots)
                for i in range(SLOTS):
                    u[m * m - m + n, i] += turns[n, i]
        for k in range(1, m + 1):
            _extend(k, u[(k - 1) ** 2 : k**2], r, cos, sin, p, x)
        count = min(SLOTS, slots - first)
        for j in range(m):
            for k in range(m):
                for i in range(count):
                    column = i % 8 * (SLOTS // 8) + i // 8  # see philox.fill
                    out[row, first + i, j * m + k] = complex(x[j, k, 0, column], x[j, k, 1, column])

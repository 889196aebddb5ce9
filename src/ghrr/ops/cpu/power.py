r"""Loops that numba compiles for the CPU: real powers of unitary slots.

Importing this module imports numba. :func:`eigen` diagonalises each slot by rotations in planes, which need no gap
between eigenvalues: each rotation makes the 2 x 2 block of its plane as diagonal as it can, and what is left off the
diagonal shrinks quadratically. :func:`combine` puts powers together, :math:`V \mathrm{diag}(e^{ix\theta_k})
V^\dagger`. Angles are in turns, of which whole numbers can be dropped exactly. Both are compiled once, not for each m.

Coverage cannot see into compiled code, hence the marks; ``tests/ops/test_power.py`` compares with the specification.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu.lanes import SLOTS, Doubles, compiled, inlined, load, store

Places = NDArray[np.int64]

# Taylor's series, ended where the next term is below the last digit: of sin(2πx) / x and cos(2πx) in x² for x up to an
# eighth, and of atan(x) / (2πx) in x² for x up to tan(π/16).
_SIN = tuple((-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(9))
_ATAN = tuple((-1) ** n / ((2 * n + 1) * 2 * math.pi) for n in range(12))
_FIRST, _SECOND = math.tan(math.pi / 16), math.tan(3 * math.pi / 16)
_TAN = math.tan(math.pi / 8)
_SWEEPS = 20  # through all planes, at most; quadratic convergence needs five or so
_NOTHING = 1e-31  # the square of what rounding leaves


@inlined
def _turns(y: float, x: float) -> float:  # pragma: no cover
    """The angle of the point (x, y), in turns: that of the nearest of 16 directions, and what is left by its series."""
    large, small = abs(x), abs(y)
    swapped = small > large
    large, small = (small, large) if swapped else (large, small)
    tangent = 0.0 if small <= _FIRST * large else _TAN if small <= _SECOND * large else 1.0
    angle = 0.0 if small <= _FIRST * large else 0.0625 if small <= _SECOND * large else 0.125
    left = (small - tangent * large) / (large + tangent * small)
    series = _ATAN[11]
    for n in range(10, -1, -1):
        series = series * (left * left) + _ATAN[n]
    angle += left * series
    angle = 0.25 - angle if swapped else angle
    angle = 0.5 - angle if x < 0.0 else angle
    signed: float = -angle if y < 0.0 else angle
    return signed


@inlined
def _plane(x: Doubles, p: int, q: int, rotation: Doubles) -> None:  # pragma: no cover
    r"""The rotation, c and the two parts of s, that diagonalises the block of rows and columns p and q best.

    With :math:`h = (x_{pp} - x_{qq},\, x_{pq} + x_{qp},\, i (x_{qp} - x_{pq}))` it takes the real vector v that
    captures most of h: the real part of :math:`e^{-i\varphi} h`, where :math:`2\varphi` is the angle of
    :math:`h_1^2 + h_2^2 + h_3^2`.
    """
    for i in range(SLOTS):
        a, b = x[p, p, 0, i] - x[q, q, 0, i], x[p, p, 1, i] - x[q, q, 1, i]
        c, d = x[p, q, 0, i] + x[q, p, 0, i], x[p, q, 1, i] + x[q, p, 1, i]
        e, f = x[p, q, 1, i] - x[q, p, 1, i], x[q, p, 0, i] - x[p, q, 0, i]
        real, imag = a * a - b * b + c * c - d * d + e * e - f * f, 2.0 * (a * b + c * d + e * f)
        size = math.sqrt(real * real + imag * imag)
        # Half of the angle, from that half whose cosine or sine is not small.
        larger = math.sqrt(0.5 * (size + abs(real)))
        smaller = 0.5 * imag / larger if larger > 0.0 else 0.0
        cos, sin = (larger, smaller) if real >= 0.0 else (abs(smaller), larger if imag >= 0.0 else -larger)
        cos = cos if size > 0.0 else 1.0
        first, second, third = cos * a + sin * b, cos * c + sin * d, cos * e + sin * f
        length = math.sqrt(first * first + second * second + third * third)
        squares = a * a + b * b + c * c + d * d + e * e + f * f
        inverse = 1.0 / length if squares > _NOTHING else 0.0
        inverse = -inverse if first < 0.0 else inverse
        cos = math.sqrt(0.5 + 0.5 * first * inverse) if squares > _NOTHING else 1.0
        rotation[0, i] = cos
        rotation[1, i] = 0.5 * second * inverse / cos
        rotation[2, i] = -0.5 * third * inverse / cos


@inlined
def _rotate_columns(m: int, x: Doubles, p: int, q: int, rotation: Doubles) -> None:  # pragma: no cover
    """Columns p and q become c p + s q and c q - conj(s) p."""
    for n in range(m):
        first, second = x[n, p], x[n, q]
        for i in range(SLOTS):
            c, s, t = rotation[0, i], rotation[1, i], rotation[2, i]
            a, b, d, e = first[0, i], first[1, i], second[0, i], second[1, i]
            first[0, i] = c * a + s * d - t * e
            first[1, i] = c * b + s * e + t * d
            second[0, i] = c * d - s * a - t * b
            second[1, i] = c * e - s * b + t * a


@inlined
def _rotate_rows(m: int, x: Doubles, p: int, q: int, rotation: Doubles) -> None:  # pragma: no cover
    """Rows p and q become c p + conj(s) q and c q - s p."""
    for n in range(m):
        first, second = x[p, n], x[q, n]
        for i in range(SLOTS):
            c, s, t = rotation[0, i], rotation[1, i], rotation[2, i]
            a, b, d, e = first[0, i], first[1, i], second[0, i], second[1, i]
            first[0, i] = c * a + s * d + t * e
            first[1, i] = c * b + s * e - t * d
            second[0, i] = c * d - s * a + t * b
            second[1, i] = c * e - s * b - t * a


@inlined
def _off_diagonal(m: int, x: Doubles) -> float:  # pragma: no cover
    """The largest square of an entry that is not on the diagonal, of all slots."""
    largest = 0.0
    for j in range(m):
        for k in range(m):
            for i in range(SLOTS):
                square = x[j, k, 0, i] * x[j, k, 0, i] + x[j, k, 1, i] * x[j, k, 1, i]
                largest = square if j != k and square > largest else largest
    return largest


@inlined
def _multiply(m: int, x: Doubles, y: Doubles, sign: float, out: Doubles) -> None:  # pragma: no cover
    """X Y, or with a sign of -1 X Y^H, where y holds Y with rows and columns swapped."""
    for j in range(m):
        for k in range(m):
            for i in range(SLOTS):
                out[j, k, 0, i], out[j, k, 1, i] = 0.0, 0.0
            for n in range(m):
                a, b = (n, k) if sign > 0 else (k, n)
                for i in range(SLOTS):
                    real, imag = y[a, b, 0, i], sign * y[a, b, 1, i]
                    out[j, k, 0, i] += x[j, n, 0, i] * real - x[j, n, 1, i] * imag
                    out[j, k, 1, i] += x[j, n, 0, i] * imag + x[j, n, 1, i] * real


@inlined
def _polish(m: int, x: Doubles, g: Doubles, y: Doubles) -> None:  # pragma: no cover
    """One step of Newton and Schulz, (3 - X X^H) X / 2, for which g holds X X^H; g and y are overwritten."""
    for j in range(m):
        for k in range(m):
            one = 1.5 if j == k else 0.0
            for i in range(SLOTS):
                g[j, k, 0, i] = one - 0.5 * g[j, k, 0, i]
                g[j, k, 1, i] *= -0.5
    _multiply(m, g, x, 1.0, y)
    for j in range(m):
        for k in range(m):
            for i in range(SLOTS):
                x[j, k, 0, i], x[j, k, 1, i] = y[j, k, 0, i], y[j, k, 1, i]


@inlined
def _count_wrong(m: int, g: Doubles, tolerance: float) -> int:  # pragma: no cover
    """The number of entries that differ from those of the identity by more than the tolerance."""
    wrong = 0
    for j in range(m):
        for k in range(m):
            one = 1.0 if j == k else 0.0
            for i in range(SLOTS):
                error = (g[j, k, 0, i] - one) * (g[j, k, 0, i] - one) + g[j, k, 1, i] * g[j, k, 1, i]
                wrong += 0 if error <= tolerance * tolerance else 1  # also for NaN
    return wrong


@inlined
def _diagonalize(m: int, x: Doubles, v: Doubles, rotation: Doubles) -> bool:  # pragma: no cover
    """Rotate X to V^H X V, which is diagonal; false if that fails."""
    for j in range(m):
        for k in range(m):
            one = 1.0 if j == k else 0.0
            for i in range(SLOTS):
                v[j, k, 0, i], v[j, k, 1, i] = one, 0.0
    for _ in range(_SWEEPS):
        if _off_diagonal(m, x) <= 4 * m * m * _NOTHING:
            return True
        for p in range(m - 1):
            for q in range(p + 1, m):
                _plane(x, p, q, rotation)
                _rotate_columns(m, x, p, q, rotation)
                _rotate_rows(m, x, p, q, rotation)
                _rotate_columns(m, v, p, q, rotation)
    return False


@compiled
def eigen(  # noqa: PLR0917
    m: int, start: int, stop: int, source: Doubles, tolerance: float, turns: Doubles, vectors: Doubles
) -> int:  # pragma: no cover
    """Eigenphases ``(slots, m)`` and eigenvectors ``(slots, 2 m m)`` of the unitary matrices nearest to ``source``.

    Gives 0 if all slots are unitary within the tolerance and all was found, and stops where one is not.
    """
    x, v, g = np.empty((m, m, 2, SLOTS)), np.empty((m, m, 2, SLOTS)), np.empty((m, m, 2, SLOTS))
    rotation = np.empty((3, SLOTS))
    for first in range(start, stop, SLOTS):
        count = min(SLOTS, stop - first)
        load(m, first, count, source, x)
        for step in range(2):
            _multiply(m, x, x, -1.0, g)
            if step == 0 and _count_wrong(m, g, tolerance):
                return 1
            _polish(m, x, g, v)
        if not _diagonalize(m, x, v, rotation):
            return 1
        for k in range(m):
            for i in range(SLOTS):
                rotation[0, i] = _turns(x[k, k, 1, i], x[k, k, 0, i])
            for i in range(count):
                turns[first + i, k] = rotation[0, i]
        store(m, first, count, v, vectors)
    return 0


@inlined
def _cos_sin(cos: Doubles, sin: Doubles) -> None:  # pragma: no cover
    """Cosines and sines of angles in turns, up to half a turn, which ``cos`` holds before."""
    for i in range(SLOTS):
        angle = cos[i]
        quarters = np.rint(4.0 * angle)
        angle -= 0.25 * quarters
        s, c = _SIN[8], _COS[8]
        for n in range(7, -1, -1):
            s = s * (angle * angle) + _SIN[n]
            c = c * (angle * angle) + _COS[n]
        s *= angle
        quarter = np.int64(quarters)
        a = s if quarter & 1 else c
        b = c if quarter & 1 else s
        cos[i] = -a if (quarter + 1) & 2 else a
        sin[i] = -b if quarter & 2 else b


@compiled
def combine(  # noqa: PLR0917
    m: int,
    start: int,
    stop: int,
    dim: int,
    places: Places,
    exponents: Doubles,
    turns: Doubles,
    vectors: Doubles,
    out: NDArray[Any],
) -> None:  # pragma: no cover
    """Fill the hypervectors from start to stop, each with ``dim`` slots: which one, and to which power."""
    v, w, x = np.empty((m, m, 2, SLOTS)), np.empty((m, m, 2, SLOTS)), np.empty((m, m, 2, SLOTS))
    cos, sin = np.empty(SLOTS), np.empty(SLOTS)
    for row in range(start, stop):
        slot, exponent = places[row] * dim, exponents[row]
        for first in range(0, dim, SLOTS):
            count = min(SLOTS, dim - first)
            load(m, slot + first, count, vectors, v)
            for k in range(m):
                for i in range(SLOTS):
                    angle = exponent * turns[slot + first + min(i, count - 1), k]
                    cos[i] = angle - np.rint(angle)
                _cos_sin(cos, sin)
                for j in range(m):
                    for i in range(SLOTS):
                        w[j, k, 0, i] = v[j, k, 0, i] * cos[i] - v[j, k, 1, i] * sin[i]
                        w[j, k, 1, i] = v[j, k, 0, i] * sin[i] + v[j, k, 1, i] * cos[i]
            _multiply(m, w, v, -1.0, x)
            store(m, row * dim + first, count, x, out)

r"""Compiled loops: real powers of unitary slots.

Each slot is diagonalised by Jacobi rotations, which need no gap between eigenvalues: each rotation makes the 2 x 2
block of its plane as diagonal as possible, and the off-diagonal entries shrink quadratically. The powers are
:math:`V \mathrm{diag}(e^{ix\theta_k}) V^\dagger`. Angles are in turns (360°), so whole turns can be subtracted exactly.

All arithmetic is in double precision. A remaining error e of the slot changes the power by up to |x| e, so results in
single precision need fewer steps for small exponents than for large ones.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops/test_power.py`` compares with the
reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu.lanes import SLOTS, Doubles, compiled, gram, inlined, load, polish, store

Indices = NDArray[np.int64]

# Taylor series, truncated where the next term is below rounding: of sin(2πx) / x and cos(2πx) in x² for x up to an
# eighth, and of atan(x) / (2πx) in x² for x up to tan(π/16).
_SIN = tuple((-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(9))
_ATAN = tuple((-1) ** n / ((2 * n + 1) * 2 * math.pi) for n in range(12))
_FIRST, _SECOND = math.tan(math.pi / 16), math.tan(3 * math.pi / 16)
_TAN = math.tan(math.pi / 8)
_SWEEPS = 20  # limit; a sweep rotates all planes, and quadratic convergence needs about five
_NOTHING = 1e-31  # the square of a rounding error
# The square of an error of 1/60 of rounding in single precision.
_NOTHING_SINGLE = 1e-18


@inlined
def _turns(y: float, x: float) -> float:  # pragma: no cover
    """Compute the angle of (x, y) in turns: that of the nearest of 16 directions, plus a series for the rest."""
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
    r"""Find the rotation, c and the two parts of s, that best diagonalises the block of rows and columns p and q.

    With :math:`h = (x_{pp} - x_{qq},\, x_{pq} + x_{qp},\, i (x_{qp} - x_{pq}))` it takes the real vector v that
    captures most of h: the real part of :math:`e^{-i\varphi} h`, where :math:`2\varphi` is the angle of
    :math:`h_1^2 + h_2^2 + h_3^2`.
    """
    for i in range(x.shape[-1]):
        a, b = x[p, p, 0, i] - x[q, q, 0, i], x[p, p, 1, i] - x[q, q, 1, i]
        c, d = x[p, q, 0, i] + x[q, p, 0, i], x[p, q, 1, i] + x[q, p, 1, i]
        e, f = x[p, q, 1, i] - x[q, p, 1, i], x[q, p, 0, i] - x[p, q, 0, i]
        real, imag = a * a - b * b + c * c - d * d + e * e - f * f, 2.0 * (a * b + c * d + e * f)
        size = math.sqrt(real * real + imag * imag)
        # Half of the angle, computed from the larger of cosine and sine.
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
    """Replace columns p and q by c p + s q and c q - conj(s) p."""
    for n in range(m):
        first, second = x[n, p], x[n, q]
        for i in range(x.shape[-1]):
            c, s, t = rotation[0, i], rotation[1, i], rotation[2, i]
            a, b, d, e = first[0, i], first[1, i], second[0, i], second[1, i]
            first[0, i] = c * a + s * d - t * e
            first[1, i] = c * b + s * e + t * d
            second[0, i] = c * d - s * a - t * b
            second[1, i] = c * e - s * b + t * a


@inlined
def _rotate_rows(m: int, x: Doubles, p: int, q: int, rotation: Doubles) -> None:  # pragma: no cover
    """Replace rows p and q by c p + conj(s) q and c q - s p."""
    for n in range(m):
        first, second = x[p, n], x[q, n]
        for i in range(x.shape[-1]):
            c, s, t = rotation[0, i], rotation[1, i], rotation[2, i]
            a, b, d, e = first[0, i], first[1, i], second[0, i], second[1, i]
            first[0, i] = c * a + s * d + t * e
            first[1, i] = c * b + s * e - t * d
            second[0, i] = c * d - s * a + t * b
            second[1, i] = c * e - s * b - t * a


@inlined
def _off_diagonal(m: int, x: Doubles, limit: float) -> int:  # pragma: no cover
    """Count off-diagonal entries whose square exceeds the limit."""
    count = 0
    for j in range(m):
        for k in range(m):
            if j != k:
                for i in range(x.shape[-1]):
                    square = x[j, k, 0, i] * x[j, k, 0, i] + x[j, k, 1, i] * x[j, k, 1, i]
                    count += 0 if square <= limit else 1
    return count


@inlined
def _off_identity(m: int, g: Doubles, limit: float) -> int:  # pragma: no cover
    """Count entries that differ from the identity by more than the limit."""
    count = 0
    for j in range(m):
        for k in range(m):
            one = 1.0 if j == k else 0.0
            for i in range(g.shape[-1]):
                square = (g[j, k, 0, i] - one) * (g[j, k, 0, i] - one) + g[j, k, 1, i] * g[j, k, 1, i]
                count += 0 if square <= limit * limit else 1  # also for NaN
    return count


@inlined
def _diagonalize(m: int, x: Doubles, v: Doubles, rotation: Doubles, nothing: float) -> bool:  # pragma: no cover
    """Rotate X to the diagonal V^H X V. Returns whether that succeeded."""
    for j in range(m):
        for k in range(m):
            one = 1.0 if j == k else 0.0
            for i in range(x.shape[-1]):
                v[j, k, 0, i], v[j, k, 1, i] = one, 0.0
    for _ in range(_SWEEPS):
        if _off_diagonal(m, x, nothing) == 0:
            return True
        for p in range(m - 1):
            for q in range(p + 1, m):
                _plane(x, p, q, rotation)
                _rotate_columns(m, x, p, q, rotation)
                _rotate_rows(m, x, p, q, rotation)
                _rotate_columns(m, v, p, q, rotation)
    return False


@inlined
def _cos_sin(cos: Doubles, sin: Doubles) -> None:  # pragma: no cover
    """Compute cosines and sines of angles up to half a turn; ``cos`` holds the angles, in turns."""
    for i in range(cos.shape[0]):
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


@inlined
def _combine(  # noqa: PLR0917
    m: int, exponent: float, turns: Doubles, v: Doubles, w: Doubles, x: Doubles, cos: Doubles, sin: Doubles
) -> None:  # pragma: no cover
    """Replace X by V diag(e^{2πi · exponent · turns}) V^H; w, cos and sin are overwritten."""
    for k in range(m):
        for i in range(x.shape[-1]):
            angle = exponent * turns[k, i]
            cos[i] = angle - np.rint(angle)
        _cos_sin(cos, sin)
        for j in range(m):
            for i in range(x.shape[-1]):
                w[j, k, 0, i] = v[j, k, 0, i] * cos[i] - v[j, k, 1, i] * sin[i]
                w[j, k, 1, i] = v[j, k, 0, i] * sin[i] + v[j, k, 1, i] * cos[i]
    for j in range(m):
        for k in range(m):
            for i in range(x.shape[-1]):
                real = imag = 0.0
                for n in range(m):
                    real += w[j, n, 0, i] * v[k, n, 0, i]
                    real += w[j, n, 1, i] * v[k, n, 1, i]
                    imag += w[j, n, 1, i] * v[k, n, 0, i]
                    imag -= w[j, n, 0, i] * v[k, n, 1, i]
                x[j, k, 0, i], x[j, k, 1, i] = real, imag


@functools.cache
def power_kernel(m: int) -> Callable[..., int]:
    """Return the loop for one m, a compile-time constant so that sums are unrolled."""

    @compiled
    def power(  # noqa: PLR0917
        start: int,
        stop: int,
        dim: int,
        source: NDArray[Any],
        tolerance: float,
        exponents: Doubles,
        targets: Indices,
        offsets: Indices,
        out: NDArray[Any],
    ) -> int:  # pragma: no cover
        """Raise chunks of ``SLOTS`` slots, from start to stop, counted through the hypervectors of ``source``.

        Hypervector r of ``source``, ``dim`` slots of reals ``(slots, 2 m m)``, is raised to ``exponents[n]``, which
        fills hypervector ``targets[n]`` of ``out``, for each n from ``offsets[r]`` to ``offsets[r + 1]``. Returns 0 on
        success, and stops at a slot that is not unitary within the tolerance or cannot be diagonalised.
        """
        x, v = np.empty((m, m, 2, SLOTS)), np.empty((m, m, 2, SLOTS))
        g = np.empty((m, m, 2, SLOTS))
        rotation, turns = np.empty((3, SLOTS)), np.empty((m, SLOTS))
        chunks = (dim + SLOTS - 1) // SLOTS
        for chunk in range(start, stop):
            row, first = chunk // chunks, chunk % chunks * SLOTS
            count = min(SLOTS, dim - first)
            largest = 1.0
            for n in range(offsets[row], offsets[row + 1]):
                largest = max(largest, abs(exponents[n]))
            single = _NOTHING_SINGLE / (largest * largest) if out.itemsize == 4 else 0.0
            nothing = max(single, 4 * m * m * _NOTHING)
            load(m, row * dim + first, count, source, x)
            gram(m, x, g)
            if _off_identity(m, g, tolerance):
                return 1
            once = _off_identity(m, g, math.sqrt(math.sqrt(nothing) / m)) == 0  # each step squares the error
            for _ in range(1 if once else 2):
                polish(m, x, g, v)
            if not _diagonalize(m, x, v, rotation, nothing):
                return 1
            for k in range(m):
                for i in range(SLOTS):
                    turns[k, i] = _turns(x[k, k, 1, i], x[k, k, 0, i])
            for n in range(offsets[row], offsets[row + 1]):
                _combine(m, exponents[n], turns, v, g, x, rotation[0], rotation[1])
                store(m, targets[n] * dim + first, count, x, out)
        return 0

    return power

r"""Compiled loops: real powers of unitary slots.

Each slot is diagonalised by Jacobi rotations, which need no gap between eigenvalues: each rotation makes the 2 x 2
block of its plane as diagonal as possible, and the off-diagonal entries shrink quadratically. The powers are
:math:`V \mathrm{diag}(e^{ix\theta_k}) V^\dagger`. Angles are in turns (360°), so whole turns can be subtracted exactly.

The same loop exists in single and in double precision. An error e of the slot changes the power by up to |x| e, and by
more near the branch cut at -1, where two eigenvalues may be close and their powers are not. Single precision is
therefore for small exponents, and leaves slots with eigenvalues near the branch cut to double precision.

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

from ghrr.ops.cpu.compilation import compiled, inlined
from ghrr.ops.cpu.lanes import SLOTS, Lanes, gram, load, polish, store

Indices = NDArray[np.int64]

# Largest exponent for single precision.
SMALL = 2.0

# Taylor series, truncated where the next term is below rounding: of sin(2πx) / x and cos(2πx) in x² for x up to an
# eighth, and of atan(x) / (2πx) in x² for x up to tan(π/16). Single precision needs fewer terms.
_SIN = tuple((-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(9))
_ATAN = tuple((-1) ** n / ((2 * n + 1) * 2 * math.pi) for n in range(12))
_TERMS_SINGLE = 6
_FIRST, _SECOND = math.tan(math.pi / 16), math.tan(3 * math.pi / 16)
_TAN = math.tan(math.pi / 8)
_SWEEPS = 20  # limit; a sweep rotates all planes, and quadratic convergence needs about five
# Squares of differences that count as zero: those of rounding errors in double precision, of a few in single precision,
# where the sixth power must not underflow.
_ZERO_SQUARE_SINGLE, _ZERO_SQUARE_DOUBLE = 1e-12, 1e-31
# For results in single precision, the square of an error of 1/60 of rounding.
_ZERO_SQUARE_ROUNDED = 1e-18
# Single precision: largest entry of |X^H X - 1| that needs no polishing.
_CLEAN = 4 * 2.0**-23
# Single precision, in turns: smallest distance of an eigenvalue from -1, and smallest distance, times m, between two
# eigenvalues on both sides of -1. Eigenvalues of random slots repel each other, so that few are closer.
_NEAR_CUT, _GAP_AT_CUT = 1e-6, 0.1


@inlined
def _angles_in_turns(x: Lanes, y: Lanes, turns: Lanes) -> None:  # pragma: no cover
    """Compute the angles of (x, y) in turns: that of the nearest of 16 directions, plus a series for the rest."""
    real = x.dtype.type
    zero, quarter, half = real(0.0), real(0.25), real(0.5)
    terms = _TERMS_SINGLE if x.itemsize == 4 else 12
    for i in range(x.shape[0]):
        large, small = abs(x[i]), abs(y[i])
        swapped = small > large
        large, small = (small, large) if swapped else (large, small)
        first, second = small <= real(_FIRST) * large, small <= real(_SECOND) * large
        tangent = zero if first else real(_TAN) if second else real(1.0)
        angle = zero if first else real(0.0625) if second else real(0.125)
        left = (small - tangent * large) / (large + tangent * small)
        series = real(_ATAN[terms - 1])
        for n in range(terms - 2, -1, -1):
            series = series * (left * left) + real(_ATAN[n])
        angle += left * series
        angle = quarter - angle if swapped else angle
        angle = half - angle if x[i] < zero else angle
        turns[i] = -angle if y[i] < zero else angle


@inlined
def _find_rotation(x: Lanes, p: int, q: int, rotation: Lanes, zero_square: float) -> None:  # pragma: no cover
    r"""Find the rotation, c and the two parts of s, that best diagonalises the block of rows and columns p and q.

    With :math:`h = (x_{pp} - x_{qq},\, x_{pq} + x_{qp},\, i (x_{qp} - x_{pq}))` it takes the real vector v that
    captures most of h: the real part of :math:`e^{-i\varphi} h`, where :math:`2\varphi` is the angle of
    :math:`h_1^2 + h_2^2 + h_3^2`. Only the direction of v is needed.
    """
    real = x.dtype.type
    zero, one, two = real(0.0), real(1.0), real(2.0)
    for i in range(x.shape[-1]):
        a, b = x[p, p, 0, i] - x[q, q, 0, i], x[p, p, 1, i] - x[q, q, 1, i]
        c, d = x[p, q, 0, i] + x[q, p, 0, i], x[p, q, 1, i] + x[q, p, 1, i]
        e, f = x[p, q, 1, i] - x[q, p, 1, i], x[q, p, 0, i] - x[p, q, 0, i]
        squares, imag_squares = a * a + c * c + e * e, b * b + d * d + f * f
        re, im = squares - imag_squares, two * (a * b + c * d + e * f)
        size = math.sqrt(re * re + im * im)
        # A vector in the direction of half of the angle, computed without cancellation.
        larger = size + abs(re)
        cos, sin = (larger, im) if re >= zero else (abs(im), larger if im >= zero else -larger)
        cos = cos if size > zero else one
        first, second, third = cos * a + sin * b, cos * c + sin * d, cos * e + sin * f
        length = math.sqrt(first * first + second * second + third * third)
        # The rotation by half of the angle between v and the first axis or its opposite.
        longer = length + abs(first)
        found = squares + imag_squares > real(zero_square)
        inverse = one / math.sqrt(two * length * longer) if found else zero
        rotation[0, i] = longer * inverse if found else one
        inverse = -inverse if first < zero else inverse
        rotation[1, i] = second * inverse
        rotation[2, i] = -third * inverse


@inlined
def _rotate_columns(m: int, x: Lanes, p: int, q: int, rotation: Lanes) -> None:  # pragma: no cover
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
def _rotate_rows(m: int, x: Lanes, p: int, q: int, rotation: Lanes) -> None:  # pragma: no cover
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
def _off_diagonal(m: int, x: Lanes, limit: float) -> int:  # pragma: no cover
    """Count slots whose off-diagonal entries have a sum of squares above the limit."""
    count, most = 0, x.dtype.type(limit)
    for i in range(x.shape[-1]):
        total = x.dtype.type(0)
        for j in range(m):
            for k in range(m):
                if j != k:
                    total += x[j, k, 0, i] * x[j, k, 0, i]
                    total += x[j, k, 1, i] * x[j, k, 1, i]
        count += 0 if total <= most else 1
    return count


@inlined
def _off_identity(m: int, g: Lanes, small: float, large: float) -> tuple[int, int]:  # pragma: no cover
    """Count entries that differ from the identity by more than a small and by more than a large limit."""
    above, far_above = 0, 0
    first, second = g.dtype.type(small * small), g.dtype.type(large * large)
    for j in range(m):
        for k in range(m):
            one = g.dtype.type(1.0 if j == k else 0.0)
            for i in range(g.shape[-1]):
                square = (g[j, k, 0, i] - one) * (g[j, k, 0, i] - one) + g[j, k, 1, i] * g[j, k, 1, i]
                above += 0 if square <= first else 1  # also for NaN
                far_above += 0 if square <= second else 1
    return above, far_above


@inlined
def _fill_identity(m: int, v: Lanes) -> None:  # pragma: no cover
    for j in range(m):
        for k in range(m):
            one = v.dtype.type(1.0 if j == k else 0.0)
            for i in range(v.shape[-1]):
                v[j, k, 0, i], v[j, k, 1, i] = one, v.dtype.type(0)


@inlined
def _is_near_cut(m: int, turns: Lanes) -> bool:  # pragma: no cover
    """Return whether an eigenvalue is so close to -1, or two so close to each other there, that errors grow."""
    near = 0
    for i in range(turns.shape[-1]):
        low = high = turns[0, i]
        for k in range(1, m):
            low, high = min(low, turns[k, i]), max(high, turns[k, i])
        distance = min(0.5 - high, 0.5 + low)
        near += distance < _NEAR_CUT or (m * (1.0 - high + low) < _GAP_AT_CUT)
    return near > 0


@inlined
def _cos_sin(cos: Lanes, sin: Lanes) -> None:  # pragma: no cover
    """Compute cosines and sines of angles up to half a turn; ``cos`` holds the angles, in turns.

    Not :func:`ghrr.ops.cpu.sampling.cos_sin`: this function is inlined, and computes in the precision of its buffer.
    """
    real = cos.dtype.type
    terms = _TERMS_SINGLE if cos.itemsize == 4 else 9
    for i in range(cos.shape[0]):
        angle = cos[i]
        quarters = np.rint(real(4.0) * angle)
        angle -= real(0.25) * quarters
        s, c = real(_SIN[terms - 1]), real(_COS[terms - 1])
        for n in range(terms - 2, -1, -1):
            s = s * (angle * angle) + real(_SIN[n])
            c = c * (angle * angle) + real(_COS[n])
        s *= angle
        quarter = np.int32(quarters)
        a = s if quarter & 1 else c
        b = c if quarter & 1 else s
        cos[i] = -a if (quarter + 1) & 2 else a
        sin[i] = -b if quarter & 2 else b


@inlined
def _combine(  # noqa: PLR0917
    m: int, exponent: float, turns: Lanes, v: Lanes, w: Lanes, x: Lanes, cos: Lanes, sin: Lanes
) -> None:  # pragma: no cover
    """Replace X by V diag(e^{2πi · exponent · turns}) V^H; w, cos and sin are overwritten."""
    factor = x.dtype.type(exponent)
    for k in range(m):
        for i in range(x.shape[-1]):
            angle = factor * turns[k, i]
            cos[i] = angle - np.rint(angle)
        _cos_sin(cos, sin)
        for j in range(m):
            for i in range(x.shape[-1]):
                w[j, k, 0, i] = v[j, k, 0, i] * cos[i] - v[j, k, 1, i] * sin[i]
                w[j, k, 1, i] = v[j, k, 0, i] * sin[i] + v[j, k, 1, i] * cos[i]
    for j in range(m):
        for k in range(m):
            for i in range(x.shape[-1]):
                real = imag = x.dtype.type(0)
                for n in range(m):
                    real += w[j, n, 0, i] * v[k, n, 0, i]
                    real += w[j, n, 1, i] * v[k, n, 1, i]
                    imag += w[j, n, 1, i] * v[k, n, 0, i]
                    imag -= w[j, n, 0, i] * v[k, n, 1, i]
                x[j, k, 0, i], x[j, k, 1, i] = real, imag


@functools.cache
def power_kernel(m: int, bits: int) -> Callable[..., None]:
    """Return the loop for one m, a compile-time constant so that sums are unrolled, and 32 or 64 bits of precision."""
    single = bits == 32
    precision = np.float32 if single else np.float64

    @compiled
    def power(  # noqa: PLR0912, PLR0917
        start: int,
        stop: int,
        chunks: Indices,
        dim: int,
        source: NDArray[Any],
        tolerance: float,
        exponents: NDArray[np.float64],
        targets: Indices,
        offsets: Indices,
        out: NDArray[Any],
        done: NDArray[np.bool_],
    ) -> None:  # pragma: no cover
        """Raise the ``chunks`` from start to stop, each of ``SLOTS`` slots, counted through all of ``source``.

        Hypervector r of ``source``, ``dim`` slots of reals ``(slots, 2 m m)``, is raised to ``exponents[n]``, which
        fills hypervector ``targets[n]`` of ``out``, for each n from ``offsets[r]`` to ``offsets[r + 1]``. A chunk is
        not ``done`` if one of its slots is not unitary within the tolerance, cannot be diagonalised, or needs a higher
        precision.
        """
        x, v = np.empty((m, m, 2, SLOTS), precision), np.empty((m, m, 2, SLOTS), precision)
        g = np.empty((m, m, 2, SLOTS), precision)
        rotation, turns = np.empty((3, SLOTS), precision), np.empty((m, SLOTS), precision)
        per_row = (dim + SLOTS - 1) // SLOTS
        for index in range(start, stop):
            row, first = chunks[index] // per_row, chunks[index] % per_row * SLOTS
            count = min(SLOTS, dim - first)
            if single:
                zero_square = _ZERO_SQUARE_SINGLE
                least_steps, clean, largest_error = 0, _CLEAN, 0.5 * tolerance  # the sums are not exact
            else:
                largest = 1.0
                for n in range(offsets[row], offsets[row + 1]):
                    largest = max(largest, abs(exponents[n]))
                rounded = _ZERO_SQUARE_ROUNDED / (largest * largest) if out.itemsize == 4 else 0.0
                zero_square = max(rounded, 4 * m * m * _ZERO_SQUARE_DOUBLE)
                # Each step of polishing squares the error.
                least_steps, clean, largest_error = 1, math.sqrt(math.sqrt(zero_square) / m), tolerance
            load(m, row * dim + first, count, source, x)

            # Replace X by the nearest unitary matrix.
            gram(m, x, g)
            not_clean, not_unitary = _off_identity(m, g, clean, largest_error)
            if not_unitary:
                continue
            for step in range(least_steps + (1 if not_clean else 0)):
                if step:
                    gram(m, x, g)
                polish(m, x, g, v)

            # Rotate X to the diagonal V^H X V.
            _fill_identity(m, v)
            sweeps = 0
            # Pairs of entries that count as zero in their planes add up to at most the limit.
            while sweeps < _SWEEPS and _off_diagonal(m, x, 0.25 * m * m * zero_square):
                for p in range(m - 1):
                    for q in range(p + 1, m):
                        _find_rotation(x, p, q, rotation, zero_square)
                        _rotate_columns(m, x, p, q, rotation)
                        _rotate_rows(m, x, p, q, rotation)
                        _rotate_columns(m, v, p, q, rotation)
                sweeps += 1
            if sweeps == _SWEEPS:
                continue

            for k in range(m):
                _angles_in_turns(x[k, k, 0], x[k, k, 1], turns[k])
            if m > 1 and single and _is_near_cut(m, turns):
                continue
            for n in range(offsets[row], offsets[row + 1]):
                _combine(m, exponents[n], turns, v, g, x, rotation[0], rotation[1])
                store(m, targets[n] * dim + first, count, x, out)
            done[index] = True

    return power

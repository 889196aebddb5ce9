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

# Steps have no types.
# mypy: ignore-errors

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import compiled, inlined
from ghrr.ops.cpu.lanes import (
    SLOTS,
    absolute,
    cos_sin,
    gram,
    load,
    polish,
    series,
    sqrt,
    step,
    store,
    sum_of_conjugate_products,
    where,
)

Indices = NDArray[np.int64]

# Largest exponent for single precision.
SMALL = 2.0

# Taylor series of atan(x) / (2πx) in x², truncated where the next term is below rounding for x up to tan(π/16). Single
# precision needs fewer terms.
_ATAN = tuple((-1) ** n / ((2 * n + 1) * 2 * math.pi) for n in range(12))
_TERMS_SINGLE = 6
_FIRST, _SECOND = math.tan(math.pi / 16), math.tan(3 * math.pi / 16)
_TAN = math.tan(math.pi / 8)
_SWEEPS = 20  # limit; a sweep rotates all planes, and quadratic convergence needs about five
# Squares of differences that count as zero: rounding errors in double precision, a few of them in single precision,
# where the sixth power must not underflow.
_ZERO_SQUARE_SINGLE, _ZERO_SQUARE_DOUBLE = 1e-12, 1e-31
# For results in single precision, the square of an error of 1/60 of rounding.
_ZERO_SQUARE_ROUNDED = 1e-18
# Single precision: largest entry of |X^H X - 1| that needs no polishing.
_CLEAN = 4 * 2.0**-23
# Single precision, in turns: smallest distance of an eigenvalue from -1, and smallest distance, times m, between two
# eigenvalues on both sides of -1. Eigenvalues of random slots repel each other, so that few are closer.
_NEAR_CUT, _GAP_AT_CUT = 1e-6, 0.1


@step
def _angle_in_turns(x, turns):
    """Compute the angle of (x, y) in turns: the angle of the nearest of 16 directions, plus a series for the rest."""
    large, small = absolute(x[0]), absolute(x[1])
    swapped = small > large
    large, small = where(swapped, small, large), where(swapped, large, small)
    first, second = small <= _FIRST * large, small <= _SECOND * large
    one = large.constant(1.0)
    tangent = where(first, 0.0, where(second, _TAN, one))
    angle = where(first, 0.0, where(second, 0.0625, 0.125 * one))
    rest = (small - tangent * large) / (large + tangent * small)
    angle = angle + rest * series(_ATAN[: _TERMS_SINGLE if x.single else 12], rest * rest)
    angle = where(swapped, 0.25 - angle, angle)
    angle = where(x[0] < 0.0, 0.5 - angle, angle)
    turns[0] = where(x[1] < 0.0, -angle, angle)


@step
def _find_rotation(pp, pq, qp, qq, rotation, zero_square):  # noqa: PLR0917
    r"""Find the rotation, c and the two parts of s, that best diagonalises the block of rows and columns p and q.

    With :math:`h = (x_{pp} - x_{qq},\, x_{pq} + x_{qp},\, i (x_{qp} - x_{pq}))` it takes the real vector v that
    captures most of h: the real part of :math:`e^{-i\varphi} h`, where :math:`2\varphi` is the angle of
    :math:`h_1^2 + h_2^2 + h_3^2`. Only the direction of v is needed.
    """
    a, b = pp[0] - qq[0], pp[1] - qq[1]
    c, d = pq[0] + qp[0], pq[1] + qp[1]
    e, f = pq[1] - qp[1], qp[0] - pq[0]
    squares, imag_squares = a * a + c * c + e * e, b * b + d * d + f * f
    re, im = squares - imag_squares, 2.0 * (a * b + c * d + e * f)
    size = sqrt(re * re + im * im)
    # A vector in the direction of half of the angle, computed without cancellation.
    larger = size + absolute(re)
    cos = where(re >= 0.0, larger, absolute(im))
    sin = where(re >= 0.0, im, where(im >= 0.0, larger, -larger))
    cos = where(size > 0.0, cos, 1.0)
    first, second, third = cos * a + sin * b, cos * c + sin * d, cos * e + sin * f
    length = sqrt(first * first + second * second + third * third)
    # The rotation by half of the angle between v and the first axis or its opposite.
    longer = length + absolute(first)
    found = squares + imag_squares > zero_square
    inverse = where(found, 1.0 / sqrt(2.0 * length * longer), 0.0)
    rotation[0] = where(found, longer * inverse, 1.0)
    inverse = where(first < 0.0, -inverse, inverse)
    rotation[1] = second * inverse
    rotation[2] = -third * inverse


def _rotation(conjugate):
    @step
    def rotate(first, second, rotation):
        """Replace entries p and q by c p + s q and c q - conj(s) p, or with ``conjugate`` by the same for conj(s)."""
        c, s, t = rotation[0], rotation[1], -rotation[2] if conjugate else rotation[2]
        a, b, d, e = first[0], first[1], second[0], second[1]
        first[0] = c * a + s * d - t * e
        first[1] = c * b + s * e + t * d
        second[0] = c * d - s * a - t * b
        second[1] = c * e - s * b + t * a

    return rotate


_rotate, _rotate_conjugate = _rotation(False), _rotation(True)


@step
def _set(x, number):
    x[0], x[1] = number, 0.0


@step
def _add_square(total, x):
    total[0] = total[0] + x[0] * x[0] + x[1] * x[1]


@step
def _exceeds(total, limit):
    return ~(total[0] <= limit)  # also for NaN


@step
def _differs(g, one, limit):
    """Return whether an entry differs from a number by more than the square root of the limit."""
    return ~((g[0] - one) * (g[0] - one) + g[1] * g[1] <= limit)  # also for NaN


@step
def _start_range(turns, bounds):
    bounds[0], bounds[1] = turns[0], turns[0]


@step
def _extend_range(turns, bounds):
    x, low, high = turns[0], bounds[0], bounds[1]
    bounds[0], bounds[1] = where(x < low, x, low), where(x > high, x, high)


@step
def _is_near_cut(bounds, m):
    """Return whether an eigenvalue is so close to -1, or two so close to each other there, that errors grow."""
    low, high = bounds[0], bounds[1]
    upper, lower = 0.5 - high, 0.5 + low
    return (where(upper < lower, upper, lower) < _NEAR_CUT) | (m * (1.0 - high + low) < _GAP_AT_CUT)


@step
def _phase(turns, phase, exponent):
    """Compute the cosine and sine of the exponent times an angle."""
    phase[0], phase[1] = cos_sin(exponent * turns[0], 6 if turns.single else 9)


@step
def _times_phase(x, phase, out):
    out[0] = x[0] * phase[0] - x[1] * phase[1]
    out[1] = x[0] * phase[1] + x[1] * phase[0]


@inlined
def _diagonalize(bits, m, entry, x, v, rotation, zero_square):  # noqa: PLR0917 # pragma: no cover
    """Rotate X to the diagonal V^H X V; return whether that succeeded."""
    for n in range(m * m):
        _set(bits, (v + n * entry,), (1.0 if n % (m + 1) == 0 else 0.0,))
    for sweeps in range(_SWEEPS + 1):
        # Pairs of entries that count as zero in their planes add up to at most the limit.
        _set(bits, (rotation,), (0.0,))
        for n in range(m * m):
            if n % (m + 1):
                _add_square(bits, (rotation, x + n * entry), ())
        unfinished = _exceeds(bits, (rotation,), (0.25 * m * m * zero_square,))
        if not unfinished or sweeps == _SWEEPS:
            break
        for p in range(m - 1):
            for q in range(p + 1, m):
                pp, pq = x + (m * p + p) * entry, x + (m * p + q) * entry
                qp, qq = x + (m * q + p) * entry, x + (m * q + q) * entry
                _find_rotation(bits, (pp, pq, qp, qq, rotation), (zero_square,))
                for n in range(m):
                    at_p, at_q = (m * n + p) * entry, (m * n + q) * entry
                    _rotate(bits, (x + at_p, x + at_q, rotation), ())
                    _rotate(bits, (v + at_p, v + at_q, rotation), ())
                for n in range(m):
                    at_p, at_q = (m * p + n) * entry, (m * q + n) * entry
                    _rotate_conjugate(bits, (x + at_p, x + at_q, rotation), ())
    return not unfinished


@inlined
def _has_eigenvalues_near_cut(bits, m, row, turns, bounds):  # pragma: no cover
    _start_range(bits, (turns, bounds), ())
    for k in range(1, m):
        _extend_range(bits, (turns + k * row, bounds), ())
    return _is_near_cut(bits, (bounds,), (1.0 * m,))


@inlined
def _combine(bits, m, row, exponent, turns, v, w, x, phase):  # noqa: PLR0917 # pragma: no cover
    """Replace X by V diag(e^{2πi · exponent · turns}) V^H; W is overwritten."""
    entry = 2 * row
    for k in range(m):
        _phase(bits, (turns + k * row, phase), (exponent,))
        for j in range(m):
            at = (m * j + k) * entry
            _times_phase(bits, (v + at, phase, w + at), ())
    for j in range(m):
        for k in range(m):
            to = x + (m * j + k) * entry
            sum_of_conjugate_products(bits, to, v + m * k * entry, entry, w + m * j * entry, entry, m)


@functools.cache
def power_kernel(bits: int) -> Callable[..., None]:
    """Return the loop for 32 or 64 bits of precision."""
    single = bits == 32
    precision = np.float32 if single else np.float64
    row = SLOTS * bits // 8
    entry = 2 * row

    @compiled
    def power(  # noqa: PLR0917
        m: int,
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
        size = 2 * m * m
        work = np.empty((3 * size + m + 3, SLOTS), precision)
        x = work.ctypes.data
        v, g = x + size * row, x + 2 * size * row
        turns = x + 3 * size * row
        rotation = turns + m * row
        per_row = (dim + SLOTS - 1) // SLOTS
        for index in range(start, stop):
            base, first = chunks[index] // per_row, chunks[index] % per_row * SLOTS
            count = min(SLOTS, dim - first)
            if single:
                zero_square = _ZERO_SQUARE_SINGLE
                least_steps, clean, largest_error = 0, _CLEAN, 0.5 * tolerance  # the sums are not exact
            else:
                largest = 1.0
                for n in range(offsets[base], offsets[base + 1]):
                    largest = max(largest, abs(exponents[n]))
                rounded = _ZERO_SQUARE_ROUNDED / (largest * largest) if out.itemsize == 4 else 0.0
                zero_square = max(rounded, 4 * m * m * _ZERO_SQUARE_DOUBLE)
                # Each step of polishing squares the error.
                least_steps, clean, largest_error = 1, math.sqrt(math.sqrt(zero_square) / m), tolerance
            load(m, base * dim + first, count, source, work)

            # Replace X by the nearest unitary matrix.
            gram(bits, m, entry, x, g)
            not_clean = not_unitary = False
            for n in range(m * m):
                one = 1.0 if n % (m + 1) == 0 else 0.0
                not_clean |= _differs(bits, (g + n * entry,), (one, clean * clean))
                not_unitary |= _differs(bits, (g + n * entry,), (one, largest_error * largest_error))
            if not_unitary:
                continue
            for steps in range(least_steps + (1 if not_clean else 0)):
                if steps:
                    gram(bits, m, entry, x, g)
                polish(bits, m, entry, x, g, v)

            if not _diagonalize(bits, m, entry, x, v, rotation, zero_square):
                continue
            for k in range(m):
                _angle_in_turns(bits, (x + k * (m + 1) * entry, turns + k * row), ())
            if single and m > 1 and _has_eigenvalues_near_cut(bits, m, row, turns, rotation):
                continue
            for n in range(offsets[base], offsets[base + 1]):
                _combine(bits, m, row, exponents[n], turns, v, g, x, rotation)
                store(m, targets[n] * dim + first, count, work, out)
            done[index] = True

    return power

r"""Compiled loops: real powers of unitary slots.

Each slot is diagonalised by Jacobi rotations, which need no gap between eigenvalues: each rotation makes the 2 x 2
block of its plane as diagonal as possible, and the off-diagonal entries shrink quadratically. The powers are
:math:`V \mathrm{diag}(e^{ix\theta_k}) V^\dagger`. Angles are in turns (360°), so whole turns can be subtracted exactly.

The same loop computes in single or in double precision. An error e of the slot changes the power by up to |x| e, and by
more near the branch cut at -1, where two eigenvalues may be close and their powers are not. Single precision is
therefore for small exponents, and leaves slots with eigenvalues near the branch cut to double precision.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops/test_power.py`` compares with the
reference.
"""

# Steps have no types.
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import compiled_vectors
from ghrr.ops.cpu.lanes import SLOTS, absolute, cos_sin, series, sqrt, where
from ghrr.ops.cpu.steps import gram, load, polish, procedure, step, store, sum_of_conjugate_products

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
def _add_squares(total, x, y):
    total[0] = total[0] + x[0] * x[0] + x[1] * x[1] + y[0] * y[0] + y[1] * y[1]


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


@procedure(types.boolean)
def _differs_from_identity(code, m, entry, g, limit):
    """Return whether an entry of G - 1 exceeds the square root of the limit."""
    found = code.any()
    for j in code.range(m):
        for k in code.range(m):
            one = j.equals(k).where(1.0, 0.0)
            code.note(found, _differs.emit(code, (g + (j * m + k) * entry,), (one, limit)))
    return found


@procedure()
def _set_identity(code, m, entry, v):
    for j in code.range(m):
        for k in code.range(m):
            _set.emit(code, (v + (j * m + k) * entry,), (j.equals(k).where(1.0, 0.0),))


@procedure(types.boolean)
def _is_not_diagonal(code, m, entry, x, total, limit):  # noqa: PLR0917
    """Return whether the squares of the entries outside of the diagonal add up to more than the limit."""
    exceeds = code.any()
    _set.emit(code, (total,), (0.0,))
    for j in code.range(1, m):
        for k in code.range(j):
            _add_squares.emit(code, (total, x + (j * m + k) * entry, x + (k * m + j) * entry))
    code.note(exceeds, _exceeds.emit(code, (total,), (limit,)))
    return exceeds


@procedure()
def _sweep(code, m, entry, x, v, rotation, zero_square):  # noqa: PLR0917
    """Rotate all planes of X, and collect the rotations in V."""
    for p in code.range(m - 1):
        for q in code.range(p + 1, m):
            block = [x + (m * j + k) * entry for j in (p, q) for k in (p, q)]
            _find_rotation.emit(code, (*block, rotation), (zero_square,))
            for n in code.range(m):
                at_p, at_q = (m * n + p) * entry, (m * n + q) * entry
                _rotate.emit(code, (x + at_p, x + at_q, rotation))
                _rotate.emit(code, (v + at_p, v + at_q, rotation))
            for n in code.range(m):
                at_p, at_q = (m * p + n) * entry, (m * q + n) * entry
                _rotate_conjugate.emit(code, (x + at_p, x + at_q, rotation))


@procedure(types.boolean)
def _has_eigenvalues_near_cut(code, m, size, row, turns, bounds):  # noqa: PLR0917
    """Apply ``_is_near_cut`` to m angles; ``size`` is m as a real number."""
    near = code.any()
    _start_range.emit(code, (turns, bounds))
    for k in code.range(1, m):
        _extend_range.emit(code, (turns + k * row, bounds))
    code.note(near, _is_near_cut.emit(code, (bounds,), (size,)))
    return near


@procedure()
def _angles(code, m, row, x, turns):
    """Compute the angles of the diagonal of X."""
    for k in code.range(m):
        _angle_in_turns.emit(code, (x + 2 * k * (m + 1) * row, turns + k * row))


@procedure()
def _combine(code, m, row, exponent, turns, v, w, x, phase):  # noqa: PLR0917
    """Replace X by V diag(e^{2πi · exponent · turns}) V^H; W is overwritten."""
    entry = 2 * row
    for k in code.range(m):
        _phase.emit(code, (turns + k * row, phase), (exponent,))
        for j in code.range(m):
            at = (m * j + k) * entry
            _times_phase.emit(code, (v + at, phase, w + at))
    for j in code.range(m):
        for k in code.range(m):
            to = x + (m * j + k) * entry
            sum_of_conjugate_products(code, to, v + m * k * entry, entry, w + m * j * entry, entry, m)


@compiled_vectors
def power(  # noqa: PLR0917
    bits: int,
    m: int,
    start: int,
    stop: int,
    chunks: Indices,
    dim: int,
    source: int,
    tolerance: float,
    exponents: NDArray[np.float64],
    targets: Indices,
    offsets: Indices,
    out: int,
    bits_of_slots: int,
    done: NDArray[np.bool_],
) -> None:  # pragma: no cover
    """Raise the ``chunks`` from start to stop, each of ``SLOTS`` slots, counted through all of ``source``.

    ``bits`` is the precision of the arithmetic. ``source`` and ``out`` are addresses of slots, 2 m m reals each of
    ``bits_of_slots``. Hypervector r of ``source``, ``dim`` slots, is raised to ``exponents[n]``, which fills
    hypervector ``targets[n]`` of ``out``, for each n from ``offsets[r]`` to ``offsets[r + 1]``. A chunk is not ``done``
    if one of its slots is not unitary within the tolerance, cannot be diagonalised, or needs a higher precision.
    """
    single, size = bits == 32, 2 * m * m
    row, slot = SLOTS * bits // 8, size * bits_of_slots // 8
    entry = 2 * row
    work = np.empty((3 * size + m + 3) * row + 63, np.uint8)
    x = (work.ctypes.data + 63) & -64  # so that no vector lies in two cache lines
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
            rounded = _ZERO_SQUARE_ROUNDED / (largest * largest) if bits_of_slots == 32 else 0.0
            zero_square = max(rounded, 4 * m * m * _ZERO_SQUARE_DOUBLE)
            # Each step of polishing squares the error.
            least_steps, clean, largest_error = 1, math.sqrt(math.sqrt(zero_square) / m), tolerance
        load(bits, bits_of_slots, x, source + (base * dim + first) * slot, size, count)

        # Replace X by the nearest unitary matrix.
        gram(bits, (m, entry, x, g))
        limit = min(clean, largest_error)
        not_clean = _differs_from_identity(bits, (m, entry, g, limit * limit))
        if not_clean:  # few slots
            if _differs_from_identity(bits, (m, entry, g, largest_error * largest_error)):
                continue
            not_clean = _differs_from_identity(bits, (m, entry, g, clean * clean))
        for steps in range(least_steps + (1 if not_clean else 0)):
            if steps:
                gram(bits, (m, entry, x, g))
            polish(bits, (m, entry, x, g, v))

        # Rotate X to the diagonal V^H X V. Pairs of entries that count as zero in their planes add up to the limit.
        _set_identity(bits, (m, entry, v))
        sweeps, limit = 0, 0.25 * m * m * zero_square
        unfinished = _is_not_diagonal(bits, (m, entry, x, rotation, limit))
        while unfinished and sweeps < _SWEEPS:
            _sweep(bits, (m, entry, x, v, rotation, zero_square))
            unfinished = _is_not_diagonal(bits, (m, entry, x, rotation, limit))
            sweeps += 1
        if unfinished:
            continue
        _angles(bits, (m, row, x, turns))
        if single and m > 1 and _has_eigenvalues_near_cut(bits, (m, 1.0 * m, row, turns, rotation)):
            continue
        for n in range(offsets[base], offsets[base + 1]):
            _combine(bits, (m, row, exponents[n], turns, v, g, x, rotation))
            store(bits, bits_of_slots, x, out + (targets[n] * dim + first) * slot, size, count)
        done[index] = True

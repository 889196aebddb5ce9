r"""Compiled loops: the unitary matrix nearest to each slot, for m = 1 to 4.

With :math:`X = W P`, singular values :math:`s_i` and :math:`G = X^\dagger X` the
closed forms need the elementary symmetric polynomials :math:`p_1 = \sum_i s_i`, ..., :math:`p_m = \prod_i s_i =
|\det X|`. Those of the squares, :math:`I_k`, are known from X and G, and

.. math:: p_1^2 = I_1 + 2 p_2, \quad p_2^2 = I_2 + 2 p_1 p_3 - 2 p_4, \quad p_3^2 = I_3 + 2 p_2 p_4,

where :math:`p_k = 0` for :math:`k > m`. One unknown remains, which Newton's method finds. W follows from
:math:`P^m - p_1 P^{m-1} + p_2 P^{m-2} - \dots = 0`.

Each loop fills the slots from start to stop of reals ``(slots, 2 m m)``. It marks slots that are zero, nearly singular
or not finite in ``left``, and returns their number; LAPACK computes them.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops/test_polar.py`` compares with the
reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import compiled, inlined
from ghrr.ops.cpu.lanes import SLOTS, Lanes, gram, load, multiply, polish, store

Reals = NDArray[Any]
Flags = NDArray[np.bool_]

_SMALLEST, _LARGEST = 1e-290, 1e290  # range of sums of absolute values by which slots can be divided
_EPS = 2.0**-52
# Rounding errors grow as singular values shrink. LAPACK computes slots with larger errors than this.
_MOST_LOST_SINGLE, _MOST_LOST_DOUBLE = 1e-8, 1e-13


@inlined
def _polar_1(x: Lanes) -> None:  # pragma: no cover
    for i in range(x.shape[-1]):
        scale = 1.0 / math.sqrt(x[0, 0, 0, i] * x[0, 0, 0, i] + x[0, 0, 1, i] * x[0, 0, 1, i])
        x[0, 0, 0, i] *= scale
        x[0, 0, 1, i] *= scale


@inlined
def _polar_2(x: Lanes) -> None:  # pragma: no cover
    r""":math:`W = (X + p_2 X^{-\dagger}) / p_1`, where :math:`p_2 X^{-\dagger}` consists of cofactors."""
    for i in range(x.shape[-1]):
        a, b = complex(x[0, 0, 0, i], x[0, 0, 1, i]), complex(x[0, 1, 0, i], x[0, 1, 1, i])
        c, d = complex(x[1, 0, 0, i], x[1, 0, 1, i]), complex(x[1, 1, 0, i], x[1, 1, 1, i])
        det = a * d - b * c
        p2 = math.sqrt(det.real * det.real + det.imag * det.imag)
        inverse = 1.0 / p2 if p2 > 0.0 else 0.0
        phase = complex(det.real * inverse if p2 > 0.0 else 1.0, det.imag * inverse)
        squares = 2.0 * p2
        for j in range(2):
            for k in range(2):
                squares += x[j, k, 0, i] * x[j, k, 0, i] + x[j, k, 1, i] * x[j, k, 1, i]
        scale = 1.0 / math.sqrt(squares)
        first, second = a + phase * d.conjugate(), b - phase * c.conjugate()
        third, fourth = c - phase * b.conjugate(), d + phase * a.conjugate()
        x[0, 0, 0, i], x[0, 0, 1, i] = scale * first.real, scale * first.imag
        x[0, 1, 0, i], x[0, 1, 1, i] = scale * second.real, scale * second.imag
        x[1, 0, 0, i], x[1, 0, 1, i] = scale * third.real, scale * third.imag
        x[1, 1, 0, i], x[1, 1, 1, i] = scale * fourth.real, scale * fourth.imag


@inlined
def _polar_3(x: Lanes, g: Lanes, y: Lanes, c: Lanes, lost: Lanes) -> None:  # pragma: no cover
    r""":math:`W = ((I_1 + p_2) X - X G + p_1 p_3 X^{-\dagger}) / (p_1 p_2 - p_3)`, with cofactors as for m = 2."""
    gram(3, x, g)
    multiply(3, x, g, y)
    for j in range(3):
        for k in range(3):
            _cofactor_3(x, (j + 1) % 3, (j + 2) % 3, (k + 1) % 3, (k + 2) % 3, c[j, k])
    for i in range(x.shape[-1]):
        det_real = det_imag = i1 = i2 = 0.0
        for k in range(3):
            det_real += x[0, k, 0, i] * c[0, k, 0, i] - x[0, k, 1, i] * c[0, k, 1, i]
            det_imag += x[0, k, 0, i] * c[0, k, 1, i] + x[0, k, 1, i] * c[0, k, 0, i]
            i1 += g[k, k, 0, i]
            for j in range(3):
                i2 += c[j, k, 0, i] * c[j, k, 0, i] + c[j, k, 1, i] * c[j, k, 1, i]
        p3 = math.sqrt(det_real * det_real + det_imag * det_imag)
        p2 = math.sqrt(i2)
        p1 = math.sqrt(i1 + 2.0 * p2)
        p1 = _newton_3(i1, i2, p1, p3)
        p1 = _newton_3(i1, i2, p1, p3)
        p1 = _newton_3(i1, i2, p1, p3)
        p1 = _newton_3(i1, i2, p1, p3)
        p2 = math.sqrt(i2 + 2.0 * p3 * p1)
        scale = 1.0 / (p1 * p2 - p3)
        lost[i] = p1 * p1 * p1 * p1 * _EPS * scale / p2
        inverse = p1 * scale / p3 if p3 > 0.0 else 0.0
        # G is no longer needed: its buffer holds the numbers for the next loop.
        g[0, 1, 0, i], g[0, 1, 1, i] = scale, (i1 + p2) * scale
        g[0, 2, 0, i], g[0, 2, 1, i] = det_real * inverse if p3 > 0.0 else p1 * scale, det_imag * inverse
    for j in range(3):
        for k in range(3):
            for i in range(x.shape[-1]):
                a, b = g[0, 2, 0, i], g[0, 2, 1, i]
                real = g[0, 1, 1, i] * x[j, k, 0, i] - g[0, 1, 0, i] * y[j, k, 0, i]
                imag = g[0, 1, 1, i] * x[j, k, 1, i] - g[0, 1, 0, i] * y[j, k, 1, i]
                x[j, k, 0, i] = real + a * c[j, k, 0, i] + b * c[j, k, 1, i]
                x[j, k, 1, i] = imag + b * c[j, k, 0, i] - a * c[j, k, 1, i]


@inlined
def _cofactor_3(x: Lanes, j: int, s: int, k: int, t: int, c: Lanes) -> None:  # noqa: PLR0917 # pragma: no cover
    """Compute the determinant of rows j, s and columns k, t."""
    for i in range(x.shape[-1]):
        a, b = complex(x[j, k, 0, i], x[j, k, 1, i]), complex(x[j, t, 0, i], x[j, t, 1, i])
        p, q = complex(x[s, k, 0, i], x[s, k, 1, i]), complex(x[s, t, 0, i], x[s, t, 1, i])
        minor = a * q - b * p
        c[0, i], c[1, i] = minor.real, minor.imag


@inlined
def _minor(x: Lanes, row: int, k: int, t: int, i: int) -> complex:  # pragma: no cover
    """Compute the determinant of columns k and t in this row and the next."""
    a, b = complex(x[row, k, 0, i], x[row, k, 1, i]), complex(x[row, t, 0, i], x[row, t, 1, i])
    p, q = complex(x[row + 1, k, 0, i], x[row + 1, k, 1, i]), complex(x[row + 1, t, 0, i], x[row + 1, t, 1, i])
    return a * q - b * p


@inlined
def _newton_4(i1: float, i2: float, i3: float, p2: float, p4: float) -> float:  # pragma: no cover
    """Do one Newton step for p_2, with p_1 and p_3 expressed by it."""
    r1, r3 = i1 + 2.0 * p2, i3 + 2.0 * p2 * p4
    both = math.sqrt(r1 * r3)
    return p2 - 0.5 * (p2 * p2 - i2 + 2.0 * p4 - 2.0 * both) / (p2 - (r3 + p4 * r1) / both)


@inlined
def _newton_3(i1: float, i2: float, p1: float, p3: float) -> float:  # pragma: no cover
    """Do one Newton step for p_1, with p_2 expressed by it."""
    p2 = math.sqrt(i2 + 2.0 * p3 * p1)
    return p1 - 0.5 * p2 * (p1 * p1 - i1 - 2.0 * p2) / (p1 * p2 - p3)


@inlined
def _polar_4(  # noqa: PLR0917
    x: Lanes, g: Lanes, h: Lanes, y: Lanes, t: Lanes, lost: Lanes
) -> None:  # pragma: no cover
    r""":math:`W (G^2 + p_2 G + p_4) = X (p_1 G + p_3)`, solved for W."""
    gram(4, x, g)
    multiply(4, g, g, h)
    for n in range(4):
        for i in range(x.shape[-1]):
            t[n, i] = 0.0
    for k in range(3):
        for n in range(k + 1, 4):
            # The two columns that are neither k nor n, and the sign of the permutation.
            p = 0 if k > 0 else 1 if n > 1 else 2
            q = 6 - k - n - p
            sign = 1.0 if (k + n) % 2 == 1 else -1.0
            for i in range(x.shape[-1]):
                term = _minor(x, 0, k, n, i) * _minor(x, 2, p, q, i)
                t[0, i] += sign * term.real
                t[1, i] += sign * term.imag
    for j in range(4):
        for k in range(4):
            for i in range(x.shape[-1]):
                t[2, i] += h[j, k, 0, i] * g[j, k, 0, i] + h[j, k, 1, i] * g[j, k, 1, i]
    for i in range(x.shape[-1]):
        p4 = math.sqrt(t[0, i] * t[0, i] + t[1, i] * t[1, i])
        i1 = g[0, 0, 0, i] + g[1, 1, 0, i] + g[2, 2, 0, i] + g[3, 3, 0, i]
        second = h[0, 0, 0, i] + h[1, 1, 0, i] + h[2, 2, 0, i] + h[3, 3, 0, i]
        i2 = 0.5 * (i1 * i1 - second)
        i3 = abs(i1 * i1 * i1 - 3.0 * i1 * second + 2.0 * t[2, i]) / 6.0
        p2 = math.sqrt(abs(i2 - 2.0 * p4 + 2.0 * math.sqrt(i1 * i3)))
        p2 = math.sqrt(abs(i2 - 2.0 * p4 + 2.0 * math.sqrt((i1 + 2.0 * p2) * (i3 + 2.0 * p2 * p4))))
        p2 = math.sqrt(abs(i2 - 2.0 * p4 + 2.0 * math.sqrt((i1 + 2.0 * p2) * (i3 + 2.0 * p2 * p4))))
        p2 = _newton_4(i1, i2, i3, p2, p4)
        p2 = _newton_4(i1, i2, i3, p2, p4)
        p2 = _newton_4(i1, i2, i3, p2, p4)
        lost[i] = (i1 * i1 / p4 + i1 * i1 * i1 / i3) * _EPS
        t[0, i], t[1, i] = math.sqrt(i1 + 2.0 * p2), p2
        t[2, i], t[3, i] = math.sqrt(i3 + 2.0 * p2 * p4), p4
    for j in range(4):
        for k in range(4):
            one = 1.0 if j == k else 0.0
            for i in range(x.shape[-1]):
                real, imag = g[j, k, 0, i], g[j, k, 1, i]
                h[j, k, 0, i] += t[1, i] * real + one * t[3, i]
                h[j, k, 1, i] += t[1, i] * imag
                g[j, k, 0, i] = t[0, i] * real + one * t[2, i]
                g[j, k, 1, i] = t[0, i] * imag
    multiply(4, x, g, y)
    _factorize(4, h)
    _solve(4, h, y)


@inlined
def _factorize(m: int, h: Lanes) -> None:  # pragma: no cover
    """Factorise H = L D L^H in place: L below the diagonal, 1 / D on it."""
    for k in range(m):
        for j in range(k, m):
            for i in range(h.shape[-1]):
                real, imag = h[j, k, 0, i], h[j, k, 1, i]
                for n in range(k):  # h[n, n] holds 1 / D already, and h[j, n] still holds L D for those below
                    real -= (h[j, n, 0, i] * h[k, n, 0, i] + h[j, n, 1, i] * h[k, n, 1, i]) / h[n, n, 0, i]
                    imag -= (h[j, n, 1, i] * h[k, n, 0, i] - h[j, n, 0, i] * h[k, n, 1, i]) / h[n, n, 0, i]
                h[j, k, 0, i], h[j, k, 1, i] = real, imag
        for i in range(h.shape[-1]):
            h[k, k, 0, i] = 1.0 / h[k, k, 0, i]
        for j in range(k + 1, m):
            for i in range(h.shape[-1]):
                h[j, k, 0, i] *= h[k, k, 0, i]
                h[j, k, 1, i] *= h[k, k, 0, i]


@inlined
def _solve(m: int, h: Lanes, y: Lanes) -> None:  # pragma: no cover
    """Compute Y H^-1 in place, for a factorised H."""
    for row in range(m):
        for k in range(m):
            for i in range(h.shape[-1]):
                real, imag = y[row, k, 0, i], y[row, k, 1, i]
                for n in range(k):
                    real -= y[row, n, 0, i] * h[k, n, 0, i]
                    real -= y[row, n, 1, i] * h[k, n, 1, i]
                    imag -= y[row, n, 1, i] * h[k, n, 0, i]
                    imag += y[row, n, 0, i] * h[k, n, 1, i]
                y[row, k, 0, i], y[row, k, 1, i] = real, imag
        for k in range(m - 1, -1, -1):
            for i in range(h.shape[-1]):
                real, imag = y[row, k, 0, i] * h[k, k, 0, i], y[row, k, 1, i] * h[k, k, 0, i]
                for n in range(k + 1, m):
                    real -= y[row, n, 0, i] * h[n, k, 0, i]
                    real += y[row, n, 1, i] * h[n, k, 1, i]
                    imag -= y[row, n, 0, i] * h[n, k, 1, i]
                    imag -= y[row, n, 1, i] * h[n, k, 0, i]
                y[row, k, 0, i], y[row, k, 1, i] = real, imag


@inlined
def _load_scaled(  # noqa: PLR0917
    m: int, first: int, count: int, source: Reals, x: Lanes, size: Lanes
) -> None:  # pragma: no cover
    """Fill the buffer with slots and ``size`` with sums of absolute values; divide double precision slots by these."""
    load(m, first, count, source, x)
    rows = x.reshape(2 * m * m, x.shape[-1])
    for i in range(x.shape[-1]):
        total = 0.0
        for n in range(2 * m * m):
            total += abs(rows[n, i])
        size[i] = total
    if source.itemsize == 4:
        return  # the powers of single precision numbers used here are in the range of double precision
    for n in range(2 * m * m):
        for i in range(x.shape[-1]):
            rows[n, i] /= size[i]


@inlined
def _mark(first: int, count: int, size: Lanes, lost: Lanes, left: Flags, most: float) -> int:  # noqa: PLR0917  # pragma: no cover
    """Mark and count the slots that LAPACK must compute."""
    unknown = 0
    for i in range(count):
        known = size[i] > _SMALLEST and size[i] < _LARGEST and lost[i] < most
        left[first + i] = not known
        unknown += not known
    return unknown


# There is one loop for each m, because closed forms and buffers differ and the compiler must know m.


@compiled
def polar_1(start: int, stop: int, source: Reals, out: Reals, left: Flags) -> int:  # pragma: no cover
    x = np.empty((1, 1, 2, SLOTS))
    size, lost, unknown = np.empty(SLOTS), np.zeros(SLOTS), 0
    most = _MOST_LOST_SINGLE if out.itemsize == 4 else _MOST_LOST_DOUBLE
    for first in range(start, stop, SLOTS):
        count = min(SLOTS, stop - first)
        _load_scaled(1, first, count, source, x, size)
        _polar_1(x)
        unknown += _mark(first, count, size, lost, left, most)
        store(1, first, count, x, out)
    return unknown


@compiled
def polar_2(start: int, stop: int, source: Reals, out: Reals, left: Flags) -> int:  # pragma: no cover
    x = np.empty((2, 2, 2, SLOTS))
    size, lost, unknown = np.empty(SLOTS), np.zeros(SLOTS), 0
    most = _MOST_LOST_SINGLE if out.itemsize == 4 else _MOST_LOST_DOUBLE
    for first in range(start, stop, SLOTS):
        count = min(SLOTS, stop - first)
        _load_scaled(2, first, count, source, x, size)
        _polar_2(x)
        unknown += _mark(first, count, size, lost, left, most)
        store(2, first, count, x, out)
    return unknown


@compiled
def polar_3(start: int, stop: int, source: Reals, out: Reals, left: Flags) -> int:  # pragma: no cover
    x, g, c, y = (
        np.empty((3, 3, 2, SLOTS)),
        np.empty((3, 3, 2, SLOTS)),
        np.empty((3, 3, 2, SLOTS)),
        np.empty((3, 3, 2, SLOTS)),
    )
    size, lost, unknown = np.empty(SLOTS), np.zeros(SLOTS), 0
    most = _MOST_LOST_SINGLE if out.itemsize == 4 else _MOST_LOST_DOUBLE
    for first in range(start, stop, SLOTS):
        count = min(SLOTS, stop - first)
        _load_scaled(3, first, count, source, x, size)
        _polar_3(x, g, y, c, lost)
        if out.itemsize == 8:
            gram(3, x, g)
            polish(3, x, g, y)
        unknown += _mark(first, count, size, lost, left, most)
        store(3, first, count, x, out)
    return unknown


@compiled
def polar_4(start: int, stop: int, source: Reals, out: Reals, left: Flags) -> int:  # pragma: no cover
    x, g, h, y = (
        np.empty((4, 4, 2, SLOTS)),
        np.empty((4, 4, 2, SLOTS)),
        np.empty((4, 4, 2, SLOTS)),
        np.empty((4, 4, 2, SLOTS)),
    )
    t, size, lost, unknown = np.empty((4, SLOTS)), np.empty(SLOTS), np.empty(SLOTS), 0
    most = _MOST_LOST_SINGLE if out.itemsize == 4 else _MOST_LOST_DOUBLE
    for first in range(start, stop, SLOTS):
        count = min(SLOTS, stop - first)
        _load_scaled(4, first, count, source, x, size)
        _polar_4(x, g, h, y, t, lost)
        unknown += _mark(first, count, size, lost, left, most)
        store(4, first, count, y, out)
    return unknown

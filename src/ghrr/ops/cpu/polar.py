r"""Compiled loops: the unitary matrix nearest to each slot, for m = 1 to 4.

With :math:`X = W P`, singular values :math:`s_i` and :math:`G = X^\dagger X` the
closed forms need the elementary symmetric polynomials :math:`p_1 = \sum_i s_i`, ..., :math:`p_m = \prod_i s_i =
|\det X|`. Those of the squares, :math:`I_k`, are known from X and G, and

.. math:: p_1^2 = I_1 + 2 p_2, \quad p_2^2 = I_2 + 2 p_1 p_3 - 2 p_4, \quad p_3^2 = I_3 + 2 p_2 p_4,

where :math:`p_k = 0` for :math:`k > m`. One unknown remains, which Newton's method finds. W follows from
:math:`P^m - p_1 P^{m-1} + p_2 P^{m-2} - \dots = 0`.

Slots that are zero, nearly singular or not finite are left to LAPACK.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops/test_polar.py`` compares with the
reference.
"""

# Steps have no types.
# mypy: ignore-errors

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ghrr.ops.cpu.compilation import compiled_vectors
from ghrr.ops.cpu.lanes import SLOTS, Complex, Lanes, absolute, sqrt, where
from ghrr.ops.cpu.steps import gram, load, polish, step, store

Matrix = list[list[Complex]]

_SMALLEST, _LARGEST = 1e-290, 1e290  # range of sums of absolute values by which slots can be divided
_EPS = 2.0**-52
# Rounding errors grow as singular values shrink. LAPACK computes slots with larger errors than this.
_MOST_LOST_SINGLE, _MOST_LOST_DOUBLE = 1e-8, 1e-13
_ROW = 8 * SLOTS  # all arithmetic is in double precision


def _total(terms):
    return functools.reduce(lambda x, y: x + y, terms)


def _product(a: Matrix, b: Matrix) -> Matrix:
    m = len(a)
    return [[_total(a[j][n] * b[n][k] for n in range(m)) for k in range(m)] for j in range(m)]


def _gram(a: Matrix) -> Matrix:
    return _product([[a[k][j].conjugate() for k in range(len(a))] for j in range(len(a))], a)


@step
def _polar_1(x, lost):
    z = Complex(x[0], x[1])
    unit = z.scale(1.0 / sqrt(z.square()))
    x[0], x[1], lost[0] = unit.real, unit.imag, 0.0


@step
def _polar_2(x, lost):
    r""":math:`W = (X + p_2 X^{-\dagger}) / p_1`, where :math:`p_2 X^{-\dagger}` consists of cofactors."""
    (a, b), (c, d) = x.matrix(2)
    det = a * d - b * c
    p2 = sqrt(det.square())
    found = p2 > 0.0
    inverse = where(found, 1.0 / p2, 0.0)
    phase = Complex(where(found, det.real * inverse, 1.0), det.imag * inverse)
    scale = 1.0 / sqrt(2.0 * p2 + a.square() + b.square() + c.square() + d.square())
    w = [
        [a + phase * d.conjugate(), b - phase * c.conjugate()],
        [c - phase * b.conjugate(), d + phase * a.conjugate()],
    ]
    x.set_matrix([[z.scale(scale) for z in row] for row in w])
    lost[0] = 0.0


@step
def _polar_3(x, lost):
    r""":math:`W = ((I_1 + p_2) X - X G + p_1 p_3 X^{-\dagger}) / (p_1 p_2 - p_3)`, with cofactors as for m = 2."""
    a = x.matrix(3)
    g = _gram(a)
    y = _product(a, g)
    others = [((k + 1) % 3, (k + 2) % 3) for k in range(3)]
    c = [[a[j][k] * a[s][t] - a[j][t] * a[s][k] for k, t in others] for j, s in others]
    det = _total(a[0][k] * c[0][k] for k in range(3))
    i1 = _total(g[k][k].real for k in range(3))
    i2 = _total(z.square() for row in c for z in row)
    p3 = sqrt(det.square())
    p1 = sqrt(i1 + 2.0 * sqrt(i2))
    for _ in range(4):  # Newton's method for p_1, with p_2 expressed by it
        p2 = sqrt(i2 + 2.0 * p3 * p1)
        p1 = p1 - 0.5 * p2 * (p1 * p1 - i1 - 2.0 * p2) / (p1 * p2 - p3)
    p2 = sqrt(i2 + 2.0 * p3 * p1)
    scale = 1.0 / (p1 * p2 - p3)
    lost[0] = p1 * p1 * p1 * p1 * _EPS * scale / p2
    found = p3 > 0.0
    inverse = where(found, p1 * scale / p3, 0.0)
    factor = Complex(where(found, det.real * inverse, p1 * scale), det.imag * inverse)
    outer = (i1 + p2) * scale
    x.set_matrix(
        [
            [a[j][k].scale(outer) - y[j][k].scale(scale) + factor * c[j][k].conjugate() for k in range(3)]
            for j in range(3)
        ]
    )


@step
def _polar_4(x, lost):
    r""":math:`W (G^2 + p_2 G + p_4) = X (p_1 G + p_3)`, solved for W."""
    a = x.matrix(4)
    g = _gram(a)
    h = _product(g, g)
    pairs = [(k, n) for k in range(3) for n in range(k + 1, 4)]
    upper, lower = ({(k, n): a[r][k] * a[r + 1][n] - a[r][n] * a[r + 1][k] for k, n in pairs} for r in (0, 2))
    # The pair at the other end of the list holds the two columns that are neither k nor n.
    terms = [upper[pair] * lower[other] for pair, other in zip(pairs, reversed(pairs), strict=True)]
    signs = [1.0 if (k + n) % 2 else -1.0 for k, n in pairs]
    det = _total(term.scale(sign) for term, sign in zip(terms, signs, strict=True))
    third = _total(h[j][k].real * g[j][k].real + h[j][k].imag * g[j][k].imag for j in range(4) for k in range(4))
    p4 = sqrt(det.square())
    i1, second = (_total(z[k][k].real for k in range(4)) for z in (g, h))
    i2 = 0.5 * (i1 * i1 - second)
    i3 = absolute(i1 * i1 * i1 - 3.0 * i1 * second + 2.0 * third) / 6.0
    p2 = sqrt(absolute(i2 - 2.0 * p4 + 2.0 * sqrt(i1 * i3)))
    for _ in range(2):
        p2 = sqrt(absolute(i2 - 2.0 * p4 + 2.0 * sqrt((i1 + 2.0 * p2) * (i3 + 2.0 * p2 * p4))))
    for _ in range(3):  # Newton's method for p_2, with p_1 and p_3 expressed by it
        r1, r3 = i1 + 2.0 * p2, i3 + 2.0 * p2 * p4
        both = sqrt(r1 * r3)
        p2 = p2 - 0.5 * (p2 * p2 - i2 + 2.0 * p4 - 2.0 * both) / (p2 - (r3 + p4 * r1) / both)
    lost[0] = (i1 * i1 / p4 + i1 * i1 * i1 / i3) * _EPS
    p1, p3 = sqrt(i1 + 2.0 * p2), sqrt(i3 + 2.0 * p2 * p4)
    left = [[h[j][k] + g[j][k].scale(p2) for k in range(4)] for j in range(4)]
    right = [[g[j][k].scale(p1) for k in range(4)] for j in range(4)]
    for k in range(4):
        left[k][k].real, right[k][k].real = left[k][k].real + p4, right[k][k].real + p3
    x.set_matrix(_solve(left, _product(a, right)))


def _solve(h: Matrix, y: Matrix) -> Matrix:
    """Compute Y H^-1 by the factors H = L D L^H."""
    m = len(h)
    inverse: list[Lanes] = []
    for k in range(m):
        for j in range(k, m):  # left of column k, h holds L D
            for n in range(k):
                h[j][k] -= (h[j][n] * h[k][n].conjugate()).scale(inverse[n])
        inverse.append(1.0 / h[k][k].real)
    factor = [[h[j][k].scale(inverse[k]) for k in range(j)] for j in range(m)]
    for row in y:
        for k in range(m):
            for n in range(k):
                row[k] -= row[n] * factor[k][n].conjugate()
        for k in reversed(range(m)):
            row[k] = row[k].scale(inverse[k])
            for n in range(k + 1, m):
                row[k] -= row[n] * factor[n][k]
    return y


@step
def _add_size(x, size):
    size[0] = size[0] + absolute(x[0]) + absolute(x[1])


@step
def _clear(x):
    x[0] = 0.0


@step
def _divide(x, size):
    x[0], x[1] = x[0] / size[0], x[1] / size[0]


@functools.cache
def polar_kernel(m: int) -> Callable[..., int]:
    """Return the loop for one m."""
    numbers = 2 * m * m

    @compiled_vectors
    def polar(bits, start, stop, source, out, left):  # noqa: PLR0917 # pragma: no cover
        """Fill the slots from start to stop. Mark those that are ``left``, and return their number.

        ``source`` and ``out`` are addresses of slots, whose reals have ``bits``.
        """
        slot = numbers * bits // 8
        work = np.empty((3 * numbers + 2, SLOTS))
        x = work.ctypes.data
        size, lost = x + 3 * numbers * _ROW, x + (3 * numbers + 1) * _ROW
        most, unknown = _MOST_LOST_SINGLE if bits == 32 else _MOST_LOST_DOUBLE, 0
        for first in range(start, stop, SLOTS):
            count = min(SLOTS, stop - first)
            load(64, bits, x, source + first * slot, numbers, count)
            _clear(64, (size,), ())
            for n in range(m * m):
                _add_size(64, (x + 2 * n * _ROW, size), ())
            if bits == 64:  # the powers of numbers in single precision are in the range of double precision
                for n in range(m * m):
                    _divide(64, (x + 2 * n * _ROW, size), ())
            if m == 1:
                _polar_1(64, (x, lost), ())
            elif m == 2:
                _polar_2(64, (x, lost), ())
            elif m == 3:
                _polar_3(64, (x, lost), ())
                if bits == 64:
                    gram(64, (m, 2 * _ROW, x, x + numbers * _ROW))
                    polish(64, (m, 2 * _ROW, x, x + numbers * _ROW, x + 2 * numbers * _ROW))
            else:
                _polar_4(64, (x, lost), ())
            for i in range(count):
                total, error = work[3 * numbers, i], work[3 * numbers + 1, i]
                known = total > _SMALLEST and total < _LARGEST and error < most
                left[first + i] = not known
                unknown += not known
            store(64, bits, x, out + first * slot, numbers, count)
        return unknown

    return polar

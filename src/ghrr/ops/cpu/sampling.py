"""Compiled loops: base hypervectors from Philox keys, in one pass.

A few slots at a time are in a buffer, so that every vector instruction processes the same entry of several slots, and
stay in the first-level cache from the uniform numbers to the result. One compiled loop serves every m. All arithmetic
is in double precision.

:func:`ghrr.unitary.sampling.haar_from_uniform` explains the method. Coverage tools cannot trace compiled code, hence
the ``no cover`` marks; ``tests/unitary`` compares the results with that function.
"""

# Steps have no types.
# mypy: ignore-errors

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ghrr.ops.cpu import philox
from ghrr.ops.cpu.compilation import compiled_vectors
from ghrr.ops.cpu.lanes import SLOTS, cos_sin, sqrt, where
from ghrr.ops.cpu.philox import Words
from ghrr.ops.cpu.steps import procedure, step

_ROW = 8 * SLOTS
_ENTRY = 2 * _ROW


@step
def _sort(low, high):
    first, second = low[0], high[0]
    low[0], high[0] = where(first < second, first, second), where(first < second, second, first)


@step
def _set(x, number):
    x[0] = number


@step
def _root_of_gap(low, high, out):
    out[0] = sqrt(high[0] - low[0])


@step
def _root_to_one(low, out):
    out[0] = sqrt(1.0 - low[0])


@step
def _phase(turns, out):
    out[0], out[1] = cos_sin(turns[0], 9)


@step
def _add(x, r, total):
    total[0], total[1] = total[0] + x[0] * r[0], total[1] + x[1] * r[0]


@step
def _append(total, r, phase, out):
    """Write the last entry of a row, and divide the total by 1 + r for the other entries."""
    out[0] = total[0] * phase[0] - total[1] * phase[1]
    out[1] = total[0] * phase[1] + total[1] * phase[0]
    inverse = 1.0 / (1.0 + r[0])
    total[0], total[1] = total[0] * inverse, total[1] * inverse


@step
def _reflect(x, total, r, phase):
    a, b = total[0] * r[0] - x[0], total[1] * r[0] - x[1]
    x[0], x[1] = a * phase[0] - b * phase[1], a * phase[1] + b * phase[0]


@step
def _last_row(r, phase, out):
    out[0], out[1] = r[0] * phase[0], r[0] * phase[1]


@procedure()
def _extend(code, m, last, u, r, phases, total, x):  # noqa: PLR0917
    """Extend the unitary matrices in the first ``last`` rows and columns of x by a row and a column.

    ``u`` has the uniform numbers of this step, two for each row and one more. All other rows are overwritten.
    """
    # The square roots of the gaps between 0, the first rows of u in order, and 1.
    for n in code.range(1, last):
        for i in code.range(n):
            j = n - i
            _sort.emit(code, (u + (j - 1) * _ROW, u + j * _ROW))
    _set.emit(code, (total,), (0.0,))
    for j in code.range(last):
        low = j.equals(0).where(total, u + (j - 1) * _ROW)
        _root_of_gap.emit(code, (low, u + j * _ROW, r + j * _ROW))
    _root_to_one.emit(code, (last.equals(0).where(total, u + (last - 1) * _ROW), r + last * _ROW))
    for j in code.range(last + 1):
        _phase.emit(code, (u + (last + j) * _ROW, phases + j * _ENTRY))
    for row in code.range(last):
        _set.emit(code, (total,), (0.0,))
        _set.emit(code, (total + _ROW,), (0.0,))
        for j in code.range(last):
            _add.emit(code, (x + (row * m + j) * _ENTRY, r + j * _ROW, total))
        to = x + (row * m + last) * _ENTRY
        _append.emit(code, (total, r + last * _ROW, phases + last * _ENTRY, to))
        for j in code.range(last):
            _reflect.emit(code, (x + (row * m + j) * _ENTRY, total, r + j * _ROW, phases + j * _ENTRY))
    for j in code.range(last + 1):
        _last_row.emit(code, (r + j * _ROW, phases + j * _ENTRY, x + (last * m + j) * _ENTRY))


@compiled_vectors
def base_slots(  # noqa: PLR0917
    m: int,
    start: int,
    stop: int,
    slots: int,
    rotation_keys: Words,
    phase_keys: Words,
    roots: int,
    single: NDArray[np.complex64],
    double: NDArray[np.complex128],
) -> None:  # pragma: no cover
    """Fill chunks of ``SLOTS`` slots from start to stop, counted through the rows of the result.

    Keys are ``(rows, 2)``. The result is written to ``single`` or ``double``, ``(rows, slots, m * m)``; the other one
    is empty. So one compiled loop serves both precisions. Without rotation keys, for m = 1, the rotation is 1. Without
    phase keys there are no phases; with ``roots`` phases are roots of unity.
    """
    # Uniform numbers of the rotation and of the phases, square roots of gaps, phases, a total, and the matrices.
    numbers = m * m
    uniform, turns, work = np.empty((numbers, SLOTS)), np.empty((m, SLOTS)), np.empty((2 * numbers + 3 * m + 2, SLOTS))
    u, t, x = uniform.ctypes.data, turns.ctypes.data, work.ctypes.data
    r = x + 2 * numbers * _ROW
    phases = r + m * _ROW
    total = phases + m * _ENTRY
    chunks = (slots + SLOTS - 1) // SLOTS
    for chunk in range(start, stop):
        row, first = chunk // chunks, chunk % chunks * SLOTS
        if len(rotation_keys):
            philox.fill(rotation_keys[row, 0], rotation_keys[row, 1], first, numbers, u)
        else:
            uniform[:] = 0.0
        if len(phase_keys):
            philox.fill(phase_keys[row, 0], phase_keys[row, 1], first, m, t)
            for n in range(m):
                for i in range(SLOTS):
                    turn = math.floor(turns[n, i] * roots) / roots if roots else turns[n, i]
                    uniform[numbers - m + n, i] += turn
        for k in range(1, m + 1):
            _extend(64, (m, k - 1, u + (k - 1) ** 2 * _ROW, r, phases, total, x))
        for n in range(numbers):
            for i in range(min(SLOTS, slots - first)):
                column = i % 8 * (SLOTS // 8) + i // 8  # see philox.fill
                number = complex(work[2 * n, column], work[2 * n + 1, column])
                if len(single):
                    single[row, first + i, n] = number
                else:
                    double[row, first + i, n] = number

"""Matrices of several slots side by side, for the loops over unitary slots.

A buffer holds ``SLOTS`` matrices as ``(row, column, real or imaginary part, slot)``, so that every vector instruction
processes the same entry of several slots. Its dtype is the precision of the arithmetic: constants are converted to it,
because a constant in double precision would convert them all. Coverage tools cannot trace compiled code, hence the
``no cover`` marks.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import inlined

Lanes = NDArray[Any]  # float32 or float64

# A compile-time constant, so that the compiler knows without run-time tests that the rows of a buffer do not overlap.
# With 32 it would unroll short loops instead of using vector instructions.
SLOTS = 64


@inlined
def load(m: int, first: int, count: int, source: NDArray[Any], x: Lanes) -> None:  # pragma: no cover
    """Fill the buffer with slots of reals ``(slots, 2 m m)``; the last slot fills the rest of the buffer."""
    rows = x.reshape(2 * m * m, x.shape[-1])
    for i in range(x.shape[-1]):
        slot = first + min(i, count - 1)
        for n in range(2 * m * m):
            rows[n, i] = source[slot, n]


@inlined
def store(m: int, first: int, count: int, x: Lanes, target: NDArray[Any]) -> None:  # pragma: no cover
    """Write the first slots of the buffer to reals ``(slots, 2 m m)``."""
    rows = x.reshape(2 * m * m, x.shape[-1])
    for i in range(count):
        for n in range(2 * m * m):
            target[first + i, n] = rows[n, i]


@inlined
def copy(m: int, x: Lanes, target: Lanes) -> None:  # pragma: no cover
    """Copy a buffer."""
    source, rows = x.reshape(2 * m * m, x.shape[-1]), target.reshape(2 * m * m, x.shape[-1])
    for n in range(2 * m * m):
        for i in range(x.shape[-1]):
            rows[n, i] = source[n, i]


@inlined
def gram(m: int, x: Lanes, g: Lanes) -> None:  # pragma: no cover
    """Compute G = X^H X."""
    for j in range(m):
        for k in range(j + 1):
            for i in range(x.shape[-1]):
                real = imaginary = x.dtype.type(0)
                for n in range(m):
                    real += x[n, j, 0, i] * x[n, k, 0, i]
                    real += x[n, j, 1, i] * x[n, k, 1, i]
                    imaginary += x[n, j, 0, i] * x[n, k, 1, i]
                    imaginary -= x[n, j, 1, i] * x[n, k, 0, i]
                g[j, k, 0, i], g[j, k, 1, i] = real, imaginary
            if j != k:
                for i in range(x.shape[-1]):
                    g[k, j, 0, i] = g[j, k, 0, i]
                for i in range(x.shape[-1]):
                    g[k, j, 1, i] = -g[j, k, 1, i]


@inlined
def multiply(m: int, x: Lanes, y: Lanes, out: Lanes) -> None:  # pragma: no cover
    """Write the product X Y to another buffer."""
    for j in range(m):
        for k in range(m):
            for i in range(x.shape[-1]):
                real = imaginary = x.dtype.type(0)
                for n in range(m):
                    real += x[j, n, 0, i] * y[n, k, 0, i]
                    real -= x[j, n, 1, i] * y[n, k, 1, i]
                    imaginary += x[j, n, 0, i] * y[n, k, 1, i]
                    imaginary += x[j, n, 1, i] * y[n, k, 0, i]
                out[j, k, 0, i], out[j, k, 1, i] = real, imaginary


@inlined
def polish(m: int, x: Lanes, g: Lanes, y: Lanes) -> None:  # pragma: no cover
    """Do one Newton-Schulz step, X (3 - G) / 2 with G = X^H X, to the nearest unitary matrix; overwrites g and y."""
    half = x.dtype.type(0.5)
    for j in range(m):
        for k in range(m):
            one = x.dtype.type(1.5 if j == k else 0.0)
            for i in range(x.shape[-1]):
                g[j, k, 0, i] = one - half * g[j, k, 0, i]
                g[j, k, 1, i] = -half * g[j, k, 1, i]
    multiply(m, x, g, y)
    copy(m, y, x)

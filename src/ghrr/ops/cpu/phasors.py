"""Compiled loops for encoding: rotations times phases, from angles in single precision.

The loops take flat real arrays, release the interpreter's lock and do not use threads or PyTorch. Coverage tools cannot
trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares the results with the reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from ghrr.ops.cpu.compilation import compiled

Floats = NDArray[np.float32]
_real = np.float32

# Angles up to this size are reduced to [-π/4, π/4] exactly: k · π/2 is subtracted in three parts, and the first two
# have so few digits that their products with k < 2**13 are exact.
LARGEST_ANGLE = 8192.0
_TWO_OVER_PI = _real(2 / math.pi)
_PART_1, _PART_2, _PART_3 = _real(201 / 128), _real(4.837512969970703125e-4), _real(7.54978995489188e-8)


@compiled
def cos_sin(angles: Floats, cos: Floats, sin: Floats) -> None:  # pragma: no cover
    """Compute cosines and sines of angles in radians up to ``LARGEST_ANGLE``, by polynomials fitted to [-π/4, π/4].

    :func:`ghrr.ops.cpu.sampling.cos_sin` takes turns in double precision, which need no reduction in parts.
    """
    for i in range(angles.shape[0]):
        quarter = np.int32(np.rint(angles[i] * _TWO_OVER_PI))
        k = _real(quarter)
        x = ((angles[i] - k * _PART_1) - k * _PART_2) - k * _PART_3
        z = x * x
        s = x + x * z * (_real(-1.6666654611e-1) + z * (_real(8.3321608736e-3) + z * _real(-1.9515295891e-4)))
        c = _real(4.166664568298827e-2) + z * (_real(-1.388731625493765e-3) + z * _real(2.443315711809948e-5))
        c = _real(1) - _real(0.5) * z + z * z * c
        odd = quarter & 1
        first = s if odd else c
        second = c if odd else s
        cos[i] = -first if (quarter + 1) & 2 else first
        sin[i] = -second if quarter & 2 else second


@compiled
def cos_sin_rows(angles: Floats, out: Floats) -> None:  # pragma: no cover
    """Compute cosines and sines of each row of angles, ``(rows, n)`` to ``(rows, 2, n)``."""
    for row in range(angles.shape[0]):
        cos_sin(angles[row], out[row, 0], out[row, 1])


# The compiler does not know that the arrays do not overlap and would process numbers one by one, four times slower. So
# the vector operation is explicit: out[i:i+2m] = q[i:i+2m] * c + iq[i:i+2m] * s, where c and s hold each of cos[j:j+m]
# and sin[j:j+m] twice, for the real and the imaginary part. It is defined outside of the loop, with m as an argument:
# numba finds a loop on disk only if its closure is the same in every process.
@intrinsic(prefer_literal=True)
def _rotate_slot_row(context, m, out, i, q, iq, cos, sin, j):  # noqa: PLR0917
    def build(context, builder, signature, args):
        m = signature.args[0].literal_value
        width = 2 * m
        out, i, q, iq, cos, sin, j = range(1, 8)
        twice = ir.Constant(ir.VectorType(ir.IntType(32), width), [k // 2 for k in range(width)])

        def pointer(array, index, size):
            data = context.make_array(signature.args[array])(context, builder, args[array]).data
            vector = ir.VectorType(ir.FloatType(), size)
            return builder.bitcast(builder.gep(data, [args[index]]), vector.as_pointer())

        def times(numbers, angles):
            matrix = builder.load(pointer(numbers, i, width), align=4)
            phases = builder.load(pointer(angles, j, m), align=4)
            repeated = builder.shuffle_vector(phases, ir.Constant(phases.type, ir.Undefined), twice)
            return builder.fmul(matrix, repeated, flags=("contract",))

        total = builder.fadd(times(q, cos), times(iq, sin), flags=("contract",))
        builder.store(total, pointer(out, i, width), align=4)
        return context.get_dummy_value()

    return types.void(m, out, i, q, iq, cos, sin, j), build


@functools.cache
def rotate_kernel(m: int) -> Callable[[Floats, Floats, Floats, Floats], None]:
    """Return the loop for one m, a compile-time constant: a row of a slot is one vector of 2m real numbers."""

    @compiled
    def rotate(angles: Floats, q: Floats, iq: Floats, out: Floats) -> None:  # pragma: no cover
        """Compute Q · diag(e^{iθ}) for each row of angles: ``(rows, dim * m)`` to ``(rows, 2 * dim * m * m)``."""
        rows, phases = angles.shape
        cos, sin = np.empty(phases, dtype=np.float32), np.empty(phases, dtype=np.float32)
        for row in range(rows):
            cos_sin(angles[row], cos, sin)
            for j in range(phases // m):
                for k in range(m):
                    _rotate_slot_row(m, out[row], 2 * m * (m * j + k), q, iq, cos, sin, m * j)

    return rotate

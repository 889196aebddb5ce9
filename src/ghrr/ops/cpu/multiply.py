r"""The inner loop of all products on the CPU: :math:`C_j = A_j B_j` for each slot, or :math:`C_j` plus that product.

The loop is written in vector instructions, because a compiler that does not know that three arrays do not overlap
processes numbers one by one. With :math:`B_n` the rows of B as stored, pairs of real and imaginary parts, and
:math:`\tilde B_n` the same rows with each pair swapped,

.. math:: C_k = \sum_n \mathrm{Re}(A_{kn}) B_n + \mathrm{Im}(A_{kn}) (\tilde B_n \circ (-1, 1, -1, 1, \dots)),

so a slot takes 2m² products of a row and a number. Signs are applied once, after summing; an adjoint factor changes the
signs and the addresses that are read, but not the arithmetic. Slots with m = 1 or 2 are narrower than a vector: there
several whole slots are multiplied at a time, and A is arranged by shuffling.

Coverage tools cannot trace compiled code, hence the ``no cover`` mark; ``tests/ops`` compares the results with the
reference.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ghrr.ops.cpu.compilation import compiled_callback

_VECTOR_BITS = 512
_FUSED = ("contract",)  # allows fused multiply-add, which is more exact


@functools.cache
def multiply_loop(bits: int, m: int, adjoint_a: bool, adjoint_b: bool, add: bool) -> Any:
    """Compile ``loop(out, a, b, count, step_out, step_a, step_b)`` for one m and reals of 32 or 64 bits.

    The loop takes addresses, a number of slots and the bytes from each slot to the next. With ``add`` it adds to
    ``out``. ``out`` can be one of the factors: a slot is read before it is written. The ``address`` of the loop is
    valid while the loop exists; the cache keeps it.
    """
    slot = 2 * m * m * bits // 8
    many = max(1, _VECTOR_BITS // 8 // slot) if m <= 2 else 0  # slots per vector; 0: a vector is one row of a slot
    single = min(1, many)

    @compiled_callback(types.void(*[types.int64] * 7))
    def loop(out, a, b, count, step_out, step_a, step_b):  # noqa: PLR0917 # pragma: no cover
        j = 0
        if many > 1 and step_out == slot and step_a == slot and step_b == slot:
            while j + many <= count:
                at = j * slot
                multiply_slots(out + at, a + at, b + at, bits, m, many, adjoint_a, adjoint_b, add)
                j += many
        while j < count:
            multiply_slots(
                out + j * step_out, a + j * step_a, b + j * step_b, bits, m, single, adjoint_a, adjoint_b, add
            )
            j += 1

    return loop


@intrinsic(prefer_literal=True)
def multiply_slots(context, out, a, b, bits, m, many, adjoint_a, adjoint_b, add):  # noqa: PLR0917
    """Multiply slots at three addresses. All other arguments are compile-time constants."""
    return types.void(out, a, b, bits, m, many, adjoint_a, adjoint_b, add), _build


def _build(context, builder, signature, args):
    bits, m, many, adjoint_a, adjoint_b, add = (constant.literal_value for constant in signature.args[3:])
    out, a, b = args[:3]
    code = _Code(builder, bits)
    if many:
        width = 2 * m * m * many
        vectors = [(0, _multiply_whole(code, (a, b), m, many, (adjoint_a, adjoint_b)))]
    else:
        width = 2 * m
        vectors = [(width * k, c) for k, c in enumerate(_multiply_rows(code, (a, b), m, (adjoint_a, adjoint_b)))]
    for at, vector in vectors:  # after all of A and B are loaded
        code.store(code.plus(vector, code.load(out, at, width)) if add else vector, out, at)
    return context.get_dummy_value()


def _multiply_rows(code, factors, m, adjoint):
    """Compute the rows of one slot as numbers of A times rows of B."""
    (a, b), (adjoint_a, adjoint_b) = factors, adjoint
    rows = []
    for n in range(m):
        if adjoint_b:  # row n of the adjoint is column n
            rows.append(code.join([code.load(b, 2 * (l * m + n), 2) for l in range(m)]))
        else:
            rows.append(code.load(b, 2 * m * n, 2 * m))
    swapped = [code.pick(row, [lane ^ 1 for lane in range(2 * m)]) for row in rows]
    for k in range(m):
        straight = crossed = None
        for n in range(m):
            at = 2 * (n * m + k if adjoint_a else k * m + n)
            straight = code.plus(straight, code.times(code.broadcast(code.load(a, at, 1), 2 * m), rows[n]))
            crossed = code.plus(crossed, code.times(code.broadcast(code.load(a, at + 1, 1), 2 * m), swapped[n]))
        yield code.with_signs(straight, crossed, adjoint)


def _multiply_whole(code, factors, m, many, adjoint):
    """Compute whole slots. The lanes of a vector are the numbers (slot, k, l, part) in this order."""
    adjoint_a, adjoint_b = adjoint
    numbers = [(s, k, l, part) for s in range(many) for k in range(m) for l in range(m) for part in range(2)]

    def lane(s, k, l, part, adjoint):
        row, column = (l, k) if adjoint else (k, l)
        return 2 * ((s * m + row) * m + column) + part

    whole_a, whole_b = (code.load(x, 0, len(numbers)) for x in factors)
    straight = crossed = None
    for n in range(m):
        re, im = (code.pick(whole_a, [lane(s, k, n, part, adjoint_a) for s, k, _, _ in numbers]) for part in (0, 1))
        row = code.pick(whole_b, [lane(s, n, l, part, adjoint_b) for s, _, l, part in numbers])
        swapped = code.pick(whole_b, [lane(s, n, l, 1 - part, adjoint_b) for s, _, l, part in numbers])
        straight = code.plus(straight, code.times(re, row))
        crossed = code.plus(crossed, code.times(im, swapped))
    return code.with_signs(straight, crossed, adjoint)


class _Code:
    """Emits instructions on vectors of reals at addresses."""

    def __init__(self, builder, bits):
        self.builder = builder
        self.real = ir.FloatType() if bits == 32 else ir.DoubleType()
        self.bytes = bits // 8

    def _pointer(self, address, index, kind):
        at = self.builder.add(address, ir.Constant(address.type, index * self.bytes))
        return self.builder.inttoptr(at, kind.as_pointer())

    def load(self, address, index, width):
        kind = self.real if width == 1 else ir.VectorType(self.real, width)
        return self.builder.load(self._pointer(address, index, kind), align=self.bytes)

    def store(self, vector, address, index):
        self.builder.store(vector, self._pointer(address, index, vector.type), align=self.bytes)

    def pick(self, vector, lanes, other=None):
        """Return a vector of the given lanes; those after the last lane of ``vector`` come from ``other``."""
        mask = ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)
        return self.builder.shuffle_vector(vector, other or ir.Constant(vector.type, ir.Undefined), mask)

    def broadcast(self, number, width):
        """Return a vector of equal numbers."""
        undefined = ir.Constant(ir.VectorType(self.real, width), ir.Undefined)
        return self.pick(self.builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0)), [0] * width)

    def join(self, vectors):
        """Concatenate vectors."""
        if len(vectors) == 1:
            return vectors[0]
        half = (len(vectors) + 1) // 2
        first, second = self.join(vectors[:half]), self.join(vectors[half:])
        size, rest = first.type.count, second.type.count
        second = self.pick(second, [min(lane, rest - 1) for lane in range(size)])  # to equal widths
        return self.pick(first, list(range(size + rest)), second)

    def times(self, x, y):
        return self.builder.fmul(x, y, flags=_FUSED)

    def plus(self, x, y):
        return y if x is None else self.builder.fadd(x, y, flags=_FUSED)

    def with_signs(self, straight, crossed, adjoint):
        """Combine Σ Re a (re, im) and Σ Im a (im, re) to Σ a b, with the conjugates of either factor."""
        adjoint_a, adjoint_b = adjoint
        sign = -1.0 if adjoint_a else 1.0
        signs = ((1.0, -1.0), (sign, sign)) if adjoint_b else ((1.0, 1.0), (-sign, sign))
        parts = (
            self.times(x, ir.Constant(x.type, list(pair) * (x.type.count // 2)))
            for x, pair in zip((straight, crossed), signs, strict=True)
        )
        return self.plus(*parts)

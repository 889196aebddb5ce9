r"""The inner loop of all products on the CPU: :math:`C_j = A_j B_j` for each slot, or :math:`C_j` plus that product.

The loop is written in vector instructions, because a compiler that does not know that three arrays do not overlap
processes numbers one by one. With :math:`B_n` the rows of B as stored, pairs of real and imaginary parts, and
:math:`\tilde B_n` the same rows with each pair swapped,

.. math:: C_k = \sum_n \mathrm{Re}(A_{kn}) B_n + \mathrm{Im}(A_{kn}) (\tilde B_n \circ (-1, 1, -1, 1, \dots)),

so a slot takes 2m² products of a row and a number. Signs are applied once, after summing; an adjoint factor changes the
signs and the addresses that are read, but not the arithmetic. Rows that are narrower than a vector share it. For m = 1
or 2 a vector holds several whole slots; for larger m it holds the same row of several slots, with lanes left over if
2m is no power of two.

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
    whole = m <= 2  # of whole slots, only contiguous ones can share a vector
    many = max(1, _VECTOR_BITS // bits // (2 * m * m if whole else _lanes(m, bits)))

    @compiled_callback(types.void(*[types.int64] * 7))
    def loop(out, a, b, count, step_out, step_a, step_b):  # noqa: PLR0917 # pragma: no cover
        j = 0
        if many > 1 and (not whole or (step_out == slot and step_a == slot and step_b == slot)):
            while j + many <= count:
                to, at_a, at_b = out + j * step_out, a + j * step_a, b + j * step_b
                multiply_slots(to, at_a, at_b, step_out, step_a, step_b, bits, m, many, adjoint_a, adjoint_b, add)
                j += many
        while j < count:
            to, at_a, at_b = out + j * step_out, a + j * step_a, b + j * step_b
            multiply_slots(to, at_a, at_b, step_out, step_a, step_b, bits, m, 1, adjoint_a, adjoint_b, add)
            j += 1

    return loop


def _lanes(m, bits):
    """Return the lanes of a row: more than its 2m reals if a vector of that many lanes exists and 2m is less."""
    rounded = 1 << (2 * m - 1).bit_length()
    return rounded if rounded * bits <= _VECTOR_BITS else 2 * m


@intrinsic(prefer_literal=True)
def multiply_slots(context, out, a, b, step_out, step_a, step_b, bits, m, many, adjoint_a, adjoint_b, add):  # noqa: PLR0917
    """Multiply ``many`` slots, the first of them at three addresses. From ``bits`` on, arguments are constants."""
    return types.void(out, a, b, step_out, step_a, step_b, bits, m, many, adjoint_a, adjoint_b, add), _build


def _build(context, builder, signature, args):
    bits, m, many, adjoint_a, adjoint_b, add = (constant.literal_value for constant in signature.args[6:])
    code, adjoint = _Code(builder, bits), (adjoint_a, adjoint_b)
    if m <= 2:
        out, a, b = args[:3]
        vectors = [(out, 0, _multiply_whole(code, (a, b), m, many, adjoint))]
    else:
        out, a, b = (
            [code.advance(x, step, s) for s in range(many)] for x, step in zip(args[:3], args[3:6], strict=True)
        )
        vectors = list(_multiply_rows(code, (out, a, b), m, adjoint))
    if add:
        vectors = [(to, at, code.plus(vector, code.load(to, at, vector.type.count))) for to, at, vector in vectors]
    # After everything is loaded, and in the order of rows: the lanes after a row are overwritten by the next row.
    for to, at, vector in vectors:
        code.store(vector, to, at)
    return context.get_dummy_value()


def _multiply_rows(code, addresses, m, adjoint):
    """Compute the rows of slots as numbers of A times rows of B; return the slot, index and lanes of each row."""
    (out, a, b), (adjoint_a, adjoint_b) = addresses, adjoint
    lanes = _lanes(m, code.bits)
    fits = lanes * code.bits <= _VECTOR_BITS

    def row(x, n):
        """Load row n of each slot; of the last row, the lanes before it too, since those after it may not exist."""
        last = n == m - 1
        loaded = [code.load(slot, 2 * m * m - lanes if last else 2 * m * n, lanes) for slot in x]
        if last and lanes > 2 * m:
            loaded = [code.pick(y, [(lane + lanes - 2 * m) % lanes for lane in range(lanes)]) for y in loaded]
        return code.join(loaded)

    def column(x, n):
        parts = [code.join([code.load(slot, 2 * (l * m + n), 2) for l in range(m)]) for slot in x]
        return code.join([code.pick(y, [min(lane, 2 * m - 1) for lane in range(lanes)]) for y in parts])

    def number(k, n, part):
        """Return a number of A in all lanes of its slot. For one slot, loads and shuffles share the work."""
        at = 2 * n + part
        if len(a) == 1 and (part or not fits):
            return code.broadcast(code.load(a[0], 2 * m * k + at, 1), lanes)
        return code.pick(rows_a[k], [s * lanes + at for s in range(len(a)) for _ in range(lanes)])

    rows = [column(b, n) if adjoint_b else row(b, n) for n in range(m)]  # row n of the adjoint is column n
    rows_a = [row(a, k) for k in range(m)] if fits else []
    swapped = [code.pick(x, [lane ^ 1 for lane in range(x.type.count)]) for x in rows]
    for k in range(m):
        straight = crossed = None
        for n in range(m):
            re, im = (number(*((n, k) if adjoint_a else (k, n)), part) for part in (0, 1))
            straight = code.plus(straight, code.times(re, rows[n]))
            crossed = code.plus(crossed, code.times(im, swapped[n]))
        total = code.with_signs(straight, crossed, adjoint)
        width = 2 * m if k == m - 1 else lanes
        for s, to in enumerate(out):
            yield to, 2 * m * k, code.pick(total, [s * lanes + lane for lane in range(width)])


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
        self.builder, self.bits = builder, bits
        self.real = ir.FloatType() if bits == 32 else ir.DoubleType()
        self.bytes = bits // 8

    def advance(self, address, step, count):
        """Return the address of a later slot."""
        return self.builder.add(address, self.builder.mul(step, ir.Constant(step.type, count)))

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

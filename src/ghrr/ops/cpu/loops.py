"""Compiled loops over slots: binding, bundling, chains, powers and similarity.

Each loop takes the address of an inner loop (:mod:`ghrr.ops.cpu.multiply`), and is therefore compiled once and not for
every m. Operands are given by addresses and a ``table`` of strides (:mod:`ghrr.ops.strides`); the slots of the result
are contiguous, ``slot`` bytes each. A call processes the slots from ``start`` to ``stop``, so that the work can be
divided between threads. The loops release the interpreter's lock and do not use threads or PyTorch.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/ops`` compares the results with the
reference.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ghrr.ops.cpu.compilation import compiled

# Bytes of the result that are computed at a time, to stay in the first-level cache.
_BLOCK = 8192
# Items summed before they are added to the result: rounding errors grow with the size of groups and their number.
_GROUP = 128


def _compiled(function):
    # Also allows sums in another order, for vector instructions. NaN and infinity keep their meaning.
    return compiled(function, {"contract", "reassoc"})


@intrinsic
def multiply(context, loop, out, a, b, count, step_out, step_a, step_b):  # noqa: PLR0917
    """Call an inner loop by its address."""

    def build(context, builder, signature, args):
        number = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [number] * 7)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 8), build


@intrinsic
def _pointer(context, address, like):
    """Cast an address to a pointer to the numbers of an array's dtype."""

    def build(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.int64, like), build


@_compiled
def _offset(position, sizes, strides):  # pragma: no cover
    """Compute the bytes from the start of an operand to a slot."""
    offset = 0
    for axis in range(len(sizes) - 1, -1, -1):
        outer = position // sizes[axis]
        offset += (position - outer * sizes[axis]) * strides[axis]
        position = outer
    return offset


@_compiled
def _run_length(position, stop, table, largest):  # pragma: no cover
    """Compute the number of slots from here on with equal strides."""
    count, rest = table[0, -1] - position % table[0, -1], stop - position
    count = count if count < rest else rest  # several times as fast to compile as min
    return count if count < largest else largest if largest > 1 else 1


@_compiled
def bind(start, stop, product, slot, table, out, a, b):  # noqa: PLR0917 # pragma: no cover
    """Compute A B for each slot."""
    position = start
    while position < stop:
        count = _run_length(position, stop, table, stop)
        at_a, at_b = a + _offset(position, table[0], table[1]), b + _offset(position, table[0], table[2])
        multiply(product, out + position * slot, at_a, at_b, count, slot, table[1, -1], table[2, -1])
        position += count


@_compiled
def bind_flat(product, out, a, b, count, slot):  # noqa: PLR0917 # pragma: no cover
    """Compute A B for ``count`` contiguous slots."""
    multiply(product, out, a, b, count, slot, slot, slot)


@_compiled
def bind_bundle(start, stop, product, slot, table, out, items, a, a_item, b, b_item):  # noqa: PLR0917 # pragma: no cover
    """Sum A B over items; ``out`` is an array of reals, ``product`` an inner loop that adds."""
    reals = slot // out.itemsize
    part = np.empty(max(1, _BLOCK // slot) * reals, dtype=out.dtype)
    position = start
    while position < stop:
        count = _run_length(position, stop, table, _BLOCK // slot)
        at_a, at_b = a + _offset(position, table[0], table[1]), b + _offset(position, table[0], table[2])
        total = out[position * reals : (position + count) * reals]
        total[:] = 0
        for group in range(0, items, _GROUP):
            part[:] = 0
            for n in range(group, min(items, group + _GROUP)):
                to, from_a, from_b = part.ctypes.data, at_a + n * a_item, at_b + n * b_item
                multiply(product, to, from_a, from_b, count, slot, table[1, -1], table[2, -1])
            for i in range(count * reals):
                total[i] += part[i]
        position += count


@_compiled
def bind_bags(start, stop, product, out, dim, slot, a, a_row, a_slot, b, b_row, b_slot, a_at, b_at, bags):  # noqa: PLR0917 # pragma: no cover
    """Sum A B over the pairs of each bag, for the bags from start to stop; otherwise as ``bind_bundle``."""
    reals = slot // out.itemsize
    most = max(1, _BLOCK // slot)
    part = np.empty(most * reals, dtype=out.dtype)
    for row in range(start, stop):
        for position in range(0, dim, most):
            count = min(most, dim - position)
            total = out[(row * dim + position) * reals : (row * dim + position + count) * reals]
            total[:] = 0
            from_a, from_b = a + position * a_slot, b + position * b_slot
            for group in range(bags[row], bags[row + 1], _GROUP):
                part[:] = 0
                for n in range(group, min(bags[row + 1], group + _GROUP)):
                    at_a, at_b = from_a + a_at[n] * a_row, from_b + b_at[n] * b_row
                    multiply(product, part.ctypes.data, at_a, at_b, count, slot, a_slot, b_slot)
                for i in range(count * reals):
                    total[i] += part[i]


@_compiled
def multibind(start, stop, product, slot, table, out, items, a, a_item):  # noqa: PLR0917 # pragma: no cover
    """Multiply two or more items, from the last to the first: the product so far is the right factor."""
    position, step = start, table[1, -1]
    while position < stop:
        count = _run_length(position, stop, table, _BLOCK // slot)
        to, item = out + position * slot, a + _offset(position, table[0], table[1]) + (items - 2) * a_item
        multiply(product, to, item, item + a_item, count, slot, step, step)
        for _ in range(items - 2):
            item -= a_item
            multiply(product, to, item, to, count, slot, step, slot)
        position += count


@_compiled
def whole_power(start, stop, product, slot, table, out, exponent, a):  # noqa: PLR0917 # pragma: no cover
    """Raise to a power of at least 2: square for every binary digit after the first, multiply by A if it is 1."""
    position, step = start, table[1, -1]
    digits = 0
    while exponent >> (digits + 1):
        digits += 1
    while position < stop:
        count = _run_length(position, stop, table, _BLOCK // slot)
        to, base = out + position * slot, a + _offset(position, table[0], table[1])
        for digit in range(digits - 1, -1, -1):
            if digit == digits - 1:
                multiply(product, to, base, base, count, slot, step, step)
            else:
                multiply(product, to, to, to, count, slot, slot, slot)
            if (exponent >> digit) & 1:
                multiply(product, to, base, to, count, slot, step, slot)
        position += count


@_compiled
def bind_similarity(start, stop, product, slot, table, dim, sums, kind, a, b, c):  # noqa: PLR0917 # pragma: no cover
    """Add Re tr(A B C†) of the ``dim`` slots of each row to ``sums``; ``kind`` is an array of the reals' dtype."""
    reals, step = slot // kind.itemsize, table[3, -1]
    part = np.empty(max(1, _BLOCK // slot) * reals, dtype=kind.dtype)
    position = start
    while position < stop:
        count = min(_run_length(position, stop, table, _BLOCK // slot), dim - position % dim)
        at_a, at_b, at_c = (
            a + _offset(position, table[0], table[1]),
            b + _offset(position, table[0], table[2]),
            c + _offset(position, table[0], table[3]),
        )
        multiply(product, part.ctypes.data, at_a, at_b, count, slot, table[1, -1], table[2, -1])
        if step == slot:
            sums[position // dim] += _dot(part, at_c, count * reals)
        else:
            for j in range(count):
                sums[position // dim] += _dot(part[j * reals :], at_c + j * step, reals)
        position += count


@_compiled
def _dot(x, address, size):  # pragma: no cover
    y = carray(_pointer(address, x), size)
    total = x[0] * y[0]
    for i in range(1, size):
        total += x[i] * y[i]
    return total


@_compiled
def similarity(start, stop, size, scale, kind, out, a, b):  # noqa: PLR0917 # pragma: no cover
    """Compute scaled inner products of rows of ``size`` reals; blocks are added in double precision."""
    x, y = carray(_pointer(a, kind), stop * size), carray(_pointer(b, kind), stop * size)
    to = carray(_pointer(out, kind), stop)
    for row in range(start, stop):
        total = 0.0
        for first in range(row * size, (row + 1) * size, _BLOCK):
            total += _inner_product(x[first : min(first + _BLOCK, (row + 1) * size)], y[first:])
        to[row] = total * scale


@_compiled
def _inner_product(x, y):  # pragma: no cover
    total = x[0] * y[0]
    for i in range(1, len(x)):
        total += x[i] * y[i]
    return total

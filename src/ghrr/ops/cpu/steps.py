"""Steps of arithmetic on slots as vector instructions, procedures that loop over them, and their common parts.

A compiled loop calls steps and procedures with the addresses of rows, and decides which rows are next, so that one loop
serves matrices of every size. Each is generated as one function for each precision, which all calls share. Ordinary
compiled loops over slots take several seconds to compile: numba analyses every copy of a function, and LLVM has to find
out that rows do not overlap and that m is small.
"""

# Types of generated code are known when it is generated.
# mypy: ignore-errors

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ghrr.ops.cpu.lanes import SLOTS, VECTOR_BYTES, Lanes, Rows, bytes_of, vector_of

_INDEX = ir.IntType(64)
_UNROLLED = 8  # slots copied at a time


def step(function: Callable[..., Lanes | None]) -> Any:
    """Compile a function of rows and numbers: ``function(rows, ..., number, ...)``.

    In a compiled loop it is called as ``function(bits, (address, ...), (number, ...))``, processes all slots, and
    returns whether the condition that the function returns is true for any slot. ``function.emit`` is the same call in
    a :func:`procedure`.
    """

    def emit_call(builder, kind, bits, addresses, numbers):
        def emit(builder, real, *values):
            return _all_slots(builder, real, function, values[: len(addresses)], values[len(addresses) :])

        return _call(builder, [kind], [bits], function, emit, ir.IntType(1), [*addresses, *numbers])

    @intrinsic(prefer_literal=True)
    def call(context, bits, addresses, numbers):
        def build(context, builder, signature, args):
            addresses, numbers = (cgutils.unpack_tuple(builder, x) for x in args[1:])
            return emit_call(builder, signature.args[0], args[0], addresses, numbers)

        return types.boolean(bits, addresses, numbers), build

    def emit(code: Code, addresses: Any, numbers: Any = ()) -> Number:
        values = ([code.number(x).value for x in each] for each in (addresses, numbers))
        return Number(code.builder, emit_call(code.builder, code.kind, code.bits, *values))

    call.emit = emit
    return call


class Number:
    """An integer, a real number or a condition at run time, while code is generated: operators emit instructions."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _emit(self, instruction: str, *operands: Any) -> Number:
        values = [x.value if isinstance(x, Number) else ir.Constant(self.value.type, x) for x in operands]
        return Number(self.builder, getattr(self.builder, instruction)(*values))

    def __add__(self, other: Any) -> Number:
        return self._emit("add", self, other)

    def __sub__(self, other: Any) -> Number:
        return self._emit("sub", self, other)

    def __mul__(self, other: Any) -> Number:
        return self._emit("mul", self, other)

    def __or__(self, other: Number) -> Number:
        return self._emit("or_", self, other)

    def equals(self, other: Any) -> Number:
        """Return whether two integers are equal."""
        return Number(self.builder, self.builder.icmp_signed("==", self.value, self._emit("add", other, 0).value))

    def where(self, yes: Any, no: Any) -> Number:
        """Return one of two integers, or of two constant reals, by a condition."""
        values = [Code.constant(x) if not isinstance(x, Number) else x.value for x in (yes, no)]
        return Number(self.builder, self.builder.select(self.value, *values))

    __radd__, __rmul__ = __add__, __mul__


class Code:
    """The code of a procedure while it is generated: its loops, and the precision of its steps."""

    def __init__(self, builder: Any, kind: Any, bits: Any) -> None:
        self.builder, self.kind, self.bits = builder, kind, bits

    @staticmethod
    def constant(x: float) -> Any:
        return ir.Constant(_INDEX if isinstance(x, int) else ir.DoubleType(), x)

    def number(self, x: Any) -> Number:
        """Return a number at run time."""
        return x if isinstance(x, Number) else Number(self.builder, self.constant(x))

    def range(self, start: Any, stop: Any = None) -> Iterator[Number]:
        """Generate a loop, whose body is what is generated before the next item is taken."""
        start, stop = (0, start) if stop is None else (start, stop)
        start, stop = self.number(start).value, self.number(stop).value
        with cgutils.for_range(self.builder, stop, start=start) as loop:
            yield Number(self.builder, loop.index)

    def any(self) -> Any:
        """Return a place for a condition, false at first."""
        return cgutils.alloca_once_value(self.builder, ir.Constant(ir.IntType(1), 0))

    def note(self, place: Any, condition: Number) -> None:
        """Set the condition at a place if another one is true."""
        self.builder.store(self.builder.or_(self.builder.load(place), condition.value), place)


def procedure(result: Any = types.void) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that generates loops over steps, in a tenth of the time that numba needs for such loops.

    ``function(code, number, ...)`` is called in a compiled loop as ``function(bits, (number, ...))``. It generates its
    loops with ``code.range``, and calls steps and other procedures with ``function.emit(code, ...)``. With
    ``result=types.boolean`` it returns a place of ``code.any``.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        def emit_call(builder, kind, bits, values):
            is_known = isinstance(kind, types.Literal)

            def emit(builder, *values):
                code = Code(builder, kind, values[0])
                place = function(code, *[Number(builder, x) for x in values[1:]])
                return None if place is None else builder.load(place)

            kind_of_result = ir.VoidType() if result is types.void else ir.IntType(1)
            given = [ir.Constant(_INDEX, kind.literal_value) if is_known else bits, *values]
            key = kind.literal_value if is_known else 0
            return builder.call(_shared(builder.module, function, emit, key, kind_of_result, given), given)

        @intrinsic(prefer_literal=True)
        def call(context, bits, numbers):
            def build(context, builder, signature, args):
                called = emit_call(builder, signature.args[0], args[0], cgutils.unpack_tuple(builder, args[1]))
                return context.get_dummy_value() if result is types.void else called

            return result(bits, numbers), build

        def emit(code: Code, *values: Any) -> None:
            emit_call(code.builder, code.kind, code.bits, [code.number(x).value for x in values])

        call.emit = emit
        return call

    return decorate


def _call(builder, kinds, bits, name, emit, result, values):  # noqa: PLR0917
    """Call code that exists for 32 and for 64 bits, and is a function of its own, so that several calls share it.

    ``bits`` are one or two numbers, each known when the loop is compiled or when it runs. For each of them
    ``emit(builder, real, ..., *values)`` gets a type.
    """
    chosen = [(kind.literal_value,) if isinstance(kind, types.Literal) else (32, 64) for kind in kinds]
    functions = {}
    for each in itertools.product(*chosen):
        typed = functools.partial(_with_types, emit, [ir.FloatType() if x == 32 else ir.DoubleType() for x in each])
        functions[each] = _shared(builder.module, name, typed, each, result, values)
    for axis in reversed(range(len(kinds))):
        shorter = {each[:axis]: {} for each in functions}
        for each, function in functions.items():
            shorter[each[:axis]][each[axis]] = function
        functions = {
            each: one[64] if len(one) == 2 and one.get(32) is one[64] else _select(builder, bits[axis], one)
            for each, one in shorter.items()
        }
    return builder.call(functions[()], values)


def _select(builder: Any, bits: Any, functions: Any) -> Any:
    if len(functions) == 1:
        return next(iter(functions.values()))
    is_single = builder.icmp_signed("==", bits, ir.Constant(bits.type, 32))
    return builder.select(is_single, functions[32], functions[64])


def _with_types(emit, reals, builder, *values):
    return emit(builder, *reals, *values)


def _shared(module, name, emit, key, result, values):  # noqa: PLR0917
    """Return a function of a module, which is added at its first use."""
    kind = ir.FunctionType(result, [x.type for x in values])
    # Two steps can have one name; a step has one address.
    function = cgutils.get_or_insert_function(module, kind, f"{name.__qualname__}.{id(name)}.{key}")
    if function.is_declaration:
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        value = emit(builder, *function.args)
        builder.ret_void() if isinstance(result, ir.VoidType) else builder.ret(value)
    return function


def _all_slots(builder: Any, real: Any, function: Any, addresses: Any, numbers: Any) -> Any:
    """Apply a step to all slots; return whether its condition is true for any of them."""
    vector = vector_of(real)
    scalars = [_broadcast(builder, x, vector) for x in numbers]
    any_slot = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
    with cgutils.for_range(builder, _blocks(builder, vector)) as loop:
        offset = builder.mul(loop.index, ir.Constant(_INDEX, VECTOR_BYTES))
        result = function(*[Rows(builder, builder.add(x, offset), real) for x in addresses], *scalars)
        if result is not None:
            bits_of_slots = builder.bitcast(result.value, ir.IntType(vector.count))
            found = builder.icmp_unsigned("!=", bits_of_slots, ir.Constant(bits_of_slots.type, 0))
            builder.store(builder.or_(builder.load(any_slot), found), any_slot)
    return builder.load(any_slot)


def _blocks(builder: Any, vector: Any) -> Any:
    """Return the number of vectors in a row. The compiler does not see that it is constant, and unrolls no loop."""
    number = ir.Constant(_INDEX, SLOTS // vector.count)
    return builder.asm(ir.FunctionType(_INDEX, [_INDEX]), "", "=r,0", [number], side_effect=False)


def _broadcast(builder: Any, number: Any, vector: Any) -> Lanes:
    number = builder.fptrunc(number, vector.element) if number.type != vector.element else number
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return Lanes(builder, builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), zeros))


def _sum_of_products(conjugate: bool) -> Any:
    def emit(builder, real, out, a, step_a, b, step_b, count):  # noqa: PLR0917
        vector = vector_of(real)
        zero = ir.Constant(vector, [0.0] * vector.count)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        with cgutils.for_range(builder, _blocks(builder, vector)) as block:
            offset = builder.mul(block.index, ir.Constant(_INDEX, VECTOR_BYTES))
            for part in sums:
                builder.store(zero, part)
            with cgutils.for_range(builder, count) as item:
                first, second = (
                    Rows(builder, builder.add(builder.add(x, offset), builder.mul(item.index, step)), real)
                    for x, step in ((a, step_a), (b, step_b))
                )
                re, im = (Lanes(builder, builder.load(part)) for part in sums)
                imag = -first[1] if conjugate else first[1]
                re, im = re + first[0] * second[0] - imag * second[1], im + first[0] * second[1] + imag * second[0]
                builder.store(re.value, sums[0])
                builder.store(im.value, sums[1])
            target = Rows(builder, builder.add(out, offset), real)
            for n, part in enumerate(sums):
                target[n] = Lanes(builder, builder.load(part))

    def emit_call(code: Code, *numbers: Any) -> None:
        values = [code.number(x).value for x in numbers]
        _call(code.builder, [code.kind], [code.bits], emit, emit, ir.VoidType(), values)

    return emit_call


# In a procedure: out = Σ_n a_n b_n, and the same with the conjugates of a_n, from the addresses of entries, the bytes
# from each to the next, and the number of terms.
sum_of_products, sum_of_conjugate_products = _sum_of_products(False), _sum_of_products(True)


def _transfer(to_rows: bool) -> Any:
    def emit(builder, real, outer, rows, slots, size, count):  # noqa: PLR0917
        """Convert between rows and ``count`` slots, each ``size`` successive reals of another type."""
        integer = functools.partial(ir.Constant, _INDEX)
        stride = builder.mul(size, integer(bytes_of(outer)))
        last = builder.sub(count, integer(1))

        def convert(inside, outside):
            (source, kind), (target, other) = ((outside, outer), (inside, real))[:: 1 if to_rows else -1]
            value = builder.load(builder.inttoptr(source, kind.as_pointer()))
            if kind != other:
                value = (builder.fpext if bytes_of(other) > bytes_of(kind) else builder.fptrunc)(value, other)
            builder.store(value, builder.inttoptr(target, other.as_pointer()))

        with cgutils.for_range(builder, size) as number:
            row = builder.add(rows, builder.mul(number.index, integer(SLOTS * bytes_of(real))))
            column = builder.add(slots, builder.mul(number.index, integer(bytes_of(outer))))
            blocks = builder.sdiv(count, integer(_UNROLLED))
            with cgutils.for_range(builder, blocks) as block:
                inside = builder.add(row, builder.mul(block.index, integer(_UNROLLED * bytes_of(real))))
                outside = builder.add(column, builder.mul(builder.mul(block.index, integer(_UNROLLED)), stride))
                for k in range(_UNROLLED):
                    convert(builder.add(inside, integer(k * bytes_of(real))), outside)
                    outside = builder.add(outside, stride)
            stop = integer(SLOTS) if to_rows else count
            with cgutils.for_range(builder, stop, start=builder.mul(blocks, integer(_UNROLLED))) as slot:
                is_known = builder.icmp_signed("<", slot.index, last)
                of = builder.select(is_known, slot.index, last)  # the last slot fills the rest of a row
                inside = builder.add(row, builder.mul(slot.index, integer(bytes_of(real))))
                convert(inside, builder.add(column, builder.mul(of, stride)))

    @intrinsic(prefer_literal=True)
    def call(context, bits, bits_of_slots, rows, slots, size, count):  # noqa: PLR0917
        def build(context, builder, signature, args):
            _call(builder, signature.args[:2], args[:2], emit, emit, ir.VoidType(), args[2:])
            return context.get_dummy_value()

        return types.void(bits, bits_of_slots, *[types.int64] * 4), build

    return call


# Fill rows with slots, and write slots from rows: ``load(bits, bits_of_slots, rows, slots, size, count)``, where rows
# and slots are addresses, and a slot is ``size`` reals.
load, store = _transfer(True), _transfer(False)


@procedure()
def gram(code, m, entry, x, g):
    """Compute G = X^H X; ``entry`` is the number of bytes from one entry to the next."""
    row = m * entry
    for j in code.range(m):
        for k in code.range(m):
            sum_of_conjugate_products(code, g + (j * m + k) * entry, x + j * entry, row, x + k * entry, row, m)


@step
def _three_minus(g, one):
    """Compute an entry of (3 - G) / 2."""
    g[0], g[1] = 1.5 * one - 0.5 * g[0], -0.5 * g[1]


@step
def copy(x, out):
    """Copy an entry."""
    out[0], out[1] = x[0], x[1]


@procedure()
def polish(code, m, entry, x, g, y):  # noqa: PLR0917
    """Do one Newton-Schulz step, X (3 - G) / 2 with G = X^H X, to the nearest unitary matrix; overwrites g and y."""
    for j in code.range(m):
        for k in code.range(m):
            _three_minus.emit(code, (g + (j * m + k) * entry,), (j.equals(k).where(1.0, 0.0),))
    for j in code.range(m):
        for k in code.range(m):
            to = y + (j * m + k) * entry
            sum_of_products(code, to, x + j * m * entry, entry, g + k * entry, m * entry, m)
    for n in code.range(m * m):
        copy.emit(code, (y + n * entry, x + n * entry))

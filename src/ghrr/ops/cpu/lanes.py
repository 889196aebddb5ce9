"""Arithmetic on one entry of several matrices at a time, for the loops over unitary slots.

A *row* holds the same number of ``SLOTS`` slots, for example the real part of an entry; a complex entry has two rows
in succession. The steps of an algorithm are Python functions of rows, written like scalar code and decorated with
:func:`step`. A compiled loop calls them with the addresses of rows, and decides which rows are next, so that one loop
serves matrices of every size. A step becomes vector instructions directly. Ordinary compiled loops over slots take
several seconds to compile, most of them to find out that rows do not overlap and that m is small.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks.
"""

# Types of generated code are known when it is generated.
# mypy: ignore-errors

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SLOTS = 64
_VECTOR_BYTES = 64
_INDEX = ir.IntType(64)
_UNROLLED = 8  # slots copied at a time
_FUSED = ("contract",)  # allows fused multiply-add, which is more exact


class Lanes:
    """A number of several slots, while code is generated: operators emit instructions."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _like(self, other: Any) -> Any:
        """Return a value of the same type as this one: of other lanes, of a number for all slots, or of a constant."""
        if isinstance(other, Lanes):
            return other.value
        return ir.Constant(self.value.type, [other] * self.value.type.count)

    def _emit(self, instruction: str, *operands: Any, **options: Any) -> Lanes:
        values = [self._like(x) for x in operands]
        return Lanes(self.builder, getattr(self.builder, instruction)(*values, **options))

    def call(self, name: str, *operands: Any) -> Lanes:
        """Call a function of LLVM."""
        values = [self._like(x) for x in operands]
        kind = self.value.type
        bits = 32 if isinstance(kind.element, ir.FloatType) else 64
        signature = ir.FunctionType(kind, [kind] * len(values))
        function = cgutils.get_or_insert_function(self.builder.module, signature, f"{name}.v{kind.count}f{bits}")
        return Lanes(self.builder, self.builder.call(function, values))

    def constant(self, number: float) -> Lanes:
        """Return a number of the same type for all slots."""
        return Lanes(self.builder, self._like(number))

    def __add__(self, other: Any) -> Lanes:
        return self._emit("fadd", self, other, flags=_FUSED)

    def __sub__(self, other: Any) -> Lanes:
        return self._emit("fsub", self, other, flags=_FUSED)

    def __mul__(self, other: Any) -> Lanes:
        return self._emit("fmul", self, other, flags=_FUSED)

    def __truediv__(self, other: Any) -> Lanes:
        return self._emit("fdiv", self, other, flags=_FUSED)

    def __rsub__(self, other: Any) -> Lanes:
        return self._emit("fsub", other, self, flags=_FUSED)

    def __rtruediv__(self, other: Any) -> Lanes:
        return self._emit("fdiv", other, self, flags=_FUSED)

    def __neg__(self) -> Lanes:
        return self._emit("fneg", self)

    def __lt__(self, other: Any) -> Lanes:
        return self._emit_comparison("<", other)

    def __le__(self, other: Any) -> Lanes:
        return self._emit_comparison("<=", other)

    def __gt__(self, other: Any) -> Lanes:
        return self._emit_comparison(">", other)

    def __ge__(self, other: Any) -> Lanes:
        return self._emit_comparison(">=", other)

    def _emit_comparison(self, sign: str, other: Any) -> Lanes:
        return Lanes(self.builder, self.builder.fcmp_ordered(sign, self.value, self._like(other)))

    def __invert__(self) -> Lanes:
        return Lanes(self.builder, self.builder.not_(self.value))

    def __and__(self, other: Lanes) -> Lanes:
        return self._emit("and_", self, other)

    def __or__(self, other: Lanes) -> Lanes:
        return self._emit("or_", self, other)

    __radd__, __rmul__ = __add__, __mul__


def where(condition: Lanes, yes: Any, no: Any) -> Lanes:
    """Select numbers slot by slot."""
    like = yes if isinstance(yes, Lanes) else no
    values = like._like(yes), like._like(no)
    return Lanes(condition.builder, condition.builder.select(condition.value, *values))


def sqrt(x: Lanes) -> Lanes:
    """Compute square roots."""
    return x.call("llvm.sqrt", x)


def absolute(x: Lanes) -> Lanes:
    """Compute absolute values."""
    return x.call("llvm.fabs", x)


def nearest(x: Lanes) -> Lanes:
    """Round to whole numbers."""
    return x.call("llvm.rint", x)


# Taylor series of sin(2πx) / x and cos(2πx) in x², truncated where the next term is below rounding up to x = 1/8.
_SIN = tuple((-1) ** n * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1) for n in range(9))
_COS = tuple((-1) ** n * (2 * math.pi) ** (2 * n) / math.factorial(2 * n) for n in range(9))


def series(coefficients: Sequence[float], x: Lanes) -> Lanes:
    """Compute a polynomial of at least two terms."""
    total = coefficients[-2] + coefficients[-1] * x
    for c in coefficients[-3::-1]:
        total = c + total * x
    return total


def cos_sin(turns: Lanes, terms: int) -> tuple[Lanes, Lanes]:
    """Compute the cosine and sine of angles in turns (360°), with six terms of series for single precision or nine.

    Subtracting whole and quarter turns is exact, which it would not be in radians.
    """
    angle = turns - nearest(turns)
    quarters = nearest(4.0 * angle)  # from -2 to 2
    angle = angle - 0.25 * quarters
    s, c = angle * series(_SIN[:terms], angle * angle), series(_COS[:terms], angle * angle)
    is_odd, is_half = absolute(absolute(quarters) - 1.0) < 0.5, absolute(quarters) > 1.5
    cos, sin = where(is_odd, -s, c), where(is_odd, c, s)
    is_negative = is_half | (quarters < -0.5) & is_odd
    return where(is_negative, -cos, cos), where(is_negative, -sin, sin)


class Complex:
    """A complex number of several slots, while code is generated."""

    def __init__(self, real: Lanes, imag: Lanes) -> None:
        self.real, self.imag = real, imag

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.real + other.real, self.imag + other.imag)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.real - other.real, self.imag - other.imag)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(self.real * other.real - self.imag * other.imag, self.real * other.imag + self.imag * other.real)

    def conjugate(self) -> Complex:
        """Return the complex conjugate."""
        return Complex(self.real, -self.imag)

    def scale(self, factor: Any) -> Complex:
        """Return a real multiple."""
        return Complex(self.real * factor, self.imag * factor)

    def square(self) -> Lanes:
        """Return the square of the absolute value."""
        return self.real * self.real + self.imag * self.imag


class Rows:
    """Rows in memory, while code is generated: ``rows[k]`` loads the k-th row, and an assignment stores it."""

    def __init__(self, builder: Any, address: Any, real: Any) -> None:
        self.builder, self.address = builder, address
        self.single = isinstance(real, ir.FloatType)
        self._bytes = 4 if self.single else 8
        self._vector = ir.VectorType(real, _VECTOR_BYTES // self._bytes)

    def _pointer(self, k: int) -> Any:
        at = self.builder.add(self.address, ir.Constant(_INDEX, k * SLOTS * self._bytes))
        return self.builder.inttoptr(at, self._vector.as_pointer())

    def __getitem__(self, k: int) -> Lanes:
        return Lanes(self.builder, self.builder.load(self._pointer(k), align=self._bytes))

    def __setitem__(self, k: int, x: Lanes | float) -> None:
        value = x.value if isinstance(x, Lanes) else ir.Constant(self._vector, [float(x)] * self._vector.count)
        self.builder.store(value, self._pointer(k), align=self._bytes)

    def matrix(self, m: int) -> list[list[Complex]]:
        """Load a matrix of m by m entries."""
        entries = [Complex(self[2 * n], self[2 * n + 1]) for n in range(m * m)]
        return [entries[m * k : m * k + m] for k in range(m)]

    def set_matrix(self, matrix: list[list[Complex]]) -> None:
        """Store a matrix."""
        for n, x in enumerate(x for row in matrix for x in row):
            self[2 * n], self[2 * n + 1] = x.real, x.imag


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
    vector = _vector(real)
    scalars = [_broadcast(builder, x, vector) for x in numbers]
    any_slot = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
    with cgutils.for_range(builder, _blocks(builder, vector)) as loop:
        offset = builder.mul(loop.index, ir.Constant(_INDEX, _VECTOR_BYTES))
        result = function(*[Rows(builder, builder.add(x, offset), real) for x in addresses], *scalars)
        if result is not None:
            bits_of_slots = builder.bitcast(result.value, ir.IntType(vector.count))
            found = builder.icmp_unsigned("!=", bits_of_slots, ir.Constant(bits_of_slots.type, 0))
            builder.store(builder.or_(builder.load(any_slot), found), any_slot)
    return builder.load(any_slot)


def _bytes(real: Any) -> int:
    return 4 if isinstance(real, ir.FloatType) else 8


def _vector(real: Any) -> Any:
    return ir.VectorType(real, _VECTOR_BYTES // _bytes(real))


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
        vector = _vector(real)
        zero = ir.Constant(vector, [0.0] * vector.count)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        with cgutils.for_range(builder, _blocks(builder, vector)) as block:
            offset = builder.mul(block.index, ir.Constant(_INDEX, _VECTOR_BYTES))
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


# In a procedure: out = Σ_n a_n b_n, and the same with the conjugates of a_n: the addresses of entries, and the bytes to the next one, and the number of terms.
sum_of_products, sum_of_conjugate_products = _sum_of_products(False), _sum_of_products(True)


def _transfer(to_rows: bool) -> Any:
    def emit(builder, real, outer, rows, slots, size, count):  # noqa: PLR0917
        """Convert between rows and ``count`` slots, each ``size`` successive reals of another type."""
        integer = functools.partial(ir.Constant, _INDEX)
        stride = builder.mul(size, integer(_bytes(outer)))
        last = builder.sub(count, integer(1))

        def convert(inside, outside):
            (source, kind), (target, other) = ((outside, outer), (inside, real))[:: 1 if to_rows else -1]
            value = builder.load(builder.inttoptr(source, kind.as_pointer()))
            if kind != other:
                value = (builder.fpext if _bytes(other) > _bytes(kind) else builder.fptrunc)(value, other)
            builder.store(value, builder.inttoptr(target, other.as_pointer()))

        with cgutils.for_range(builder, size) as number:
            row = builder.add(rows, builder.mul(number.index, integer(SLOTS * _bytes(real))))
            column = builder.add(slots, builder.mul(number.index, integer(_bytes(outer))))
            blocks = builder.sdiv(count, integer(_UNROLLED))
            with cgutils.for_range(builder, blocks) as block:
                inside = builder.add(row, builder.mul(block.index, integer(_UNROLLED * _bytes(real))))
                outside = builder.add(column, builder.mul(builder.mul(block.index, integer(_UNROLLED)), stride))
                for k in range(_UNROLLED):
                    convert(builder.add(inside, integer(k * _bytes(real))), outside)
                    outside = builder.add(outside, stride)
            stop = integer(SLOTS) if to_rows else count
            with cgutils.for_range(builder, stop, start=builder.mul(blocks, integer(_UNROLLED))) as slot:
                is_known = builder.icmp_signed("<", slot.index, last)
                of = builder.select(is_known, slot.index, last)  # the last slot fills the rest of a row
                inside = builder.add(row, builder.mul(slot.index, integer(_bytes(real))))
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

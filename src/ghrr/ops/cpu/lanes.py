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

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ghrr.ops.cpu.compilation import inlined

SLOTS = 64
_VECTOR_BYTES = 64
_INDEX = ir.IntType(64)
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
    returns whether the condition that the function returns is true for any slot.
    """

    @intrinsic(prefer_literal=True)
    def call(context, bits, addresses, numbers):
        def build(context, builder, signature, args):
            real = ir.FloatType() if signature.args[0].literal_value == 32 else ir.DoubleType()
            vector = ir.VectorType(real, _VECTOR_BYTES * 8 // signature.args[0].literal_value)
            scalars = [_broadcast(builder, x, vector) for x in cgutils.unpack_tuple(builder, args[2])]
            given = cgutils.unpack_tuple(builder, args[1])
            any_slot = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 0))
            with cgutils.for_range(builder, _blocks(builder, vector)) as loop:
                offset = builder.mul(loop.index, ir.Constant(_INDEX, _VECTOR_BYTES))
                result = function(*[Rows(builder, builder.add(x, offset), real) for x in given], *scalars)
                if result is not None:
                    bits_of_slots = builder.bitcast(result.value, ir.IntType(vector.count))
                    found = builder.icmp_unsigned("!=", bits_of_slots, ir.Constant(bits_of_slots.type, 0))
                    builder.store(builder.or_(builder.load(any_slot), found), any_slot)
            return builder.load(any_slot)

        return types.boolean(bits, addresses, numbers), build

    return call


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
    @intrinsic(prefer_literal=True)
    def call(context, bits, out, a, step_a, b, step_b, count):  # noqa: PLR0917
        def build(context, builder, signature, args):
            real = ir.FloatType() if signature.args[0].literal_value == 32 else ir.DoubleType()
            out, a, step_a, b, step_b, count = args[1:]
            vector = ir.VectorType(real, _VECTOR_BYTES * 8 // signature.args[0].literal_value)
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
            return context.get_dummy_value()

        return types.void(bits, out, a, step_a, b, step_b, count), build

    return call


# out = Σ_n a_n b_n, and the same with the conjugates of a_n: the addresses of entries, and the bytes to the next one.
sum_of_products, sum_of_conjugate_products = _sum_of_products(False), _sum_of_products(True)


@inlined
def load(m, first, count, source, rows):  # pragma: no cover
    """Fill rows with slots, each 2 m m successive reals; the last slot fills the rest."""
    size = 2 * m * m
    for n in range(size):
        for i in range(count):
            rows[n, i] = source[(first + i) * size + n]
    for n in range(size):
        for i in range(count, SLOTS):
            rows[n, i] = rows[n, count - 1]


@inlined
def store(m, first, count, rows, target):  # pragma: no cover
    """Write the first slots of rows to successive reals."""
    size = 2 * m * m
    for n in range(size):
        for i in range(count):
            target[(first + i) * size + n] = rows[n, i]


@inlined
def gram(bits, m, entry, x, g):  # pragma: no cover
    """Compute G = X^H X; ``entry`` is the number of bytes from one entry to the next."""
    for j in range(m):
        for k in range(m):
            to, row = g + (j * m + k) * entry, m * entry
            sum_of_conjugate_products(bits, to, x + j * entry, row, x + k * entry, row, m)


@inlined
def multiply(bits, m, entry, x, y, out):  # noqa: PLR0917 # pragma: no cover
    """Write the product X Y to another matrix."""
    for j in range(m):
        for k in range(m):
            sum_of_products(bits, out + (j * m + k) * entry, x + j * m * entry, entry, y + k * entry, m * entry, m)


@step
def _three_minus(g, one):
    """Compute an entry of (3 - G) / 2."""
    g[0], g[1] = 1.5 * one - 0.5 * g[0], -0.5 * g[1]


@step
def copy(x, out):
    """Copy an entry."""
    out[0], out[1] = x[0], x[1]


@inlined
def polish(bits, m, entry, x, g, y):  # noqa: PLR0917 # pragma: no cover
    """Do one Newton-Schulz step, X (3 - G) / 2 with G = X^H X, to the nearest unitary matrix; overwrites g and y."""
    for j in range(m):
        for k in range(m):
            _three_minus(bits, (g + (j * m + k) * entry,), (1.0 if j == k else 0.0,))
    multiply(bits, m, entry, x, g, y)
    for n in range(m * m):
        copy(bits, (y + n * entry, x + n * entry), ())

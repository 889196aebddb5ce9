"""Arithmetic on one entry of several matrices at a time, for the loops over unitary slots.

A *row* holds the same number of ``SLOTS`` slots, for example the real part of an entry; a complex entry has two rows
in succession. The steps of an algorithm are Python functions of rows, written like scalar code:
:mod:`ghrr.ops.cpu.steps` compiles them to vector instructions, and calls them in loops.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks.
"""

# Types of generated code are known when it is generated.
# mypy: ignore-errors

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils

SLOTS = 64
VECTOR_BYTES = 64
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
        self._bytes, self._vector = bytes_of(real), vector_of(real)

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


def bytes_of(real: Any) -> int:
    """Return the bytes of a type of reals."""
    return 4 if isinstance(real, ir.FloatType) else 8


def vector_of(real: Any) -> Any:
    """Return the type of a vector of reals."""
    return ir.VectorType(real, VECTOR_BYTES // bytes_of(real))

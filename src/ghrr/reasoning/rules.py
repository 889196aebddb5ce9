r"""Rules: which expression of bindings predicts the first, the middle and the last panel of a row.

An expression is a product of panels of the row, of the row before, and of a constant step:

===================  =======================================================================================
``free``             nothing is predicted
``copy s``           the panel of the row before that is s columns further: :math:`p_{j+s}`, cyclically
``step c``           the panel before, moved by c: :math:`x_{j-1} * B^c`
``total a b c``      :math:`x_1^{\pm1} * (x_2 * \dots * x_{n-1})^{\pm1} * B^c`, in the last column
``first c``          :math:`x_1 * B^c`, in the last column
``parallel``         the change of the row before: :math:`x_{j-1} * p_{j-1}^\dagger * p_j`
``repeat``           the change before, in this row: :math:`x_{j-1} * x_{j-2}^\dagger * x_{j-1}`
``rest``             what the row before holds and this row does not: :math:`p_1 * \dots * p_n * (x_1 * \dots *
                     x_{n-1})^\dagger`
``table t``          a function of two bits, for sets: slot by slot from :math:`x_1` and :math:`x_2`
===================  =======================================================================================

A :class:`Rule` has one expression for each of the three places. With n columns, ``middle`` holds for the columns 2 to
n − 1: so rules learnt on three columns apply to any number. A prior over all rules is a
:class:`ghrr.reasoning.Prior`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from ghrr.checks import names_errors

__all__ = ["GIVEN", "NOISE", "Expression", "Rule", "expressions", "given_rules"]

CHANNELS = ("value", "collection", "slots", "count", "set")
STEPS = (-2, -1, 0, 1, 2)
UNION, DIFFERENCE = 0b1110, 0b0100  # truth tables: bit 2 a + b is the value for the bits a of x1 and b of x2


class Expression(NamedTuple):
    """Kind of an expression and its numbers, such as ``("step", (1,))``."""

    kind: str
    numbers: tuple[int, ...] = ()

    @property
    def has_step(self) -> bool:
        """Whether the last number is a step."""
        return self.kind in ("step", "first", "total")

    @property
    def relates(self) -> bool:
        """Whether the expression uses the row before, so that it says nothing about the first row."""
        return self.kind in ("copy", "parallel", "rest")

    @property
    def length(self) -> int:
        """Number of parts. Of expressions that predict the same, the shortest one counts."""
        return _LENGTHS[self.kind] + (self.has_step and self.numbers[-1] != 0)

    def __str__(self) -> str:
        return _written(self.kind, self.numbers)


@names_errors
@dataclass(frozen=True)
class Rule:
    """Expressions of the first, middle and last panels of a row, for one channel of an attribute.

    Channels are ``value`` (one value for all entities of a panel), ``count`` (number of entities), ``set`` (occupied
    slots), ``collection`` (values of the entities, in any order) and ``slots`` (values of the entities, by slot).

    Examples
    --------
    >>> from ghrr.reasoning import Rule
    >>> from ghrr.reasoning.rules import Expression
    >>> print(Rule("value", Expression("free"), Expression("step", (1,)), Expression("step", (1,))))
    progression +1
    """

    channel: str
    first: Expression
    middle: Expression
    last: Expression

    @property
    def length(self) -> int:
        """Sum of the lengths of the expressions."""
        return self.first.length + self.middle.length + self.last.length

    def __str__(self) -> str:
        name = _NAMES.get((self.first, self.middle, self.last))
        if self == NOISE:
            return "no rule"
        if name is None:
            places = zip(("first", "middle", "last"), (self.first, self.middle, self.last), strict=True)
            name = "; ".join(f"{place} = {e}" for place, e in places if e.kind != "free")
        return name if self.channel in ("value", "set") else f"{name} ({_CHANNELS[self.channel]})"


_LENGTHS = {"free": 0, "copy": 1, "step": 1, "first": 2, "total": 3, "parallel": 4, "repeat": 4, "table": 4, "rest": 6}
_CHANNELS = {"count": "of the number", "collection": "of the collection", "slots": "slot by slot"}
FREE = Expression("free")
NOISE = Rule("noise", FREE, FREE, FREE)


def _step(c: int) -> Expression:
    return Expression("step", (c,))


def _copy(s: int) -> Expression:
    return Expression("copy", (s,))


def _signed(number: int) -> str:
    return f"{number:+d}".replace("-", "−")


def _shift(c: int) -> str:
    return f" {_signed(c)[0]} {abs(c)}" if c else ""


def _written(kind: str, numbers: tuple[int, ...]) -> str:
    """Write an expression with + and −; as hypervectors, these are bindings with a panel or with its inverse."""
    match kind:
        case "copy":
            return "panel of the row before" + (f" {_signed(numbers[0])}" if numbers[0] else "")
        case "step":
            return f"panel before{_shift(numbers[0])}"
        case "first":
            return f"x1{_shift(numbers[0])}"
        case "total":
            a, b, c = numbers
            return f"{'−' if a < 0 else ''}x1 {'+' if b > 0 else '−'} x2{_shift(c)}"
        case "parallel":
            return "panel before + change in the row before"
        case "repeat":
            return "panel before + change before it"
        case "rest":
            return "sum of the row before − x1 − x2"
        case "table":
            return f"bits {numbers[0]:04b}"
    return kind


_NAMES: dict[tuple[Expression, Expression, Expression], str] = {
    (FREE, _step(0), _step(0)): "constant",
    **{(FREE, _step(c), _step(c)): f"progression {_signed(c)}" for c in STEPS if c},
    **{
        (FREE, FREE, Expression("total", (1, sign, c))): f"arithmetic x1 {'+' if sign > 0 else '−'} x2{_shift(c)}"
        for sign, c in product((1, -1), STEPS)
    },
    **{(_copy(s),) * 3: f"distribute three, {'left' if s > 0 else 'right'}" for s in (1, -1)},
    (_copy(0),) * 3: "as in the row before",
    (FREE, Expression("parallel"), Expression("parallel")): "changes as in the row before",
    (FREE, FREE, Expression("repeat")): "equal changes in a row",
    (FREE, FREE, Expression("rest")): "the values of the row before",
    (FREE, FREE, Expression("table", (UNION,))): "union of x1 and x2",
    (FREE, FREE, Expression("table", (DIFFERENCE,))): "x1 without x2",
}


@cache
def expressions(channel: str) -> tuple[tuple[Expression, ...], ...]:
    """Return the expressions that a channel can have in the first, middle and last column."""
    copies = tuple(_copy(s) for s in (-1, 0, 1))
    steps = tuple(_step(c) for c in STEPS)
    if channel in ("value", "count"):
        totals = tuple(Expression("total", (a, b, c)) for a, b, c in product((1, -1), (1, -1), STEPS))
        firsts = tuple(Expression("first", (c,)) for c in STEPS)
        relative = (Expression("parallel"),)
        last = (*relative, Expression("repeat"), Expression("rest"), *firsts, *totals)
        return (FREE, *copies), (FREE, *copies, *steps, *relative), (FREE, *copies, *steps, *last)
    if channel == "collection":
        return (FREE, *copies), (FREE, *copies, _step(0)), (FREE, *copies, _step(0))
    tables = tuple(Expression("table", (t,)) for t in range(16)) if channel == "set" else ()
    return (FREE, *copies), (FREE, *copies, *steps), (FREE, *copies, *steps, *tables)


@names_errors
def given_rules(channels: Iterable[str], *, arithmetic: Mapping[int, int] | None = None) -> tuple[Rule, ...]:
    """Return the hand-written rules: constant, progression, arithmetic, distribute three and logic on sets.

    ``arithmetic`` gives the offset of sums (+1) and differences (−1); without it there is no arithmetic.
    """
    rules = []
    for channel in channels:
        steps = (0,) if channel == "collection" else STEPS
        rules += [Rule(channel, FREE, _step(c), _step(c)) for c in steps]
        if channel in ("value", "count", "set"):
            rules += [Rule(channel, *(_copy(s),) * 3) for s in (1, -1)]
        if channel == "set":
            rules += [Rule(channel, FREE, FREE, Expression("table", (t,))) for t in (UNION, DIFFERENCE)]
        if channel in ("value", "count") and arithmetic is not None:
            rules += [Rule(channel, FREE, FREE, Expression("total", (1, s, c))) for s, c in arithmetic.items()]
    return tuple(rules)


# Offsets of arithmetic by the name of an attribute; sizes are levels from 0, of which a + b + 1 is the sum.
GIVEN: dict[str, Mapping[int, int] | None] = {"type": None, "size": {1: 1, -1: -1}, "color": {1: 0, -1: 0}}

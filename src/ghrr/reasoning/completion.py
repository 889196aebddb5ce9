"""Complete rows of numbers, symbols or dicts of them: analogies, series, tables with a gap."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from ghrr.algebra import pairwise_similarity
from ghrr.checks import describe, names_errors, type_error, value_error
from ghrr.memory import Answer
from ghrr.reasoning.codes import PowerCode, number_code
from ghrr.reasoning.panels import Channel
from ghrr.reasoning.posterior import Evidence, Prior
from ghrr.reasoning.rules import FREE, STEPS, Expression, Rule
from ghrr.reasoning.scoring import predict_missing, score_channel
from ghrr.space import Space

__all__ = ["Completion", "complete"]

LARGEST = 10_000  # steps of a number from 0
DIM = 1024


@names_errors
@dataclass(frozen=True, repr=False, kw_only=True)
class Completion(Answer):
    """Predicted value of one key, its probability, and the most probable rule.

    ``rule_probability`` is the probability of that rule alone: several rules may predict the same value.

    Examples
    --------
    >>> from ghrr.reasoning import complete
    >>> complete([[1, 2, 3], [5, 6, 7], [2, 3, None]])
    Completion(4, probability=1.000, progression +1)
    """

    rule: Rule
    rule_probability: float

    def __repr__(self) -> str:
        shown = f"{self._shown_guess()}, probability={self.probability:.3f}, {self.rule}"
        return f"Completion({shown})"


def _same(expression: Expression) -> Rule:
    first = expression if expression.kind == "copy" else FREE
    return Rule("value", first, expression, expression)


_ORDER = [_same(Expression("copy", (s,))) for s in (-1, 1)]
_SYMBOL_RULES = (
    _same(Expression("step", (0,))),
    _same(Expression("copy", (0,))),
    *_ORDER,
    _same(Expression("parallel")),
    Rule("value", FREE, FREE, Expression("rest")),
)
_NUMBER_RULES = (
    *_SYMBOL_RULES,
    *(_same(Expression("step", (c,))) for c in STEPS if c),
    Rule("value", FREE, FREE, Expression("repeat")),
    *(Rule("value", FREE, FREE, Expression("total", (a, b, 0))) for a, b in ((1, 1), (1, -1), (-1, 1))),
)


@names_errors
def complete(rows: Sequence[Any]) -> Any:
    """Predict the missing last panel of the last row, from rules that hold in the rows.

    A panel is a number, a symbol (a string) or a dict of them. Rows have the same length; the last panel is None.
    Rules are: all alike, equal steps, the change of the row before, sums and differences, the same values in another
    order. There is one rule per key, and keys are independent.

    Parameters
    ----------
    rows
        At least two rows of at least two panels.

    Returns
    -------
    Completion or dict
        The predicted value with its probability and rule; for dicts, one for each key.

    Raises
    ------
    ValueError
        If rows are ragged, a panel but the last is missing, or panels have different keys.

    Examples
    --------
    >>> from ghrr.reasoning import complete
    >>> complete([[1, 2, 3], [10, 20, 30], [5, 10, None]]).guess
    15
    >>> found = complete([[{"price": 10, "shape": "round"}, {"price": 12, "shape": "square"}],
    ...                   [{"price": 30, "shape": "round"}, None]])
    >>> found["price"].guess, found["shape"].guess
    (32, 'square')
    """
    panels, keys = _check(rows)
    found = {key: _complete_key(key, [[panel[key] for panel in row] for row in panels]) for key in keys}
    return found[""] if keys == [""] and not isinstance(rows[0][0], Mapping) else found


def _check(rows: Sequence[Any]) -> tuple[list[list[Mapping[str, Any]]], list[str]]:
    """Return the known panels as dicts, by row, and their keys."""
    if isinstance(rows, str | Mapping) or not isinstance(rows, Sequence):
        raise type_error(f"rows must be a list of rows, got {describe(rows)}")
    table = [list(row) if isinstance(row, Sequence) and not isinstance(row, str) else _refuse(row) for row in rows]
    if len(table) < 2 or len(table[0]) < 2:
        raise value_error(f"rows must be at least two rows of at least two panels, got {describe(rows)}")
    lengths = [len(row) for row in table]
    if len(set(lengths)) > 1:
        raise value_error(f"rows must have the same length, got lengths {lengths}; write the missing panel as None")
    if table[-1].pop() is not None:
        raise value_error("the last panel of the last row must be None, the gap to fill; nothing is missing")
    panels = [[panel if isinstance(panel, Mapping) else {"": panel} for panel in row] for row in table]
    keys = list(panels[0][0])
    for i, row in enumerate(panels):
        for j, panel in enumerate(row):
            if set(panel) != set(keys) or isinstance(table[i][j], Mapping) != isinstance(table[0][0], Mapping):
                raise value_error(
                    f"panel {j + 1} of row {i + 1} has the keys {sorted(map(str, panel))}, expected "
                    f"{sorted(map(str, keys))} as in the first panel; give every panel the same keys"
                )
    return panels, keys


def _refuse(row: object) -> list[Any]:
    raise type_error(f"a row must be a list of panels, got {describe(row)}")


def _complete_key(key: str, rows: list[list[Any]]) -> Completion:
    flat = [value for row in rows for value in row]
    if all(isinstance(value, str) for value in flat):
        names = sorted(set(flat))
        table = Space(dim=DIM, m=1, seed=0).vectors(names)
        noise = math.sqrt(1 / (2 * DIM))
        known = table[[names.index(x) for x in flat]]
        return _answer(rows, values=names, table=table, known=known, rules=_SYMBOL_RULES, noise=noise)
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in flat):
        wrong = next(v for v in flat if isinstance(v, (bool, str)) or not isinstance(v, (int, float)))
        raise type_error(f"the values of {key!r} must be all numbers or all strings, got {describe(wrong)} among them")
    if not all(math.isfinite(value) for value in flat):
        raise value_error(f"the values of {key!r} must be finite numbers")
    unit = _unit(flat)
    steps = [round(value / unit) for value in map(_fraction, flat)]
    largest = (len(rows[0]) + 1) * max(1, *map(abs, steps))
    if largest > LARGEST:
        raise value_error(
            f"the values of {key!r} range over {largest} steps of {float(unit):g}, more than {LARGEST}; round them"
        )
    code = number_code(largest, columns=3, max_dim=DIM)
    values = [int(k * unit) if (k * unit).denominator == 1 else float(k * unit) for k in range(-largest, largest + 1)]
    table = code.powers(range(-largest, largest + 1))
    known = code.powers(steps)
    return _answer(rows, values=values, table=table, known=known, rules=_NUMBER_RULES, noise=code.noise, code=code)


def _fraction(value: float) -> Fraction:
    return Fraction(str(value))


def _unit(values: Sequence[float]) -> Fraction:
    """Return the largest number of which all values are multiples."""
    fractions = [_fraction(value) for value in values if value]
    if not fractions:
        return Fraction(1)
    below = math.lcm(*(f.denominator for f in fractions))
    return Fraction(math.gcd(*(int(f * below) for f in fractions)), below)


def _answer(
    rows: list[list[Any]],
    *,
    values: list[Any],
    table: Tensor,
    known: Tensor,
    rules: Sequence[Rule],
    noise: float,
    code: PowerCode | None = None,
) -> Completion:
    """Weight the predictions of all rules with their probabilities, and read the result."""
    count, columns = len(rows), len(rows[0])
    still = torch.eye(table.shape[-1], dtype=table.dtype).expand(len(STEPS), *table.shape[1:])
    steps = still if code is None else code.powers(list(STEPS))
    chance = math.log(len(set(map(str, (v for row in rows for v in row)))) + 1)
    free = torch.full((1, count * columns), -chance)
    vectors = torch.cat([known, torch.zeros_like(known[:1])])[None]
    channel = Channel("value", vectors, steps, free, torch.zeros_like(free), noise)
    between = ("repeat", "rest", "total")  # need a panel between the first and the last
    prior = Prior.equal(rule for rule in rules if columns > 2 or rule.last.kind not in between)
    scores = score_channel(channel, free, count, columns, prior.used("value"))
    posterior = Evidence([scores], free[:, :-1].sum(dim=1), math.exp(-chance)).posterior(prior)
    totals: dict[int, float] = {}
    for rule, probability in posterior.rules(0):
        if rule.last != FREE:
            likeness = pairwise_similarity(predict_missing(channel, rule.last, count, columns)[0], table)
            best = int(likeness.argmax())
            if likeness[best] > 0.5:
                totals[best] = totals.get(best, 0.0) + probability
    (rule, probability), *_ = posterior.rules(0)
    ranked = sorted(totals, key=lambda i: -totals[i]) or [0]
    scores_of = [totals.get(i, 0.0) for i in ranked] + [0.0]
    return Completion(
        guess=values[ranked[0]],
        score=scores_of[0],
        runner_up=values[ranked[1]] if len(ranked) > 1 else None,
        margin=scores_of[0] - scores_of[1],
        candidates=len(values),
        probability=scores_of[0],
        rule=rule,
        rule_probability=probability,
    )

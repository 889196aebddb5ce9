"""Upper references without hypervectors: exact Bayesian inference over the given rules, and the consistent program.

Exact inference sums over the true values of uncertain panels; the reasoner treats the panels of a row as independent
predictions. The program admits every rule that holds in the first two rows, and guesses among
the answers that are left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.reasoning.data import Problem
from ghrr.reasoning.panels import LEAST
from ghrr.reasoning.reasoner import NONE
from ghrr.reasoning.scoring import EXCEPTION

Array = NDArray[np.float64]
Weights = dict[int, float]  # values and their probabilities
STEPS = (-2, -1, 0, 1, 2)
SIZES = {1: 6, 2: 6, 3: 10}  # levels of type, size and color
_FREE = object()


# ------------------------------------------------------------------------------------------------ uncertain numbers


def _product(*given: Weights) -> Weights:
    """Return the product of distributions, not normalised."""
    found = given[0]
    for other in given[1:]:
        found = {v: p * other[v] for v, p in found.items() if v in other}
    return found


def _shifted(given: Weights, step: int) -> Weights:
    return {v + step: p for v, p in given.items()}


def _sum(a: Weights, b: Weights, sign: int) -> Weights:
    found: dict[int, float] = {}
    for v, p in a.items():
        for w, q in b.items():
            found[v + sign * w] = found.get(v + sign * w, 0.0) + p * q
    return found


def _total(given: Weights) -> float:
    return sum(given.values())


def _predict_number(rows: list[list[Weights]], size: int) -> tuple[list[float], list[Weights]]:
    """Return the log-likelihood of each rule and its distribution of the missing value, with no rule last."""
    n = len(rows[0])
    likelihoods: list[float] = []
    predictions: list[Weights] = []

    def add(parts: list[tuple[float, int]], prediction: Weights) -> None:
        likelihoods.append(sum(math.log((1 - EXCEPTION) * p + EXCEPTION * size ** -float(k)) for p, k in parts))
        total = _total(prediction)
        predictions.append({v: p / total for v, p in prediction.items()} if total > 0 else {})

    for step in STEPS:
        parts = []
        for row in rows:
            common = _product(*(_shifted(p, -step * j) for j, p in enumerate(row)))
            parts.append((_total(common) / size, len(row)))
        add(parts, _shifted(common, step * (n - 1)))
    for sign in (1, -1):
        parts = []
        for row in rows:
            total = row[0]
            for other in row[1 : n - 1]:
                total = _sum(total, other, sign)
            agree = _total(_product(total, row[-1])) if len(row) == n else 1.0
            parts.append((agree * float(size) ** -(n - 1), len(row)))
        add(parts, total)
    for turn in (1, -1):
        parts = []
        prediction: Weights = {}
        for j in range(n):
            held = [rows[i][(j - turn * (len(rows) - 1 - i)) % n] for i in range(len(rows) - 1)]
            if j < n - 1:
                parts.append((_total(_product(*held, rows[-1][j])) / size, len(rows)))
            else:
                prediction = _product(*held)
                parts.append((_total(prediction) / size, len(rows) - 1))
        add(parts, prediction)
    likelihoods.append(-math.log(size) * sum(map(len, rows)))
    predictions.append({})
    return likelihoods, predictions


def exact_numbers(problem: Problem, size: int) -> tuple[Array, float]:
    """Return the exact probabilities of the answers of a problem of I-RAVEN-X, and of none."""
    n = problem["n"]
    scores, best = np.zeros(len(problem["answers"])), 0.0
    for index in range(len(problem["attributes"])):
        context = [_weights(panel[index], size) for panel in problem["context"]]
        answers = [_weights(panel[index], size) for panel in problem["answers"]]
        rows = [context[i : i + n] for i in range(0, len(context), n)]
        likelihoods, predictions = _predict_number(rows, size)
        posterior = _normalised(likelihoods)
        likely = [
            [(1 - EXCEPTION) * _total(_product(p, a)) + EXCEPTION / size for p in predictions[:-1]] + [1 / size]
            for a in answers
        ]
        expected = [max([1 / size, *p.values()]) for p in predictions]
        scores += np.log(np.array(likely) @ posterior)
        best += math.log(np.array(expected) @ posterior)
    return _with_none(scores, best)


def _weights(value: Any, size: int) -> Weights:
    if not isinstance(value, list):
        return {value: 1.0}
    centre, *weights = value
    return {(centre + d) % (size - 1): w / 100 for d, w in zip((-1, 0, 1), weights, strict=True) if w}


def _normalised(logarithms: list[float]) -> Array:
    """Return the posterior with equal priors, of which no rule, the last one, has a hundredth."""
    rules = len(logarithms) - 1
    prior = np.array([math.log(0.99 / rules)] * rules + [math.log(0.01)])
    joint = np.array(logarithms) + prior
    found = np.exp(joint - joint.max())
    return np.asarray(found / found.sum())


def _with_none(scores: Array, best: float) -> tuple[Array, float]:
    every = np.append(scores, best + math.log(NONE))
    probabilities = np.exp(every - every.max())
    probabilities /= probabilities.sum()
    return probabilities[:-1], float(probabilities[-1])


# --------------------------------------------------------------------------------------------------- certain panels

State = Any  # what a channel holds in one panel; None if the channel says nothing about it
Rule = Callable[[list[list[State]], int], Hashable]  # rows and the index of a row to its predicted last panel


def _channels(panels: list[Any], component: int, attribute: int, slots: int) -> dict[str, list[State]]:
    """Return the panels of one attribute of one component, by channel."""
    entities = [panel[component]["entities"] for panel in panels]
    if attribute == 0:
        places = [frozenset(e[0] for e in panel) for panel in entities]
        return {"count": [len(p) for p in places], "set": places} if slots > 1 else {}
    values = [[(e[0], e[attribute]) for e in panel] for panel in entities]
    shared = [{v for _, v in panel} for panel in values]
    found: dict[str, list[State]] = {"value": [min(s) if len(s) == 1 else None for s in shared]}
    if slots > 1:
        found["collection"] = [tuple(sorted(v for _, v in panel)) for panel in values]
        found["slots"] = [frozenset(panel) for panel in values]
    return found


def _moved(state: State, step: int, channel: str, slots: int) -> State:
    if state is None or channel in ("value", "count"):
        return None if state is None else state + step
    if channel == "set":
        return frozenset((s + step) % slots for s in state)
    return frozenset(((s + step) % slots, v) for s, v in state) if channel == "slots" else state


def _rules(channel: str, attribute: int, slots: int) -> list[tuple[str, Any]]:
    """Return the given rules of a channel."""
    rules: list[tuple[str, Any]] = [("step", c) for c in ((0,) if channel == "collection" else STEPS)]
    if channel in ("value", "count", "set"):
        rules += [("copy", 1), ("copy", -1)]
    if channel == "set":
        rules += [("logic", frozenset.union), ("logic", frozenset.difference)]
    if channel == "count" or (channel == "value" and attribute in (2, 3)):
        offset = 1 if attribute == 2 else 0
        rules += [("sum", (1, offset)), ("sum", (-1, -offset))]
    return rules


def _cells(rule: tuple[str, Any], rows: list[list[State]], move: Callable[..., State]) -> list[bool | None]:
    """Return for each panel, row by row, whether a rule predicts it rightly; None where the rule predicts nothing."""
    kind, number = rule
    found: list[bool | None] = []
    for i, row in enumerate(rows):
        for j, actual in enumerate(row):
            predicted: State = _FREE
            if kind == "step" and j > 0:
                predicted = move(row[j - 1], number)
            elif kind == "copy" and i > 0:
                predicted = rows[i - 1][(j + number) % 3]
            elif kind == "logic" and j == 2:
                predicted = number(row[0], row[1])
            elif kind == "sum" and j == 2:
                known = row[0] is not None and row[1] is not None
                predicted = row[0] + number[0] * row[1] + number[1] if known else None
            found.append(None if predicted is _FREE else predicted is not None and predicted == actual)
    return found


def _holds(rule: tuple[str, Any], rows: list[list[State]], move: Callable[..., State]) -> bool:
    """Return whether a rule holds in all rows."""
    pure = all(state is not None for row in rows for state in row)
    return pure and all(cell is not False for cell in _cells(rule, rows, move))


def exact_answers(problem: Problem, slots_of: dict[str, int]) -> tuple[Array, float]:
    """Return the exact probabilities of the answers of a problem of I-RAVEN with certain attributes, and of none."""
    scores, best = np.zeros(8), 0.0
    for component, layout in enumerate(c["layout"] for c in problem["panels"][0]):
        slots = slots_of.get(layout, 1)
        for attribute in range(4):
            channels = _channels(problem["panels"], component, attribute, slots)
            if not channels:
                continue
            size = slots if attribute == 0 else SIZES[attribute]
            counts = [len(panel[component]["entities"]) for panel in problem["panels"][:8]]
            ways = [math.log(math.comb(slots, k)) for k in counts]
            noise = [
                -w - math.log(slots) if attribute == 0 else -k * math.log(size)
                for k, w in zip(counts, ways, strict=True)
            ]
            likelihoods, likely, fits = [], [], []
            for channel, states in channels.items():
                move = partial(_moved, channel=channel, slots=slots)
                for rule in _rules(channel, attribute, slots):
                    total = 0.0
                    rows = [states[:3], states[3:6], [*states[6:8], states[8]]]
                    for k, (cell, state) in enumerate(zip(_cells(rule, rows, move)[:8], states, strict=False)):
                        free = noise[k]
                        if channel == "value":
                            free = -math.log(size) if state is not None else math.log(LEAST) - math.log(size)
                        rest = {"count": -ways[k], "collection": _orders(state)}.get(channel, 0.0)
                        right = (1 - EXCEPTION) * math.exp(rest) * bool(cell) + EXCEPTION * math.exp(noise[k])
                        total += free if cell is None else math.log(right)
                    likelihoods.append(total)
                    last = [_cells(rule, [*rows[:2], [*states[6:8], states[8 + a]]], move)[8] for a in range(8)]
                    likely.append([(1 - EXCEPTION) * bool(x) + EXCEPTION / size for x in last])
                    fits.append(1.0)
            posterior = _normalised([*likelihoods, sum(noise)])
            scores += np.log(posterior @ np.array([*likely, [1 / size] * 8]))
            best += math.log(posterior @ np.array([*fits, 1 / size]))
    return _with_none(scores, best)


def _orders(state: State) -> float:
    """Return minus the logarithm of the number of orders of a collection; 0 for other states."""
    if not isinstance(state, tuple):
        return 0.0
    return sum(math.lgamma(k + 1) for k in Counter(state).values()) - math.lgamma(len(state) + 1)


def consistent_answers(problem: Problem, slots_of: dict[str, int]) -> list[int]:
    """Return the answers that fit, in every attribute, one of the rules that hold in the first two rows."""
    left = set(range(8))
    for component, layout in enumerate(c["layout"] for c in problem["panels"][0]):
        slots = slots_of.get(layout, 1)
        for attribute in range(4):
            fits: set[int] = set()
            some = False
            channels = _channels(problem["panels"], component, attribute, slots)
            for channel in ("value", "slots", "collection", "set", "count"):
                if channel not in channels or (some and channel in ("slots", "collection", "count")):
                    continue  # the more specific rule holds
                states = channels[channel]
                move = partial(_moved, channel=channel, slots=slots)
                rows = [states[:3], states[3:6]]
                for rule in _rules(channel, attribute, slots):
                    if _holds(rule, rows, move):
                        some = True
                        fits |= {a for a in range(8) if _holds(rule, [*rows, [*states[6:8], states[8 + a]]], move)}
            if some:
                left &= fits
    return sorted(left)


def consistent_numbers(problem: Problem, size: int) -> list[int]:
    """Return the answers of a problem of I-RAVEN-X that fit every attribute, with the heaviest of uncertain values."""
    n, left = problem["n"], set(range(8))
    for index in range(len(problem["attributes"])):
        context = [_heaviest(panel[index], size) for panel in problem["context"]]
        answers = [_heaviest(panel[index], size) for panel in problem["answers"]]
        rows = [[{v: 1.0} for v in context[i : i + n]] for i in range(0, len(context), n)]
        likelihoods, predictions = _predict_number(rows, size)
        held = [p for ll, p in zip(likelihoods[:-1], predictions, strict=False) if ll > likelihoods[-1] + math.log(10)]
        if held:
            left &= {a for a in range(8) if any(answers[a] in p for p in held)}
    return sorted(left)


def _heaviest(value: Any, size: int) -> int:
    found = _weights(value, size)
    return max(found, key=lambda v: found[v])

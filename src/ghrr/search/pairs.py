"""Pairs of similar records of one index, with the evidence that both are of the same thing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ghrr.search.encoder import Prepared
from ghrr.search.evidence import Agreement, FieldValues, agreement, field_values
from ghrr.search.match_model import match_log_odds, random_pairs
from ghrr.search.state import State

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_ROWS = 1_024  # records whose neighbours are searched at a time
_DOCUMENTS = 4_096  # prepared at a time
_PAIRS = 50_000  # compared at a time


def match_pairs(state: State, neighbours: int) -> tuple[Integers, Floats]:
    """Return pairs of near records as ascending row numbers, and the log odds that both are of the same thing.

    Shapes
    ------
    outputs: ``(pairs, 2)`` and ``(pairs,)``
    """
    pairs = near_pairs(state, neighbours)
    if not len(pairs):
        return pairs, np.empty(0)
    values = field_values(state.encoder, _prepared(state))
    found, chance = (_agreement(state, values, chosen) for chosen in (pairs, random_pairs(len(state))))
    return pairs, match_log_odds(found, chance, values, len(state))


def near_pairs(state: State, neighbours: int) -> Integers:
    """Return each record with its nearest records by vector, as ascending pairs of row numbers.

    Shapes
    ------
    output: ``(pairs, 2)``
    """
    labels, count = state.labels, len(state)
    place = {label: row for row, label in enumerate(labels)}
    codes = [np.empty(0, dtype=np.int64)]
    for start in range(0, count, _ROWS):
        own = labels[start : start + _ROWS]
        near = state.nearest(state.memory.vectors(own), neighbours + 1)[0]
        left = np.repeat(np.arange(start, start + len(own)), [len(others) for others in near])
        right = np.array([place[label] for others in near for label in others], dtype=np.int64)
        different = left != right
        codes.append(np.unique((np.minimum(left, right) * count + np.maximum(left, right))[different]))
    return np.stack(np.divmod(np.unique(np.concatenate(codes)), max(count, 1)), axis=1)


def _prepared(state: State) -> Iterator[Prepared]:
    labels = state.labels
    for start in range(0, len(labels), _DOCUMENTS):
        yield state.encoder.prepare(state.documents.get(labels[start : start + _DOCUMENTS]))


def _agreement(state: State, values: list[FieldValues], pairs: Integers) -> Agreement:
    labels, parts = state.labels, []
    for start in range(0, len(pairs), _PAIRS):
        part = pairs[start : start + _PAIRS]
        rows, numbers = np.unique(part, return_inverse=True)
        stored = state.encoder.prepare(state.documents.get([labels[row] for row in rows]))
        left, right = numbers.reshape(-1, 2).T
        parts.append(agreement(values, part, state.encoder.field_scores(stored, left, stored, right)))
    return Agreement.joined(parts)

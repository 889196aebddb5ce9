"""Candidates of searches: the nearest records by vector, ranked by exact scores, and hits with probabilities."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.search.calibration import probabilities
from ghrr.search.conditions import Conditions
from ghrr.search.encoder import Prepared, combine
from ghrr.search.labels import id_of, number_of
from ghrr.search.match import RecordMatch
from ghrr.search.state import BATCH, State

Floats = NDArray[np.float64]
CANDIDATES = 50  # records whose documents are compared exactly
_EXAMPLES = 256  # examples whose candidates are compared at a time
_ROUNDING = 1e-5  # scores of equal vectors differ by less
_WIDEST = 4096  # records that are looked at to find the first of many equal ones
_NOTHING = "nothing in common with the example"
_DIGITS = 12  # of scores, beyond which they depend on what is computed at the same time


class Found(NamedTuple):
    """Candidates of one example, best first."""

    labels: list[str]
    scores: Floats
    fields: Floats
    documents: list[Any]


def find_candidates(
    state: State,
    prepared: Prepared,
    queries: Tensor,
    *,
    count: int = CANDIDATES,
    factors: Mapping[str, float] | None = None,
    conditions: Conditions | None = None,
) -> list[Found]:
    """Return records by exact scores: the ``count`` nearest by vector among those that fulfil the conditions."""
    weights = state.encoder.weights(factors) * state.encoder.shares(prepared)
    results = []
    for rows in np.split(np.arange(len(queries)), range(_EXAMPLES, len(queries), _EXAMPLES)):
        labels = _first(state, queries[rows], count, conditions)
        results += _compare(state, prepared, rows, labels, weights)
    return results


def _first(state: State, queries: Tensor, count: int, conditions: Conditions | None = None) -> list[list[str]]:
    """Return the ``count`` records nearest to each query by vector; of equally near ones the first in the index.

    Scores of a batch and of a single query differ by rounding. So if others are as near as the last record, their
    scores are computed again, one by one.
    """
    bounds = conditions.bounds() if conditions and state.memory.can_filter else []
    result: list[list[str]] = [[] for _ in queries]
    pending, seen, widest = list(range(len(queries))), count + 1, max(_WIDEST, count + 1)
    while pending:
        found, scores = state.nearest(queries[pending], seen, bounds)
        allowed = _fulfilled(state, conditions, found) if conditions else [range(len(own)) for own in found]
        again = []
        for row, own, row_scores, places in zip(pending, found, scores, allowed, strict=True):
            labels, near = [own[place] for place in places], [row_scores[place] for place in places]
            is_complete = seen >= len(state) or (len(own) < seen and not state.is_approximate)
            if not is_complete and len(labels) >= count:
                is_complete = row_scores[-1] < near[count - 1] - _ROUNDING or seen >= widest
            if is_complete:
                result[row] = _cut(state, queries[row], labels, near, count)
            else:
                again.append(row)
        if conditions and again and (state.is_approximate or seen >= widest):
            matching = _matching(state, conditions, state.labels)
            for row in again:
                result[row] = _nearest_of(state, queries[row], matching, count)
            break
        pending, seen = again, min(4 * seen, widest)
    return result


def _nearest_of(state: State, query: Tensor, labels: list[str], count: int) -> list[str]:
    """Return the ``count`` records among these that are nearest to a query by vector."""
    if len(labels) <= count:
        return labels
    parts = [labels[start : start + BATCH] for start in range(0, len(labels), BATCH)]
    order = _descending(np.concatenate([_vector_scores(state, query, part) for part in parts]), labels)
    return [labels[place] for place in order[:count]]


def _cut(state: State, query: Tensor, labels: list[str], scores: list[float], count: int) -> list[str]:
    """Return the first ``count`` of records in descending order of score, without errors of rounding at the end."""
    if len(labels) <= count:
        return labels
    last = scores[count - 1]
    sure = [label for label, score in zip(labels, scores, strict=True) if score > last + _ROUNDING]
    equal = [label for label, score in zip(labels, scores, strict=True) if abs(score - last) <= _ROUNDING]
    if len(sure) + len(equal) > count:
        equal = [equal[place] for place in _descending(_vector_scores(state, query, equal), equal)]
    return [*sure, *equal][:count]


def _vector_scores(state: State, query: Tensor, labels: Sequence[str]) -> Floats:
    """Return the similarity of a query with the vectors of records, the same whatever other records there are."""
    rows = torch.view_as_real(state.memory.vectors(list(labels)).cpu()).flatten(1).double().numpy()
    example = torch.view_as_real(query.cpu()).flatten().double().numpy()
    scores: Floats = (rows * example).sum(axis=1) / (state.encoder.space.m * state.encoder.space.dim)
    return scores


def _fulfilled(state: State, conditions: Conditions, found: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the places of the records in each row that fulfil the conditions."""
    kept = set(_matching(state, conditions, list(dict.fromkeys(itertools.chain.from_iterable(found)))))
    return [[place for place, label in enumerate(own) if label in kept] for own in found]


def _matching(state: State, conditions: Conditions, labels: list[str]) -> list[str]:
    """Return the records that fulfil the conditions."""
    matching: list[str] = []
    for start in range(0, len(labels), BATCH):
        part = labels[start : start + BATCH]
        keep = conditions.fulfilled(state.documents.get(part))
        matching += itertools.compress(part, keep.tolist())
    return matching


def _compare(
    state: State, prepared: Prepared, rows: NDArray[np.int64], found: Sequence[Sequence[str]], weights: Floats
) -> list[Found]:
    """Return the records of each example by exact scores, best first."""
    labels = list(dict.fromkeys(itertools.chain.from_iterable(found)))
    documents = state.documents.get(labels)
    stored = state.encoder.prepare(documents)
    place = {label: row for row, label in enumerate(labels)}
    at = np.array([place[label] for own in found for label in own], dtype=np.int64)
    owner = np.repeat(np.arange(len(found)), [len(own) for own in found])
    fields = state.encoder.field_scores(prepared, rows[owner], stored, at)
    scores = np.round(combine(fields, weights[rows[owner]]), _DIGITS)
    results = []
    for own in np.split(np.arange(len(owner)), np.searchsorted(owner, range(1, len(found)))):
        best = own[_descending(scores[own], [labels[i] for i in at[own]])]
        places = at[best].tolist()
        results.append(Found([labels[i] for i in places], scores[best], fields[best], [documents[i] for i in places]))
    return results


def as_matches(state: State, found: Found, k: int, threshold: float, confidence: float) -> list[RecordMatch]:
    """Return the first k records of an example with at least the threshold as hits."""
    if not found.labels:
        return []
    chances, unknown = probabilities(state.calibration, found.scores)
    names = [field.name for field in state.encoder.active]
    hits = []
    for rank in range(min(k, int((found.scores >= threshold).sum()))):
        score, other = float(found.scores[rank]), 1 if rank == 0 else 0
        has_other = len(found.labels) > 1
        hits.append(
            RecordMatch(
                guess=id_of(found.labels[rank]),
                score=score,
                runner_up=id_of(found.labels[other]) if has_other else None,
                margin=score - float(found.scores[other]) if has_other else score,
                candidates=len(state),
                probability=float(chances[rank]),
                probability_unknown=unknown,
                required_confidence=confidence,
                document=found.documents[rank],
                fields={name: float(x) for name, x in zip(names, found.fields[rank], strict=True) if np.isfinite(x)},
                note="" if score > 0 else _NOTHING,
            )
        )
    return hits


def find_by_vector(state: State, queries: Tensor, count: int) -> list[Found]:
    """Return records by the dot product of vectors alone."""
    results = []
    for query, labels in zip(queries, _first(state, queries, count), strict=True):
        scores = _vector_scores(state, query, labels)
        order = _descending(scores, labels)
        own = [labels[place] for place in order]
        fields = np.full((len(own), len(state.encoder.active)), np.nan)
        results.append(Found(own, np.clip(scores[order], 0, 1), fields, state.documents.get(own)))
    return results


def _descending(scores: Floats, labels: Sequence[str]) -> NDArray[np.int64]:
    """Return the order of descending scores; of equal scores the record that is first in the index comes first."""
    return np.lexsort((np.array(list(map(number_of, labels)), dtype=np.int64), -scores))

"""Query: from the arguments of a search to its hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ghrr.checks import check_integer, check_real, describe, value_error
from ghrr.memory.match import check_confidence
from ghrr.search.candidates import CANDIDATES, as_matches, find_by_vector, find_candidates
from ghrr.search.conditions import Conditions
from ghrr.search.fields import check_weights, list_names
from ghrr.search.match import RecordMatch
from ghrr.search.records import Document
from ghrr.search.state import State


def search(  # noqa: PLR0917
    state: State,
    examples: Sequence[Document],
    k: int,
    threshold: float,
    must: Document | None,
    must_not: Document | None,
    near: Document | None,
    weights: Mapping[str, float] | None,
    candidates: int,
    confidence: float,
) -> list[list[RecordMatch]]:
    """Return the hits of each example; parameters as in :meth:`ghrr.search.RecordIndex.search`."""
    k = check_integer("k", k, least=1)
    candidates = check_integer("candidates", candidates, least=0)
    threshold = check_real("threshold", threshold, low=0.0, high=1.0)
    confidence = check_confidence(confidence)
    encoder = state.encoder
    names = [field.name for field in encoder.fields]
    factors = check_weights(weights, names)
    prepared = encoder.prepare(examples, noun="example")
    if not len(state) or not examples:
        return [[] for _ in examples]
    empty = np.flatnonzero(~(prepared.rows >= 0).any(axis=0))
    if len(empty):
        raise value_error(
            f"example {empty[0]} has no value in a field of this index, got "
            f"{describe(examples[empty[0]])}; the fields are {list_names(names)}"
        )
    conditions = Conditions(encoder, must, must_not, near)
    if not candidates and conditions:
        raise value_error("must, must_not and near compare documents, got candidates=0; leave it out")
    queries = encoder.encode(prepared, factors=factors)
    if candidates:
        found = find_candidates(
            state, prepared, queries, count=max(k, candidates), factors=factors, conditions=conditions
        )
    else:
        found = find_by_vector(state, queries, max(k, CANDIDATES))
    return [as_matches(state, one, k, threshold, confidence) for one in found]

"""Explanation: the comparison of an example with one record, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ghrr.search.encoder import combine
from ghrr.search.fields import check_weights
from ghrr.search.records import Document
from ghrr.search.state import State


class Explanation(NamedTuple):
    """Comparison of an example with a record: its score, and the score and the weight of each field.

    Fields that one of the two lacks have the score None. Weights are shares of the fields that the example has.

    Examples
    --------
    >>> import ghrr
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada", "born": 1815}])
    >>> index.explain("0", {"name": "Ada"}).weights
    {'name': 1.0}
    """

    score: float
    fields: dict[str, float | None]
    weights: dict[str, float]


def explain(state: State, identifier: str, example: Document, weights: Mapping[str, float] | None) -> Explanation:
    """Compare an example with one record."""
    label, encoder = state.label_of(identifier), state.encoder
    factors = check_weights(weights, [field.name for field in encoder.fields])
    prepared = encoder.prepare([example], noun="example")
    stored = encoder.prepare(state.documents.get([label]))
    zero = np.zeros(1, dtype=np.int64)
    scores = encoder.field_scores(prepared, zero, stored, zero)
    own = encoder.weights(factors) * encoder.shares(prepared)
    total = combine(scores, own)[0]
    names = [field.name for field in encoder.active]
    shares = own[0] / max(float(own.sum()), 1e-12)
    fields = {name: round(float(s), 4) if np.isfinite(s) else None for name, s in zip(names, scores[0], strict=True)}
    return Explanation(float(total), fields, {n: round(float(w), 4) for n, w in zip(names, shares, strict=True) if w})

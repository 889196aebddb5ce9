"""Learning: fields, weights and probabilities of an index from examples and the records that they should find."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ghrr.checks import value_error
from ghrr.memory.labels import check_labels
from ghrr.search.aliases import find_aliases
from ghrr.search.candidates import find_candidates
from ghrr.search.encoder import Prepared, RecordEncoder
from ghrr.search.index_calibration import calibrate_on
from ghrr.search.paths import columns
from ghrr.search.records import Document, Records, as_list
from ghrr.search.state import State
from ghrr.search.weights import fit_weights


def learn(records: Records, examples: Sequence[Document], ids: Sequence[str]) -> None:
    """Find aliases and weights that fit the examples, encode all records again, and calibrate on the examples."""
    examples, names = as_list(examples), check_labels(ids)
    if not examples or len(names) != len(examples):
        raise value_error(f"needs examples and one id for each, got {len(examples)} examples and {len(names)} ids")
    with records.lock:
        state = records.state
        targets = [state.label_of(name) for name in names]
        encoder, prepared = _fitted(state, examples, targets)
        learned = records.encoded_again(replace(state, encoder=encoder, recall=None))
        targets = [learned.label_of(name) for name in names]
        calibration = calibrate_on(learned, prepared, targets, labelled=True)
        records.publish(replace(learned, calibration=calibration))


def _fitted(state: State, examples: Sequence[Document], targets: Sequence[str]) -> tuple[RecordEncoder, Prepared]:
    """Return an encoder with aliases and weights that fit the examples, and these prepared."""
    encoder = copy.copy(state.encoder)
    paths = frozenset(columns(examples, noun="example"))
    encoder.aliases = find_aliases(encoder.fields, examples, state.documents.get(targets))
    encoder.whole_paths = paths | frozenset(encoder.aliases.values())
    prepared = encoder.prepare(examples)
    found = find_candidates(replace(state, encoder=encoder), prepared, encoder.encode(prepared))
    size = min(len(one.labels) for one in found)
    places = [one.labels[:size] for one in found]
    right = np.array([own.index(x) if x in own else -1 for own, x in zip(places, targets, strict=True)])
    used = np.flatnonzero(right >= 0)
    if not len(used):
        raise value_error("no example finds its record; check the ids and the fields")
    scores = np.stack([one.fields[:size] for one in found])
    new = fit_weights(scores[used], encoder.shares(prepared)[used], right[used], encoder.weights())
    weights = dict(zip((field.path for field in encoder.active), map(float, new), strict=True))
    encoder.fields = [replace(field, weight=weights.get(field.path, field.weight)) for field in encoder.fields]
    return encoder, prepared

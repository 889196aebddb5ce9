"""Calibration of an index on examples: labelled ones, or ones that are made from its records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ghrr.search.calibration import LEAST_RECORDS, PRIOR, damaged_examples, features, fit_parameters, is_unique
from ghrr.search.candidates import find_candidates
from ghrr.search.encoder import Prepared
from ghrr.search.state import State

Floats = NDArray[np.float64]
_CALIBRATION = 100  # examples


def calibrate(state: State) -> Floats:
    """Return the calibration for examples made from the records."""
    labels = state.labels
    chosen = labels[:: max(1, len(labels) // _CALIBRATION)][:_CALIBRATION]
    if len(set(state.documents.texts(chosen))) < LEAST_RECORDS:
        return PRIOR.copy()
    examples = damaged_examples(state.documents.get(chosen))
    used = [row for row, example in enumerate(examples) if example]
    prepared = state.encoder.prepare([examples[row] for row in used])
    return calibrate_on(state, prepared, [chosen[row] for row in used], labelled=False)


def calibrate_on(state: State, prepared: Prepared, targets: Sequence[str], *, labelled: bool) -> Floats:
    """Return the calibration for examples of which the labels of the records that they should find are known."""
    best, is_correct, missing = [], [], []
    queries = state.encoder.encode(prepared)
    for target, found in zip(targets, find_candidates(state, prepared, queries), strict=True):
        own = np.array([label == target for label in found.labels])
        if not own.all():
            best.append(features(found.scores)[0])
            is_correct.append(own[0] and is_unique(found.scores))
            missing.append(features(found.scores[~own])[0])
    rows = (np.array(best).reshape(-1, 2), np.array(is_correct, dtype=bool), np.array(missing).reshape(-1, 2))
    return fit_parameters(*rows, labelled=labelled)

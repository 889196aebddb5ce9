r"""Calibration: from the scores of hits to the probability that a hit is the record that the example describes.

The probability is a logistic function of the score s of a hit and of its margin d to the next hit,

.. math:: P = \frac{1}{1 + e^{-(a + b s + c d)}} , \qquad b, c \ge 0 .

The parameters are fitted to examples whose record is known, searched once with their record and once without it. So
even odds are assumed that the record exists. Without labels, examples are made from the records themselves: some fields
are dropped and letters are changed. Real examples are harder: their correct answers are assumed to lie anywhere between
the best answer without the record and that with it.

Scores may be equal or nearly so. The probability of the best score is therefore divided between all candidates,
in proportion to :math:`e^{(b + c)(s_i - s_1)}`: their probabilities sum to at most 1. Where the records are too few or
too alike to fit the parameters, no probability is above one half, so no hit is confident.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.search.paths import Path, columns

Floats = NDArray[np.float64]
PRIOR = np.array([-5.0, 8.0, 6.0])  # a, b and c for too few records
LEAST_RECORDS = 20  # all different, in an index that is calibrated
_HIGHEST_UNFITTED = 0.5
_EQUAL = 1e-9  # difference of scores that is due to rounding
_LEAST = 5  # examples
_PARTS = (1 / 6, 1 / 2, 5 / 6)  # where correct answers of real examples lie between a wrong answer and a copy
_PENALTY = 1.0  # of squared slopes, as for one observation
_STEPS = 25
_DROPPED = 0.2  # share of fields that an example lacks
_CHANGED = 0.3  # share of texts with a typing error


def damaged_examples(documents: Sequence[Mapping[str, Any]], seed: int = 0) -> list[dict[str, Any]]:
    """Return partial documents with typing errors.

    Examples
    --------
    >>> from ghrr.search.calibration import damaged_examples
    >>> damaged_examples([{"name": "Ada Lovelace", "born": {"city": "London", "year": 1815}}], seed=1)
    [{'born': {'city': 'London', 'year': 1815}}]
    """
    rng = random.Random(seed)  # noqa: S311
    examples: list[dict[str, Any]] = [{} for _ in documents]
    for path, column in columns(documents).items():
        for row, value in zip(column.rows, column.values, strict=True):
            if rng.random() >= _DROPPED:
                _set(examples[row], path, _as_document(_damage(value, rng)))
    return examples


def _damage(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, str) or rng.random() >= _CHANGED or not value:
        return value
    at = rng.randrange(len(value))
    letter = rng.choice(string.ascii_lowercase)
    return rng.choice(
        [value[:at] + value[at + 1 :], value[:at] + letter + value[at:], value[:at] + letter + value[at + 1 :]]
    )


def _as_document(value: Any) -> Any:
    """Return a value as documents have it: a point is an object."""
    if isinstance(value, list):
        return [_as_document(element) for element in value]
    return {"lat": value[0], "lon": value[1]} if isinstance(value, tuple) else value


def _set(document: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        inner: Any = document.setdefault(key, {})
        if not isinstance(inner, dict):  # a list of objects and other values has values at two levels; keep the first
            return
        document = inner
    document[path[-1]] = value


def features(scores: Floats) -> Floats:
    """Return the score of each hit, best first, and its margin to the next best other hit.

    Shapes
    ------
    scores: ``(n,)``, descending; output: ``(n, 2)``

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import features
    >>> features(np.array([0.9, 0.3, 0.2])).round(1).tolist()
    [[0.9, 0.6], [0.3, -0.6], [0.2, -0.7]]
    """
    margins = scores - scores[0]
    margins[0] = scores[0] - (scores[1] if len(scores) > 1 else 0)
    return np.stack([scores, margins], axis=1)


def probability(parameters: Floats, rows: Floats) -> Floats:
    """Return the probability that hits are correct, from :func:`features`; it never falls with score or margin."""
    return np.asarray(1 / (1 + np.exp(-np.clip(parameters[0] + rows @ parameters[1:], -30, 30))))


def is_fitted(parameters: Floats) -> bool:
    """Whether parameters were fitted to examples."""
    return not np.array_equal(parameters, PRIOR)


def is_unique(scores: Floats) -> bool:
    """Whether no other hit is as good as the best one."""
    return len(scores) < 2 or bool(scores[0] - scores[1] > _EQUAL)


def probabilities(parameters: Floats, scores: Floats) -> tuple[Floats, float]:
    """Return the probability that each hit is correct, which sum to at most 1, and that none is.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import probabilities
    >>> parameters = np.array([-20.0, 30.0, 30.0])
    >>> [probabilities(parameters, np.array(scores))[0].round(2).tolist() for scores in ([0.9, 0.4], [0.9, 0.9, 0.4])]
    [[1.0, 0.0], [0.5, 0.5, 0.0]]
    """
    best = float(probability(parameters, features(scores)[:1])[0])
    shares = np.exp((parameters[1] + parameters[2]) * (scores - scores[0]))
    limit = 1.0 if is_fitted(parameters) else _HIGHEST_UNFITTED
    return np.minimum(best * shares / shares.sum(), limit), 1 - best


def fit_parameters(found: Floats, is_correct: NDArray[np.bool_], missing: Floats, *, labelled: bool) -> Floats:
    """Return the parameters of :func:`probability`.

    Parameters
    ----------
    found
        Features of the best hit of each example.
    is_correct
        Whether this hit is correct.
    missing
        Features of the best hit without the correct record.
    labelled
        Whether the examples are real ones, and not made from the records.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import fit_parameters, probability
    >>> rng = np.random.default_rng(0)
    >>> found = rng.normal([0.9, 0.4], 0.05, (100, 2))
    >>> missing = rng.normal([0.5, 0.1], 0.05, (100, 2))
    >>> parameters = fit_parameters(found, np.ones(100, bool), missing, labelled=False)
    >>> probability(parameters, np.array([[0.5, 0.1], [0.6, 0.15], [0.9, 0.4]])).round(1)
    array([0.1, 0.8, 1. ])
    """
    if min(len(found), int(is_correct.sum())) < _LEAST:
        return PRIOR.copy()
    parts = (1.0,) if labelled else _PARTS
    positive = np.concatenate([missing[is_correct] + part * (found - missing)[is_correct] for part in parts])
    negative = np.concatenate([found[~is_correct], missing] * len(parts))
    rows = np.concatenate([positive, negative])
    targets = np.repeat([1.0, 0.0], [len(positive), len(negative)])
    return _logistic(rows, targets)


def _logistic(rows: Floats, targets: Floats) -> Floats:
    """Return intercept and slopes of a ridge logistic regression by Newton's method; a slope below 0 becomes 0."""
    centre, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-6)
    columns = np.column_stack([np.ones(len(rows)), (rows - centre) / scale])
    parameters = np.zeros(columns.shape[1])
    free = np.ones(len(parameters), dtype=bool)
    penalty = np.diag([0.0] + [_PENALTY] * rows.shape[1])
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-np.clip(columns @ parameters, -30, 30)))
        slope = columns.T @ (targets - chances) - penalty @ parameters
        weighted = columns * (chances * (1 - chances) + 1e-9)[:, None]
        curvature = weighted.T @ columns + penalty
        parameters[free] += np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
        free[1:] &= parameters[1:] >= 0
        parameters[~free] = 0
    slopes = parameters[1:] / scale
    return np.concatenate([[parameters[0] - slopes @ centre], slopes])

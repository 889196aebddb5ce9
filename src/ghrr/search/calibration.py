r"""Calibration: from the score of a hit to the probability that it is the record that the example describes.

The probability is logistic in the score s and in its height above the other candidates,
:math:`P = \sigma(\beta_0 + \beta_1 s + \beta_2 (s - b))`, with b the median score of the candidates. Without labels the
coefficients are fitted to examples made from the records themselves: some fields are dropped and letters are changed.
Half of them are searched without their own record, so that no answer is right.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.search.paths import WHOLE, Path, columns

Floats = NDArray[np.float64]
PRIOR = np.array([-6.0, 8.0, 8.0])
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
            if path != WHOLE and rng.random() >= _DROPPED:
                _set(examples[row], path, _damage(value, rng))
    return examples


def _damage(value: Any, rng: random.Random) -> Any:
    if not isinstance(value, str) or rng.random() >= _CHANGED or not value:
        return value
    at = rng.randrange(len(value))
    letter = rng.choice(string.ascii_lowercase)
    return rng.choice(
        [value[:at] + value[at + 1 :], value[:at] + letter + value[at:], value[:at] + letter + value[at + 1 :]]
    )


def _set(document: dict[str, Any], path: Path, value: Any) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, {})
    document[path[-1]] = value


def features(scores: Floats, background: Floats) -> Floats:
    """Return the inputs of the logistic function, ``(n, 3)``."""
    return np.stack([np.ones_like(scores), scores, scores - background], axis=-1)


def probability(coefficients: Floats, scores: Floats, background: Floats) -> Floats:
    """Return the probability that hits are right."""
    return np.asarray(1 / (1 + np.exp(-np.clip(features(scores, background) @ coefficients, -30, 30))))


def fit_coefficients(scores: Floats, background: Floats, right: NDArray[np.bool_]) -> Floats:
    """Fit the coefficients by Newton's method, with a weak pull towards the prior; slopes stay positive.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import fit_coefficients, probability
    >>> scores, background = np.array([0.9, 0.8, 0.4, 0.3] * 25), np.full(100, 0.2)
    >>> beta = fit_coefficients(scores, background, scores > 0.5)
    >>> probability(beta, np.array([0.9, 0.3]), np.array([0.2, 0.2])).round(2)
    array([1., 0.])
    """
    x = features(scores, background)
    beta = PRIOR.copy()
    pull = np.diag([0.01, 0.1, 0.1])
    for _ in range(30):
        p = probability(beta, scores, background)
        gradient = x.T @ (right - p) - pull @ (beta - PRIOR)
        hessian = (x * (p * (1 - p))[:, None]).T @ x + pull
        beta = beta + np.clip(np.linalg.solve(hessian, gradient), -5, 5)
    return np.array([beta[0], max(beta[1], 0.0), max(beta[2], 0.0)])

r"""Calibration: from the score of a hit to the probability that it is the record that the example describes.

A hit stands out by :math:`z = (s - b) / d`, with b the median of the scores of the candidates and d their median
deviation from it. Let z be Gaussian for the best candidate if the right record is missing, and Gaussian with other
parameters if it is found. With even prior odds

.. math:: P = \frac{N(z; \mu_1, \sigma_1)}{N(z; \mu_1, \sigma_1) + N(z; \mu_0, \sigma_0)} .

Without labels, the parameters come from examples made from the records themselves: some fields are dropped and letters
are changed. Searched without their own record, they give :math:`\mu_0` and :math:`\sigma_0`. With it, they are
easier to find than real examples, so right answers are assumed to lie anywhere between:
:math:`\mu_1 = (\mu_0 + \bar z)/2`, :math:`\sigma_1 = (\bar z - \mu_0)/2`.
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
PRIOR = np.array([3.0, 1.5, 8.0, 4.0])  # for too few records
_LEAST = 5  # examples
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
        inner: Any = document.setdefault(key, {})
        if not isinstance(inner, dict):  # a list of objects and other values has values at two levels; keep the first
            return
        document = inner
    document[path[-1]] = value


def prominence(scores: Floats) -> Floats:
    """Return how far each of several candidates stands out from the rest, z.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import prominence
    >>> prominence(np.array([0.9, 0.3, 0.2, 0.1])).round(1)
    array([ 6.5,  0.5, -0.5, -1.5])
    """
    centre = np.median(scores)
    deviation = max(float(np.median(np.abs(scores - centre))), 0.01)
    return np.asarray((scores - centre) / deviation)


def probability(parameters: Floats, z: Floats) -> Floats:
    """Return the probability that hits are right; it never falls with z."""
    mean_0, std_0, mean_1, std_1 = parameters
    log_0 = -np.square((np.maximum(z, mean_0) - mean_0) / std_0) / 2 - np.log(std_0)
    log_1 = -np.square((np.minimum(z, mean_1) - mean_1) / std_1) / 2 - np.log(std_1)
    return np.asarray(1 / (1 + np.exp(np.clip(log_0 - log_1, -30, 30))))


def fit_parameters(missing: Floats, found: Floats, *, labelled: bool) -> Floats:
    """Return the parameters for z of best candidates if the right record is missing, and of right candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.calibration import fit_parameters, probability
    >>> rng = np.random.default_rng(0)
    >>> parameters = fit_parameters(rng.normal(3, 1, 100), rng.normal(20, 4, 100), labelled=False)
    >>> probability(parameters, np.array([3.0, 6.0, 12.0])).round(2)
    array([0.06, 0.9 , 1.  ])
    """
    if len(missing) < _LEAST or len(found) < _LEAST:
        return PRIOR.copy()
    mean_0, std_0 = float(np.mean(missing)), max(float(np.std(missing)), 0.1)
    mean_1, std_1 = float(np.mean(found)), max(float(np.std(found)), 0.1)
    if not labelled:
        mean_1 = max((mean_0 + mean_1) / 2, mean_0 + std_0)
        std_1 = max(mean_1 - mean_0, std_0)
    return np.array([mean_0, std_0, max(mean_1, mean_0), std_1])

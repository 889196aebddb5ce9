r"""Predict how often a structure answers confidently and correctly, and choose the smallest space for a given rate.

Unbinding a key from n bundled products leaves the right value with a score :math:`S = 1 + \sigma z`, where
:math:`\sigma^2 = (n - 1) c^2` is the crosstalk noise of the other products. Each wrong candidate scores noise with the
standard deviation :math:`\tau` (:func:`ghrr.capacity.recall_error`). An answer counts if it is right and confident:
:func:`ghrr.memory.match.judge` must give it at least the required confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ghrr._checks import check_integer, check_real, describe
from ghrr.capacity import first_true
from ghrr.memory.match import CONFIDENCE, answer_noise, judge, required_score
from ghrr.space import Space

_POINTS = 401  # grid points for the score of the right candidate, from -8 to 8 standard deviations
_QUANTILES = 64  # quantiles of the score of the best wrong candidate, denser towards both ends


def answer_rate(
    space: Space,
    *,
    items: int,
    candidates: int,
    confidence: float = CONFIDENCE,
    several: bool = False,
    odds: float = 1.0,
) -> float:
    """Return the expected share of queries that are answered confidently and correctly.

    Parameters
    ----------
    space
        Space of the hypervectors.
    items
        Number of products in the bundle.
    candidates
        Number of values to choose from.
    confidence
        Probability from which an answer is confident.
    several
        Whether a query can have several answers. Each candidate is then judged separately, and an answer is right only
        if no wrong candidate is confident.
    odds
        Prior odds that there is no answer.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.planning import answer_rate
    >>> f"{answer_rate(ghrr.Space(dim=40, m=3), items=20, candidates=100):.3f}"
    '0.811'
    """
    sigma = math.sqrt(items - 1) * space.crosstalk_std
    noise = answer_noise(space, float(items))
    z = torch.linspace(-8, 8, _POINTS, dtype=torch.float64)
    weight = torch.exp(-z.square() / 2)
    weight = weight / weight.sum()
    score = 1 + sigma * z
    tau = torch.sqrt(space.noise_std**2 * (score.square() - sigma**2).clamp(min=0) + sigma**2).clamp(min=1e-300)
    if several:
        prior = odds * candidates
        right, _ = judge(score, score, candidates=1, noise=noise, odds=prior)
        threshold = required_score(float(noise) ** 2, odds=prior, confidence=confidence)
        no_wrong = torch.exp((candidates - 1) * torch.special.log_ndtr(threshold / tau))
        return float(weight @ ((right >= confidence) * no_wrong))
    if candidates == 1:
        right, _ = judge(score, score, candidates=1, noise=noise, odds=odds)
        return float(weight @ (right >= confidence).double())
    # The best of N - 1 wrong candidates: its quantile at u is that of a normal variable at the (N - 1)-th root of u.
    quantiles = torch.sigmoid(torch.linspace(-12, 12, _QUANTILES, dtype=torch.float64))
    share = quantiles * (1 - quantiles)
    share = share / share.sum()
    tail = -torch.expm1(torch.log(quantiles) / (candidates - 1))
    wrong = -torch.special.ndtri(tail.clamp(min=1e-300))[:, None] * tau
    right, _ = judge(score.expand_as(wrong), wrong, candidates=candidates, noise=noise, odds=odds)
    return float(share @ ((right >= confidence) & (score > wrong)).double() @ weight)


def suggest_space(
    operation: str,
    items: tuple[str, int],
    candidates: tuple[str, int],
    *,
    m: int,
    error: float,
    settings: dict[str, Any],
    several: bool = False,
    rate: Callable[[Space, int, int], float] | None = None,
) -> Space:
    """Return the smallest space in which at least 1 - ``error`` of all queries are answered confidently and correctly.

    Parameters
    ----------
    operation
        Name for error messages.
    items, candidates
        As in :func:`answer_rate`, each as ``(name of the argument, its value)``.
    m, settings
        Arguments of :class:`ghrr.Space`.
    error
        Largest accepted share of queries with an unconfident or wrong answer.
    several
        As in :func:`answer_rate`.
    rate
        ``rate(space, items, candidates)`` for structures whose rate is not simply :func:`answer_rate`.

    Examples
    --------
    >>> from ghrr.structures.planning import suggest_space
    >>> suggest_space("example", ("items", 20), ("names", 100), m=3, error=0.01, settings={"seed": 1})
    Space(dim=66, m=3, seed=1)
    """
    count, choices = (check_integer(operation, name, value, least=1) for name, value in (items, candidates))
    m = check_integer(operation, "m", m, least=1)
    error = check_real(operation, "error", error, low=0.0, high=1.0, open_ends=True)
    rotation = settings.get("rotation")
    if isinstance(rotation, torch.Tensor) and rotation.ndim != 2:
        raise ValueError(
            f"{operation}: a given rotation must be (m, m), because dim is not known yet; got {describe(rotation)}"
        )

    def is_enough(dim: int) -> bool:
        space = Space(dim, m, **settings)
        if rate is not None:
            return rate(space, count, choices) >= 1 - error
        return answer_rate(space, items=count, candidates=choices, several=several) >= 1 - error

    return Space(first_true(is_enough), m, **settings)

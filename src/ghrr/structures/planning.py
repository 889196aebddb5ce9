r"""Predict how often a structure answers confidently and correctly, and choose the smallest space for a given rate.

The score of the right candidate and the noise of the wrong ones are those of :func:`ghrr.capacity.scores_at`. An answer
counts if it is right and confident: :func:`ghrr.memory.match.judge` must give it at least the required confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ghrr.capacity import first_true, scores_at
from ghrr.checks import check_integer, check_real, describe, names_errors, value_error
from ghrr.memory.match import CONFIDENCE, answer_noise, check_confidence, judge, required_score
from ghrr.space import Space

_POINTS = 401  # grid points for the score of the correct candidate, from -8 to 8 standard deviations
_QUANTILES = 64  # quantiles of the score of the best wrong candidate, denser towards both ends


@names_errors
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
        Whether a query can have several answers. Candidates are then judged separately, and an answer is correct only
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
    confidence = check_confidence("answer_rate", confidence, low=0.0)
    noise = answer_noise(space, float(items))
    z = torch.linspace(-8, 8, _POINTS, dtype=torch.float64)
    weight = torch.exp(-z.square() / 2)
    weight = weight / weight.sum()
    score, tau = scores_at(z, items, space.noise_std, space.crosstalk_std)
    if several:
        prior = odds * candidates
        right, _ = judge(score, score, candidates=1, noise=noise, odds=prior)
        threshold = required_score(float(noise) ** 2, odds=prior, confidence=confidence)
        no_wrong = torch.exp((candidates - 1) * torch.special.log_ndtr(threshold / tau))
        return float(weight @ ((right >= confidence) * no_wrong))
    if candidates == 1:
        right, _ = judge(score, score, candidates=1, noise=noise, odds=odds)
        return float(weight @ (right >= confidence).double())
    # The best of N - 1 wrong candidates: its quantile at u is a normal quantile at the (N - 1)-th root of u.
    quantiles = torch.sigmoid(torch.linspace(-12, 12, _QUANTILES, dtype=torch.float64))
    share = quantiles * (1 - quantiles)
    share = share / share.sum()
    tail = -torch.expm1(torch.log(quantiles) / (candidates - 1))
    wrong = -torch.special.ndtri(tail.clamp(min=1e-300))[:, None] * tau
    right, _ = judge(score.expand_as(wrong), wrong, candidates=candidates, noise=noise, odds=odds)
    return float(share @ ((right >= confidence) & (score > wrong)).double() @ weight)


def suggest_space(rate: Callable[[Space], float], *, m: int, error: float, settings: dict[str, Any]) -> Space:
    """Return the smallest space in which a rate such as :func:`answer_rate` is at least 1 - ``error``.

    Parameters
    ----------
    rate
        Function of a space that increases with its size.
    m, settings
        Arguments of :class:`ghrr.Space`.
    error
        Largest accepted share of queries with an unconfident or wrong answer.

    Examples
    --------
    >>> from ghrr.structures.planning import answer_rate, suggest_space
    >>> rate = lambda space: answer_rate(space, items=20, candidates=100)
    >>> suggest_space(rate, m=3, error=0.01, settings={"seed": 1})
    Space(dim=66, m=3, seed=1)
    """
    m = check_integer("m", m, least=1)
    error = check_real("error", error, low=0.0, high=1.0, open_ends=True)
    rotation = settings.get("rotation")
    if isinstance(rotation, torch.Tensor) and rotation.ndim != 2:
        raise value_error(f"a given rotation must be (m, m), because dim is not known yet; got {describe(rotation)}")
    return Space(first_true(lambda dim: rate(Space(dim, m, **settings)) >= 1 - error), m, **settings)

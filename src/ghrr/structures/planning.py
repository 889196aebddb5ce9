r"""How often a structure answers with certainty and right, by theory, and the smallest space that reaches a given rate.

Unbinding a key from n bundled products leaves the right value with a score :math:`S = 1 + \sigma z`, where
:math:`\sigma^2 = (n - 1) c^2` is the crosstalk of the others, and noise of deviation :math:`\tau` for every wrong
candidate (:func:`ghrr.capacity.recall_error`). An answer counts if it is right and confident:
:func:`ghrr.memory.match.judge` must find it at least as probable as the required confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ghrr._checks import check_integer, check_real, describe
from ghrr.capacity import first_true
from ghrr.memory.match import CONFIDENCE, answer_noise, judge
from ghrr.space import Space

_POINTS = 401  # of the score of the right candidate, between -8 and 8 standard deviations
_LEVELS = 64  # quantiles of the score of the best wrong candidate, denser towards both ends


def answer_rate(
    space: Space,
    *,
    items: int,
    candidates: int,
    confidence: float = CONFIDENCE,
    several: bool = False,
    odds: float = 1.0,
) -> float:
    """Share of questions that are answered with confidence and right.

    Parameters
    ----------
    space
        Space of the hypervectors.
    items
        Number of products in the bundle.
    candidates
        Number of values to choose from.
    confidence
        Probability from which on an answer is confident.
    several
        Whether a question may have several answers: then each candidate is judged by itself, and an answer is right if
        no wrong candidate is confident either.
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
        needed = 0.5 + float(noise) ** 2 * (math.log(prior) + math.log(confidence / (1 - confidence)))
        none_wrong = torch.exp((candidates - 1) * torch.special.log_ndtr(needed / tau))
        return float(weight @ ((right >= confidence) * none_wrong))
    if candidates == 1:
        right, _ = judge(score, score, candidates=1, noise=noise, odds=odds)
        return float(weight @ (right >= confidence).double())
    # The best of N - 1 wrong candidates: its quantile at u is that of a normal variable at the (N - 1)-th root of u.
    levels = torch.sigmoid(torch.linspace(-12, 12, _LEVELS, dtype=torch.float64))
    share = levels * (1 - levels)
    share = share / share.sum()
    tail = -torch.expm1(torch.log(levels) / (candidates - 1))
    wrong = -torch.special.ndtri(tail.clamp(min=1e-300))[:, None] * tau
    right, _ = judge(score.expand_as(wrong), wrong, candidates=candidates, noise=noise, odds=odds)
    return float(share @ ((right >= confidence) & (score > wrong)).double() @ weight)


def smallest_space(
    operation: str, rate: Callable[[Space], float], *, m: int, error: float, settings: dict[str, Any]
) -> Space:
    """Return the smallest space in which ``rate(space)`` is at least 1 - ``error``."""
    m = check_integer(operation, "m", m, least=1)
    error = check_real(operation, "error", error, low=0.0, high=1.0, open_ends=True)
    rotation = settings.get("rotation")
    if isinstance(rotation, torch.Tensor) and rotation.ndim != 2:
        raise ValueError(f"{operation}: a given rotation must be (m, m), to fit any dim; got {describe(rotation)}")
    return Space(first_true(lambda dim: rate(Space(dim, m, **settings)) >= 1 - error), m, **settings)

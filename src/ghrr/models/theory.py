"""Theory of bundling in any model: the expected share of the members of a bundle that can be found."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ghrr.capacity import first_true
from ghrr.checks import check_integer, check_real, names_errors
from ghrr.models.facts import Scores
from ghrr.models.protocol import Architecture

_STEPS = 8  # values of the random number that breaks ties


@names_errors
def bundling_accuracy(model: Architecture, items: int, candidates: int) -> float:
    """Predict the share of the members of a bundle among its nearest neighbours.

    ``items`` random vectors out of ``candidates`` are bundled, and the same number of candidates with the highest
    similarity to the bundle is chosen. This is the measure of Schlegel, Neubert and Protzel (2022). Scores are taken as
    independent, and Gaussian or binomial, as :meth:`Architecture.bundle_scores` says.

    Examples
    --------
    >>> from ghrr import models
    >>> f"{models.bundling_accuracy(models.FHRR(250), items=15, candidates=1000):.3f}"
    '0.994'
    """
    items = check_integer("items", items, least=1)
    candidates = check_integer("candidates", candidates, least=items)
    return members_found(model.bundle_scores(items), items, candidates)


def members_found(scores: Scores, items: int, candidates: int) -> float:
    r"""Return the mean share of members among the best ``items`` of ``candidates``, for independent scores.

    A member with score s is chosen if at most n - 1 other scores are higher: of the n - 1 other members, each with
    probability :math:`Q_1(s)`, and of the M - n others, each with :math:`Q_0(s)`. Ties are broken at random.
    """
    weights, member_above, other_above = _gaussian(scores) if scores.agreement is None else _counts(*scores.agreement)
    count = torch.arange(items, dtype=torch.float64)
    others = _binomial(count, candidates - items, other_above)
    members = _binomial(count, items - 1, member_above).cumsum(dim=0).flip(0)  # at most n - 1 - j
    return float(((others * members).sum(dim=0) * weights).sum())


def _gaussian(scores: Scores) -> tuple[Tensor, Tensor, Tensor]:
    """Return weights of the scores of a member, and the chances that another member and another vector score higher."""
    z = torch.linspace(-9, 9, 721, dtype=torch.float64)
    weights = torch.exp(-z.square() / 2)
    score = scores.member_mean + max(scores.member_std, 1e-12) * z
    return weights / weights.sum(), torch.special.ndtr(-z), torch.special.ndtr(-score / max(scores.other_std, 1e-12))


def _counts(components: int, member: float, other: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the values of :func:`_gaussian` for binomial counts. Adding a random number below 1 breaks ties."""
    count = torch.arange(components + 1, dtype=torch.float64)
    p = torch.tensor([member, other], dtype=torch.float64)
    chances = _binomial(count, components, p)
    above = 1 - chances.cumsum(dim=0)
    likely = chances[:, 0] > 1e-15
    steps = (torch.arange(_STEPS, dtype=torch.float64) + 0.5) / _STEPS
    weights, ties, higher = chances[likely, 0], chances[likely], above[likely].clamp(min=0.0)
    reached = (higher.unsqueeze(1) + ties.unsqueeze(1) * (1 - steps)[:, None]).clamp(max=1.0).flatten(0, 1)
    return (weights.repeat_interleave(_STEPS) / (weights.sum() * _STEPS)), reached[:, 0], reached[:, 1]


def _binomial(count: Tensor, n: int, p: Tensor) -> Tensor:
    """Return the probabilities of counts, ``(len(count), len(p))``, in n trials of probability p."""
    count = count.unsqueeze(-1)
    possible = count <= n
    k = count.clamp(max=n)
    log_choose = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    log_p = torch.special.xlogy(k, p) + torch.special.xlog1py(n - k, -p)
    return torch.where(possible, torch.exp(log_choose + log_p), 0.0)


@names_errors
def dimension_for(
    model: type[Architecture], items: int, candidates: int, accuracy: float = 0.99, **settings: Any
) -> Architecture:
    """Return the smallest model, by reals per vector, whose predicted bundling accuracy reaches a value.

    Parameters
    ----------
    model
        Class of the model.
    items, candidates
        As in :func:`bundling_accuracy`.
    accuracy
        The share of members to find, below 1.
    **settings
        Further arguments of the model.

    Examples
    --------
    >>> from ghrr import models
    >>> models.dimension_for(models.FHRR, items=15, candidates=1000)
    FHRR(dim=234)
    """
    accuracy = check_real("accuracy", accuracy, low=0.0, high=1.0, open_ends=True)

    def reaches(reals: int) -> bool:
        return bundling_accuracy(model.sized(reals=reals, **settings), items, candidates) >= accuracy

    return model.sized(reals=first_true(reaches), **settings)

r"""Calibration: the probability that the best relation of the chart is correct.

The scores of the chart are log-probabilities of single derivations, which do not sum to one and do not reflect how well
the vectors generalise. The probability is therefore a logistic function of two numbers, fitted to chains that were held
out of training (:mod:`ghrr.relations.chains.held_out`): the lead of the best relation over the second, and the weakest
step of its derivation. A chain without a name, such as the brother of a wife, has a weak step. The best score itself is
not used: it falls with the length of the chain, and what holds for short chains is wrong for long ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-2
_STEPS = 50
_LIMIT = 10.0  # of both features, in nats


def chart_features(scores: Tensor, weakest: Tensor) -> Tensor:
    """Return a constant, the lead of the best relation over the second, and the weakest step to the best relation.

    Parameters
    ----------
    scores, weakest
        Scores of all relations, and the weakest steps to them.

    Shapes
    ------
    scores, weakest: ``(n, relations)``; output: ``(n, 3)``, in double precision
    """
    values, order = scores.double().topk(min(2, scores.shape[1]), dim=1)
    lead = (values[:, 0] - values[:, -1]).clamp(max=_LIMIT)
    step = weakest.double().gather(1, order[:, :1])[:, 0].clamp(min=-_LIMIT)
    return torch.stack([torch.ones_like(lead), lead, step], dim=1)


def fit_logistic(features: Tensor, correct: Tensor, counts: Tensor | None = None) -> Tensor:
    r"""Return weights w for which :math:`\sigma(w^\top x)` gives the observations the highest likelihood.

    By Newton's method with a small penalty. Labels are smoothed as in Platt scaling, so that a perfect record of n
    answers gives a probability of about 1 - 1/n. An observation counts as many times as ``counts`` says, by default
    once.

    Shapes
    ------
    features: ``(n, k)``; correct: ``(n,)``, of bool; counts: ``(n,)``; output: ``(k,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains.calibration import fit_logistic
    >>> weights = fit_logistic(torch.ones(100, 1), torch.arange(100) < 75)  # correct in 3 of 4
    >>> f"{torch.sigmoid(weights)[0]:.2f}"
    '0.75'
    """
    counts = torch.ones(len(correct), dtype=torch.float64) if counts is None else counts.double()
    positive, negative = float(counts[correct].sum()), float(counts[~correct].sum())
    goals = torch.where(correct, (positive + 1) / (positive + 2), 1 / (negative + 2)).double()
    weights = features.new_zeros(features.shape[1], dtype=torch.float64)
    features, penalty = features.double(), _RIDGE * torch.eye(features.shape[1], dtype=torch.float64)
    for _ in range(_STEPS):
        p = torch.sigmoid(features @ weights)
        slope = features.mT @ (counts * (goals - p)) - penalty @ weights
        curvature = (features.mT * (counts * p * (1 - p))) @ features + penalty
        step = torch.linalg.solve(curvature, slope)
        weights = weights + step.clamp(-5, 5)
        if float(step.abs().max()) < 1e-9:
            break
    return weights

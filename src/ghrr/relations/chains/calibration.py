r"""Calibration: the probability that the best relation of the chart is right.

The scores of the chart are log-probabilities of single derivations, which do not sum to one and do not reflect how well
the vectors generalise. The probability is therefore a logistic function of the lead of the best relation over the
second, fitted to chains that were held out of training (:func:`fit_logistic`). The best score itself is not used: it
falls with the length of the chain, and what holds for short chains is wrong for long ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-2
_STEPS = 50


def chart_features(scores: Tensor) -> Tensor:
    """Return a constant and the lead of the best relation over the second, from the scores of all relations.

    Shapes
    ------
    scores: ``(n, relations)``; output: ``(n, 2)``, in double precision
    """
    best = scores.double().topk(min(2, scores.shape[1]), dim=1).values
    lead = best[:, 0] - best[:, -1]
    return torch.stack([torch.ones_like(lead), lead.clamp(max=10)], dim=1)


def fit_logistic(features: Tensor, right: Tensor) -> Tensor:
    r"""Return weights w for which :math:`\sigma(w^\top x)` gives the observations the highest likelihood.

    By Newton's method with a small penalty. Labels are smoothed as in Platt scaling, so that a perfect record of n
    answers gives a probability of about 1 - 1/n.

    Shapes
    ------
    features: ``(n, k)``; right: ``(n,)``, of bool; output: ``(k,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.chains.calibration import fit_logistic
    >>> weights = fit_logistic(torch.ones(100, 1), torch.arange(100) < 75)  # right in 3 of 4
    >>> f"{torch.sigmoid(weights)[0]:.2f}"
    '0.75'
    """
    positive, negative = float(right.sum()), float((~right).sum())
    goals = torch.where(right, (positive + 1) / (positive + 2), 1 / (negative + 2)).double()
    weights = features.new_zeros(features.shape[1], dtype=torch.float64)
    features, penalty = features.double(), _RIDGE * torch.eye(features.shape[1], dtype=torch.float64)
    for _ in range(_STEPS):
        p = torch.sigmoid(features @ weights)
        slope = features.mT @ (goals - p) - penalty @ weights
        curvature = (features.mT * (p * (1 - p))) @ features + penalty
        step = torch.linalg.solve(curvature, slope)
        weights = weights + step.clamp(-5, 5)
        if float(step.abs().max()) < 1e-9:
            break
    return weights

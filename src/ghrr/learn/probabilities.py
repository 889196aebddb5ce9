r"""Probabilities from scores: a softmax whose temperature is fitted by maximum likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

_STEPS = 50


def fit_temperature(scores: Tensor, labels: Tensor, weights: Tensor) -> float:
    r"""Return the factor t for which :math:`\mathrm{softmax}(t s)` gives the labels the highest likelihood.

    The likelihood is concave in t, so Newton's method with a bound on each step finds the maximum. As in Platt scaling,
    a share 1 / (N + 2) of each label is spread evenly over all classes, with N the sum of the weights: perfect scores
    then have a finite t.

    Shapes
    ------
    scores: ``(n, classes)``; labels: ``(n,)``; weights: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.probabilities import fit_temperature
    >>> scores = torch.tensor([[1.0, 0.0]] * 400)
    >>> t = fit_temperature(scores, torch.tensor([0, 0, 0, 1] * 100), torch.ones(400))  # correct in 3 of 4
    >>> f"{torch.softmax(t * scores[0], dim=0)[0]:.2f}"
    '0.75'
    """
    scores, total = scores.double(), float(weights.sum())
    weights, smoothing = weights.double() / total, 1 / (total + 2)
    spread = float((weights @ (scores - scores.mean(dim=1, keepdim=True)).square()).mean().sqrt())
    if spread == 0.0:
        return 1.0
    own = (1 - smoothing) * scores.gather(1, labels[:, None])[:, 0] + smoothing * scores.mean(dim=1)
    t = 1.0 / spread
    for _ in range(_STEPS):
        p = torch.softmax(t * scores, dim=1)
        mean = (p * scores).sum(dim=1)
        slope = float(weights @ (own - mean))
        curvature = float(weights @ ((p * scores.square()).sum(dim=1) - mean.square()))
        step = slope / max(curvature, 1e-12 * spread**2)
        changed = min(max(t + step, t / 2), 2 * t)
        if abs(changed - t) <= 1e-10 * t:
            break
        t = changed
    return t

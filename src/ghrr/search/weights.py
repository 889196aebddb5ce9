r"""Weights of fields, learned from examples and the records that they should find.

The score of a pair is a weighted mean of the similarities of its fields (:mod:`ghrr.search.encoder`). The weights
maximise :math:`\sum_q \ln \mathrm{softmax}_c(\tau s_{qc})`, the probability of the correct candidate among all that the
current weights find. Logarithms of weights are pulled towards the start, so a few hundred examples suffice.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from ghrr.search.encoder import KAPPA

Floats = NDArray[np.float64]
_STEPS = 300
_RATE = 0.05
_PULL = 0.01


def fit_weights(
    scores: Floats, shares: Floats, correct: NDArray[np.int64], start: Floats, *, pull: float = _PULL
) -> Floats:
    """Return weights for which the correct candidates score highest.

    Shapes
    ------
    scores: ``(examples, candidates, fields)``, NaN where a field is missing; shares: ``(examples, fields)``, as from
    ``RecordEncoder.shares``; correct: ``(examples,)``, the index of a candidate; start and output: ``(fields,)``

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.search.weights import fit_weights
    >>> scores = np.array([[[0.9, 0.1], [0.2, 0.8]]] * 20)  # the first field is correct
    >>> weights = fit_weights(scores, np.ones((20, 2)), np.zeros(20, int), np.ones(2))
    >>> bool(weights[0] > weights[1])
    True
    """
    wanted = torch.from_numpy(shares)
    both = torch.from_numpy(np.isfinite(scores)).double() * wanted[:, None]
    values = torch.from_numpy(np.nan_to_num(scores))
    target = torch.from_numpy(correct)
    begin = torch.from_numpy(np.log(np.maximum(start, 1e-3)))
    change = torch.zeros_like(begin, requires_grad=True)
    sharpness = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([change, sharpness], lr=_RATE)
    for _ in range(_STEPS):
        weights = torch.exp(begin + change)
        shared = both @ weights
        total = shared + KAPPA * ((wanted @ weights)[:, None] - shared)
        logits = sharpness.exp() * (values * both @ weights) / total.clamp(min=1e-12)
        loss = torch.nn.functional.cross_entropy(logits, target) + pull * change.square().sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    learned: Floats = torch.exp(begin + change).detach().numpy()
    scaled: Floats = learned * start.sum() / max(learned.sum(), 1e-12)
    return scaled

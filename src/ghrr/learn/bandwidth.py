"""Choose the bandwidth of a kernel from data."""

from __future__ import annotations

import torch
from torch import Tensor

_MOST_ROWS = 1000  # pairs grow with the square: a million distances


def median_bandwidth(x: Tensor, weights: Tensor | None = None) -> float:
    r"""Return the median distance between two samples, the usual starting point for the bandwidth of a kernel.

    All pairs count, with the product of their weights, so a weight of 2 equals a sample that is there twice. Of more
    than 1,000 samples, evenly spaced ones are used. If most samples are equal, the root mean square distance is
    returned instead, and 1 if all are.

    Shapes
    ------
    x: ``(n, features)``; weights: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.bandwidth import median_bandwidth
    >>> median_bandwidth(torch.tensor([[0.0], [0.0], [3.0], [3.0], [6.0], [6.0]]))
    3.0
    """
    rows = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double().cpu()
    used = torch.linspace(0, len(x) - 1, min(len(x), _MOST_ROWS), dtype=torch.float64).round().long()
    x, rows = x[used.to(x.device)].double().cpu(), rows[used]
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").flatten()
    shares = torch.outer(rows, rows).flatten()
    order = distances.argsort()
    below = shares[order].cumsum(0)
    middle = float(distances[order][int((below < 0.5 * below[-1]).sum())])
    if middle > 0.0:
        return middle
    mean_square = float((shares * distances.square()).sum() / shares.sum())
    return mean_square**0.5 or 1.0

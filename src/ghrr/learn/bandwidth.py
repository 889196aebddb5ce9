"""Choose the bandwidth of a kernel from data."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr.learn.ridge import solve_dual

_MOST_ROWS = 1000  # pairs grow with the square: a million distances
FACTORS = (1.0, 0.125, 0.25, 0.35, 0.5, 0.7, 1.4, 2.0)  # the first one is used on a tie


def evenly_spaced(count: int) -> Tensor:
    """Return the indices of at most 1,000 samples, evenly spaced."""
    return torch.linspace(0, count - 1, min(count, _MOST_ROWS), dtype=torch.float64).round().long()


def median_bandwidth(x: Tensor, weights: Tensor | None = None, *, norm: float = 2.0) -> float:
    r"""Return the median distance between two samples, the usual starting point for the bandwidth of a kernel.

    All pairs count, with the product of their weights, so a weight of 2 equals a duplicated sample. Of more
    than 1,000 samples, evenly spaced ones are used. If most samples are equal, the root mean square distance is
    returned instead, and 1 if all are.

    Parameters
    ----------
    x
        Samples.
    weights
        Weights of the samples, by default equal.
    norm
        The p of the p-norm that measures distances.

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
    used = evenly_spaced(len(x))
    x, rows = x[used.to(x.device)].double().cpu(), rows[used]
    distances = torch.cdist(x, x, p=norm, compute_mode="donot_use_mm_for_euclid_dist").flatten()
    shares = torch.outer(rows, rows).flatten()
    order = distances.argsort()
    below = shares[order].cumsum(0)
    middle = float(distances[order][int((below < 0.5 * below[-1]).sum())])
    if middle > 0.0:
        return middle
    mean_square = float((shares * distances.square()).sum() / shares.sum())
    return mean_square**0.5 or 1.0


def cross_validated_factor(angles: Tensor, targets: Tensor, weights: Tensor, alphas: Sequence[float]) -> float:
    r"""Return the multiple of the bandwidth with the lowest generalised cross-validation error of a ridge regression.

    The regression is on the features :math:`(\cos(\theta / c), \sin(\theta / c))` for each multiple c from 1/8 to 2,
    with the penalty chosen for each. Its cost grows with the cube of the number of samples: give 1,000 of them.

    Parameters
    ----------
    angles
        Angles of the samples at the bandwidth to multiply.
    targets
        Numbers to predict; for classes 1 for the own class and -1 for the others.
    weights
        Weights of the samples.
    alphas
        Penalties to choose from, in units of the mean squared length of the centred features.

    Shapes
    ------
    angles: ``(n, frequencies)``; targets: ``(n, outputs)``; weights: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.learn.bandwidth import cross_validated_factor
    >>> x = torch.linspace(0, 20, 200)[:, None]
    >>> angles = x @ torch.randn(1, 100, generator=torch.Generator().manual_seed(0)) / 10  # much too smooth
    >>> cross_validated_factor(angles, torch.sin(2 * x), torch.ones(200), [1e-3]) < 0.5
    True
    """

    def error(factor: float) -> float:
        scaled = angles / factor
        features = torch.cat([torch.cos(scaled), torch.sin(scaled)], dim=1)
        return solve_dual([(features, targets, weights)], alphas).error

    return min(FACTORS, key=error)

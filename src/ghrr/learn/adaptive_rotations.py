r"""Learn rotations that depend on the input, so that the length scale of a kernel adapts to the region.

The hypervectors of :class:`ghrr.encoding.AdaptiveEncoder` are :math:`\phi(x) = Q\, e^{iH(x)} \Lambda(x)`. Its network
is trained to predict: in each step, a ridge regression on one part of the samples predicts the others. The squared
error of this prediction is minimised over the network and the penalty of the regression.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ghrr.encoding import AdaptiveEncoder
from ghrr.unitary import exp_hermitian

_STEPS = 120
_BATCH = 500  # samples per step: two thirds to fit, one third to predict


class AdaptiveRotations(NamedTuple):
    """Weights and biases of the network, and the Hermitian axes, ``(latent, dim, m, m)``."""

    weights: list[Tensor]
    biases: list[Tensor]
    axes: Tensor


def rotate(x: Tensor, phasors: Tensor, rotations: AdaptiveRotations) -> Tensor:
    r"""Return :math:`e^{iH(x)} \Lambda(x)`. The rotation Q is left out, because it cancels in inner products.

    Shapes
    ------
    x: ``(n, features)``; phasors: ``(n, dim, m)``, the diagonal of :math:`\Lambda(x)`; output: ``(n, dim, m, m)``
    """
    hidden = x.to(rotations.weights[0])
    *inner, last = zip(rotations.weights, rotations.biases, strict=True)
    for weight, bias in inner:
        hidden = torch.tanh(nn.functional.linear(hidden, weight, bias))
    coordinates = nn.functional.linear(hidden, *last)
    hermitian: Tensor = torch.tensordot(coordinates.to(rotations.axes.dtype), rotations.axes, dims=1)
    return exp_hermitian(hermitian) * phasors[..., None, :]


def learn_rotations(
    encoder: AdaptiveEncoder, x: Tensor, targets: Tensor, weights: Tensor, *, seed: int
) -> AdaptiveRotations:
    """Train the network of an encoder to predict targets.

    Equal samples are merged and their weights added, so a weight of 2 equals a duplicated sample.

    Parameters
    ----------
    encoder
        Encoder whose network is trained.
    x, targets, weights
        Samples ``(n, features)`` of the order of 1, what to predict, ``(n, outputs)``, and weights ``(n,)``.
    seed
        Seed of the order of samples.

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.learn.adaptive_rotations import learn_rotations
    >>> encoder = ghrr.encoding.AdaptiveEncoder(ghrr.Space(dim=20, m=2), n_features=1)
    >>> x = torch.linspace(-1, 1, 30)[:, None]
    >>> [w.shape for w in learn_rotations(encoder, x, torch.sin(9 * x**2), torch.ones(30), seed=0).weights]
    [torch.Size([32, 1]), torch.Size([32, 32]), torch.Size([2, 32])]
    """
    rows = torch.cat([x.float(), targets.float()], dim=1)
    distinct, index = torch.unique(rows, dim=0, return_inverse=True)
    x, targets = distinct.split([x.shape[1], targets.shape[1]], dim=1)
    weights = torch.zeros(len(x), device=x.device).index_add_(0, index, weights.float())
    targets = targets - _weighted_mean(targets, weights)
    targets = targets / _weighted_mean(targets.square(), weights).mean().sqrt().clamp(min=1e-12)
    layers = [layer for layer in encoder.network.children() if isinstance(layer, nn.Linear)]
    rotations = AdaptiveRotations(
        [layer.weight.detach().requires_grad_() for layer in layers],
        [layer.bias.detach().requires_grad_() for layer in layers],
        encoder.axes,
    )
    phasors = encoder.base.diagonal(x).detach()
    log_penalty = torch.tensor(-5.0, device=x.device, requires_grad=True)
    optimizer = torch.optim.Adam([*rotations.weights, *rotations.biases], lr=3e-3)
    optimizer.add_param_group({"params": [log_penalty], "lr": 0.1})
    order = torch.Generator().manual_seed(seed)
    for _ in range(_STEPS if len(x) > 2 else 0):  # one or two samples are too few
        rows = torch.randperm(len(x), generator=order)[:_BATCH].to(x.device)
        z = torch.view_as_real(rotate(x[rows], phasors[rows], rotations)).flatten(start_dim=1)
        fitted = max(1, 2 * len(rows) // 3)
        loss = _prediction_error(z, targets[rows], weights[rows], fitted, log_penalty.exp())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    matrices, biases = ([tensor.detach() for tensor in part] for part in rotations[:2])
    return AdaptiveRotations(matrices, biases, rotations.axes)


def _prediction_error(z: Tensor, targets: Tensor, weights: Tensor, fitted: int, penalty: Tensor) -> Tensor:
    """Return the mean squared error on the samples after the first ``fitted``, predicted from those."""
    own = weights[:fitted]
    z, known = z - _weighted_mean(z[:fitted], own), _weighted_mean(targets[:fitted], own)
    roots = (own / own.mean()).sqrt()[:, None]
    rows = roots * z[:fitted]
    gram = rows @ rows.mT
    ridge = penalty * gram.diagonal().mean().clamp(min=1e-12) * torch.eye(fitted, dtype=gram.dtype, device=gram.device)
    dual = torch.linalg.solve(gram + ridge, roots * (targets[:fitted] - known))
    predicted = z[fitted:] @ (rows.mT @ dual) + known
    return _weighted_mean((predicted - targets[fitted:]).square(), weights[fitted:]).mean()


def _weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Return the mean over samples, ``(n, columns)`` to ``(columns,)``."""
    return weights @ values / weights.sum()

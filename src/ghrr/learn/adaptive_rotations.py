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


def learn_rotations(encoder: AdaptiveEncoder, x: Tensor, targets: Tensor, *, seed: int) -> AdaptiveRotations:
    """Train the network of an encoder to predict targets.

    Parameters
    ----------
    encoder
        Encoder whose network is trained.
    x, targets
        Samples ``(n, features)`` of the order of 1, and what to predict, ``(n, outputs)``.
    seed
        Seed of the order of samples.

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.learn.adaptive_rotations import learn_rotations
    >>> encoder = ghrr.encoding.AdaptiveEncoder(ghrr.Space(dim=20, m=2), n_features=1)
    >>> x = torch.linspace(-1, 1, 30)[:, None]
    >>> [w.shape for w in learn_rotations(encoder, x, torch.sin(9 * x**2), seed=0).weights]
    [torch.Size([32, 1]), torch.Size([32, 32]), torch.Size([2, 32])]
    """
    x, targets = x.float(), (targets - targets.mean(dim=0)).float()
    targets = targets / targets.square().mean().sqrt().clamp(min=1e-12)
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
    for _ in range(_STEPS if len(x) > 2 else 0):  # one or two samples say nothing
        rows = torch.randperm(len(x), generator=order)[:_BATCH].to(x.device)
        z = torch.view_as_real(rotate(x[rows], phasors[rows], rotations)).flatten(start_dim=1)
        fitted = max(1, 2 * len(rows) // 3)
        loss = _prediction_error(z, targets[rows], fitted, log_penalty.exp())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    weights, biases = ([tensor.detach() for tensor in part] for part in rotations[:2])
    return AdaptiveRotations(weights, biases, rotations.axes)


def _prediction_error(z: Tensor, targets: Tensor, fitted: int, penalty: Tensor) -> Tensor:
    """Return the mean squared error on the samples after the first ``fitted``, predicted from those."""
    z = z - z[:fitted].mean(dim=0)
    known = targets[:fitted].mean(dim=0)
    gram = z[:fitted] @ z[:fitted].mT
    ridge = penalty * gram.diagonal().mean().clamp(min=1e-12) * torch.eye(fitted, dtype=gram.dtype, device=gram.device)
    dual = torch.linalg.solve(gram + ridge, targets[:fitted] - known)
    predicted = z[fitted:] @ (z[:fitted].mT @ dual) + known
    error: Tensor = (predicted - targets[fitted:]).square().mean()
    return error

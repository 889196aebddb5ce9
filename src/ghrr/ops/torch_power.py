r"""Integer and real powers of each slot, in PyTorch operations, with their derivatives.

A power of a unitary slot must be unitary however large the exponent is, but a stored matrix is unitary to rounding
only, and powers multiply that error. So slots that are unitary to rounding (:mod:`ghrr.ops.torch_polar`) are replaced
by the nearest unitary matrix in double precision, and the power is rounded once at the end. The derivative stays that
of the power of any matrix, in every direction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ghrr.ops.torch_polar import is_unitary, polish

# Up to this exponent, powers are computed in the precision of the input: its error grows at most by this factor.
FEW = 8
# Up to this exponent, one polishing step makes a power unitary to rounding.
_MANY = 10**4


def power(a: Tensor, exponent: int | Tensor, product: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Raise each slot to a power; ``product`` computes integer powers of at least 0 of any matrices."""
    if not isinstance(exponent, int):
        return _real_power(a, exponent.to(torch.float64))
    count = abs(exponent)
    if count <= FEW:
        return product(inverse(a) if exponent < 0 else a, count)
    unitary = is_unitary(a)
    base = polish(a.to(torch.complex128), unitary, steps=2)
    result = product(inverse(base) if exponent < 0 else base, count)
    return polish(result, unitary, steps=1 if count <= _MANY else 4).to(a.dtype)


def inverse(a: Tensor) -> Tensor:
    result: Tensor = a.reciprocal() if a.shape[-1] == 1 else torch.linalg.inv(a)
    return result


def _real_power(a: Tensor, exponent: Tensor) -> Tensor:
    if a.shape[-1] > 1:
        result: Tensor = _RealPower.apply(a, exponent)  # type: ignore[no-untyped-call]
        return result
    logs = _without_length(torch.log(a.to(torch.complex128)), is_unitary(a)[..., None, None])
    return torch.exp(exponent[..., None, None, None] * logs).to(a.dtype)


def _without_length(logs: Tensor, unitary: Tensor) -> Tensor:
    """Set the real part of the logarithms of unitary slots to zero; derivatives pass through."""
    return logs - torch.where(unitary, logs.detach().real, 0.0)


class _RealPower(torch.autograd.Function):
    r"""Principal real power of each slot, with a derivative that exists for equal eigenvalues.

    With :math:`A = V \mathrm{diag}(\lambda) V^{-1}` and :math:`f(\lambda) = \lambda^x` the differential is
    :math:`dF = V (\Gamma \circ V^{-1} dA\, V) V^{-1}`, where :math:`\Gamma_{ij} = (f(\lambda_i) - f(\lambda_j)) /
    (\lambda_i - \lambda_j)` and :math:`\Gamma_{ii} = f'(\lambda_i)`. With :math:`l = \log\lambda` this is
    :math:`\Gamma_{ij} = e^{(x-1)(l_i + l_j)/2} \sinh(x(l_i - l_j)/2) / \sinh((l_i - l_j)/2)`, which has no
    cancellation. Differentiating through ``torch.linalg.eig`` instead gives NaN for the identity.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, exponent: Tensor) -> Tensor:
        logs, vectors, inverses = _eigen(a)
        powers = torch.exp(exponent[..., None, None] * logs)
        result = (vectors * powers[..., None, :]) @ inverses
        unitary = is_unitary(a).expand(result.shape[:-2])
        return polish(result, unitary, steps=1).to(a.dtype)  # eigenvectors of equal eigenvalues may not be orthogonal

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, exponent = ctx.saved_tensors
        logs, vectors, inverses = _eigen(a)
        x = exponent[..., None, None].to(logs.dtype)  # torch.where cannot mix real and complex in a second derivative
        inner = vectors.mH @ grad.to(logs.dtype) @ inverses.mH
        mean = (logs[..., :, None] + logs[..., None, :]) / 2
        half_gap = (logs[..., :, None] - logs[..., None, :]) / 2
        equal = half_gap == 0
        safe_gap = torch.where(equal, torch.ones_like(half_gap), half_gap)
        ratio = torch.where(equal, x[..., None], torch.sinh(x[..., None] * safe_gap) / torch.sinh(safe_gap))
        slopes = torch.exp((x[..., None] - 1) * mean) * ratio
        grad_a = inverses.mH @ (slopes.conj() * inner) @ vectors.mH
        diagonal = torch.diagonal(inner, dim1=-2, dim2=-1)
        grad_exponent = (diagonal.conj() * torch.exp(x * logs) * logs).real.sum(dim=(-1, -2))
        return grad_a.sum_to_size(a.shape).to(a.dtype), grad_exponent.sum_to_size(exponent.shape)


def _eigen(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the logarithms of the eigenvalues, the eigenvectors and their inverse, in double precision."""
    unitary = is_unitary(a)
    eigenvalues, vectors = torch.linalg.eig(polish(a.to(torch.complex128), unitary, steps=2))
    logs = _without_length(torch.log(eigenvalues), unitary[..., None])
    return logs, vectors, torch.linalg.inv(vectors)

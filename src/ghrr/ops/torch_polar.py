r"""The unitary matrix nearest to each slot, in PyTorch operations, with its derivative.

A slot is called unitary when :math:`|A^\dagger A - I| \le 20 m \varepsilon` in every entry, with the machine epsilon of
its dtype. The powers in :mod:`ghrr.ops.torch_power` and :func:`ghrr.unitary.is_unitary` share this definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ghrr.ops.torch_implementation import bind


def unitarity_tolerance(m: int, dtype: torch.dtype) -> float:
    """Return the largest entry of |A^H A - I| that rounding explains."""
    return 20 * m * torch.finfo(dtype).eps


def unitarity_error(x: Tensor) -> Tensor:
    """Return the largest entry of |A^H A - I| of each slot: ``(*, m, m)`` to ``(*)``."""
    if x.shape[-1] == 1:
        return (x.real.square() + x.imag.square() - 1).abs()[..., 0, 0]
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    return (bind(x, x, adjoint_a=True) - eye).abs().amax(dim=(-1, -2))


def is_unitary(x: Tensor) -> Tensor:
    """Return which slots are unitary to rounding: ``(*, m, m)`` to ``(*)``."""
    return unitarity_error(x.detach()) <= unitarity_tolerance(x.shape[-1], x.dtype)


def polish(x: Tensor, where: Tensor, steps: int) -> Tensor:
    r"""Remove the rounding errors of slots that are nearly unitary; derivatives pass through unchanged.

    Each Newton-Schulz step, :math:`X (3 I - X^\dagger X) / 2`, squares the distance to the nearest unitary
    matrix. Slots for which ``where`` is False do not change.
    """
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    before = after = torch.where(where[..., None, None], x.detach(), eye)
    for _ in range(steps):
        after = bind(after, 1.5 * eye - 0.5 * bind(after, after, adjoint_a=True))
    return x + (after - before)


def polar_factor(x: Tensor) -> Tensor:
    """Compute the nearest unitary matrix, without a derivative."""
    if x.shape[-1] == 1:
        return torch.where(x == 0, torch.ones_like(x), torch.sgn(x))
    u, _, vh = torch.linalg.svd(x, full_matrices=False)
    product: Tensor = u @ vh
    return product


def polar(x: Tensor, factor: Callable[[Tensor], Tensor] = polar_factor) -> Tensor:
    """Compute the nearest unitary matrix by ``factor``, with its derivative."""
    result: Tensor = _Polar.apply(x, factor)  # type: ignore[no-untyped-call]
    return result


class _Polar(torch.autograd.Function):
    r"""With :math:`X = W P` the gradient is W S, where S solves :math:`P S + S P = W^\dagger G - G^\dagger W`.

    In the basis of the eigenvectors of P this divides by :math:`s_i + s_j`. Differentiating through
    ``torch.linalg.svd`` divides by :math:`s_i - s_j` instead, which is zero at every unitary X.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: Callable[[Tensor], Tensor]) -> Tensor:
        return factor(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, w = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative: eigenvectors of equal eigenvalues have none
            return _differentiable_gradient(x, grad), None
        difference = w.mH @ grad - grad.mH @ w
        p = w.mH @ x
        if x.shape[-1] == 1:
            return w * (difference / (2 * p.real)), None
        sizes, basis = torch.linalg.eigh((p + p.mH) / 2)
        core = basis.mH @ difference @ basis / (sizes[..., :, None] + sizes[..., None, :])
        return w @ basis @ core @ basis.mH, None


def _differentiable_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """Compute the gradient by a linear system of m² unknowns per slot, which can be differentiated again."""
    w = polar(x)
    p = w.mH @ x
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    size = x.shape[-1] ** 2
    left = torch.einsum("...ij,kl->...ikjl", p, eye).reshape(*p.shape[:-2], size, size)
    right = torch.einsum("ij,...lk->...ikjl", eye, p).reshape(*p.shape[:-2], size, size)
    difference = w.mH @ grad - grad.mH @ w
    solution = torch.linalg.solve(left + right, difference.flatten(start_dim=-2)[..., None])
    gradient: Tensor = w @ solution.reshape(difference.shape)
    return gradient

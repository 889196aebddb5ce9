r"""Gradients of the products, and their rule for ``torch.vmap``.

The gradients are products again: for :math:`C = A B` and the gradient G of C

.. math:: G_A = G B^\dagger, \qquad G_B = A^\dagger G,

so there are derivatives of every order, computed by the same kernels. The gradient of a broadcast factor is a sum of
products, computed by ``bind_bundle`` where its axes allow that.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr.ops.dispatch import OPERATIONS
from ghrr.ops.tensor_state import allows_operators


def save_inputs(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    """Keep the tensors and both flags for the backward pass."""
    *tensors, ctx.adjoint_a, ctx.adjoint_b = inputs
    ctx.save_for_backward(*tensors)


def bind_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``bind``."""
    return *_factor_gradients(ctx, grad, *ctx.saved_tensors), None, None


def bind_bundle_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``bind_bundle``."""
    return *_factor_gradients(ctx, grad.unsqueeze(-4), *ctx.saved_tensors), None, None


def bind_similarity_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of ``bind_similarity``."""
    a, b, c = ctx.saved_tensors
    scale = grad[..., None, None, None] / (c.shape[-1] * c.shape[-3])
    grad_c = None
    if ctx.needs_input_grad[2]:
        product = OPERATIONS["bind"](a, b, ctx.adjoint_a, ctx.adjoint_b)
        grad_c = (scale * product).sum_to_size(c.shape)
    return *_factor_gradients(ctx, scale * c, a, b), grad_c, None, None


def _factor_gradients(ctx: Any, grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of A and B from the gradient of their product, in which either factor may be its adjoint."""
    adjoint_a, adjoint_b = ctx.adjoint_a, ctx.adjoint_b
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        factors = (b, grad, adjoint_b, True) if adjoint_a else (grad, b, False, not adjoint_b)
        grad_a = product_like(a, *factors)
    if ctx.needs_input_grad[1]:
        factors = (grad, a, True, adjoint_a) if adjoint_b else (a, grad, not adjoint_a, False)
        grad_b = product_like(b, *factors)
    return grad_a, grad_b


def product_like(x: Tensor, left: Tensor, right: Tensor, adjoint_left: bool, adjoint_right: bool) -> Tensor:
    """Return the product of two factors in the shape of ``x``: summed over the axes along which x was broadcast."""
    shape = broadcast_shape(left, right)
    left, right, target = (_with_ndim(y, len(shape)) for y in (left, right, x))
    summed = [axis for axis, size in enumerate(shape) if target.shape[axis] != size and size != 1]
    are_adjacent = len(summed) == 1 or all(
        left.shape[axis] == right.shape[axis] and axis == summed[0] + i for i, axis in enumerate(summed)
    )
    if summed and are_adjacent and allows_operators(left, right, vmap=True):
        first, last = summed[0], summed[-1]
        keys, values = (y.flatten(first, last).movedim(first, -4) for y in (left, right))
        product: Tensor = OPERATIONS["bind_bundle"](keys, values, adjoint_left, adjoint_right)
        product = product[(..., *[None] * len(summed), *[slice(None)] * (len(shape) - 1 - last))]
    else:
        product = OPERATIONS["bind"](left, right, adjoint_left, adjoint_right)
        product = product.sum(summed, keepdim=True) if summed else product
    return product.expand(target.shape).reshape(x.shape)  # gradients are equal along axes that only x has


def broadcast_shape(*tensors: Tensor) -> torch.Size:
    """Return the shape to which the tensors broadcast."""
    shape: torch.Size = torch.broadcast_shapes(*[x.shape for x in tensors])  # type: ignore[no-untyped-call]
    return shape


def _with_ndim(x: Tensor, ndim: int) -> Tensor:
    return x.reshape(*[1] * (ndim - x.ndim), *x.shape)


def map_over_first_axis(operator: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> Tensor:
    """Apply ``torch.vmap`` to an operator that broadcasts: the mapped axis becomes the first batch axis."""
    tensors = [x for x in arguments if isinstance(x, Tensor)]
    moved = [
        x.unsqueeze(0) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(tensors, in_dims[: len(tensors)], strict=True)
    ]
    most = max(x.ndim for x in moved)
    aligned = [x[(slice(None), *[None] * (most - x.ndim))] for x in moved]
    result: Tensor = operator(*aligned, *arguments[len(tensors) :])
    return result

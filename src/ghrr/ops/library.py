r"""The products, and how torch sees them.

Plain numbers go straight to the backend that :mod:`ghrr.ops.choice` names. Where there is something to differentiate,
to vectorise or to compile, the kernels stand behind operators of torch: ``ghrr::bind``, ``ghrr::bind_bundle`` and
``ghrr::bind_similarity``, which cost ten microseconds more, and ``ghrr::bind_pairs`` and ``ghrr::bind_bundle_pairs``
for real pairs. Their derivatives are products again: for :math:`C = A B` and the gradient G of C

.. math:: G_A = G B^\dagger, \qquad G_B = A^\dagger G,

and so there are derivatives of every order. Where a factor was broadcast its gradient is a sum of products, bound and
bundled in one go. Derivatives in forward mode, and those of ``torch.func``, are left to torch's own operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_hypervectors
from ghrr.ops import pairs, reference, torch_backend
from ghrr.ops.choice import compiles_for_triton, compute, is_plain, kernels_for, only_torch_takes, run

_Dims = tuple[int | None, ...]


def call(name: str, tensors: tuple[Tensor, ...], *adjoint: bool) -> Tensor:
    """A product of this name, whatever the tensors are."""
    kernels = None if compiles_for_triton(tensors[0]) else kernels_for(name, *tensors)
    if kernels is torch_backend or kernels is reference:
        result: Tensor = getattr(kernels, name)(*tensors, *adjoint)
    elif kernels is not None and is_plain(*tensors):
        result = run(kernels, name, tensors, *adjoint)
    elif only_torch_takes(*tensors):
        result = getattr(torch_backend, name)(*tensors, *adjoint)
    else:
        result = _OPERATORS[name](*tensors, *adjoint)
    return result


@torch.library.custom_op("ghrr::bind", mutates_args=())
def _bind(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return _checked("bind", (a, b), adjoint_a, adjoint_b)


@torch.library.custom_op("ghrr::bind_bundle", mutates_args=())
def _bind_bundle(keys: Tensor, values: Tensor, adjoint_keys: bool, adjoint_values: bool) -> Tensor:
    return _checked("bind_bundle", (keys, values), adjoint_keys, adjoint_values)


@torch.library.custom_op("ghrr::bind_similarity", mutates_args=())
def _bind_similarity(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return _checked("bind_similarity", (a, b, c), adjoint_a, adjoint_b)


@torch.library.custom_op("ghrr::bind_pairs", mutates_args=())
def _bind_pairs(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return _checked("bind_pairs", (a, b), adjoint_a, adjoint_b)


@torch.library.custom_op("ghrr::bind_bundle_pairs", mutates_args=())
def _bind_bundle_pairs(keys: Tensor, values: Tensor, adjoint_keys: bool, adjoint_values: bool) -> Tensor:
    return _checked("bind_bundle_pairs", (keys, values), adjoint_keys, adjoint_values)


def _checked(name: str, tensors: tuple[Tensor, ...], *adjoint: bool) -> Tensor:
    """What an operator computes: who calls ``torch.ops.ghrr`` has not checked, and kernels read where they are told.

    Results lie in memory as their shape says, which is what compilers are told.
    """
    given = dict(zip("abc", tensors, strict=False))
    if name.endswith("_pairs"):
        pairs.check(f"ghrr::{name}", axes=5 if name == "bind_bundle_pairs" else 4, **given)
    else:
        check_hypervectors(f"ghrr::{name}", **given)
    return compute(name, tensors, *adjoint).contiguous()


_OPERATORS = {
    "bind": _bind,
    "bind_bundle": _bind_bundle,
    "bind_similarity": _bind_similarity,
    "bind_pairs": _bind_pairs,
    "bind_bundle_pairs": _bind_bundle_pairs,
}


def _item_axis(x: Tensor) -> int:
    return -4 if x.is_complex() else -5  # pairs have an axis more


@_bind_pairs.register_fake
@_bind.register_fake
def _bind_shape(a: Tensor, b: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return a.new_empty(_broadcast(a, b))


@_bind_bundle_pairs.register_fake
@_bind_bundle.register_fake
def _bind_bundle_shape(keys: Tensor, values: Tensor, adjoint_keys: bool, adjoint_values: bool) -> Tensor:
    shape, items = _broadcast(keys, values), _item_axis(keys)
    return keys.new_empty((*shape[:items], *shape[items + 1 :]))


@_bind_similarity.register_fake
def _bind_similarity_shape(a: Tensor, b: Tensor, c: Tensor, adjoint_a: bool, adjoint_b: bool) -> Tensor:
    return a.new_empty(_broadcast(a, b, c)[:-3], dtype=a.dtype.to_real())


def _broadcast(*tensors: Tensor) -> torch.Size:
    shape: torch.Size = torch.broadcast_shapes(*[x.shape for x in tensors])  # type: ignore[no-untyped-call]
    return shape


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.adjoint_a, ctx.adjoint_b = inputs
    ctx.save_for_backward(*tensors)


def _bind_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients(ctx, grad, *ctx.saved_tensors), None, None


def _bind_bundle_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *_gradients(ctx, grad.unsqueeze(_item_axis(grad)), *ctx.saved_tensors), None, None


def _bind_similarity_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, b, c = ctx.saved_tensors
    scale = grad[..., None, None, None] / (c.shape[-1] * c.shape[-3])
    grad_c = None
    if ctx.needs_input_grad[2]:
        product = call("bind", (a, b), ctx.adjoint_a, ctx.adjoint_b)
        grad_c = (scale * product).sum_to_size(c.shape)
    return *_gradients(ctx, scale * c, a, b), grad_c, None, None


def _gradients(ctx: Any, grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of A and B from that of A' B', where ' is the adjoint if ``ctx`` says so."""
    adjoint_a, adjoint_b = ctx.adjoint_a, ctx.adjoint_b
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        factors = (b, grad, adjoint_b, True) if adjoint_a else (grad, b, False, not adjoint_b)
        grad_a = _product_like(a, *factors)
    if ctx.needs_input_grad[1]:
        factors = (grad, a, True, adjoint_a) if adjoint_b else (a, grad, not adjoint_a, False)
        grad_b = _product_like(b, *factors)
    return grad_a, grad_b


def _product_like(x: Tensor, left: Tensor, right: Tensor, adjoint_left: bool, adjoint_right: bool) -> Tensor:
    """The product of two in the shape of ``x``: summed over the axes along which x was broadcast."""
    shape, kind = _broadcast(left, right), "" if left.is_complex() else "_pairs"
    left, right, own = (_with_axes(y, len(shape)) for y in (left, right, x))
    summed = [axis for axis, size in enumerate(shape) if own.shape[axis] != size and size != 1]
    neighbours = len(summed) == 1 or all(
        left.shape[axis] == right.shape[axis] and axis == summed[0] + place for place, axis in enumerate(summed)
    )
    if summed and neighbours and not only_torch_takes(left, right):
        first, last = summed[0], summed[-1]
        keys, values = (y.flatten(first, last).movedim(first, _item_axis(y)) for y in (left, right))
        product = call("bind_bundle" + kind, (keys, values), adjoint_left, adjoint_right)
        product = product[(..., *[None] * len(summed), *[slice(None)] * (len(shape) - 1 - last))]
    elif summed and kind:  # a sum of rounded products would be rounded twice
        exact = _product_like(x[..., 0], pairs.widened(left), pairs.widened(right), adjoint_left, adjoint_right)
        return pairs.rounded(exact, x.dtype)
    else:
        product = call("bind" + kind, (left, right), adjoint_left, adjoint_right)
        product = product.sum(summed, keepdim=True) if summed else product
    return product.expand(own.shape).reshape(x.shape)  # where only x had several, the gradient of all is the same


def _with_axes(x: Tensor, count: int) -> Tensor:
    return x.reshape(*[1] * (count - x.ndim), *x.shape)


def _vectorised(name: str) -> Any:
    """The rule for ``torch.vmap``: the new axis comes first, all others stay where they are, counted from the last."""

    def rule(info: Any, in_dims: _Dims, *inputs: Any) -> tuple[Tensor, int]:
        count = len(inputs) - 2
        moved = [
            x.unsqueeze(0) if axis is None else x.movedim(axis, 0)
            for x, axis in zip(inputs[:count], in_dims[:count], strict=True)
        ]
        most = max(x.ndim for x in moved)
        level = [x[(slice(None), *[None] * (most - x.ndim))] for x in moved]
        return _OPERATORS[name](*level, *inputs[count:]), 0

    return rule


for _name, _backward in (
    ("bind", _bind_backward),
    ("bind_bundle", _bind_bundle_backward),
    ("bind_similarity", _bind_similarity_backward),
    ("bind_pairs", _bind_backward),
    ("bind_bundle_pairs", _bind_bundle_backward),
):
    _OPERATORS[_name].register_autograd(_backward, setup_context=_remember)
    _OPERATORS[_name].register_vmap(_vectorised(_name))

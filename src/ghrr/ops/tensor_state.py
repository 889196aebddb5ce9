"""Detect whether PyTorch is differentiating, vectorising or tracing a tensor.

Kernels read memory, so they take plain tensors only. These tests run before every operation and are written for speed.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

_PLAIN_TYPES = (Tensor, torch.nn.Parameter, torch.nn.Buffer)
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_has_functorch_transforms = torch._C._are_functorch_transforms_active
_count_dispatch_modes = torch._C._len_torch_dispatch_stack
_tracing_state = torch._C._get_tracing_state
# A tensor inside a batch of gradients (is_grads_batched=True): it has no memory of its own.
_is_legacy_batched = torch._C._functorch.is_legacy_batchedtensor


def is_plain(*tensors: Tensor) -> bool:
    """Return whether tensors are numbers in memory that PyTorch does not differentiate, vectorise or trace."""
    if not needs_no_derivative(*tensors) or _count_dispatch_modes() or _tracing_state() is not None:
        return False
    for x in tensors:  # noqa: SIM110 (faster than all())
        if type(x) not in _PLAIN_TYPES or _is_legacy_batched(x):
            return False
    return True


def are_flat(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors of one shape are plain, in this order in memory, and neither conjugated nor negated.

    It calls no other function of ours, because it runs before every product.
    """
    return not (
        _is_compiling()
        or type(a) is not Tensor
        or type(b) is not Tensor
        or a.shape != b.shape
        or not a.is_contiguous()
        or not b.is_contiguous()
        or a.is_conj()
        or b.is_conj()
        or a.is_neg()
        or b.is_neg()
        or ((a.requires_grad or b.requires_grad) and _is_grad_enabled())
        or forward_ad._current_level >= 0
        or _has_functorch_transforms()
        or _count_dispatch_modes()
        or _tracing_state() is not None
        or _is_legacy_batched(a)
        or _is_legacy_batched(b)
    )


def needs_no_derivative(*tensors: Tensor) -> bool:
    """Return whether no derivative of these tensors is needed, and no function transform or compiler is active."""
    if _is_compiling() or _has_functorch_transforms() or has_tangent(*tensors):
        return False
    for x in tensors:  # faster than any()
        if x.requires_grad:
            return not _is_grad_enabled()
    return True


def has_tangent(*tensors: Tensor) -> bool:
    """Return whether a tensor carries a forward-mode derivative."""
    if forward_ad._current_level < 0:
        return False
    return any(forward_ad.unpack_dual(x).tangent is not None for x in tensors)  # type: ignore[no-untyped-call]


def allows_operators(*tensors: Tensor, vmap: bool) -> bool:
    """Return whether custom operators can take these tensors; otherwise only PyTorch's own operations can.

    Custom operators have no forward-mode derivatives, no rule for ``torch.func`` other than (with ``vmap``) that for
    ``torch.vmap``, no batched gradients (``is_grads_batched=True``), and are not traced by ``torch.jit``.
    """
    if _is_compiling():  # the compiler cannot read the stack of transforms
        return not _has_functorch_transforms()
    if _tracing_state() is not None or any(_is_legacy_batched(x) for x in tensors):
        return False
    if not _has_functorch_transforms():
        return not has_tangent(*tensors)
    layers = torch._C._functorch.get_interpreter_stack() or []
    return vmap and all(layer.key() == torch._C._functorch.TransformType.Vmap for layer in layers)


def is_on_gpu(x: Tensor) -> bool:
    """Return whether a tensor is on a CUDA device. Tests replace this to offer kernels without a GPU."""
    return x.is_cuda

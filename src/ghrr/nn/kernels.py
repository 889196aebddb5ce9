"""What the operators of this package share: when a kernel computes on a GPU, and what happens if it fails."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from ghrr.ops.choice import allows, give_up, only_torch_takes

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_TRITON_INSTALLED = importlib.util.find_spec("triton") is not None
_Result = TypeVar("_Result")


def may_start(x: Tensor) -> bool:
    """Whether kernels may be used for tensors where this one is."""
    return _TRITON_INSTALLED and _on_gpu(x) and allows("triton")


def _on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def needs_torch(*tensors: Tensor | None) -> bool:
    """Whether something is asked for that our operators do not have: they know no transforms of functions."""
    given = [x for x in tensors if x is not None]
    return only_torch_takes(*given) or torch._C._are_functorch_transforms_active()


def computed(module: str, name: str, fallback: Callable[..., _Result], *given: Any) -> _Result:
    """What a kernel computes, or torch if it fails; triton takes long to import, so that comes here too."""
    try:
        result: _Result = getattr(importlib.import_module(f"ghrr.nn.{module}"), name)(*given)
    except torch.OutOfMemoryError:
        result = fallback(*given)  # no fault of the kernel's
    except Exception as error:  # whatever a compiler may raise
        result = fallback(*given)  # if this fails too, it was not the kernel
        give_up("triton", error)
    return result


def refuse(operator: str) -> Callable[..., None]:
    """The gradient of gradients by kernels."""

    def raise_error(ctx: Any, *gradients: Tensor) -> None:
        raise NotImplementedError(f"{operator}: kernels have first derivatives alone; use ghrr.backend('torch')")

    return raise_error

"""Inputs of encoders: numbers of any kind become a float tensor, and what cannot be encoded is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import describe, is_true


def as_features(operation: str, x: Any, n: int, *, like: Tensor) -> Tensor:
    """Numbers as a tensor ``(*, n)`` of at least the precision of ``like``, on its device.

    Takes tensors, NumPy arrays and nested lists, whole numbers or real ones.
    """
    numbers = as_numbers(operation, x, like=like)
    if numbers.ndim == 0 or numbers.shape[-1] != n:
        raise ValueError(
            f"{operation}: needs {n} feature{'s' * (n != 1)} on the last axis, (*, {n}); got {describe(x)}"
        )
    check_features(operation, numbers)
    return numbers


def as_numbers(operation: str, x: Any, *, like: Tensor) -> Tensor:
    """Numbers as a real tensor of at least the precision of ``like``, on its device."""
    try:
        numbers = x if isinstance(x, Tensor) else torch.as_tensor(_plain_array(x))
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{operation}: needs numbers, got {describe(x)}") from None
    if numbers.is_quantized:
        raise TypeError(f"{operation}: needs numbers, got {describe(x)}, which is quantized; use x.dequantize()")
    if numbers.dtype.is_complex:
        raise TypeError(f"{operation}: needs real numbers, got {describe(x)}")
    # Whole numbers go to double precision: single would change those above 2**24.
    kind = numbers.dtype if numbers.dtype.is_floating_point else torch.float64
    return numbers.to(device=like.device, dtype=torch.promote_types(kind, like.dtype))


def _plain_array(x: Any) -> np.ndarray[Any, Any]:
    """As a NumPy array that torch takes: contiguous, writable, in native byte order; copied only if need be."""
    array = np.asarray(x)
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"])


def check_features(operation: str, x: Tensor) -> None:
    """Raise for a NaN or an infinity, naming the feature and the input."""
    if is_true(~torch.isfinite(x).all()):
        x = x if x.ndim else x[None]
        *item, feature = (~torch.isfinite(x)).nonzero()[0].tolist()
        where = f" of input {tuple(item)}" if item else ""
        raise ValueError(f"{operation}: feature {feature}{where} is not finite: {x[(*item, feature)].item()}")

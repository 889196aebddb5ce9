"""Inputs of encoders: convert numbers of any kind to real tensors, and reject those that cannot be encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import describe, is_true, type_error, value_error


def as_features(x: Any, n: int, *, like: Tensor) -> Tensor:
    """Return finite numbers as a tensor ``(*batch, n)``, converted as in :func:`as_numbers`."""
    numbers = as_numbers(x, like=like)
    if numbers.ndim == 0 or numbers.shape[-1] != n:
        raise value_error(f"needs {n} feature{'s' * (n != 1)} on the last axis, (*batch, {n}); got {describe(x)}")
    check_features(numbers)
    return numbers


def as_scalars(x: Any, *, like: Tensor) -> Tensor:
    """Return finite numbers as a tensor ``(*batch)``, converted as in :func:`as_numbers`."""
    numbers = as_numbers(x, like=like)
    if is_true(~torch.isfinite(numbers).all()):
        index = tuple((~torch.isfinite(numbers)).nonzero()[0].tolist())
        where = f"input {index}" if index else "input"
        raise value_error(f"{where} is not finite: {numbers[index].item()}; remove NaN and infinity")
    return numbers


def as_numbers(x: Any, *, like: Tensor, name: str = "") -> Tensor:
    """Return numbers as a real tensor of at least the precision of ``like``, on its device.

    ``x`` is a tensor, a NumPy array, a number or a nested list, of integers or real numbers. ``name`` is for errors.
    """
    needs = f"{name}: needs" if name else "needs"
    try:
        numbers = x if isinstance(x, Tensor) else torch.as_tensor(_plain_array(x))
    except (TypeError, ValueError, RuntimeError):
        raise type_error(f"{needs} numbers, got {describe(x)}") from None
    if numbers.is_quantized:
        raise type_error(f"{needs} numbers, got {describe(x)}, which is quantized; use x.dequantize()")
    if numbers.dtype.is_complex:
        raise type_error(f"{needs} real numbers, got {describe(x)}")
    # Integers become double precision: single precision would change those above 2**24.
    dtype = numbers.dtype if numbers.dtype.is_floating_point else torch.float64
    return numbers.to(device=like.device, dtype=torch.promote_types(dtype, like.dtype))


def _plain_array(x: Any) -> np.ndarray[Any, Any]:
    """Return a NumPy array that torch accepts: contiguous, writable, in native byte order."""
    array = np.asarray(x)
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"])


def check_features(x: Tensor) -> None:
    """Raise for a NaN or an infinity, with its feature and input."""
    if is_true(~torch.isfinite(x).all()):
        x = x if x.ndim else x[None]
        *item, feature = (~torch.isfinite(x)).nonzero()[0].tolist()
        where = f" of input {tuple(item)}" if item else ""
        raise value_error(
            f"feature {feature}{where} is not finite: {x[(*item, feature)].item()}; remove NaN and infinity"
        )

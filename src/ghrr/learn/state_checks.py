"""Checks of single entries of the state of a loaded estimator: numbers, tensors, arrays, spaces and names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import describe
from ghrr.space import Space

# Sizes up to which products of learned numbers stay finite.
MOST_SINGLE, MOST_DOUBLE = 1e15, 1e100
MOST_SCALE = 1e30
MOST_STEPS = 1000  # of a loop in prediction that a setting controls
_ROUNDING = 1e-3  # of numbers that were computed again, perhaps on another machine


def fail(name: str, value: Any, expected: str) -> None:
    """Raise ValueError for an entry of the file."""
    raise ValueError(f"{name} does not fit the other entries, got {describe(value)}, expected {expected}; save it anew")


def check_that(name: str, value: Any, fits: object, expected: str) -> None:
    """Raise ValueError for an entry of the file unless it fits."""
    if not fits:
        fail(name, value, expected)


def check_whole(name: str, value: Any, *, least: int = 1, most: int = 1 << 53) -> int:
    """Return a whole number from ``least`` to ``most``."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    check_that(name, value, is_whole and least <= value <= most, f"a whole number from {least} to {most}")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a number above 0, of a size with which products stay finite."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    check_that(name, value, is_number and 0 < value <= MOST_DOUBLE, f"a number above 0 and up to {MOST_DOUBLE:g}")
    return float(value)


def check_tensor(
    name: str,
    value: Any,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float64,
    *,
    least: float = -math.inf,
    most: float = MOST_DOUBLE,
) -> Tensor:
    """Return a tensor; raise unless it has this shape and dtype, and numbers from ``least`` and up to ``most`` in size.

    Those in single precision are at most ``MOST_SINGLE``.
    """
    expected = f"a {str(dtype).removeprefix('torch.')} tensor of shape {tuple(shape)}"
    is_one = isinstance(value, Tensor) and value.dtype == dtype and tuple(value.shape) == tuple(shape)
    check_that(name, value, is_one, expected)
    tensor: Tensor = value
    if dtype in (torch.float32, torch.complex64):
        most = MOST_SINGLE
    parts = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    in_range = bool((parts.abs() <= most).all()) and bool((parts >= least).all())
    check_that(name, value, in_range, f"numbers of at least {least:g} and up to {most:g} in size")
    return tensor


def check_array(
    name: str,
    value: Any,
    shape: Sequence[int],
    dtype: torch.dtype = torch.float64,
    *,
    least: float = -math.inf,
    most: float = MOST_DOUBLE,
) -> Any:
    """Return an array; parameters and errors are as in :func:`check_tensor`."""
    is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    check_that(name, value, is_array, f"an array of shape {tuple(shape)}")
    check_tensor(name, torch.from_numpy(value), shape, dtype, least=least, most=most)
    return value


def check_scales(name: str, scales: Any, means: Any) -> None:
    """Raise unless standardised numbers stay finite in single precision."""
    check_array(name, scales, means.shape, least=1 / MOST_SCALE, most=MOST_SCALE)
    check_that(name, scales, (np.abs(means) <= MOST_SCALE * scales).all(), "deviations that fit the means")


def check_unitary(name: str, value: Tensor) -> None:
    """Raise unless the matrices ``(*, m, m)`` are unitary within rounding."""
    identity = torch.eye(value.shape[-1], dtype=value.dtype)
    error = (value @ value.mH - identity).abs().amax() if value.numel() else torch.zeros(())
    check_that(name, value, error < _ROUNDING, "unitary matrices")


def check_close(name: str, value: Any, expected: Tensor, what: str) -> None:
    """Raise unless a tensor equals another one, relative to its largest number."""
    size = float(expected.abs().amax()) if expected.numel() else 0.0
    is_close = not expected.numel() or float((value - expected).abs().amax()) <= _ROUNDING * size
    check_that(name, value, is_close, what)


def check_space(name: str, value: Any, dim: int, m: int) -> Space:
    """Return a space; raise unless it has this size and single precision."""
    fits = isinstance(value, Space) and (value.dim, value.m, value.dtype) == (dim, m, torch.complex64)
    check_that(name, value, fits, f"a space with dim={dim} and m={m} in complex64")
    space: Space = value
    return space


def check_names(name: str, value: Any, count: int) -> None:
    """Raise unless a value is an array of as many different names."""
    is_array = isinstance(value, np.ndarray) and value.dtype == object and value.shape == (count,)
    fits = is_array and all(isinstance(item, str) for item in value) and len(set(value.tolist())) == count
    check_that(name, value, fits, f"{count} different names")

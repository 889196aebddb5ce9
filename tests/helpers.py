"""What several test files need: random inputs, comparison to rounding, statistics with error bars."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import ghrr

STANDARD_ERRORS = 5.0  # chance of a false alarm: one in 1.7 million


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gaussian(*shape: int, dtype: torch.dtype = torch.complex128, seed: int = 0) -> Tensor:
    """Arbitrary complex tensors: nothing about them is unitary."""
    return torch.randn(shape, dtype=dtype, generator=generator(seed))


def unitary(*shape: int, m: int, dtype: torch.dtype = torch.complex128, seed: int = 0) -> Tensor:
    return ghrr.unitary.haar(*shape, m=m, generator=generator(seed), dtype=dtype)


def rounding(dtype: torch.dtype, *, terms: int = 1, scale: float = 1.0) -> float:
    """Error that rounding explains in a sum of this many terms of this size."""
    return 20 * terms * scale * torch.finfo(dtype).eps


def assert_mean(values: Tensor, expected: float) -> None:
    """The mean of independent values is the expected one, within five standard errors."""
    error = values.double().std().item() / math.sqrt(values.numel())
    off = abs(values.double().mean().item() - expected)
    assert off <= STANDARD_ERRORS * error, f"mean {values.mean().item():.5g}, expected {expected:.5g} ± {error:.2g}"


def assert_std(values: Tensor, expected: float) -> None:
    """The standard deviation about zero is the expected one, within five standard errors from the fourth moment."""
    squares = values.double().square()
    error = squares.std().item() / math.sqrt(values.numel())
    off = abs(squares.mean().item() - expected**2)
    assert off <= STANDARD_ERRORS * error, f"std {squares.mean().sqrt().item():.5g}, expected {expected:.5g}"

"""Random draws that several experiments share."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def draw_seed(generator: torch.Generator) -> int:
    """Draw the seed of a space, for encoders and rotations that a space derives from its seed."""
    return int(torch.randint(2**31, (), generator=generator))


def to_phases(angles: Tensor) -> Tensor:
    """Return exp(i · angle) for each angle."""
    return torch.polar(torch.ones_like(angles), angles)


def random_phases(*shape: int, generator: torch.Generator) -> Tensor:
    """Draw complex numbers of absolute value 1 with uniform angles."""
    return to_phases(2 * math.pi * torch.rand(shape, generator=generator, dtype=torch.float64))

"""What the tests of structures share."""

from __future__ import annotations

import math
from typing import Any

import torch

from ghrr import Space
from ghrr.memory.match import Match

SPACE = Space(300, 3, seed=1)
COMMUTING = Space(2700, 1, seed=1)  # m = 1: binding commutes, and the order of keys is lost


def wrong(value: object) -> Any:
    """A value of a type that the function does not take."""
    return value


def found(answer: object) -> Match:
    assert isinstance(answer, Match)
    return answer


def noise(items: int, space: Space = SPACE) -> float:
    """Deviation of a score when so many items are bundled."""
    return math.sqrt(items) * space.noise_std


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-4)

"""What the tests of encoders share: single slots as independent samples, and the variance that theory gives them."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import ghrr
from ghrr.encoding import FractionalPower

KERNELS = ("rbf", "laplace", "cauchy", "sinc", "matern-1/2", "matern-3/2", "matern-5/2")


def wrong(value: object) -> Any:
    """A value of a type that the function does not take."""
    return value


def slots(a: Tensor, b: Tensor) -> Tensor:
    """The similarity of two hypervectors slot by slot: dim independent samples whose mean is their similarity."""
    return ghrr.similarity(a[..., :, None, :, :], b[..., :, None, :, :])


def slot_std(encoder: FractionalPower, x: Tensor, y: Tensor) -> float:
    """Deviation of one slot's similarity about a kernel K common to all entries, from E cos² = (1 + K(2 delta)) / 2."""
    value, double = encoder.kernel(x, y).double(), encoder.kernel(2 * x, 2 * y).double()
    return float((((1 + double) / 2 - value.square()) / encoder.space.m).sqrt())

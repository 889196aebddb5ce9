"""Helpers of the encoder tests: single slots as independent samples, and their predicted standard deviation."""

from __future__ import annotations

from torch import Tensor

import ghrr
from ghrr.encoding import FractionalPower

KERNELS = ("rbf", "laplace", "cauchy", "sinc", "matern-1/2", "matern-3/2", "matern-5/2")


def slots(a: Tensor, b: Tensor) -> Tensor:
    """Compute the similarity of each slot: ``dim`` independent samples whose mean is the similarity."""
    return ghrr.similarity(a[..., :, None, :, :], b[..., :, None, :, :])


def slot_std(encoder: FractionalPower, x: Tensor, y: Tensor) -> float:
    """Predict the standard deviation of a slot's similarity for one kernel K, from E cos² = (1 + K(2 delta)) / 2."""
    value, double = encoder.kernel(x, y).double(), encoder.kernel(2 * x, 2 * y).double()
    return float((((1 + double) / 2 - value.square()) / encoder.space.m).sqrt())

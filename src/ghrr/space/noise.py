"""Theory of the noise of a space: the standard deviations of similarities that should be zero."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from ghrr.capacity import diagonal_weight, relative_weight
from ghrr.space.sampling import has_one_rotation

if TYPE_CHECKING:
    from ghrr.space.space import Space


def noise_std(space: Space) -> float:
    """Return the standard deviation of the similarity of two independent hypervectors."""
    if isinstance(space.rotation, Tensor) or space.rotation == "shared":
        return _std(space, space.m)
    weight = diagonal_weight(space.m, space.diagonality)
    return _std(space, space.m * relative_weight(weight, space.m))


def crosstalk_std(space: Space) -> float:
    """Return the standard deviation of the similarity of K1^H * K2 * V with W, for independent hypervectors."""
    if has_one_rotation(space):  # the value for this rotation, not the mean over all rotations
        return _std(space, space.shared_rotation.abs().pow(4).sum(dim=(-1, -2)).mean().item())
    weight = diagonal_weight(space.m, space.diagonality)
    return _std(space, space.m * relative_weight(relative_weight(weight, space.m), space.m))


def _std(space: Space, trace_variance: float) -> float:
    """Return the standard deviation of Re tr(...)/(mD) if the trace in each slot has this mean square."""
    # With signs as phases and one rotation the trace is real; otherwise Re keeps half of its mean square.
    is_real = space.phases == 2 and has_one_rotation(space)
    return math.sqrt(trace_variance / space.dim / (1 if is_real else 2)) / space.m

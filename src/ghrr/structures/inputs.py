"""Input validation of structures: hypervectors, names, and slices of work that fit in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import check_finite, describe, type_error, value_error
from ghrr.hypervector import Hypervector
from ghrr.space import Space

_CHUNK_NUMBERS = 1 << 22  # complex numbers in the hypervectors computed at a time: 32 MiB in complex64


def check_vectors(x: Tensor | Hypervector, space: Space, device: torch.device) -> Tensor:
    """Return a hypervector or a batch of them as a tensor, with its gradients; raise unless it fits the structure."""
    tensor = space.check(x)
    if tensor.device != device:
        raise value_error(
            f"the hypervector is on the device '{tensor.device}', expected '{device}', where the "
            f"structure has its vocabulary; move it with x.to('{device}'), or create the structure with "
            f"device='{tensor.device}'"
        )
    check_finite("x", tensor)
    return tensor


def check_vector(x: Tensor | Hypervector, space: Space, device: torch.device) -> Tensor:
    """Return one hypervector as a tensor, with its gradients; raise for a batch."""
    tensor = check_vectors(x, space, device)
    if tensor.ndim != 3:
        raise value_error(f"needs one hypervector, (dim, m, m), not a batch; got {describe(tensor)}")
    return tensor


def check_name(name: object) -> str:
    """Return ``name``; raise unless it is a non-empty string."""
    if not isinstance(name, str) or not name:
        raise type_error(f"needs a non-empty string or a hypervector, got {describe(name)}")
    return name


def chunks(count: int, space: Space, each: int = 1) -> list[slice]:
    """Return slices of ``range(count)`` that fit in memory, where every index needs ``each`` hypervectors."""
    step = max(1, _CHUNK_NUMBERS // (each * space.total_dim))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]

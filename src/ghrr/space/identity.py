"""What makes two spaces equal, and the text that shows it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ghrr.checks import describe

if TYPE_CHECKING:
    from ghrr.space.space import Space

ATOM_VERSIONS = (1, 2)


def key(space: Space) -> tuple[object, ...]:
    """Return everything on which the hypervectors of a space depend. Spaces with equal keys are equal."""
    rotation = space.rotation
    if isinstance(rotation, Tensor):
        content = torch.view_as_real(rotation).numpy().tobytes()
        rotation = f"{tuple(rotation.shape)} {hashlib.sha256(content).hexdigest()}"
    dtype, version = space.dtype, space.atom_version
    return (space.dim, space.m, rotation, space.diagonality, space.phases, space.seed, dtype, version)


def show(space: Space) -> str:
    """Return the call that makes a space, without the arguments that have their default values."""
    parts = [f"dim={space.dim}", f"m={space.m}"]
    if isinstance(space.rotation, Tensor):
        parts.append(f"rotation=<{describe(space.rotation)}>")
    elif space.rotation != "varying":
        parts.append(f"rotation={space.rotation!r}")
    if space.diagonality is not None:
        parts.append(f"diagonality={space.diagonality}")
    if space.phases != "uniform":
        parts.append(f"phases={space.phases}")
    parts.append(f"seed={space.seed}")
    if space.dtype != torch.complex64:
        parts.append(f"dtype={space.dtype}")
    if space.atom_version != ATOM_VERSIONS[-1]:
        parts.append(f"atom_version={space.atom_version}")
    return f"Space({', '.join(parts)})" + (f" ({space.rounding})" if space.rounding else "")

"""Fractional power encoding and its phases on the CPU."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.ops import torch_implementation
from ghrr.ops.cpu import phasors
from ghrr.ops.cpu.products import run_loop_in_threads


def fractional_power(rotation: Tensor, frequencies: Tensor, x: Tensor) -> Tensor | None:
    """Encode rows of numbers. Returns None if an angle may be too large for single precision."""
    if not _largest_norm(frequencies) * _largest_norm(x) <= phasors.LARGEST_ANGLE:  # also for NaN
        return None
    rotate = phasors.rotate_kernel(rotation.shape[-1])
    q, iq = (torch.view_as_real(part).flatten().numpy() for part in (rotation.resolve_conj(), 1j * rotation))

    def fill(angles: Tensor, out: Tensor) -> None:
        source, target = angles.numpy(), torch.view_as_real(out).flatten(start_dim=1).numpy()
        run_loop_in_threads(lambda rows: rotate(source[rows], q, iq, target[rows]), len(angles))

    return torch_implementation.encode_rows(rotation, frequencies, x, fill)


def cos_sin(angles: Tensor) -> Tensor | None:
    """Compute cosines and sines. Returns None if an angle may be too large for single precision."""
    if not float(angles.abs().amax()) <= phasors.LARGEST_ANGLE:  # also for NaN
        return None
    out = torch_implementation.allocate((*angles.shape[:-1], 2, angles.shape[-1]), angles)
    source = angles.reshape(-1, angles.shape[-1]).numpy()
    target = out.view(-1, 2, angles.shape[-1]).numpy()
    run_loop_in_threads(lambda rows: phasors.cos_sin_rows(source[rows], target[rows]), len(source))
    return out


def _largest_norm(rows: Tensor) -> float:
    return float(torch.linalg.vector_norm(rows, dim=-1).amax())

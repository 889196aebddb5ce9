"""Fourier transforms of torch that accept empty batches, for which MKL raises."""

from __future__ import annotations

import torch
from torch import Tensor


def fft(x: Tensor, *, norm: str = "backward") -> Tensor:
    """Return the discrete Fourier transform of the last axis of a complex tensor."""
    result: Tensor = torch.fft.fft(x, norm=norm) if x.numel() else x.clone()
    return result


def rfft(x: Tensor) -> Tensor:
    """Return the discrete Fourier transform of the last axis of a real tensor: half of it, since it is symmetric."""
    if x.numel():
        result: Tensor = torch.fft.rfft(x)
        return result
    half = x[..., : x.shape[-1] // 2 + 1]
    return torch.complex(half, half)


def irfft(x: Tensor, n: int) -> Tensor:
    """Return the real tensor whose last axis has n components and the transform ``x``."""
    if x.numel():
        result: Tensor = torch.fft.irfft(x, n=n)
        return result
    return x.real[..., :1].expand(*x.shape[:-1], n)

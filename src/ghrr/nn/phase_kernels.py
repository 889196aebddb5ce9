"""Triton kernels of ``ghrr::phases``. Importing this module imports triton.

Forward: a program processes a block of tokens and of phases of one slot. It computes their cosines and sines directly
from the inputs, without storing angles. Backward: a program processes a block of tokens and of input features of one
slot. It computes gradients of angles from gradients of cosines and sines, also without storing them.

Coverage tools cannot trace compiled code, hence the ``no cover`` marks; ``tests/nn`` compares the kernels with the
PyTorch implementation.
"""

# Triton kernels have no type annotations.
# mypy: ignore-errors
# ruff: noqa: PLR0917

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_TOKENS, _COLUMNS, _DEPTH, _WARPS = 64, 64, 32, 4

# pi / 2 as a sum of three numbers. The first two have few bits, so their products with small integers are exact.
_FIRST = tl.constexpr(1.5703125)
_SECOND = tl.constexpr(4.837512969970703125e-4)
_THIRD = tl.constexpr(7.54978995489188216e-8)
_PER_QUARTER = tl.constexpr(0.6366197723675814)  # 2 / pi


@triton.jit
def _cosine_and_sine(angle):  # pragma: no cover
    """Compute cosine and sine by polynomials, to a few units in the last place unless the angle is huge."""
    quarters = tl.floor(angle * _PER_QUARTER + 0.5)
    x = ((angle - quarters * _FIRST) - quarters * _SECOND) - quarters * _THIRD
    x = tl.where(tl.abs(x) < 0.8, x, x * 0)  # huge angles have no correct digits: use 0; NaN stays NaN
    z = x * x
    sine = x + x * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4))
    cosine = 1 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    quarter = quarters.to(tl.int32)
    odd = (quarter & 1) == 1
    c = tl.where(odd, sine, cosine)
    s = tl.where(odd, cosine, sine)
    return tl.where(((quarter + 1) & 2) == 2, -c, c), tl.where((quarter & 2) == 2, -s, s)


@triton.jit
def phases_forward(
    out,
    x,
    x_step,
    frequencies,
    mean,
    tokens,
    SLOTS: tl.constexpr,
    PHASES: tl.constexpr,
    INPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # pragma: no cover
    """Compute cosines minus a constant, and sines, of the angles of a block of tokens."""
    per_block: tl.constexpr = SLOTS * PHASES // COLUMNS
    column = tl.program_id(0) % per_block * COLUMNS + tl.arange(0, COLUMNS)
    first_input = tl.program_id(0) % per_block * COLUMNS // PHASES * INPUTS
    token = (tl.program_id(0) // per_block).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (token < tokens)[:, None]
    angle = tl.zeros((BLOCK, COLUMNS), dtype=tl.float32)
    for k in range(0, INPUTS, DEPTH):
        depth = k + tl.arange(0, DEPTH)
        a = tl.load(x + token[:, None] * x_step + first_input + depth[None, :], mask=inside, other=0.0)
        f = tl.load(frequencies + column[None, :] * INPUTS + depth[:, None])
        angle = tl.dot(a, f, angle, input_precision=PRECISION)
    c, s = _cosine_and_sine(angle)
    pointer = out + token[:, None] * (2 * SLOTS * PHASES) + column[None, :]
    tl.store(pointer, (c - mean).to(out.dtype.element_ty), mask=inside)
    tl.store(pointer + SLOTS * PHASES, s.to(out.dtype.element_ty), mask=inside)


@triton.jit
def phases_backward(
    grad_x,
    grad,
    grad_step,
    out,
    frequencies,
    mean,
    tokens,
    SLOTS: tl.constexpr,
    PHASES: tl.constexpr,
    INPUTS: tl.constexpr,
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    PRECISION: tl.constexpr,
):  # pragma: no cover
    """Compute the gradient of a block of input features. Factors are rounded to the dtype of the result."""
    per_block: tl.constexpr = SLOTS * INPUTS // COLUMNS
    column = tl.program_id(0) % per_block * COLUMNS + tl.arange(0, COLUMNS)
    first_phase = tl.program_id(0) % per_block * COLUMNS // INPUTS * PHASES
    input_of_slot = column % INPUTS
    token = (tl.program_id(0) // per_block).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (token < tokens)[:, None]
    total = tl.zeros((BLOCK, COLUMNS), dtype=tl.float32)
    for j in range(0, PHASES, DEPTH):
        phase = first_phase + j + tl.arange(0, DEPTH)
        pointer = out + token[:, None] * (2 * SLOTS * PHASES) + phase[None, :]
        c = tl.load(pointer, mask=inside, other=0.0).to(tl.float32) + mean
        s = tl.load(pointer + SLOTS * PHASES, mask=inside, other=0.0).to(tl.float32)
        pointer = grad + token[:, None] * grad_step + phase[None, :]
        by_cosine = tl.load(pointer, mask=inside, other=0.0).to(tl.float32)
        by_sine = tl.load(pointer + SLOTS * PHASES, mask=inside, other=0.0).to(tl.float32)
        by_angle = by_sine * c - by_cosine * s
        f = tl.load(frequencies + phase[:, None] * INPUTS + input_of_slot[None, :])
        # Numbers of 16 bits are exact in the TF32 format of tensor cores.
        by_angle = by_angle.to(out.dtype.element_ty).to(tl.float32)
        f = f.to(out.dtype.element_ty).to(tl.float32)
        total = tl.dot(by_angle, f, total, input_precision=PRECISION)
    tl.store(grad_x + token[:, None] * (SLOTS * INPUTS) + column[None, :], total, mask=inside)


def forward(x: Tensor, frequencies: Tensor, slots: int, mean: float, dtype: torch.dtype) -> Tensor:
    out = _empty((len(x), 2 * len(frequencies)), x, dtype)
    x = x if x.stride(-1) == 1 else x.contiguous()
    phases = len(frequencies) // slots
    given = (out, x, x.stride(0), frequencies.contiguous(), mean, len(x))
    _launch(phases_forward, given, frequencies, slots, phases, frequencies.shape[1], exact=True)
    return out


def backward(grad: Tensor, out: Tensor, frequencies: Tensor, slots: int, mean: float) -> Tensor:
    grad_x = _empty((len(out), slots * frequencies.shape[1]), frequencies, frequencies.dtype)
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    given = (grad_x, grad, grad.stride(0), out.contiguous(), frequencies.contiguous(), mean, len(out))
    phases = len(frequencies) // slots
    _launch(phases_backward, given, frequencies, slots, frequencies.shape[1], phases, exact=out.dtype == torch.float32)
    return grad_x


def _launch(kernel, given, frequencies, slots, wide, deep, *, exact) -> None:
    """Launch a kernel. A program has a block of the ``wide`` columns of a slot, and sums over ``deep`` features.

    With ``exact``, float32 products have full precision unless torch is set to TF32.
    """
    exact = exact and torch.backends.cuda.matmul.fp32_precision != "tf32"  # older settings change this too
    tokens = given[-1]
    if tokens == 0:
        return
    columns, depth = _part(wide, _COLUMNS), _part(deep, _DEPTH)
    with torch.cuda.device_of(frequencies):
        kernel[(triton.cdiv(tokens, _TOKENS) * (slots * wide // columns),)](
            *given,
            SLOTS=slots,
            PHASES=len(frequencies) // slots,
            INPUTS=frequencies.shape[1],
            BLOCK=_TOKENS,
            COLUMNS=columns,
            DEPTH=depth,
            PRECISION="ieee" if exact else "tf32",
            num_warps=_WARPS,
        )


def _part(size: int, most: int) -> int:
    """Return the largest power of two up to ``most`` that divides ``size``."""
    return min(most, size & -size)


def _empty(shape: tuple[int, ...], like: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=like.device)

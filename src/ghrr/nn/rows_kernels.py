"""The kernels behind ``ghrr::place_rows``, which triton compiles for a GPU. Importing this module imports triton.

A program has one row of some tokens of one sequence, and its neighbours have the next rows of the same tokens. Queries,
keys and values take branches of their own. Forward it reads rows as often as the window is long, all but once from a
cache. Backward it computes them again: the gradient of token t needs those of bundled rows t to t + T - 1, and these
need rows from t - T + 1 on. What a program knows of the gradients of taps and scale it leaves in a line of its own:
lines are always summed in the same order.

An operand is the place of its first token and the step to the next. Coverage cannot see into compiled code, hence the
marks; ``tests/nn`` compares what it computes with torch.
"""

# The language of kernels has no types.
# mypy: ignore-errors
# ruff: noqa: PLR0917

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ghrr.nn.rows import EPSILON

_EPSILON = tl.constexpr(EPSILON)
# Complex numbers of one program: eight in each thread of so many warps.
_NUMBERS, _WARPS = 1024, 4
_FEWEST_TOKENS = 8


@triton.jit
def _load(x, tokens, n, M: tl.constexpr):  # pragma: no cover
    """Real and imaginary parts of some tokens, zeros where there is no such token."""
    inside = ((tokens >= 0) & (tokens < n))[:, None]
    place = x[0] + tokens.to(tl.int64)[:, None] * x[1] + tl.arange(0, M)[None, :]
    re = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    im = tl.load(place + M, mask=inside, other=0.0).to(tl.float32)
    return re, im


@triton.jit
def _store(out, re, im, tokens, n, M: tl.constexpr):  # pragma: no cover
    inside = (tokens < n)[:, None]
    place = out[0] + tokens.to(tl.int64)[:, None] * out[1] + tl.arange(0, M)[None, :]
    tl.store(place, re.to(out[0].dtype.element_ty), mask=inside)
    tl.store(place + M, im.to(out[0].dtype.element_ty), mask=inside)


@triton.jit
def _tap(taps, lag, M: tl.constexpr):  # pragma: no cover
    place = taps[0] + (lag - 1) * taps[1] + tl.arange(0, M)
    return tl.load(place)[None, :], tl.load(place + M)[None, :]


@triton.jit
def _bundled(x, taps, tokens, n, M: tl.constexpr, T: tl.constexpr):  # pragma: no cover
    """Rows plus earlier rows times taps."""
    re, im = _load(x, tokens, n, M)
    for lag in tl.static_range(1, T):
        a_re, a_im = _tap(taps, lag, M)
        x_re, x_im = _load(x, tokens - lag, n, M)
        re += a_re * x_re - a_im * x_im
        im += a_re * x_im + a_im * x_re
    return re, im


@triton.jit
def _inverse_length(re, im, M: tl.constexpr):  # pragma: no cover
    return tl.rsqrt(tl.sum(re * re + im * im, axis=1) * (0.5 / M) + _EPSILON)[:, None]


@triton.jit
def _place(
    out,
    x,
    taps,
    turns,
    log_scale,
    tokens,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    SCALED: tl.constexpr,
    TURNED: tl.constexpr,
):  # pragma: no cover
    re, im = _bundled(x, taps, tokens, n, M, T)
    if UNIT:
        inverse = _inverse_length(re, im, M)
        re *= inverse
        im *= inverse
    if SCALED:
        scale = tl.exp(tl.load(log_scale))
        re *= scale
        im *= scale
    if TURNED:
        c, s = _load(turns, tokens, n, M)
        turned = re * c - im * s
        im = re * s + im * c
        re = turned
    _store(out, re, im, tokens, n, M)


@triton.jit
def place(
    q,
    k,
    v,
    rows,
    steps,
    taps,
    turns,
    turns_steps,
    log_scale,
    n,
    blocks,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    TURN_VALUES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Queries, keys and values."""
    R: tl.constexpr = HEADS + 2 * KV_HEADS
    program = tl.program_id(0)
    r = (program % R).to(tl.int64)
    batch = (program // R // blocks).to(tl.int64)
    tokens = program // R % blocks * BLOCK + tl.arange(0, BLOCK)
    x = (rows + batch * steps[0] + r * steps[2], steps[1])
    a = (taps + r * (2 * M), R * 2 * M)
    turn = (turns + r * turns_steps[0], turns_steps[1])
    if r < HEADS:
        out = (q + (batch * n * HEADS + r) * (2 * M), HEADS * 2 * M)
        _place(out, x, a, turn, log_scale + r, tokens, n, M, T, UNIT, True, True)
    elif r < HEADS + KV_HEADS:
        out = (k + (batch * n * KV_HEADS + r - HEADS) * (2 * M), KV_HEADS * 2 * M)
        _place(out, x, a, turn, log_scale, tokens, n, M, T, UNIT, False, True)
    else:
        out = (v + (batch * n * KV_HEADS + r - HEADS - KV_HEADS) * (2 * M), KV_HEADS * 2 * M)
        _place(out, x, a, turn, log_scale, tokens, n, M, T, False, False, TURN_VALUES)


@triton.jit
def _pulled(
    g,
    x,
    taps,
    turns,
    log_scale,
    tokens,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    SCALED: tl.constexpr,
    TURNED: tl.constexpr,
):  # pragma: no cover
    """The gradient of bundled rows, and what each token adds to that of the logarithm of the scale."""
    re, im = _load(g, tokens, n, M)
    if TURNED:
        c, s = _load(turns, tokens, n, M)
        turned = re * c + im * s
        im = im * c - re * s
        re = turned
    along = tl.zeros_like(tokens).to(tl.float32)
    if SCALED:
        scale = tl.exp(tl.load(log_scale))
        re *= scale
        im *= scale
    if UNIT or SCALED:
        y_re, y_im = _bundled(x, taps, tokens, n, M, T)
        if UNIT:
            inverse = _inverse_length(y_re, y_im, M)
            y_re *= inverse
            y_im *= inverse
        along = tl.sum(re * y_re + im * y_im, axis=1)
        if UNIT:
            mean = (along * (0.5 / M))[:, None]
            re = (re - y_re * mean) * inverse
            im = (im - y_im * mean) * inverse
    return re, im, along


@triton.jit
def _pull(
    out,
    line,
    g,
    x,
    taps,
    turns,
    log_scale,
    tokens,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    SCALED: tl.constexpr,
    TURNED: tl.constexpr,
):  # pragma: no cover
    re, im, along = _pulled(g, x, taps, turns, log_scale, tokens, n, M, T, UNIT, SCALED, TURNED)
    for lag in range(1, T):
        x_re, x_im = _load(x, tokens - lag, n, M)
        place = line + (lag - 1) * (2 * M) + tl.arange(0, M)
        tl.store(place, tl.sum(re * x_re + im * x_im, axis=0))
        tl.store(place + M, tl.sum(im * x_re - re * x_im, axis=0))
    if SCALED:
        tl.store(line + (T - 1) * (2 * M), tl.sum(along, axis=0))
    else:
        tl.store(line + (T - 1) * (2 * M), 0.0)
    for lag in range(1, T):
        g_re, g_im, _ = _pulled(g, x, taps, turns, log_scale, tokens + lag, n, M, T, UNIT, SCALED, TURNED)
        a_re, a_im = _tap(taps, lag, M)
        re += a_re * g_re + a_im * g_im
        im += a_re * g_im - a_im * g_re
    _store(out, re, im, tokens, n, M)


@triton.jit
def pull(
    grad_rows,
    lines,
    gq,
    gq_steps,
    gk,
    gk_steps,
    gv,
    gv_steps,
    rows,
    steps,
    taps,
    turns,
    turns_steps,
    log_scale,
    n,
    blocks,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    TURN_VALUES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """The gradient of rows, and in each program's line its share of those of taps and of the logarithm of the scale."""
    R: tl.constexpr = HEADS + 2 * KV_HEADS
    program = tl.program_id(0)
    r = (program % R).to(tl.int64)
    batch = (program // R // blocks).to(tl.int64)
    tokens = program // R % blocks * BLOCK + tl.arange(0, BLOCK)
    x = (rows + batch * steps[0] + r * steps[2], steps[1])
    a = (taps + r * (2 * M), R * 2 * M)
    turn = (turns + r * turns_steps[0], turns_steps[1])
    out = (grad_rows + (batch * n * R + r) * (2 * M), R * 2 * M)
    line = lines + program.to(tl.int64) * ((T - 1) * 2 * M + 1)
    if r < HEADS:
        g = (gq + batch * gq_steps[0] + r * gq_steps[2], gq_steps[1])
        _pull(out, line, g, x, a, turn, log_scale + r, tokens, n, M, T, UNIT, True, True)
    elif r < HEADS + KV_HEADS:
        g = (gk + batch * gk_steps[0] + (r - HEADS) * gk_steps[2], gk_steps[1])
        _pull(out, line, g, x, a, turn, log_scale, tokens, n, M, T, UNIT, False, True)
    else:
        g = (gv + batch * gv_steps[0] + (r - HEADS - KV_HEADS) * gv_steps[2], gv_steps[1])
        _pull(out, line, g, x, a, turn, log_scale, tokens, n, M, T, False, False, TURN_VALUES)


def forward(
    rows: Tensor, taps: Tensor | None, turns: Tensor, log_scale: Tensor, heads: int, kv_heads: int, unit: bool
) -> tuple[Tensor, Tensor, Tensor]:
    batch, n, _, features = rows.shape
    q, k, v = (_empty((batch, n, count, features), rows) for count in (heads, kv_heads, kv_heads))
    _launch(place, (q, k, v), rows, taps, turns, log_scale, heads, kv_heads, unit)
    return q, k, v


def backward(
    rows: Tensor,
    taps: Tensor | None,
    turns: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
    unit: bool,
    *g: Tensor,
) -> tuple[Tensor, Tensor]:
    batch, _, count, features = rows.shape
    width = (0 if taps is None else len(taps)) * features + 1
    grad_rows = _empty(rows.shape, rows)
    lines = _empty((batch * _blocks(rows)[1], count, width), log_scale)
    grads = [part for grad in g for part in _with_steps(grad)]
    _launch(pull, (grad_rows, lines, *grads), rows, taps, turns, log_scale, heads, kv_heads, unit)
    return grad_rows, lines.sum(dim=0)


def _launch(
    kernel: triton.JITFunction,
    own: tuple[Tensor | tuple[int, ...], ...],
    rows: Tensor,
    taps: Tensor | None,
    turns: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
    unit: bool,
) -> None:
    """Start a kernel, unless there is nothing to compute."""
    batch, n, count, features = rows.shape
    block, blocks = _blocks(rows)
    if batch * blocks == 0:
        return
    with torch.cuda.device_of(rows):
        kernel[(batch * blocks * count,)](
            *own,
            *_with_steps(rows),
            log_scale if taps is None else taps.contiguous(),  # without taps it is not read
            *_with_steps(turns),
            log_scale.contiguous(),
            n,
            blocks,
            HEADS=heads,
            KV_HEADS=kv_heads,
            M=features // 2,
            T=1 if taps is None else len(taps) + 1,
            UNIT=unit,
            TURN_VALUES=len(turns) == count,
            BLOCK=block,
            num_warps=_WARPS,
        )


def _blocks(rows: Tensor) -> tuple[int, int]:
    """Tokens of one program, and how many programs that makes of a sequence."""
    n, features = rows.shape[1], rows.shape[3]
    block = max(_FEWEST_TOKENS, min(2 * _NUMBERS // features, triton.next_power_of_2(n)))
    return block, -(-n // block)


def _with_steps(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor whose features lie side by side, and its steps along the other axes."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    return x, x.stride()[:-1]


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)

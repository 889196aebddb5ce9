"""Triton kernels of ``ghrr::rotate_rows``. Importing this module imports triton.

A program processes one row (of one head of query, key or value) for a block of tokens of one sequence. Programs with
consecutive numbers process the rows of the same tokens. Queries, keys and values take different branches.

Forward: a program reads each input row once for every lag of the window; all reads but the first hit a cache.

Backward: a program processes several chunks of tokens in parallel, one token of each chunk per step. It recomputes the
bundled row, computes its gradient, and adds it to the partial gradients of the input rows in the window, which it
stores when they are complete. The last rows of a chunk are bundled into the first tokens of the next chunk, so a
program continues into the next chunk by the length of the window. Each program writes its contribution to the gradients
of taps and scale to a separate line of a buffer. PyTorch sums the lines, so results do not depend on the order in which
programs run.

An operand is a pair of a pointer to its first token and the stride to the next. Coverage tools cannot trace compiled
code, hence the ``no cover`` marks; ``tests/nn`` compares the kernels with the PyTorch implementation.
"""

# Triton kernels have no type annotations.
# mypy: ignore-errors
# ruff: noqa: PLR0917

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from ghrr.nn.complex_rows import EPSILON
from ghrr.nn.rows import LONGEST_WINDOW, line_count, tokens_of_a_line

_EPSILON = tl.constexpr(EPSILON)
# Complex numbers that a forward program processes, and its warps: eight numbers per thread.
_NUMBERS, _WARPS = 1024, 4
_FEWEST_TOKENS = 8
# Backward: longest window, tokens per chunk, warps. Longer chunks repeat less work at their ends. For longer windows a
# thread holds more rows, and should hold fewer numbers of each: here 8, 4, 2 or 1.
_CHUNKS = ((1, 1, 8), (3, 8, 2), (6, 16, 2), (LONGEST_WINDOW, 16, 4))


@triton.jit
def _load(x, tokens, n, M: tl.constexpr):  # pragma: no cover
    """Load the real and imaginary parts of rows; rows outside the sequence are zero."""
    inside = ((tokens >= 0) & (tokens < n))[:, None]
    pointer = x[0] + tokens.to(tl.int64)[:, None] * x[1] + tl.arange(0, M)[None, :]
    re = tl.load(pointer, mask=inside, other=0.0).to(tl.float32)
    im = tl.load(pointer + M, mask=inside, other=0.0).to(tl.float32)
    return re, im


@triton.jit
def _store(out, y, tokens, inside, M: tl.constexpr):  # pragma: no cover
    inside = inside[:, None]
    pointer = out[0] + tokens.to(tl.int64)[:, None] * out[1] + tl.arange(0, M)[None, :]
    tl.store(pointer, y[0].to(out[0].dtype.element_ty), mask=inside)
    tl.store(pointer + M, y[1].to(out[0].dtype.element_ty), mask=inside)


@triton.jit
def _tap(taps, lag, M: tl.constexpr):  # pragma: no cover
    pointer = taps[0] + (lag - 1) * taps[1] + tl.arange(0, M)
    return tl.load(pointer)[None, :], tl.load(pointer + M)[None, :]


@triton.jit
def _plus_product(sums, a, b):  # pragma: no cover
    """Add a complex product to sums, with two fused instructions per real number."""
    re, im = sums
    re += a[0] * b[0]
    im += a[0] * b[1]
    re -= a[1] * b[1]
    im += a[1] * b[0]
    return re, im


@triton.jit
def _conjugate(a):  # pragma: no cover
    return a[0], -a[1]


@triton.jit
def _bundled(x, taps, tokens, n, M: tl.constexpr, T: tl.constexpr):  # pragma: no cover
    """Bundle rows: add the earlier rows of the window, each multiplied by its tap."""
    y = _load(x, tokens, n, M)
    for lag in tl.static_range(1, T):
        y = _plus_product(y, _tap(taps, lag, M), _load(x, tokens - lag, n, M))
    return y


@triton.jit
def _inverse_length(re, im, M: tl.constexpr):  # pragma: no cover
    return tl.rsqrt(tl.sum(re * re + im * im, axis=1) * (0.5 / M) + _EPSILON)


@triton.jit
def _forward_row(
    out,
    x,
    taps,
    rotations,
    log_scale,
    tokens,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    NORMALIZE: tl.constexpr,
    SCALED: tl.constexpr,
    ROTATED: tl.constexpr,
):  # pragma: no cover
    re, im = _bundled(x, taps, tokens, n, M, T)
    if NORMALIZE:
        inverse = _inverse_length(re, im, M)[:, None]
        re *= inverse
        im *= inverse
    if SCALED:
        scale = tl.exp(tl.load(log_scale))
        re *= scale
        im *= scale
    if ROTATED:
        c, s = _load(rotations, tokens, n, M)
        rotated = re * c - im * s
        im = re * s + im * c
        re = rotated
    _store(out, (re, im), tokens, tokens < n, M)


@triton.jit
def rotate_rows_forward(
    q,
    k,
    v,
    rows,
    steps,
    taps,
    rotations,
    rotation_steps,
    log_scale,
    n,
    blocks,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    M: tl.constexpr,
    T: tl.constexpr,
    NORMALIZE: tl.constexpr,
    ROTATE_VALUES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # pragma: no cover
    """Compute queries, keys and values."""
    R: tl.constexpr = HEADS + 2 * KV_HEADS
    program = tl.program_id(0)
    r = (program % R).to(tl.int64)
    batch = (program // R // blocks).to(tl.int64)
    tokens = program // R % blocks * BLOCK + tl.arange(0, BLOCK)
    x = (rows + batch * steps[0] + r * steps[2], steps[1])
    a = (taps + r * (2 * M), R * 2 * M)
    rotation = (rotations + r * rotation_steps[0], rotation_steps[1])
    if r < HEADS:
        out = (q + (batch * n * HEADS + r) * (2 * M), HEADS * 2 * M)
        _forward_row(out, x, a, rotation, log_scale + r, tokens, n, M, T, NORMALIZE, True, True)
    elif r < HEADS + KV_HEADS:
        out = (k + (batch * n * KV_HEADS + r - HEADS) * (2 * M), KV_HEADS * 2 * M)
        _forward_row(out, x, a, rotation, log_scale, tokens, n, M, T, NORMALIZE, False, True)
    else:
        out = (v + (batch * n * KV_HEADS + r - HEADS - KV_HEADS) * (2 * M), KV_HEADS * 2 * M)
        _forward_row(out, x, a, rotation, log_scale, tokens, n, M, T, False, False, ROTATE_VALUES)


@triton.jit
def _bundled_gradient(
    g,
    xs,
    taps,
    rotations,
    scale,
    tokens,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    NORMALIZE: tl.constexpr,
    SCALED: tl.constexpr,
    ROTATED: tl.constexpr,
):  # pragma: no cover
    """Compute the gradient of bundled rows, and the contribution of each token to the gradient of log_scale."""
    re, im = _load(g, tokens, n, M)
    if ROTATED:
        c, s = _load(rotations, tokens, n, M)
        rotated = re * c + im * s
        im = im * c - re * s
        re = rotated
    grad_scale = tl.zeros_like(tokens).to(tl.float32)
    if NORMALIZE or SCALED:
        y = xs[0]
        for lag in tl.static_range(1, T):
            y = _plus_product(y, _tap(taps, lag, M), xs[lag])
        y_re, y_im = y
        grad_scale = tl.sum(re * y_re + im * y_im, axis=1) * scale
        if NORMALIZE:
            inverse = _inverse_length(y_re, y_im, M)
            grad_scale *= inverse
            factor = (scale * inverse)[:, None]
            correction = (grad_scale * inverse * inverse * (0.5 / M))[:, None]
            re = re * factor - y_re * correction
            im = im * factor - y_im * correction
        else:
            re *= scale
            im *= scale
    return (re, im), grad_scale


@triton.jit
def _backward_row(
    out,
    line,
    g,
    x,
    taps,
    rotations,
    log_scale,
    starts,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    NORMALIZE: tl.constexpr,
    SCALED: tl.constexpr,
    ROTATED: tl.constexpr,
    CHUNKS: tl.constexpr,
    LENGTH: tl.constexpr,
):  # pragma: no cover
    zeros = tl.zeros((CHUNKS, M), tl.float32)
    before, partial, sums, total = (), (), (), tl.zeros((CHUNKS,), tl.float32)
    for lag in tl.static_range(1, T):
        before += (_load(x, starts - lag, n, M),)
        partial += ((zeros, zeros),)
        sums += ((zeros, zeros),)
    scale = 1.0
    if SCALED:
        scale = tl.exp(tl.load(log_scale))
    for step in range(LENGTH + T - 1):
        tokens = starts + step
        xs = (_load(x, tokens, n, M),)
        xs += before
        p, grad_scale = _bundled_gradient(g, xs, taps, rotations, scale, tokens, n, M, T, NORMALIZE, SCALED, ROTATED)
        if step < LENGTH:  # later tokens belong to the next chunk
            total += grad_scale
            counted = ()
            for lag in tl.static_range(1, T):
                counted += (_plus_product(sums[lag - 1], _conjugate(xs[lag]), p),)
            sums = counted
        shifted = (p,)
        for lag in tl.static_range(1, T):
            shifted += (_plus_product(partial[lag - 1], _conjugate(_tap(taps, lag, M)), p),)
        complete = tokens - (T - 1)
        _store(out, shifted[T - 1], complete, (complete >= starts) & (complete < n), M)
        partial, before = shifted[:-1], xs[:-1]
    for lag in tl.static_range(1, T):
        pointer = line + (lag - 1) * (2 * M) + tl.arange(0, M)
        tl.store(pointer, tl.sum(sums[lag - 1][0], axis=0))
        tl.store(pointer + M, tl.sum(sums[lag - 1][1], axis=0))
    if SCALED:
        tl.store(line + (T - 1) * (2 * M), tl.sum(total, axis=0))
    else:
        tl.store(line + (T - 1) * (2 * M), 0.0)


@triton.jit
def rotate_rows_backward(
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
    rotations,
    rotation_steps,
    log_scale,
    n,
    blocks,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    M: tl.constexpr,
    T: tl.constexpr,
    NORMALIZE: tl.constexpr,
    ROTATE_VALUES: tl.constexpr,
    CHUNKS: tl.constexpr,
    LENGTH: tl.constexpr,
):  # pragma: no cover
    """Compute the gradient of rows, and a line per program: its contribution to the gradients of taps and log_scale."""
    R: tl.constexpr = HEADS + 2 * KV_HEADS
    program = tl.program_id(0)
    r = (program % R).to(tl.int64)
    batch = (program // R // blocks).to(tl.int64)
    starts = (program // R % blocks * CHUNKS + tl.arange(0, CHUNKS)) * LENGTH
    x = (rows + batch * steps[0] + r * steps[2], steps[1])
    a = (taps + r * (2 * M), R * 2 * M)
    rotation = (rotations + r * rotation_steps[0], rotation_steps[1])
    out = (grad_rows + (batch * n * R + r) * (2 * M), R * 2 * M)
    line = lines + program.to(tl.int64) * ((T - 1) * 2 * M + 1)
    if r < HEADS:
        g = (gq + batch * gq_steps[0] + r * gq_steps[2], gq_steps[1])
        _backward_row(
            out, line, g, x, a, rotation, log_scale + r, starts, n, M, T, NORMALIZE, True, True, CHUNKS, LENGTH
        )
    elif r < HEADS + KV_HEADS:
        g = (gk + batch * gk_steps[0] + (r - HEADS) * gk_steps[2], gk_steps[1])
        _backward_row(out, line, g, x, a, rotation, log_scale, starts, n, M, T, NORMALIZE, False, True, CHUNKS, LENGTH)
    else:
        g = (gv + batch * gv_steps[0] + (r - HEADS - KV_HEADS) * gv_steps[2], gv_steps[1])
        _backward_row(
            out, line, g, x, a, rotation, log_scale, starts, n, M, T, False, False, ROTATE_VALUES, CHUNKS, LENGTH
        )


def forward(
    rows: Tensor, taps: Tensor | None, rotations: Tensor, log_scale: Tensor, heads: int, kv_heads: int, normalize: bool
) -> tuple[Tensor, Tensor, Tensor]:
    batch, n, _, features = rows.shape
    q, k, v = (_empty((batch, n, count, features), rows) for count in (heads, kv_heads, kv_heads))
    block = max(_FEWEST_TOKENS, min(2 * _NUMBERS // features, triton.next_power_of_2(n)))
    sizes = {"BLOCK": block, "num_warps": _WARPS}
    _launch(
        rotate_rows_forward,
        (q, k, v),
        rows,
        taps,
        rotations,
        log_scale,
        heads,
        kv_heads,
        normalize,
        -(-n // block),
        sizes,
    )
    return q, k, v


def backward(
    rows: Tensor,
    taps: Tensor | None,
    rotations: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
    normalize: bool,
    *g: Tensor,
) -> tuple[Tensor, Tensor]:
    n, count, features = rows.shape[1:]
    window = 1 if taps is None else len(taps) + 1
    grad_rows = _empty(rows.shape, rows)
    lines = _empty((line_count(rows), count, (window - 1) * features + 1), log_scale)
    grads = [part for grad in g for part in _with_steps(grad)]
    length, warps = next(sizes for longest, *sizes in _CHUNKS if window <= longest)
    tokens = tokens_of_a_line(rows)
    chunks = min(tokens // length, triton.next_power_of_2(-(-n // length)))
    sizes = {"CHUNKS": chunks, "LENGTH": length, "num_warps": warps}
    kernel_tensors = (grad_rows, lines, *grads)
    _launch(
        rotate_rows_backward,
        kernel_tensors,
        rows,
        taps,
        rotations,
        log_scale,
        heads,
        kv_heads,
        normalize,
        -(-n // tokens),
        sizes,
    )
    return grad_rows, lines


def _launch(
    kernel: triton.JITFunction,
    kernel_tensors: tuple[Tensor | tuple[int, ...], ...],
    rows: Tensor,
    taps: Tensor | None,
    rotations: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
    normalize: bool,
    blocks: int,
    sizes: dict[str, int],
) -> None:
    """Launch a kernel with ``blocks`` programs for each row of a sequence, unless there are no tokens."""
    batch, n, count, features = rows.shape
    if batch * blocks == 0:
        return
    with torch.cuda.device_of(rows):
        kernel[(batch * blocks * count,)](
            *kernel_tensors,
            *_with_steps(rows),
            log_scale if taps is None else taps.contiguous(),  # not read without taps
            *_with_steps(rotations),
            log_scale.contiguous(),
            n,
            blocks,
            HEADS=heads,
            KV_HEADS=kv_heads,
            M=features // 2,
            T=1 if taps is None else len(taps) + 1,
            NORMALIZE=normalize,
            ROTATE_VALUES=len(rotations) == count,
            **sizes,
        )


def _with_steps(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor with contiguous features, and its strides along the other axes."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    return x, x.stride()[:-1]


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)

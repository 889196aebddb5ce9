"""The kernels behind ``ghrr::place_rows``, which triton compiles for a GPU. Importing this module imports triton.

A program has one row of some tokens of one sequence, and its neighbours have the next rows of the same tokens. Queries,
keys and values take branches of their own. Forward it reads rows as often as the window is long, all but once from a
cache.

Backward a program walks along several runs of tokens at once, one token of each at a step. There it computes the
bundled row again, and its gradient; this goes into the gradients of the rows in the window, which it carries along with
those rows, and the one that is whole then is written. The last rows of a run need the first tokens of the next, so it
walks on as far as a window reaches. Its share of the gradients of taps and scale, from its own tokens alone, it leaves
in a line of its own; lines are summed outside, always in the same order.

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

from ghrr.ops.gpu.rows_layout import EPSILON, LONGEST_WINDOW, line_count, tokens_of_a_line

_EPSILON = tl.constexpr(EPSILON)
# Complex numbers of one program forward: eight in each thread of so many warps.
_NUMBERS, _WARPS = 1024, 4
_FEWEST_TOKENS = 8
# Backward, for windows up to so long: tokens of a run, and warps. Long runs repeat little at their ends. The longer a
# window, the more rows a thread carries along, and the fewer numbers of each it should have: here 8, 4, 2 or 1.
_RUNS = ((1, 1, 8), (3, 8, 2), (6, 16, 2), (LONGEST_WINDOW, 16, 4))


@triton.jit
def _load(x, tokens, n, M: tl.constexpr):  # pragma: no cover
    """Real and imaginary parts of some tokens, zeros where there is no such token."""
    inside = ((tokens >= 0) & (tokens < n))[:, None]
    place = x[0] + tokens.to(tl.int64)[:, None] * x[1] + tl.arange(0, M)[None, :]
    re = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    im = tl.load(place + M, mask=inside, other=0.0).to(tl.float32)
    return re, im


@triton.jit
def _store(out, y, tokens, inside, M: tl.constexpr):  # pragma: no cover
    inside = inside[:, None]
    place = out[0] + tokens.to(tl.int64)[:, None] * out[1] + tl.arange(0, M)[None, :]
    tl.store(place, y[0].to(out[0].dtype.element_ty), mask=inside)
    tl.store(place + M, y[1].to(out[0].dtype.element_ty), mask=inside)


@triton.jit
def _tap(taps, lag, M: tl.constexpr):  # pragma: no cover
    place = taps[0] + (lag - 1) * taps[1] + tl.arange(0, M)
    return tl.load(place)[None, :], tl.load(place + M)[None, :]


@triton.jit
def _plus_product(sums, a, b):  # pragma: no cover
    """Sums plus products, each number by two instructions."""
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
    """Rows plus earlier rows times taps."""
    y = _load(x, tokens, n, M)
    for lag in tl.static_range(1, T):
        y = _plus_product(y, _tap(taps, lag, M), _load(x, tokens - lag, n, M))
    return y


@triton.jit
def _inverse_length(re, im, M: tl.constexpr):  # pragma: no cover
    return tl.rsqrt(tl.sum(re * re + im * im, axis=1) * (0.5 / M) + _EPSILON)


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
        inverse = _inverse_length(re, im, M)[:, None]
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
    _store(out, (re, im), tokens, tokens < n, M)


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
    xs,
    taps,
    turns,
    scale,
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
    if UNIT or SCALED:
        y = xs[0]
        for lag in tl.static_range(1, T):
            y = _plus_product(y, _tap(taps, lag, M), xs[lag])
        y_re, y_im = y
        along = tl.sum(re * y_re + im * y_im, axis=1) * scale
        if UNIT:
            inverse = _inverse_length(y_re, y_im, M)
            along *= inverse
            ahead = (scale * inverse)[:, None]
            back = (along * inverse * inverse * (0.5 / M))[:, None]
            re = re * ahead - y_re * back
            im = im * ahead - y_im * back
        else:
            re *= scale
            im *= scale
    return (re, im), along


@triton.jit
def _pull(
    out,
    line,
    g,
    x,
    taps,
    turns,
    log_scale,
    starts,
    n,
    M: tl.constexpr,
    T: tl.constexpr,
    UNIT: tl.constexpr,
    SCALED: tl.constexpr,
    TURNED: tl.constexpr,
    RUNS: tl.constexpr,
    LENGTH: tl.constexpr,
):  # pragma: no cover
    zeros = tl.zeros((RUNS, M), tl.float32)
    before, partial, sums, total = (), (), (), tl.zeros((RUNS,), tl.float32)
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
        p, along = _pulled(g, xs, taps, turns, scale, tokens, n, M, T, UNIT, SCALED, TURNED)
        if step < LENGTH:  # later tokens are the next run's
            total += along
            counted = ()
            for lag in tl.static_range(1, T):
                counted += (_plus_product(sums[lag - 1], _conjugate(xs[lag]), p),)
            sums = counted
        spread = (p,)
        for lag in tl.static_range(1, T):
            spread += (_plus_product(partial[lag - 1], _conjugate(_tap(taps, lag, M)), p),)
        whole = tokens - (T - 1)
        _store(out, spread[T - 1], whole, (whole >= starts) & (whole < n), M)
        partial, before = spread[:-1], xs[:-1]
    for lag in tl.static_range(1, T):
        place = line + (lag - 1) * (2 * M) + tl.arange(0, M)
        tl.store(place, tl.sum(sums[lag - 1][0], axis=0))
        tl.store(place + M, tl.sum(sums[lag - 1][1], axis=0))
    if SCALED:
        tl.store(line + (T - 1) * (2 * M), tl.sum(total, axis=0))
    else:
        tl.store(line + (T - 1) * (2 * M), 0.0)


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
    RUNS: tl.constexpr,
    LENGTH: tl.constexpr,
):  # pragma: no cover
    """The gradient of rows, and in each program's line its share of those of taps and of the logarithm of the scale."""
    R: tl.constexpr = HEADS + 2 * KV_HEADS
    program = tl.program_id(0)
    r = (program % R).to(tl.int64)
    batch = (program // R // blocks).to(tl.int64)
    starts = (program // R % blocks * RUNS + tl.arange(0, RUNS)) * LENGTH
    x = (rows + batch * steps[0] + r * steps[2], steps[1])
    a = (taps + r * (2 * M), R * 2 * M)
    turn = (turns + r * turns_steps[0], turns_steps[1])
    out = (grad_rows + (batch * n * R + r) * (2 * M), R * 2 * M)
    line = lines + program.to(tl.int64) * ((T - 1) * 2 * M + 1)
    if r < HEADS:
        g = (gq + batch * gq_steps[0] + r * gq_steps[2], gq_steps[1])
        _pull(out, line, g, x, a, turn, log_scale + r, starts, n, M, T, UNIT, True, True, RUNS, LENGTH)
    elif r < HEADS + KV_HEADS:
        g = (gk + batch * gk_steps[0] + (r - HEADS) * gk_steps[2], gk_steps[1])
        _pull(out, line, g, x, a, turn, log_scale, starts, n, M, T, UNIT, False, True, RUNS, LENGTH)
    else:
        g = (gv + batch * gv_steps[0] + (r - HEADS - KV_HEADS) * gv_steps[2], gv_steps[1])
        _pull(out, line, g, x, a, turn, log_scale, starts, n, M, T, False, False, TURN_VALUES, RUNS, LENGTH)


def forward(
    rows: Tensor, taps: Tensor | None, turns: Tensor, log_scale: Tensor, heads: int, kv_heads: int, unit: bool
) -> tuple[Tensor, Tensor, Tensor]:
    batch, n, _, features = rows.shape
    q, k, v = (_empty((batch, n, count, features), rows) for count in (heads, kv_heads, kv_heads))
    block = max(_FEWEST_TOKENS, min(2 * _NUMBERS // features, triton.next_power_of_2(n)))
    sizes = {"BLOCK": block, "num_warps": _WARPS}
    _launch(place, (q, k, v), rows, taps, turns, log_scale, heads, kv_heads, unit, -(-n // block), sizes)
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
    n, count, features = rows.shape[1:]
    window = 1 if taps is None else len(taps) + 1
    grad_rows = _empty(rows.shape, rows)
    lines = _empty((line_count(rows), count, (window - 1) * features + 1), log_scale)
    grads = [part for grad in g for part in _with_steps(grad)]
    length, warps = next(sizes for longest, *sizes in _RUNS if window <= longest)
    tokens = tokens_of_a_line(rows)
    runs = min(tokens // length, triton.next_power_of_2(-(-n // length)))
    sizes = {"RUNS": runs, "LENGTH": length, "num_warps": warps}
    own = (grad_rows, lines, *grads)
    _launch(pull, own, rows, taps, turns, log_scale, heads, kv_heads, unit, -(-n // tokens), sizes)
    return grad_rows, lines


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
    blocks: int,
    sizes: dict[str, int],
) -> None:
    """Start a kernel, so many programs for each row of a sequence, unless there is nothing to compute."""
    batch, n, count, features = rows.shape
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
            **sizes,
        )


def _with_steps(x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor whose features lie side by side, and its steps along the other axes."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    return x, x.stride()[:-1]


def _empty(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)

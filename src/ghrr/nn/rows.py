r"""The rows of queries, keys and values on their way into attention: bundled, scaled, and bound to their positions.

On a GPU this is all memory traffic, so there it is one kernel, and one more for all gradients: behind the operator
``ghrr::place_rows``, which compilers and recordings take as it is. What it computes is said here, in torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.nn.complex_rows import multiply, normalize_rows
from ghrr.ops import tensor_state
from ghrr.ops.dispatch import Kernel, Operation, refuse_second_derivative
from ghrr.ops.gpu.rows_layout import LONGEST_WINDOW, line_count

_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_SIZES = (4, 8, 16, 32, 64, 128)

Three = tuple[Tensor, Tensor, Tensor]


def place_rows(
    rows: Tensor,
    taps: Tensor | None,
    turns: Tensor,
    log_scale: Tensor,
    *,
    heads: int,
    kv_heads: int,
    unit: bool,
) -> Three:
    r"""Queries, keys and values from their rows: :math:`P_j\, s\, u\bigl(x_j + \sum_{\tau} A_\tau x_{j-\tau}\bigr)`.

    Complex numbers are :math:`m` real parts, then :math:`m` imaginary parts, and products go feature by feature. The
    sum runs over the ``taps`` :math:`A_1, A_2, \dots`; before the first token there are zeros. If ``unit``,
    :math:`u(y) = y / \sqrt{|y|^2 / 2m + 10^{-6}}` for queries and keys. The scale s of queries is the exponential of
    ``log_scale``. The positions :math:`P_j` are the ``turns``, cosines, then sines, of queries and keys, or of values
    too. Computed in single precision (in double for rows that have it) and rounded once.

    On a GPU with triton it is one kernel if m is a power of two from 4 to 128, there are at most 7 taps and ``turns``
    need no gradient. Kernels have first derivatives alone.

    Shapes
    ------
    rows: ``(batch, n, R, 2m)`` with R = ``heads + 2 kv_heads``, queries, then keys, then values; taps: ``(T - 1, R,
    2m)``; turns: ``(heads + kv_heads, at least n, 2m)`` or ``(R, at least n, 2m)``; log_scale: ``(heads,)``; output:
    ``(batch, heads, n, 2m)`` and twice ``(batch, kv_heads, n, 2m)``, heads next to features in memory

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.rows import place_rows
    >>> rows, angles = torch.randn(2, 5, 4, 6), torch.randn(3, 5, 3)
    >>> turns = torch.cat((angles.cos(), angles.sin()), dim=-1)
    >>> q, k, v = place_rows(rows, None, turns, torch.zeros(2), heads=2, kv_heads=1, unit=True)
    >>> q.shape, k.shape, torch.equal(v, rows[:, :, 3:].transpose(1, 2))
    (torch.Size([2, 2, 5, 6]), torch.Size([2, 1, 5, 6]), True)
    >>> torch.allclose(k.square().mean(dim=-1), torch.ones(2, 1, 5))
    True
    """
    _check("place_rows", rows, taps, turns, log_scale, heads, kv_heads)
    taps, log_scale = None if taps is None else _at_least_single(taps), _at_least_single(log_scale)
    given = (rows, taps, turns, log_scale, heads, kv_heads, unit)
    q, k, v = in_torch(*given) if turns.requires_grad else _place_rows(*given)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def in_torch(  # noqa: PLR0917
    rows: Tensor, taps: Tensor | None, turns: Tensor, log_scale: Tensor, heads: int, kv_heads: int, unit: bool
) -> Three:
    """What :func:`place_rows` computes, ``(batch, n, heads, 2m)`` each, contiguous."""
    n, exact = rows.shape[1], torch.promote_types(rows.dtype, torch.float32)
    x = y = rows.to(exact)
    for lag, tap in enumerate(() if taps is None else taps.to(exact).unbind(), start=1):
        reached = max(n - lag, 0)
        y = y + multiply(torch.nn.functional.pad(x[:, :reached], (0, 0, 0, 0, n - reached, 0)), tap)
    q, k, v = torch.split(y, [heads, kv_heads, kv_heads], dim=2)
    if unit:
        q, k = normalize_rows(q), normalize_rows(k)
    q = q * log_scale.to(exact).exp()[:, None]
    turn = turns[:, :n].to(exact).transpose(0, 1)
    q = multiply(q, turn[:, :heads])
    k = multiply(k, turn[:, heads : heads + kv_heads])
    if len(turns) == rows.shape[2]:
        v = multiply(v, turn[:, heads + kv_heads :])
    return q.to(rows.dtype).contiguous(), k.to(rows.dtype).contiguous(), v.to(rows.dtype).contiguous()


def _at_least_single(x: Tensor) -> Tensor:
    """What a model that was cast to 16 bits has in 16 bits, in 32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _kernel_supports(rows: Tensor, taps: Tensor | None, turns: Tensor, log_scale: Tensor, *_: Any) -> bool:
    if not tensor_state.is_on_gpu(rows) or rows.dtype not in _DTYPES or rows.shape[-1] // 2 not in _SIZES:
        return False
    if taps is not None and (taps.dtype != torch.float32 or len(taps) >= LONGEST_WINDOW):
        return False
    return turns.dtype == log_scale.dtype == torch.float32


def _backward(rows: Tensor, taps: Tensor | None, turns: Tensor, log_scale: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    options, grads = rest[:3], rest[3:]
    some = rows.new_zeros(0, *rows.shape[2:], dtype=log_scale.dtype) if taps is None else taps
    pull = torch.func.vjp(lambda x, a, s: in_torch(x, a, turns, s, *options), rows, some, log_scale)[1]
    grad_rows, grad_taps, grad_scale = pull(grads)
    scale = torch.nn.functional.pad(grad_scale, (0, rows.shape[2] - len(log_scale)))
    sums = torch.cat((grad_taps.transpose(0, 1).flatten(1), scale[:, None]), dim=1)
    lines = torch.nn.functional.pad(sums[None], (0, 0, 0, 0, 0, line_count(rows) - 1))  # all in the first
    return grad_rows.contiguous(), lines.to(torch.promote_types(rows.dtype, torch.float32))


def _shapes(rows: Tensor, taps: Any, turns: Any, log_scale: Any, heads: int, kv_heads: int, unit: bool) -> Three:  # noqa: PLR0917
    batch, n, _, features = rows.shape
    q, k, v = (rows.new_empty(batch, n, count, features) for count in (heads, kv_heads, kv_heads))
    return q, k, v


def _shapes_of_gradients(rows: Tensor, taps: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    count, features = rows.shape[2:]
    width = (0 if taps is None else len(taps)) * features + 1
    exact = torch.promote_types(rows.dtype, torch.float32)
    return rows.new_empty(rows.shape), rows.new_empty(line_count(rows), count, width, dtype=exact)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    *tensors, heads, kv_heads, unit = inputs
    ctx.options = heads, kv_heads, unit
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: Any, gq: Tensor, gk: Tensor, gv: Tensor) -> tuple[Tensor | None, ...]:
    rows, taps, turns, log_scale = ctx.saved_tensors
    if ctx.needs_input_grad[2]:
        raise NotImplementedError("ghrr::place_rows: there is no gradient of turns; use ghrr.nn.rows.place_rows")
    grad_rows, lines = _place_rows_backward(rows, taps, turns, log_scale, *ctx.options, gq, gk, gv)
    sums = lines.sum(dim=0)
    grad_taps = None
    if taps is not None:
        grad_taps = sums[:, :-1].reshape(taps.shape[1], len(taps), taps.shape[2]).transpose(0, 1).to(taps.dtype)
    return grad_rows, grad_taps, None, sums[: len(log_scale), -1].to(log_scale.dtype), None, None, None


def _check(  # noqa: PLR0917
    operation: str,
    rows: Tensor,
    taps: Tensor | None,
    turns: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
) -> None:
    for name, x in (("rows", rows), ("taps", taps), ("turns", turns), ("log_scale", log_scale)):
        if x is None and name == "taps":
            continue
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"{operation}: {name} must be a real floating-point tensor, got {describe(x)}")
        if x.device != rows.device:
            raise ValueError(f"{operation}: {name} is on {x.device} and rows are on {rows.device}; move one of them")
    count = heads + 2 * kv_heads
    if rows.ndim != 4 or rows.shape[2] != count or rows.shape[3] % 2 or rows.shape[3] == 0 or heads < 1 or kv_heads < 0:
        raise ValueError(
            f"{operation}: rows must have shape (batch, n, heads + 2 kv_heads, 2m) for heads={heads} and "
            f"kv_heads={kv_heads}, at least one head; got {describe(rows)}"
        )
    n, features = rows.shape[1], rows.shape[3]
    if taps is not None and (taps.ndim != 3 or taps.shape[1:] != rows.shape[2:]):
        raise ValueError(f"{operation}: taps must have shape (T - 1, {count}, {features}), got {describe(taps)}")
    fits = turns.ndim == 3 and len(turns) in (heads + kv_heads, count) and turns.shape[2] == features
    if not fits or turns.shape[1] < n:
        raise ValueError(
            f"{operation}: turns must have shape ({heads + kv_heads} or {count}, at least {n}, {features}), got "
            f"{describe(turns)}"
        )
    if log_scale.shape != (heads,):
        raise ValueError(f"{operation}: log_scale must have shape ({heads},), got {describe(log_scale)}")


def _check_arguments(*given: Any) -> None:
    _check("ghrr::place_rows", *given[:6])


def _check_gradients(*given: Any) -> None:
    operation = "ghrr::place_rows_backward"
    rows, _, _, _, heads, kv_heads, _, gq, gk, gv = given
    _check(operation, *given[:6])
    for name, grad, count in (("gq", gq, heads), ("gk", gk, kv_heads), ("gv", gv, kv_heads)):
        shape = (*rows.shape[:2], count, rows.shape[3])
        if grad.shape != shape or grad.dtype != rows.dtype or grad.device != rows.device:
            raise ValueError(f"{operation}: {name} must be like rows and of shape {shape}, got {describe(grad)}")


_ARGUMENTS = "Tensor rows, Tensor? taps, Tensor turns, Tensor log_scale, int heads, int kv_heads, bool unit"
_place_rows = Operation(
    "place_rows",
    torch=in_torch,
    kernels=(Kernel("triton", "ghrr.ops.gpu.rows:forward", _kernel_supports),),
    schema=f"({_ARGUMENTS}) -> (Tensor, Tensor, Tensor)",
    check=_check_arguments,
    fake=_shapes,
    gradient=(_remember, _differentiate),
)
# Returns the gradient of rows, and lines to sum: for each row the gradients of its taps and, last, of its scale. Lines
# have shape (lines, R, (T - 1) 2m + 1); a compiler fuses their sum with the operation that follows.
_place_rows_backward = Operation(
    "place_rows_backward",
    torch=_backward,
    kernels=(Kernel("triton", "ghrr.ops.gpu.rows:backward", _kernel_supports),),
    schema=f"({_ARGUMENTS}, Tensor gq, Tensor gk, Tensor gv) -> (Tensor, Tensor)",
    check=_check_gradients,
    fake=_shapes_of_gradients,
    gradient=refuse_second_derivative("ghrr::place_rows"),
)

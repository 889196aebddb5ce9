r"""Window, scale and positions of the rows of queries, keys and values, as one operator.

Memory traffic dominates this step on a GPU, so there the operator ``ghrr::rotate_rows`` is one kernel, and its
gradient one more. Compilers and CUDA graphs treat it as a unit. ``torch_implementation`` defines what it computes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr.checks import describe, names_errors, type_error, value_error
from ghrr.nn.complex_rows import multiply, normalize_rows
from ghrr.ops import tensor_state
from ghrr.ops.dispatch import Kernel, Operation, refuse_second_derivative

LONGEST_WINDOW = 8
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_SIZES = (4, 8, 16, 32, 64, 128)

Three = tuple[Tensor, Tensor, Tensor]


@names_errors
def rotate_rows(
    rows: Tensor,
    taps: Tensor | None,
    rotations: Tensor,
    log_scale: Tensor,
    *,
    heads: int,
    kv_heads: int,
    normalize: bool,
) -> Three:
    r"""Compute queries, keys and values from rows: :math:`P_j\, s\, u\bigl(x_j + \sum_\tau A_\tau x_{j-\tau}\bigr)`.

    Rows are complex, real parts first, and products are feature by feature. The sum is over the ``taps``
    :math:`A_1, A_2, \dots`, with zeros before the first token. With ``normalize``,
    :math:`u(y) = y / \sqrt{|y|^2 / 2m + 10^{-6}}` for queries and keys. The scale s of queries is the exponential of
    ``log_scale``. The positions :math:`P_j` are the ``rotations``, cosines, then sines, of queries and keys, and of
    values if given. Computed in single precision, or in double for rows that have it, and rounded once.

    Differentiable with respect to all tensors. On a GPU with triton, this is one kernel if m is a power of two from 4
    to 128, there are at most 7 taps and ``rotations`` need no gradient. Kernels have first derivatives only.

    Shapes
    ------
    rows: ``(batch, n, R, 2m)`` with R = ``heads + 2 kv_heads``, queries, then keys, then values;
    taps: ``(T - 1, R, 2m)``; rotations: ``(heads + kv_heads, at least n, 2m)`` or ``(R, at least n, 2m)``;
    log_scale: ``(heads,)``; output: ``(batch, heads, n, 2m)`` and twice ``(batch, kv_heads, n, 2m)``, heads next to
    features in memory

    Examples
    --------
    >>> import torch
    >>> from ghrr.nn.rows import rotate_rows
    >>> rows, angles = torch.randn(2, 5, 4, 6), torch.randn(3, 5, 3)
    >>> rotations = torch.cat((angles.cos(), angles.sin()), dim=-1)
    >>> q, k, v = rotate_rows(rows, None, rotations, torch.zeros(2), heads=2, kv_heads=1, normalize=True)
    >>> q.shape, k.shape, torch.equal(v, rows[:, :, 3:].transpose(1, 2))
    (torch.Size([2, 2, 5, 6]), torch.Size([2, 1, 5, 6]), True)
    >>> torch.allclose(k.square().mean(dim=-1), torch.ones(2, 1, 5))
    True
    """
    _check(rows, taps, rotations, log_scale, heads, kv_heads)
    taps, log_scale = None if taps is None else _at_least_single(taps), _at_least_single(log_scale)
    given = (rows, taps, rotations, log_scale, heads, kv_heads, normalize)
    q, k, v = torch_implementation(*given) if rotations.requires_grad else _rotate_rows(*given)
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def torch_implementation(  # noqa: PLR0917
    rows: Tensor, taps: Tensor | None, rotations: Tensor, log_scale: Tensor, heads: int, kv_heads: int, normalize: bool
) -> Three:
    """Compute :func:`rotate_rows` in torch; outputs are ``(batch, n, heads, 2m)``, contiguous."""
    n, exact = rows.shape[1], torch.promote_types(rows.dtype, torch.float32)
    x = y = rows.to(exact)
    for lag, tap in enumerate(() if taps is None else taps.to(exact).unbind(), start=1):
        count = max(n - lag, 0)
        y = y + multiply(torch.nn.functional.pad(x[:, :count], (0, 0, 0, 0, n - count, 0)), tap)
    q, k, v = torch.split(y, [heads, kv_heads, kv_heads], dim=2)
    if normalize:
        q, k = normalize_rows(q), normalize_rows(k)
    q = q * log_scale.to(exact).exp()[:, None]
    rotation = rotations[:, :n].to(exact).transpose(0, 1)
    q = multiply(q, rotation[:, :heads])
    k = multiply(k, rotation[:, heads : heads + kv_heads])
    if len(rotations) == rows.shape[2]:
        v = multiply(v, rotation[:, heads + kv_heads :])
    return q.to(rows.dtype).contiguous(), k.to(rows.dtype).contiguous(), v.to(rows.dtype).contiguous()


def line_count(rows: Tensor) -> int:
    """Return the number of partial sums that ``ghrr::rotate_rows_backward`` returns for each row."""
    batch, n = rows.shape[:2]
    return batch * -(-n // tokens_of_a_line(rows))


def tokens_of_a_line(rows: Tensor) -> int:
    """Return the number of tokens of a sequence that one program of the gradient kernel processes."""
    return max(16, 4096 // rows.shape[3])


def _at_least_single(x: Tensor) -> Tensor:
    """Convert the parameters of a model that was cast to 16 bits to 32 bits."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _kernel_supports(rows: Tensor, taps: Tensor | None, rotations: Tensor, log_scale: Tensor, *_: Any) -> bool:
    if not tensor_state.is_on_gpu(rows) or rows.dtype not in _DTYPES or rows.shape[-1] // 2 not in _SIZES:
        return False
    if taps is not None and (taps.dtype != torch.float32 or len(taps) >= LONGEST_WINDOW):
        return False
    return rotations.dtype == log_scale.dtype == torch.float32


def _backward(
    rows: Tensor, taps: Tensor | None, rotations: Tensor, log_scale: Tensor, *rest: Any
) -> tuple[Tensor, Tensor]:
    options, grads = rest[:3], rest[3:]
    given_taps = rows.new_zeros(0, *rows.shape[2:], dtype=log_scale.dtype) if taps is None else taps
    vjp = torch.func.vjp(
        lambda x, a, s: torch_implementation(x, a, rotations, s, *options), rows, given_taps, log_scale
    )[1]
    grad_rows, grad_taps, grad_scale = vjp(grads)
    scale = torch.nn.functional.pad(grad_scale, (0, rows.shape[2] - len(log_scale)))
    sums = torch.cat((grad_taps.transpose(0, 1).flatten(1), scale[:, None]), dim=1)
    lines = torch.nn.functional.pad(sums[None], (0, 0, 0, 0, 0, line_count(rows) - 1))  # all in the first line
    return grad_rows.contiguous(), lines.to(torch.promote_types(rows.dtype, torch.float32))


def _shapes(  # noqa: PLR0917
    rows: Tensor, taps: Any, rotations: Any, log_scale: Any, heads: int, kv_heads: int, normalize: bool
) -> Three:
    batch, n, _, features = rows.shape
    q, k, v = (rows.new_empty(batch, n, count, features) for count in (heads, kv_heads, kv_heads))
    return q, k, v


def _shapes_of_gradients(rows: Tensor, taps: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    count, features = rows.shape[2:]
    width = (0 if taps is None else len(taps)) * features + 1
    exact = torch.promote_types(rows.dtype, torch.float32)
    return rows.new_empty(rows.shape), rows.new_empty(line_count(rows), count, width, dtype=exact)


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Three) -> None:
    *tensors, heads, kv_heads, normalize = inputs
    ctx.options = heads, kv_heads, normalize
    ctx.save_for_backward(*tensors)


def _differentiate(ctx: Any, gq: Tensor, gk: Tensor, gv: Tensor) -> tuple[Tensor | None, ...]:
    rows, taps, rotations, log_scale = ctx.saved_tensors
    if ctx.needs_input_grad[2]:
        raise NotImplementedError("ghrr::rotate_rows: rotations have no gradient here; use ghrr.nn.rows.rotate_rows")
    grad_rows, lines = _rotate_rows_backward(rows, taps, rotations, log_scale, *ctx.options, gq, gk, gv)
    sums = lines.sum(dim=0)
    grad_taps = None
    if taps is not None:
        grad_taps = sums[:, :-1].reshape(taps.shape[1], len(taps), taps.shape[2]).transpose(0, 1).to(taps.dtype)
    return grad_rows, grad_taps, None, sums[: len(log_scale), -1].to(log_scale.dtype), None, None, None


def _check(  # noqa: PLR0917
    rows: Tensor,
    taps: Tensor | None,
    rotations: Tensor,
    log_scale: Tensor,
    heads: int,
    kv_heads: int,
) -> None:
    for name, x in (("rows", rows), ("taps", taps), ("rotations", rotations), ("log_scale", log_scale)):
        if x is None and name == "taps":
            continue
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise type_error(f"{name} must be a real floating-point tensor, got {describe(x)}")
        if x.device != rows.device:
            raise value_error(f"{name} is on {x.device} and rows are on {rows.device}; move one of them")
    count = heads + 2 * kv_heads
    if rows.ndim != 4 or rows.shape[2] != count or rows.shape[3] % 2 or rows.shape[3] == 0 or heads < 1 or kv_heads < 0:
        raise value_error(
            f"rows must have shape (batch, n, heads + 2 kv_heads, 2m) for heads={heads} and "
            f"kv_heads={kv_heads}, at least one head; got {describe(rows)}"
        )
    n, features = rows.shape[1], rows.shape[3]
    if taps is not None and (taps.ndim != 3 or taps.shape[1:] != rows.shape[2:]):
        raise value_error(f"taps must have shape (T - 1, {count}, {features}), got {describe(taps)}")
    fits = rotations.ndim == 3 and len(rotations) in (heads + kv_heads, count) and rotations.shape[2] == features
    if not fits or rotations.shape[1] < n:
        raise value_error(
            f"rotations must have shape ({heads + kv_heads} or {count}, at least {n}, {features}), got "
            f"{describe(rotations)}"
        )
    if log_scale.shape != (heads,):
        raise value_error(f"log_scale must have shape ({heads},), got {describe(log_scale)}")


def _check_arguments(*given: Any) -> None:
    _check(*given[:6])


def _check_gradients(*given: Any) -> None:
    rows, _, _, _, heads, kv_heads, _, gq, gk, gv = given
    _check(*given[:6])
    for name, grad, count in (("gq", gq, heads), ("gk", gk, kv_heads), ("gv", gv, kv_heads)):
        shape = (*rows.shape[:2], count, rows.shape[3])
        if grad.shape != shape or grad.dtype != rows.dtype or grad.device != rows.device:
            raise value_error(f"{name} must be like rows and of shape {shape}, got {describe(grad)}")


_ARGUMENTS = "Tensor rows, Tensor? taps, Tensor rotations, Tensor log_scale, int heads, int kv_heads, bool normalize"
_rotate_rows = Operation(
    "rotate_rows",
    torch=torch_implementation,
    kernels=(Kernel("triton", "ghrr.nn.row_kernels:forward", _kernel_supports),),
    schema=f"({_ARGUMENTS}) -> (Tensor, Tensor, Tensor)",
    check=_check_arguments,
    fake=_shapes,
    gradient=(_save_for_backward, _differentiate),
)
# Returns the gradient of rows, and lines to sum: for each row the gradients of its taps and, last, of its scale. Lines
# have shape (lines, R, (T - 1) 2m + 1); a compiler fuses their sum with the operation that follows.
_rotate_rows_backward = Operation(
    "rotate_rows_backward",
    torch=_backward,
    kernels=(Kernel("triton", "ghrr.nn.row_kernels:backward", _kernel_supports),),
    schema=f"({_ARGUMENTS}, Tensor gq, Tensor gk, Tensor gv) -> (Tensor, Tensor)",
    check=_check_gradients,
    fake=_shapes_of_gradients,
    gradient=refuse_second_derivative("ghrr::rotate_rows"),
)

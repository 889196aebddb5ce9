r"""Paths: the products :math:`R_t = U_t * \dots * U_1` of one unitary hypervector per token, and rows carried by them.

Everything here is products of hypervectors, computed by :func:`ghrr.ops.bind` with its kernels, in single precision or
better. A path of n tokens takes about 2n products in a number of calls that grows like log n.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ghrr import ops
from ghrr.ops import tensor_state

RADIX = 8  # products that are computed one after the other at each level; measured by `benchmarks nn.paths`


def path(steps: Tensor) -> Tensor:
    """Return the path of unitary steps ``(*, n, dim, m, m)``, in the same shape; see ``ghrr.ops.reference.path``.

    The gradient needs the path only. It holds for unitary steps, and has no derivative itself.

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.nn.paths import path
    >>> steps = ghrr.Space(dim=2, m=3).random(5)
    >>> torch.allclose(path(steps)[2], ghrr.multibind(steps[:3].flip(0)), atol=1e-6)
    True
    """
    if not tensor_state.allows_operators(steps, vmap=False):
        return _scan(steps)
    out: Tensor = _Path.apply(steps)  # type: ignore[no-untyped-call]
    return out


def carry(paths: Tensor, rows: Tensor, *, back: bool) -> Tensor:
    r"""Multiply the rows of tokens by their paths: :math:`R_t x_t`, or :math:`R_t^\dagger x_t` with ``back``.

    The rows that share a path are the columns of one hypervector, so this is one product.

    Shapes
    ------
    paths: ``(batch, n, kv_heads, slots, m, m)``; rows: ``(batch, n, kv_heads, rows, 2 slots m)``, real parts first;
    output: like rows

    Examples
    --------
    >>> import torch, ghrr
    >>> from ghrr.nn.paths import carry
    >>> paths = ghrr.Space(dim=2, m=3, seed=0).random(1, 5, 4)
    >>> rows = torch.randn(1, 5, 4, 2, 12)
    >>> there = carry(paths, rows, back=True)
    >>> torch.allclose(carry(paths, there, back=False), rows, atol=1e-5), torch.allclose(there, rows, atol=0.1)
    (True, False)
    """
    count, m = rows.shape[3], paths.shape[-1]
    x = rows.to(paths.real.dtype).unflatten(-1, (2, -1, m))  # type: ignore[no-untyped-call]
    columns = torch.complex(x[..., 0, :, :], x[..., 1, :, :])  # (batch, n, kv_heads, rows, slots, m)
    if count % m:
        unused = columns.new_zeros(*columns.shape[:3], -count % m, *columns.shape[4:])
        columns = torch.cat((columns, unused), dim=3)
    blocks = columns.unflatten(3, (-1, m)).permute(0, 1, 3, 2, 5, 6, 4)  # type: ignore[no-untyped-call]
    product = ops.bind(paths.flatten(2, 3)[:, :, None], blocks.flatten(3, 4), back, False)
    product = product.unflatten(3, paths.shape[2:4])  # type: ignore[no-untyped-call]
    product = product.permute(0, 1, 3, 2, 6, 4, 5).flatten(3, 4)[:, :, :, :count]
    return torch.stack((product.real, product.imag), dim=-3).flatten(-3).to(rows.dtype)


def carry_forward(paths: Tensor, out: Tensor) -> Tensor:
    """Carry the output of attention, ``(batch, heads, n, at least 2 slots m)``, from the first token to each token."""
    kv_heads, slots, m = paths.shape[2:5]
    rows = out[..., : 2 * slots * m].unflatten(1, (kv_heads, -1)).permute(0, 3, 1, 2, 4)  # type: ignore[no-untyped-call]
    return carry(paths, rows, back=False).permute(0, 2, 3, 1, 4).flatten(1, 2)


def _scan(steps: Tensor) -> Tensor:
    """Multiply groups of steps, then the last products of all groups in the same way, then each group by the result."""
    n = steps.shape[-4]
    if n <= RADIX:
        return _in_turn(steps)
    if n % RADIX:  # the products behind the end are not used
        missing = steps.new_zeros(*steps.shape[:-4], -n % RADIX, *steps.shape[-3:])
        steps = torch.cat((steps, missing), dim=-4)
    inner = _in_turn(steps.unflatten(-4, (-1, RADIX)))  # type: ignore[no-untyped-call]
    before = _restore(_scan(inner[..., -1, :, :, :])[..., :-1, None, :, :, :])
    first, others = inner[..., :1, :, :, :, :], inner[..., 1:, :, :, :, :]
    return torch.cat((first, ops.bind(others, before)), dim=-5).flatten(-5, -4)[..., :n, :, :, :]


def _restore(x: Tensor) -> Tensor:
    """Make slots unitary again that are so up to rounding: one Newton step to the nearest unitary matrix.

    Rounding errors of the norm would add up, to 10⁻³ after 65,536 tokens.
    """
    return 1.5 * x - 0.5 * ops.bind(x, ops.bind(x, x, True, False))


def _in_turn(steps: Tensor) -> Tensor:
    products = list(steps.unbind(-4))
    for t in range(1, len(products)):
        products[t] = ops.bind(products[t], products[t - 1])
    return torch.stack(products, dim=-4) if products else steps


class _Path(torch.autograd.Function):
    r"""The path with a gradient that has no recursion.

    With the gradient :math:`G_s` of :math:`R_s`, that of :math:`U_t` is
    :math:`\sum_{s \ge t} (U_s \cdots U_{t+1})^\dagger G_s R_{t-1}^\dagger`. For unitary steps
    :math:`U_s \cdots U_{t+1} = R_s R_t^\dagger`, so this is
    :math:`R_t \bigl(\sum_{s \ge t} R_s^\dagger G_s\bigr) R_{t-1}^\dagger`: a cumulative sum between products.
    """

    @staticmethod
    def forward(ctx: Any, steps: Tensor) -> Tensor:
        paths = _scan(steps)
        ctx.save_for_backward(paths)
        return paths

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (paths,) = ctx.saved_tensors
        later = ops.bind(paths, grad, True, False).flip(-4).cumsum(-4).flip(-4)
        by_step = ops.bind(paths, later)
        first, others = by_step[..., :1, :, :, :], by_step[..., 1:, :, :, :]
        return torch.cat((first, ops.bind(others, paths[..., :-1, :, :, :], False, True)), dim=-4)

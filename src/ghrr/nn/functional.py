r"""Attention as binding: :math:`\sigma(Q * K^\dagger) * V` with :math:`\sigma = \mathrm{softmax}(\mathrm{Re}\,\cdot)`.

A slot of a hypervector is a matrix whose rows belong to tokens and whose columns are features, so that a hypervector
``(*, dim, m, m)`` holds ``dim`` heads of m tokens. The functions take any number of tokens and of features,
``(*, tokens, features)``, as complex tensors, or as real tensors ``(*, tokens, 2 features)`` with all real parts first.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from ghrr.checks import check_broadcast, check_real, describe, names_errors, type_error, value_error
from ghrr.nn.complex_rows import from_complex, multiply, to_complex

__all__ = ["ghrr_attention", "multiply", "naive_attention", "softmax_of_scores"]


@names_errors("ghrr_attention(q, k, v)")
def ghrr_attention(  # noqa: PLR0917 (the order of torch's own)
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    r"""Compute the attention of the paper, :math:`\mathrm{softmax}(s\,\mathrm{Re}\,Q K^\dagger)\, V`.

    Since :math:`\mathrm{Re}\,q k^\dagger = \mathrm{Re}\,q \cdot \mathrm{Re}\,k + \mathrm{Im}\,q \cdot \mathrm{Im}\,k`,
    this is one call of ``torch.nn.functional.scaled_dot_product_attention`` on real and imaginary parts side by side,
    with its fast kernels. Differentiable with respect to q, k, v and a mask of numbers; computed on their device.

    Parameters
    ----------
    q, k, v
        Complex tensors, or real ones with m real parts, then m imaginary parts on the last axis; all of one dtype.
    attn_mask
        True where a query may attend to a key, or numbers to add to the scores, as in
        ``torch.nn.functional.scaled_dot_product_attention``. In ``torch.nn.MultiheadAttention`` True hides a key.
    dropout_p
        Probability of dropping a weight. Always applied: pass 0 in evaluation.
    is_causal
        Let query t attend to keys 0 to t only. Cannot be combined with a mask.
    scale
        The factor s. Default: 1 as in the paper. (Torch's default is one over the square root of the size.)

    Shapes
    ------
    q: ``(*, tokens, features)``; k: ``(*, keys, features)``; v: ``(*, keys, out)``; output: ``(*, tokens, out)``.
    Real tensors have twice as many features. Batch axes broadcast.

    Examples
    --------
    >>> import torch, ghrr
    >>> q, k, v = ghrr.Space(dim=2, m=4, dtype=torch.complex128).vectors(["q", "k", "v"])
    >>> weights = torch.softmax(ghrr.bind(q, ghrr.adjoint(k)).real, dim=-1)
    >>> torch.allclose(ghrr.nn.functional.ghrr_attention(q, k, v), ghrr.bind(weights.to(q.dtype), v))
    True
    """
    _check(q, k, v, attn_mask, is_causal)
    if not 0.0 <= dropout_p <= 1.0:
        raise value_error(f"dropout_p must lie in [0, 1], got {dropout_p}")
    out = torch.nn.functional.scaled_dot_product_attention(
        *(_as_rows(q), _as_rows(k), _as_rows(v)),
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=_factor(scale),
    )
    return to_complex(out) if v.is_complex() else out


@names_errors("naive_attention(q, k, v)")
def naive_attention(  # noqa: PLR0917
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Compute :func:`ghrr_attention` by its formula, in complex numbers and without dropout.

    Slow. Use it to check faster implementations.

    Examples
    --------
    >>> import torch, ghrr
    >>> q, k, v = torch.randn(3, 5, 4, dtype=torch.complex128).unbind()
    >>> slow = ghrr.nn.functional.naive_attention(q, k, v, is_causal=True)
    >>> torch.allclose(slow, ghrr.nn.functional.ghrr_attention(q, k, v, is_causal=True))
    True
    """
    _check(q, k, v, attn_mask, is_causal)
    first, second, third = (x if x.is_complex() else to_complex(x) for x in (q, k, v))
    scores = (first @ second.mH).real * _factor(scale)
    out = _masked_softmax(scores, attn_mask, is_causal).to(third.dtype) @ third
    return out if v.is_complex() else from_complex(out)


@names_errors("attention_weights(q, k)")
def attention_weights(
    q: Tensor, k: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    r"""Compute the weights of :func:`ghrr_attention`, :math:`\mathrm{softmax}(s\,\mathrm{Re}\,Q K^\dagger)`.

    Shapes
    ------
    q: ``(*, tokens, features)``; k: ``(*, keys, features)``; output: ``(*, tokens, keys)``, real. Real tensors have
    twice as many features.

    Examples
    --------
    >>> import torch, ghrr
    >>> q = torch.randn(3, 8, dtype=torch.complex64)
    >>> torch.allclose(ghrr.nn.functional.attention_weights(q, q).sum(dim=-1), torch.ones(3))
    True
    """
    _check(q, k, k, attn_mask, is_causal)
    factor = _factor(scale)
    return softmax_of_scores(_as_rows(q), _as_rows(k) * factor, attn_mask, is_causal)


@names_errors
def softmax_of_scores(q: Tensor, k: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the weights of attention for rows of real numbers, without checks.

    Examples
    --------
    >>> import torch, ghrr
    >>> ghrr.nn.functional.softmax_of_scores(torch.zeros(2, 3), torch.ones(2, 3), None, is_causal=True)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    return _masked_softmax(q @ k.mT, attn_mask, is_causal)


def _masked_softmax(scores: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return weights of sum 1, or all 0 for a query that may attend to no key, like torch's own attention."""
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    no_keys = (scores == -torch.inf).all(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(no_keys, 0.0), dim=-1).masked_fill(no_keys, 0.0)


def _as_rows(x: Tensor) -> Tensor:
    return from_complex(x) if x.is_complex() else x


def _factor(scale: float | None) -> float:
    limit = sys.float_info.max
    return 1.0 if scale is None else check_real("scale", scale, low=-limit, high=limit)


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    for name, x in (("q", q), ("k", k), ("v", v), ("attn_mask", mask)):
        if not isinstance(x, Tensor) and not (x is None and name == "attn_mask"):
            raise type_error(f"{name} must be a tensor, got {describe(x)}")
    given = f"got q {describe(q)}, k {describe(k)}, v {describe(v)}"
    if len({x.dtype for x in (q, k, v)}) != 1:
        raise type_error(f"all three must have the same dtype; {given}")
    if not q.is_complex() and not q.is_floating_point():
        raise type_error(f"all three must be complex or floating-point tensors; {given}")
    if min(x.ndim for x in (q, k, v)) < 2:
        raise value_error(f"all three need axes for tokens and features; {given}")
    if not q.is_complex() and any(x.shape[-1] % 2 for x in (q, k, v)):
        raise value_error(f"the last axis of real tensors must be even: real parts, then imaginary parts; {given}")
    if q.shape[-1] != k.shape[-1]:
        raise value_error(f"q and k must have the same number of features; {given}")
    if k.shape[-2] != v.shape[-2]:
        raise value_error(f"k and v must have the same number of tokens; {given}")
    check_broadcast(q=q.shape[:-2], k=k.shape[:-2], v=v.shape[:-2])
    if mask is None:
        return
    if is_causal:
        raise value_error("expected a mask or is_causal=True, got both; use one of them")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise type_error(f"attn_mask must be bool (True: may attend) or floating-point, got {describe(mask)}")
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])  # type: ignore[no-untyped-call]
    scores = (*batch, q.shape[-2], k.shape[-2])
    check_broadcast(attn_mask=mask.shape, scores=scores)
    if mask.ndim > len(scores):
        raise value_error(f"attn_mask has more axes than the scores {scores}, got {describe(mask)}")

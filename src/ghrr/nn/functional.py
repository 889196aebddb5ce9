r"""Attention as binding: :math:`\sigma(Q * K^\dagger) * V` with :math:`\sigma = \mathrm{softmax}(\mathrm{Re}\,\cdot)`.

A slot of a hypervector is a matrix whose rows belong to tokens and whose columns are features, so a hypervector
``(*, dim, m, m)`` holds ``dim`` heads of m tokens. The functions take any number of tokens and of features,
``(*, tokens, features)``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr._checks import check_broadcast, describe


def ghrr_attention(  # noqa: PLR0917 (the order of torch's own)
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    r"""The attention of the paper, :math:`\mathrm{softmax}(s\,\mathrm{Re}\,Q K^\dagger)\, V`.

    Since :math:`\mathrm{Re}\,q k^\dagger = \mathrm{Re}\,q \cdot \mathrm{Re}\,k + \mathrm{Im}\,q \cdot \mathrm{Im}\,k`,
    it is one call of real scaled dot-product attention on real and imaginary parts side by side, with whatever fast
    kernel torch has for it.

    Parameters
    ----------
    q, k, v
        Complex tensors, or real ones whose last axis of size 2 holds real and imaginary parts; all three alike.
    attn_mask
        True where a query may look at a key, or numbers that are added to the scores, as in
        ``torch.nn.functional.scaled_dot_product_attention``. Note that ``torch.nn.MultiheadAttention`` has it the
        other way round: True there hides a key.
    dropout_p
        Chance that a weight is dropped; applied always, so give 0 in evaluation.
    is_causal
        Query t sees keys 0 to t alone. Not together with a mask.
    scale
        The factor s; 1 unless given, as in the paper (torch's own default is one over the square root of the size).

    Shapes
    ------
    q: ``(*, tokens, features)``; k: ``(*, keys, features)``; v: ``(*, keys, out)``; output: ``(*, tokens, out)``;
    real pairs have a last axis of 2 more. The batch axes broadcast.

    Examples
    --------
    >>> import torch, ghrr
    >>> q, k, v = ghrr.Space(dim=2, m=4, dtype=torch.complex128).vectors(["q", "k", "v"])
    >>> weights = torch.softmax(ghrr.bind(q, ghrr.adjoint(k)).real, dim=-1)
    >>> torch.allclose(ghrr.nn.functional.ghrr_attention(q, k, v), ghrr.bind(weights.to(q.dtype), v))
    True
    """
    _check("ghrr_attention(q, k, v)", q, k, v, attn_mask, is_causal)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"ghrr_attention(q, k, v): dropout_p must lie in [0, 1], got {dropout_p}")
    out = torch.nn.functional.scaled_dot_product_attention(
        *(_side_by_side(q), _side_by_side(k), _side_by_side(v)),
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=1.0 if scale is None else scale,
    )
    pairs = out.unflatten(-1, (-1, 2))  # type: ignore[no-untyped-call]
    return torch.view_as_complex(pairs) if v.is_complex() else pairs


def naive_attention(  # noqa: PLR0917
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The same by its formula, in complex numbers and without dropout: slow, and what the fast one is compared with."""
    _check("naive_attention(q, k, v)", q, k, v, attn_mask, is_causal)
    first, second, third = (x if x.is_complex() else torch.view_as_complex(x.contiguous()) for x in (q, k, v))
    scores = (first @ second.mH).real * (1.0 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    out = _softmax(scores).to(third.dtype) @ third
    return out if v.is_complex() else torch.view_as_real(out)


def attention_weights(
    q: Tensor, k: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    r"""The weights alone, :math:`\mathrm{softmax}(s\,\mathrm{Re}\,Q K^\dagger)`, without dropout.

    Shapes
    ------
    q: ``(*, tokens, features)``; k: ``(*, keys, features)``, or real pairs; output: ``(*, tokens, keys)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> q = torch.randn(3, 8, dtype=torch.complex64)
    >>> torch.allclose(ghrr.nn.functional.attention_weights(q, q).sum(dim=-1), torch.ones(3))
    True
    """
    _check("attention_weights(q, k)", q, k, k, attn_mask, is_causal)
    return softmax_of_products(
        _side_by_side(q), _side_by_side(k) * (1.0 if scale is None else scale), attn_mask, is_causal
    )


def softmax_of_products(q: Tensor, k: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """The weights for real rows, whose parts are side by side."""
    scores = q @ k.mT
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if attn_mask is not None:
        scores = torch.where(attn_mask, scores, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return _softmax(scores)


def _softmax(scores: Tensor) -> Tensor:
    """Weights of sum 1, or all 0 where a query may look at nothing: as torch's own attention has it."""
    nothing = (scores == -torch.inf).all(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(nothing, 0.0), dim=-1).masked_fill(nothing, 0.0)


def _side_by_side(x: Tensor) -> Tensor:
    pairs = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    return pairs.flatten(start_dim=-2)


def _check(operation: str, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> None:  # noqa: PLR0917
    for name, x in (("q", q), ("k", k), ("v", v), ("attn_mask", mask)):
        if not isinstance(x, Tensor) and not (x is None and name == "attn_mask"):
            raise TypeError(f"{operation}: {name} must be a tensor, got {describe(x)}")
    given = f"got q {describe(q)}, k {describe(k)}, v {describe(v)}"
    if len({x.dtype for x in (q, k, v)}) != 1:
        raise TypeError(f"{operation}: all three must have one dtype; {given}")
    if not q.is_complex():
        if not q.is_floating_point() or any(x.ndim < 3 or x.shape[-1] != 2 for x in (q, k, v)):
            raise ValueError(f"{operation}: real tensors hold real and imaginary parts on a last axis of 2; {given}")
        q, k, v = q[..., 0], k[..., 0], v[..., 0]
    if min(x.ndim for x in (q, k, v)) < 2:
        raise ValueError(f"{operation}: each needs axes for tokens and features; {given}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"{operation}: q and k must have as many features each; {given}")
    if k.shape[-2] != v.shape[-2]:
        raise ValueError(f"{operation}: k and v must have as many tokens each; {given}")
    check_broadcast(operation, q=q.shape[:-2], k=k.shape[:-2], v=v.shape[:-2])
    if mask is None:
        return
    if is_causal:
        raise ValueError(f"{operation}: give a mask or is_causal=True, not both")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"{operation}: attn_mask must be bool (True: may look) or real numbers, got {describe(mask)}")
    batch = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])  # type: ignore[no-untyped-call]
    scores = (*batch, q.shape[-2], k.shape[-2])
    check_broadcast(operation, attn_mask=mask.shape, scores=scores)
    if mask.ndim > len(scores):
        raise ValueError(f"{operation}: attn_mask has more axes than the scores {scores}, got {describe(mask)}")

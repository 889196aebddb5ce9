"""The attention of the paper as a layer: heads are slots, and binding gives scores and outputs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor, nn

from ghrr.checks import names_errors, type_error, value_error
from ghrr.nn.cache import AttentionCache
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms import make_form
from ghrr.nn.functional import softmax_of_scores
from ghrr.nn.inputs import check_cache, check_causal, check_inputs, check_lengths, check_nested_lengths
from ghrr.nn.masks import check_mask, check_padding, combine_masks
from ghrr.nn.nested import pad
from ghrr.nn.paths import carry_forward
from ghrr.nn.phases import Phases


@names_errors
class Attention(nn.Module):
    r"""Attention by binding: :math:`\sigma(Q * K^\dagger) * V`, :math:`Q = \sum_j P_j * W_q \Lambda(x_j)`; K, V too.

    Called with one tensor, the layer computes self-attention and returns a tensor. Called with three, it replaces
    ``torch.nn.MultiheadAttention``: same arguments, masks and pair of outputs. It can be the ``self_attn`` or
    ``multihead_attn`` of torch's transformer layers, which then do not use their fast path for inference. The sequences
    of a nested tensor are processed one by one.

    Outputs are differentiable with respect to inputs and parameters. Everything is computed on the device of the
    parameters; move the layer with ``.to(device)``. On a GPU with triton, phases and positions use kernels of ghrr.

    Parameters
    ----------
    embed_dim, num_heads
        Features per token; number of heads.
    batch_first
        If True (default), inputs are ``(batch, n, embed_dim)``, otherwise ``(n, batch, embed_dim)``.
    dtype
        ``torch.float32`` (default) or ``torch.float64``.
    **settings
        The other settings of :class:`ghrr.nn.AttentionConfig`, such as ``max_len`` (required), ``mode``, ``window``,
        ``is_causal`` and ``dropout``.

    Shapes
    ------
    x: ``(batch, n, embed_dim)`` or ``(n, embed_dim)``, or nested, ``(batch, n_i, embed_dim)`` for any ``batch_first``;
    output: the same

    Examples
    --------
    >>> import torch, ghrr
    >>> _ = torch.manual_seed(0)
    >>> attention = ghrr.nn.Attention(embed_dim=32, num_heads=4, max_len=16, is_causal=True)
    >>> x = torch.randn(2, 16, 32)
    >>> attention(x).shape
    torch.Size([2, 16, 32])
    >>> torch.allclose(attention(x)[:, :5], attention(x[:, :5]), atol=1e-6)  # later tokens change nothing
    True
    >>> out, weights = attention(x, x, x)
    >>> weights.shape
    torch.Size([2, 16, 16])
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        batch_first: bool = True,
        dtype: torch.dtype = torch.float32,
        **settings: Any,
    ) -> None:
        super().__init__()
        if dtype not in (torch.float32, torch.float64):
            raise value_error(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        config = AttentionConfig(embed_dim=embed_dim, num_heads=num_heads, **settings)
        self.config, self.batch_first = config, bool(batch_first)
        self.embed_dim, self.num_heads, self.dropout = config.embed_dim, config.num_heads, config.dropout
        self.m, self.num_kv_heads, self.is_causal = config.resolved_m, config.resolved_kv_heads, config.is_causal
        # The names phases, form, log_scale and out_proj are keys of stored weights.
        self.phases = Phases(
            config.embed_dim,
            config.num_slots * self.m,
            slots=config.num_slots if config.split_inputs else 1,
            phase_std=config.phase_std,
            trainable=config.trainable_phases,
            seed=config.seed,
            dtype=dtype,
        )
        self.form = make_form(config, dtype)
        self.log_scale = nn.Parameter(
            torch.full((self.num_heads, 1, 1, 1), -0.5 * math.log(2 * config.row_features), dtype=dtype)
        )
        rows = 1 if self.form.attends_across_tokens else self.m
        self.out_proj = nn.Linear(2 * self.num_heads * config.row_features * rows, self.embed_dim, dtype=dtype)

    @classmethod
    def from_config(
        cls, config: AttentionConfig, *, batch_first: bool = True, dtype: torch.dtype = torch.float32
    ) -> Attention:
        """Make a layer from its settings.

        Examples
        --------
        >>> from ghrr.nn import Attention, AttentionConfig
        >>> Attention.from_config(AttentionConfig(embed_dim=32, num_heads=4, max_len=16)).num_heads
        4
        """
        settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(AttentionConfig)}
        return cls(**settings, batch_first=batch_first, dtype=dtype)

    # False disables the fast path of torch's transformer layers for inference, which would compute vanilla attention.
    _qkv_same_embed_dim = False

    @property
    def in_proj_weight(self) -> Tensor:
        """A parameter; torch's transformer layers read its device and whether it requires a gradient."""
        return next((p for p in self.parameters() if p.requires_grad), self.out_proj.weight)

    in_proj_bias = in_proj_weight

    def extra_repr(self) -> str:
        """Return the main settings, for ``print``."""
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, "
            + (f"num_kv_heads={self.num_kv_heads}, " if self.num_kv_heads != self.num_heads else "")
            + f"m={self.m}, max_len={self.config.max_len}, mode={self.config.mode!r}, is_causal={self.is_causal}"
        )

    @names_errors("{cls}.new_cache()")
    def new_cache(self) -> AttentionCache:
        """Return an empty cache: call ``attention(x, cache=cache)`` with one or several new tokens at a time."""
        if not self.is_causal:
            raise value_error("a cache needs a causal layer; make it with is_causal=True")
        return AttentionCache()

    def forward(  # noqa: PLR0917 (the order of torch.nn.MultiheadAttention)
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        cache: AttentionCache | None = None,
    ) -> Any:
        """Compute attention.

        ``attention(x)`` returns a tensor. ``attention(query, key, value)`` returns the output and the weights, averaged
        over heads unless ``average_attn_weights=False``, or None for ``need_weights=False``. Boolean masks are as in
        ``torch.nn.MultiheadAttention``: True hides a key. Masks of numbers are added to the scores.

        For nested tensors the output is nested too, the weights are padded with zeros, and ``attn_mask`` has the size
        of the longest sequences.
        """
        returns_weights = key is not None or value is not None
        if (key is None) != (value is None):
            raise value_error("give query alone, or query, key and value; got only one of key and value")
        inputs = query, query if key is None else key, query if value is None else value
        options: dict[str, Any] = {
            "attn_mask": attn_mask,
            "need_weights": need_weights and returns_weights,
            "average_attn_weights": average_attn_weights,
            "causal": self.is_causal or is_causal,
        }
        if any(isinstance(x, Tensor) and x.is_nested for x in inputs):
            if key_padding_mask is not None or cache is not None:
                raise value_error("nested tensors take neither key_padding_mask nor cache; leave them out")
            out, weights = self._attend_nested(inputs, **options)
            return (out, weights) if returns_weights else out
        self._check(*inputs, batch_first=self.batch_first)
        query, key, value = inputs
        tokens = [self._to_batch_first(x) for x in ((query,) if key is query and value is query else inputs)]
        if cache is not None:
            check_cache(cache, tokens, key_padding_mask, is_causal=self.is_causal)
        padding = check_padding(key_padding_mask, tokens[-1])
        query_padding = padding if query is key or query is value else None
        out, weights = self._attend(tokens, padding, query_padding, cache=cache, **options)
        if query.ndim == 2:
            out, weights = out.squeeze(0), None if weights is None else weights.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return (out, weights) if returns_weights else out

    def _attend(
        self,
        tokens: list[Tensor],
        padding: Tensor | None,
        query_padding: Tensor | None,
        *,
        attn_mask: Tensor | None,
        need_weights: bool,
        average_attn_weights: bool,
        causal: bool,
        cache: AttentionCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return output and weights for batches ``(batch, n, embed_dim)``: one, or query, key and value."""
        start, n = 0 if cache is None else cache.length, tokens[0].shape[1]
        check_lengths(tokens, start, self.config.max_len)
        if causal:
            check_causal(self.config.mode, tokens[0], tokens[-1])
        if not self.form.attends_across_tokens:
            if attn_mask is not None or padding is not None:
                raise value_error("mode 'representation' attends within each token; it takes no mask")
            causal = False
        paddings = [query_padding, padding, padding][-len(tokens) :]
        q, k, v, *paths = self.form(self.phases, tokens, paddings, self.log_scale, cache)
        if cache is not None:
            k, v = cache.append(k, v, n) if self.form.attends_across_tokens else (k, v)
        mask = combine_masks(check_mask(attn_mask, q, k), padding, causal and start + n > 1, q, k)
        # With a causal flag instead of a mask torch can use its fastest kernel. The flag must be a bool: tracers and
        # dynamic shapes turn comparisons into other objects.
        flag = mask is None and causal and bool(q.shape[-2] > 1 and q.shape[-2] == k.shape[-2])
        is_grouped = self.num_kv_heads != self.num_heads
        out = nn.functional.scaled_dot_product_attention(
            *(q, k, v),
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=flag,
            scale=1.0,
            enable_gqa=is_grouped,
        )
        if paths:
            out = carry_forward(paths[0], out)
        weights = None
        if need_weights:
            k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1) if is_grouped else k
            weights = softmax_of_scores(q, k, mask, flag)
            weights = weights.mean(dim=1) if average_attn_weights else weights
        return self.out_proj(self.form.join_heads(out)), weights

    def _attend_nested(
        self, inputs: tuple[Tensor, Tensor, Tensor], *, average_attn_weights: bool, causal: bool, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Pad the sequences, attend, and remove the padding."""
        if not all(isinstance(x, Tensor) and x.is_nested for x in inputs):
            raise type_error("query, key and value must all be nested tensors, or none of them")
        is_self_attention = inputs[1] is inputs[0] and inputs[2] is inputs[0]
        sequences = [pad(x) for x in (inputs[:1] if is_self_attention else inputs)]
        q, k, v = sequences * 3 if is_self_attention else sequences
        self._check(q.padded, k.padded, v.padded, batch_first=True)
        check_nested_lengths(q.lengths, k.lengths, v.lengths, causal=causal)
        padding = None
        if self.form.attends_across_tokens:
            padding = k.padding.clone()
            padding[:, 0] = False  # an empty sequence has no queries, but a softmax over no keys would be NaN
        out, weights = self._attend(
            [x.padded for x in sequences],
            padding,
            q.padding,
            average_attn_weights=average_attn_weights,
            causal=causal,
            **options,
        )
        if weights is not None:
            absent = q.padding if average_attn_weights else q.padding[:, None]
            weights = weights.masked_fill(absent[(..., *[None] * (weights.ndim - absent.ndim))], 0.0)
        return q.to_nested(out), weights

    def _check(self, query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool) -> None:
        check_inputs(query, key, value, embed_dim=self.embed_dim, dtype=self.log_scale.dtype, batch_first=batch_first)

    def _to_batch_first(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return x[None]
        return x if self.batch_first else x.transpose(0, 1)

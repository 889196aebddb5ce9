"""The attention of the paper as a layer: heads are slots, positions are bound, and binding does the rest."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ghrr._checks import describe
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms import PARTS, Bundles, Feature, Rows, pairs_product
from ghrr.nn.functional import attention_weights, ghrr_attention, softmax_of_products
from ghrr.nn.masks import check_mask, check_padding, combine
from ghrr.nn.nested import pad
from ghrr.nn.phases import Phases
from ghrr.nn.rows import unit_rows


@dataclass
class AttentionCache:
    """What attention must remember of earlier tokens to go on with later ones; made by ``Attention.new_cache()``."""

    length: int = 0
    keys: Tensor | None = None
    values: Tensor | None = None
    recent: Tensor | None = None  # feature: rows before the window was bundled; bundle: phases of all tokens


class Attention(nn.Module):
    r"""Attention by binding: :math:`\sigma(Q * K^\dagger) * V`, :math:`Q = \sum_j P_j * W_q \Lambda(x_j)`, K, V alike.

    Called with one tensor it is self-attention and returns a tensor; called with three it takes the place of
    ``torch.nn.MultiheadAttention``: same arguments, masks and pair of outputs. It can be the ``self_attn`` or
    ``multihead_attn`` of torch's transformer layers, whose shortcut for inference does not apply to it. The sequences
    of a nested tensor are attended to one by one.

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
    x: ``(batch, n, embed_dim)`` or ``(n, embed_dim)``, or nested, which is ``(batch, n_i, embed_dim)`` for any
    ``batch_first``; output: the same

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
            raise ValueError(f"Attention: dtype must be torch.float32 or torch.float64, got {dtype}")
        config = AttentionConfig(embed_dim=embed_dim, num_heads=num_heads, **settings)
        self.config, self.batch_first = config, bool(batch_first)
        self.embed_dim, self.num_heads, self.dropout = config.embed_dim, config.num_heads, config.dropout
        self.m, self.num_kv_heads, self.num_slots = config.resolved_m, config.resolved_kv_heads, config.num_slots
        self.mode, self.is_causal, self.max_len = config.mode, config.is_causal, config.max_len
        self.phases = Phases(
            self.embed_dim,
            self.num_slots * self.m,
            slots=self.num_slots if config.split_inputs else 1,
            spread=config.phase_std,
            trainable=config.trainable_phases,
            seed=config.seed,
            dtype=dtype,
        )
        self.form: Feature | Rows | Bundles
        if config.mode == "feature":
            self.form = Feature(config, dtype)
        elif config.mode in ("row", "representation"):
            self.form = Rows(config, dtype)
        else:
            self.form = Bundles(config, dtype)
        self.log_scale = nn.Parameter(torch.full((self.num_heads, 1, 1, 1), -0.5 * math.log(2 * self.m), dtype=dtype))
        rows = self.m if config.mode == "representation" else 1
        self.out_proj = nn.Linear(2 * self.num_heads * self.m * rows, self.embed_dim, dtype=dtype)

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

    # False keeps torch's transformer layers from their shortcut for inference, which would be vanilla attention.
    _qkv_same_embed_dim = False

    @property
    def in_proj_weight(self) -> Tensor:
        """What torch's transformer layers look at for a device and for whether gradients are needed."""
        return next((p for p in self.parameters() if p.requires_grad), self.out_proj.weight)

    in_proj_bias = in_proj_weight

    def extra_repr(self) -> str:
        """What distinguishes this layer, for ``print``."""
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, "
            + (f"num_kv_heads={self.num_kv_heads}, " if self.num_kv_heads != self.num_heads else "")
            + f"m={self.m}, max_len={self.max_len}, "
            f"mode={self.mode!r}, is_causal={self.is_causal}"
        )

    def new_cache(self) -> AttentionCache:
        """An empty cache: call ``attention(x, cache=cache)`` with the tokens as they come, one or several at a time."""
        if not self.is_causal:
            raise ValueError("Attention.new_cache(): only causal attention can go on from earlier tokens")
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
        """Attend.

        ``attention(x)`` gives a tensor. ``attention(query, key, value)`` gives the output and the weights, averaged
        over heads or not, or None for ``need_weights=False``. Boolean masks have the sense of
        ``torch.nn.MultiheadAttention``: True hides a key. Numbers are added to the scores.

        With nested tensors the output is nested too. The weights are padded with zeros, and ``attn_mask`` has the size
        of the longest sequences.
        """
        plain = key is None and value is None
        if (key is None) != (value is None):
            raise ValueError("Attention: give query alone, or query, key and value")
        given = query, query if key is None else key, query if value is None else value
        options: dict[str, Any] = {
            "attn_mask": attn_mask,
            "need_weights": need_weights and not plain,
            "average_attn_weights": average_attn_weights,
            "causal": self.is_causal or is_causal,
        }
        if any(isinstance(x, Tensor) and x.is_nested for x in given):
            if key_padding_mask is not None or cache is not None:
                raise ValueError("Attention: nested tensors go with neither key_padding_mask nor cache; leave them out")
            out, weights = self._attend_nested(given, **options)
            return out if plain else (out, weights)
        self._check_inputs(*given, batch_first=self.batch_first)
        query, key, value = given
        tokens = [self._batch_first(x) for x in ((query,) if key is query and value is query else given)]
        if cache is not None:
            self._check_cache(cache, tokens, key_padding_mask)
        padding = check_padding(key_padding_mask, tokens[-1])
        query_padding = padding if query is key or query is value else None
        out, weights = self._attend(tokens, padding, query_padding, cache=cache, **options)
        if query.ndim == 2:
            out, weights = out.squeeze(0), None if weights is None else weights.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        return out if plain else (out, weights)

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
        """Output and weights for batches ``(batch, n, embed_dim)``: one for self-attention, or query, key and value."""
        start = cache.length if cache is not None else 0
        self._check_length(tokens, start)
        if causal:
            self._check_causal(tokens[0], tokens[-1])
        weights = None
        if self.mode == "representation":
            if attn_mask is not None or padding is not None:
                raise ValueError("Attention: mode 'representation' looks at one token at a time; it takes no mask")
            out, weights = self._within_tokens(tokens, need_weights)
        else:
            q, k, v = self._rows(tokens, [query_padding, padding, padding][-len(tokens) :], start, cache)
            if cache is not None:
                k, v = _remember(cache, k, v, tokens[0].shape[1])
            hidden = check_mask(attn_mask, q, k)
            mask = combine(hidden, padding, causal and start + tokens[0].shape[1] > 1, q, k)
            # One causal flag instead of a mask lets torch choose its fastest kernel.
            # A bool, since tracers and shapes that vary make comparisons into something else.
            flag = mask is None and causal and bool(q.shape[-2] > 1 and q.shape[-2] == k.shape[-2])
            shared = self.num_kv_heads != self.num_heads
            out = nn.functional.scaled_dot_product_attention(
                *(q, k, v),
                attn_mask=mask,
                dropout_p=self.dropout if self.training else 0.0,
                is_causal=flag,
                scale=1.0,
                enable_gqa=shared,
            )
            if need_weights:
                k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1) if shared else k
                weights = softmax_of_products(q, k, mask, flag)
            out = out.transpose(1, 2).flatten(2)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        return self.out_proj(out), weights

    def _attend_nested(
        self, given: tuple[Tensor, Tensor, Tensor], *, average_attn_weights: bool, causal: bool, **options: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Attend with padding behind the sequences, and take it off again."""
        if not all(isinstance(x, Tensor) and x.is_nested for x in given):
            raise TypeError("Attention: query, key and value must all be nested tensors, or none of them")
        same = given[1] is given[0] and given[2] is given[0]
        parts = [pad(x) for x in (given[:1] if same else given)]
        q, k, v = parts * PARTS if same else parts
        self._check_inputs(q.padded, k.padded, v.padded, batch_first=True)
        self._check_nested(q.lengths, k.lengths, v.lengths, causal=causal)
        padding = None
        if self.mode != "representation":
            padding = k.padding.clone()
            padding[:, 0] = False  # nobody asks for an empty sequence, but a softmax over nothing would be NaN
        out, weights = self._attend(
            [x.padded for x in parts],
            padding,
            q.padding,
            average_attn_weights=average_attn_weights,
            causal=causal,
            **options,
        )
        if weights is not None:
            absent = q.padding if average_attn_weights else q.padding[:, None]
            weights = weights.masked_fill(absent[(..., *[None] * (weights.ndim - absent.ndim))], 0.0)
        return q.nest(out), weights

    def _check_nested(self, queries: list[int], keys: list[int], values: list[int], *, causal: bool) -> None:
        given = f"got lengths {queries} of query, {keys} of key and {values} of value"
        if keys != values:
            raise ValueError(f"Attention: nested key and value must have the same lengths; {given}")
        if causal and queries != keys:
            raise ValueError(f"Attention: causal attention needs as many queries as keys; {given}")
        if any(n and not seen for n, seen in zip(queries, keys, strict=True)):
            raise ValueError(f"Attention: queries of a nested tensor need at least one key to look at; {given}")

    def _rows(
        self,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        start: int,
        cache: AttentionCache | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Q, K and V, each ``(batch, heads, n, 2 m)``. Rows that bundle tokens must not find padding among them."""
        form = self.form
        if isinstance(form, Feature):
            kind = tokens[0].device.type
            cast = torch.is_autocast_enabled(kind) and tokens[0].dtype != torch.float64  # which autocast leaves alone
            dtype = torch.get_autocast_dtype(kind) if cast else tokens[0].dtype
            phases = [self.phases.side_by_side(x, form.mean, dtype) for x in tokens]
            keep = [None if hidden is None else ~hidden for hidden in padding]
            if cache is not None and cache.recent is None:
                cache.recent = form.nothing(len(tokens[0]), dtype)
            recent = None if cache is None else cache.recent
            q, k, v, recent = form(
                phases, keep, recent, start, self.log_scale.flatten(), unit=self.config.normalize_rows
            )
            if cache is not None:
                cache.recent = recent
            return q, k, v
        slotted = [self.phases(x).unflatten(2, (self.num_heads, self.m)) for x in tokens]
        if isinstance(form, Bundles):
            slotted = [
                p if hidden is None else p * ~hidden[:, :, None, None, None]
                for p, hidden in zip(slotted, padding, strict=True)
            ]
            if cache is not None:
                slotted = [slotted[0] if cache.recent is None else torch.cat((cache.recent, slotted[0]), dim=1)]
                cache.recent = slotted[0]
        three = slotted * PARTS if len(slotted) == 1 else slotted
        q, k, v = (form(p, i, start).flatten(-2) for i, p in enumerate(three))
        if self.config.normalize_rows:
            q, k = unit_rows(q), unit_rows(k)
        return q * self.log_scale[..., 0].exp().to(q.dtype), k, v

    def _within_tokens(self, tokens: list[Tensor], need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Attention over the rows of each token's own matrix W Λ(x): the paper's representation-level attention."""
        assert isinstance(self.form, Rows)
        w = self.form.weights()[:, :, 0]  # (3, heads, m, m, 2)
        slotted = [self.phases(x).unflatten(2, (self.num_heads, 1, self.m)) for x in tokens]
        three = slotted * PARTS if len(slotted) == 1 else slotted
        q, k, v = (pairs_product(w[i].to(p.dtype), p) for i, p in enumerate(three))  # (batch, n, heads, m, m, 2)
        q = q * self.log_scale.exp().to(q.dtype)
        rate = self.dropout if self.training else 0.0
        out = ghrr_attention(q, k, v, dropout_p=rate).flatten(2)
        return out, attention_weights(q, k).transpose(1, 2) if need_weights else None

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return x[None]
        return x if self.batch_first else x.transpose(0, 1)

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool) -> None:
        given = f"got query {describe(query)}, key {describe(key)}, value {describe(value)}"
        dtype = self.log_scale.dtype
        for x in (query, key, value):
            if not isinstance(x, Tensor) or not x.is_floating_point():
                raise TypeError(f"Attention: inputs must be real floating-point tensors; {given}")
            if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
                raise TypeError(f"Attention: the layer is {dtype}; cast the inputs, or use autocast; {given}")
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != self.embed_dim:
                order = "(batch, n, {})" if batch_first else "(n, batch, {})"
                raise ValueError(
                    f"Attention: inputs must have shape {order.format(self.embed_dim)} or (n, {self.embed_dim}), all "
                    f"alike; {given}"
                )
        if key.shape != value.shape:
            raise ValueError(f"Attention: key and value must have as many tokens each; {given}")
        batch = 0 if batch_first else 1
        if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
            raise ValueError(f"Attention: query and key must have one batch size; {given}")

    def _check_causal(self, query: Tensor, key: Tensor) -> None:
        if self.mode == "dense":
            raise ValueError("Attention: mode 'dense' cannot be causal; its rows know of all tokens")
        if query.shape != key.shape:
            raise ValueError(
                f"Attention: causal attention needs as many queries as keys, got query {tuple(query.shape)} and key "
                f"{tuple(key.shape)}"
            )

    def _check_cache(self, cache: AttentionCache, tokens: list[Tensor], padding: Tensor | None) -> None:
        if not self.is_causal or len(tokens) > 1:
            raise ValueError("Attention: a cache goes with causal self-attention alone")
        if cache.keys is not None and len(cache.keys) != len(tokens[0]):
            raise ValueError(f"Attention: the cache is of a batch of {len(cache.keys)}, these are {len(tokens[0])}")
        if padding is not None:
            raise ValueError("Attention: key_padding_mask does not go with a cache; leave out padding instead")

    def _check_length(self, tokens: list[Tensor], start: int) -> None:
        longest = start + max(x.shape[1] for x in tokens)
        if longest > self.max_len:
            earlier = f" ({start} of them in the cache)" if start else ""
            raise ValueError(
                f"Attention: {longest} tokens{earlier}, but there are positions for max_len={self.max_len}; cut the "
                "sequence or make the layer with a larger max_len"
            )


def _remember(cache: AttentionCache, k: Tensor, v: Tensor, count: int) -> tuple[Tensor, Tensor]:
    if cache.keys is not None and cache.values is not None:
        k, v = torch.cat((cache.keys, k), dim=-2), torch.cat((cache.values, v), dim=-2)
    cache.keys, cache.values = k, v
    cache.length += count
    return k, v

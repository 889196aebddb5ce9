"""Checks of the tensors that attention is called with."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr._old_checks import describe
from ghrr.nn.cache import AttentionCache


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, *, embed_dim: int, dtype: torch.dtype, batch_first: bool
) -> None:
    """Raise unless query, key and value are real tensors of compatible shapes."""
    given = f"got query {describe(query)}, key {describe(key)}, value {describe(value)}"
    for x in (query, key, value):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"Attention: inputs must be real floating-point tensors; {given}")
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise TypeError(f"Attention: inputs must be {dtype} like the layer; {given}; cast them, or use autocast")
        if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != embed_dim:
            batched = f"(batch, n, {embed_dim})" if batch_first else f"(n, batch, {embed_dim})"
            raise ValueError(f"Attention: inputs must all have shape {batched}, or all (n, {embed_dim}); {given}")
    if key.shape != value.shape:
        raise ValueError(f"Attention: key and value must have the same shape; {given}")
    batch = 0 if batch_first else 1
    if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
        raise ValueError(f"Attention: query and key must have the same batch size; {given}")


def check_lengths(tokens: list[Tensor], start: int, max_len: int) -> None:
    """Raise if there are more tokens than positions, those in a cache included."""
    longest = start + max(x.shape[1] for x in tokens)
    if longest > max_len:
        cached = f" ({start} of them in the cache)" if start else ""
        raise ValueError(
            f"Attention: expected at most max_len={max_len} tokens, got {longest}{cached}; shorten the sequence, or "
            "make the layer with a larger max_len"
        )


def check_causal(mode: str, query: Tensor, key: Tensor) -> None:
    """Raise if causal attention is impossible."""
    if mode == "dense":
        raise ValueError(
            "Attention: mode 'dense' cannot be causal, since each row depends on all tokens; use 'feature', 'row' or "
            "'bundle'"
        )
    if query.shape != key.shape:
        raise ValueError(
            f"Attention: causal attention needs as many queries as keys, got query {tuple(query.shape)} and key "
            f"{tuple(key.shape)}"
        )


def check_cache(cache: AttentionCache, tokens: list[Tensor], padding: Tensor | None, *, is_causal: bool) -> None:
    """Raise unless a cache can be used for these tokens."""
    if not is_causal or len(tokens) > 1:
        raise ValueError("Attention: a cache needs causal self-attention; leave cache out")
    if cache.keys is not None and len(cache.keys) != len(tokens[0]):
        raise ValueError(f"Attention: the batch size must match the cache ({len(cache.keys)}), got {len(tokens[0])}")
    if padding is not None:
        raise ValueError("Attention: key_padding_mask cannot be used with a cache; leave padding out of the input")


def check_nested_lengths(queries: list[int], keys: list[int], values: list[int], *, causal: bool) -> None:
    """Raise unless the sequences of nested query, key and value have compatible lengths."""
    given = f"got lengths {queries} of query, {keys} of key and {values} of value"
    if keys != values:
        raise ValueError(f"Attention: nested key and value must have the same lengths; {given}")
    if causal and queries != keys:
        raise ValueError(f"Attention: causal attention needs as many queries as keys; {given}")
    if any(n and not seen for n, seen in zip(queries, keys, strict=True)):
        raise ValueError(f"Attention: queries of a nested tensor need at least one key; {given}")

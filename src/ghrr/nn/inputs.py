"""Checks of the tensors that attention is called with."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import describe, type_error, value_error
from ghrr.nn.cache import AttentionCache


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, *, embed_dim: int, dtype: torch.dtype, batch_first: bool
) -> None:
    """Raise unless query, key and value are real tensors of compatible shapes."""
    given = f"got query {describe(query)}, key {describe(key)}, value {describe(value)}"
    for x in (query, key, value):
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise type_error(f"inputs must be real floating-point tensors; {given}")
        if x.dtype != dtype and not torch.is_autocast_enabled(x.device.type):
            raise type_error(f"inputs must be {dtype} like the layer; {given}; cast them, or use autocast")
        if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != embed_dim:
            batched = f"(batch, n, {embed_dim})" if batch_first else f"(n, batch, {embed_dim})"
            raise value_error(f"inputs must all have shape {batched}, or all (n, {embed_dim}); {given}")
    if key.shape != value.shape:
        raise value_error(f"key and value must have the same shape; {given}")
    batch = 0 if batch_first else 1
    if query.ndim == 3 and query.shape[batch] != key.shape[batch]:
        raise value_error(f"query and key must have the same batch size; {given}")


def check_lengths(tokens: list[Tensor], start: int, max_len: int) -> None:
    """Raise if there are more tokens than positions, those in a cache included."""
    longest = start + max(x.shape[1] for x in tokens)
    if longest > max_len:
        cached = f" ({start} of them in the cache)" if start else ""
        raise value_error(
            f"expected at most max_len={max_len} tokens, got {longest}{cached}; shorten the sequence, or "
            "make the layer with a larger max_len"
        )


def check_causal(mode: str, query: Tensor, key: Tensor) -> None:
    """Raise if causal attention is impossible."""
    if mode == "dense":
        raise value_error(
            "mode 'dense' cannot be causal, since each row depends on all tokens; use 'feature', 'row' or 'bundle'"
        )
    if query.shape != key.shape:
        raise value_error(
            f"causal attention needs as many queries as keys, got query {tuple(query.shape)} and key {tuple(key.shape)}"
        )


def check_cache(cache: AttentionCache, tokens: list[Tensor], padding: Tensor | None, *, is_causal: bool) -> None:
    """Raise unless a cache can be used for these tokens."""
    if not is_causal or len(tokens) > 1:
        raise value_error("a cache needs causal self-attention; leave cache out")
    if cache.keys is not None and len(cache.keys) != len(tokens[0]):
        raise value_error(f"the batch size must match the cache ({len(cache.keys)}), got {len(tokens[0])}")
    if padding is not None:
        raise value_error("key_padding_mask cannot be used with a cache; leave padding out of the input")


def check_nested_lengths(queries: list[int], keys: list[int], values: list[int], *, causal: bool) -> None:
    """Raise unless the sequences of nested query, key and value have compatible lengths."""
    given = f"got lengths {queries} of query, {keys} of key and {values} of value"
    if keys != values:
        raise value_error(f"nested key and value must have the same lengths; {given}")
    if causal and queries != keys:
        raise value_error(f"causal attention needs as many queries as keys; {given}")
    if any(n and not seen for n, seen in zip(queries, keys, strict=True)):
        raise value_error(f"queries of a nested tensor need at least one key; {given}")

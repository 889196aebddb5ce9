"""Decoding piece by piece with a cache equals one pass over the whole sequence."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.nn import Attention
from tests.helpers import generator
from tests.nn.common import CAUSAL, LENGTH, PLAIN, label, make, tokens


def decode(attention: Attention, x: Tensor, pieces: list[int]) -> Tensor:
    cache = attention.new_cache()
    return torch.cat([attention(piece, cache=cache) for piece in x.split(pieces, dim=1)], dim=1)


@pytest.mark.parametrize("variant", CAUSAL, ids=label)
def test_decoding_with_a_cache_equals_one_pass(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    want, order = attention(x), generator(sum(map(ord, label(variant))))
    cuts = torch.randperm(LENGTH - 1, generator=order)[:2].add(1).sort().values.tolist()
    for pieces in ([1] * LENGTH, [LENGTH], [2, 1, 0, LENGTH - 3], [cuts[0], cuts[1] - cuts[0], LENGTH - cuts[1]]):
        torch.testing.assert_close(decode(attention, x, pieces), want, rtol=0, atol=1e-10)
    if variant["mode"] != "representation":  # negative control: without memory
        apart = torch.cat([attention(piece) for piece in x.split(2, dim=1)], dim=1)
        assert not torch.allclose(apart, want, atol=1e-4)


def test_cache_works_with_the_call_of_multihead_attention() -> None:
    for batch_first in (True, False):
        attention, x = make({"window": 2}, is_causal=True, batch_first=batch_first), tokens()
        x = x if batch_first else x.transpose(0, 1)
        axis = 1 if batch_first else 0
        want, weights = attention(x, x, x)
        cache = attention.new_cache()
        first, second = x.split([2, LENGTH - 2], dim=axis)
        parts = [attention(piece, piece, piece, cache=cache) for piece in (first, second)]
        torch.testing.assert_close(torch.cat([out for out, _ in parts], dim=axis), want)
        torch.testing.assert_close(parts[0][1], weights[:, :2, :2])
        torch.testing.assert_close(parts[1][1], weights[:, 2:])
        assert cache.length == LENGTH


def test_cache_works_without_a_batch_axis() -> None:
    attention, x = make({}, is_causal=True), tokens()[0]
    cache = attention.new_cache()
    out = torch.cat([attention(piece, cache=cache) for piece in x.split(2)])
    torch.testing.assert_close(out, attention(x))


def test_mask_with_a_cache_covers_all_keys() -> None:
    attention, x = make({}, is_causal=True), tokens()
    hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    hidden[4:, 1] = True
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    torch.testing.assert_close(
        attention(x[:, 4:], attn_mask=hidden[4:], cache=cache), attention(x, attn_mask=hidden)[:, 4:]
    )


@pytest.mark.parametrize("variant", [v for v in PLAIN if v["mode"] not in ("dense", "representation")], ids=label)
def test_tokens_beyond_max_len_raise_and_leave_the_cache_unchanged(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    message = f"Attention: expected at most max_len={LENGTH} tokens, got {LENGTH + 1} (4 of them in the cache)"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        attention(x[:, :3], cache=cache)
    torch.testing.assert_close(attention(x[:, 4:], cache=cache), attention(x)[:, 4:])


@pytest.mark.parametrize("variant", [{"mode": "row"}, {"mode": "bundle"}, {"window": 2}], ids=label)
def test_another_batch_size_raises_and_leaves_the_cache_unchanged(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    with pytest.raises(ValueError, match=r"the batch size must match the cache \(2\), got 1"):
        attention(x[:1, 4:], cache=cache)
    torch.testing.assert_close(attention(x[:, 4:], cache=cache), attention(x)[:, 4:])


@pytest.mark.parametrize("length", [2, LENGTH])
def test_padding_with_a_cache_raises(length: int) -> None:
    attention, x = make({}, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    padding = torch.zeros(2, length, dtype=torch.bool)
    with pytest.raises(ValueError, match="key_padding_mask cannot be used with a cache"):
        attention(x[:, 4:], cache=cache, key_padding_mask=padding)


def test_cache_needs_causal_self_attention() -> None:
    x = tokens()
    with pytest.raises(ValueError, match=r"^Attention.new_cache\(\): a cache needs a causal layer"):
        make({}).new_cache()
    causal = make({}, is_causal=True)
    with pytest.raises(ValueError, match=r"^Attention: a cache needs causal self-attention"):
        make({})(x, cache=causal.new_cache())
    with pytest.raises(ValueError, match=r"^Attention: a cache needs causal self-attention"):
        causal(x, x.clone(), x.clone(), cache=causal.new_cache())


def test_cache_keeps_only_the_rows_that_the_window_reaches() -> None:
    attention = make({"window": 3}, is_causal=True, dtype=torch.float32).bfloat16()
    cache = attention.new_cache()
    attention(tokens(dtype=torch.bfloat16), cache=cache)
    assert cache.recent is not None
    assert cache.keys is not None
    assert cache.recent.shape[1] == 2
    assert cache.recent.dtype == cache.keys.dtype == torch.bfloat16
    assert cache.recent.untyped_storage().nbytes() == 2 * cache.recent.numel()

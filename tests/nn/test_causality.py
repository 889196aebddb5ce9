"""Proof of causality: no output depends on a later input, in any variant, and decoding with a cache agrees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ghrr.nn import Attention
from tests.helpers import generator
from tests.nn.common import CAUSAL, LENGTH, PLAIN, TOGETHER, VARIANTS, label, make, tokens

DENSE = [variant for variant in VARIANTS if variant["mode"] == "dense"]
# One of each mode with much of what it has, where every variant would take too long.
RICH: list[dict[str, Any]] = [
    {"mode": "feature"},
    {"mode": "feature", "position_sharing": "different", "trainable_positions": True, **TOGETHER},
    {"mode": "feature", "position_sharing": "qkv", "weights": "unitary", "window": 2},
    {"mode": "row", "position_sharing": "head", "trainable_positions": True, "trainable_phases": True},
    {"mode": "bundle", "position_sharing": "different", "trainable_positions": True, "normalize_rows": True},
]
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)  # what a mask in the sense of MultiheadAttention hides


def influence(function: Callable[[Tensor], Tensor]) -> Tensor:
    """Largest derivative of output t with respect to input s, ``(t, s)``, for a random combination of features."""
    x = tokens().requires_grad_()
    out = function(x)
    combined = (out * torch.randn(out.shape, dtype=out.dtype, generator=generator(5))).sum(dim=(0, 2))
    rows = [torch.autograd.grad(value, x, retain_graph=True)[0] for value in combined]
    return torch.stack([row.abs().amax(dim=(0, 2)) for row in rows])


def assert_causal(function: Callable[[Tensor], Tensor], *, past: bool = True) -> None:
    found = influence(function)
    assert torch.equal(found.triu(1), torch.zeros_like(found)), f"the future is seen:\n{found}"
    assert (found.diagonal() > 1e-6).all()
    if past:
        assert (found[LATER.T] > 1e-9).all(), f"the past is not seen:\n{found}"


# ------------------------------------------------------------------------------------------------------------ the proof


@pytest.mark.parametrize("variant", CAUSAL, ids=label)
def test_no_output_depends_on_a_later_input(variant: dict[str, Any]) -> None:
    assert_causal(make(variant, is_causal=True), past=variant["mode"] != "representation")


@pytest.mark.parametrize("variant", RICH, ids=label)
def test_causality_asked_for_in_the_call(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    assert_causal(lambda x: attention(x, is_causal=True))
    assert_causal(lambda x: attention(x, x, x, need_weights=True, is_causal=True)[0])
    assert_causal(lambda x: attention(x, attn_mask=LATER))
    made_so = make(variant, is_causal=True)
    for y in (attention(x, is_causal=True), attention(x, attn_mask=LATER), made_so(x), made_so(x, attn_mask=LATER)):
        torch.testing.assert_close(y, made_so(x))
    with pytest.raises(AssertionError, match="the future is seen"):  # the control: nobody asked
        assert_causal(attention)


@pytest.mark.parametrize("variant", RICH, ids=label)
@pytest.mark.parametrize("batch_first", [True, False])
def test_causality_with_masks(variant: dict[str, Any], batch_first: bool) -> None:
    attention = make(variant, is_causal=True, batch_first=batch_first)
    padding = torch.tensor([[False] * (LENGTH - 1) + [True], [False] * LENGTH])
    some = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    some[3, 1] = True
    numbers = torch.randn(LENGTH, LENGTH, dtype=torch.float64, generator=generator())
    for masks in ({"key_padding_mask": padding}, {"attn_mask": some}, {"attn_mask": numbers}):
        for settings in (masks, masks | {"key_padding_mask": padding}):

            def attend(x: Tensor, settings: dict[str, Any] = settings) -> Tensor:
                y: Tensor = attention(x if batch_first else x.transpose(0, 1), **settings)
                return y if batch_first else y.transpose(0, 1)

            found = influence(attend)
            assert torch.equal(found.triu(1), torch.zeros_like(found))
            assert (found.diagonal() > 1e-6).all()


@pytest.mark.parametrize("variant", RICH, ids=label)
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=lambda b: b.name)
def test_causality_in_each_kernel_of_torch(variant: dict[str, Any], backend: SDPBackend) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    want = attention(x)
    with sdpa_kernel(backend):
        torch.testing.assert_close(attention(x), want, rtol=0, atol=1e-12)
        assert_causal(attention)


@pytest.mark.parametrize("variant", RICH[1:], ids=label)
def test_causality_when_compiled(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    torch.compiler.reset()
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), attention(x), rtol=0, atol=1e-12)
    assert_causal(compiled)
    torch.compiler.reset()


@pytest.mark.parametrize("variant", [*RICH, {"mode": "representation"}], ids=label)
def test_later_tokens_change_no_earlier_output(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    changed = x.clone()
    changed[:, 3:] += 1
    assert torch.equal(attention(changed)[:, :3], attention(x)[:, :3])
    assert not torch.allclose(attention(changed)[:, 3:], attention(x)[:, 3:], atol=1e-6)


# --------------------------------------------------------------------------------------------------------- the controls


@pytest.mark.parametrize("variant", DENSE, ids=label)
def test_a_mask_cannot_make_dense_causal(variant: dict[str, Any]) -> None:
    attention = make(variant)
    with pytest.raises(AssertionError, match="the future is seen"):
        assert_causal(lambda x: attention(x, attn_mask=LATER))


def test_bundles_are_causal_by_their_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = make({"mode": "bundle"}, is_causal=True)
    assert_causal(attention)
    monkeypatch.setattr(attention.form, "causal", False)
    with pytest.raises(AssertionError, match="the future is seen"):
        assert_causal(attention)


def test_a_layer_that_sees_its_own_token_alone_is_found_out() -> None:
    with pytest.raises(AssertionError, match="the past is not seen"):
        assert_causal(make({"mode": "representation"}))


def test_dense_refuses() -> None:
    with pytest.raises(ValueError, match=r"^AttentionConfig: mode 'dense' cannot be causal, since each row"):
        make({"mode": "dense"}, is_causal=True)
    attention, x = make({"mode": "dense"}), tokens()
    for call in (lambda: attention(x, is_causal=True), lambda: attention(x, x, x, is_causal=True)):
        with pytest.raises(ValueError, match=r"^Attention: mode 'dense' cannot be causal"):
            call()
    with pytest.raises(ValueError, match="only causal attention can go on from earlier tokens"):
        attention.new_cache()


# ---------------------------------------------------------------------------------------------------------------- cache


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
    if variant["mode"] != "representation":  # the control: without memory
        apart = torch.cat([attention(piece) for piece in x.split(2, dim=1)], dim=1)
        assert not torch.allclose(apart, want, atol=1e-4)


def test_a_cache_with_the_call_of_multihead_attention() -> None:
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


def test_a_cache_of_one_sequence_without_a_batch() -> None:
    attention, x = make({}, is_causal=True), tokens()[0]
    cache = attention.new_cache()
    out = torch.cat([attention(piece, cache=cache) for piece in x.split(2)])
    torch.testing.assert_close(out, attention(x))


def test_a_mask_with_a_cache_covers_all_keys() -> None:
    attention, x = make({}, is_causal=True), tokens()
    hidden = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    hidden[4:, 1] = True
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    torch.testing.assert_close(
        attention(x[:, 4:], attn_mask=hidden[4:], cache=cache), attention(x, attn_mask=hidden)[:, 4:]
    )


@pytest.mark.parametrize("variant", [v for v in PLAIN if v["mode"] not in ("dense", "representation")], ids=label)
def test_too_many_tokens_for_the_cache(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    message = f"Attention: {LENGTH + 1} tokens (4 of them in the cache), but there are positions for max_len={LENGTH}"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        attention(x[:, :3], cache=cache)
    torch.testing.assert_close(attention(x[:, 4:], cache=cache), attention(x)[:, 4:])  # and goes on as if nothing was


@pytest.mark.parametrize("mode", ["feature", "row"])
def test_a_cache_of_another_batch(mode: str) -> None:
    attention, x = make({"mode": mode}, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    with pytest.raises(ValueError, match=r"^Attention: the cache is of a batch of 2, these are 1"):
        attention(x[:1, 4:], cache=cache)


def test_a_cache_is_for_causal_self_attention() -> None:
    x = tokens()
    with pytest.raises(ValueError, match=r"^Attention.new_cache\(\): only causal attention"):
        make({}).new_cache()
    causal = make({}, is_causal=True)
    with pytest.raises(ValueError, match=r"^Attention: a cache goes with causal self-attention alone"):
        make({})(x, cache=causal.new_cache())
    with pytest.raises(ValueError, match=r"^Attention: a cache goes with causal self-attention alone"):
        causal(x, x.clone(), x.clone(), cache=causal.new_cache())

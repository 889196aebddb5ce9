"""Corners where attention once went wrong: padding that leaked, masks that hid everything, options without effect."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ghrr.nn.functional import ghrr_attention
from tests.helpers import gaussian, generator
from tests.nn.common import EMBED, HEADS, LENGTH, label, literal_attention, make, tokens

PADDING = torch.tensor([[False] * 4 + [True] * 2, [False] * 5 + [True]])


@pytest.mark.parametrize(
    "variant", [{"mode": m, "normalize_rows": True} for m in ("feature", "row", "bundle")], ids=label
)
def test_unit_rows_in_double_precision(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    want = torch.stack([literal_attention(attention, s, s, s) for s in x])
    torch.testing.assert_close(attention(x).detach(), want, rtol=0, atol=1e-10)


def test_padding_in_front_with_a_window() -> None:
    attention, x, padding = make({"window": 3}), tokens(), PADDING.flip(1)
    changed = torch.where(padding[..., None], x + 1, x)
    out, again = (attention(y, key_padding_mask=padding)[~padding] for y in (x, changed))
    assert torch.equal(out, again)


@pytest.mark.parametrize("mode", ["bundle", "dense"])
@pytest.mark.parametrize("which", ["key", "value"])
def test_padding_where_the_query_is_the_key_or_the_value(mode: str, which: str) -> None:
    attention, x, other, padding = make({"mode": mode}), tokens(), tokens(seed=9), PADDING.flip(1)
    changed = torch.where(padding[..., None], x + 1, x)
    given = (lambda y: (y, y, other)) if which == "key" else (lambda y: (y, other, y))
    out, again = (attention(*given(y), key_padding_mask=padding)[0][~padding] for y in (x, changed))
    assert torch.equal(out, again)


@pytest.mark.parametrize("variant", [{"mode": "bundle"}, {"window": 2}], ids=label)
def test_a_cache_of_another_batch(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    with pytest.raises(ValueError, match="the cache is of a batch of 2, these are 1"):
        attention(x[:1, 4:], cache=cache)
    torch.testing.assert_close(attention(x[:, 4:], cache=cache), attention(x)[:, 4:])


@pytest.mark.parametrize("which", ["piece", "all"])
def test_padding_with_a_cache(which: str) -> None:
    attention, x = make({}, is_causal=True), tokens()
    cache = attention.new_cache()
    attention(x[:, :4], cache=cache)
    padding = torch.zeros(2, 2 if which == "piece" else LENGTH, dtype=torch.bool)
    with pytest.raises(ValueError, match="key_padding_mask does not go with a cache"):
        attention(x[:, 4:], cache=cache, key_padding_mask=padding)


def test_padding_through_a_layer_of_torch() -> None:
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 32, batch_first=True, dtype=torch.float64)
    layer.self_attn = make({})  # type: ignore[assignment]
    assert layer(tokens(), src_key_padding_mask=PADDING).isfinite().all()


def test_evaluation_of_a_layer_of_torch() -> None:
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 32, batch_first=True, dtype=torch.float64)
    layer.self_attn = make({})  # type: ignore[assignment]
    layer.eval()
    assert layer(tokens()).isfinite().all()


def test_input_of_another_precision() -> None:
    with pytest.raises((TypeError, ValueError), match=r"^Attention(Config)?: "):
        make({})(tokens(dtype=torch.float32))


def test_weights_of_a_query_that_sees_nothing() -> None:
    attention, x = make({}, is_causal=True), tokens()
    out, weights = attention(x, x, x, key_padding_mask=PADDING.flip(1))
    assert out.isfinite().all() == weights.isfinite().all()


def test_a_mask_that_hides_all() -> None:
    from ghrr.nn.functional import naive_attention

    q = gaussian(3, 4)
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    torch.testing.assert_close(ghrr_attention(q, q, q, nothing), naive_attention(q, q, q, nothing))


@pytest.mark.parametrize(
    "call",
    [
        lambda q: ghrr_attention([1.0], q, q),  # type: ignore[arg-type]
        lambda q: ghrr_attention(q, q, q, [[True]]),  # type: ignore[arg-type]
        lambda q: ghrr_attention(q, q, q, torch.zeros(7, 3, 3, dtype=torch.float64)),
        lambda q: make({})(tokens(), attn_mask=[[True]]),
        lambda q: make({})(tokens(), key_padding_mask=[[True]]),
    ],
)
def test_no_tensor(call: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^(ghrr_attention\(q, k, v\)|Attention): "):
        call(gaussian(3, 4))


@pytest.mark.parametrize(
    "variant",
    [
        {"mode": "representation", "normalize_rows": True},
        {"mode": "representation", "position_sharing": "qkv"},
        {"mode": "row", "mix_slots": False},
    ],
    ids=label,
)
def test_options_without_effect_are_refused(variant: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^Attention(Config)?: "):
        make(variant)


# bundle before their tokens (zeroed by the mask).
@pytest.mark.parametrize(
    "variant",
    [
        {"position_sharing": "qkv", "trainable_positions": True},
        {"position_sharing": "different", "trainable_positions": True},
    ],
    ids=label,
)
def test_no_number_is_dead(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    (attention(x) * torch.randn(x.shape, dtype=x.dtype, generator=generator())).sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None
        assert (parameter.grad != 0).all(), name

"""Padding has no influence on other tokens, wherever it is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.nn.common import BATCH, LENGTH, PADDING, TOKENWISE, label, make, tokens


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("variant", [*TOKENWISE, {"mode": "feature", "window": 3}], ids=label)
def test_padding_has_no_influence(variant: dict[str, Any], causal: bool) -> None:
    causal = causal and variant["mode"] != "dense"
    attention, x = make(variant, is_causal=causal), tokens()
    changed, kept = torch.where(PADDING[..., None], x + 1, x), ~PADDING
    out, again = (attention(y, key_padding_mask=PADDING)[kept] for y in (x, changed))
    assert torch.equal(out, again)
    out, again = (attention(y, y, y, PADDING)[0][kept] for y in (x, changed))
    assert torch.equal(out, again)
    # Negative control: without the mask they are seen, unless they are later.
    assert torch.equal(attention(changed)[kept], attention(x)[kept]) == causal


@pytest.mark.parametrize("variant", [*TOKENWISE, {"window": 3}], ids=label)
def test_padding_in_front_has_no_influence(variant: dict[str, Any]) -> None:
    attention, x, padding = make(variant), tokens(), PADDING.flip(1)
    changed = torch.where(padding[..., None], x + 1, x)
    out, again = (attention(y, key_padding_mask=padding)[~padding] for y in (x, changed))
    assert torch.equal(out, again)
    assert not torch.equal(attention(x)[~padding], attention(changed)[~padding])


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_padding_of_keys_has_no_influence_in_cross_attention(variant: dict[str, Any]) -> None:
    attention, query, memory = make(variant), tokens(3, seed=6), tokens()
    changed = torch.where(PADDING[..., None], memory + 1, memory)
    out = attention(query, memory, memory, key_padding_mask=PADDING)[0]
    assert torch.equal(attention(query, changed, changed, key_padding_mask=PADDING)[0], out)
    assert not torch.allclose(attention(query, changed, changed)[0], attention(query, memory, memory)[0], atol=1e-3)


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_padding_at_the_end_equals_a_shorter_sequence(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[:, 4:] = True
    torch.testing.assert_close(attention(x, key_padding_mask=padding)[:, :4], attention(x[:, :4]))


@pytest.mark.parametrize("mode", ["bundle", "dense"])
@pytest.mark.parametrize("shared", ["key", "value"])
def test_padding_has_no_influence_if_the_query_is_key_or_value(mode: str, shared: str) -> None:
    attention, x, other, padding = make({"mode": mode}), tokens(), tokens(seed=9), PADDING.flip(1)
    changed = torch.where(padding[..., None], x + 1, x)
    inputs = (lambda y: (y, y, other)) if shared == "key" else (lambda y: (y, other, y))
    out, again = (attention(*inputs(y), key_padding_mask=padding)[0][~padding] for y in (x, changed))
    assert torch.equal(out, again)


def test_output_and_weights_of_a_causal_query_behind_padding_are_finite() -> None:
    attention, x = make({}, is_causal=True), tokens()
    out, weights = attention(x, x, x, key_padding_mask=PADDING.flip(1))
    assert out.isfinite().all() == weights.isfinite().all()

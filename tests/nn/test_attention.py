"""The layer as a replacement of torch.nn.MultiheadAttention: calls, masks, outputs, weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ghrr.nn import Attention
from tests.helpers import generator
from tests.nn.common import (
    BATCH,
    EMBED,
    HEADS,
    LENGTH,
    PADDING,
    PLAIN,
    TOKENWISE,
    label,
    literal_parts,
    make,
    output_features,
    tokens,
)

KEYS = 4
HIDDEN = torch.tensor([[False, True, False, False, True, False]]).expand(LENGTH, LENGTH).triu()
NUMBERS = torch.randn(LENGTH, LENGTH, dtype=torch.float64, generator=generator(8))


def multihead(**settings: Any) -> nn.MultiheadAttention:
    torch.manual_seed(4)
    return nn.MultiheadAttention(EMBED, HEADS, dtype=torch.float64, **({"batch_first": True} | settings))


# ---------------------------------------------------------------------------------------------------------------- calls

CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no weights": {"need_weights": False},
    "weights per head": {"average_attn_weights": False},
    "bool mask": {"attn_mask": HIDDEN},
    "mask of numbers": {"attn_mask": NUMBERS},
    "mask of infinities": {
        "attn_mask": torch.zeros(LENGTH, LENGTH, dtype=torch.float64).masked_fill(HIDDEN, -torch.inf)
    },
    "mask per head": {"attn_mask": torch.stack([HIDDEN.roll(i, 1) for i in range(BATCH * HEADS)])},
    "numbers per head": {"attn_mask": torch.stack([NUMBERS.roll(i, 1) for i in range(BATCH * HEADS)])},
    "padding": {"key_padding_mask": PADDING},
    "padding and mask": {"key_padding_mask": PADDING, "attn_mask": HIDDEN},
    "padding, mask per head, weights per head": {
        "key_padding_mask": PADDING,
        "attn_mask": torch.stack([HIDDEN.roll(i, 0) for i in range(BATCH * HEADS)]),
        "average_attn_weights": False,
    },
    "causal": {"is_causal": True, "attn_mask": torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)},
}


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_masks_hide_the_same_keys_as_in_multihead_attention(
    variant: dict[str, Any], call: str, batch_first: bool
) -> None:
    settings = CALLS[call]
    if variant["mode"] == "dense" and "is_causal" in settings:
        settings = {"attn_mask": settings["attn_mask"]}
    x = tokens() if batch_first else tokens().transpose(0, 1)
    out, weights = make(variant, batch_first=batch_first)(x, x, x, **settings)
    wanted, wanted_weights = multihead(batch_first=batch_first)(x, x, x, **settings)
    assert out.shape == wanted.shape
    assert out.isfinite().all()
    if wanted_weights is None:
        assert weights is None
        return
    assert weights.shape == wanted_weights.shape
    # Both layers hide the same keys from each query.
    assert torch.equal(weights == 0, wanted_weights == 0)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1], dtype=weights.dtype))


@pytest.mark.parametrize("variant", PLAIN, ids=label)
def test_input_without_a_batch_axis(variant: dict[str, Any]) -> None:
    for batch_first in (True, False):
        attention, x = make(variant, batch_first=batch_first), tokens(batch=1)[0]
        whole = make(variant)
        torch.testing.assert_close(attention(x), whole(x[None])[0])
        for average in (True, False):
            out, weights = attention(x, x, x, average_attn_weights=average)
            wanted, wanted_weights = whole(x[None], x[None], x[None], average_attn_weights=average)
            torch.testing.assert_close(out, wanted[0])
            torch.testing.assert_close(weights, wanted_weights[0])
            if variant["mode"] != "representation":
                assert weights.shape == multihead()(x, x, x, average_attn_weights=average)[1].shape


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_masks_without_a_batch_axis(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens(batch=1)[0]
    per_head = torch.stack([HIDDEN, HIDDEN.roll(1, 0)])
    for settings in ({"attn_mask": HIDDEN}, {"attn_mask": per_head}, {"key_padding_mask": PADDING[0]}):
        out, weights = attention(x, x, x, average_attn_weights=False, **settings)
        wanted = multihead()(x, x, x, average_attn_weights=False, **settings)[1]
        assert out.shape == x.shape
        assert torch.equal(weights == 0, wanted == 0)


@pytest.mark.parametrize("variant", PLAIN, ids=label)
def test_all_calls_of_self_attention_agree(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    want = attention(x)
    assert isinstance(want, Tensor)
    for given in ((x, x, x), (x, x.clone(), x.clone()), (x, x, x.clone())):
        torch.testing.assert_close(attention(*given)[0], want)
        assert attention(*given, need_weights=False)[1] is None
    transposed = make(variant, batch_first=False)
    torch.testing.assert_close(transposed(x.transpose(0, 1)), want.transpose(0, 1))


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_cross_attention_has_shapes_and_masks_of_multihead_attention(variant: dict[str, Any]) -> None:
    attention, query, key = make(variant), tokens(LENGTH), tokens(KEYS, seed=5)
    padding = torch.tensor([[False, False, False, True], [False] * 4])
    hidden = torch.zeros(LENGTH, KEYS, dtype=torch.bool)
    hidden[2, 1] = True
    for settings in ({}, {"key_padding_mask": padding}, {"attn_mask": hidden}):
        out, weights = attention(query, key, key, **settings)
        _, wanted = multihead()(query, key, key, **settings)
        assert out.shape == query.shape
        assert weights.shape == (BATCH, LENGTH, KEYS)
        assert torch.equal(weights == 0, wanted == 0)
    assert not torch.allclose(attention(query, key, key)[0], attention(query, key, key.roll(1, 2))[0], atol=1e-3)


@pytest.mark.parametrize("variant", PLAIN, ids=label)
def test_empty_inputs_give_empty_outputs(variant: dict[str, Any]) -> None:
    attention = make(variant)
    assert attention(tokens(0)).shape == (BATCH, 0, EMBED)
    assert attention(tokens(batch=0)).shape == (0, LENGTH, EMBED)
    for n in range(1, LENGTH + 1):
        assert attention(tokens(n)).isfinite().all()


class Block(nn.Module):
    """A transformer block around any attention that is called like torch's."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention
        self.norms = nn.ModuleList(nn.LayerNorm(EMBED, dtype=torch.float64) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(EMBED, 32), nn.GELU(), nn.Linear(32, EMBED)).double()

    def forward(self, x: Tensor, mask: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]
        out: Tensor = x + self.feed(self.norms[1](x))
        return out


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_transformer_block_learns_with_either_attention(variant: dict[str, Any]) -> None:
    x = tokens()
    target = x.roll(1, 1)  # to be learned from the tokens and their order
    for attention in (make(variant, scrambled=False), multihead()):
        block = Block(attention)
        assert block(x, HIDDEN, PADDING).shape == x.shape
        optimiser = torch.optim.Adam(block.parameters(), lr=0.01)
        losses = []
        for _ in range(40):
            optimiser.zero_grad()
            loss = nn.functional.mse_loss(block(x), target)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("variant", TOKENWISE, ids=label)
def test_encoder_layer_of_torch_uses_the_attention(variant: dict[str, Any]) -> None:
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 32, dropout=0.0, batch_first=True, dtype=torch.float64)
    layer.self_attn = make(variant)  # type: ignore[assignment]
    x = tokens()
    want = layer.norm1(x + layer.self_attn(x, attn_mask=HIDDEN))
    want = layer.norm2(want + layer.linear2(layer.linear1(want).relu()))
    torch.testing.assert_close(layer(x, src_mask=HIDDEN), want)


# -------------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("variant", [*TOKENWISE, {"mode": "feature", "window": 2, "position_values": True}], ids=label)
def test_returned_weights_are_those_of_the_output(variant: dict[str, Any], causal: bool) -> None:
    """With an output projection that does nothing, the output is the weights times the values."""
    attention, x = make(variant, is_causal=causal and variant["mode"] != "dense"), tokens()
    attention.out_proj = nn.Identity()  # type: ignore[assignment]
    out, weights = attention(x, x, x, attn_mask=NUMBERS, average_attn_weights=False)
    average = attention(x, x, x, attn_mask=NUMBERS)[1]
    torch.testing.assert_close(average, weights.mean(dim=1))
    for b in range(BATCH):
        values = output_features(attention, literal_parts(attention, x[b], x[b], x[b])[2])  # (heads, n, 2 m)
        want = (weights[b] @ values).transpose(0, 1).flatten(1)
        torch.testing.assert_close(out[b], want)
        assert not torch.allclose((average[b] @ values).transpose(0, 1).flatten(1), want, atol=1e-3)  # negative control


def test_scale_of_each_head_starts_at_one_over_the_square_root_of_its_size() -> None:
    attention = make({}, scrambled=False)
    torch.testing.assert_close(
        attention.log_scale.exp(), torch.full((HEADS, 1, 1, 1), (2 * attention.m) ** -0.5).double()
    )
    x = tokens()
    with torch.no_grad():
        attention.log_scale[1] = -torch.inf  # a head with equal weights
    weights = attention(x, x, x, average_attn_weights=False)[1]
    torch.testing.assert_close(weights[:, 1], torch.full_like(weights[:, 1], 1 / LENGTH))
    assert weights[:, 0].std() > 0.01


def test_normalized_rows_do_not_depend_on_the_size_of_weights() -> None:
    x = tokens()
    for normalize in (True, False):
        attention: Any = make({"normalize_rows": normalize})
        before = attention(x, x, x)[1].detach()
        with torch.no_grad():
            attention.form.weights.matrix[: 2 * HEADS] *= 3  # the rows of queries and keys
            attention.form.bias[: 2 * HEADS] *= 3
        same = torch.allclose(attention(x, x, x)[1], before, atol=1e-5)
        assert same == normalize
        plain, small = (make({"normalize_rows": normalize}, scrambled=False, qk_gain=gain) for gain in (1.0, 0.125))
        same = torch.allclose(small(x, x, x)[1], plain(x, x, x)[1], atol=1e-3)
        assert same == normalize


@pytest.mark.parametrize("kv_heads", [1, HEADS])
def test_qk_gain_scales_initial_weights_of_queries_and_keys(kv_heads: int) -> None:
    plain, small = (
        make({"num_kv_heads": kv_heads}, scrambled=False, qk_gain=gain).state_dict() for gain in (1.0, 0.25)
    )
    gains = torch.ones(HEADS + 2 * kv_heads, 1, 1, 1, 1, dtype=torch.float64)
    gains[: HEADS + kv_heads] = 0.25
    assert torch.equal(small.pop("form.weights.matrix"), gains * plain.pop("form.weights.matrix"))
    assert all(torch.equal(small[name], value) for name, value in plain.items())


# -------------------------------------------------------------------------------------------------------------- dropout


@pytest.mark.parametrize("variant", PLAIN, ids=label)
def test_dropout_applies_in_training_only(variant: dict[str, Any]) -> None:
    attention, x = make(variant, dropout=0.5), tokens()
    want = make(variant)(x)
    torch.manual_seed(0)
    assert not torch.allclose(attention(x), attention(x), atol=1e-3)
    attention.eval()
    torch.testing.assert_close(attention(x), want)


# ------------------------------------------------------------------------------------------------------------- settings


def test_m_allows_any_embed_dim() -> None:
    attention = Attention(15, 2, m=4, max_len=LENGTH)
    assert attention.config.num_slots == 4  # the fewest that hold 15 phases
    assert attention(torch.randn(2, LENGTH, 15, generator=generator())).shape == (2, LENGTH, 15)


def test_repr_shows_main_settings() -> None:
    assert "embed_dim=16, num_heads=2, m=4, max_len=6, mode='feature', is_causal=True" in repr(make({}, is_causal=True))

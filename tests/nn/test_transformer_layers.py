"""The layer inside torch's transformer layers, instead of ``nn.MultiheadAttention``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.nn.common import EMBED, HEADS, LENGTH, label, make, tokens

LENGTHS = (3, LENGTH, 1, 4)
PADDING = torch.tensor([[False] * n + [True] * (LENGTH - n) for n in LENGTHS])
CAUSAL = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
VARIANTS: list[dict[str, Any]] = [{"mode": "feature", "window": 2}, {"mode": "row"}, {"mode": "bundle"}]


@pytest.fixture(autouse=True)
def _no_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if torch takes its fast path for inference, which computes vanilla attention."""

    def refuse(*_: object) -> None:
        raise AssertionError("the fast path computes vanilla attention")

    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", refuse)


def make_encoder(variant: dict[str, Any], *, replaced: str, batch_first: bool = True) -> nn.TransformerEncoder:
    """Two layers of torch with this attention, replaced before the encoder copies its layer or after."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {"dropout": 0.0, "batch_first": batch_first, "dtype": torch.float64}
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 32, **settings)
    if replaced == "before":
        layer.self_attn = make(variant, batch_first=batch_first)  # type: ignore[assignment]
        if batch_first:
            with pytest.warns(UserWarning, match="_qkv_same_embed_dim was not True"):
                return nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first)
    for one in encoder.layers if replaced == "after" else []:
        one.self_attn = make(variant, batch_first=batch_first)
    return encoder


def by_hand(encoder: nn.TransformerEncoder, x: Tensor, *, causal: bool = False) -> Tensor:
    """The output for one sequence ``(n, embed)``, computed from the modules of the layers."""
    x = x[None] if encoder.layers[0].self_attn.batch_first else x[:, None]
    for layer in encoder.layers:
        assert isinstance(layer, nn.TransformerEncoderLayer)
        x = layer.norm1(x + layer.self_attn(x, x, x, is_causal=causal, need_weights=False)[0])
        x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
    return x.flatten(0, 1)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("state", ["train", "eval", "frozen", "no_grad"])
@pytest.mark.parametrize(
    ("variant", "replaced", "batch_first"),
    [
        (VARIANTS[0], "before", True),
        (VARIANTS[0], "after", False),
        (VARIANTS[1], "after", True),
        (VARIANTS[2], "before", False),
    ],
    ids=str,
)
def test_encoder_equals_its_modules_called_by_hand(
    variant: dict[str, Any], replaced: str, batch_first: bool, state: str
) -> None:
    encoder = make_encoder(variant, replaced=replaced, batch_first=batch_first).train(state == "train")
    encoder.requires_grad_(state != "frozen")
    x = tokens(batch=4)
    given = x if batch_first else x.transpose(0, 1)
    with torch.set_grad_enabled(state != "no_grad"):
        padded = encoder(given, src_key_padding_mask=PADDING)
        causal = encoder(given, mask=CAUSAL, is_causal=True)
        both = encoder(given, mask=CAUSAL, src_key_padding_mask=PADDING.double().masked_fill(PADDING, -torch.inf))
    for i, n in enumerate(LENGTHS):
        outputs = [out[i] if batch_first else out[:, i] for out in (padded, causal, both)]
        torch.testing.assert_close(outputs[0][:n], by_hand(encoder, x[i, :n]))
        torch.testing.assert_close(outputs[1], by_hand(encoder, x[i], causal=True))
        torch.testing.assert_close(outputs[2][:n], by_hand(encoder, x[i, :n], causal=True))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_gradients_of_an_encoder_are_right_and_causal(variant: dict[str, Any], training: bool) -> None:
    encoder = make_encoder(variant, replaced="before").train(training)
    x = tokens(batch=1).requires_grad_()
    out = encoder(x, mask=CAUSAL, is_causal=True)
    for t in range(LENGTH):
        (found,) = torch.autograd.grad(out[0, t].sum(), x, retain_graph=True)
        assert not found[0, t + 1 :].any()
    trained = [x, *encoder.parameters()]
    got = torch.autograd.grad(out.square().sum(), trained, allow_unused=True)
    want = torch.autograd.grad(by_hand(encoder, x[0], causal=True).square().sum(), trained, allow_unused=True)
    torch.testing.assert_close(got, want)


def test_encoder_takes_jagged_tensors() -> None:
    encoder = make_encoder({"window": 2}, replaced="before")
    parts = [x[:n] for x, n in zip(tokens(batch=4), LENGTHS, strict=True)]
    for training in (True, False):
        out = encoder.train(training)(torch.nested.as_nested_tensor(parts, layout=torch.jagged))
        for got, x in zip(out.unbind(), parts, strict=True):
            torch.testing.assert_close(got, by_hand(encoder, x))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_decoder_layer_equals_its_modules_called_by_hand(batch_first: bool, training: bool) -> None:
    layer = nn.TransformerDecoderLayer(EMBED, HEADS, 32, dropout=0.0, batch_first=batch_first, dtype=torch.float64)
    layer.self_attn = make({"window": 2}, batch_first=batch_first)  # type: ignore[assignment]
    layer.multihead_attn = make({"mode": "row"}, batch_first=batch_first)  # type: ignore[assignment]
    decoder = nn.TransformerDecoder(layer, 1).train(training)
    [one] = decoder.layers
    assert isinstance(one, nn.TransformerDecoderLayer)
    target, memory = tokens(), tokens(4, seed=5)
    padding = torch.tensor([[False] * 4, [False] * 2 + [True] * 2])
    given = (target, memory) if batch_first else (target.transpose(0, 1), memory.transpose(0, 1))
    out = decoder(*given, tgt_mask=CAUSAL, tgt_is_causal=True, memory_key_padding_mask=padding)
    out = out if batch_first else out.transpose(0, 1)
    for i, kept in enumerate((4, 2)):
        x, seen = target[i], memory[i, :kept]
        x = one.norm1(x + one.self_attn(x, x, x, is_causal=True)[0])
        x = one.norm2(x + one.multihead_attn(x, seen, seen)[0])
        x = one.norm3(x + one.linear2(one.linear1(x).relu()))
        torch.testing.assert_close(out[i], x)

"""Errors of the layer: settings and inputs that are refused, and the message that names them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ghrr.nn import Attention
from tests.helpers import wrong
from tests.nn.common import EMBED, HEADS, LENGTH, PADDING, make, tokens

LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)

SETTINGS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "odd embed_dim": (
        {"embed_dim": 15},
        ValueError,
        "embed_dim must be a multiple of 2 x num_heads = 4 (real and imaginary parts for each head), got 15",
    ),
    "embed_dim for heads": (
        {"embed_dim": 16, "num_heads": 3},
        ValueError,
        "embed_dim must be a multiple of 2 x num_heads = 6",
    ),
    "no embed_dim": ({"embed_dim": 0}, ValueError, "embed_dim must be a whole number of at least 1, got 0"),
    "embed_dim of a float": ({"embed_dim": 16.0}, TypeError, "embed_dim must be a whole number, got float 16.0"),
    "no heads": ({"num_heads": 0}, ValueError, "num_heads must be a whole number of at least 1, got 0"),
    "no positions": ({"max_len": 0}, ValueError, "max_len must be a whole number of at least 1, got 0"),
    "m": ({"m": 0}, ValueError, "m must be a whole number of at least 1, got 0"),
    "m below max_len": (
        {"mode": "row", "m": 4, "max_len": 8},
        ValueError,
        "mode 'row' needs m >= max_len, since token j takes row j of an m x m matrix, got m=4 and max_len=8",
    ),
    "mode": (
        {"mode": "rope"},
        ValueError,
        "mode must be one of 'feature', 'row', 'bundle', 'dense', 'representation', 'path'; got 'rope'",
    ),
    "sharing": (
        {"position_sharing": "none"},
        ValueError,
        "position_sharing must be one of 'all', 'qkv', 'head', 'different'",
    ),
    "weights": ({"weights": "free"}, ValueError, "weights must be one of 'relaxed', 'unitary'; got 'free'"),
    "dropout": ({"dropout": 1.5}, ValueError, "dropout must lie in [0.0, 1.0], got 1.5"),
    "phase_std 0": ({"phase_std": 0.0}, ValueError, "phase_std must lie in (0.0, inf), got 0.0"),
    "window": ({"window": 0}, ValueError, "window must be a whole number of at least 1, got 0"),
    "num_kv_heads": ({"num_kv_heads": 0}, ValueError, "num_kv_heads must be a whole number of at least 1, got 0"),
    "num_kv_heads that does not divide num_heads": (
        {"num_kv_heads": 3},
        ValueError,
        "num_kv_heads must divide num_heads=2, got 3",
    ),
    "num_kv_heads of rows": (
        {"mode": "row", "num_kv_heads": 1},
        ValueError,
        "num_kv_heads=1 below num_heads=2 needs mode 'feature' and mix_slots=True, got mode 'row' and mix_slots=True",
    ),
    "num_kv_heads without mix_slots": (
        {"mix_slots": False, "num_kv_heads": 1},
        ValueError,
        "needs mode 'feature' and mix_slots=True, got mode 'feature' and mix_slots=False; leave num_kv_heads out",
    ),
    "inputs that cannot be split": (
        {"m": 3, "split_inputs": True},
        ValueError,
        "split_inputs needs embed_dim to be a multiple of the number of slots, got embed_dim=16 and 6 slots",
    ),
    "window of rows": (
        {"mode": "row", "window": 2},
        ValueError,
        "window, position_values and mix_slots need mode 'feature', got 'row'",
    ),
    "no gain": ({"qk_gain": 0.0}, ValueError, "qk_gain must lie in (0.0, inf)"),
    "gain of rows": (
        {"mode": "row", "qk_gain": 0.5},
        ValueError,
        "qk_gain=0.5 needs mode 'feature' or 'path', and weights='relaxed', got mode 'row' and",
    ),
    "gain of bundles": (
        {"mode": "bundle", "qk_gain": 2.0},
        ValueError,
        "qk_gain=2.0 needs mode 'feature' or 'path', and",
    ),
    "gain of unitary weights": (
        {"weights": "unitary", "qk_gain": 0.5},
        ValueError,
        "got mode 'feature' and weights 'unitary'; leave qk_gain out",
    ),
    "values of bundles": (
        {"mode": "bundle", "position_values": True},
        ValueError,
        "need mode 'feature', got 'bundle'",
    ),
    "dtype": ({"dtype": torch.float16}, ValueError, "dtype must be torch.float32 or torch.float64, got torch.float16"),
    "no positions to train": (
        {"mode": "representation", "trainable_positions": True},
        ValueError,
        "mode 'representation' has no positions and does not scale rows",
    ),
    "a flag that is no bool": ({"is_causal": 1}, TypeError, "is_causal must be True or False, got int 1"),
    "window of rows that are not mixed": (
        {"mode": "row", "mix_slots": False},
        ValueError,
        "window, position_values and mix_slots need mode 'feature', got 'row'",
    ),
    "sharing without positions": (
        {"mode": "representation", "position_sharing": "qkv"},
        ValueError,
        "mode 'representation' has no positions",
    ),
    "rows that are not scaled": (
        {"mode": "representation", "normalize_rows": True},
        ValueError,
        "does not scale rows",
    ),
    "unknown setting": ({"depth": 1}, TypeError, "depth"),
    "dense and causal": ({"mode": "dense", "is_causal": True}, ValueError, "mode 'dense' cannot be causal"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_invalid_settings_raise_and_are_named(case: str) -> None:
    settings, error, message = SETTINGS[case]
    with pytest.raises(error, match="^Attention.*" + re.escape(message)):
        Attention(**({"embed_dim": EMBED, "num_heads": HEADS, "max_len": LENGTH} | settings))


X = tokens()
ONE = torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
INPUTS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "too long": (
        lambda a: a(tokens(LENGTH + 1)),
        ValueError,
        f"expected at most max_len={LENGTH} tokens, got {LENGTH + 1}; shorten the sequence",
    ),
    "keys too long": (
        lambda a: a(X, tokens(9), tokens(9)),
        ValueError,
        "expected at most max_len=6 tokens, got 9",
    ),
    "features": (
        lambda a: a(X[..., :5]),
        ValueError,
        "inputs must all have shape (batch, n, 16), or all (n, 16); got query a float64 tensor of shape (2, 6, 5)",
    ),
    "axes": (lambda a: a(X[None]), ValueError, "inputs must all have shape (batch, n, 16)"),
    "a vector": (lambda a: a(X[0, 0]), ValueError, "inputs must all have shape (batch, n, 16)"),
    "axes differ": (lambda a: a(X, X[0], X[0]), ValueError, "inputs must all have shape"),
    "whole numbers": (
        lambda a: a(X.long()),
        TypeError,
        "inputs must be real floating-point tensors; got query a int64",
    ),
    "complex": (lambda a: a(X + 0j), TypeError, "inputs must be real floating-point tensors; got query a complex128"),
    "a list": (lambda a: a([1.0]), TypeError, "inputs must be real floating-point tensors; got query list [1.0]"),
    "key without value": (lambda a: a(X, X), ValueError, "give query alone, or query, key and value"),
    "value without key": (lambda a: a(X, value=X), ValueError, "give query alone, or query, key and value"),
    "key and value": (lambda a: a(X, X, X[:, :3]), ValueError, "key and value must have the same shape"),
    "batches": (lambda a: a(X, X[:1], X[:1]), ValueError, "query and key must have the same batch size"),
    "causal cross-attention": (
        lambda a: a(X, X[:, :3], X[:, :3], is_causal=True),
        ValueError,
        "causal attention needs as many queries as keys, got query (2, 6, 16) and key (2, 3, 16)",
    ),
    "mask of the opposite convention": (
        lambda a: a(X, attn_mask=~LATER),
        ValueError,
        "attn_mask hides every key from some query. True hides, as in torch.nn.MultiheadAttention; for a mask of "
        "scaled_dot_product_attention, where True shows, pass ~mask",
    ),
    "mask of ones": (lambda a: a(X, attn_mask=~ONE), ValueError, "attn_mask hides every key from some query"),
    "mask of infinities": (
        lambda a: a(X, attn_mask=torch.full((LENGTH, LENGTH), -torch.inf)),
        ValueError,
        "attn_mask hides every key from some query",
    ),
    "mask of the future, when causal": (
        lambda a: a(X, attn_mask=~LATER, is_causal=True),
        ValueError,
        "pass ~mask",
    ),
    "masks that hide all together": (
        lambda a: a(X, attn_mask=torch.arange(LENGTH).expand(LENGTH, LENGTH) < 4, key_padding_mask=PADDING),
        ValueError,
        "the masks together hide every key from some query",
    ),
    "masks that hide all together, one of numbers": (
        lambda a: a(
            X,
            attn_mask=torch.where(torch.arange(LENGTH).expand(LENGTH, LENGTH) < 4, -torch.inf, 0.0),
            key_padding_mask=PADDING,
        ),
        ValueError,
        "the masks together hide every key from some query",
    ),
    "mask of numbers of the future, when causal": (
        lambda a: a(X, attn_mask=torch.where(~LATER, -torch.inf, 0.0), is_causal=True),
        ValueError,
        "hide",
    ),
    "no tensor as mask": (lambda a: a(X, attn_mask=[[True]]), TypeError, "attn_mask must be bool"),
    "no tensor as padding": (lambda a: a(X, key_padding_mask=[[True]]), TypeError, "key_padding_mask must be bool"),
    "precision": (lambda a: a(X.float()), TypeError, "inputs must be torch.float64 like the layer"),
    "mask dtype": (
        lambda a: a(X, attn_mask=ONE.long()),
        TypeError,
        "attn_mask must be bool (True: hide this key) or numbers to add to the scores, got a int64 tensor of "
        "shape (6, 6)",
    ),
    "mask shape": (
        lambda a: a(X, attn_mask=ONE[:5]),
        ValueError,
        "attn_mask must have shape (queries, keys) = (6, 6) or (batch * heads, queries, keys) = (4, 6, 6), got a bool "
        "tensor of shape (5, 6)",
    ),
    "mask per batch": (lambda a: a(X, attn_mask=ONE.expand(2, 6, 6)), ValueError, "attn_mask must have shape"),
    "padding dtype": (
        lambda a: a(X, key_padding_mask=PADDING.long()),
        TypeError,
        "key_padding_mask must be bool (True: ignore this key), or numbers 0 and -inf, got a int64 tensor",
    ),
    "padding shape": (
        lambda a: a(X, key_padding_mask=PADDING[:, :5]),
        ValueError,
        "key_padding_mask must have shape (batch, keys) = (2, 6), got a bool tensor of shape (2, 5)",
    ),
    "padding of the opposite convention": (
        lambda a: a(X, key_padding_mask=torch.ones_like(PADDING)),
        ValueError,
        "key_padding_mask hides every token of a sequence; True means: ignore this key",
    ),
}


@pytest.mark.parametrize("mode", ["feature", "bundle"])
@pytest.mark.parametrize("case", INPUTS)
def test_invalid_inputs_raise_and_are_named(case: str, mode: str) -> None:
    call, error, message = INPUTS[case]
    with pytest.raises(error, match="^Attention: .*" + re.escape(message)):
        call(make({"mode": mode}))


def test_message_shows_the_order_of_axes() -> None:
    with pytest.raises(ValueError, match=re.escape("inputs must all have shape (n, batch, 16), or all (n, 16)")):
        make({}, batch_first=False)(wrong(X[..., :5]))


def test_representation_attention_takes_no_mask() -> None:
    attention = make({"mode": "representation"})
    for masks in ({"attn_mask": LATER}, {"key_padding_mask": PADDING}):
        with pytest.raises(ValueError, match=r"^Attention: mode 'representation' .* takes no mask"):
            attention(X, **masks)

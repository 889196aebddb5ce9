"""Nested tensors: every sequence has the same result as alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.nn.common import EMBED, LENGTH, PLAIN, form_of, label, make, tokens

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

LENGTHS = (3, LENGTH, 1, 4)
LAYOUTS = [torch.jagged, torch.strided]
VARIANTS: list[dict[str, Any]] = [*PLAIN, {"mode": "feature", "window": 3}]
CAUSAL = [variant for variant in VARIANTS if variant["mode"] != "dense"]


def sequences(seed: int = 3, lengths: tuple[int, ...] = LENGTHS) -> list[Tensor]:
    drawn = tokens(batch=len(lengths), seed=seed)
    return [x[:n].clone().requires_grad_() for x, n in zip(drawn, lengths, strict=True)]


def nest(parts: list[Tensor], layout: torch.layout) -> Tensor:
    nested: Tensor = torch.nested.as_nested_tensor(parts, layout=layout)
    return nested


def gradients(outputs: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(sum(out.square().sum() for out in outputs), inputs))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_self_attention_equals_that_of_each_sequence(variant: dict[str, Any], layout: torch.layout) -> None:
    attention, parts = make(variant), sequences()
    out = attention(nest(parts, layout))
    assert out.layout == layout
    want = [attention(x) for x in parts]
    for got, expected in zip(out.unbind(), want, strict=True):
        torch.testing.assert_close(got, expected)
    trained = [*parts, attention.out_proj.weight, form_of(attention).weights.matrix]
    for got, expected in zip(gradients(list(out.unbind()), trained), gradients(want, trained), strict=True):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("how", ["layer", "call", "mask"])
@pytest.mark.parametrize("variant", CAUSAL, ids=label)
def test_later_tokens_of_a_nested_sequence_have_no_influence(variant: dict[str, Any], how: str) -> None:
    attention, parts = make(variant, is_causal=how == "layer"), sequences()
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if how == "mask" else None
    if variant["mode"] == "representation":
        mask = None  # takes no mask
    x = nest(parts, torch.jagged)
    out, _ = attention(x, x, x, attn_mask=mask, is_causal=how == "call")
    for number, part in enumerate(parts):
        causal = make(variant, is_causal=True)
        torch.testing.assert_close(out.unbind()[number], causal(part))
        for t in range(len(part)):
            found = torch.autograd.grad(out.unbind()[number][t].sum(), parts, retain_graph=True)
            assert not found[number][t + 1 :].any()
            assert found[number][t].any()
            assert not any(other.any() for i, other in enumerate(found) if i != number)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_cross_attention_and_weights_equal_those_of_each_sequence(variant: dict[str, Any], batch_first: bool) -> None:
    attention = make(variant, batch_first=batch_first)
    single = make(variant)
    lengths = LENGTHS if variant["mode"] == "representation" else (2, 5, LENGTH, 1)
    queries, keys = sequences(), sequences(5, lengths)
    query, key = nest(queries, torch.jagged), nest(keys, torch.jagged)
    for average in (True, False):
        out, weights = attention(query, key, key, average_attn_weights=average)
        for i, (q, k) in enumerate(zip(queries, keys, strict=True)):
            want, want_weights = single(q, k, k, average_attn_weights=average)
            torch.testing.assert_close(out.unbind()[i], want)
            own = weights[i] if average else weights[i].transpose(0, 1)
            want_weights = want_weights if average else want_weights.transpose(0, 1)
            assert not own[len(q) :].any()
            if variant["mode"] == "representation":
                torch.testing.assert_close(own[: len(q)], want_weights)
            else:
                torch.testing.assert_close(own[: len(q), ..., : len(k)], want_weights)
                assert not own[..., len(k) :].any()


def test_output_can_be_added_to_the_input() -> None:
    x = nest(sequences(), torch.jagged)
    assert (x + make({})(x)).is_nested  # needs the same offsets


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", [(0, 2), (0, 0)])
def test_empty_sequences_stay_empty(layout: torch.layout, lengths: tuple[int, int]) -> None:
    attention, parts = make({}), sequences(lengths=lengths)
    out = attention(nest(parts, layout)).unbind()
    assert [tuple(x.shape) for x in out] == [(n, EMBED) for n in lengths]
    if lengths[1]:
        torch.testing.assert_close(out[1], attention(parts[1]))


def test_invalid_calls_with_nested_tensors_raise() -> None:
    attention, x, y = make({}, is_causal=True), nest(sequences(), torch.jagged), nest(sequences(), torch.strided)
    padding = torch.zeros(len(LENGTHS), LENGTH, dtype=torch.bool)
    for arguments, options in (((x, x, x), {"key_padding_mask": padding}), ((x,), {"cache": attention.new_cache()})):
        with pytest.raises(ValueError, match=r"^Attention: nested tensors take neither"):
            attention(*arguments, **options)
    with pytest.raises(TypeError, match=r"^Attention: .* must all be nested"):
        attention(x, tokens(batch=4), tokens(batch=4))
    shorter = nest(sequences(lengths=(2, 2, 1, 1)), torch.jagged)
    with pytest.raises(ValueError, match=r"^Attention: causal attention needs as many queries as keys"):
        attention(x, shorter, shorter)
    with pytest.raises(ValueError, match=r"^Attention: (nested )?key and value must have"):
        make({})(x, shorter, x)
    empty = nest(sequences(lengths=(0, 2, 1, 1)), torch.jagged)
    with pytest.raises(ValueError, match=r"^Attention: queries .* need at least one key"):
        make({})(x, empty, empty)
    with pytest.raises(ValueError, match=r"^Attention: expected at most max_len=6 tokens, got 7"):
        attention(nest([torch.zeros(7, EMBED, dtype=torch.float64)], torch.jagged))
    with pytest.raises(ValueError, match=r"^Attention: inputs must all have shape"):
        attention(nest([torch.zeros(3, EMBED + 1, dtype=torch.float64)], torch.jagged))
    assert attention(y).is_nested  # negative control

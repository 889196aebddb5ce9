"""Causality: no output has a derivative with respect to a later input, in any variant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.helpers import generator
from tests.nn.common import CAUSAL, LENGTH, TOGETHER, VARIANTS, label, make, tokens

DENSE = [variant for variant in VARIANTS if variant["mode"] == "dense"]
# Each mode with many options, where testing every variant would take too long.
RICH: list[dict[str, Any]] = [
    {"mode": "feature"},
    {"mode": "feature", "position_sharing": "different", "trainable_positions": True, **TOGETHER},
    {"mode": "feature", "position_sharing": "qkv", "weights": "unitary", "window": 2},
    {"mode": "row", "position_sharing": "head", "trainable_positions": True, "trainable_phases": True},
    {"mode": "bundle", "position_sharing": "different", "trainable_positions": True, "normalize_rows": True},
]
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)  # the keys that a causal mask hides


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
def test_causal_flag_or_mask_of_a_call_gives_causal_attention(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    assert_causal(lambda x: attention(x, is_causal=True))
    assert_causal(lambda x: attention(x, x, x, need_weights=True, is_causal=True)[0])
    assert_causal(lambda x: attention(x, attn_mask=LATER))
    causal = make(variant, is_causal=True)
    for y in (attention(x, is_causal=True), attention(x, attn_mask=LATER), causal(x), causal(x, attn_mask=LATER)):
        torch.testing.assert_close(y, causal(x))
    with pytest.raises(AssertionError, match="the future is seen"):  # negative control: no flag and no mask
        assert_causal(attention)


@pytest.mark.parametrize("variant", RICH, ids=label)
@pytest.mark.parametrize("batch_first", [True, False])
def test_masks_keep_attention_causal(variant: dict[str, Any], batch_first: bool) -> None:
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
def test_attention_is_causal_with_each_kernel_of_torch(variant: dict[str, Any], backend: SDPBackend) -> None:
    attention, x = make(variant, is_causal=True), tokens()
    want = attention(x)
    with sdpa_kernel(backend):
        torch.testing.assert_close(attention(x), want, rtol=0, atol=1e-12)
        assert_causal(attention)


@pytest.mark.parametrize("variant", [RICH[1], RICH[3], RICH[4]], ids=label)
def test_compiled_attention_is_causal(variant: dict[str, Any]) -> None:
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
def test_causal_mask_does_not_make_dense_mode_causal(variant: dict[str, Any]) -> None:
    attention = make(variant)
    with pytest.raises(AssertionError, match="the future is seen"):
        assert_causal(lambda x: attention(x, attn_mask=LATER))


def test_bundle_mode_is_causal_through_zeros_of_its_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    attention = make({"mode": "bundle"}, is_causal=True)
    assert_causal(attention)
    monkeypatch.setattr(attention.form, "causal", False)
    with pytest.raises(AssertionError, match="the future is seen"):
        assert_causal(attention)


def test_check_of_causality_finds_a_layer_that_ignores_the_past() -> None:
    with pytest.raises(AssertionError, match="the past is not seen"):
        assert_causal(make({"mode": "representation"}))


def test_causal_dense_mode_raises() -> None:
    with pytest.raises(ValueError, match=r"^Attention: mode 'dense' cannot be causal, since each row"):
        make({"mode": "dense"}, is_causal=True)
    attention, x = make({"mode": "dense"}), tokens()
    for call in (lambda: attention(x, is_causal=True), lambda: attention(x, x, x, is_causal=True)):
        with pytest.raises(ValueError, match=r"^Attention: mode 'dense' cannot be causal"):
            call()
    with pytest.raises(ValueError, match="a cache needs a causal layer"):
        attention.new_cache()

"""Mode "path" in use: causality, caches, padding, packed sequences, precision, compilers, layers of torch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ghrr.nn import Attention
from ghrr.nn.forget_gate import FEATURES, fold
from ghrr.nn.functional import softmax_of_scores
from tests.helpers import generator
from tests.nn.common import EMBED, HEADS, LENGTH, form_of, label, tokens
from tests.nn.test_cache import decode
from tests.nn.test_causality import assert_causal
from tests.nn.test_path import GATED, VARIANTS, make_causal

ALL = [*VARIANTS, *GATED]
RICH: dict[str, Any] = GATED[4]  # grouped heads, three reflections and a gate


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_no_output_depends_on_a_later_input(variant: dict[str, Any]) -> None:
    attention = make_causal(variant)
    assert_causal(attention)
    with pytest.raises(AssertionError, match="the future is seen"):  # negative control: the sequence backwards
        assert_causal(lambda x: attention(x.flip(1)).flip(1))


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_chunks_with_a_cache_equal_one_pass(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant, max_len=20), tokens(20)
    for pieces in ([1] * 20, [0, 9, 1, 10], [20, 0]):
        torch.testing.assert_close(decode(attention, x, pieces), attention(x), rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_cache_can_be_cropped_and_reordered(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant, max_len=99), tokens(99)
    other = x.flip(0)
    cache = attention.new_cache()
    for piece in x[:, :80].split([70, 10], dim=1):
        attention(piece, cache=cache)
    attention(other[:, 80:90], cache=cache)
    cache.crop(80)
    torch.testing.assert_close(attention(x[:, 80:90], cache=cache), attention(x[:, :90])[:, 80:], rtol=0, atol=1e-10)
    cache.select(torch.tensor([1, 1]))
    want = attention(x[[1, 1]])[:, 90:]
    torch.testing.assert_close(attention(x[[1, 1], 90:], cache=cache), want, rtol=0, atol=1e-10)
    cache.crop(0)
    torch.testing.assert_close(attention(x[:, :5], cache=cache), attention(x[:, :5]), rtol=0, atol=1e-10)


def test_cache_of_paths_is_small_and_crops_64_tokens_only() -> None:
    attention, x = make_causal({"mode": "path"}, max_len=99), tokens(99)
    cache = attention.new_cache()
    attention(x, cache=cache)
    assert cache.paths is not None
    assert cache.paths.shape[1] == 64
    with pytest.raises(
        ValueError, match=r"^AttentionCache.crop: at most 63 tokens can be removed here, got 64; crop more"
    ):
        cache.crop(35)
    with pytest.raises(
        ValueError, match=r"^AttentionCache.crop: length must not exceed 99, the tokens so far, got 100"
    ):
        cache.crop(100)
    cache.crop(36)
    torch.testing.assert_close(attention(x[:, 36:], cache=cache), attention(x)[:, 36:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("mode", ["feature", "row", "bundle"])
def test_caches_of_other_modes_are_cropped_or_refuse(mode: str) -> None:
    attention, x = make_causal({"mode": mode}), tokens()
    cache = attention.new_cache()
    attention(x, cache=cache)
    if mode == "bundle":
        with pytest.raises(
            ValueError, match=r"^AttentionCache.crop: rows that bundle several tokens cannot be removed"
        ):
            cache.crop(3)
        return
    cache.crop(3)
    torch.testing.assert_close(attention(x[:, 3:], cache=cache), attention(x)[:, 3:], rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_padding_anywhere_equals_a_sequence_without_it(variant: dict[str, Any]) -> None:
    x = tokens()
    padding = torch.tensor([[True, False, False, True, False, True]] * 2)
    for attention in (make_causal(variant), make_causal({**variant, "forget_gate": True})):
        out = attention(x, key_padding_mask=padding)[:, ~padding[0]]
        same = torch.allclose(out, attention(x[:, ~padding[0]]), rtol=0, atol=1e-10)
        assert same == (not variant.get("rotary_scores"))  # rotary positions count padding
        changed = torch.where(padding[..., None], x + 1, x)
        torch.testing.assert_close(attention(changed, key_padding_mask=padding)[:, ~padding[0]], out, rtol=0, atol=0)


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_paths_start_anew_in_each_packed_sequence(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant), tokens()[0]
    parts = [x[:2], x[2:]]
    want = torch.cat([attention(part) for part in parts])
    document = torch.tensor([0, 0, 1, 1, 1, 1])
    masked = attention(x, attn_mask=document[:, None] != document)
    torch.testing.assert_close(masked, want, rtol=0, atol=1e-10)
    nested = attention(torch.nested.as_nested_tensor(parts, layout=torch.jagged))
    torch.testing.assert_close(torch.cat(nested.unbind()), want, rtol=0, atol=1e-12)
    if form_of(attention).steps is not None:
        assert not torch.allclose(attention(x), want, atol=1e-3)  # negative control: one sequence


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_nan_stays_in_its_row_of_the_batch(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant), tokens()
    damaged = x.clone()
    damaged[0, 2] = torch.nan
    out = attention(damaged)
    assert torch.equal(out[1], attention(x)[1])
    assert out[0, 2:].isnan().any(dim=-1).all()


# ------------------------------------------------------------------------------------------------------------ precision


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_paths_are_computed_in_single_precision_under_autocast(variant: dict[str, Any]) -> None:
    torch.manual_seed(0)
    attention = Attention(64, 4, max_len=512, is_causal=True, **{"angle_std": 1.0} | variant)
    x = torch.randn(1, 512, 64, generator=generator())
    form = form_of(attention)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        if form.steps is not None:
            assert form.steps(x, None).dtype == torch.complex64
            assert torch.equal(form.steps(x, None), torch.autocast("cpu", enabled=False)(form.steps)(x, None))
        rounded = attention(x)
    want = attention(x).detach()
    assert (rounded - want).abs().max() < 8 * torch.finfo(torch.bfloat16).eps * want.abs().max()


@pytest.mark.parametrize("variant", ALL, ids=label)
def test_16_bit_layer_keeps_steps_and_gates_in_32_bits(variant: dict[str, Any]) -> None:
    torch.manual_seed(0)
    attention = Attention(64, 4, max_len=64, is_causal=True, **variant)
    x = torch.randn(1, 64, 64, generator=generator())
    cast = copy.deepcopy(attention).bfloat16()
    for part in (form_of(cast).steps, form_of(cast).gate):
        assert part is None or {p.dtype for p in part.parameters()} == {torch.float32}
    want = attention(x).detach()
    assert (cast(x.bfloat16()).float() - want).abs().max() < 8 * torch.finfo(torch.bfloat16).eps * want.abs().max()


def test_folded_gate_is_exact_enough_in_16_bits() -> None:
    sums = (-torch.rand(1, 2, 4096, generator=generator())).double().cumsum(dim=-1)  # to about -2,000
    rows = torch.zeros(1, 2, 4096, 8, dtype=torch.bfloat16)
    q, k, v = fold(rows, rows, rows, sums.float())
    wanted = sums[..., :, None] - sums[..., None, :]
    error = (q.double() @ k.double().mT - wanted).abs().max()
    assert error < 0.01
    assert v.shape[-1] == 8 + FEATURES
    rounded = sums.to(torch.bfloat16).double()  # negative control: one number in 16 bits
    assert (rounded[..., :, None] - rounded[..., None, :] - wanted).abs().max() > 1


# -------------------------------------------------------------------------------------------------------------- modules


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")  # of torch's own attention
@pytest.mark.parametrize("variant", ALL, ids=label)
def test_layer_supports_vmap_and_grad(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant), torch.stack((tokens(), tokens(seed=9)))
    torch.testing.assert_close(torch.vmap(attention)(x), torch.stack([attention(one) for one in x]))
    leaf = x[0].clone().requires_grad_()
    attention(leaf).square().sum().backward()
    torch.testing.assert_close(torch.func.grad(lambda z: attention(z).square().sum())(x[0]), leaf.grad)


@pytest.mark.parametrize("variant", [VARIANTS[2], RICH], ids=label)
def test_compiled_layer_equals_eager_layer(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant), tokens()
    torch.compiler.reset()
    compiled = torch.compile(attention, backend="aot_eager", fullgraph=True)
    gradients = []
    for call in (compiled, attention):
        attention.zero_grad()
        out = call(x)
        out.square().sum().backward()
        gradients.append([out.detach(), *(p.grad for p in attention.parameters())])
    torch.compiler.reset()
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("variant", [VARIANTS[0], RICH], ids=label)
def test_weights_are_those_of_the_output(variant: dict[str, Any]) -> None:
    attention, x = make_causal({**variant, "transport": "scores"}), tokens()
    out, weights = attention(x, x, x, average_attn_weights=False)
    q, k, v = attention.form(attention.phases, [x], [None], attention.log_scale, None)
    repeats = HEADS // attention.num_kv_heads
    torch.testing.assert_close(weights, softmax_of_scores(q, k.repeat_interleave(repeats, 1), None, is_causal=True))
    joined = attention.form.join_heads(weights @ v.repeat_interleave(repeats, 1))
    torch.testing.assert_close(attention.out_proj(joined), out)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("variant", [VARIANTS[2], RICH], ids=label)
def test_encoder_of_torch_equals_its_modules_called_by_hand(variant: dict[str, Any], training: bool) -> None:
    layer = nn.TransformerEncoderLayer(EMBED, HEADS, 32, dropout=0.0, batch_first=True, dtype=torch.float64)
    layer.self_attn = make_causal(variant)  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="_qkv_same_embed_dim was not True"):
        encoder = nn.TransformerEncoder(layer, 2).train(training)
    x, padding = tokens(), torch.tensor([[False] * LENGTH, [False] * 4 + [True] * 2])
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
    out = encoder(x, mask=mask, src_key_padding_mask=padding.double().masked_fill(padding, -torch.inf))

    def by_hand(y: Tensor) -> Tensor:
        for one in encoder.layers:
            assert isinstance(one, nn.TransformerEncoderLayer)
            y = one.norm1(y + one.self_attn(y))
            y = one.norm2(y + one.linear2(one.linear1(y).relu()))
        return y

    torch.testing.assert_close(out[0], by_hand(x[:1])[0])
    torch.testing.assert_close(out[1, :4], by_hand(x[1:, :4])[0])


def test_dropout_applies_to_weights_in_training_only() -> None:
    attention, x = make_causal({"mode": "path"}, dropout=0.5), tokens()
    assert not torch.equal(attention(x), attention(x))
    assert torch.equal(attention.eval()(x), attention(x))

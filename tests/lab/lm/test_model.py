"""The model: causality, caches, positions by their formulas, number of parameters, settings."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.nn import Attention, AttentionConfig
from ghrr_lab.lm import Model, ModelConfig, match_parameters
from ghrr_lab.lm.model import DotProduct, Layer
from tests.helpers import generator, rounding
from tests.lab.lm.common import ATTENTIONS, SMALL, new_model, random_tokens, small_config, small_model

MAX_LEN = 8
EACH = pytest.mark.parametrize("name", ATTENTIONS)


def gradients(model: Model) -> Tensor:
    """Norm of the derivative of a combination of the logits at t with respect to the embedding at s: ``(t, s)``."""
    length = model.config.max_len
    held: list[Tensor] = []

    def hold(_: Any, __: Any, output: Tensor) -> Tensor:
        held.append(output.detach().requires_grad_())
        return held[-1]

    handle = model.embedding.register_forward_hook(hold)
    logits = model(random_tokens(2, length))
    handle.remove()
    weights = torch.randn(logits.shape[-1], dtype=logits.dtype, generator=generator())
    rows = [torch.autograd.grad((logits[:, t] @ weights).sum(), held[0], retain_graph=True)[0] for t in range(length)]
    return torch.stack([row.norm(dim=-1).sum(dim=0) for row in rows])


@EACH
@pytest.mark.parametrize("training", [False, True])
def test_no_derivative_with_respect_to_later_tokens(name: str, training: bool) -> None:
    found = gradients(small_model(name, dropout=0.1).train(training))
    assert found.dtype == torch.float64
    assert (found.triu(1) == 0).all()  # exactly
    if not training:  # dropout can remove all paths from s to t
        assert (found.tril() > 0).sum() == MAX_LEN * (MAX_LEN + 1) / 2


@pytest.mark.parametrize("name", ["vanilla", "rope", "feature", "row", "bundle"])
def test_check_of_causality_finds_a_leak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.nn.functional.scaled_dot_product_attention

    def leaky(*arguments: Any, is_causal: bool = False, **settings: Any) -> Tensor:
        return real(*arguments, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", leaky)
    assert (gradients(small_model(name)).triu(1) > 0).sum() == MAX_LEN * (MAX_LEN - 1) / 2


@EACH
@pytest.mark.parametrize("pieces", [(1,) * MAX_LEN, (3, 1, 4), (8,)])
def test_cache_gives_the_logits_of_one_pass(name: str, pieces: tuple[int, ...]) -> None:
    model, tokens = small_model(name), random_tokens(2, MAX_LEN)
    cache = model.new_cache()
    parts = [model(piece, cache) for piece in tokens.split(pieces, dim=1)]
    assert all(layer.length == MAX_LEN for layer in cache)
    torch.testing.assert_close(torch.cat(parts, dim=1), model(tokens), rtol=1e-9, atol=1e-9)
    alone = torch.cat(
        [model(piece) for piece in tokens.split(pieces, dim=1)], dim=1
    )  # negative control: without a cache
    assert (len(pieces) == 1) == torch.allclose(alone, model(tokens), atol=1e-3)


@EACH
def test_logits_depend_on_the_order_of_tokens(name: str) -> None:
    model, tokens = small_model(name), random_tokens(1, MAX_LEN)
    swapped = tokens[:, [1, 0, *range(2, MAX_LEN)]]
    assert not torch.allclose(model(tokens)[:, -1], model(swapped)[:, -1], atol=1e-4)


@EACH
def test_tokens_beyond_max_len_raise_and_leave_the_cache_unchanged(name: str) -> None:
    model, message = small_model(name), r"^Model: expected at most max_len=8 tokens, got 9"
    with pytest.raises(ValueError, match=message):
        model(random_tokens(1, MAX_LEN + 1))
    cache = model.new_cache()
    model(random_tokens(1, 6), cache)
    with pytest.raises(ValueError, match=message):
        model(random_tokens(1, 3), cache)
    assert model(random_tokens(1, 2), cache).shape == (1, 2, 20)


@pytest.mark.parametrize("tokens", [torch.zeros(3).long(), torch.zeros(1, 2, 3).long(), torch.zeros(2, 3)])
def test_invalid_tokens_raise(tokens: Tensor) -> None:
    with pytest.raises(ValueError, match=r"^Model: tokens must be integers of shape \(batch, n\), got "):
        small_model()(tokens)


def test_vanilla_adds_sinusoids_to_the_embedding() -> None:
    model, tokens, width = small_model("vanilla"), random_tokens(3, MAX_LEN), 16
    expected = torch.empty(MAX_LEN, width, dtype=torch.float64)
    for t in range(MAX_LEN):
        for i in range(width // 2):
            angle = t / 10000 ** (2 * i / width)
            expected[t, 2 * i], expected[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    torch.testing.assert_close(model.sinusoids, expected, rtol=0, atol=rounding(torch.float32))
    seen: list[Tensor] = []
    model.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(tokens)
    plain = model.embedding(tokens) * 4  # the square root of the width
    torch.testing.assert_close(seen[0], plain + model.sinusoids, rtol=0, atol=1e-12)
    others = small_model("rope")
    others.layers[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    others(tokens)
    torch.testing.assert_close(seen[1], others.embedding(tokens) * 4, rtol=0, atol=0)


@pytest.mark.parametrize("rotary", [True, False])
def test_dot_product_attention_equals_its_formula(rotary: bool) -> None:
    """Features k and k + size/2 are a complex number, rotated by the angle j / 10000^(k / (size/2))."""
    heads, size = 2, 8
    layer = DotProduct(small_config(), rotary=rotary).double()
    x = torch.randn(3, MAX_LEN, heads * size, dtype=torch.float64, generator=generator())
    expected = torch.zeros_like(x)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        q, k, v = (part[..., own] for part in layer.in_proj(x).chunk(3, dim=-1))
        frequencies = torch.tensor([10000 ** (-i / (size // 2)) for i in range(size // 2)], dtype=torch.float64)
        rotations = torch.polar(torch.ones(()).double(), torch.arange(MAX_LEN)[:, None] * frequencies)
        rotations = rotations if rotary else torch.ones_like(rotations)
        q, k = (torch.complex(part[..., : size // 2], part[..., size // 2 :]) * rotations for part in (q, k))
        for t in range(MAX_LEN):
            scores = (q[:, t : t + 1] * k[:, : t + 1].conj()).sum(dim=-1).real / math.sqrt(size)
            expected[:, t, own] = (torch.softmax(scores, dim=-1)[..., None] * v[:, : t + 1]).sum(dim=1)
    torch.testing.assert_close(layer(x), layer.out_proj(expected), rtol=0, atol=rounding(torch.float32, terms=MAX_LEN))


@EACH
def test_attention_weights_are_those_of_the_forward_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(name).eval()
    tokens = random_tokens(2, MAX_LEN - 1)
    real = torch.nn.functional.scaled_dot_product_attention
    used = []

    def recorded(q: Tensor, k: Tensor, v: Tensor, **settings: Any) -> Tensor:
        """Replace the values by the identity matrix: the output is then the weights."""
        identity = torch.eye(k.shape[-2], dtype=v.dtype).expand(*k.shape[:-1], k.shape[-2])
        used.append(real(q, k, identity, **settings))
        return real(q, k, v, **settings)

    weights = model.attention_weights(tokens)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    model(tokens)
    torch.testing.assert_close(weights, torch.stack(used).detach())
    assert weights.shape == (2, 2, 2, MAX_LEN - 1, MAX_LEN - 1)
    assert not weights.requires_grad
    assert (weights.triu(1) == 0).all()


def test_rotary_scores_depend_on_distances_only() -> None:
    tokens = torch.full((1, MAX_LEN), 3)
    rope, vanilla = (small_model(name).hidden(tokens) for name in ("rope", "vanilla"))
    torch.testing.assert_close(rope[:, 1:], rope[:, :1].expand(-1, MAX_LEN - 1, -1), rtol=0, atol=1e-9)
    assert not torch.allclose(vanilla[:, 1], vanilla[:, 0], atol=1e-2)


def test_output_is_tied_to_the_embedding_and_losses_are_summed() -> None:
    model, tokens, targets = small_model("feature"), random_tokens(3, MAX_LEN), random_tokens(3, MAX_LEN, seed=1)
    logits = model(tokens)
    expected = model.hidden(tokens) @ model.embedding.weight.T + model.output_bias
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
    losses = torch.logsumexp(logits, -1) - logits.gather(-1, targets[..., None])[..., 0]
    tolerance = rounding(torch.float32, terms=targets.numel())
    assert model.loss(tokens, targets).item() == pytest.approx(losses.sum().item(), rel=tolerance)
    some = torch.rand(targets.shape, generator=generator()) < 0.5
    partly = model.loss(tokens, torch.where(some, targets, -1)).item()
    assert partly == pytest.approx(losses[some].sum().item(), rel=tolerance)


def test_number_of_parameters_follows_the_formulas() -> None:
    v, w, layers, h, f, context = 50, 24, 3, 2, 10, 7
    settings: dict[str, Any] = {
        **{"vocab_size": v, "embed_dim": w, "num_layers": layers, "num_heads": h, "ffn_dim": f, "max_len": context}
    }
    norm, feed_forward = 2 * w, 2 * w * f + f + w
    around = v * w + v + norm + layers * (2 * norm + feed_forward)
    dot_product = 4 * w * w + 4 * w
    m = w // (2 * h)
    # W on 2h slots, bias, scale of the scores, output
    feature = 3 * h * (2 * h) * m * m * 2 + 3 * h * m * 2 + h + 2 * h * m * w + w
    row = 3 * h * context * context * 2 + h + 2 * h * context * w + w
    trained = 3 * h * context * context * 2  # e_j r_j for query, key and value of each head
    expected: dict[int, dict[str, Any]] = {
        around + layers * dot_product: {"attention": "vanilla"},
        around + layers * feature: {"attention": "ghrr"},
        around + layers * (feature + m): {"attention": "ghrr", "trainable_positions": True},
        around + layers * row: {"mode": "row"},
        around + layers * (row + trained): {
            **{"mode": "row", "position_sharing": "different", "trainable_positions": True}
        },
    }
    for count, options in expected.items():
        assert Model(ModelConfig(**settings, **options)).parameter_count == count
    assert Model(ModelConfig(**settings, attention="rope")).parameter_count == around + layers * dot_product


@EACH
@pytest.mark.parametrize("count", [6_000, 25_001])
def test_match_parameters_gets_within_half_a_unit(name: str, count: int) -> None:
    config = small_config(name)
    matched = match_parameters(config, count)
    unit = config.num_layers * (2 * config.embed_dim + 1)
    assert abs(Model(matched).parameter_count - count) <= unit / 2
    assert dataclasses.replace(matched, ffn_dim=config.ffn_dim) == config


def test_match_parameters_raises_below_the_smallest_model() -> None:
    least = Model(small_config(ffn_dim=1)).parameter_count
    assert match_parameters(small_config(), least).ffn_dim == 1
    with pytest.raises(ValueError, match=f"count must be at least {least:,}, .* got 100$"):
        match_parameters(small_config(), 100)


def test_frequencies_differ_between_layers_and_seeds() -> None:
    def drawn(**settings: Any) -> list[Tensor]:
        state = small_model("feature", **settings).state_dict()
        return [state[f"layers.{i}.attention.phases.frequencies"] for i in range(2)]

    assert len({tuple(f.flatten().tolist()) for f in (*drawn(), *drawn(seed=1))}) == 4
    assert all(map(torch.equal, drawn(), drawn(weight_seed=5)))


@pytest.mark.parametrize(("name", "weight"), [("rope", "in_proj.weight"), ("feature", "form.weights.matrix")])
def test_qk_gain_scales_initial_weights_of_queries_and_keys(name: str, weight: str) -> None:
    plain, small = (new_model(name, qk_gain=gain).state_dict() for gain in (1.0, 2.0))
    for key, value in plain.items():
        parts = value.chunk(3) if key.endswith(weight) else (value,)
        gains = (2.0, 2.0, 1.0) if key.endswith(weight) else (1.0,)
        assert torch.equal(small[key], torch.cat([gain * part for gain, part in zip(gains, parts, strict=True)]))
    assert sum(key.endswith(weight) for key in plain) == SMALL["num_layers"]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"embed_dim": 18, "num_heads": 2},
            ValueError,
            "embed_dim must be a multiple of 2 x num_heads = 4",
        ),
        ({"vocab_size": 0}, ValueError, "ModelConfig: vocab_size must be a whole number of at least 1, got 0"),
        ({"num_layers": 1.5}, TypeError, "ModelConfig: num_layers must be a whole number, got float 1.5"),
        ({"num_heads": True}, TypeError, "ModelConfig: num_heads must be a whole number, got bool True"),
        ({"ffn_dim": 0}, ValueError, "ModelConfig: ffn_dim must be"),
        ({"max_len": 0}, ValueError, "ModelConfig: max_len must be"),
        ({"dropout": 1.5}, ValueError, "ModelConfig: dropout must lie in [0.0, 1.0], got 1.5"),
        (
            {"mode": "representation", "attention": "ghrr"},
            ValueError,
            "ModelConfig: mode must be one of 'feature'",
        ),
        ({"mode": "dense", "attention": "ghrr"}, ValueError, "ModelConfig: mode 'dense' cannot be causal"),
        ({"is_causal": False}, ValueError, "ModelConfig: is_causal must be True, got False"),
        ({"attention": "linear"}, ValueError, "got 'linear'"),
        ({"qk_gain": -1.0}, ValueError, "ModelConfig: qk_gain must lie in (0.0, inf), got -1.0"),
    ],
)
def test_invalid_configs_raise_and_are_named(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        small_config(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"position_sharing": "none"},
            "ModelConfig: position_sharing must be one of 'all', 'qkv', 'head'",
        ),
        ({"weights": "free"}, "ModelConfig: weights must be one of 'relaxed', 'unitary'"),
        ({"window": 0}, "ModelConfig: window must be a whole number of at least 1"),
        ({"phase_std": 0.0}, "ModelConfig: phase_std must lie in (0.0, inf)"),
        ({"mode": "row", "m": 3}, "ModelConfig: mode 'row' needs m >= max_len"),
    ],
)
def test_invalid_settings_of_attention_raise_and_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        small_config("feature", **settings)


def test_every_ghrr_setting_reaches_the_layer_and_is_refused_for_rope() -> None:
    other: dict[str, Any] = {
        "num_kv_heads": 1,
        "m": 4,
        "position_sharing": "different",
        "trainable_positions": True,
        "position_values": True,
        "trainable_phases": True,
        "phase_std": 0.3,
        "split_inputs": True,
        "mix_slots": False,
        "window": 2,
        "weights": "unitary",
        "normalize_rows": True,
        "mode": "bundle",
    }
    of_paths: dict[str, Any] = {
        "transport": "values",
        "reflections": 2,
        "slots": 3,
        "path_rank": 8,
        "angle_std": 0.2,
        "rotary_scores": True,
        "forget_gate": True,
    }
    common = {"embed_dim", "num_heads", "max_len", "dropout", "is_causal", "qk_gain", "seed"}
    assert other.keys() | of_paths.keys() == {field.name for field in dataclasses.fields(AttentionConfig)} - common
    for name, value in (other | of_paths).items():
        needed = {"mode": "path", "transport": "values"} if name in of_paths else {}
        layer = Layer(small_config("feature", **needed | {name: value}), 0).attention
        assert isinstance(layer, Attention)
        assert getattr(layer.config, name) == value != getattr(small_config("feature"), name)
        with pytest.raises(ValueError, match=f"ModelConfig: {name}={value!r} needs attention 'ghrr', got 'rope'"):
            small_config("rope", **{name: value})

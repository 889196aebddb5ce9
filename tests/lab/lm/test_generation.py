"""Generation: the cache changes nothing, the context can be exceeded, and the generator determines the text."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr_lab.lm import Model, generate
from tests.helpers import STANDARD_ERRORS, generator, wrong
from tests.lab.lm.common import ATTENTIONS, Stop, random_tokens, small_model


def varied_model(name: str) -> Model:
    """Make a model that does not repeat one token, since repetition would hide errors of the cache."""
    model = small_model(name)
    with torch.no_grad():
        model.norm.weight.neg_()  # makes the last token the least likely
    return model


def recompute(model: Model, prompt: Tensor, count: int) -> Tensor:
    """Add the most likely token ``count`` times without a cache, with the same windows as ``generate``."""
    tokens, start = prompt, max(0, prompt.shape[1] - model.config.max_len)
    for _ in range(count):
        if tokens.shape[1] - start > model.config.max_len:
            start = tokens.shape[1] - model.config.max_len // 2  # start again from the most recent half
        tokens = torch.cat((tokens, model(tokens[:, start:])[:, -1].argmax(-1, keepdim=True)), dim=1)
    return tokens


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("length", [1, 5, 8, 13])
def test_greedy_generation_equals_generation_without_cache(name: str, length: int) -> None:
    model, prompt = varied_model(name), random_tokens(3, length)
    found = generate(model, prompt, 20, temperature=0.0, generator=generator())
    assert found.shape == (3, length + 20)
    assert torch.equal(found, recompute(model, prompt, 20))
    assert (found[:, length:-1] == found[:, length + 1 :]).float().mean() < 0.5


def test_top_1_and_low_temperature_are_greedy() -> None:
    model, prompt = small_model("feature"), random_tokens(3, 4)
    greedy = generate(model, prompt, 20, temperature=0.0, generator=generator())
    for seed in range(3):
        assert torch.equal(generate(model, prompt, 20, top_k=1, generator=generator(seed)), greedy)
    assert not torch.equal(generate(model, prompt, 20, top_k=5, generator=generator()), greedy)
    cold = generate(model, prompt, 20, temperature=1e-4, generator=generator())
    assert torch.equal(cold, greedy)


def test_generator_determines_text() -> None:
    model, prompt = small_model("rope"), random_tokens(2, 4)
    state = torch.random.get_rng_state()
    one, same, other = (generate(model, prompt, 20, generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(one[:, :4], prompt)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (2.0, None), (0.5, 6), (1.0, 1000)])
def test_tokens_are_sampled_with_their_probabilities(temperature: float, top_k: int | None) -> None:
    model, prompt, count = small_model(), random_tokens(1, 5), 4000
    logits = model(prompt)[0, -1] / temperature
    if top_k is not None:
        logits[logits < logits.sort(descending=True).values[: min(top_k, 20)][-1]] = -torch.inf
    p = torch.softmax(logits, dim=-1)
    settings = {"temperature": temperature, "top_k": top_k}
    sampled = generate(model, prompt.expand(count, -1), 1, **wrong(settings), generator=generator())[:, -1]
    found = torch.bincount(sampled, minlength=20) / count
    assert ((found - p).abs() <= STANDARD_ERRORS * (p * (1 - p) / count).sqrt()).all()
    if top_k == 6:
        assert (found > 0).sum() == 6


def test_generating_zero_tokens_returns_the_prompt() -> None:
    prompt = random_tokens(2, 30)
    assert torch.equal(generate(small_model(), prompt, 0, generator=generator()), prompt)


def test_generation_works_with_a_context_of_one_token() -> None:
    prompt = random_tokens(2, 30)
    assert generate(small_model(max_len=1), prompt, 5, generator=generator()).shape == (2, 35)


def test_generate_disables_dropout_and_restores_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    model, prompt = small_model(dropout=0.5), random_tokens(2, 4)
    expected = generate(model, prompt, 10, generator=generator())
    modes = [model.training]
    assert torch.equal(generate(model.train(), prompt, 10, generator=generator()), expected)
    modes.append(model.training)
    assert modes == [False, True]

    def stop(*_: Any) -> Tensor:
        raise Stop

    monkeypatch.setattr(model, "hidden", stop)
    with pytest.raises(Stop):
        generate(model, prompt, 10, generator=generator())
    assert model.training


@pytest.mark.parametrize(("temperature", "top_k"), [(math.inf, 3), (1e-45, None)])
def test_extreme_temperatures_give_valid_tokens(temperature: float, top_k: int | None) -> None:
    tokens = random_tokens(1, 4)
    generated = generate(small_model(), tokens, 5, temperature=temperature, top_k=top_k, generator=generator())
    assert generated.shape == (1, 9)
    assert (generated >= 0).all()
    assert (generated < 20).all()


def test_default_generator_is_that_of_torch() -> None:
    model, prompt = small_model(), random_tokens(2, 3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one, two = generate(model, prompt, 10), generate(model, prompt, 10)
        torch.manual_seed(0)
        assert torch.equal(generate(model, prompt, 10), one)
    assert not torch.equal(one, two)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"count": -1}, ValueError, "generate: count must be a whole number of at least 0, got -1"),
        ({"count": 1.5}, TypeError, "generate: count must be a whole number, got float 1.5"),
        ({"temperature": -0.1}, ValueError, "generate: temperature must lie in [0.0, inf], got -0.1"),
        ({"temperature": float("nan")}, ValueError, "generate: temperature must lie in"),
        ({"top_k": 0}, ValueError, "generate: top_k must be a whole number of at least 1, got 0"),
        ({"generator": 0}, TypeError, "generate: generator must be a torch.Generator"),
        ({"prompt": torch.zeros(2, 0).long()}, ValueError, "generate: prompt must have shape (batch, n)"),
        ({"prompt": torch.zeros(3).long()}, ValueError, "(batch, n), both at least 1, got (3,)"),
        ({"prompt": torch.zeros(2, 3)}, TypeError, "generate: tokens must be whole numbers, got a float32 tensor"),
        ({"prompt": torch.tensor([[20]])}, ValueError, "generate: tokens must lie in [0, 19], got 20 to 20"),
    ],
)
def test_generate_rejects_invalid_input(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    usual = {"prompt": random_tokens(1, 3), "count": 3, "generator": generator()}
    with pytest.raises(error, match=re.escape(message)):
        generate(small_model(), **wrong({**usual, **settings}))

"""Text from a model: with a cache as without, beyond the context, and the same again from the same generator."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr.lm import Model, generate
from tests.helpers import STANDARD_ERRORS, generator
from tests.lm.common import ATTENTIONS, Stop, random_tokens, small_model, wrong

CONTEXT = 8


def restless_model(name: str) -> Model:
    """A model that does not say the same word over and over, which would look alike whatever it remembers."""
    model = small_model(name)
    with torch.no_grad():
        model.norm.weight.neg_()  # what was just said is least likely
    return model


def recompute(model: Model, prompt: Tensor, count: int) -> Tensor:
    """The most likely token, again and again, from all that is there or, beyond the context, as ``generate`` says."""
    tokens, start = prompt, max(0, prompt.shape[1] - model.config.max_len)
    for _ in range(count):
        if tokens.shape[1] - start > model.config.max_len:
            start = tokens.shape[1] - model.config.max_len // 2  # the later half is read again
        tokens = torch.cat((tokens, model(tokens[:, start:])[:, -1].argmax(-1, keepdim=True)), dim=1)
    return tokens


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("length", [1, 5, 8, 13])
def test_greedy_with_a_cache_is_greedy_without(name: str, length: int) -> None:
    model, prompt = restless_model(name), random_tokens(3, length)
    found = generate(model, prompt, 20, temperature=0.0, generator=generator())
    assert found.shape == (3, length + 20)
    assert torch.equal(found, recompute(model, prompt, 20))
    assert (found[:, length:-1] == found[:, length + 1 :]).float().mean() < 0.5


def test_one_candidate_is_the_most_likely_one() -> None:
    model, prompt = small_model("feature"), random_tokens(3, 4)
    greedy = generate(model, prompt, 20, temperature=0.0, generator=generator())
    for seed in range(3):
        assert torch.equal(generate(model, prompt, 20, top_k=1, generator=generator(seed)), greedy)
    assert not torch.equal(generate(model, prompt, 20, top_k=5, generator=generator()), greedy)
    cold = generate(model, prompt, 20, temperature=1e-4, generator=generator())
    assert torch.equal(cold, greedy)


def test_same_generator_same_text() -> None:
    model, prompt = small_model("rope"), random_tokens(2, 4)
    state = torch.random.get_rng_state()
    one, same, other = (generate(model, prompt, 20, generator=generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(one[:, :4], prompt)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (2.0, None), (0.5, 6), (1.0, 1000)])
def test_tokens_are_drawn_with_their_probabilities(temperature: float, top_k: int | None) -> None:
    model, prompt, count = small_model(), random_tokens(1, 5), 4000
    logits = model(prompt)[0, -1] / temperature
    if top_k is not None:
        logits[logits < logits.sort(descending=True).values[: min(top_k, 20)][-1]] = -torch.inf
    p = torch.softmax(logits, dim=-1)
    drawn = generate(model, prompt.expand(count, -1), 1, temperature=temperature, top_k=top_k, generator=generator())[
        :, -1
    ]
    found = torch.bincount(drawn, minlength=20) / count
    assert ((found - p).abs() <= STANDARD_ERRORS * (p * (1 - p) / count).sqrt()).all()
    if top_k == 6:
        assert (found > 0).sum() == 6


def test_nothing_to_add() -> None:
    prompt = random_tokens(2, 30)
    assert torch.equal(generate(small_model(), prompt, 0, generator=generator()), prompt)
    assert generate(small_model(max_len=1), prompt, 5, generator=generator()).shape == (2, 35)


def test_the_mode_is_restored_and_dropout_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"count": -1}, ValueError, "generate: count must be a whole number of at least 0, got -1"),
        ({"count": 1.5}, TypeError, "generate: count must be a whole number, got float 1.5"),
        ({"temperature": -0.1}, ValueError, "generate: temperature must lie in [0.0, inf], got -0.1"),
        ({"temperature": float("nan")}, ValueError, "generate: temperature must lie in"),
        ({"top_k": 0}, ValueError, "generate: top_k must be a whole number of at least 1, got 0"),
        ({"generator": 0}, TypeError, "generate: generator must be a torch.Generator"),
        ({"prompt": torch.zeros(2, 0).long()}, ValueError, "generate: the prompt must have shape (batch, n)"),
        ({"prompt": torch.zeros(3).long()}, ValueError, "(batch, n), both at least 1, got (3,)"),
        ({"prompt": torch.zeros(2, 3)}, TypeError, "generate: tokens are whole numbers, got a float32 tensor"),
    ],
)
def test_bad_input(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    usual = {"prompt": random_tokens(1, 3), "count": 3, "generator": generator()}
    with pytest.raises(error, match=re.escape(message)):
        generate(small_model(), **wrong({**usual, **settings}))

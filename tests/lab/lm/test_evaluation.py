"""Perplexity: every token is scored once, in the correct window, and the sums are correct."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ghrr_lab.lm import BPETokenizer, Model, Score, evaluate
from tests.helpers import rounding, wrong
from tests.lab.lm.common import Stop, random_tokens, small_config, small_model


class RecordingModel(Model):
    """A model that records its inputs and targets. The loss of each token is 1."""

    def __init__(self, context: int) -> None:
        super().__init__(small_config(vocab_size=60, num_layers=1, max_len=context))
        self.calls: list[tuple[Tensor, Tensor]] = []

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        assert not self.training
        self.calls.append((tokens, targets))
        return (targets >= 0).sum()


@given(st.data())
def test_evaluate_scores_every_token_once_with_enough_context(data: st.DataObject) -> None:
    context = data.draw(st.integers(1, 12), label="context")
    stride = data.draw(st.none() | st.integers(1, context), label="stride")
    length, batch = data.draw(st.integers(2, 60), label="length"), data.draw(st.integers(1, 5), label="batch")
    model = RecordingModel(context)
    score = evaluate(model, torch.arange(length), stride=stride, batch=batch)  # each token is its own index
    scored = []
    for tokens, targets in model.calls:
        assert tokens.shape == targets.shape
        assert tokens.shape[0] <= batch
        for row, row_targets in zip(tokens.tolist(), targets.tolist(), strict=True):
            for index, target in enumerate(row_targets):
                if target < 0:
                    continue
                assert row[: index + 1] == list(range(target - index - 1, target))  # the tokens before it, in order
                assert index + 1 >= min(target, context - (stride or context) + 1)
                scored.append(target)
    assert sorted(scored) == list(range(1, length))
    assert score == Score(length - 1, length - 1, length - 1)


def brute_force(model: Model, tokens: Tensor, stride: int) -> list[float]:
    """Return the loss of each token but the first, in the first window that contains it."""
    losses, context = [], model.config.max_len
    for target in range(1, len(tokens)):
        start = stride * max(0, math.ceil((target - context) / stride))
        logits = model(tokens[None, start:target])[0, -1]
        losses.append((torch.logsumexp(logits, 0) - logits[tokens[target]]).item())
    return losses


@pytest.mark.parametrize("name", ["vanilla", "rope", "feature", "row", "bundle"])
@pytest.mark.parametrize("stride", [1, 3, 8])
def test_evaluate_equals_loop_over_tokens(name: str, stride: int) -> None:
    model, tokens = small_model(name), random_tokens(43)
    losses = brute_force(model, tokens, stride)
    score = evaluate(model, tokens, stride=stride, batch=3)
    assert score.loss == pytest.approx(sum(losses), rel=rounding(torch.float32))  # the loss is in float32
    assert score.tokens == len(losses) == 42
    assert score.perplexity == pytest.approx(math.exp(sum(losses) / 42), rel=42 * rounding(torch.float32))
    other = evaluate(model, tokens, stride=stride % 8 + 1, batch=3)
    assert other.loss != pytest.approx(score.loss, rel=rounding(torch.float32))  # control: another stride
    assert evaluate(model, tokens.int(), stride=stride).loss == pytest.approx(score.loss, rel=rounding(torch.float32))


def test_default_stride_is_the_context() -> None:
    model, tokens = small_model(), random_tokens(43)
    assert evaluate(model, tokens) == evaluate(model, tokens, stride=8)


def test_word_perplexity_divides_by_number_of_words() -> None:
    score = Score(loss=30.0, tokens=20, words=10)
    assert score.perplexity == pytest.approx(math.exp(1.5))
    assert score.word_perplexity == pytest.approx(math.exp(3.0))
    text = "the cat saw the other cats\n" * 10
    tokenizer = BPETokenizer.train(text, 265)
    model, ids = small_model(vocab_size=tokenizer.vocab_size), torch.from_numpy(tokenizer.encode(text))
    assert tokenizer.count_words(text) == 70
    found = evaluate(model, ids, words=70)
    assert (found.tokens, found.words) == (len(ids) - 1, 70)
    assert found.word_perplexity == pytest.approx(found.perplexity ** (found.tokens / 70))
    assert found.word_perplexity > found.perplexity
    without = evaluate(model, ids)
    assert without.word_perplexity == without.perplexity == found.perplexity


def test_evaluate_disables_dropout_and_restores_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = small_model(dropout=0.5), random_tokens(30)
    expected = evaluate(model, tokens)
    modes = [model.training]
    assert evaluate(model.train(), tokens) == expected
    modes.append(model.training)
    assert modes == [False, True]
    assert all(layer.training for layer in model.layers)

    def stop(*_: Any) -> Tensor:
        raise Stop

    monkeypatch.setattr(model, "loss", stop)
    with pytest.raises(Stop):
        evaluate(model, tokens)
    assert model.training


def test_evaluate_computes_no_gradients() -> None:
    model = small_model()
    evaluate(model, random_tokens(30))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model(random_tokens(1, 8)).requires_grad  # control: gradients are enabled again


@pytest.mark.parametrize(
    ("tokens", "settings", "error", "message"),
    [
        (torch.arange(9), {"stride": 9}, ValueError, "stride must not exceed the model's context (8), got 9"),
        (torch.arange(9), {"stride": 0}, ValueError, "evaluate: stride must be a whole number of at least 1, got 0"),
        (torch.arange(9), {"stride": 1.5}, TypeError, "evaluate: stride must be a whole number, got float 1.5"),
        (torch.arange(1), {}, ValueError, "evaluate: tokens must have shape (n,) with n at least 2, got shape (1,)"),
        (torch.arange(0), {}, ValueError, "evaluate: tokens must have shape (n,) with n at least 2, got shape (0,)"),
        (torch.zeros(2, 9).long(), {}, ValueError, "at least 2, got shape (2, 9)"),
        (torch.rand(20) * 10, {}, TypeError, "evaluate: tokens must be whole numbers, got a float32 tensor"),
        (torch.arange(30), {}, ValueError, "evaluate: tokens must lie in [0, 19], got 0 to 29"),
        (-torch.arange(10), {}, ValueError, "evaluate: tokens must lie in [0, 19], got -9 to 0"),
        (torch.arange(9), {"batch": 0}, ValueError, "evaluate: batch must be a whole number of at least 1, got 0"),
        (torch.arange(9), {"words": 0}, ValueError, "evaluate: words must be a whole number of at least 1, got 0"),
    ],
)
def test_evaluate_rejects_invalid_input(
    tokens: Tensor, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        evaluate(small_model(), tokens, **wrong(settings))


def test_perplexity_of_a_huge_loss_is_infinite() -> None:
    assert Score(1e6, 1, 1).perplexity == Score(1e6, 1, 1).word_perplexity == math.inf

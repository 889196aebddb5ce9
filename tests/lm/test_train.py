"""Training: what can be learned is learned and nothing else, and the record says what was done."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ghrr.lm import (
    Corpus,
    Model,
    Progress,
    RunError,
    TrainConfig,
    encode_corpus,
    evaluate,
    generate_grammar_text,
    grammar_perplexity,
    load_run,
    train,
)
from ghrr.lm.checkpoint import load_checkpoint, restore_model
from ghrr.lm.steps import make_optimizer, make_step
from ghrr.lm.train import schedule
from tests.helpers import STANDARD_ERRORS
from tests.lm.common import (
    ATTENTIONS,
    STEPS,
    assert_same_tensors,
    counting_text,
    interruptible_run,
    new_model,
    random_text,
    random_tokens,
    short_training,
    small_config,
)

CONTEXT = 8


def token_losses(model: Model, tokens: Tensor) -> Tensor:
    """The loss of each token, in windows one after the other."""
    count = (len(tokens) - 1) // CONTEXT * CONTEXT
    with torch.inference_mode():
        logits = model(tokens[:count].view(-1, CONTEXT))
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1 : count + 1], reduction="none").double()


def train_on_random_tokens(name: str, folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, less ln V, of a text that was learned by heart, and held-out ones of the last and of the best model."""
    vocabulary = 4
    config = small_config(name, vocab_size=vocabulary, embed_dim=32, ffn_dim=64)
    text = random_text(300, 1500, vocabulary=vocabulary)
    train(config, TrainConfig(epochs=40, batch=8, learning_rate=0.01, warmup=5, weight_decay=0.0), text, folder)
    last, (best, _) = Model(config).eval(), load_run(folder)
    restore_model(last, load_checkpoint(folder / "checkpoint.safetensors")[1])
    parts = ((last, text.train), (last, text.valid), (best, text.valid))
    learned, held_out, lowest = (token_losses(model, part) - math.log(vocabulary) for model, part in parts)
    return learned, held_out, lowest


def standard_errors(excess: Tensor) -> float:
    """How far the mean of losses is above ln V.

    Given the tokens before it, a random token costs at least ln V on average, whatever a model says that knows those
    alone; the sum of what is above it has independent signs, so its error is that of independent numbers or less.
    """
    return float(excess.mean() / (excess.std() / math.sqrt(len(excess))))


@pytest.mark.parametrize("name", ["vanilla", "rope", "feature", "row", "bundle"])
def test_random_tokens_cannot_be_predicted(name: str, tmp_path: Path) -> None:
    learned, held_out, lowest = train_on_random_tokens(name, tmp_path / "run")
    assert standard_errors(lowest) > -STANDARD_ERRORS  # the best of 40 evaluations
    assert held_out.mean() > lowest.mean()  # the best weights are kept, not the last
    assert learned.mean() < held_out.mean() - 0.03  # and yet the training text was learned by heart, in part


@pytest.mark.parametrize("name", ["vanilla", "feature", "bundle"])
def test_a_model_that_sees_the_future_would_be_found_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.nn.functional.scaled_dot_product_attention

    def leaky(*arguments: Any, is_causal: bool = False, **settings: Any) -> Tensor:
        return real(*arguments, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", leaky)
    lowest = train_on_random_tokens(name, tmp_path / "run")[2]
    assert standard_errors(lowest) < -4 * STANDARD_ERRORS


@pytest.mark.parametrize("name", ["rope", "feature"])
def test_the_grammar_is_learned(name: str, tmp_path: Path) -> None:
    sentences = {"train": 1200, "valid": 300, "test": 300}
    texts = {split: generate_grammar_text(count, seed=i) for i, (split, count) in enumerate(sentences.items())}
    text = encode_corpus(Corpus("grammar", **texts, unit="word"))
    config = small_config(name, vocab_size=text.tokens.size, embed_dim=32, num_layers=1, ffn_dim=64, max_len=16)
    result = train(config, TrainConfig(epochs=4, batch=16, learning_rate=0.01, warmup=20), text, tmp_path / "run")
    counts = torch.bincount(text.train, minlength=text.tokens.size) + 1
    unigram = math.exp(-torch.log(counts[text.test[1:]] / counts.sum()).mean())
    assert grammar_perplexity(texts["test"]) < result["test_ppl"] < 0.5 * unigram
    assert result["valid_ppl"] == pytest.approx(result["test_ppl"], rel=0.1)


def test_the_result_is_that_of_the_best_weights(tmp_path: Path) -> None:
    text = counting_text()
    steps: list[Progress] = []
    result = interruptible_run(tmp_path / "run", steps.append, command="how it was done")
    model, tokens = load_run(tmp_path / "run")
    assert tokens == text.tokens
    assert not model.training
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["command"] == "how it was done"
    assert (result["dataset"], result["seed"], result["params"]) == ("counting", 0, model.parameter_count)
    assert result["valid_ppl"] == evaluate(model, text.valid, batch=256).perplexity
    assert result["test_ppl"] == evaluate(model, text.test, batch=256).perplexity
    assert result["tokens_per_s"] > 0
    valid = {progress.step: progress.valid for progress in steps if progress.valid is not None}
    assert list(valid) == list(range(6, STEPS + 1, 6))
    assert result["valid_ppl"] == min(valid.values()) == valid[result["best_step"]]
    assert [progress.step for progress in steps] == list(range(1, STEPS + 1))
    assert {progress.steps for progress in steps} == {STEPS}
    assert [progress.step for progress in steps if progress.loss is not None] == [20, 40, 60, STEPS]
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert {line["step"]: line["valid_ppl"] for line in logged if "valid_ppl" in line} == valid
    losses = {line["step"]: line["loss"] for line in logged if "loss" in line}
    assert losses == {progress.step: progress.loss for progress in steps if progress.loss is not None}
    rates = {line["step"]: line["learning_rate"] for line in logged if "loss" in line}
    assert rates == {step: 0.003 * schedule(step - 1, STEPS, 2) for step in losses}


def test_each_epoch_has_the_whole_text_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = random_text(400, vocabulary=400)
    text = dataclasses.replace(text, train=torch.arange(400))  # each token says where it is
    batches: list[tuple[Tensor, Tensor]] = []
    real = Model.loss

    def watched(self: Model, tokens: Tensor, targets: Tensor) -> Tensor:
        if self.training:
            batches.append((tokens, targets))
        return real(self, tokens, targets)

    monkeypatch.setattr(Model, "loss", watched)
    train(small_config(vocab_size=400), short_training(epochs=3), text, tmp_path / "run")
    assert all(torch.equal(targets, tokens + 1) for tokens, targets in batches)
    assert {tokens.shape for tokens, _ in batches} == {(4, CONTEXT)}
    epochs = [torch.cat([tokens for tokens, _ in batches[i : i + 12]]) for i in range(0, len(batches), 12)]
    assert len(epochs) == 3
    for windows in epochs:
        assert len(windows.unique()) == windows.numel() == 48 * CONTEXT  # none twice
        assert (windows[:, 0] % CONTEXT == windows[0, 0] % CONTEXT).all()
        assert not torch.equal(windows, windows.sort(dim=0).values)
    assert len({int(windows[0, 0]) % CONTEXT for windows in epochs}) > 1
    assert len({tuple(windows[:, 0].tolist()) for windows in epochs}) == 3


def test_the_callers_random_numbers_are_left_alone(tmp_path: Path) -> None:
    def states() -> list[object]:
        return [torch.random.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())]  # noqa: NPY002

    text, config = counting_text(), small_config("feature unitary", dropout=0.2)
    before = states()
    train(config, short_training(), text, tmp_path / "one")
    assert states() == before
    with torch.random.fork_rng():
        torch.manual_seed(123)
        train(config, short_training(), text, tmp_path / "same")
    train(config, short_training(seed=1), text, tmp_path / "other")
    assert_same_tensors(tmp_path / "one" / "best.safetensors", tmp_path / "same" / "best.safetensors")
    with pytest.raises(AssertionError):
        assert_same_tensors(tmp_path / "one" / "best.safetensors", tmp_path / "other" / "best.safetensors")


def test_16_bits(tmp_path: Path) -> None:
    text, config = counting_text(), small_config("feature")
    results = [
        train(config, short_training(precision=precision), text, tmp_path / precision)["valid_ppl"]
        for precision in ("float32", "bf16", "auto")
    ]
    assert results[0] == results[2]  # on a CPU
    assert results[0] != results[1]
    assert results[1] == pytest.approx(results[0], rel=0.05)
    assert {p.dtype for p in load_run(tmp_path / "bf16")[0].parameters()} == {torch.float32}


def test_a_loss_that_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Model.loss
    monkeypatch.setattr(Model, "loss", lambda self, x, y: real(self, x, y) * (math.nan if self.training else 1))
    with pytest.raises(RunError, match="the loss is nan at step 20; lower the learning rate"):
        train(small_config(), short_training(evaluations=1), random_text(1000), tmp_path / "run")


def test_too_little_text(tmp_path: Path) -> None:
    enough = 4 * CONTEXT + CONTEXT + 1  # a batch, and room to begin anywhere in the first window
    train(small_config(), short_training(epochs=1), random_text(enough), tmp_path / "enough")
    with pytest.raises(
        RunError, match=f"the training text has {enough - 1} tokens, too few for one batch of 4 windows"
    ):
        train(small_config(), short_training(epochs=1), random_text(enough - 1), tmp_path / "too few")


def test_a_vocabulary_that_is_not_that_of_the_model(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="the model has a vocabulary of 21, the text one of 20"):
        train(small_config(vocab_size=21), short_training(), random_text(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"epochs": 0}, ValueError, "TrainConfig: epochs must be a whole number of at least 1, got 0"),
        ({"batch": 2.0}, TypeError, "TrainConfig: batch must be a whole number"),
        ({"evaluations": 0}, ValueError, "TrainConfig: evaluations must be"),
        ({"warmup": -1}, ValueError, "TrainConfig: warmup must be a whole number of at least 0"),
        ({"seed": -1}, ValueError, "TrainConfig: seed must be"),
        ({"learning_rate": 0.0}, ValueError, "TrainConfig: learning_rate must lie in (0.0, 1.0), got 0.0"),
        ({"learning_rate": math.nan}, ValueError, "TrainConfig: learning_rate must lie in"),
        ({"learning_rate": "1e-3"}, TypeError, "TrainConfig: learning_rate must be a real number"),
        ({"weight_decay": -0.1}, ValueError, "TrainConfig: weight_decay must lie in [0.0, inf]"),
        ({"clip": 0.0}, ValueError, "TrainConfig: clip must lie in (0.0, inf)"),
        ({"precision": "fp8"}, ValueError, "TrainConfig: precision must be one of 'auto', 'bf16', 'float32'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        TrainConfig(**settings)


def test_the_schedule_rises_in_a_line_and_falls_along_a_cosine() -> None:
    assert schedule(0, 100, 0) == 1
    assert schedule(50, 100, 0) == pytest.approx(0.51)
    assert schedule(100, 100, 0) == pytest.approx(0.02)
    falling = [schedule(step, 100, 0) for step in range(101)]
    assert falling == sorted(falling, reverse=True)
    for step in range(101):
        share = min(1, (step + 1) / 10)
        assert schedule(step, 100, 10) == pytest.approx(share * falling[step])


@pytest.mark.parametrize("name", ATTENTIONS)
def test_what_is_decayed(name: str) -> None:
    model = Model(small_config(name))
    decayed, others = make_optimizer(model, learning_rate=0.1, weight_decay=0.3, betas=(0.9, 0.98)).param_groups
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    of_decayed, of_others = ({names[id(p)] for p in group["params"]} for group in (decayed, others))
    assert of_decayed | of_others == set(names.values())
    assert not of_decayed & of_others
    for layer in range(2):
        matrices = {f"layers.{layer}.{part}.weight" for part in ("grow", "shrink", "attention.out_proj")}
        assert matrices <= of_decayed
        assert f"layers.{layer}.first_norm.weight" in of_others
    assert {"embedding.weight", "output_bias", "norm.weight"} <= of_others
    assert all(p.ndim > 1 for p in decayed["params"])
    assert not [name for name in of_decayed if "positions" in name or name.endswith(("taps", "log_scale"))]


def test_a_step_is_clipped_and_takes_the_rate_that_it_is_given() -> None:
    norms, moved = [], []
    for clip, rate in ((1e9, 0.01), (0.1, 0.01), (0.1, 0.0), (0.1, None)):
        model = new_model()
        optimizer = make_optimizer(model, learning_rate=0.02, weight_decay=0.0, betas=(0.9, 0.98))
        before = model.embedding.weight.clone()
        step = make_step(model.loss, model, optimizer, clip=clip, bf16=False)
        loss = step(random_tokens(4, CONTEXT), random_tokens(4, CONTEXT, seed=1), rate)
        assert loss.item() == pytest.approx(4 * CONTEXT * math.log(20), rel=0.1)
        norms.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm().item())
        moved.append((model.embedding.weight - before).abs().max().item())
    assert norms[0] > 1
    assert norms[1:] == pytest.approx([0.1] * 3, rel=1e-4)
    assert moved == pytest.approx([0.01, 0.01, 0.0, 0.02], rel=1e-2)  # Adam's first step is the rate itself

"""Training: models learn what can be learned and nothing else, and results describe the best weights."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ghrr.training import restore_module
from ghrr_lab.lm import (
    Corpus,
    Model,
    RunError,
    TrainConfig,
    TrainProgress,
    encode_corpus,
    evaluate,
    generate_grammar_text,
    grammar_perplexity,
    load_run,
    train,
)
from ghrr_lab.lm.checkpoint import load_checkpoint
from ghrr_lab.lm.run_folder import read_result
from ghrr_lab.lm.train_step import schedule
from tests.helpers import STANDARD_ERRORS
from tests.lab.lm.common import (
    STEPS,
    Stop,
    assert_same_tensors,
    counting_text,
    random_text,
    short_run,
    short_training,
    small_config,
)

CONTEXT = 8


def token_losses(model: Model, tokens: Tensor) -> Tensor:
    """Return the loss of each token, in adjacent windows."""
    count = (len(tokens) - 1) // CONTEXT * CONTEXT
    with torch.inference_mode():
        logits = model(tokens[:count].view(-1, CONTEXT))
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[1 : count + 1], reduction="none").double()


def train_on_random_tokens(name: str, folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Train on random tokens and return excess losses, that is losses minus ln(vocab_size).

    In this order: the last model on the training text, the last model on the validation text, and the best
    model on the validation text.
    """
    vocab_size = 4
    config = small_config(name, vocab_size=vocab_size, embed_dim=32, ffn_dim=64)
    text = random_text(300, 1500, vocab_size=vocab_size)
    train(config, TrainConfig(epochs=40, batch=8, learning_rate=0.01, warmup=5, weight_decay=0.0), text, folder)
    last, (best, _) = Model(config).eval(), load_run(folder)
    restore_module(last, load_checkpoint(folder / "checkpoint.safetensors")[1], "model")
    parts = ((last, text.train), (last, text.valid), (best, text.valid))
    memorized, last_valid, best_valid = (token_losses(model, part) - math.log(vocab_size) for model, part in parts)
    return memorized, last_valid, best_valid


def standard_errors(excess: Tensor) -> float:
    """Return the mean excess loss in units of its standard error.

    A model that sees only earlier tokens has an expected excess loss of at least 0 for a random token. The excess
    losses are uncorrelated given the earlier tokens, so the standard error is computed as for independent samples.
    """
    return float(excess.mean() / (excess.std() / math.sqrt(len(excess))))


@pytest.mark.parametrize("name", ["vanilla", "rope", "feature", "row", "bundle"])
def test_random_tokens_cannot_be_predicted(name: str, tmp_path: Path) -> None:
    memorized, last_valid, best_valid = train_on_random_tokens(name, tmp_path / "run")
    assert standard_errors(best_valid) > -STANDARD_ERRORS  # the best of 40 evaluations
    assert last_valid.mean() > best_valid.mean()  # the best weights are kept, not the last
    assert memorized.mean() < last_valid.mean() - 0.03  # the model did memorise part of the training text


@pytest.mark.parametrize("name", ["vanilla", "feature", "bundle"])
def test_random_tokens_can_be_predicted_from_later_tokens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = torch.nn.functional.scaled_dot_product_attention

    def leaky(*arguments: Any, is_causal: bool = False, **settings: Any) -> Tensor:
        return real(*arguments, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", leaky)
    best_valid = train_on_random_tokens(name, tmp_path / "run")[2]
    assert standard_errors(best_valid) < -4 * STANDARD_ERRORS


@pytest.mark.parametrize("name", ["rope", "feature"])
def test_models_learn_the_grammar(name: str, tmp_path: Path) -> None:
    sentences = {"train": 1200, "valid": 300, "test": 300}
    texts = {split: generate_grammar_text(count, seed=i) for i, (split, count) in enumerate(sentences.items())}
    text = encode_corpus(Corpus("grammar", **texts))
    config = small_config(
        name, vocab_size=text.tokenizer.vocab_size, embed_dim=32, num_layers=1, ffn_dim=64, max_len=16
    )
    result = train(config, TrainConfig(epochs=4, batch=16, learning_rate=0.01, warmup=20), text, tmp_path / "run")
    counts = torch.bincount(text.train, minlength=text.tokenizer.vocab_size) + 1
    unigram = math.exp(-torch.log(counts[text.test[1:]] / counts.sum()).mean())
    assert grammar_perplexity(texts["test"]) < result["test_ppl"] < 0.5 * unigram
    assert result["valid_ppl"] == pytest.approx(result["test_ppl"], rel=0.1)


def test_result_and_log_describe_the_best_weights(tmp_path: Path) -> None:
    text = counting_text()
    steps: list[TrainProgress] = []
    result = short_run(tmp_path / "run", steps.append, command="ghrr lm train")
    model, tokenizer = load_run(tmp_path / "run")
    assert tokenizer == text.tokenizer
    assert not model.training
    assert result == read_result(tmp_path / "run")
    assert result["command"] == "ghrr lm train"
    assert (result["dataset"], result["seed"], result["params"]) == ("counting", 0, model.parameter_count)
    assert result["valid_ppl"] == evaluate(model, text.valid, batch=256).perplexity
    assert result["test_ppl"] == evaluate(model, text.test, batch=256).perplexity
    assert result["tokens_per_s"] > 0
    valid = {p.step: p.valid_perplexity for p in steps if p.valid_perplexity is not None}
    assert list(valid) == list(range(6, STEPS + 1, 6))
    assert result["valid_ppl"] == min(valid.values()) == valid[result["best_step"]]
    assert [progress.step for progress in steps] == list(range(1, STEPS + 1))
    assert {progress.total_steps for progress in steps} == {STEPS}
    assert [progress.step for progress in steps if progress.loss is not None] == [20, 40, 60, STEPS]
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert {line["step"]: line["valid_ppl"] for line in logged if "valid_ppl" in line} == valid
    losses = {line["step"]: line["loss"] for line in logged if "loss" in line}
    assert losses == {progress.step: progress.loss for progress in steps if progress.loss is not None}
    rates = {line["step"]: line["learning_rate"] for line in logged if "loss" in line}
    assert rates == {step: 0.003 * schedule(step - 1, STEPS, 2) for step in losses}


def test_each_epoch_has_the_whole_text_in_a_new_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = random_text(400, vocab_size=400)
    text = dataclasses.replace(text, train=torch.arange(400))  # each token is its own index
    batches: list[tuple[Tensor, Tensor]] = []
    real = Model.loss

    def recording_loss(self: Model, tokens: Tensor, targets: Tensor) -> Tensor:
        if self.training:
            batches.append((tokens, targets))
        return real(self, tokens, targets)

    monkeypatch.setattr(Model, "loss", recording_loss)
    train(small_config(vocab_size=400), short_training(epochs=3), text, tmp_path / "run")
    assert all(torch.equal(targets, tokens + 1) for tokens, targets in batches)
    assert {tokens.shape for tokens, _ in batches} == {(4, CONTEXT)}
    epochs = [torch.cat([tokens for tokens, _ in batches[i : i + 12]]) for i in range(0, len(batches), 12)]
    assert len(epochs) == 3
    for windows in epochs:
        assert len(windows.unique()) == windows.numel() == 48 * CONTEXT  # no token twice
        assert (windows[:, 0] % CONTEXT == windows[0, 0] % CONTEXT).all()
        assert not torch.equal(windows, windows.sort(dim=0).values)
    assert len({int(windows[0, 0]) % CONTEXT for windows in epochs}) > 1
    assert len({tuple(windows[:, 0].tolist()) for windows in epochs}) == 3


def test_train_does_not_change_the_global_random_state(tmp_path: Path) -> None:
    def states() -> list[object]:
        return [torch.random.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())]  # noqa: NPY002

    text, config = counting_text(), small_config("feature unitary", dropout=0.2)
    before = states()
    train(config, short_training(epochs=1), text, tmp_path / "one")
    assert states() == before
    with torch.random.fork_rng():
        torch.manual_seed(123)
        train(config, short_training(epochs=1), text, tmp_path / "same")
    train(config, short_training(epochs=1, seed=1), text, tmp_path / "other")
    assert_same_tensors(tmp_path / "one" / "best.safetensors", tmp_path / "same" / "best.safetensors")
    with pytest.raises(AssertionError):
        assert_same_tensors(tmp_path / "one" / "best.safetensors", tmp_path / "other" / "best.safetensors")


def test_precision_selects_autocast(tmp_path: Path) -> None:
    text, config = counting_text(), small_config("feature")
    results = [
        train(config, short_training(epochs=1, precision=precision), text, tmp_path / precision)["valid_ppl"]
        for precision in ("float32", "bf16", "auto")
    ]
    assert results[0] == results[2]  # auto is float32 on a CPU
    assert results[0] != results[1]
    assert results[1] == pytest.approx(results[0], rel=0.05)
    assert {p.dtype for p in load_run(tmp_path / "bf16")[0].parameters()} == {torch.float32}


def test_nan_loss_raises_run_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Model.loss
    monkeypatch.setattr(Model, "loss", lambda self, x, y: real(self, x, y) * (math.nan if self.training else 1))
    with pytest.raises(RunError, match="train: the loss is nan at step 20; lower the learning rate"):
        train(small_config(), short_training(evaluations=1), random_text(1000), tmp_path / "run")


def test_text_shorter_than_one_batch_raises_run_error(tmp_path: Path) -> None:
    enough = 4 * CONTEXT + CONTEXT + 1  # one batch, one window for the random offset, and one last target
    train(small_config(), short_training(epochs=1), random_text(enough), tmp_path / "enough")
    with pytest.raises(RunError, match=f"must fill one batch of 4 windows of 8 tokens, got {enough - 1} tokens"):
        train(small_config(), short_training(epochs=1), random_text(enough - 1), tmp_path / "short")
    assert not (tmp_path / "short").exists()


def test_vocabulary_of_text_and_model_must_agree(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"vocab_size of the model must equal the vocabulary of the text \(20\), got 21"):
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
        ({"betas": (2.0, 0.9)}, ValueError, "TrainConfig: betas must be two numbers in [0, 1), got (2.0, 0.9)"),
        ({"betas": (0.9,)}, ValueError, "TrainConfig: betas must be"),
        ({"betas": 0.9}, ValueError, "TrainConfig: betas must be"),
        ({"betas": (0.9, 1.0)}, ValueError, "TrainConfig: betas must be"),
    ],
)
def test_train_config_rejects_invalid_settings(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        TrainConfig(**settings)


def test_log_is_valid_json_if_the_loss_is_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Model.loss
    monkeypatch.setattr(Model, "loss", lambda self, x, y: real(self, x, y) * math.nan)
    with pytest.raises(RunError, match="loss is nan"):
        train(small_config(), short_training(), random_text(), tmp_path / "run")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


def test_reported_speed_does_not_depend_on_interruptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            self.now += 1
            return self.now

    def run(folder: Path, stops: range) -> int:
        monkeypatch.setattr(sys.modules["ghrr_lab.lm.training"], "time", Clock())
        for stop in stops:

            def interrupt(progress: Any, stop: int = stop) -> None:
                if progress.step == stop:
                    raise Stop

            with pytest.raises(Stop):
                train(small_config(), short_training(), random_text(), folder, resume=True, on_progress=interrupt)
        return int(train(small_config(), short_training(), random_text(), folder, resume=True)["tokens_per_s"])

    assert run(tmp_path / "often", range(6, 48, 6)) == run(tmp_path / "never", range(0))

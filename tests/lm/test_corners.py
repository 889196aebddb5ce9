"""Corners of training and evaluation that once went wrong: killed early, counted twice, silent about bad input."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr.lm import Model, RunError, Score, TrainConfig, evaluate, generate, match_parameters, train
from ghrr.lm.plan import read_plan
from tests.helpers import generator
from tests.lm.common import (
    Stop,
    random_text,
    random_tokens,
    short_training,
    small_config,
    small_model,
    wrong,
)


def test_a_hopeless_loss_is_an_infinite_perplexity() -> None:
    assert Score(1e6, 1, 1).perplexity == Score(1e6, 1, 1).word_perplexity == math.inf


@pytest.mark.parametrize("tokens", [torch.rand(20) * 10, torch.arange(30), -torch.arange(10)])
def test_tokens_that_are_none_of_the_vocabulary(tokens: torch.Tensor) -> None:
    with pytest.raises((TypeError, ValueError), match="evaluate: "):
        evaluate(small_model(), tokens)


@pytest.mark.parametrize("settings", [{"batch": 0}, {"words": 0}])
def test_other_bad_numbers(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"evaluate: .* must be a whole number of at least 1, got 0"):
        evaluate(small_model(), random_tokens(20), **wrong(settings))


def test_a_prompt_of_another_vocabulary() -> None:
    with pytest.raises(ValueError, match="generate: "):
        generate(small_model(), torch.tensor([[20]]), 3, generator=generator())


@pytest.mark.parametrize(("temperature", "top_k"), [(math.inf, 3), (1e-45, None)])
def test_extreme_temperatures(temperature: float, top_k: int | None) -> None:
    tokens = random_tokens(1, 4)
    found = generate(small_model(), tokens, 5, temperature=temperature, top_k=top_k, generator=generator())
    assert found.shape == (1, 9)


def test_matching_parameters_draws_nothing() -> None:
    state = torch.random.get_rng_state()
    match_parameters(small_config(), 20_000)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_too_little_text_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="too few for one batch"):
        train(small_config(), short_training(), random_text(30), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("betas", [(2.0, 0.9), (0.9,), 0.9, (0.9, 1.0)])
def test_bad_betas(betas: object) -> None:
    with pytest.raises((TypeError, ValueError), match="TrainConfig: betas"):
        TrainConfig(betas=wrong(betas))


def test_the_log_is_json_whatever_the_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Model.loss
    monkeypatch.setattr(Model, "loss", lambda self, x, y: real(self, x, y) * math.nan)
    with pytest.raises(RunError, match="the loss is nan"):
        train(small_config(), short_training(), random_text(), tmp_path / "run")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)


def test_killed_before_the_run_was_described(tmp_path: Path) -> None:
    text, folder = random_text(), tmp_path / "run"
    (folder / ".ghrr-0123456789ab-1-1-01234567.tmp").mkdir(parents=True)
    (folder / ".lock").write_text("1 on a machine")
    (folder / "vocabulary.json").write_text(json.dumps(text.tokens.state()))
    train(small_config(), short_training(), text, folder, resume=True)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError):
        train(small_config(), short_training(), random_text(), tmp_path / "run")


def test_another_text_of_the_same_name(tmp_path: Path) -> None:
    text = random_text()
    train(small_config(), short_training(), text, tmp_path / "run")
    other = dataclasses.replace(text, train=random_tokens(400, seed=9))
    with pytest.raises(RunError, match="holds another run"):
        train(small_config(), short_training(), other, tmp_path / "run", resume=True)


def test_speed_does_not_grow_with_interruptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            self.now += 1
            return self.now

    def run(folder: Path, stops: range) -> int:
        monkeypatch.setattr(sys.modules["ghrr.lm.train"], "time", Clock())
        for stop in stops:

            def interrupt(progress: Any, stop: int = stop) -> None:
                if progress.step == stop:
                    raise Stop

            with pytest.raises(Stop):
                train(small_config(), short_training(), random_text(), folder, resume=True, on_progress=interrupt)
        return int(train(small_config(), short_training(), random_text(), folder, resume=True)["tokens_per_s"])

    assert run(tmp_path / "often", range(6, 48, 6)) == run(tmp_path / "never", range(0))


@pytest.mark.parametrize("changes", [{"tokens": {"limits": 5}}, {"training": {"epoch": 3}}, {"runs": {}}])
def test_the_plan_is_named(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"dataset": "grammar", "runs": [{"label": "a", "seeds": [0]}], **changes}))
    with pytest.raises(ValueError, match=str(path)):
        read_plan(path)

"""Plans: order of the runs, commands, and errors before the first run starts."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr_lab.lm import compare
from ghrr_lab.lm.plan import read_plan
from tests.lab.lm.plans import PARAMETERS, PLAN, write_plan


def test_read_plan_sorts_runs_by_seed(tmp_path: Path) -> None:
    runs = read_plan(write_plan(tmp_path, tokens={"limit": 100}))
    assert [(run.label, run.training["seed"]) for run in runs] == [
        *(("ghrr-feature", 0), ("vanilla", 1), ("ghrr-feature", 1))
    ]
    assert runs[1].training == {"epochs": 1, "batch": 8, "warmup": 2, "learning_rate": 0.01, "seed": 1}
    assert runs[1].model == {**PLAN["model"], "attention": "vanilla"}
    assert [run.parameters for run in runs] == [PARAMETERS] * 3
    assert len({run.folder for run in runs}) == 3
    assert runs[0].folder.endswith("limit-100-ghrr-feature-qkv-trained-0")


def test_command_has_all_settings(tmp_path: Path) -> None:
    run = read_plan(write_plan(tmp_path, tokens={"limit": 100}))[0]
    words = shlex.split(run.command)
    assert words[:6] == ["ghrr", "lm", "train", run.dataset, "--out", f"runs/{run.folder}"]
    assert {"--limit=100", f"--params={PARAMETERS}"} <= set(words)
    settings = dict(word.removeprefix("--set=").split("=") for word in words if word.startswith("--set="))
    assert {name: json.loads(value) for name, value in settings.items()} == {**run.model, **run.training}
    assert "--params" not in read_plan(write_plan(tmp_path, parameters=None))[0].command


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"run": []}, ValueError, "unknown keys ['run'], expected only ['dataset', 'model', 'parameters',"),
        ({"runs": [{"label": "a"}]}, ValueError, "missing keys ['seeds']"),
        ({"runs": [{"label": "a", "seeds": [0], "lr": 1}]}, ValueError, "unknown keys ['lr'], expected only"),
        ({"runs": ["a"]}, ValueError, "expected an object with label, model, seeds, training, variant, got 'a'"),
        ({"runs": [{"label": "a", "seeds": [0, 0]}]}, ValueError, "runs must have different folders, got"),
        ({"runs": [{"label": "a", "seeds": [0]}, {"label": "a", "seeds": [1, 0]}]}, ValueError, "-a-0 twice"),
        ({"runs": [{"label": "a", "seeds": 3}]}, ValueError, "a: seeds must be a list of at least one number, got 3"),
        ({"runs": [{"label": "a", "seeds": []}]}, ValueError, "a: seeds must be a list of at least one number"),
        ({"runs": [{"label": 1, "seeds": [0]}]}, ValueError, "label and variant must be strings, got 1"),
        ({"model": [1]}, ValueError, "model must be an object of settings, got [1]"),
        ({"model": {"vocab_size": 7}}, ValueError, "model must not set vocab_size"),
        (
            {"runs": [{"label": "a", "model": {"window": 0}, "seeds": [0]}]},
            ValueError,
            "a: window must be",
        ),
        (
            {"model": {"num_layers": 0}},
            ValueError,
            "vanilla: num_layers must be a whole number of at least 1",
        ),
        ({"model": {"window": 2}}, ValueError, "vanilla: window=2 needs attention 'ghrr', got 'vanilla'"),
        (
            {"model": {"depth": 3}},
            ValueError,
            "vanilla: unknown settings depth, expected only angle_std, attention,",
        ),
        ({"model": {"attention": "none"}}, ValueError, "ghrr-feature: attention must be one of"),
        ({"training": {"epoch": 3}}, ValueError, "unexpected keyword argument 'epoch'"),
        ({"training": {"epochs": 0}}, ValueError, "vanilla: epochs must be a whole number of at least 1"),
        ({"runs": [{"label": "a", "seeds": [-1]}]}, ValueError, "a: seed must be"),
    ],
)
def test_invalid_plan_fails_before_any_run(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    plan = write_plan(tmp_path, **changes)
    with pytest.raises(error, match=re.escape(message)):
        compare(plan, tmp_path / "runs", summary=tmp_path / "lm.json")
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "lm.json").exists()


def test_read_plan_uses_no_random_numbers(tmp_path: Path) -> None:
    runs = [{"label": "unitary", "model": {"weights": "unitary"}, "seeds": [0]}]
    before = torch.get_rng_state()
    assert len(read_plan(write_plan(tmp_path, runs=runs))) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_read_plan_rejects_invalid_json(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(ValueError, match=re.escape(f"read_plan({str(tmp_path / 'plan.json')!r}): not valid JSON")):
        read_plan(tmp_path / "plan.json")
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(ValueError, match="expected an object with dataset, model, parameters"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("changes", [{"tokens": {"limits": 5}}, {"training": {"epoch": 3}}, {"runs": {}}])
def test_errors_name_the_plan_file(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"dataset": "grammar", "runs": [{"label": "a", "seeds": [0]}], **changes}))
    with pytest.raises(ValueError, match=str(path)):
        read_plan(path)

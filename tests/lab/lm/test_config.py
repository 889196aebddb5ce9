"""Settings of models: their JSON form, and those that ghrr 0.1 wrote."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ghrr_lab.lm import ModelConfig, TrainConfig, load_run, train
from ghrr_lab.lm.commands import _settings
from ghrr_lab.lm.config import setting_names
from ghrr_lab.lm.plan import PlannedRun, read_plan
from tests.lab.lm.common import ATTENTIONS, ROOT, assert_same_tensors, random_text, small_config

OLD = Path(__file__).parent / "version_0_1"  # written by ghrr 0.1
OLD_SETTINGS: dict[str, Any] = json.loads((OLD / "run" / "run.json").read_text())["model"]
CONVERTED = ModelConfig(
    vocab_size=20,
    embed_dim=8,
    num_layers=1,
    num_heads=2,
    ffn_dim=6,
    max_len=8,
    dropout=0.1,
    attention="ghrr",
    mode="feature",
    num_kv_heads=1,
    window=2,
    normalize_rows=True,
    position_sharing="head",
    trainable_positions=True,
    phase_std=0.6,
    seed=1,
)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_config_survives_json(name: str) -> None:
    config = small_config(name)
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_settings_of_version_0_1_are_converted() -> None:
    assert ModelConfig.from_dict(OLD_SETTINGS) == CONVERTED
    assert set(OLD_SETTINGS) < setting_names(old=True)


@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        ("ghrr-row", {"attention": "ghrr", "mode": "row"}),
        ("ghrr-bundle", {"attention": "ghrr", "mode": "bundle"}),
        ("rope", {"attention": "rope"}),
        ("vanilla", {"attention": "vanilla"}),
    ],
)
def test_attention_of_version_0_1_is_split_into_attention_and_mode(attention: str, expected: dict[str, str]) -> None:
    assert ModelConfig.from_dict({"vocabulary": 5, "attention": attention}) == ModelConfig(vocab_size=5, **expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (
            {"vocab_size": 5, "haeds": 2, "depth": 3},
            "ModelConfig.from_dict: unknown settings depth, haeds, expected only",
        ),
        ({"vocab_size": 5, "width": 8, "embed_dim": 8}, "ModelConfig.from_dict: embed_dim is given twice"),
        ({"vocab_size": 5, "attention": "ghrr-row", "mode": "row"}, "ModelConfig.from_dict: mode is given twice"),
        ({"vocab_size": 5, "version": 3}, "ModelConfig.from_dict: the settings have version 3, expected at most 2"),
        ({"version": 2, "vocabulary": 5}, "ModelConfig.from_dict: unknown settings vocabulary"),
    ],
)
def test_unreadable_settings_are_named(state: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_dict(state)


@pytest.mark.parametrize("setting", ["model.seed=3", "phase_seed=3"])
def test_command_line_distinguishes_seeds_of_model_and_run(setting: str) -> None:
    model, training = _settings([setting, "seed=5", "unit_rows=true"], {})
    config = ModelConfig.from_dict({"vocab_size": 5, **model})
    assert (config.seed, config.normalize_rows, training) == (3, True, {"seed": 5})


def test_run_of_version_0_1_loads_and_its_result_is_read(tmp_path: Path) -> None:
    shutil.copytree(OLD / "run", tmp_path / "run")
    model, tokens = load_run(tmp_path / "run")
    assert model.config == CONVERTED
    assert tokens.vocab_size == 20
    result = train(CONVERTED, training(), text(), tmp_path / "run", resume=True, device="cpu")
    assert result == json.loads((OLD / "run" / "result.json").read_text())
    with pytest.raises(ValueError, match=r"holds another run: its model is phase_std 0.6, not 0.7"):
        other = ModelConfig.from_dict({**CONVERTED.to_dict(), "phase_std": 0.7})
        train(other, training(), text(), tmp_path / "run", resume=True, device="cpu")


def test_run_stopped_in_version_0_1_resumes_to_the_same_weights(tmp_path: Path) -> None:
    shutil.copytree(OLD / "stopped", tmp_path / "run")
    train(CONVERTED, training(), text(), tmp_path / "run", resume=True, device="cpu")
    train(CONVERTED, training(), text(), tmp_path / "new", device="cpu")
    assert_same_tensors(tmp_path / "run" / "checkpoint.safetensors", tmp_path / "new" / "checkpoint.safetensors")


def training() -> TrainConfig:
    return TrainConfig(epochs=4, batch=8, warmup=2, learning_rate=0.01)


def text() -> Any:
    return random_text(400, 100)


@pytest.mark.parametrize("plan", sorted((ROOT / "results" / "lm").glob("**/plans/*.json")), ids=lambda p: p.stem)
def test_plans_of_version_0_1_are_read(plan: Path) -> None:
    for run in read_plan(plan):
        config = ModelConfig.from_dict({"vocab_size": 100, **run.model})
        assert config.window == run.model.get("window", 1)
        assert config.normalize_rows == run.model.get("unit_rows", False)
        assert config.trainable_phases == run.model.get("phases_trainable", False)


def test_command_of_a_plan_distinguishes_seeds_of_model_and_run() -> None:
    run = PlannedRun("a", "", "ptb", {}, None, {"seed": 3}, {"seed": 5})
    assert "--set=model.seed=3" in run.command
    assert "--set=seed=5" in run.command

"""The commands ``ghrr chains``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ghrr.relations.chains import RelationChains, kinship_rules, save_chains
from tests.cli.common import invoke


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chains") / "kinship.safetensors"
    save_chains(path, RelationChains(epochs=60).fit(kinship_rules(), calibrate=False))
    return path


def test_compose_prints_answer_and_derivation(model: Path) -> None:
    result = invoke("chains", "compose", str(model), "father", "sister")
    assert result.exit_code == 0
    assert "aunt, probability" in result.output
    assert "└─ sister" in result.output


def test_unknown_relation_is_an_error(model: Path) -> None:
    result = invoke("chains", "compose", str(model), "father", "cousin")
    assert result.exit_code == 2
    assert "unknown relation 'cousin'" in result.output


def test_train_writes_a_model(tmp_path: Path) -> None:
    story = {"task": "task_1.2", "edges": [[0, 1], [1, 2]], "query": [0, 2], "types": ["a", "b"], "target": "c"}
    for split in ("train", "test"):
        (tmp_path / f"{split}.jsonl.gz").write_bytes(gzip.compress(json.dumps(story).encode()))
    out = tmp_path / "model.safetensors"
    result = invoke("chains", "train", str(tmp_path), "--out", str(out), "--epochs", "2", "--no-verify")
    assert result.exit_code == 0, result.output
    assert "epoch 2 of 2" in result.output
    assert "1 of 1 test chains are answered correctly" in result.output
    assert invoke("chains", "compose", str(out), "a", "b").output.startswith("c, probability")
    result = invoke("chains", "train", str(tmp_path), "--out", str(out))
    assert result.exit_code == 2
    assert "already exists; choose another file, or overwrite it with --force" in result.output


def test_missing_folder_of_the_model_is_reported_before_training(tmp_path: Path) -> None:
    result = invoke("chains", "train", str(tmp_path), "--out", str(tmp_path / "missing" / "model.safetensors"))
    assert result.exit_code == 2
    assert "missing of model.safetensors does not exist; create it first" in result.output


def test_wrong_data_leave_no_file(tmp_path: Path) -> None:
    out = tmp_path / "model.safetensors"
    result = invoke("chains", "train", str(tmp_path), "--out", str(out))
    assert result.exit_code == 2
    assert "train.jsonl.gz is missing" in result.output
    assert not out.exists()

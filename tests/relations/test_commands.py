"""``ghrr relations``: training, evaluation, prediction and their errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.common import invoke
from tests.processes import start, wait_until
from tests.relations.common import permutation_graph, write_graph

SETTINGS = ["--m", "3", "--dim", "16", "--epochs", "30", "--set", "batch=50", "--set", "regularizer_weight=0.003"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_graph(tmp_path_factory.mktemp("data") / "permutations", permutation_graph())


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations") / "run"
    result = invoke("relations", "train", str(data), "--out", str(folder), "--seed", "2", *SETTINGS)
    assert result.exit_code == 0, result.output
    assert "hits at 10" in result.output
    return folder


def fails(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return " ".join(result.output.split())


def test_settings_are_stored_in_the_result(run: Path) -> None:
    config = json.loads((run / "result.json").read_text())["config"]
    assert (config["m"], config["dim"], config["batch"], config["seed"]) == (3, 16, 50, 2)


def test_settings_can_be_written_as_in_python(data: Path, tmp_path: Path) -> None:
    train = ["relations", "train", str(data), "--out", str(tmp_path / "run"), "--epochs", "1", "--device", "cpu"]
    result = invoke(*train, "--set", "dim=4", "--set", "compile=False")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "run" / "result.json").read_text())["config"]["compile"] is False


def test_evaluation_agrees_with_training(run: Path, data: Path) -> None:
    found = json.loads(invoke("relations", "eval", str(run), str(data), "--json").output)
    stored = json.loads((run / "result.json").read_text())["test"]
    assert {name: found[name] for name in stored} == pytest.approx(stored)
    assert (found["split"], found["triples"]) == ("test", 10)
    assert "mrr" in invoke("relations", "eval", str(run), str(data), "--split", "valid").output


def test_prediction_of_a_relation_and_of_a_path(run: Path, data: Path) -> None:
    one = json.loads(invoke("relations", "predict", str(run), "0123", "b", "--json").output)
    assert (one[0]["answer"], len(one)) == ("1230", 5)
    path = json.loads(invoke("relations", "predict", str(run), "0123", "b", "~b", "--json", "--top", "1").output)
    assert [row["answer"] for row in path] == ["0123"]
    new = json.loads(invoke("relations", "predict", str(run), "0123", "b", "--data", str(data), "--json").output)
    assert "1230" not in [row["answer"] for row in new]
    assert "probability" in invoke("relations", "predict", str(run), "0123", "a").output


def test_finished_run_is_shown_again_with_resume(run: Path, data: Path) -> None:
    again = ["relations", "train", str(data), "--out", str(run), "--seed", "2", *SETTINGS]
    assert invoke(*again, "--resume").exit_code == 0
    assert "holds a run already" in fails(*again)


def test_errors_are_clear(run: Path, data: Path, tmp_path: Path) -> None:
    train = ["relations", "train", str(data), "--out", str(tmp_path / "run")]
    assert "--set has no setting 'size', expected one of average_epochs, batch, " in fails(*train, "--set", "size=3")
    assert "--set must be NAME=VALUE, got 'dim'" in fails(*train, "--set", "dim")
    assert "optimizer must be one of 'adagrad', 'adam'" in fails(*train, "--set", "optimizer=sgd")
    twice = fails(*train, "--m", "2", "--set", "dim=4", "--set", "m=3")
    assert "both --m and --set m are given; give one of them" in twice
    assert "compile must be True or False, got 'yes'" in fails(*train, "--set", "compile=yes")
    assert "no such folder" in fails("relations", "train", "missing", "--out", str(tmp_path / "run"))
    assert "unknown entity 'x'" in fails("relations", "predict", str(run), "x", "a")
    assert "no such file" in fails("relations", "predict", str(tmp_path), "x", "a")
    assert "name must be one of 'train', 'valid', 'test'" in fails(
        "relations", "eval", str(run), str(data), "--split", "dev"
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_ctrl_c_says_how_to_resume(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ghrr", "relations", "train", str(data), "--out", str(tmp_path / "run")]
    settings = ["--epochs", "1000000", "--set", "patience=1000000", *SETTINGS[:4]]
    with start([*command, *settings], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        wait_until((tmp_path / "run" / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
    assert process.returncode == 130
    assert "--resume" in output
    assert "Traceback" not in output


def test_training_prints_trials_and_epochs_in_logs(data: Path, tmp_path: Path) -> None:
    train = ["relations", "train", str(data), "--out", str(tmp_path / "run"), "--epochs", "12", "--device", "cpu"]
    result = invoke(*train)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    trials = [line for line in lines if line.startswith("trial: regularizer_weight 0.0")]
    assert len(trials) >= 3
    assert all(float(line.split("valid MRR ")[1]) <= 1 for line in trials)
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert [line.split(":")[0] for line in epochs] == [f"epoch {number} of 12" for number in range(1, 13)]
    assert sum("valid MRR" in line for line in epochs) == 3  # at 5, 10 and 12
    assert all("loss" in line for line in epochs)

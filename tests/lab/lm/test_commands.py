"""``ghrr lm``: training, evaluation, generation, comparison and their errors."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from typer.testing import Result

from ghrr_lab import lm
from ghrr_lab.lm import comparison, corpora
from tests.cli.common import invoke
from tests.processes import HANG, start, wait_until

SMALL = ["embed_dim=16", "num_layers=1", "num_heads=2", "max_len=8", "ffn_dim=16", "batch=256", "dropout=0.1"]
SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module", autouse=True)
def _small_grammar() -> Iterator[None]:
    """Make the grammar corpus small, for commands in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "_GRAMMAR_SENTENCES", {"train": 600, "valid": 60, "test": 60})
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("lm") / "r[" / "] \x1b[31m"  # unbalanced markup and an escape sequence
    return folder, invoke("lm", "train", "grammar", "--out", str(folder), "--epochs", "1", "--seed", "3", *SETTINGS)


@pytest.fixture(scope="module")
def run(trained: tuple[Path, Result]) -> Path:
    return trained[0]


def test_training_prints_results_and_escapes_folder_name(trained: tuple[Path, Result]) -> None:
    folder, result = trained
    assert result.exit_code == 0, result.output
    assert (folder / "result.json").exists()
    assert "valid ppl" in result.output
    assert r"\x1b[31m" in result.output
    assert "\x1b" not in result.output


def fails(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_settings_are_stored_in_the_run(run: Path) -> None:
    stored = json.loads((run / "run.json").read_text())
    assert stored["model"]["embed_dim"] == 16
    assert (stored["training"]["epochs"], stored["training"]["seed"]) == (1, 3)


def test_size_of_tokens_is_named_as_in_other_commands(tmp_path: Path) -> None:
    arguments = ["lm", "train", "grammar", "--out", str(tmp_path / "r"), "--epochs", "1"]
    assert "'embed_dim'" in fails(*arguments, "--set", "dim=16").partition("did you mean")[2]
    assert invoke(*arguments, *SETTINGS[2:], "--dim", "32").exit_code == 0
    assert json.loads((tmp_path / "r" / "run.json").read_text())["model"]["embed_dim"] == 32


def test_evaluation_agrees_with_training(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    found = json.loads(invoke("lm", "eval", str(run), "--json").output)
    assert found["perplexity"] == pytest.approx(result["test_ppl"], rel=1e-5)
    assert found["words"] == found["tokens"] + 1  # the first word is not predicted
    valid = json.loads(invoke("lm", "eval", str(run), "--json", "--stride", "2", "--split", "valid").output)
    assert valid["split"] == "valid"
    assert "perplexity" in invoke("lm", "eval", str(run)).output


def test_generate_is_reproducible(run: Path) -> None:
    first = invoke("lm", "generate", str(run), "--tokens", "12", "--seed", "1").output
    assert first == invoke("lm", "generate", str(run), "--tokens", "12", "--seed", "1").output
    assert first != invoke("lm", "generate", str(run), "--tokens", "12", "--seed", "2").output
    greedy = ["lm", "generate", str(run), "--tokens", "5", "--temperature", "0"]
    outputs = {
        invoke(*greedy, "the king").output,
        invoke(*greedy, "-", stdin="the king").output,
        invoke(*greedy, "--prompt", "the king").output,
    }
    assert len(outputs) == 1
    assert outputs.pop().startswith("the king")


@pytest.mark.parametrize(("warmup", "warns"), [(1, False), (10_000, True)])
def test_warmup_longer_than_training_gives_a_warning(tmp_path: Path, warmup: int, warns: bool) -> None:
    train = ["lm", "train", "grammar", "--out", str(tmp_path / "r"), "--epochs", "1", *SETTINGS]
    output = " ".join(invoke(*train, "--set", f"warmup={warmup}").output.split())
    assert ("before the warm-up of the learning rate" in output) == warns


def test_existing_run_is_not_overwritten(run: Path) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    train = ["lm", "train", "grammar", "--out", str(run), "--epochs", "1", *SETTINGS]
    assert "holds a run already; resume it, or choose another folder" in fails(*train, "--seed", "3")
    assert "its training is seed 3, not 4" in fails(*train, "--seed", "4", "--resume")
    assert invoke(*train, "--seed", "3", "--resume").exit_code == 0  # a finished run shows its result
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


@pytest.mark.slow
def test_interrupted_training_explains_how_to_resume(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ghrr.cli", "lm", "train", "grammar", "--out", str(tmp_path / "r"), *SETTINGS]
    command += ["--set", "evaluations=20"]  # for an early checkpoint
    output = interrupted(command, tmp_path / "r")
    assert "Run the same command with --resume to continue" in output


def interrupted(command: list[str], run: Path) -> str:
    """Send Ctrl-C to a command once a run of it has a checkpoint; return its output when no process of it is left."""
    process = start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        wait_until((run / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=HANG)[0]
        wait_until(lambda: not members_of_group(process.pid))
    finally:
        with contextlib.suppress(ProcessLookupError):  # all have ended, unless the test fails
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert "Traceback" not in output
    return " ".join(output.split())


def members_of_group(group: int) -> list[int]:
    """Return the processes of a group that still run."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


@pytest.mark.slow
def test_interrupted_comparison_stops_all_runs(tmp_path: Path) -> None:
    model = {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "max_len": 8, "ffn_dim": 16, "attention": "rope"}
    plan = {"dataset": "grammar", "model": model, "runs": [{"label": "rope", "seeds": [0, 1, 2]}]}
    plan["training"] = {"epochs": 100_000, "batch": 256, "evaluations": 20}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-m", "ghrr.cli", "lm", "compare", str(tmp_path / "plan.json")]
    command += ["--out", str(tmp_path / "runs"), "--summary", str(tmp_path / "s.json")]
    output = interrupted(command, tmp_path / "runs" / "grammar-rope-0")
    assert "Stopped. Run the same command again to continue from" in output
    started = {path.name for path in (tmp_path / "runs").iterdir()}
    assert started == {"grammar-rope-0"}  # and none after it


def test_compare_shows_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "ProcessPoolExecutor", lambda jobs, mp_context: ThreadPoolExecutor(1))
    model = {"embed_dim": 16, "num_layers": 1, "num_heads": 2, "max_len": 8, "ffn_dim": 16}
    runs = [{"label": "r[/]", "model": {"attention": "rope"}, "seeds": [0, 1]}]
    plan = {"dataset": "grammar", "model": model, "training": {"epochs": 1, "batch": 256}, "runs": runs}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    where = ["--out", str(tmp_path / "runs"), "--summary", str(tmp_path / "s.json")]
    result = invoke("lm", "compare", str(tmp_path / "plan.json"), *where, "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "r[/]" in result.output  # a label is text, not markup
    stored = json.loads((tmp_path / "s.json").read_text())["runs"]
    assert len(stored) == 2
    assert str(tmp_path / "s.md") in "".join(result.output.split())
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "runs": [{**runs[0], "label": "again", "seeds": [0]}]}))
    assert invoke("lm", "compare", str(tmp_path / "plan.json"), *where).exit_code == 0
    stored = json.loads((tmp_path / "s.json").read_text())["runs"]
    assert len(stored) == 3
    assert (tmp_path / "s.md").read_text(encoding="utf-8") == lm.markdown_table(stored)  # the table of all runs


def test_bad_requests_are_explained(run: Path, tmp_path: Path) -> None:
    train = ["lm", "train", "grammar", "--out", str(tmp_path / "new")]
    assert "--set has no setting 'depth', expected one of angle_std, attention, batch" in fails(
        *train, "--set", "depth=3"
    )
    assert "attention must be one of 'vanilla', 'rope'" in fails(*train, "--attention", "dense")
    assert "expected bpe or limit, got both" in fails(*train, "--bpe", "300", "--limit", "100")
    assert "match_parameters: count must be at least" in fails(*train, "--params", "10")
    assert "num_kv_heads must divide num_heads=4, got 3" in fails(*train, "--set", "num_kv_heads=3")
    assert not (tmp_path / "new").exists()
    assert "--split must be one of train, valid, test" in fails("lm", "eval", str(run), "--split", "dev")
    assert "holds no run" in fails("lm", "generate", str(tmp_path))
    assert "stride must not exceed the model's context (8), got 9" in fails("lm", "eval", str(run), "--stride", "9")
    (tmp_path / "plan.json").write_text('{"dataset": "grammar"}')
    assert "missing keys ['runs']" in fails("lm", "compare", str(tmp_path / "plan.json"))
    assert "ptb" in fails("lm", "data", "penn")


def test_corpus_with_wrong_hash_is_rejected(tmp_path: Path) -> None:
    source = tmp_path / "given"
    source.mkdir()
    for split in ("train", "valid", "test"):
        (source / f"{split}.txt").write_text("not the real text\n")
    message = fails("lm", "data", "ptb", "--source", str(source), "--folder", str(tmp_path / "ptb"))
    assert "sha256" in message
    assert not list((tmp_path / "ptb").glob("*.txt"))

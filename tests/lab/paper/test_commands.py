"""``ghrr paper``: list, run and plot; interrupted runs resume without loss."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ghrr_lab import paper
from ghrr_lab.paper import commands
from ghrr_lab.paper.experiment import Check, Claim, Finding
from tests.cli.common import invoke
from tests.processes import HANG, start, wait_until


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "ghrr", *arguments], capture_output=True, text=True, check=True)


def test_list_shows_all_experiments() -> None:
    output = invoke("paper", "list").output
    assert all(name in output for name in paper.EXPERIMENTS)


def test_run_rejects_unknown_experiment(tmp_path: Path) -> None:
    result = invoke("paper", "run", "quasi-ortogonality", "--out", str(tmp_path / "r"))
    assert result.exit_code == 2
    assert "paper: unknown experiment 'quasi-ortogonality', expected one of " in result.output
    assert "did you mean 'quasi-orthogonality'?" in result.output.replace("\n", " ")
    assert not (tmp_path / "r").exists()
    assert "unknown experiment '[/x]'" in invoke("paper", "run", "[/x]").output


def test_run_reports_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("paper", "run", "perplexity", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert f"cannot write to {tmp_path / 'file'}: File exists" in result.output.replace("\n", "")
    assert "No trials were computed." in result.output.replace("\n", " ")
    result = invoke("paper", "run", "perplexity", "--out", str(tmp_path / "file" / "[/y]"))
    assert result.exit_code == 2
    assert "[/y]" in result.output
    assert "cannot write to /proc/ghrr" in invoke("paper", "run", "perplexity", "--out", "/proc/ghrr").output


@pytest.mark.slow
def test_run_and_plot_as_commands(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = run_command("paper", "run", "fixed-vs-varying", "--seed", "3", "-j", "1", "--out", str(out))
    assert str(out / "index.html") in done.stdout.replace("\n", "")
    names = ["figures", "fixed-vs-varying.csv", "index.html", "manifest.json", "trials"]
    assert sorted(path.name for path in out.iterdir()) == names
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert manifest["command"] == "ghrr paper run fixed-vs-varying --quick --seed 3"
    (out / "index.html").unlink()
    assert "reproduced" in invoke("paper", "plot", "--out", str(out)).output
    assert (out / "index.html").exists()


def test_run_reports_missing_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr_lab.paper.execution._CONNECT_SECONDS", 0.5)
    result = invoke("paper", "run", "quasi-orthogonality", "--out", str(tmp_path), "--dask", "tcp://127.0.0.1:9")
    assert result.exit_code == 2
    assert "cannot connect to a dask scheduler at tcp://127.0.0.1:9" in result.output.replace("\n", " ")
    assert "No trials were computed." in result.output.replace("\n", " ")


def test_many_experiments_are_shown_as_counts(capsys: pytest.CaptureFixture[str]) -> None:
    claim = Claim("here", "something", lambda data, settings: [])
    findings = [Finding(claim, [Check("x", 1.0, 0.1, "1", holds)]) for holds in (True, True, False)]
    experiments = list(paper.EXPERIMENTS.values())[:4]
    outcomes = [paper.Outcome(experiment, {}, pd.DataFrame(), findings, 1.0) for experiment in experiments]
    commands._show_verdicts(outcomes, Path("report.html"))
    shown = capsys.readouterr().out
    assert all(experiment.name in shown for experiment in experiments)
    assert re.search(r"all\s+8\s+4\s", shown)
    assert "something" not in shown


def test_plot_requires_results(tmp_path: Path) -> None:
    result = invoke("paper", "plot", "--out", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "no manifest.json" in result.output.replace("\n", " ")


def stop_after_three_trials(out: Path, how: signal.Signals, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a run, wait until it has stored three trials, and send a signal."""
    command = [sys.executable, "-m", "ghrr", "paper", "run", "quasi-orthogonality", "--out", str(out), *options]
    with (
        open(out.with_suffix(".out"), "w+") as output,
        open(out.with_suffix(".err"), "w+") as errors,
        start(command, stdout=output, stderr=errors) as process,
    ):
        journal = out / "trials" / "quick-seed-0" / "quasi-orthogonality.jsonl"
        wait_until(lambda: journal.exists() and journal.read_bytes().count(b"\n") >= 4, process)
        process.send_signal(how)
        process.wait(timeout=HANG)
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output.read(), errors.read())


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_run_keeps_finished_trials(tmp_path: Path, jobs: str) -> None:
    out = tmp_path / "report[bold]"
    stopped = stop_after_three_trials(out, signal.SIGINT, "-j", jobs)
    assert stopped.returncode == 130
    assert "Interrupted. " in stopped.stdout
    assert "of 20 trials are stored in" in stopped.stdout
    assert "Traceback" not in stopped.stderr
    stored = (out / "trials" / "quick-seed-0" / "quasi-orthogonality.jsonl").read_bytes()
    assert 4 <= stored.count(b"\n") < 21
    assert stored.endswith(b"\n")


@pytest.mark.slow
def test_killed_run_resumes_with_the_same_numbers(tmp_path: Path) -> None:
    killed = stop_after_three_trials(tmp_path / "killed", signal.SIGKILL, "-j", "1")
    journal = tmp_path / "killed" / "trials" / "quick-seed-0" / "quasi-orthogonality.jsonl"
    whole_lines = [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "index.html").exists()
    for folder in ("killed", "whole"):
        paper.run(["quasi-orthogonality"], tmp_path / folder)
    tables = [(tmp_path / folder / "quasi-orthogonality.csv").read_bytes() for folder in ("killed", "whole")]
    assert tables[0] == tables[1]
    assert journal.read_bytes().startswith(b"".join(whole_lines))  # no trial was computed twice
    assert journal.read_bytes().count(b"\n") == 21

"""Commands of general use, ``ghrr paper``, and how untrusted text is printed."""

from __future__ import annotations

import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import ghrr
from ghrr import cli, paper
from ghrr.cli.shared import foreign, say
from ghrr.paper.experiment import Check, Claim, Finding
from tests.cli.common import invoke
from tests.processes import HANG, start, wait_until


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if line.startswith("│")
    ]


def test_demo_shows_right_and_confused_answers() -> None:
    result = invoke("demo")
    assert result.exit_code == 0
    left, fhrr, wrong = re.split(r"FHRR, m = 1:|GHRR, m = 3, read from the wrong side", result.output)
    answers = ["tea", "coffee", "laptop", "desk"]
    assert [row[-1] for row in rows_of(left)] == [f"✓ {word}" for word in answers]
    mixed = "✗ coffee or laptop"
    assert [row[-1] for row in rows_of(fhrr)] == ["✓ tea", mixed, mixed, "✓ desk"]
    assert [row[-1] for row in rows_of(wrong)] == ["✗ nothing near 1"] * 4


def test_info_lists_versions_devices_and_extras() -> None:
    output = invoke("info").output
    for word in ("ghrr", ghrr.__version__, "Python", "torch", "NumPy", "device", "BLAS", "extras", "paper yes"):
        assert word in output
    with ghrr.backend("torch"):
        assert "kernels  cpu torch: asked for" in invoke("info").output


def test_info_prints_installation_hints_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "numba" else find(name))
    output = " ".join(invoke("info").output.split())
    assert "pip install 'ghrr[fast]'" in output
    assert "pip install -e '.[fast]'" in output


def test_info_escapes_device_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghrr.ops, "in_use", lambda: {"cpu": "[/x] \x1b[31m :warning:"})
    result = invoke("info")
    assert result.exit_code == 0
    assert r"cpu [/x] \x1b[31m :warning:" in result.output


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a[bold]b[/]\\", "a[bold]b[/]\\"),
        (":smile:", ":smile:"),
        ("\x1b]0;x\x07\r\x7f", r"\x1b]0;x\x07\x0d\x7f"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("\u202ea\u2066\u2069\u200e\u200f\u061c", r"\u202ea\u2066\u2069\u200e\u200f\u061c"),
        (b"\xff".decode(errors="surrogateescape"), r"\udcff"),
        ("a\tb\nc", r"a\x09b\x0ac"),
        ("Zürich 東京 👩\u200d🚀", "Zürich 東京 👩\u200d🚀"),
    ],
)
def test_untrusted_text_is_escaped(text: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    say(foreign(text))
    assert capsys.readouterr().out == f"{shown}\n"


def test_untrusted_text_keeps_newlines_on_request() -> None:
    assert foreign("a\n\tb\r", lines=True).plain == "a\n\tb\\x0d"


def test_cite_and_version_print() -> None:
    assert "arXiv:2405.09689" in invoke("cite").output
    assert invoke("--version").output == f"{ghrr.__version__}\n"
    assert "Usage" in invoke().output


def test_paper_list_and_unknown_experiment(tmp_path: Path) -> None:
    assert "quasi-orthogonality" in invoke("paper", "list").output
    result = invoke("paper", "run", "quasi-ortogonality", "--out", str(tmp_path / "r"))
    assert result.exit_code == 2
    assert "no experiment is called 'quasi-ortogonality': did you mean 'quasi-orthogonality'?" in result.output
    assert not (tmp_path / "r").exists()
    assert "no experiment is called '[/x]'" in invoke("paper", "run", "[/x]").output


def test_paper_run_explains_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("paper", "run", "fixed-vs-varying", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert f"cannot write to {tmp_path / 'file'}: File exists" in result.output.replace("\n", "")
    result = invoke("paper", "run", "fixed-vs-varying", "--out", str(tmp_path / "file" / "[/y]"))
    assert result.exit_code == 2
    assert "[/y]" in result.output


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else object())
    result = invoke("paper", "list")
    assert result.exit_code == 2
    assert "this needs pandas: pip install 'ghrr[paper]'" in result.output


@pytest.mark.slow
def test_paper_run_as_a_command(tmp_path: Path) -> None:
    out = tmp_path / "report"
    command = [sys.executable, "-m", "ghrr", "paper", "run", "fixed-vs-varying", "--seed", "3"]
    command += ["--out", str(out), "-j", "1"]  # worker processes take seconds to start
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(out / "index.html") in done.stdout.replace("\n", "")
    names = ["figures", "fixed-vs-varying.csv", "index.html", "manifest.json", "trials"]
    assert sorted(path.name for path in out.iterdir()) == names
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert manifest["command"] == "ghrr paper run fixed-vs-varying --quick --seed 3"
    (out / "index.html").unlink()
    assert "reproduced" in invoke("paper", "plot", "--out", str(out)).output
    assert (out / "index.html").exists()


def run_quasi_orthogonality(out: Path) -> None:
    result = invoke("paper", "run", "quasi-orthogonality", "--out", str(out), "-j", "1")
    assert result.exit_code == 0, result.output


def test_unreachable_cluster_is_named(tmp_path: Path) -> None:
    arguments = ("paper", "run", "fixed-vs-varying", "--out", str(tmp_path / "r"), "--dask", "tcp://127.0.0.1:9")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "no dask scheduler answers at tcp://127.0.0.1:9" in result.output.replace("\n", " ")
    assert "Nothing was computed yet." in result.output.replace("\n", " ")


def test_verdicts_of_many_experiments_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    claim = Claim("x", "here", "something", lambda data, settings: [])
    findings = [Finding(claim, [Check("x", 1.0, 0.1, "1", holds)]) for holds in (True, True, False)]
    experiments = list(paper.EXPERIMENTS.values())[:4]
    outcomes = [paper.Outcome(experiment, {}, pd.DataFrame(), findings, 1.0) for experiment in experiments]
    cli.paper._show_verdicts(outcomes, Path("report.html"))
    shown = capsys.readouterr().out
    assert all(experiment.name in shown for experiment in experiments)
    assert re.search(r"all\s+8\s+4\s", shown)
    assert "something" not in shown


def test_plot_needs_results(tmp_path: Path) -> None:
    result = invoke("paper", "plot", "--out", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "holds no results" in result.output


def stop_after_some_trials(out: Path, how: signal.Signals, *options: str) -> subprocess.CompletedProcess[str]:
    """Start a run, wait until it has stored three trials, and send a signal."""
    command = [sys.executable, "-m", "ghrr", "paper", "run", "quasi-orthogonality", "--out", str(out), *options]
    journal = out / "trials" / "quick-seed-0" / "quasi-orthogonality.jsonl"
    with (
        open(out.with_suffix(".out"), "w+") as output,
        open(out.with_suffix(".err"), "w+") as errors,
        start(command, stdout=output, stderr=errors) as process,
    ):
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
    stopped = stop_after_some_trials(out, signal.SIGINT, "-j", jobs)
    assert stopped.returncode == 130
    assert "Interrupted. " in stopped.stdout
    assert "of 20 trials are stored in" in stopped.stdout
    assert "the same command goes on from there." in stopped.stdout
    assert "Traceback" not in stopped.stderr
    journal = out / "trials" / "quick-seed-0" / "quasi-orthogonality.jsonl"
    stored = journal.read_bytes()
    assert 4 <= stored.count(b"\n") < 21
    run_quasi_orthogonality(out)
    assert journal.read_bytes().startswith(stored)  # nothing was computed twice
    assert journal.read_bytes().count(b"\n") == 21


@pytest.mark.slow
def test_killed_run_continues_with_identical_results(tmp_path: Path) -> None:
    killed = stop_after_some_trials(tmp_path / "killed", signal.SIGKILL, "-j", "1")
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "killed" / "index.html").exists()
    for folder in ("killed", "whole"):
        run_quasi_orthogonality(tmp_path / folder)
    tables = [(tmp_path / folder / "quasi-orthogonality.csv").read_bytes() for folder in ("killed", "whole")]
    assert tables[0] == tables[1]

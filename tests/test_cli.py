"""The command line as a person meets it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import ghrr
from ghrr import cli

runner = CliRunner()


def invoke(*arguments: str) -> Result:
    return runner.invoke(cli.app, list(arguments), env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"})


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("│").split("│")] for line in table.splitlines() if line.startswith("│")
    ]


def test_demo_tells_the_story() -> None:
    result = invoke("demo")
    assert result.exit_code == 0
    left, fhrr, wrong = re.split(r"FHRR, m = 1:|GHRR, m = 3, read from the wrong side", result.output)
    answers = ["tea", "coffee", "laptop", "desk"]
    assert [row[-1] for row in rows_of(left)] == [f"✓ {word}" for word in answers]
    mixed = "✗ coffee or laptop"
    assert [row[-1] for row in rows_of(fhrr)] == ["✓ tea", mixed, mixed, "✓ desk"]
    assert [row[-1] for row in rows_of(wrong)] == ["✗ nothing near 1"] * 4


def test_info_names_what_there_is() -> None:
    output = invoke("info").output
    for word in ("ghrr", ghrr.__version__, "Python", "torch", "NumPy", "device", "BLAS", "extras", "paper yes"):
        assert word in output


def test_cite_and_version() -> None:
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


def test_paper_run_needs_a_place_to_write(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("paper", "run", "fixed-vs-varying", "--out", str(tmp_path / "file"))
    assert result.exit_code == 2
    assert f"cannot write to {tmp_path / 'file'}: File exists" in result.output.replace("\n", "")
    result = invoke("paper", "run", "fixed-vs-varying", "--out", str(tmp_path / "file" / "[/y]"))
    assert result.exit_code == 2
    assert "[/y]" in result.output


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pandas" else object())
    result = invoke("paper", "list")
    assert result.exit_code == 2
    assert "this needs pandas: pip install 'ghrr[paper]'" in result.output


def test_paper_run_as_a_command(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-m", "ghrr", "paper", "run", "fixed-vs-varying", "--seed", "3", "--out", str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(out / "index.html") in done.stdout.replace("\n", "")
    assert sorted(path.name for path in out.iterdir()) == ["fixed-vs-varying.csv", "index.html", "manifest.json"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["seed"] == 3
    assert manifest["command"] == "ghrr paper run fixed-vs-varying --quick --seed 3"


def test_an_interrupt_ends_quietly_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "report[bold]"
    command = [sys.executable, "-m", "ghrr", "paper", "run", "--full", "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not out.exists():  # it runs
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. What was finished before is as it was." in output
    assert "Traceback" not in errors
    assert not list(out.iterdir())

"""Finished trials survive what happens to files: cut lines, damage, other versions, a full disk."""

from __future__ import annotations

import json
import math
import re
import resource
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ghrr import paper
from ghrr.paper import journal as journals
from ghrr.paper.journal import Journal, Trial
from tests.paper.conftest import SMALL

EXPERIMENT = paper.EXPERIMENTS["fixed-vs-varying"]


def make(path: Path, seed: int = 0, **settings: int) -> Journal:
    return Journal(path, EXPERIMENT, SMALL | settings, seed)


def trial(number: int) -> Trial:
    columns = {
        "kind": ["a", "ü\n"],
        "similarity": [1 / (number + 3), math.nan],
        "count": [number, 2],
        "yes": [True, False],
    }
    return Trial(number, pd.DataFrame(columns), 0.25)


def filled(path: Path, count: int = 3) -> Journal:
    journal = make(path)
    assert journal.open() == ""
    for number in range(count):
        journal.append(trial(number))
    return journal


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    filled(tmp_path / "x.jsonl")
    again = make(tmp_path / "x.jsonl")
    assert again.open() == ""
    found = again.trials()
    assert list(found) == [0, 1, 2]
    for number, one in found.items():
        pd.testing.assert_frame_equal(one.table, trial(number).table, check_exact=True)
        assert one.seconds == 0.25


@pytest.mark.parametrize("lost", [1, 10, 60])
def test_a_line_cut_short_costs_one_trial(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "x.jsonl"
    filled(path)
    path.write_bytes(path.read_bytes()[:-lost])
    again = make(path)
    assert again.open() == "x.jsonl ended in the middle of a trial, which runs again"
    assert list(again.trials()) == [0, 1]
    again.append(trial(2))
    assert list(make(path).trials()) == [0, 1, 2]


def test_a_damaged_line_costs_its_trial_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    filled(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"0.25", b"0.35")  # still JSON; the checksum tells
    path.write_bytes(b"".join(lines))
    again = make(path)
    assert again.open() == ""
    assert list(again.trials()) == [0, 2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ghrr": "0.0.1"}, r"was written by another version of ghrr \(0.0.1, this is "),
        ({"code": "abc"}, r"was written by another version of this experiment \(abc, this is "),
        ({"format": 0}, r"was written by another format \(0, this is 1\)"),
        ({"settings": {"m": 7}}, "belongs to other settings"),
        ({"seed": 5}, "belongs to other settings"),
    ],
)
def test_results_of_another_version_are_set_aside(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    path = tmp_path / "x.jsonl"
    filled(path)
    header, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(journals._sealed(json.loads(header[9:]) | change) + b"".join(rest))
    before = path.read_bytes()
    again = make(path)
    notice = again.open()
    assert not again.trials()
    assert re.search(reason, notice)
    assert "it is now x.aside-1.jsonl, and its trials run anew" in notice
    assert (tmp_path / "x.aside-1.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\n", b"half a he", b"\x00\xff\x00\n", b"[1, 2]\n"])
def test_an_unreadable_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    again = make(path)
    assert again.open().startswith("x.jsonl is not readable; it is now x.aside-1.jsonl")
    assert (tmp_path / "x.aside-1.jsonl").read_bytes() == content
    path.write_bytes(content)
    assert "x.aside-2.jsonl" in make(path).open()


def test_the_code_of_an_experiment_is_that_of_its_own_module() -> None:
    codes = {journals.code_of(experiment) for experiment in paper.EXPERIMENTS.values()}
    assert len(codes) == len(paper.EXPERIMENTS)


@pytest.mark.usefixtures("small")
def test_a_folder_of_another_version_runs_anew_with_a_notice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper.run(["fixed-vs-varying"], tmp_path)
    table = (tmp_path / "fixed-vs-varying.csv").read_bytes()
    monkeypatch.setattr("ghrr.__version__", "9.9.9")
    notices: list[str] = []
    paper.run(["fixed-vs-varying"], tmp_path, on_notice=notices.append)
    assert ["another version of ghrr (" in notice for notice in notices] == [True]
    assert (tmp_path / "fixed-vs-varying.csv").read_bytes() == table


def test_a_full_disk_loses_nothing_that_was_stored(tmp_path: Path) -> None:
    """The process may write no file beyond a size, as on a full disk; then it may."""
    out = tmp_path / "report"
    command = [sys.executable, "-m", "ghrr", "paper", "run", "fixed-vs-varying", "-j", "1", "--out", str(out)]
    limit = 40_000
    stopped = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert stopped.returncode == 2
    assert f"cannot write to {out}: File too large" in stopped.stderr.replace("\n", " ")
    assert "trials are stored in" in stopped.stderr.replace("\n", " ")
    journal = out / "trials" / "quick-seed-0" / "fixed-vs-varying.jsonl"
    whole = [line for line in journal.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert 2 < len(whole) < 11
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "ended in the middle of a trial" in done.stdout.replace("\n", " ")
    assert journal.read_bytes().startswith(b"".join(whole))


def test_a_place_where_nobody_may_write_is_named() -> None:
    command = [sys.executable, "-m", "ghrr", "paper", "run", "fixed-vs-varying", "--out", "/proc/ghrr"]
    stopped = subprocess.run(command, capture_output=True, text=True, check=False)
    assert stopped.returncode == 2
    assert "cannot write to /proc/ghrr: " in stopped.stderr
    assert "Nothing was computed yet." in stopped.stderr

"""Stored trials survive truncated lines, damage, other versions and a full disk."""

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

from ghrr_lab import paper
from ghrr_lab.paper import journal as journals
from ghrr_lab.paper import source_code
from ghrr_lab.paper.journal import Journal, Trial
from ghrr_lab.paper.source_code import source_hash
from tests.lab.paper.conftest import SMALL

EXPERIMENT = paper.EXPERIMENTS["fixed-vs-varying"]


def new_journal(path: Path, seed: int = 0, **settings: int) -> Journal:
    return Journal(path, EXPERIMENT, SMALL | settings, seed)


def trial(number: int) -> Trial:
    columns = {
        "kind": ["a", "ü\n"],
        "similarity": [1 / (number + 3), math.nan],
        "count": [number, 2],
        "yes": [True, False],
    }
    return Trial(number, pd.DataFrame(columns), 0.25)


def filled_journal(path: Path, count: int = 3) -> Journal:
    journal = new_journal(path)
    assert journal.open() == ""
    for number in range(count):
        journal.append(trial(number))
    return journal


def test_stored_trials_are_read_unchanged(tmp_path: Path) -> None:
    filled_journal(tmp_path / "x.jsonl")
    again = new_journal(tmp_path / "x.jsonl")
    assert again.open() == ""
    found = again.trials()
    assert list(found) == [0, 1, 2]
    for number, one in found.items():
        pd.testing.assert_frame_equal(one.table, trial(number).table, check_exact=True)
        assert one.seconds == 0.25


@pytest.mark.parametrize("lost", [1, 10, 60])
def test_truncated_line_loses_one_trial(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "x.jsonl"
    filled_journal(path)
    path.write_bytes(path.read_bytes()[:-lost])
    again = new_journal(path)
    assert "incomplete trial" in again.open()
    assert list(again.trials()) == [0, 1]
    again.append(trial(2))
    assert list(new_journal(path).trials()) == [0, 1, 2]


def test_damaged_line_loses_only_its_trial(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    filled_journal(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"0.25", b"0.35")  # valid JSON with a wrong checksum
    path.write_bytes(b"".join(lines))
    again = new_journal(path)
    assert again.open() == ""
    assert list(again.trials()) == [0, 2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ghrr": "0.0.1"}, r"another version of ghrr \(got 0.0.1, expected "),
        ({"code": "abc"}, r"another version of this experiment \(got abc, expected "),
        ({"format": 0}, r"another format \(got 0, expected 1\)"),
        ({"settings": {"m": 7}}, "other settings"),
        ({"seed": 5}, "other settings"),
    ],
)
def test_file_with_another_header_is_renamed(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    path = tmp_path / "x.jsonl"
    filled_journal(path)
    header, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(journals._format_line(json.loads(header[9:]) | change) + b"".join(rest))
    before = path.read_bytes()
    again = new_journal(path)
    notice = again.open()
    assert not again.trials()
    assert re.search(reason, notice)
    assert "renamed to x.aside-1.jsonl" in notice
    assert (tmp_path / "x.aside-1.jsonl").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\n", b"half a he", b"\x00\xff\x00\n", b"[1, 2]\n"])
def test_unreadable_file_is_renamed(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    again = new_journal(path)
    assert "is not readable; it was renamed to x.aside-1.jsonl" in again.open()
    assert (tmp_path / "x.aside-1.jsonl").read_bytes() == content
    path.write_bytes(content)
    assert "x.aside-2.jsonl" in new_journal(path).open()


def test_source_hash_differs_between_experiments() -> None:
    assert len({source_hash(name) for name in paper.EXPERIMENTS}) == len(paper.EXPERIMENTS)


def test_source_hash_includes_indirect_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """kernel-shapes uses theory.rotations through theory.kernels; fixed-vs-varying does not use it."""
    before = {name: source_hash(name) for name in ("kernel-shapes", "fixed-vs-varying")}
    read = source_code._read_module
    changed = "ghrr_lab.paper.theory.rotations"
    monkeypatch.setattr(source_code, "_read_module", lambda name: (b"", []) if name == changed else read(name))
    assert source_hash("kernel-shapes") != before["kernel-shapes"]
    assert source_hash("fixed-vs-varying") == before["fixed-vs-varying"]


@pytest.mark.usefixtures("small")
def test_trials_of_another_version_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paper.run(["fixed-vs-varying"], tmp_path)
    table = (tmp_path / "fixed-vs-varying.csv").read_bytes()
    monkeypatch.setattr("ghrr.__version__", "9.9.9")
    notices: list[str] = []
    paper.run(["fixed-vs-varying"], tmp_path, on_notice=notices.append)
    assert ["another version of ghrr (" in notice for notice in notices] == [True]
    assert (tmp_path / "fixed-vs-varying.csv").read_bytes() == table


def test_full_disk_loses_no_stored_trial(tmp_path: Path) -> None:
    """A limit on the file size acts like a full disk. Without the limit, the run continues."""
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
    notices: list[str] = []
    paper.run(["fixed-vs-varying"], out, on_notice=notices.append)
    assert "incomplete trial" in notices[0]
    assert journal.read_bytes().startswith(b"".join(whole))

"""Output files: an existing file needs --force, stays if the command fails, and is never the file that is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.common import invoke

# Commands that write a file, with the name of the file that they read.
COMMANDS = {
    "encode": ("source.jsonl", ["encode", "source.jsonl", "-o", "OUT"]),
    "dedupe": ("source.jsonl", ["dedupe", "source.jsonl", "-o", "OUT", "--threshold", "0.1"]),
    "learn": ("table.csv", ["learn", "table.csv", "--target", "y", "-o", "OUT", "--dim", "16", "--folds", "2"]),
    "predict": ("table.csv", ["predict", "model.safetensors", "table.csv", "-o", "OUT"]),
    "chains train": ("", ["chains", "train", "clutrr", "--out", "OUT"]),
}
each_command = pytest.mark.parametrize("name", COMMANDS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with files that the commands read."""
    monkeypatch.chdir(tmp_path)
    people = [
        {"name": f"{'abcde'[n % 5] * 6} {'vwxyz'[n // 5] * 6}", "age": 20 + 7 * n % 30, "room": n % 4}
        for n in range(20)
    ]
    records = [*people, *people]
    (tmp_path / "source.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    rows = "".join(f"{number},{'ab'[number % 2]},{'no' if number < 10 else 'yes'}\n" for number in range(20))
    (tmp_path / "table.csv").write_text("n,letter,y\n" + rows)
    return tmp_path


def run(name: str, out: str, *options: str) -> tuple[int, str]:
    arguments = [out if word == "OUT" else word for word in COMMANDS[name][1]]
    result = invoke(*arguments, *options)
    return result.exit_code, " ".join(result.output.split())


@each_command
def test_existing_file_is_kept_without_force(name: str, folder: Path) -> None:
    (folder / "out").write_text("keep")
    status, output = run(name, "out")
    assert status == 2
    assert "out already exists" in output
    assert (folder / "out").read_text() == "keep"


@each_command
def test_existing_file_is_kept_if_the_source_cannot_be_read(name: str, folder: Path) -> None:
    for source in ("source.jsonl", "table.csv"):
        (folder / source).unlink()
    (folder / "out").write_text("keep")
    assert run(name, "out", "--force")[0] == 2
    assert (folder / "out").read_text() == "keep"


@pytest.mark.parametrize("name", ["encode", "dedupe"])
def test_force_replaces_a_file_when_the_command_succeeds(name: str, folder: Path) -> None:
    (folder / "out").write_text("old")
    assert run(name, "out", "--force")[0] == 0
    assert (folder / "out").read_bytes() != b"old"


@pytest.mark.parametrize("name", [name for name, (source, _) in COMMANDS.items() if source])
@pytest.mark.parametrize("kind", ["same name", "link", "hard link"])
def test_force_does_not_replace_the_file_that_is_read(name: str, kind: str, folder: Path) -> None:
    source = COMMANDS[name][0]
    before, out = (folder / source).read_bytes(), source
    if kind != "same name":
        out = "out"
        (folder / "out").symlink_to(source) if kind == "link" else os.link(source, "out")
    status, output = run(name, out, "--force")
    assert status == 2
    assert "is the file that the command reads" in output
    assert (folder / source).read_bytes() == before


@each_command
def test_folders_and_devices_are_refused_before_any_work(name: str, folder: Path) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "fifo")
    assert "is a folder; name a file in it" in run(name, "sub", "--force")[1]
    assert "is not a regular file" in run(name, "fifo", "--force")[1]
    assert "does not exist; create it first" in run(name, "none/out")[1]


def test_encode_does_not_wait_for_a_pipe_that_it_would_read_twice(folder: Path) -> None:
    os.mkfifo(folder / "fifo.jsonl")
    result = invoke("encode", "fifo.jsonl", "-o", "out")
    assert result.exit_code == 2
    assert "it is a FIFO, expected a regular file" in result.output

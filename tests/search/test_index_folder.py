"""ghrr index: the old index stays until the new one is finished, and a changed source is noticed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ghrr import cli
from ghrr.files import lock_folder
from ghrr.search import RecordIndex
from tests.cli.common import invoke
from tests.processes import start

NAMES = ["Ada", "Alan", "Grace", "Kurt", "Emmy", "John", "Linus", "Margaret"]
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes names as the source, and returns its path."""

    def write_names(*names: str) -> str:
        (tmp_path / "source.jsonl").write_text("".join(json.dumps({"name": name}) + "\n" for name in names))
        return str(tmp_path / "source.jsonl")

    return write_names


@pytest.fixture
def old(write: Write, tmp_path: Path) -> Path:
    folder = tmp_path / "idx"
    assert invoke("index", write("Old", "Older"), "-o", str(folder)).exit_code == 0
    return folder


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that interrupts the third batch of two documents: four are saved, and six were read."""

    def interrupt_third_batch() -> None:
        add, calls = RecordIndex.add, 0

        def stop(self: RecordIndex, *arguments: Any, **settings: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise KeyboardInterrupt
            add(self, *arguments, **settings)

        monkeypatch.setattr(RecordIndex, "add", stop)

    monkeypatch.setattr("ghrr.search.index_folder.BATCH", 2)
    return interrupt_third_batch


def names_in(folder: Path) -> list[str]:
    records = RecordIndex.open(folder)
    return [records[name]["name"] for name in records.ids]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def message(*arguments: str, status: int = 2) -> str:
    result = invoke(*arguments)
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


# --------------------------------------------------------------------------------------------------------------- force


def test_force_replaces_an_index_and_leaves_nothing_else(old: Path, write: Write, tmp_path: Path) -> None:
    message("index", write(*NAMES), "-o", str(old), "--force", status=0)
    assert names_in(old) == NAMES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["idx", "source.jsonl"]
    assert not (old / "incomplete.json").exists()


@pytest.mark.parametrize("content", [None, "", "{broken\n", "[1]\n"])
def test_force_keeps_the_old_index_if_the_source_cannot_be_read(old: Path, tmp_path: Path, content: str | None) -> None:
    source = tmp_path / "other.jsonl"
    if content is not None:
        source.write_text(content)
    before = files_below(old)
    message("index", str(source), "-o", str(old), "--force")
    assert files_below(old) == before
    assert not (tmp_path / ".idx.new").exists()


def test_source_that_is_missing_leaves_no_folder(tmp_path: Path) -> None:
    message("index", str(tmp_path / "missing.jsonl"), "-o", str(tmp_path / "idx"))
    assert not (tmp_path / "idx").exists()


@pytest.mark.parametrize(
    "names",
    [
        ["fields.safetensors", "thesis.txt"],
        ["fields.safetensors"],
        ["documents.sqlite", "engine.json"],
        ["incomplete.json", "photo.jpg"],
        ["vectors/manifest.json", "vectors/cat.svg", "fields.safetensors"],
        ["thesis.txt"],
    ],
)
def test_force_refuses_a_folder_of_other_files(write: Write, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / "papers" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "papers" / name).write_text("keep")
    before = files_below(tmp_path / "papers")
    assert "--force replaces only an index" in message("index", write("Ada"), "-o", str(tmp_path / "papers"), "--force")
    assert files_below(tmp_path / "papers") == before


@pytest.mark.parametrize("name", ["notes.txt", "vectors/notes.txt", "more/notes.txt"])
def test_force_refuses_an_index_with_other_files(old: Path, write: Write, name: str) -> None:
    (old / name).parent.mkdir(exist_ok=True)
    (old / name).write_text("keep")
    before = files_below(old)
    assert f"{name}, which is not a file of an index" in message("index", write("Ada"), "-o", str(old), "--force")
    assert files_below(old) == before


def test_force_refuses_a_link_in_the_place_of_a_file(old: Path, write: Write, tmp_path: Path) -> None:
    (old / "engine.json").symlink_to(tmp_path / "source.jsonl")
    assert "engine.json, which is not a file of an index" in message("index", write("A"), "-o", str(old), "--force")


def test_force_replaces_a_damaged_index(old: Path, write: Write) -> None:
    (old / "fields.safetensors").write_bytes(b"damaged")
    message("index", write("Ada"), "-o", str(old), "--force", status=0)
    assert names_in(old) == ["Ada"]


def test_force_keeps_an_index_that_another_process_writes(old: Path, write: Write) -> None:
    source = write(*NAMES)
    with lock_folder(old):
        assert "is using" in message("index", source, "-o", str(old), "--force")
        assert names_in(old) == ["Old", "Older"]
    assert "Going on after 8 records" in message("index", source, "-o", str(old), "--force", status=0)
    assert names_in(old) == NAMES


def test_force_keeps_files_that_appear_while_it_builds(
    old: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = RecordIndex.add

    def add_and_leave_a_file(self: RecordIndex, *arguments: Any, **settings: Any) -> None:
        (old / "notes.txt").write_text("keep")
        add(self, *arguments, **settings)

    monkeypatch.setattr(RecordIndex, "add", add_and_leave_a_file)
    message("index", write("Ada"), "-o", str(old), "--force")
    assert (old / "notes.txt").read_text() == "keep"
    assert names_in(old) == ["Old", "Older"]


@pytest.mark.parametrize("damage", [False, True])
def test_interrupted_force_keeps_the_old_index_and_goes_on(
    old: Path, write: Write, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch, damage: bool
) -> None:
    source = write(*NAMES)
    interrupt()
    assert "4 records are saved" in message("index", source, "-o", str(old), "--force", status=130)
    assert names_in(old) == ["Old", "Older"]
    monkeypatch.undo()
    if damage:
        (fields,) = old.with_name(".idx.new").glob("fields-*.safetensors")
        fields.write_bytes(b"damaged")
    shown = message("index", source, "-o", str(old), "--force", status=0)
    assert ("Going on after 4 records" in shown) is not damage
    assert names_in(old) == NAMES
    assert not old.with_name(".idx.new").exists()


def test_interrupted_force_with_other_options_starts_again(
    old: Path, write: Write, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(*NAMES)
    interrupt()
    message("index", source, "-o", str(old), "--force", status=130)
    monkeypatch.undo()
    assert "Going on" not in message("index", source, "-o", str(old), "--force", "--dim", "100", status=0)
    assert RecordIndex.open(old).space.dim == 100


KILLED = """
import os, sys
import ghrr.files
import ghrr.search.index_folder as index_folder
from ghrr.cli import app
step, original = sys.argv[1], getattr(index_folder, sys.argv[1])
def kill(*arguments):
    if sys.argv[2] == "after":
        original(*arguments)
    os.kill(os.getpid(), 9)
setattr(index_folder, step, kill)
app(sys.argv[3:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "when", "then"),
    [("save", "after", "old"), ("exchange_folders", "before", "old"), ("exchange_folders", "after", "new")],
)
def test_killed_force_leaves_one_of_both_indexes(
    old: Path, write: Write, tmp_path: Path, step: str, when: str, then: str
) -> None:
    arguments = ["index", write(*NAMES), "-o", str(old), "--force"]
    with start([sys.executable, "-c", KILLED, step, when, *arguments], stdout=subprocess.DEVNULL) as process:
        assert process.wait() == -signal.SIGKILL
    assert names_in(old) == {"old": ["Old", "Older"], "new": NAMES}[then]
    message(*arguments, status=0)
    assert names_in(old) == NAMES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["idx", "source.jsonl"]


@pytest.mark.parametrize("force", [False, True])
def test_command_killed_before_its_first_save_is_repeated(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, force: bool
) -> None:
    pytest.importorskip("lancedb")
    uri, out = str(tmp_path / "lance"), str(tmp_path / "idx")
    if force:
        message("index", write("Old"), "-o", out, status=0)
    arguments = ["index", write(*NAMES), "-o", out, "--backend", "lancedb", "--uri", uri, *["--force"] * force]
    save, calls = RecordIndex.save, 0

    def die(self: RecordIndex, folder: Path) -> None:  # at the save of the first documents
        nonlocal calls
        calls += len(self) > 0
        if calls:
            raise SystemExit(9)
        save(self, folder)

    monkeypatch.setattr(RecordIndex, "save", die)
    message(*arguments, status=9)
    monkeypatch.undo()
    message(*arguments, status=0)  # the engine has vectors, which are known to be of this index
    opened = RecordIndex.open(out, uri=uri)
    assert [opened[name]["name"] for name in opened.ids] == NAMES
    assert len(opened._records.state.memory) == len(NAMES)


@pytest.mark.parametrize("wrong", [["--kind", "name"], ["--backend", "lancedb"], ["--approximate"]])
def test_wrong_options_leave_no_folder(write: Write, tmp_path: Path, wrong: list[str]) -> None:
    arguments = ["index", write(*NAMES), "-o", str(tmp_path / "idx")]
    message(*arguments, *wrong)
    assert not (tmp_path / "idx").exists()
    message(*arguments, status=0)


# ---------------------------------------------------------------------------------------------------- changed sources


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("names", "fits"),
    [
        (NAMES, True),
        ([*NAMES, "Barbara", "Donald"], True),
        ([*NAMES[:6], "Barbara"], True),
        (["Barbara", *NAMES], False),
        (NAMES[1:], False),
        (["Ada", "Alan", "Grace", "Curt", *NAMES[4:]], False),
        ([*NAMES[3::-1], *NAMES[4:]], False),
        (NAMES[:3], False),
    ],
)
def test_resumed_command_notices_a_changed_source(
    write: Write,
    interrupt: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    names: list[str],
    fits: bool,
    force: bool,
) -> None:
    monkeypatch.setattr("ghrr.search.commands._SAVED", 1)
    arguments = ["index", write(*NAMES), "-o", str(tmp_path / "idx")]
    if force:
        message("index", write("Old"), "-o", str(tmp_path / "idx"), status=0)
        arguments.append("--force")
    write(*NAMES)
    interrupt()
    message(*arguments, status=130)
    monkeypatch.undo()
    monkeypatch.setattr("ghrr.search.index_folder.BATCH", 3)
    write(*names)
    shown = message(*arguments, status=0 if fits else 2)
    if fits:
        assert "Going on after 4 records" in shown
        assert names_in(tmp_path / "idx") == names
    else:
        assert "changed since the command was interrupted" in shown
        assert names_in(tmp_path / "idx") == (["Old"] if force else NAMES[:4])
        arguments = [*arguments, "--force"] if not force else arguments
        message(*arguments, status=0)  # what the message says
        assert names_in(tmp_path / "idx") == names


def test_resumed_command_checks_a_stream_too(
    interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def index(*names: str) -> tuple[int, str]:
        text = "".join(json.dumps({"name": name}) + "\n" for name in names)
        result = CliRunner().invoke(cli.app, ["index", "-", "-o", str(tmp_path / "idx")], input=text)
        return result.exit_code, " ".join(result.output.split())

    interrupt()
    assert index(*NAMES)[0] == 130
    monkeypatch.undo()
    status, shown = index(*NAMES[4:])  # the rest only
    assert status == 2
    assert "- changed since the command was interrupted" in shown
    assert index(*NAMES)[0] == 0
    assert names_in(tmp_path / "idx") == NAMES


def test_damaged_mark_is_reported(
    write: Write, interrupt: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments = ["index", write(*NAMES), "-o", str(tmp_path / "idx")]
    interrupt()
    message(*arguments, status=130)
    monkeypatch.undo()
    (tmp_path / "idx" / "incomplete.json").write_text("{")
    assert "damaged" in message(*arguments)
    message(*arguments, "--force", status=0)
    assert names_in(tmp_path / "idx") == NAMES

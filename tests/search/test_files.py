"""Files of an index: save and open, kills, damage and locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ghrr.search.folder as folder_module
from ghrr.files import lock_folder
from ghrr.search import RecordIndex, database
from tests.search.common import assert_vectors_fit, fields_of, full_disk, people

DOCUMENTS = people(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = RecordIndex()
    records.add(DOCUMENTS)
    records.save(tmp_path / "index")
    return tmp_path / "index"


def test_opened_index_gives_identical_answers(folder: Path) -> None:
    records = RecordIndex()
    records.add(DOCUMENTS)
    opened = RecordIndex.open(folder)
    assert opened.ids == records.ids
    assert fields_of(opened) == fields_of(records)
    example = {"name": "Ada", "born": {"city": "London"}}
    assert opened.search(example) == records.search(example)


def test_changes_of_an_opened_index_are_saved(folder: Path) -> None:
    opened = RecordIndex.open(folder)
    opened.remove("0")
    opened.update([{"name": "Zuse"}], ids=["1"])
    opened.add([{"name": "Backus"}], ids=["new"])
    opened.save()
    again = RecordIndex.open(folder)
    assert "0" not in again
    assert again["1"] == {"name": "Zuse"}
    assert again.search({"name": "Backus"})[0].guess == "new"
    assert again.ids == opened.ids


def test_documents_without_a_record_are_removed_once_no_search_needs_them(folder: Path) -> None:
    def stored() -> list[str]:
        return sorted(database.read_labels(folder))

    opened = RecordIndex.open(folder)
    opened.update([{"name": "Zuse"}], ids=["1"])
    opened.save()
    assert stored() == sorted(opened._records.state.labels)
    searched = opened._records.state  # as a running search has it
    opened.remove(["1", "2"])
    opened.save()
    assert len(stored()) == len(opened) + 2
    assert searched.documents.get(searched.labels)[-1] == {"name": "Zuse"}
    del searched
    opened.save()
    assert stored() == sorted(opened._records.state.labels)
    manifest = database.read_manifest(folder)
    assert manifest is not None
    database.write(folder, manifest, documents=[("7:left", "{}")], removed=[], added=[])  # as earlier versions left it
    again = RecordIndex.open(folder)
    again.save()
    assert stored() == sorted(again._records.state.labels)


def test_index_can_be_saved_to_another_folder(folder: Path, tmp_path: Path) -> None:
    RecordIndex.open(folder).save(tmp_path / "copy")
    assert RecordIndex.open(tmp_path / "copy")["5"] == DOCUMENTS[5]


def test_folder_of_another_writer_is_refused_and_stays(folder: Path) -> None:
    opened = RecordIndex.open(folder)
    opened.remove("0")
    with lock_folder(folder), pytest.raises(BlockingIOError, match="is using"):
        opened.save()
    assert "0" in RecordIndex.open(folder)
    opened.save()
    assert "0" not in RecordIndex.open(folder)


def test_missing_and_damaged_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no index"):
        RecordIndex.open(tmp_path / "nothing")
    [fields] = folder.glob("fields-*.safetensors")
    content = bytearray(fields.read_bytes())
    content[-1] ^= 1
    fields.write_bytes(content)
    with pytest.raises(ValueError, match=fields.name):
        RecordIndex.open(folder)
    fields.unlink()
    with pytest.raises(FileNotFoundError, match=fields.name):
        RecordIndex.open(folder)


@pytest.mark.parametrize("module", ["saving", "database"])
def test_newer_version_is_refused(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"ghrr.search.{module}.VERSION", 9)
    records = RecordIndex()
    records.add(DOCUMENTS)
    records.save(tmp_path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="version 9"):
        RecordIndex.open(tmp_path)


def test_lost_documents_are_named(folder: Path) -> None:
    opened = RecordIndex.open(folder)
    (folder / "documents.sqlite").unlink()
    for read in (lambda: opened.search({"name": "Ada"}), lambda: RecordIndex.open(folder)):
        with pytest.raises(FileNotFoundError, match=r"documents\.sqlite"):
            read()


def test_save_to_a_folder_that_was_moved_away_creates_nothing(folder: Path, tmp_path: Path) -> None:
    opened = RecordIndex.open(folder)
    opened.remove("0")
    folder.rename(tmp_path / "away")
    with pytest.raises(FileNotFoundError, match="the index is no longer in"):
        opened.save()
    assert not folder.exists()
    (tmp_path / "away").rename(folder)
    opened.save()
    assert RecordIndex.open(folder).ids == opened.ids


def test_second_writer_is_refused_and_the_first_one_keeps_its_records(folder: Path, tmp_path: Path) -> None:
    first, second = RecordIndex.open(folder), RecordIndex.open(folder)
    first.add([{"name": "Backus"}], ids=["first"])
    second.add([{"name": "Wirth", "new field": 3}], ids=["second"])
    first.save()
    with pytest.raises(ValueError, match="another program saved to"):
        second.save()
    opened = RecordIndex.open(folder)
    assert opened["first"] == {"name": "Backus"}
    assert opened.ids == first.ids
    assert [field.name for field in opened.fields] == [field.name for field in first.fields]
    second.save(tmp_path / "elsewhere")
    assert RecordIndex.open(tmp_path / "elsewhere")["second"]["name"] == "Wirth"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["read_records", "read_encoder", "open_memory"])
def test_index_opened_during_a_save_has_one_state(
    folder: Path, step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordIndex.open(folder)
    old, saves = fields_of(writer), 0
    owner: Any = database if step == "read_records" else folder_module
    original = getattr(owner, step)

    def save_meanwhile(*given: Any) -> Any:
        nonlocal saves
        saves += 1
        found = original(*given) if after else None
        if saves == 1:
            writer.update([{"name": "Ada", "new field": 3}], ids=["0"])
            writer.learn_weights(DOCUMENTS[1:6], writer.ids[:5])
            writer.save()
        return found if after else original(*given)

    monkeypatch.setattr(owner, step, save_meanwhile)
    opened = RecordIndex.open(folder)
    assert saves > 0
    is_new = opened.ids == writer.ids
    assert is_new or (step, after) == ("open_memory", True)  # everything was read before the save
    assert fields_of(opened) == (fields_of(writer) if is_new else old)
    assert fields_of(writer) != old  # negative control
    opened.add([{"name": "Backus"}], ids=["new"])
    if is_new:
        assert opened["0"] == {"name": "Ada", "new field": 3}
        assert_vectors_fit(opened)
        opened.save()
        assert RecordIndex.open(folder).ids == [*writer.ids, "new"]
    else:
        with pytest.raises(ValueError, match="another program saved to"):
            opened.save()


def test_folder_that_changes_all_the_time_is_not_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordIndex.open(folder)

    def save_meanwhile(*given: Any) -> Any:
        writer.update([DOCUMENTS[0]], ids=["0"])
        writer.save()
        raise ValueError("the vectors are missing")

    monkeypatch.setattr(folder_module, "open_memory", save_meanwhile)
    monkeypatch.setattr(folder_module, "_OPEN_ATTEMPTS", 3)
    with pytest.raises(TimeoutError, match="changed 3 times while it was opened"):
        RecordIndex.open(folder)


def test_folder_of_another_index_is_refused_and_stays(folder: Path) -> None:
    other = RecordIndex()
    other.add([{"title": "x"}])
    with pytest.raises(ValueError, match="holds another index"):
        other.save(folder)
    assert RecordIndex.open(folder)["5"] == DOCUMENTS[5]


def test_full_disk_at_the_first_save_leaves_no_index(tmp_path: Path) -> None:
    records = RecordIndex()
    records.add(DOCUMENTS)
    with full_disk(100_000), pytest.raises(OSError, match="too large"):
        records.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="has no index"):
        RecordIndex.open(tmp_path)
    another = RecordIndex()  # in the next run of the program
    another.add(DOCUMENTS[:30])
    another.save(tmp_path)
    assert RecordIndex.open(tmp_path).ids == another.ids


@pytest.mark.parametrize("limit", [100, 60_000, 150_000])  # the fields, the documents, the vectors
def test_full_disk_loses_nothing(folder: Path, limit: int) -> None:
    opened = RecordIndex.open(folder)
    opened.remove("0")
    opened.add(
        [{"name": f"new {number}", "text": "x" * 20} for number in range(100)], ids=[f"n{i}" for i in range(100)]
    )
    with full_disk(limit), pytest.raises(OSError, match=r"too large|disk I/O error|full") as raised:
        opened.save()
    assert str(folder) in str(raised.value)
    unchanged = RecordIndex.open(folder)
    assert unchanged.ids == [str(number) for number in range(60)]
    assert unchanged.search(DOCUMENTS[0], 1)[0].document == DOCUMENTS[0]
    opened.save()  # with space again
    again = RecordIndex.open(folder)
    assert again.ids == opened.ids
    assert again["n99"]["name"] == "new 99"


WRITER = """
import os, sys
import torch
torch.set_num_threads(1)
from ghrr.search import RecordIndex
records = RecordIndex.open(sys.argv[1])
while True:
    number = len(records)
    records.add([{"name": f"record {number}"}], ids=[f"n{number}"])
    records.save()
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_writer_leaves_all_saved_records(folder: Path) -> None:
    for reports in (2,):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        last = [int(process.stdout.readline()) for _ in range(reports)][-1]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        opened = RecordIndex.open(folder)
        assert f"n{last}" in opened
        assert opened[f"n{last}"] == {"name": f"record {last}"}
        assert opened.search({"name": f"record {last}"}, k=3)


# Ends the process before or after each step of a save, without any clean-up, as a kill does.
KILLS = """
import os, sys
import torch
torch.set_num_threads(1)
import ghrr.search.folder as own
from ghrr.memory import ItemMemory
from ghrr.search import RecordIndex, database

folder = sys.argv[1]
steps = [(ItemMemory, "commit"), (own, "write_encoder"), (database, "write"), (own.IndexFolder, "_clean")]
for number, (owner, name) in enumerate(steps):
    for after in (False, True):
        if os.fork() == 0:
            original = getattr(owner, name)
            def dying(*given, **more):
                if after:
                    original(*given, **more)
                os._exit(9)
            setattr(owner, name, dying)
            records = RecordIndex.open(folder)
            records.remove(records.ids[0])
            records.add([{"name": f"added {number} {after}", f"field {number}": 1}], ids=[f"{number} {after}"])
            records.save()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 9
        records = RecordIndex.open(folder)
        effective = f"{number} {after}" in records
        assert effective == ((number, after) >= (2, True)), (number, after)
        assert len(records) == 60
        for hit in records.search({"name": "Ada"}, k=60):
            assert records[hit.guess] == hit.document
        if effective:
            assert records[f"{number} {after}"]["name"] == f"added {number} {after}"
records.add([{"name": "last"}], ids=["last"])
records.save()
assert RecordIndex.open(folder)["last"] == {"name": "last"}
"""


@pytest.mark.slow
def test_kill_at_any_step_of_a_save_leaves_the_state_before_or_after(folder: Path) -> None:
    result = subprocess.run([sys.executable, "-c", KILLS, str(folder)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]

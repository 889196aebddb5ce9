"""Files of an index: save and open, kills, damage and locks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ghrr.files import lock_folder
from ghrr.search import RecordIndex
from ghrr.search.saving import VERSION
from tests.search.common import people

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
    assert [(f.name, f.kind, f.weight) for f in opened.fields] == [(f.name, f.kind, f.weight) for f in records.fields]
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


def test_index_can_be_saved_to_another_folder(folder: Path, tmp_path: Path) -> None:
    RecordIndex.open(folder).save(tmp_path / "copy")
    assert RecordIndex.open(tmp_path / "copy")["5"] == DOCUMENTS[5]


def test_folder_of_another_writer_is_refused_and_stays(folder: Path) -> None:
    opened = RecordIndex.open(folder)
    opened.remove("0")
    with lock_folder(folder, "test"), pytest.raises(BlockingIOError, match="is using"):
        opened.save()
    assert "0" in RecordIndex.open(folder)
    opened.save()
    assert "0" not in RecordIndex.open(folder)


def test_missing_and_damaged_files_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has no index"):
        RecordIndex.open(tmp_path / "nothing")
    fields = folder / "fields.safetensors"
    content = bytearray(fields.read_bytes())
    content[-1] ^= 1
    fields.write_bytes(content)
    with pytest.raises(ValueError, match=r"fields\.safetensors"):
        RecordIndex.open(folder)


def test_newer_version_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.search.saving.VERSION", VERSION + 1)
    RecordIndex.open(folder).save(folder)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=f"version {VERSION + 1}"):
        RecordIndex.open(folder)


def test_lost_documents_are_named(folder: Path) -> None:
    (folder / "documents.sqlite").unlink()
    with pytest.raises(FileNotFoundError, match=r"documents\.sqlite"):
        RecordIndex.open(folder).search({"name": "Ada"})


WRITER = """
import os, sys
import torch
torch.set_num_threads(1)
from ghrr.search import RecordIndex
from ghrr.search.saving import VERSION
records = RecordIndex.open(sys.argv[1])
while True:
    number = len(records)
    records.add([{"name": f"record {number}"}], ids=[f"n{number}"])
    records.save()
    print(number, flush=True)
"""


@pytest.mark.slow
def test_killed_writer_leaves_all_saved_records(folder: Path) -> None:
    for reports in (1, 3):
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

"""Folders of earlier versions are opened as they are, and rewritten by the next save."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from ghrr.memory import ItemMemory
from ghrr.search import RecordIndex
from ghrr.search.engines import describe_engine, keeps_vectors_in_folder
from ghrr.search.saving import write_encoder
from tests.search.common import assert_vectors_fit, people

DOCUMENTS = people(40)


def save_as_before(records: RecordIndex, folder: Path) -> None:
    """Write an index as the first versions of 0.3 did: the vectors decide which records there are."""
    folder.mkdir()
    state = records._records.state
    labels = {
        label: f"{number:x}:{name}" for number, (label, name) in enumerate(zip(state.labels, records.ids, strict=True))
    }
    connection = sqlite3.connect(folder / "documents.sqlite")
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS documents (label TEXT PRIMARY KEY, body TEXT NOT NULL)")
        rows = zip(labels.values(), state.documents.texts(list(labels)), strict=True)
        connection.executemany("INSERT INTO documents VALUES (?, ?)", rows)
    connection.close()
    write_encoder(folder / "fields.safetensors", state.encoder, state.calibration)
    vectors = state.memory.vectors(list(labels))
    if keeps_vectors_in_folder(records._records.state.engine):
        ItemMemory(records.space, labels.values(), vectors, storage=state.memory.storage).commit(folder / "vectors")
    else:
        state.memory.remove(state.memory.labels)
        state.memory.add(list(labels.values()), vectors)
    engine: dict[str, Any] = describe_engine(folder, records._records.state.engine)
    if engine["backend"] != "torch":
        (folder / "engine.json").write_text(json.dumps({"version": 1, "recall": None, **engine}))


@pytest.mark.parametrize("backend", ["torch", "faiss", "lancedb"])
def test_old_folder_is_opened_and_upgraded_by_the_next_save(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    uri = str(tmp_path / "lance") if backend == "lancedb" else None
    records = RecordIndex(backend=backend, uri=uri)
    records.add(DOCUMENTS)
    expected = records.search(DOCUMENTS[7], k=5)
    folder = tmp_path / "old"
    save_as_before(records, folder)
    before = sorted(path.name for path in folder.rglob("*"))
    opened = RecordIndex.open(folder, uri=uri)
    assert sorted(path.name for path in folder.rglob("*")) == before
    assert opened.ids == [str(number) for number in range(40)]
    assert [(hit.guess, hit.document) for hit in opened.search(DOCUMENTS[7], k=5)] == [
        (hit.guess, hit.document) for hit in expected
    ]
    opened.update([{"name": "Zuse"}], ids=["3"])
    opened.add([{"name": "Backus"}])
    opened.save()
    assert not (folder / "fields.safetensors").exists()
    assert not (folder / "engine.json").exists()
    again = RecordIndex.open(folder, uri=uri)
    assert again.ids == opened.ids
    assert len(again._records.state.memory) == len(again) == 41
    assert again["40"] == {"name": "Backus"}
    assert again["3"] == {"name": "Zuse"}
    assert_vectors_fit(again)


def test_old_folder_whose_engine_lacks_vectors_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    records.add(DOCUMENTS)
    save_as_before(records, tmp_path / "old")
    records._records.state.memory.remove(records._records.state.memory.labels[:4])
    with pytest.raises(ValueError, match="vectors of 4 of 40 records are missing"):
        RecordIndex.open(tmp_path / "old", uri=str(tmp_path / "lance"))


def test_engine_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    records = RecordIndex()
    records.add(DOCUMENTS)
    save_as_before(records, tmp_path / "old")
    (tmp_path / "old" / "engine.json").write_text('{"version": 9}')
    with pytest.raises(ValueError, match=r"engine\.json.*version 9 is newer"):
        RecordIndex.open(tmp_path / "old")


def test_folder_without_checksums_is_read(tmp_path: Path) -> None:
    """As written before documents and the manifest had checksums."""
    records = RecordIndex()
    records.add(DOCUMENTS)
    records.save(tmp_path)
    connection = sqlite3.connect(tmp_path / "documents.sqlite")
    with connection:
        connection.execute("UPDATE documents SET body = substr(body, 10)")
        connection.execute("UPDATE manifest SET body = json_remove(substr(body, 10), '$.count')")
    connection.close()
    opened = RecordIndex.open(tmp_path)
    opened.verify()
    opened.add([{"name": "new"}])
    opened.remove("3")
    opened.save()
    again = RecordIndex.open(tmp_path)
    assert [again[name] for name in again.ids] == [opened[name] for name in opened.ids]
    assert len(again) == len(DOCUMENTS)

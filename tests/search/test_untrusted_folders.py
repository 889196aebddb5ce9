"""Folders from elsewhere: nothing is opened or created outside, nothing hangs, mixed files are noticed."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import struct
from pathlib import Path
from typing import Any

import pytest

from ghrr.memory import ItemMemory
from ghrr.search import RecordIndex
from ghrr.search.database import with_checksum
from tests.search.common import assert_vectors_fit, people
from tests.search.test_old_folders import save_as_before

DOCUMENTS = people(30)


def an_index(folder: Path, seed: int = 0) -> RecordIndex:
    records = RecordIndex()
    records.add(people(30, seed))
    records.save(folder)
    return records


def edit(folder: Path, *commands: str, given: tuple[Any, ...] = ()) -> None:
    connection = sqlite3.connect(folder / "documents.sqlite")
    connection.create_function("with_checksum", 2, with_checksum)
    with connection:
        for command in commands:
            connection.execute(command, given)
    connection.close()


def replaced(old: str, new: str) -> str:
    """Return a command that changes the manifest and its checksum."""
    return f"UPDATE manifest SET body = with_checksum('manifest', replace(substr(body, 10), '{old}', '{new}'))"


def manifest(folder: Path) -> dict[str, Any]:
    connection = sqlite3.connect(folder / "documents.sqlite")
    stored: dict[str, Any] = json.loads(connection.execute("SELECT substr(body, 10) FROM manifest").fetchone()[0])
    connection.close()
    return stored


ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT 'a' AS label, x AS body FROM r"


@pytest.mark.parametrize(
    "commands",
    [
        ("DROP TABLE documents", f"CREATE VIEW documents AS {ENDLESS}"),
        ("DROP TABLE records", "CREATE VIEW records AS " + ENDLESS.replace("x AS body", "x AS number")),
        ("CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END",),
        ("DROP TABLE documents", "CREATE TABLE documents (label TEXT PRIMARY KEY, body TEXT NOT NULL, more TEXT)"),
        ("CREATE INDEX i ON documents (body)",),
        ("CREATE TABLE others (x)",),
    ],
)
def test_database_with_other_tables_views_or_triggers_is_refused(commands: tuple[str, ...], tmp_path: Path) -> None:
    opened = an_index(tmp_path)
    edit(tmp_path, *commands)
    for use in (lambda: RecordIndex.open(tmp_path), lambda: opened["0"], opened.save):
        with pytest.raises(ValueError, match="expected the tables that RecordIndex writes, got the "):
            use()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("UPDATE records SET label = '7:x'", "labels of records"),
        ("UPDATE records SET label = x'00ff'", "documents.sqlite"),
        ("UPDATE records SET number = -number", "numbers of records"),
        ("DELETE FROM records WHERE number = (SELECT max(number) FROM records)", "29 of 30 records"),
        ("UPDATE manifest SET body = '[]'", "'manifest' does not match its checksum"),
        ("UPDATE manifest SET body = 7", "'manifest' does not match its checksum"),
        ("UPDATE manifest SET body = replace(body, 'torch', 'faiss')", "'manifest' does not match its checksum"),
        ("UPDATE manifest SET body = with_checksum('manifest', '[]')", "manifest"),
        (replaced("fields-", "../fields-"), "file of fields"),
        (
            replaced('"torch"', '"other"'),
            r"RecordIndex.open\('.*documents.sqlite'\): backend of the engine must be one of",
        ),
        (
            replaced('"approximate"', '"other"'),
            r"RecordIndex.open\('.*documents.sqlite'\): engine: approximate is missing",
        ),
        (replaced('"next_id": 30', '"next_id": -1'), "next_id"),
    ],
)
def test_content_that_was_not_written_by_an_index_is_refused(command: str, message: str, tmp_path: Path) -> None:
    an_index(tmp_path)
    edit(tmp_path, command)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        RecordIndex.open(tmp_path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("replace(body, 'name', 'nbme')", "does not match its checksum"),
        ("17", "does not match its checksum"),
        ("x'00ff'", "does not match its checksum"),
        ("(SELECT body FROM documents WHERE rowid = 3)", "does not match its checksum"),
        ("with_checksum(label, '[1]')", "expected an object"),
    ],
)
def test_documents_that_were_not_written_by_an_index_are_refused(value: str, message: str, tmp_path: Path) -> None:
    records = an_index(tmp_path)
    edit(tmp_path, f"UPDATE documents SET body = {value} WHERE rowid = 2")
    opened = RecordIndex.open(tmp_path)
    for use in (opened.verify, lambda: [records[name] for name in records.ids]):
        with pytest.raises(ValueError, match=message):
            use()


def test_verify_notices_damaged_vectors(tmp_path: Path) -> None:
    an_index(tmp_path)
    path = next((tmp_path / "vectors").glob("items-*"))
    content = path.read_bytes()
    first = 8 + int.from_bytes(content[:8], "little")
    RecordIndex.open(tmp_path).verify()
    for place in range(first, len(content), 1000):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match="checksum"):
            RecordIndex.open(tmp_path).verify()


def journal_of(database: Path, named: Path | None) -> bytes:
    """Return a journal that SQLite rolls back when it opens the database; it deletes the named file then."""
    content = database.read_bytes()
    size, magic, nonce = struct.unpack_from(">H", content, 16)[0], bytes.fromhex("d9d505f920a163d7"), 7
    page = content[:size]
    checksum = nonce + sum(page[size - 200 : 0 : -200])
    header = (magic + struct.pack(">5I", 1, nonce, len(content) // size, 512, size)).ljust(512, b"\0")
    pages = struct.pack(">I", 1) + page + struct.pack(">I", checksum)
    if named is None:
        return header + pages
    name = str(named).encode()
    end = struct.pack(">I", 0x40000000 // size + 1) + name + struct.pack(">2I", len(name), sum(name)) + magic
    return header + pages + end


def test_journal_that_names_another_file_deletes_nothing(tmp_path: Path) -> None:
    folder, other = tmp_path / "index", tmp_path / "thesis.txt"
    an_index(folder)
    journal = folder / "documents.sqlite-journal"
    journal.write_bytes(journal_of(folder / "documents.sqlite", None))  # negative control: of one database
    assert len(RecordIndex.open(folder)) == 30
    assert not journal.exists()
    other.write_text("keep")
    journal.write_bytes(journal_of(folder / "documents.sqlite", other))
    with pytest.raises(ValueError, match="names other files"):
        RecordIndex.open(folder)
    assert other.read_text() == "keep"


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_fifos_and_links_beside_the_database_are_refused(suffix: str, tmp_path: Path) -> None:
    folder, other = tmp_path / "index", tmp_path / "thesis.txt"
    an_index(folder)
    beside = folder / f"documents.sqlite{suffix}"
    os.mkfifo(beside)
    with pytest.raises(OSError, match="it is a FIFO"):  # a FIFO in the place of a journal was waited for
        RecordIndex.open(folder)
    beside.unlink()
    other.write_text("keep")
    beside.symlink_to(other)
    with pytest.raises(ValueError, match="must be inside its folder"):
        RecordIndex.open(folder)
    assert other.read_text() == "keep"


@pytest.mark.parametrize("uri", ["/tmp/elsewhere", "../outside", "http://example.org:1", "s3://bucket", "."])
@pytest.mark.parametrize("backend", ["lancedb", "milvus"])
def test_address_of_a_file_is_not_used(uri: str, backend: str, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    an_index(folder)
    stored = manifest(folder)
    stored["engine"] = {"backend": backend, "uri": uri, "collection": "records", "approximate": False}
    edit(folder, "UPDATE manifest SET body = ?", given=(with_checksum("manifest", json.dumps(stored)),))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=r"outside the folder.*give the address that you trust, uri="):
        RecordIndex.open(folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_link_to_an_engine_outside_is_not_used(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    (tmp_path / "index").mkdir()
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "index" / "lance"))
    records.add(DOCUMENTS)
    records.save(tmp_path / "index")
    (tmp_path / "index" / "lance").rename(tmp_path / "elsewhere")
    (tmp_path / "index" / "lance").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="outside the folder"):
        RecordIndex.open(tmp_path / "index")


def test_address_of_a_file_of_an_earlier_version_is_not_used(tmp_path: Path) -> None:
    records = RecordIndex()
    records.add(DOCUMENTS)
    save_as_before(records, tmp_path / "index")
    engine = {"version": 1, "backend": "lancedb", "collection": None, "approximate": False}
    (tmp_path / "index" / "engine.json").write_text(json.dumps(engine | {"uri": str(tmp_path / "made")}))
    with pytest.raises(ValueError, match=r"made', outside the folder"):
        RecordIndex.open(tmp_path / "index")
    assert not (tmp_path / "made").exists()


def copies(tmp_path: Path) -> tuple[Path, Path]:
    """Return two folders with the same ids and the same fields, but other documents."""
    for name, documents in (("one", DOCUMENTS), ("two", DOCUMENTS[::-1])):
        records = RecordIndex()
        records.add(documents)
        records.save(tmp_path / name)
    return tmp_path / "one", tmp_path / "two"


@pytest.mark.parametrize("part", ["documents.sqlite", "fields", "vectors"])
def test_files_of_another_index_are_noticed(part: str, tmp_path: Path) -> None:
    one, two = copies(tmp_path)
    if part == "fields":
        an_index(tmp_path / "third", seed=5)  # with other fields
        next(one.glob("fields-*")).write_bytes(next((tmp_path / "third").glob("fields-*")).read_bytes())
    elif part == "vectors":
        shutil.rmtree(one / part)
        shutil.copytree(two / part, one / part)
    else:
        shutil.copy(two / part, one / part)
    with pytest.raises((ValueError, FileNotFoundError), match="another index"):
        RecordIndex.open(one)


@pytest.mark.parametrize("part", ["documents.sqlite", "fields", "vectors"])
def test_files_of_an_earlier_save_are_noticed_or_fit(part: str, tmp_path: Path) -> None:
    folder, before = tmp_path / "index", tmp_path / "before"
    records = an_index(folder)
    shutil.copytree(folder, before)
    records.learn_weights(DOCUMENTS[:5], records.ids[:5])
    records.remove("3")
    records.save()
    if part == "fields":
        next(folder.glob("fields-*")).write_bytes(next(before.glob("fields-*")).read_bytes())
    elif part == "vectors":
        shutil.rmtree(folder / part)
        shutil.copytree(before / part, folder / part)
    else:
        shutil.copy(before / part, folder / part)
    with pytest.raises((ValueError, FileNotFoundError), match=r"missing|another"):
        RecordIndex.open(folder)
    assert_vectors_fit(RecordIndex.open(before))


def test_vectors_of_a_memory_that_is_no_index_stay(tmp_path: Path) -> None:
    records = RecordIndex()
    records.add(DOCUMENTS)
    ItemMemory(records.space, ["mine"]).commit(tmp_path / "vectors")
    with pytest.raises(ValueError, match="holds something else"):
        records.save(tmp_path)
    assert ItemMemory.open(tmp_path / "vectors").labels == ["mine"]

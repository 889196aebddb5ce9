"""Database of an index: documents, the table of its records, and a manifest, in one SQLite file.

A save takes effect when its transaction commits, in one step. If a process was killed before that, SQLite takes back
what it wrote when the file is opened the next time.

SQLite does not notice changed bytes in texts. So documents and the manifest begin with a checksum, the manifest has the
number of records, and the label of a record repeats its number. Texts without a checksum are of earlier versions.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ghrr.checks import named, value_error
from ghrr.files import check_count, check_fields, check_inside, check_regular, parse_json, prefix_errors
from ghrr.memory.labels import LabelTable
from ghrr.search.labels import id_of, label_of

NAME = "documents.sqlite"
VERSION = 1
_TABLES = {
    "documents": "CREATE TABLE documents (label TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "records": "CREATE TABLE records (number INTEGER PRIMARY KEY, label TEXT NOT NULL)",
    "manifest": "CREATE TABLE manifest (body TEXT NOT NULL)",
}
_SCHEMA = {("table", name, text) for name, text in _TABLES.items()} | {("index", "sqlite_autoindex_documents_1", None)}
_VARIABLES = 500  # labels per query
_TIMEOUT = 30.0  # seconds to wait for a writer
_STEPS = 10_000_000  # of SQLite's machine in one read, in addition to the number of bytes; a damaged file could loop
_STEPS_AT_A_TIME = 100_000
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # see https://sqlite.org/fileformat2.html#the_rollback_journal
_MOST_NUMBERS = 1 << 61
_FIELDS: dict[str, type | tuple[type, ...]] = {
    "version": int,
    "generation": str,
    "fields": str,
    "checksum": str,
    "next_id": int,
    "recall": (float, type(None)),
    "engine": dict,
}


@dataclass(frozen=True)
class Manifest:
    """What a save stored.

    Parameters
    ----------
    generation
        Random text that identifies the save.
    fields, checksum
        Name and checksum of the file of fields.
    next_id
        Number from which default ids are chosen.
    recall
        Measured recall of an approximate engine.
    engine
        Settings of the engine; see ``ghrr.search.engines``.
    count
        Number of records; None if an earlier version wrote the manifest.
    """

    generation: str
    fields: str
    checksum: str
    next_id: int
    recall: float | None
    engine: dict[str, Any]
    count: int | None


# -------------------------------------------------------------------------------------------------------------- reading


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of the last save, or None if there is none."""
    if not (folder / NAME).exists():
        return None
    with _transaction(folder) as connection:
        return _manifest(connection, folder)


def read_records(folder: Path) -> tuple[Manifest, LabelTable] | None:
    """Return the manifest of the last save, and ids and numbers of its records; None if there is no manifest."""
    if not (folder / NAME).exists():
        return None
    with _transaction(folder) as connection:
        manifest = _manifest(connection, folder)
        rows = connection.execute("SELECT number, label FROM records ORDER BY number").fetchall() if manifest else []
    with prefix_errors(folder / NAME):
        if manifest is not None and manifest.count not in (None, len(rows)):
            raise ValueError(f"got {len(rows):,} of {manifest.count:,} records; the file was damaged or changed")
        return None if manifest is None else (manifest, _as_table(rows))


def _as_table(rows: Sequence[tuple[int, Any]]) -> LabelTable:
    """Return ids and numbers; raise for a table that :func:`write` did not write."""
    numbers, labels = [number for number, _ in rows], [label for _, label in rows]
    if rows and not 0 <= numbers[0] <= numbers[-1] < _MOST_NUMBERS:
        raise ValueError(f"numbers of records must be from 0 to below 2**61, got {numbers[0]} to {numbers[-1]}")
    names = list(map(id_of, labels))
    if list(map(label_of, numbers, names)) != labels or len(set(names)) < len(names):
        raise ValueError("labels of records must consist of their number and their id, and ids must be different")
    return LabelTable(names, numbers)


def read_texts(folder: Path, labels: Sequence[str]) -> dict[str, str]:
    """Return documents by label, without those that are missing."""
    stored: dict[str, Any] = {}
    with _transaction(folder) as connection:
        for start in range(0, len(labels), _VARIABLES):
            part = labels[start : start + _VARIABLES]
            marks = ",".join("?" * len(part))
            stored.update(connection.execute(f"SELECT label, body FROM documents WHERE label IN ({marks})", part))  # noqa: S608
    with prefix_errors(folder / NAME):
        return {label: _checked(label, text) for label, text in stored.items()}


def read_labels(folder: Path, *, without_record: bool = False) -> list[str]:
    """Return the labels of all documents, or of those without a record."""
    query = "SELECT label FROM documents"
    if without_record:  # the numbers are compared first, because that is fast
        query += " WHERE (SELECT count(*) FROM documents) > (SELECT count(*) FROM records)"
        query += " AND label NOT IN (SELECT label FROM records)"
    with _transaction(folder) as connection:
        return [label for (label,) in connection.execute(query)]


def _manifest(connection: sqlite3.Connection, folder: Path) -> Manifest | None:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'manifest'").fetchone():
        return None  # of an index that was never saved completely, or of an earlier version
    row = connection.execute("SELECT body FROM manifest").fetchone()
    if row is None:
        return None
    with prefix_errors(folder / NAME):
        stored = check_fields("manifest", parse_json(_checked("manifest", row[0]), "manifest"), _FIELDS)
        if stored["version"] > VERSION:
            raise ValueError(f"version {stored['version']} is newer than this one ({VERSION}); update ghrr")
        check_count("next_id", stored["next_id"])
        values: dict[str, Any] = {name: stored.get(name) for name in Manifest.__dataclass_fields__}
        return Manifest(**values)


def _checked(name: str, stored: Any) -> str:
    """Return a text without its checksum; raise ValueError if they do not match."""
    if isinstance(stored, str):
        text = stored if stored.startswith("{") else stored[9:]
        if stored in (text, with_checksum(name, text)):
            return text
    raise ValueError(f"the text of {name!r:.80} does not match its checksum; the file was damaged or changed")


# -------------------------------------------------------------------------------------------------------------- writing


def create(folder: Path) -> None:
    """Create the file without a manifest, which marks a folder in which the first save has begun."""
    with _transaction(folder, write=True) as connection:
        _create_tables(connection)


def write(
    folder: Path,
    manifest: Manifest,
    *,
    documents: Iterable[tuple[str, str]],
    removed: Iterable[int] | None,
    added: Iterable[tuple[int, str]],
) -> None:
    """Write a save in one transaction.

    Parameters
    ----------
    folder, manifest
        Where and what was saved.
    documents
        Labels and texts of new documents.
    removed
        Numbers of records to remove from the table; None removes all.
    added
        Numbers and ids of new records.
    """
    body = with_checksum("manifest", json.dumps({"version": VERSION, **asdict(manifest)}))
    texts = ((label, with_checksum(label, text)) for label, text in documents)
    with _transaction(folder, write=True) as connection:
        _create_tables(connection)
        connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?)", texts)
        if removed is None:
            connection.execute("DELETE FROM records")
        else:
            connection.executemany("DELETE FROM records WHERE number = ?", ((number,) for number in removed))
        rows = ((number, label_of(number, name)) for number, name in added)
        connection.executemany("INSERT INTO records VALUES (?, ?)", rows)
        connection.execute("DELETE FROM manifest")
        connection.execute("INSERT INTO manifest VALUES (?)", (body,))


def remove_documents(folder: Path, labels: Iterable[str]) -> None:
    """Remove documents, which must not be in the table of records."""
    with _transaction(folder, write=True) as connection:
        connection.executemany("DELETE FROM documents WHERE label = ?", ((label,) for label in labels))


def with_checksum(name: str, text: str) -> str:
    """Return a text as it is stored: after a checksum of its label and itself."""
    return f"{zlib.crc32(f'{name} {text}'.encode()):08x} {text}"


def _create_tables(connection: sqlite3.Connection) -> None:
    for text in _TABLES.values():
        connection.execute(text.replace("TABLE", "TABLE IF NOT EXISTS", 1))


@contextmanager
def _transaction(folder: Path, *, write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open the file, check that it has our tables and nothing else, and commit at the end of a ``with`` block."""
    path = folder / NAME
    check_inside(path)
    if not write:
        check_regular(path)
    _check_journals(path)
    # Readers may write too: the first one after a kill takes back what was not committed. On a disk that is read-only,
    # SQLite opens the file for reading.
    address = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_TIMEOUT, isolation_level=None)) as connection:
            for setting in ("trusted_schema = OFF", "cell_size_check = ON"):
                connection.execute(f"PRAGMA {setting}")
            if write:
                connection.execute("PRAGMA synchronous = EXTRA")
            else:
                _limit_steps(connection, path)
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            _check_schema(connection, path)
            yield connection
            connection.execute("COMMIT")
    except sqlite3.OperationalError as error:
        raise OSError(named(f"{error}; check the disk, its free space and the permissions", path=path)) from error
    except sqlite3.Error as error:
        raise value_error(f"{error}; the file was damaged or changed", path=path) from error


def _check_journals(path: Path) -> None:
    """Raise for files beside the database that SQLite would read, and that it did not write for an index.

    A journal can name a super-journal, which belongs to several databases. SQLite deletes that file, wherever it is.
    """
    for suffix in ("-journal", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if not os.path.lexists(beside):  # as usual
            continue
        try:
            check_inside(beside)
            check_regular(beside)
            with open(beside, "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - len(_JOURNAL_MAGIC)))
                end = file.read()
        except FileNotFoundError:  # a writer has just removed it
            continue
        if end == _JOURNAL_MAGIC:
            raise value_error(
                "expected a journal of one database, got one that names other files; the file was damaged or changed",
                path=beside,
            )


def _limit_steps(connection: sqlite3.Connection, path: Path) -> None:
    """Let a read end with an error if it takes much longer than reading the whole file."""
    left = (_STEPS + path.stat().st_size) // _STEPS_AT_A_TIME

    def step() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    connection.set_progress_handler(step, _STEPS_AT_A_TIME)


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise ValueError for tables, views and triggers of others: a query of them could take forever."""
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchmany(len(_SCHEMA) + 1)
    strange = [f"the {kind} {name!r:.80}" for kind, name, text in found if (kind, name, text) not in _SCHEMA]
    if strange:
        raise value_error(
            f"expected the tables that RecordIndex writes, got {strange[0]}; the file is "
            f"of another program, or was changed",
            path=path,
        )

"""A process that is killed while it changes and saves an index loses nothing that was saved, and mixes nothing.

A forked process adds, replaces and removes records, learns weights and saves, and acknowledges each save; it is killed
at a random moment. LanceDB and Milvus run threads that a fork does not copy, so their writers are started as processes.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from ghrr.search import RecordIndex
from tests.search.common import assert_vectors_fit

WRITER = """
import random, sys
import torch
torch.set_num_threads(1)
from ghrr.search import RecordIndex
folder, uri, version = sys.argv[1], sys.argv[2] or None, int(sys.argv[3])
records = RecordIndex.open(folder, uri=uri)
while True:
    rng = random.Random(version)
    records.add([{"name": f"new {version} {n}", "version": version} for n in range(20)])
    names = [name for name in records.ids if name != "version"]
    records.remove(rng.sample(names, 20))
    records.update([{"name": "constant", "version": version}], ids=[records.ids[0]])
    records.update([{"name": "the version", "version": version}], ids=["version"])
    if version % 3 == 0:
        chosen = rng.sample(records.ids, 5)
        records.learn_weights([records[name] for name in chosen], chosen)
    records.save()
    print(version, len(records), flush=True)
    version += 1
"""


def kill_writer(folder: Path, uri: str | None, kills: int, seed: int) -> int:
    """Kill writers one after the other; check the folder after each; return the last version."""
    rng = random.Random(seed)
    version = 1
    for _ in range(kills):
        command = [sys.executable, "-c", WRITER, str(folder), uri or "", str(version + 1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, "the writer failed"
        time.sleep(rng.uniform(0, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        lines = [first, *process.stdout.read().splitlines(keepends=True)]
        process.stdout.close()
        last = int([line for line in lines if line.endswith("\n")][-1].split()[0])
        version = assert_intact(folder, uri, last)
    return version


def assert_intact(folder: Path, uri: str | None, last: int) -> int:
    opened = RecordIndex.open(folder, uri=uri)
    version = int(opened["version"]["version"])
    assert version in (last, last + 1)  # the next one may have been written but not acknowledged
    assert len(opened) == 41
    assert_vectors_fit(opened)
    documents = {name: opened[name] for name in opened.ids}
    assert max(int(document["version"]) for document in documents.values()) == version
    for hits in opened.search_many(list(documents.values())[:3], k=60):
        assert {hit.guess: hit.document for hit in hits} == documents
    return version


@pytest.fixture
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str | None]:
    backend = request.param
    pytest.importorskip({"milvus": "milvus_lite"}.get(backend, backend))
    name = {"lancedb": "lance", "milvus": "milvus.db"}.get(backend)
    uri = None if name is None else str(tmp_path / name)
    records = RecordIndex(backend=backend, uri=uri)
    documents = [{"name": f"first {number}", "version": 1} for number in range(40)]
    records.add(documents)
    records.add([{"name": "the version", "version": 1}], ids=["version"])
    records.save(tmp_path / "index")
    return tmp_path / "index", uri


@pytest.mark.slow
@pytest.mark.parametrize("saved", ["torch"], indirect=True)
def test_killed_writer_of_an_index_leaves_the_last_save(saved: tuple[Path, str | None]) -> None:
    kill_writer(*saved, kills=1, seed=0)


@pytest.mark.fuzz
@pytest.mark.parametrize(("saved", "kills"), [("torch", 100), ("faiss", 60), ("lancedb", 60)], indirect=["saved"])
def test_writer_of_an_index_killed_often_leaves_the_last_save(saved: tuple[Path, str | None], kills: int) -> None:
    kill_writer(*saved, kills=kills, seed=1)


# ---------------------------------------------------------------------------------------------------------- hot journal

# Writes so much that SQLite changes the file before it commits, and ends without any clean-up, as a kill does.
HOT = """
import os, sys
from pathlib import Path
from ghrr.search import database
def documents():
    for number in range(20_000):
        yield f"{number:x}:x", "x" * 1000
    os._exit(9)
folder = Path(sys.argv[1])
database.write(folder, database.read_manifest(folder), documents=documents(), removed=None, added=[])
"""


def leave_hot_journal(folder: Path) -> None:
    result = subprocess.run([sys.executable, "-c", HOT, str(folder)], check=False)
    assert result.returncode == 9
    assert (folder / "documents.sqlite-journal").stat().st_size > 0
    with pytest.raises(sqlite3.OperationalError):  # negative control: reading alone cannot take the changes back
        read_only = sqlite3.connect(f"{(folder / 'documents.sqlite').as_uri()}?mode=ro", uri=True)
        try:
            read_only.execute("SELECT count(*) FROM documents").fetchone()
        finally:
            read_only.close()


def people(count: int) -> list[dict[str, Any]]:
    return [{"name": f"person {number}", "year": 1900 + number % 20} for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["new", "old"])
def test_search_works_after_a_kill_in_the_middle_of_a_transaction(reader: str, tmp_path: Path) -> None:
    records = RecordIndex()
    records.add(people(30))
    records.save(tmp_path)
    leave_hot_journal(tmp_path)
    opened = RecordIndex.open(tmp_path) if reader == "new" else records
    assert [hit.document for hit in opened.search(people(30)[4], k=1)] == [people(30)[4]]
    assert len(opened) == 30
    opened.save()
    assert RecordIndex.open(tmp_path)["29"] == people(30)[29]


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_index_on_a_disk_that_is_read_only_is_opened() -> None:
    records = RecordIndex()
    records.add(people(30))
    with tempfile.TemporaryDirectory() as parent:  # other users cannot enter the folders of pytest
        folder = Path(parent, "index")
        records.save(folder)
        for path in [*folder.rglob("*"), folder, Path(parent)]:
            path.chmod(0o555)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setuid(65534)
                if not os.access(folder, os.W_OK):  # negative control
                    opened = RecordIndex.open(folder)
                    status = 0 if opened.search(people(30)[4], k=1)[0].guess == "4" else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sorted(path.name for path in folder.iterdir() if path.is_file())[0] == "documents.sqlite"

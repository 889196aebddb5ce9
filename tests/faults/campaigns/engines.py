"""Engines: what holds the vectors of an index is moved away, emptied, damaged, exchanged, or written by someone else.

Right is: opening or verifying fails with an error that says why, or the index has all its records and answers as
before. Whatever happened, no document may be lost: after what was moved away is back, all saved records are there. Of
two programs that write, one is refused, or the records of both are there.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.campaigns.kills import kill_external_index
from tests.faults.campaigns.outcome import (
    LOST,
    RAW,
    WRONG,
    Fault,
    Outcome,
    describe,
    ensure,
    is_explained_by_store,
    must_work,
)
from tests.faults.campaigns.records import (
    EXTERNAL,
    SPACE,
    Answers,
    address,
    answers,
    check_records,
    check_saves,
    copy_template,
    make_documents,
    open_index,
    read_stored_manifest,
    write_stored_manifest,
)

from ghrr.search import RecordIndex

OLD = make_documents(range(10))
OTHER = make_documents(range(500, 512))
SAME_SIZE = make_documents(range(700, 710))


def attack(rng: random.Random, folder: Path) -> Outcome:
    kind = rng.choices(["store", "two programs", "new index", "kill"], [74, 20, 4, 2])[0]
    engine = rng.choices(["torch", "faiss", "lancedb", "milvus"], [8, 8, 16, 1])[0]  # milvus starts a server each time
    if kind == "kill":
        return kill_external_index(rng, folder, rng.choices(EXTERNAL, [20, 1])[0])
    path = copy_template(engine, OLD, folder / "index")
    if kind == "two programs":
        return _two_programs(rng, path, engine)
    if kind == "new index":
        return _new_index(path, rng.choices(EXTERNAL, [20, 1])[0])
    return _damaged_store(rng, path, engine)


# ---------------------------------------------------------------------------------------------------- damaged stores


def _store(path: Path, engine: str) -> Path:
    """Return where the vectors are."""
    return Path(address(engine, path) or path / "vectors")


def _move_away(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    _remove(store)


def _make_empty(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    is_folder = store.is_dir()
    _remove(store)
    if is_folder:
        store.mkdir()
    else:
        store.touch()


def _exchange(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    """Put the vectors of another index there; of the same size in half of the cases."""
    other = copy_template(engine, rng.choice([OTHER, SAME_SIZE]), path.with_name("other"))
    _remove(store)
    shutil.move(_store(other, engine), store)


def _empty_index(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    """Put an engine without rows there, as one that was just installed has."""
    _remove(store)
    if engine in EXTERNAL:
        RecordIndex(SPACE, backend=engine, uri=str(store))
    else:
        store.mkdir()


def _remove_part(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    files = _files(store)
    rng.choice(files).unlink()


def _cut_part(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    chosen = rng.choice(_files(store))
    content = chosen.read_bytes()
    chosen.write_bytes(content[: rng.randrange(len(content) + 1)])


def _damage_part(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    chosen = rng.choice(_files(store))
    content = bytearray(chosen.read_bytes())
    for _ in range(rng.choice([1, 16])):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    chosen.write_bytes(bytes(content))


def _older_copy(rng: random.Random, path: Path, store: Path, engine: str) -> Answers:
    """Put back the vectors from before the last save, as from a backup; return the answers of the last save."""
    backup = store.with_name("backup")
    _copy(store, backup)
    index = open_index(path, engine)
    index.remove(["id 3"])
    new = make_documents(range(800, 803))
    index.add(list(new.values()), ids=list(new))
    index.save()
    wanted = answers(index)
    del index
    _remove(store)
    shutil.move(backup, store)
    return wanted


def _change_settings(rng: random.Random, path: Path, store: Path, engine: str) -> None:
    """Change a setting of the engine in the manifest, and its checksum."""
    stored = read_stored_manifest(path)
    name = rng.choice(sorted(stored["engine"]))
    values = ["torch", "faiss", "lancedb", "milvus", "", None, True, str(path / "new"), str(path.with_name("new"))]
    stored["engine"][name] = rng.choice([value for value in values if value != stored["engine"][name]])
    write_stored_manifest(path, stored)


DAMAGE: tuple[Callable[[random.Random, Path, Path, str], Answers | None], ...] = (
    *(_move_away, _make_empty, _exchange, _empty_index, _remove_part, _cut_part, _damage_part, _older_copy),
    _change_settings,
)


def _files(store: Path) -> list[Path]:
    if store.is_file():
        return [store]
    return sorted(path for path in store.rglob("*") if path.is_file() and path.name not in ("lock", ".lock"))


def _remove(store: Path) -> None:
    if store.is_dir():
        shutil.rmtree(store)
    else:
        store.unlink()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


def _damaged_store(rng: random.Random, path: Path, engine: str) -> Outcome:
    damage, store, is_given = rng.choice(DAMAGE), _store(path, engine), rng.random() < 0.7
    reference = open_index(path, engine)
    wanted = answers(reference)
    del reference
    whole = path.with_name("whole")
    whole.mkdir()
    _copy(path, whole / "index")
    if store.parent != path:
        _copy(store, whole / store.name)
    wanted = damage(rng, path, store, engine) or wanted
    case = f"{engine}: {damage.__name__.strip('_').replace('_', ' ')}" + " without uri" * (not is_given)
    outside = _names(path.parent)
    try:
        index = open_index(path, engine) if is_given else RecordIndex.open(path)
        index.verify()
        found = answers(index)
    except Exception as error:
        if not is_explained_by_store(error):
            raise Fault(RAW, describe(error), case) from error
        result = "refused"
    else:
        result = "opened"
        if not found.equals(wanted):
            raise Fault(WRONG, f"opened with other answers: {wanted.difference(found)}", case)
        _change_and_save(index, case)
    created = _names(path.parent) - outside - {store.name}
    ensure(not created or damage is _older_copy, WRONG, f"opening made {sorted(created)}", case)
    if damage is not _older_copy:
        _restore(whole, path, store, engine, case)
    return Outcome(f"{result}: {damage.__name__.strip('_')}")


def _names(folder: Path) -> set[str]:
    return {name for name in os.listdir(folder) if not name.endswith(".lock")}


def _change_and_save(index: RecordIndex, case: str) -> None:
    new = make_documents(range(900, 902))
    try:
        index.add(list(new.values()), ids=list(new))
        index.save()
    except Exception as error:
        if not is_explained_by_store(error):
            raise Fault(RAW, f"add or save: {describe(error)}", case) from error


def _restore(whole: Path, path: Path, store: Path, engine: str, case: str) -> None:
    """Put the vectors and the settings of the engine back; all documents must still be there."""
    if engine == "milvus":  # a server in this process would still use the file that is replaced
        from milvus_lite.server_manager import server_manager_instance

        server_manager_instance.release_all()
    if store.exists() or store.is_symlink():
        _remove(store)
    if store.parent == path:
        _copy(whole / "index" / store.name, store)
    else:
        _copy(whole / store.name, store)
    before, now = read_stored_manifest(whole / "index"), read_stored_manifest(path)
    write_stored_manifest(path, {**now, "engine": before["engine"]})
    try:
        index = open_index(path, engine)
        there = {name: index[name] for name in OLD if name in index}
    except Exception as error:
        if is_explained_by_store(error) and before["generation"] != now["generation"]:
            return  # it was opened and saved in its changed form: then the old vectors do not belong to it
        raise Fault(LOST, f"with the vectors back, {describe(error)}", case) from error
    ensure(there == OLD, LOST, f"with the vectors back, {len(OLD) - len(there)} records are not there", case)


# ------------------------------------------------------------------------------------------------------- two programs


def _two_programs(rng: random.Random, path: Path, engine: str) -> Outcome:
    """Two indexes opened from one folder change and save: what was accepted is there, what was refused says so."""
    both, expected, refused = [open_index(path, engine) for _ in range(2)], dict(OLD), 0
    case = f"{engine}: two programs"
    pending: list[dict[str, Any]] = [{}, {}]
    for step in range(rng.randint(3, 6)):
        number = rng.randrange(2)
        new = make_documents(range(1000 + 10 * step, 1002 + 10 * step))
        try:
            both[number].add(list(new.values()), ids=list(new))
            pending[number] |= new
            if rng.random() < 0.6:
                both[number].save()
                expected |= pending[number]
                pending[number] = {}
        except Exception as error:
            if not is_explained_by_store(error):
                raise Fault(RAW, describe(error), case) from error
            refused += 1
            with must_work(case):
                both[number] = open_index(path, engine)
            pending[number] = {}
    both.clear()
    with must_work(case):
        index = open_index(path, engine)
    check_records(index, expected, case)
    check_saves(index, path, engine, case)
    return Outcome("one of two programs was refused" if refused else "both programs were accepted")


def _new_index(path: Path, engine: str) -> Outcome:
    """A new index in the store of another one is refused, or does it no harm."""
    path = path if (path.with_name(f"{path.name}.{engine}")).exists() else copy_template(engine, OLD, path / "own")
    case = f"{engine}: a new index in the store of another"
    new = make_documents(range(400, 403))
    try:
        index = RecordIndex(SPACE, backend=engine, uri=address(engine, path))
        index.add(list(new.values()), ids=list(new))
        index.save(path.with_name("second"))
        del index
        result = "accepted"
    except Exception as error:
        if not is_explained_by_store(error):
            raise Fault(RAW, describe(error), case) from error
        result = "refused"
    with must_work(case):
        index = open_index(path, engine)
    check_records(index, OLD, case)
    return Outcome(f"{result}: a new index in the store of another")

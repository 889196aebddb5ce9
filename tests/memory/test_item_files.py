"""Files and folders of an item memory: round trips, commits, concurrent writers, and damaged files."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import ghrr
from ghrr import Space
from ghrr.files import lock_folder
from ghrr.memory import ItemMemory, folder, segment
from ghrr.memory.folder import Entry, Manifest, read_manifest
from tests.containers import reseal
from tests.helpers import unitary
from tests.test_files import SETTINGS, set_fields

SPACE = Space(10, 3)
NAMES = ["a", "b", "κ/../ö", "", "a\0\n"]


def names(count: int, start: int = 0) -> list[str]:
    return [f"item {i}" for i in range(start, start + count)]


def assert_holds(memory: ItemMemory, labels: list[str]) -> None:
    """The memory has these labels in this order, with the right vectors, and finds each item."""
    assert memory.labels == labels
    vectors = memory.space.vectors(labels)
    assert torch.equal(memory.vectors(labels), vectors)
    assert memory.cleanup(vectors).labels == [[label] for label in labels]


@pytest.mark.parametrize("settings", SETTINGS)
def test_items_are_restored_from_a_file_and_a_folder(settings: dict[str, Any], tmp_path: Path) -> None:
    space = Space(10, 3, **settings)
    memory = ItemMemory(space, names(20))
    memory.remove("item 3")
    memory.save(tmp_path / "x.safetensors")
    memory.commit(tmp_path / "folder")
    for path in (tmp_path / "x.safetensors", tmp_path / "folder"):
        for read in (ItemMemory.load, ItemMemory.open):
            again = read(path, space=space)
            assert again.space == space
            assert_holds(again, [name for name in names(20) if name != "item 3"])
            again.verify()


@pytest.mark.parametrize("storage", ["float32", "float64", "bfloat16", "float16", "int8"])
def test_every_storage_type_is_restored(storage: str, tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, NAMES, SPACE.vectors(list("abcde")), storage=storage)
    memory.save(tmp_path / "x")
    tensors = load_file(tmp_path / "x")  # other safetensors readers can read it
    assert tensors["items"].shape == (5, 180)
    for again in (ItemMemory.load(tmp_path / "x"), ItemMemory.open(tmp_path / "x")):
        assert again.storage == storage
        assert again.labels == NAMES
        assert torch.equal(again.vectors(NAMES), memory.vectors(NAMES))
        queries = SPACE.vectors(["c", "z"])
        assert torch.equal(again.cleanup(queries, 5).scores, memory.cleanup(queries, 5).scores)


@pytest.mark.parametrize("read", [ItemMemory.load, ItemMemory.open])
def test_an_empty_memory_is_restored_and_grows(read: Any, tmp_path: Path) -> None:
    memory = ItemMemory(SPACE)
    memory.save(tmp_path / "x")
    memory.commit(tmp_path / "folder")
    for path in ("x", "folder"):
        again = read(tmp_path / path)
        assert_holds(again, [])
        again.add("new")
        again.commit(tmp_path / f"{path} grown")
        assert_holds(read(tmp_path / f"{path} grown"), ["new"])


@pytest.mark.parametrize("opened", [False, True])
def test_the_folder_equals_the_memory_after_every_commit(opened: bool, tmp_path: Path) -> None:
    """A random walk of adds, removals and commits."""
    memory = ItemMemory(SPACE)
    memory.commit(tmp_path)
    if opened:
        memory = ItemMemory.open(tmp_path)
    changes = torch.randint(0, 4, (40, 2), generator=torch.Generator().manual_seed(0)).tolist()
    count = 0
    for grow, shrink in changes:
        memory.add(names(grow, count))
        count += grow
        memory.remove(memory.labels[shrink : 2 * shrink])
        memory.commit()
        for again in (memory, ItemMemory.open(tmp_path), ItemMemory.load(tmp_path)):
            assert_holds(again, memory.labels)
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert len(manifest.entries) <= 1 + count.bit_length()
    assert len(manifest.removed) <= sum(entry.items for entry in manifest.entries) / 2
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {"manifest.json"} | {entry.name for entry in manifest.entries}


def test_a_commit_rewrites_few_old_items(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, names(1000))
    memory.commit(tmp_path)
    (large,) = tmp_path.glob("*.safetensors")
    before = large.stat()
    written = 0
    for i in range(64):
        memory.add(f"late {i}")
        memory.commit()
        newest = max(tmp_path.glob("*.safetensors"), key=lambda path: path.stat().st_mtime_ns)
        written += len(ItemMemory.open(newest))
    after = large.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert written <= 64 * 7  # an item is rewritten at most log2(64) times
    memory.commit()  # no changes: nothing is written
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_items_added_to_an_opened_file_are_committed_to_a_folder(tmp_path: Path) -> None:
    ItemMemory(SPACE, names(5)).save(tmp_path / "x")
    memory = ItemMemory.open(tmp_path / "x")
    memory.add("new")
    memory.remove("item 2")
    want = ["item 0", "item 1", "item 3", "item 4", "new"]
    assert_holds(memory, want)
    memory.commit(tmp_path / "folder")
    for again in (memory, ItemMemory.open(tmp_path / "folder")):
        assert_holds(again, want)
    assert_holds(ItemMemory.open(tmp_path / "x"), names(5))


def test_an_opened_memory_does_not_change_when_its_files_are_replaced(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, names(5))
    memory.save(tmp_path / "x")
    memory.commit(tmp_path / "folder")
    readers = [ItemMemory.open(tmp_path / "x"), ItemMemory.open(tmp_path / "folder")]
    memory.add(names(50, start=5))
    memory.save(tmp_path / "x")
    memory.commit()
    for reader in readers:
        assert_holds(reader, names(5))
        reader.verify()
    assert_holds(ItemMemory.open(tmp_path / "x"), names(55))


# ------------------------------------------------------------------------------------------------------------- writers


def test_a_second_writer_cannot_overwrite_the_items_of_the_first(tmp_path: Path) -> None:
    ItemMemory(SPACE, ["a"]).commit(tmp_path)
    first, second = ItemMemory.open(tmp_path), ItemMemory.load(tmp_path)
    first.add("b")
    first.commit()
    second.add("c")
    with pytest.raises(ValueError, match=r"the folder .* changed: another process wrote to it"):
        second.commit()
    with pytest.raises(ValueError, match=r"the folder .* changed"):
        ItemMemory(SPACE, ["d"]).commit(tmp_path)
    assert_holds(ItemMemory.open(tmp_path), ["a", "b"])
    assert second.labels == ["a", "c"]


def test_a_locked_folder_cannot_be_committed_to(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, ["a"])
    memory.commit(tmp_path)
    memory.add("b")
    with lock_folder(tmp_path), pytest.raises(BlockingIOError, match=r"ItemMemory.commit: process \d+ .* is"):
        memory.commit()
    memory.commit()  # negative control: now it is unlocked
    assert_holds(ItemMemory.open(tmp_path), ["a", "b"])


@pytest.mark.parametrize("moment", ["items", "manifest"])
def test_an_interrupted_commit_changes_nothing(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ItemMemory(SPACE, names(8))
    memory.commit(tmp_path)
    memory.add("new")
    replace = os.replace

    def interrupted(source: Any, target: Any) -> None:
        if moment in str(target.name):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        memory.commit()
    assert_holds(ItemMemory.open(tmp_path), names(8))
    memory.commit()
    assert_holds(ItemMemory.open(tmp_path), [*names(8), "new"])
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # the file of the interrupted commit was removed


# ----------------------------------------------------------------------------------------------------------- bad files


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "x.safetensors"
    ItemMemory(Space(10, 3, rotation=unitary(m=3)), names(4), storage="int8").save(path)
    return path


def assert_refused(path: Path, message: str) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        with pytest.raises(ValueError, match=re.escape(message)) as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_reading_a_missing_memory_raises(tmp_path: Path) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        with pytest.raises(FileNotFoundError, match="no such file"):
            read(tmp_path / "x")
        with pytest.raises(FileNotFoundError, match=r"holds no memory, it has no manifest.json"):
            read(tmp_path)


def test_items_of_another_space_are_refused(saved: Path) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        with pytest.raises(ValueError, match=r"expected items of Space\(dim=10, m=3, seed=0\), got items of Space\("):
            read(saved, space=SPACE)


def test_damage_is_noticed_by_load_and_by_verify(saved: Path) -> None:
    whole = saved.read_bytes()
    for position in range(8, len(whole), 101):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        saved.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"ItemMemory\.\w+\("):
            ItemMemory.load(saved)
        with pytest.raises(ValueError, match=r"ItemMemory\.\w+\("):
            ItemMemory.open(saved).verify()
    saved.write_bytes(whole)
    ItemMemory.load(saved)  # negative control
    ItemMemory.open(saved).verify()


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    ghrr.save(path, SPACE.atoms("a")[0])
    assert_refused(path, "a safetensors file of another kind, got format 'ghrr-hypervectors'")
    ItemMemory(SPACE).save(path)
    with pytest.raises(ValueError, match="of another kind, got format 'ghrr-items'"):
        ghrr.load(path)


@pytest.mark.parametrize(
    ("change", "table", "message"),
    [
        ({"version": 99}, {}, "format version 99, expected at most 2"),
        ({"space": {"dim": 11}}, {}, "the tensors do not fit the space and the number of items"),
        ({"space": {"dim": -1}}, {}, "dim must be a whole number of at least 1"),
        ({"space": {"surprise": 1}}, {}, "inconsistent content (TypeError("),
        ({"storage": "float32"}, {}, "the tensors do not fit"),
        ({"storage": "pickle"}, {}, "storage of the header must be one of 'float32'"),
        ({}, {"scales": {"dtype": "F32", "shape": [2, 2], "data_offsets": [896, 912]}}, "the tensors do not fit"),
        ({}, {"items": {"dtype": "I8", "shape": [2, 360], "data_offsets": [176, 896]}}, "the tensors do not fit"),
    ],
)
def test_headers_that_contradict_the_content_are_refused(
    saved: Path, change: dict[str, Any], table: dict[str, Any], message: str
) -> None:
    reseal(saved)
    ItemMemory.load(saved)  # negative control: sealing again alone is not noticed
    reseal(saved, set_fields(change), table)
    assert_refused(saved, message)


def test_damaged_manifests_are_refused(tmp_path: Path) -> None:
    where = tmp_path / "folder"
    ItemMemory(SPACE, names(4)).commit(where)
    path = where / "manifest.json"
    whole = path.read_bytes()
    for content in (b"", whole[:50], whole[:-1], whole.replace(b'"items": 4', b'"items": 5')):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="the content does not match its checksum"):
            ItemMemory.open(where)

    def sealed(change: dict[str, Any]) -> None:
        text = json.dumps({**json.loads(whole.partition(b"\n")[2]), **change}).encode()
        path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)

    sealed({})
    assert_holds(ItemMemory.open(where), names(4))  # negative control
    entry = json.loads(whole.partition(b"\n")[2])["entries"][0]
    for change, message in (
        ({"version": 2}, "version 2, expected 'ghrr-item-folder' version 1"),
        (
            {"entries": [{**entry, "name": "../x.safetensors"}]},
            "expected file names as written by ItemMemory, got ['../x",
        ),
        ({"entries": [{**entry, "sha256": "0"}]}, "is not the one that manifest.json lists"),
        ({"entries": [{"name": entry["name"]}]}, "an entry: sha256 is missing"),
        ({"entries": 3}, "entries must be a list"),
    ):
        sealed(change)
        with pytest.raises(ValueError, match=re.escape(message)):
            ItemMemory.open(where)
    path.write_bytes(whole)
    (where / entry["name"]).unlink()
    with pytest.raises(FileNotFoundError, match="no such file"):
        ItemMemory.open(where)


def test_files_of_two_spaces_in_one_folder_are_refused(tmp_path: Path) -> None:
    for number, space in enumerate((SPACE, Space(10, 3, seed=1))):
        ItemMemory(space, names(2)).commit(tmp_path / str(number))
    entries = []
    for number in (0, 1):
        manifest = read_manifest(tmp_path / str(number))
        assert manifest is not None
        entries.append(vars(manifest.entries[0]))
    os.replace(tmp_path / "1" / entries[1]["name"], tmp_path / "0" / entries[1]["name"])
    path = tmp_path / "0" / "manifest.json"
    text = json.dumps({**json.loads(path.read_bytes().partition(b"\n")[2]), "entries": entries}).encode()
    path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    with pytest.raises(ValueError, match=r"holds float32 items of Space\(dim=10, m=3, seed=1\), but"):
        ItemMemory.open(tmp_path / "0")


def test_opening_a_folder_that_keeps_changing_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = (Manifest((Entry(f"items-{i:016x}.safetensors", "", 1, 0),)) for i in itertools.count())
    monkeypatch.setattr(folder, "read_manifest", lambda path: next(states))
    with pytest.raises(TimeoutError, match="changed 100 times while it was opened; try again"):
        ItemMemory.open(tmp_path)


def test_ids_that_are_not_ascending_are_refused(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, ["a", "b"])
    segment.write_segment(
        tmp_path / "x", SPACE, "float32", {"a": 0, "b": 1}, memory._items.state.backend.stored, chunk_rows=10
    )
    ItemMemory.open(tmp_path / "x")  # negative control
    segment.write_segment(
        tmp_path / "x", SPACE, "float32", {"b": 1, "a": 0}, memory._items.state.backend.stored, chunk_rows=10
    )
    assert_refused(tmp_path / "x", "ids must be non-negative and ascending")


def test_bad_targets_raise_and_leave_no_files(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, names(2))
    with pytest.raises(FileNotFoundError):
        memory.save(tmp_path / "no" / "x")
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        memory.save(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        memory.commit(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

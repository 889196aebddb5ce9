"""What was saved comes back, from one file or from a folder; what was damaged is told apart, and never trusted."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory, folder, segment
from ghrr.memory.folder import Entry, Manifest, read_manifest
from tests.helpers import unitary
from tests.test_files import SETTINGS

SPACE = Space(10, 3)
NAMES = ["a", "b", "κ/../ö", "", "a\0\n"]


def names(count: int, start: int = 0) -> list[str]:
    return [f"item {i}" for i in range(start, start + count)]


def assert_holds(memory: ItemMemory, labels: list[str]) -> None:
    """The memory has these labels in this order, the right vector for each, and finds each."""
    assert memory.labels == labels
    vectors = memory.space.vectors(labels)
    assert torch.equal(memory.vectors(labels), vectors)
    assert memory.cleanup(vectors).labels == [[label] for label in labels]


@pytest.mark.parametrize("settings", SETTINGS)
def test_round_trip(settings: dict[str, Any], tmp_path: Path) -> None:
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
def test_round_trip_of_every_storage(storage: str, tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, NAMES, SPACE.vectors(list("abcde")), storage=storage)
    memory.save(tmp_path / "x")
    tensors = load_file(tmp_path / "x")  # a safetensors file like any other
    assert tensors["items"].shape == (5, 180)
    for again in (ItemMemory.load(tmp_path / "x"), ItemMemory.open(tmp_path / "x")):
        assert again.storage == storage
        assert again.labels == NAMES
        assert torch.equal(again.vectors(NAMES), memory.vectors(NAMES))
        queries = SPACE.vectors(["c", "z"])
        assert torch.equal(again.cleanup(queries, 5).scores, memory.cleanup(queries, 5).scores)


@pytest.mark.parametrize("read", [ItemMemory.load, ItemMemory.open])
def test_an_empty_memory(read: Any, tmp_path: Path) -> None:
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
def test_commits_of_a_growing_and_shrinking_memory(opened: bool, tmp_path: Path) -> None:
    """A random walk of adding, removing and committing: after every commit the folder holds what the memory holds."""
    memory = ItemMemory(SPACE)
    memory.commit(tmp_path)
    if opened:
        memory = ItemMemory.open(tmp_path)
    steps = torch.randint(0, 4, (60, 2), generator=torch.Generator().manual_seed(0)).tolist()
    count = 0
    for grow, shrink in steps:
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
    assert files == {"manifest.json", "lock"} | {entry.name for entry in manifest.entries}


def test_a_commit_writes_what_is_new_and_little_else(tmp_path: Path) -> None:
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
    assert written <= 64 * 7  # an item is rewritten when files double, log2(64) times at most
    memory.commit()  # nothing new: nothing is written
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_an_opened_file_can_be_added_to_and_committed_elsewhere(tmp_path: Path) -> None:
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


def test_what_is_open_stays_as_it_was(tmp_path: Path) -> None:
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


def test_two_writers_do_not_lose_each_others_items(tmp_path: Path) -> None:
    ItemMemory(SPACE, ["a"]).commit(tmp_path)
    first, second = ItemMemory.open(tmp_path), ItemMemory.load(tmp_path)
    first.add("b")
    first.commit()
    second.add("c")
    with pytest.raises(ValueError, match="holds other items than this memory knows of: another process wrote to it"):
        second.commit()
    with pytest.raises(ValueError, match="holds other items than this memory knows of"):
        ItemMemory(SPACE, ["d"]).commit(tmp_path)
    assert_holds(ItemMemory.open(tmp_path), ["a", "b"])
    assert second.labels == ["a", "c"]


def test_a_folder_that_is_being_written_to(tmp_path: Path) -> None:
    import fcntl

    memory = ItemMemory(SPACE, ["a"])
    memory.commit(tmp_path)
    memory.add("b")
    with open(tmp_path / "lock") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="another process or thread is writing to"):
            memory.commit()
    memory.commit()  # the control: now it is free
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
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # what was left over is gone


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


def test_nothing_there(tmp_path: Path) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        with pytest.raises(FileNotFoundError, match="no such file"):
            read(tmp_path / "x")
        with pytest.raises(FileNotFoundError, match=r"is a folder without manifest.json: no memory is there"):
            read(tmp_path)


def test_another_space(saved: Path) -> None:
    for read in (ItemMemory.load, ItemMemory.open):
        with pytest.raises(ValueError, match=r"holds items of Space\(.*, not of Space\(dim=10, m=3, seed=0\)"):
            read(saved, space=SPACE)


def test_a_file_cut_short_anywhere(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in {*range(0, len(whole), 97), len(whole) - 1}:
        saved.write_bytes(whole[:length])
        assert_refused(saved, "cut short")
    saved.write_bytes(whole + b"\0")
    assert_refused(saved, "cut short: its header asks for")


def test_a_flipped_bit_anywhere(saved: Path) -> None:
    whole = saved.read_bytes()
    for position in range(8, len(whole), 41):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        saved.write_bytes(bytes(damaged))
        with pytest.raises(ValueError, match="ItemMemory: "):
            ItemMemory.load(saved)
        with pytest.raises(ValueError, match="ItemMemory: "):
            ItemMemory.open(saved).verify()
    saved.write_bytes(whole)
    ItemMemory.load(saved)  # the control: the whole file is fine
    ItemMemory.open(saved).verify()


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for content in (b"", b"hello", b"\x80\x04K\x01.", b"\x02" + 7 * b"\0" + b"[]", 8 * b"\xff"):
        path.write_bytes(content)
        assert_refused(path, "not a file of items: cut short, or of another kind")
    save_file({"weight": torch.zeros(3)}, path)
    assert_refused(path, "a safetensors file, but not one that ItemMemory wrote")
    ghrr.save(path, SPACE.atoms("a")[0])
    assert_refused(path, "a safetensors file, but not one that ItemMemory wrote")
    ItemMemory(SPACE).save(path)
    with pytest.raises(ValueError, match="of a kind that ghrr does not write"):
        ghrr.load(path)


def rewritten(path: Path, change: dict[str, Any], table: dict[str, Any]) -> None:
    """Change the header of a saved file, with a checksum that fits: the work of someone who knows the format."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.pop("__metadata__")
    stored = json.loads(metadata["ghrr"])
    for key, value in change.items():
        stored[key] = {**stored[key], **value} if isinstance(value, dict) else value
    text = json.dumps(stored, sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for name, entry in header.items():
        if name != "items":
            digest.update(data[slice(*entry["data_offsets"])])
    header |= table
    path.write_bytes(segment._header(text, header, digest.hexdigest(), metadata["items_sha256"]) + data)


@pytest.mark.parametrize(
    ("change", "table", "message"),
    [
        ({"version": 99}, {}, "format version 99, this ghrr reads 1"),
        ({"format": "other"}, {}, "a safetensors file, but not one that ItemMemory wrote"),
        ({"space": {"dim": 11}}, {}, "the list of its tensors does not fit the space and number of its items"),
        ({"space": {"dim": -1}}, {}, "dim must be a whole number of at least 1"),
        ({"space": {"surprise": 1}}, {}, "inconsistent content (TypeError("),
        ({"items": 5}, {}, "the list of its tensors does not fit"),
        ({"items": -5}, {}, "items must be a whole number from 0"),
        ({"items": 10**30}, {}, "items must be a whole number"),
        ({"items": "many"}, {}, "items must be a whole number"),
        ({"storage": "float32"}, {}, "the list of its tensors does not fit"),
        ({"storage": "pickle"}, {}, "storage must be one of 'float32'"),
        ({"labels": 3}, {}, "the list of its tensors does not fit"),
        ({}, {"items": {"dtype": "I8", "shape": [4, 180], "data_offsets": [0, 4]}}, "the list of its tensors does not"),
        ({}, {"labels": {"dtype": "U8", "shape": [1], "data_offsets": [-(10**18), 4]}}, "not a file of items"),
        ({}, {"more": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}, "the list of its tensors does not fit"),
        ({}, {"ids": {}}, "not a file of items: cut short, or of another kind"),
    ],
)
def test_headers_that_contradict_the_content(
    saved: Path, change: dict[str, Any], table: dict[str, Any], message: str
) -> None:
    rewritten(saved, {}, {})
    ItemMemory.load(saved)  # the control: rewriting alone is not noticed
    rewritten(saved, change, table)
    assert_refused(saved, message)


def test_damaged_manifests(tmp_path: Path) -> None:
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
    assert_holds(ItemMemory.open(where), names(4))  # the control
    entry = json.loads(whole.partition(b"\n")[2])["entries"][0]
    for change, message in (
        ({"version": 2}, "version 2, this ghrr reads ghrr-item-folder version 1"),
        ({"entries": [{**entry, "name": "../x.safetensors"}]}, "names files that ItemMemory does not write: ['../x"),
        ({"entries": [{**entry, "sha256": "0"}]}, "is not the file that manifest.json means"),
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


def test_files_of_two_spaces_in_one_folder(tmp_path: Path) -> None:
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


def test_a_folder_that_never_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = (Manifest((Entry(f"items-{i:016x}.safetensors", "", 1, 0),)) for i in itertools.count())
    monkeypatch.setattr(folder, "read_manifest", lambda path: next(states))
    with pytest.raises(TimeoutError, match="changed 100 times while it was being opened; try again"):
        ItemMemory.open(tmp_path)


def test_ids_that_do_not_ascend(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, ["a", "b"])
    segment.write_segment(tmp_path / "x", SPACE, "float32", {"a": 0, "b": 1}, memory._state.backend.stored, step=10)
    ItemMemory.open(tmp_path / "x")  # the control
    segment.write_segment(tmp_path / "x", SPACE, "float32", {"b": 1, "a": 0}, memory._state.backend.stored, step=10)
    assert_refused(tmp_path / "x", "ids must be at least 0 and ascend")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, names(2))
    with pytest.raises(FileNotFoundError):
        memory.save(tmp_path / "no" / "x")
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        memory.save(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        memory.commit(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

"""Files with valid checksums but invalid content raise an error that names them, before a large allocation."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import Space
from ghrr.files import space_header
from ghrr.memory import ItemMemory, segment
from ghrr.memory.storage import Stored, pack
from tests.containers import join
from tests.containers import seal as seal_container

SPACE = Space(5, 2)
NAMES = ["a", "b", "c", "d"]
CODES = {torch.int64: "I64", torch.float32: "F32", torch.int8: "I8", torch.uint8: "U8"}
DEEP = "[" * 100_000 + "]" * 100_000


def assert_refused(path: Path, message: str, *, names: Path | None = None) -> None:
    for read in (ItemMemory.open, ItemMemory.load):
        with pytest.raises((ValueError, OSError), match=message) as caught:
            read(path)
        assert str(names or path) in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ manifests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files, from whose first item 1 was removed."""
    memory = ItemMemory(SPACE, NAMES)
    memory.commit(tmp_path / "folder")
    memory.remove("b")
    memory.add("e")
    memory.commit()
    assert len(list((tmp_path / "folder").glob("*.safetensors"))) == 2
    return tmp_path / "folder"


def manifest_of(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / "manifest.json").read_bytes().partition(b"\n")[2])
    assert isinstance(content, dict)
    return content


def seal(folder: Path, text: str) -> None:
    """Write a manifest with a checksum that fits."""
    content = text.encode()
    (folder / "manifest.json").write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def change_first(manifest: dict[str, Any], **change: Any) -> list[Any]:
    first, *rest = manifest["entries"]
    return [first | change, *rest]


MANIFESTS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "next_id that is in use": (lambda m: {"next_id": 4}, "ids of items-.* must be from 4 to below 4, got 4 to 4"),
    "next_id of the past": (lambda m: {"next_id": 0}, "must be ascending"),
    "next_id below 0": (lambda m: {"next_id": -1}, "next_id must be a whole number from 0"),
    "next_id too large": (lambda m: {"next_id": 2**70}, "next_id must be a whole number"),
    "next_id true": (lambda m: {"next_id": True}, "next_id must be a whole number"),
    "next_id text": (lambda m: {"next_id": "5"}, "next_id must be a whole number"),
    "removed unknown": (lambda m: {"removed": [1, 77]}, r"removed ids must be in one of the files, got \[77\]"),
    "removed below 0": (lambda m: {"removed": [-1]}, "a removed id must be a whole number from 0"),
    "removed twice": (lambda m: {"removed": [1, 1]}, "removed ids must be different"),
    "removed text": (lambda m: {"removed": ["1"]}, "a removed id must be a whole number"),
    "removed no list": (lambda m: {"removed": {"1": 1}}, "removed must be a list"),
    "no entries": (lambda m: {"entries": []}, "expected at least one file"),
    "empty entry": (lambda m: {"entries": [{}]}, "an entry: name is missing"),
    "entry no object": (lambda m: {"entries": [3]}, "an entry: expected an object with"),
    "repeated entry": (lambda m: {"entries": m["entries"][:1] * 2}, "each file once"),
    "entries in another order": (lambda m: {"entries": m["entries"][::-1]}, "must be ascending"),
    "fewer items": (lambda m: {"entries": change_first(m, items=3)}, "is not the one that manifest.json lists"),
    "items below 0": (lambda m: {"entries": change_first(m, items=-4)}, "items must be a whole number from 0"),
    "first above its ids": (lambda m: {"entries": change_first(m, first=2)}, "must be from 2 to below 4, got 0 to 3"),
    "name with a path": (lambda m: {"entries": change_first(m, name="../x")}, "expected file names as written"),
    "name no text": (lambda m: {"entries": change_first(m, name=3)}, "name must be text"),
    "version true": (lambda m: {"version": True}, "version must be a whole number|expected"),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_crafted_manifest(case: str, folder: Path) -> None:
    manifest = manifest_of(folder)
    seal(folder, json.dumps(manifest))
    assert ItemMemory.open(folder).labels == ["a", "c", "d", "e"]  # negative control: the seal is right
    change, message = MANIFESTS[case]
    seal(folder, json.dumps(manifest | change(manifest)))
    assert_refused(folder, message)


@pytest.mark.parametrize("text", [DEEP, "3", "null", "{", '{"format": NaN}', "\x00", f'{{"entries": {DEEP}}}'])
def test_manifest_that_is_no_object(text: str, folder: Path) -> None:
    seal(folder, text)
    assert_refused(folder, "nested too deeply|expected an object|not valid JSON|expected")


def test_label_that_is_live_in_two_files(folder: Path) -> None:
    manifest = manifest_of(folder)
    name = manifest["entries"][1]["name"]
    memory = ItemMemory(SPACE, ["a"])
    digest = segment.write_segment(
        folder / name, SPACE, "float32", {"a": 4}, lambda _: memory_rows(memory), chunk_rows=9
    )
    manifest["entries"][1]["sha256"] = digest
    seal(folder, json.dumps(manifest))
    assert_refused(folder, "two items have the same label")


def memory_rows(memory: ItemMemory) -> Stored:
    return memory._items.state.backend.stored(torch.tensor([0]))


def test_label_that_was_removed_and_added_again_is_the_new_item(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, [*NAMES, "again"])
    memory.commit(tmp_path)
    memory.remove("again")
    memory.add("again", SPACE.vectors(["other"]))
    memory.commit()
    assert len(list(tmp_path.glob("*.safetensors"))) == 2  # negative control: the old item is still in its file
    for saved in (ItemMemory.open(tmp_path), ItemMemory.load(tmp_path)):
        assert saved.labels == [*NAMES, "again"]
        assert torch.equal(saved.vectors("again"), SPACE.vectors(["other"])[0])
        assert saved.cleanup(SPACE.vectors(["other"])).labels == [["again"]]


# ------------------------------------------------------------------------------------------------------------- segments


def write(
    path: Path,
    *,
    header: dict[str, Any] | None = None,
    table: dict[str, Any] | None = None,
    labels: Any = NAMES,
    about: Any = None,
    ids: Tensor | None = None,
    items: Tensor | None = None,
    scales: Tensor | None = None,
    storage: str = "float32",
) -> None:
    """Write a file of items as ItemMemory does, checksums included, but with content that may be wrong."""
    ids = torch.arange(4) if ids is None else ids
    rows = pack(torch.view_as_real(SPACE.vectors(NAMES)).reshape(4, -1), storage)
    numbers = rows.numbers if items is None else items
    tensors = {"ids": ids, "items": numbers}
    if storage == "int8":
        tensors["scales"] = rows.scales if scales is None else scales  # type: ignore[assignment]
    for name, value in (("labels", labels), ("about", about)):
        text = value if isinstance(value, str) else json.dumps(value)
        tensors[name] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    entries, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        offsets = [len(data), len(data) + len(content)]
        entries[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += content
    stored = {"format": "ghrr-items", "version": 2, "space": space_header(SPACE)[0], "storage": storage}
    text = json.dumps(stored | (header or {}), sort_keys=True)
    entries |= table or {}
    path.write_bytes(join(seal_container(text, entries, data), entries, data))


def test_file_written_by_hand_equals_the_saved_one(tmp_path: Path) -> None:
    for storage in ("float32", "int8"):
        write(tmp_path / "mine", storage=storage)
        ItemMemory(SPACE, NAMES, storage=storage).save(tmp_path / "real")
        assert (tmp_path / "mine").read_bytes() == (tmp_path / "real").read_bytes()
        ItemMemory.open(tmp_path / "mine").verify()


HUGE = {"dtype": "U8", "shape": [4 << 40], "data_offsets": [0, 4 << 40]}
LAST = {"dtype": "U8", "shape": [4 << 40], "data_offsets": [692, 692 + (4 << 40)]}
NOT_FINITE = torch.tensor([0.1, torch.nan, 0.1, 0.1])
SEGMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "repeated labels": ({"labels": ["a", "b", "a", "d"]}, "expected 4 different labels"),
    "fewer labels": ({"labels": ["a", "b", "c"]}, "expected 4 different labels, got 3"),
    "labels no text": ({"labels": ["a", "b", "c", 4]}, "labels must be a list of strings"),
    "labels null": ({"labels": ["a", "b", "c", None]}, "labels must be a list of strings"),
    "labels no list": ({"labels": {"a": 1}}, "labels must be a list"),
    "labels no Unicode": ({"labels": '["a", "b", "c", "\\ud800"]'}, "surrogates not allowed"),
    "labels deep": ({"labels": DEEP}, "labels: the JSON is nested too deeply"),
    "labels no JSON": ({"labels": "[1,"}, "labels: not valid JSON"),
    "about deep": ({"about": '{"a": ' + DEEP + "}"}, "about: the JSON is nested too deeply"),
    "about no object": ({"about": [1]}, "about must be an object"),
    "ids below 0": ({"ids": torch.arange(-1, 3)}, "ids must be non-negative and ascending"),
    "ids repeat": ({"ids": torch.tensor([0, 1, 1, 2])}, "ids must be non-negative and ascending"),
    "ids too far apart": ({"ids": torch.tensor([0, 2**62 + 1, -(2**62), 5])}, "ids must be non-negative and ascending"),
    "ids descend": ({"ids": torch.arange(4).flip(0)}, "ids must be non-negative and ascending"),
    "scales NaN": ({"storage": "int8", "scales": NOT_FINITE}, "scales must be finite"),
    "scales below 0": ({"storage": "int8", "scales": -torch.ones(4)}, "scales must be finite and non-negative"),
    "tensor of 4 TiB": ({"table": {"labels": HUGE}}, "do not fit the shape or the other tensors"),
    "last tensor of 4 TiB": ({"table": {"about": LAST}}, "its header describes 4,398,0"),
    "tensors that overlap": (
        {"table": {"items": {"dtype": "F32", "shape": [4, 40], "data_offsets": [0, 640]}}},
        "do not fit the shape or the other tensors",
    ),
    "offsets that descend": (
        {"table": {"ids": {"dtype": "I64", "shape": [4], "data_offsets": [32, 0]}}},
        "not a readable",
    ),
    "space of 4 TiB": ({"header": {"space": space_header(Space(1 << 37, 2))[0]}}, "do not fit the space"),
    "space no object": ({"header": {"space": 3}}, "space must be an object"),
    "storage unknown": ({"header": {"storage": "pickle"}}, "storage of the header must be one of"),
}


@pytest.mark.parametrize("case", SEGMENTS)
def test_crafted_segment(case: str, tmp_path: Path) -> None:
    content, message = SEGMENTS[case]
    write(tmp_path / "x", **content)
    assert_refused(tmp_path / "x", message)


def test_header_nested_deep(tmp_path: Path) -> None:
    content = ('{"__metadata__": ' + DEEP + "}").encode()
    (tmp_path / "x").write_bytes(struct.pack("<Q", len(content)) + content)
    assert_refused(tmp_path / "x", "nested too deeply")


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_items_that_are_not_finite(number: float, tmp_path: Path) -> None:
    items = torch.view_as_real(SPACE.vectors(NAMES)).reshape(4, -1)
    items[2, 7] = number
    write(tmp_path / "x", items=items)
    memory = ItemMemory.open(tmp_path / "x")  # does not read the items
    assert torch.equal(memory.vectors("a"), SPACE.vectors(["a"])[0])
    acts: tuple[Callable[[], Any], ...] = (
        lambda: memory.cleanup(SPACE.vectors(["a"])),
        lambda: memory.match(SPACE.vectors(["a"])),
        lambda: memory.vectors("c"),
        memory.verify,
        lambda: ItemMemory.load(tmp_path / "x"),
    )
    for act in acts:
        with pytest.raises(ValueError, match=re.escape(str(tmp_path / "x")) + ".*must be finite, got NaN or infinity"):
            act()


# ---------------------------------------------------------------------------------------------------- no regular files


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_fifo, Path.mkdir, link_to_a_device])
@pytest.mark.parametrize("which", ["manifest", "segment"])
def test_no_regular_file_in_a_folder(make: Callable[[Path], None], which: str, folder: Path) -> None:
    name = "manifest.json" if which == "manifest" else manifest_of(folder)["entries"][0]["name"]
    memory = ItemMemory.open(folder)
    (folder / name).unlink()
    make(folder / name)
    assert_refused(folder, "expected a regular file|must be inside its folder", names=folder / name)
    if which == "manifest":
        memory.add("new")
        with pytest.raises((ValueError, OSError), match=r"expected a regular file|must be inside its folder"):
            memory.commit()


def test_fifo_in_place_of_a_file_or_of_the_lock(folder: Path) -> None:
    os.mkfifo(folder.parent / "x")
    assert_refused(folder.parent / "x", "it is a FIFO, expected a regular file")
    memory = ItemMemory.open(folder)
    os.mkfifo(folder / ".lock")
    memory.add("new")
    with pytest.raises(OSError, match="it is a FIFO, expected a regular file"):
        memory.commit()


@pytest.mark.parametrize("name", ["manifest.json", "segment", ".lock"])
def test_links_that_lead_out_of_the_folder(name: str, folder: Path) -> None:
    name = manifest_of(folder)["entries"][0]["name"] if name == "segment" else name
    memory = ItemMemory.open(folder)
    (folder / ".lock").touch()
    os.replace(folder / name, folder.parent / "outside")
    (folder / name).symlink_to(folder.parent / "outside")
    before = (folder.parent / "outside").read_bytes()
    if name != ".lock":
        assert_refused(folder, "must be inside its folder", names=folder / name)
    if "items" not in name:
        memory.add("new")
        with pytest.raises((ValueError, OSError), match=r"must be inside its folder|is a symbolic link"):
            memory.commit()
    assert (folder.parent / "outside").read_bytes() == before


def test_links_inside_the_folder_and_to_the_folder_are_followed(folder: Path) -> None:
    name = manifest_of(folder)["entries"][0]["name"]
    os.replace(folder / name, folder / "renamed")
    (folder / name).symlink_to("renamed")
    (folder.parent / "link").symlink_to(folder)
    assert ItemMemory.open(folder.parent / "link").labels == ["a", "c", "d", "e"]


# -------------------------------------------------------------------------------------------------------------- layouts


@pytest.mark.parametrize(
    "x",
    [SPACE.vectors(["a"]).to_sparse(), SPACE.vectors(["a"]).to_sparse(2), SPACE.vectors(["a"]).to("meta")],
    ids=["sparse", "hybrid", "meta"],
)
def test_tensors_whose_numbers_are_not_in_memory(x: Tensor) -> None:
    memory = ItemMemory(SPACE, ["a"])
    acts: tuple[Callable[[], Any], ...] = (
        lambda: memory.add("b", x),
        lambda: memory.cleanup(x),
        lambda: memory.match(x),
        lambda: ItemMemory(SPACE, ["a"], x),
    )
    for act in acts:
        with pytest.raises(TypeError, match=r"must be a dense tensor|must hold numbers"):
            act()
    assert memory.labels == ["a"]

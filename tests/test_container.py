"""Containers: any damage is noticed, foreign files are refused, and large tensors are written and read in chunks."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.files import TensorChunks, TensorFile, container, read_tensors, write_tensors
from tests.containers import join, reseal, reseal_text, split

ROWS = torch.arange(12, dtype=torch.float32).reshape(6, 2)
TENSORS = {"ids": torch.arange(6), "rows": ROWS, "flags": torch.tensor([True, False]), "scalar": torch.tensor(2.5)}
DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_tensors(tmp_path / "x.safetensors", {"note": "ü"}, TENSORS, kind="test", version=2)
    return tmp_path / "x.safetensors"


@names_errors
def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    return read_tensors(path, kind="test", version=2)


def assert_refused(path: Path, message: str = ".") -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"read({str(path)!r}): ")


def test_header_and_tensors_are_restored(path: Path) -> None:
    header, tensors = read(path)
    assert header == {"format": "test", "version": 2, "note": "ü"}
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_header_that_could_not_be_read_is_not_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()
    (size,) = struct.unpack("<Q", before[:8])
    monkeypatch.setattr(container, "_MAX_HEADER", size)
    write_tensors(path, {"note": "ü"}, TENSORS, kind="test", version=2)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match=rf"header has {size + 8:,} bytes, expected at most {size:,}; use fewer"):
        write_tensors(path, {"note": "ü" + 8 * "u"}, TENSORS, kind="test", version=2)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_layout_is_restored(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype)
    given = {"strided": x.mT, "empty": x[:0], "shared": x, "conjugated": (x * 1j).conj() if dtype.is_complex else x}
    write_tensors(tmp_path / "x", {}, given, kind="test", version=1)
    _, tensors = read(tmp_path / "x")
    assert all(torch.equal(tensors[name], tensor) for name, tensor in given.items())


def test_other_readers_of_safetensors_read_the_tensors(path: Path) -> None:
    tensors = load_file(path)
    assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["ghrr"])["note"] == "ü"


def test_a_truncated_file_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for length in {*range(0, len(whole), 13), len(whole) - 1}:
        path.write_bytes(whole[:length])
        assert_refused(path, "not a readable safetensors file")
    path.write_bytes(whole + b"\0")
    assert_refused(path, "its header describes")


def test_a_flipped_bit_anywhere_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        assert_refused(path)
    path.write_bytes(whole)
    read(path)  # negative control


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x80\x04K\x01.", b'{"a": 1}', b"\x02" + 7 * b"\0" + b"[]", 8 * b"\xff"]
)
def test_a_file_that_is_not_safetensors_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    assert_refused(tmp_path / "x", "not a readable safetensors file")


def test_other_safetensors_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    save_file({"weight": torch.zeros(3)}, path)
    assert_refused(path, "a safetensors file that was not written by ghrr")
    for text in ("[1, 2]", "null", '{"format": "other"}'):
        save_file({"weight": torch.zeros(3)}, path, metadata={"ghrr": text})
        assert_refused(path, "a safetensors file of another kind, got format (None|'other'), expected 'test'")


@pytest.mark.parametrize("version", [0, 3, True, "2", None, 1.0])
def test_unknown_versions_are_refused(version: Any, path: Path) -> None:
    reseal(path)
    read(path)  # negative control: sealing again alone is not noticed
    reseal(path, lambda header: header.update(version=version))
    assert_refused(path, "format version .*, expected at most 2; upgrade ghrr")


def test_a_later_container_version_is_refused(path: Path) -> None:
    metadata, table, data = split(path.read_bytes())
    path.write_bytes(join(metadata | {"container": "3"}, table, data))
    assert_refused(path, "container version .3., expected at most 2")


@pytest.mark.parametrize("name", ["sha256", "digests", "container", "ghrr"])
def test_missing_metadata_is_refused(name: str, path: Path) -> None:
    metadata, table, data = split(path.read_bytes())
    del metadata[name]
    path.write_bytes(join(metadata, table, data))
    assert_refused(path)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "null", "3"])
def test_malicious_headers_are_refused(text: str, path: Path) -> None:
    reseal_text(path, text)
    assert_refused(path)


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"dtype": "F32", "shape": [6, 2], "data_offsets": [0, 48]},  # overlaps another tensor
        {"dtype": "F32", "shape": [7, 2], "data_offsets": [48, 96]},
        {"dtype": "F32", "shape": [-6, -2], "data_offsets": [48, 96]},
        {"dtype": "F32", "shape": [1 << 61, 8], "data_offsets": [48, 96]},
        {"dtype": "F32", "shape": [6, 2], "data_offsets": [48, 96, 96]},
        {"dtype": "F32", "shape": [6, 2], "data_offsets": [96, 48]},
        {"dtype": "F99", "shape": [6, 2], "data_offsets": [48, 96]},
    ],
)
def test_tables_that_contradict_the_file_are_refused(entry: dict[str, Any], path: Path) -> None:
    reseal(path, table={"rows": {"dtype": "F32", "shape": [6, 2], "data_offsets": [48, 96]}})
    read(path)  # negative control
    reseal(path, table={"rows": entry})
    assert_refused(path, "not a readable safetensors file")


# --------------------------------------------------------------------------------------------------------------- chunks


@pytest.fixture
def lazy(path: Path) -> TensorFile:
    return TensorFile(path, kind="test", version=2, lazy=("rows",))


def test_chunks_are_written_like_the_whole_tensor(path: Path, tmp_path: Path) -> None:
    chunked = TENSORS | {"rows": TensorChunks(torch.float32, (6, 2), iter([ROWS[:4], ROWS[4:]]))}
    write_tensors(tmp_path / "chunked", {"note": "ü"}, chunked, kind="test", version=2)
    assert (tmp_path / "chunked").read_bytes() == path.read_bytes()


def test_rows_of_a_lazy_tensor_are_mapped(lazy: TensorFile) -> None:
    assert "rows" not in lazy.tensors
    assert torch.equal(lazy.rows("rows", slice(2, 5)), ROWS[2:5])
    assert [rows for rows, _ in lazy.verified_chunks("rows", [slice(0, 4), slice(4, 6)])] == [slice(0, 4), slice(4, 6)]


def test_damage_of_a_lazy_tensor_is_noticed_when_it_is_verified(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(ROWS.numpy().tobytes())] ^= 1
    path.write_bytes(damaged)
    file = TensorFile(path, kind="test", version=2, lazy=("rows",))
    with pytest.raises(ValueError, match="does not match its checksum"):
        list(file.verified_chunks("rows", [slice(0, 6)]))


def test_an_open_file_stays_readable_when_another_replaces_it(lazy: TensorFile, path: Path) -> None:
    write_tensors(path, {}, {"rows": torch.zeros(6, 2)}, kind="test", version=2)
    assert torch.equal(lazy.rows("rows", slice(0, 6)), ROWS)


def test_an_open_file_that_is_written_to_is_refused(lazy: TensorFile, path: Path) -> None:
    os.truncate(path, 100)
    with pytest.raises(ValueError, match="the open file was changed or closed"):
        lazy.rows("rows", slice(0, 6))


# --------------------------------------------------------------------------------------------------------------- writes


@pytest.mark.parametrize("failure", [OSError("disk full"), ValueError("bad row"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(path: Path, failure: BaseException) -> None:
    before = path.read_bytes()

    def failing() -> Iterator[Tensor]:
        yield ROWS[:4]
        raise failure

    with pytest.raises(type(failure)):
        write_tensors(path, {}, {"rows": TensorChunks(torch.float32, (6, 2), failing())}, kind="test", version=2)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_header_length_limit_is_checked_before_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    monkeypatch.setattr(container, "_MAX_HEADER", length - 1)
    assert_refused(path, "not a readable safetensors file")
    monkeypatch.setattr(container, "_MAX_HEADER", length)
    read(path)  # negative control

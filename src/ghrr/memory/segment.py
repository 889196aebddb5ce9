"""Items in one file that never changes: safetensors, written chunk by chunk, read through a window that moves along.

The file holds ``ids``, ``items``, for int8 ``scales``, and ``labels`` and ``about`` as JSON in bytes; the header names
the space. Two checksums: one of all but the items, checked when the file is opened, and one of the items, checked when
they are all read. A file larger than memory opens at once.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_choice, describe
from ghrr.files import (
    _as_stored,
    _describe_space,
    _rebuild_space,
    atomic_write,
    check_fields,
    check_regular,
    parse_json,
)
from ghrr.memory.storage import DTYPES, Stored, steps
from ghrr.memory.untrusted import UNREADABLE, check_count, reason_of
from ghrr.space import Space

FORMAT = "ghrr-items"
VERSION = 1
_NAMES = {"float32": "F32", "float64": "F64", "bfloat16": "BF16", "float16": "F16", "int8": "I8"}
_ROTATION = "space.rotation"
_LONGEST_HEADER = 1 << 20
_NO_DIGEST = "0" * 64
_DTYPES = {"I64": torch.int64, "F32": torch.float32, "F64": torch.float64}
_HEADER = {"format": str, "version": int, "space": dict, "storage": str, "items": int, "labels": int, "about": int}
_METADATA = {"ghrr": str, "sha256": str, "items_sha256": str}
_TENSOR = {"dtype": str, "shape": list, "data_offsets": list}

Table = dict[str, dict[str, Any]]


def write_segment(
    path: str | os.PathLike[str],
    space: Space,
    storage: str,
    items: dict[str, int],
    read: Callable[[Tensor], Stored],
    *,
    step: int,
    about: dict[str, Any] | None = None,
) -> str:
    """Write items, by label and id, to a file; gives its checksum. Rows are asked for ``step`` at a time."""
    ids = torch.tensor(list(items.values()), dtype=torch.int64)
    labels = json.dumps(list(items)).encode()
    note = b"" if about is None else json.dumps(about).encode()
    rotation = space.rotation if isinstance(space.rotation, Tensor) else None
    text = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "space": _describe_space(space),
            "storage": storage,
            "items": len(items),
            "labels": len(labels),
            "about": len(note),
        },
        sort_keys=True,
    )
    table = _table(space, storage, len(items), len(labels), len(note))
    with atomic_write(path) as temporary, open(temporary, "rb+") as file:
        file.write(_header(text, table, _NO_DIGEST, _NO_DIGEST))
        small, large = hashlib.sha256(text.encode()), hashlib.sha256()
        for tensor in (ids, *([] if rotation is None else [_as_stored(rotation)])):
            _write(file, tensor, small)
        scales = []
        for some in steps(len(items), step):
            stored = read(ids[some])
            _write(file, stored.numbers, large)
            if stored.scales is not None:
                scales.append(stored.scales)
        for tensor in scales:
            _write(file, tensor, small)
        for content in (labels, note):
            file.write(content)
            small.update(content)
        file.seek(0)
        file.write(_header(text, table, small.hexdigest(), large.hexdigest()))
    sync_folder(Path(path).parent)
    return small.hexdigest()


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, as ``fsync`` has the content of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(file: Any, tensor: Tensor, digest: Any) -> None:
    content = _as_bytes(tensor)
    file.write(content)
    digest.update(content)


def _as_bytes(tensor: Tensor) -> Any:
    return tensor.contiguous().view(torch.uint8).numpy().data if tensor.numel() else b""


def _table(space: Space, storage: str, count: int, label_bytes: int, about_bytes: int) -> Table:
    """What the header of a safetensors file says of its tensors."""
    entries: list[tuple[str, str, list[int], int]] = [("ids", "I64", [count], 8)]
    if isinstance(space.rotation, Tensor):
        size = 4 if space.rotation.dtype == torch.complex64 else 8
        entries.append((_ROTATION, f"F{8 * size}", [*space.rotation.shape, 2], size))
    entries.append(("items", _NAMES[storage], [count, 2 * space.total_dim], DTYPES[storage].itemsize))
    if storage == "int8":
        entries.append(("scales", "F32", [count], 4))
    entries += [("labels", "U8", [label_bytes], 1), ("about", "U8", [about_bytes], 1)]
    table, start = {}, 0
    for name, dtype, shape, size in entries:
        end = start + size * math.prod(shape)
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
        start = end
    return table


def _header(text: str, table: Table, small: str, large: str) -> bytes:
    metadata = {"ghrr": text, "sha256": small, "items_sha256": large}
    content = json.dumps({"__metadata__": metadata, **table}).encode()
    content += b" " * (-len(content) % 8)
    return struct.pack("<Q", len(content)) + content


class Segment:
    """A file of items, open for reading. It never changes.

    It stays readable when another file takes its name. A copy in the same process is the same object. A pickled
    segment opens its path again, and raises if another file is there now.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        It is not a file of items, or was cut short or changed since it was written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))  # the folder may be another one when a pickled segment is read
        check_regular(path, "ItemMemory")
        self._file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        weakref.finalize(self, os.close, self._file)
        try:
            self._identity = _identity(self._file)
            self._parse()
        except (*UNREADABLE, OSError) as error:
            raise ValueError(f"ItemMemory: {str(path)!r}: {reason_of(error)}") from error
        self._finite = 0  # number of leading rows that were checked to be finite

    def __copy__(self) -> Segment:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Segment:
        return self

    def __reduce__(self) -> tuple[Callable[[str, str, str], Segment], tuple[str, str, str]]:
        return _reopen, (str(self.path), self.checksum, self._items_checksum)

    def _parse(self) -> None:
        metadata = self._read_header()
        stored = parse_json(metadata["ghrr"], "header")
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise ValueError("a safetensors file, but not one that ItemMemory wrote")
        if stored.get("version") != VERSION:
            raise ValueError(
                f"format version {stored.get('version')!r}, this ghrr reads {VERSION}; use the version that wrote it"
            )
        check_fields("header", stored, _HEADER)
        for name in ("items", "labels", "about"):
            check_count(name, stored[name])
        check_choice("header", "storage", stored["storage"], tuple(DTYPES))
        self.count, self.storage = int(stored["items"]), str(stored["storage"])
        self.checksum, self._items_checksum = metadata["sha256"], metadata["items_sha256"]
        rotation = {_ROTATION: self._tensor(_ROTATION)} if _ROTATION in self._table else {}
        self.space = _rebuild_space(stored["space"], rotation)
        if self._table != _table(self.space, self.storage, self.count, stored["labels"], stored["about"]):
            raise ValueError("the list of its tensors does not fit the space and number of its items")
        small = hashlib.sha256(metadata["ghrr"].encode())
        for name in self._table:
            if name != "items":
                small.update(self._bytes_of(name))
        if small.hexdigest() != self.checksum:
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        self.ids = self._tensor("ids")
        self.labels: list[str] = parse_json(bytes(self._bytes_of("labels")), "labels")
        self.about: dict[str, Any] | None = parse_json(bytes(self._bytes_of("about")) or b"null", "about")
        self._scales = self._tensor("scales") if self.storage == "int8" else None
        self._check_content()

    def _check_content(self) -> None:
        """Raise for content that fits its checksum but that no memory writes."""
        if not isinstance(self.labels, list) or not all(isinstance(label, str) for label in self.labels):
            raise ValueError("labels must be a list of strings")
        "".join(self.labels).encode()  # raises for text that is no Unicode
        if len(self.labels) != self.count or len(set(self.labels)) != self.count:
            raise ValueError(f"needs {self.count} different labels, got {len(self.labels)}, some of which may repeat")
        if self.count and (int(self.ids[0]) < 0 or bool((self.ids[1:] <= self.ids[:-1]).any())):
            raise ValueError("ids must be at least 0 and ascend")
        if not isinstance(self.about, dict | None):
            raise ValueError(f"about must be an object, got {describe(self.about)}")
        if self._scales is not None and not bool((torch.isfinite(self._scales) & (self._scales >= 0)).all()):
            raise ValueError("scales must be finite and at least 0")

    def _read_header(self) -> dict[str, Any]:
        """Return the metadata; the list of tensors, all of which lie inside the file, becomes ``_table``."""
        size = self._identity[2]
        start = os.pread(self._file, 8, 0)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            raise ValueError("not a file of items: cut short, or of another kind")
        self._start = 8 + length
        try:
            self._table: Table = parse_json(os.pread(self._file, length, 8), "header")
            metadata = self._table.pop("__metadata__", None)
            for name, entry in self._table.items():
                first, last = check_fields(name, entry, _TENSOR)["data_offsets"]
                check_count(f"{name}: data_offsets", first)
                check_count(f"{name}: data_offsets", last)
                if first > last:
                    raise ValueError(f"{name}: data_offsets must ascend, got {first} and {last}")
        except UNREADABLE as error:
            raise ValueError(f"not a file of items: cut short, or of another kind ({reason_of(error)})") from error
        end = self._start + max((entry["data_offsets"][1] for entry in self._table.values()), default=0)
        if end != size:
            raise ValueError(f"cut short: its header asks for {end} bytes, there are {size}")
        if not isinstance(metadata, dict) or metadata.keys() != _METADATA.keys():
            raise ValueError("a safetensors file, but not one that ItemMemory wrote")
        return check_fields("metadata", metadata, _METADATA)

    def _bytes_of(self, name: str) -> bytearray:
        first, last = self._table[name]["data_offsets"]
        content = bytearray(last - first)
        done = 0
        while done < len(content):  # the system reads 2 GiB at a time at most
            read = os.preadv(self._file, [memoryview(content)[done:]], self._start + first + done)
            if not read:
                raise ValueError("cut short while it was read")
            done += read
        return content

    def _tensor(self, name: str) -> Tensor:
        entry = self._table[name]
        content, dtype = self._bytes_of(name), _DTYPES[entry["dtype"]]
        return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).view(entry["shape"])

    def read(self, places: slice | Tensor) -> Stored:
        """Some rows as they are kept: those of a slice as a view into the file, others as a copy."""
        if isinstance(places, slice):
            stored = self._window(places)
            if places.stop > self._finite:
                self._check_finite(stored)
                self._finite = places.stop if places.start <= self._finite else self._finite
            return stored
        first, last = int(places.min()), int(places.max()) + 1
        if last - first <= 2 * len(places):
            stored = self._window(slice(first, last)).take(places - first)
        else:
            rows = [self._window(slice(place, place + 1)).numbers.clone() for place in places.tolist()]
            stored = Stored(torch.cat(rows), None if self._scales is None else self._scales[places])
        self._check_finite(stored)
        return stored

    def _check_finite(self, stored: Stored) -> None:
        if not torch.isfinite(stored.numbers).all():
            raise ValueError(
                f"ItemMemory: {str(self.path)!r}: holds NaN or infinity, which ItemMemory does not write: the file was "
                f"damaged or changed"
            )

    def _window(self, some: slice) -> Stored:
        self._check_unchanged()
        width, dtype = 2 * self.space.total_dim, DTYPES[self.storage]
        start = self._start + self._table["items"]["data_offsets"][0] + some.start * width * dtype.itemsize
        offset = start - start % mmap.ALLOCATIONGRANULARITY
        numbers = (some.stop - some.start) * width
        length = start - offset + numbers * dtype.itemsize
        # A copy-on-write mapping, since torch warns of memory that is read-only. It goes when the tensor goes.
        view = mmap.mmap(self._file, length, access=mmap.ACCESS_COPY, offset=offset)
        rows = torch.frombuffer(view, dtype=dtype, count=numbers, offset=start - offset).view(-1, width)
        return Stored(rows, None if self._scales is None else self._scales[some])

    def _check_unchanged(self) -> None:
        """Raise if the open file is not the one that was checked, or was written to since: reading it may crash."""
        try:
            unchanged = _identity(self._file) == self._identity
        except OSError:
            unchanged = False
        if not unchanged:
            raise ValueError(
                f"ItemMemory: {str(self.path)!r} was written to or closed by other code since it was opened; open the "
                f"memory again. ItemMemory.save and ItemMemory.commit replace files and are safe"
            )

    def chunks(self, step: int) -> Iterator[tuple[Tensor, Stored]]:
        """All rows with their ids, ``step`` at a time; raises at the end if they do not match their checksum."""
        digest = hashlib.sha256()
        for some in steps(self.count, step):
            stored = self._window(some)
            digest.update(_as_bytes(stored.numbers))
            self._check_finite(stored)
            yield self.ids[some], stored
        if digest.hexdigest() != self._items_checksum:
            raise ValueError(
                f"ItemMemory: {str(self.path)!r}: items do not match their checksum: the file was damaged or changed"
            )


def _identity(file: int) -> tuple[int, int, int, int]:
    """What stays the same as long as an open file is one and the same and nobody writes to it."""
    status = os.fstat(file)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _reopen(path: str, checksum: str, items_checksum: str) -> Segment:
    """Open the file of a pickled segment."""
    try:
        segment = Segment(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"ItemMemory: {path!r}: no such file; a pickled memory that was opened from a file reads that file again"
        ) from None
    if (segment.checksum, segment._items_checksum) != (checksum, items_checksum):
        raise ValueError(
            f"ItemMemory: {path!r} holds other items than when the memory was pickled: the file was replaced. Open the "
            f"memory again"
        )
    return segment


def same_kind(segments: Sequence[Segment]) -> None:
    """Raise unless these files are of one space and one storage."""
    for other in segments[1:]:
        if other.space != segments[0].space or other.storage != segments[0].storage:
            raise ValueError(
                f"ItemMemory: {str(other.path)!r} holds {other.storage} items of {other.space}, but "
                f"{str(segments[0].path)!r} {segments[0].storage} items of {segments[0].space}"
            )

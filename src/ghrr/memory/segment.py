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

from ghrr.files import _as_stored, _describe_space, _rebuild_space, atomic_write
from ghrr.memory.storage import DTYPES, Stored, steps
from ghrr.space import Space

FORMAT = "ghrr-items"
VERSION = 1
_NAMES = {"float32": "F32", "float64": "F64", "bfloat16": "BF16", "float16": "F16", "int8": "I8"}
_ROTATION = "space.rotation"
_LONGEST_HEADER = 1 << 20
_NO_DIGEST = "0" * 64
# What parsing a file can raise that is damaged, or was made to do harm.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError, OverflowError)

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
    """A file of items, open for reading. It stays readable when another file takes its name.

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
        self.path = Path(path)
        try:
            self._file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise FileNotFoundError(f"ItemMemory: {str(path)!r}: no such file") from None
        weakref.finalize(self, os.close, self._file)
        try:
            self._parse()
        except (*UNREADABLE, OSError) as error:
            reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
            raise ValueError(f"ItemMemory: {str(path)!r}: {reason:.500}") from error
        self.alive = torch.ones(self.count, dtype=torch.bool)
        self.dead = 0

    def _parse(self) -> None:
        header = self._read_header()
        metadata = header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or "ghrr" not in metadata:
            raise ValueError("a safetensors file, but not one that ItemMemory wrote")
        stored = json.loads(metadata["ghrr"])
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise ValueError("a safetensors file, but not one that ItemMemory wrote")
        if stored.get("version") != VERSION:
            raise ValueError(
                f"format version {stored.get('version')!r}, this ghrr reads {VERSION}; use the version that wrote it"
            )
        self.count, self.storage = int(stored["items"]), str(stored["storage"])
        self.checksum, self._items_checksum = str(metadata["sha256"]), str(metadata["items_sha256"])
        self._table = header
        small = hashlib.sha256(metadata["ghrr"].encode())
        parts = {name: self._bytes_of(name) for name in header if name != "items"}
        for content in parts.values():
            small.update(content)
        if small.hexdigest() != self.checksum:
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        rotation = {_ROTATION: self._tensor(_ROTATION)} if _ROTATION in header else {}
        self.space = _rebuild_space(stored["space"], rotation)
        if header != _table(self.space, self.storage, self.count, int(stored["labels"]), int(stored["about"])):
            raise ValueError("the list of its tensors does not fit the space and number of its items")
        self.ids = self._tensor("ids")
        self.labels: list[str] = json.loads(parts["labels"])
        self.about: dict[str, Any] | None = json.loads(parts["about"]) if parts["about"] else None
        self._scales = self._tensor("scales") if self.storage == "int8" else None
        if len(self.labels) != self.count or bool((self.ids.diff() <= 0).any()):
            raise ValueError(f"holds {self.count} items but {len(self.labels)} labels, or ids that do not ascend")

    def _read_header(self) -> dict[str, Any]:
        size = os.fstat(self._file).st_size
        start = os.pread(self._file, 8, 0)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
            raise ValueError("not a file of items: cut short, or of another kind")
        try:
            header = json.loads(os.pread(self._file, length, 8))
            spans = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
            end = 8 + length + max(end for _, end in spans)
            if not all(0 <= first <= last for first, last in spans):
                raise ValueError(f"offsets {spans}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError("not a file of items: cut short, or of another kind") from error
        if end != size:
            raise ValueError(f"cut short: its header asks for {end} bytes, there are {size}")
        self._start = 8 + length
        return dict(header)

    def _bytes_of(self, name: str) -> bytes:
        start, end = self._table[name]["data_offsets"]
        return os.pread(self._file, end - start, self._start + start)

    def _tensor(self, name: str) -> Tensor:
        entry = self._table[name]
        dtype = {"I64": torch.int64, "F32": torch.float32, "F64": torch.float64}[entry["dtype"]]
        content = bytearray(self._bytes_of(name))
        return (torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)).view(entry["shape"])

    def remove(self, places: Tensor) -> None:
        """Leave out rows from now on; the file stays as it is."""
        self.alive[places] = False
        self.dead += len(places)

    def read(self, places: slice | Tensor) -> Stored:
        """Some rows as they are kept: those of a slice as a view into the file, others as a copy."""
        if isinstance(places, slice):
            return self._window(places)
        first, last = int(places.min()), int(places.max()) + 1
        if last - first <= 2 * len(places):
            return self._window(slice(first, last)).take(places - first)
        rows = [self._window(slice(place, place + 1)).numbers.clone() for place in places.tolist()]
        return Stored(torch.cat(rows), None if self._scales is None else self._scales[places])

    def _window(self, some: slice) -> Stored:
        width, dtype = 2 * self.space.total_dim, DTYPES[self.storage]
        start = self._start + self._table["items"]["data_offsets"][0] + some.start * width * dtype.itemsize
        offset = start - start % mmap.ALLOCATIONGRANULARITY
        numbers = (some.stop - some.start) * width
        length = start - offset + numbers * dtype.itemsize
        # A copy-on-write mapping, since torch warns of memory that is read-only. It goes when the tensor goes.
        view = mmap.mmap(self._file, length, access=mmap.ACCESS_COPY, offset=offset)
        rows = torch.frombuffer(view, dtype=dtype, count=numbers, offset=start - offset).view(-1, width)
        return Stored(rows, None if self._scales is None else self._scales[some])

    def chunks(self, step: int) -> Iterator[tuple[Tensor, Stored]]:
        """All rows with their ids, ``step`` at a time; raises at the end if they do not match their checksum."""
        digest = hashlib.sha256()
        for some in steps(self.count, step):
            stored = self._window(some)
            digest.update(_as_bytes(stored.numbers))
            yield self.ids[some], stored
        if digest.hexdigest() != self._items_checksum:
            raise ValueError(
                f"ItemMemory: {str(self.path)!r}: items do not match their checksum: the file was damaged or changed"
            )


def same_kind(segments: Sequence[Segment]) -> None:
    """Raise unless these files are of one space and one storage."""
    for other in segments[1:]:
        if other.space != segments[0].space or other.storage != segments[0].storage:
            raise ValueError(
                f"ItemMemory: {str(other.path)!r} holds {other.storage} items of {other.space}, but "
                f"{str(segments[0].path)!r} {segments[0].storage} items of {segments[0].space}"
            )

"""Container: tensors and a JSON header in one safetensors file, with checksums, written atomically.

All tensors that the library writes are in such files: hypervectors, structures, item memories and checkpoints. Any
safetensors reader can read the tensors. The metadata of the safetensors header has four entries:

==============  =====================================================================
``ghrr``        JSON object with the ``format`` and ``version`` of the content
``container``   version of this layout: ``"2"``
``digests``     JSON object with the SHA-256 of the bytes of each tensor
``sha256``      SHA-256 of the two JSON texts and of the names, dtypes, shapes and offsets
==============  =====================================================================

A tensor can be larger than memory: :class:`TensorChunks` are written chunk by chunk, and a tensor that is opened as
``lazy`` is mapped from the file chunk by chunk. Files of version 0.1 have no ``container`` entry; the end of this
module checks them.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import value_error, without_name
from ghrr.files.filesystem import PathLike, atomic_write, check_regular
from ghrr.files.json_files import check_count, check_fields, parse_json

_CONTAINER = "2"
_MAX_HEADER = 100_000_000  # bytes, the limit of the safetensors library
_NO_DIGEST = "0" * 64
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "C64": torch.complex64,
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_ENTRY = {"dtype": str, "shape": list, "data_offsets": list}
_UNREADABLE = "not a readable safetensors file; it is truncated or has another format"
_DAMAGED = "the content does not match its checksum; the file was damaged or changed"
# Errors that parsing a damaged or malicious file can raise.
_PARSE_ERRORS = (LookupError, ValueError, TypeError, AttributeError, RuntimeError, OverflowError, MemoryError)

Table = dict[str, dict[str, Any]]


@contextmanager
def prefix_errors(path: PathLike) -> Iterator[None]:
    """Convert every error that damaged content can cause to a ValueError that names the file."""
    try:
        yield
    except _PARSE_ERRORS as error:
        reason = without_name(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
        raise value_error(f"{reason:.500}", path=path) from error


# -------------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True)
class TensorChunks:
    """Tensor that is written chunk by chunk, because it may not fit into memory.

    Parameters
    ----------
    dtype, shape
        Of the whole tensor.
    chunks
        Consecutive parts along the first axis. They are requested when the tensors before this one are written.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    chunks: Iterable[Tensor]


def write_tensors(
    path: PathLike,
    header: Mapping[str, Any],
    tensors: Mapping[str, Tensor | TensorChunks],
    *,
    kind: str,
    version: int,
    follow_links: bool = True,
) -> str:
    """Write tensors and a header to a container, atomically, and return its checksum.

    Parameters
    ----------
    path
        File to write.
    header
        JSON data.
    tensors
        Tensors by name, written in this order. Other readers need aligned data: put wider dtypes first.
    kind, version
        Format of the content. :class:`TensorFile` refuses another kind or a later version.
    follow_links
        As in :func:`ghrr.files.atomic_write`.
    """
    text = json.dumps({"format": kind, "version": version, **header}, sort_keys=True)
    table = _make_table(tensors)
    digests = dict.fromkeys(tensors, _NO_DIGEST)
    with atomic_write(path, follow_links=follow_links) as temporary, open(temporary, "rb+") as file:
        file.write(_encode(_metadata(text, digests, table), table))
        for name, tensor in tensors.items():
            digest = hashlib.sha256()
            for chunk in tensor.chunks if isinstance(tensor, TensorChunks) else (tensor,):
                content = _bytes_of(chunk)
                file.write(content)
                digest.update(content)
            digests[name] = digest.hexdigest()
        metadata = _metadata(text, digests, table)
        file.seek(0)
        file.write(_encode(metadata, table))  # as long as before: digests have a fixed length
    return metadata["sha256"]


def _make_table(tensors: Mapping[str, Tensor | TensorChunks]) -> Table:
    """Return the list of tensors in the safetensors header."""
    table, start = {}, 0
    for name, tensor in tensors.items():
        end = start + tensor.dtype.itemsize * math.prod(tensor.shape)
        table[name] = {"dtype": _CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    return table


def _metadata(text: str, digests: dict[str, str], table: Table) -> dict[str, str]:
    listed = json.dumps(digests, sort_keys=True)
    return {"ghrr": text, "container": _CONTAINER, "digests": listed, "sha256": _checksum(text, listed, table)}


def _checksum(text: str, digests: str, table: Table) -> str:
    return hashlib.sha256("\n".join([text, digests, json.dumps(table, sort_keys=True)]).encode()).hexdigest()


def _encode(metadata: Mapping[str, str], table: Table) -> bytes:
    content = json.dumps({"__metadata__": metadata, **table}).encode()
    content += b" " * (-len(content) % 8)
    if len(content) > _MAX_HEADER:
        raise ValueError(
            f"cannot write a file whose header has {len(content):,} bytes, expected at most {_MAX_HEADER:,}; "
            f"use fewer or shorter names"
        )
    return struct.pack("<Q", len(content)) + content


def _bytes_of(tensor: Tensor) -> Any:
    """Return the bytes of a tensor as a buffer, without a copy where possible."""
    rows = tensor.detach().cpu().resolve_conj().contiguous().reshape(-1)
    return rows.view(torch.uint8).numpy().data if len(rows) else b""


# -------------------------------------------------------------------------------------------------------------- reading


def read_tensors(path: PathLike, *, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the header and all tensors of a container; see :class:`TensorFile` for parameters and errors."""
    file = TensorFile(path, kind=kind, version=version)
    file.close()
    return file.header, file.tensors


class TensorFile:
    """An open container whose header and tensors were checked. The file must not change while it is open.

    Parameters
    ----------
    path
        File to open.
    kind, version
        Expected format of the content, and its latest version that the caller can read.
    lazy
        Tensors to leave in the file. :meth:`rows` maps a part of them; only :meth:`verified_chunks` compares them with
        their checksum.

    Attributes
    ----------
    header
        The JSON object.
    tensors
        Tensors by name, except lazy ones.
    checksum
        Checksum that identifies the content.

    Raises
    ------
    OSError
        There is no such file, or it is not a regular file.
    ValueError
        The file is damaged, truncated, or has another format.
    """

    def __init__(self, path: PathLike, *, kind: str, version: int, lazy: Collection[str] = ()) -> None:
        check_regular(path)
        self.path = Path(os.path.abspath(path))
        self._given_path = path
        self._handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        self.close = weakref.finalize(self, os.close, self._handle)
        self._identity = _identity(self._handle)
        with prefix_errors(path):
            metadata = self._read_table()
            text = metadata["ghrr"]
            self.header = _parse_header(text, kind, version)
            self.tensors = {name: self._read(name) for name in self._table if name not in lazy}
            self.checksum = metadata.get("sha256", "")
            if "container" not in metadata:
                self._digests = _check_version_0_1(kind, metadata, self.tensors)
            else:
                self._digests = self._check_digests(metadata)

    @property
    def shapes(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Dtype and shape of every tensor."""
        return {name: (_DTYPES[entry["dtype"]], tuple(entry["shape"])) for name, entry in self._table.items()}

    @property
    def identity(self) -> tuple[str, dict[str, str]]:
        """Checksums that differ for files of different content."""
        return self.checksum, self._digests

    def _read_table(self) -> dict[str, str]:
        """Read the safetensors header, check that its tensors fill the file exactly, and return the metadata."""
        size = self._identity[2]
        start = os.pread(self._handle, 8, 0)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(size - 8, _MAX_HEADER):
            raise ValueError(f"{_UNREADABLE} (header of {length:,} bytes in a file of {size:,})")
        self._start = 8 + length
        try:
            table = parse_json(os.pread(self._handle, length, 8), "header")
            metadata = table.pop("__metadata__", {})
            end = 0
            for name, entry in sorted(table.items(), key=lambda item: item[1]["data_offsets"]):
                end = _check_entry(name, entry, end)
        except _PARSE_ERRORS as error:
            raise ValueError(f"{_UNREADABLE} ({error!s:.200})") from error
        if self._start + end != size:
            raise ValueError(f"{_UNREADABLE} (its header describes {self._start + end:,} bytes, it has {size:,})")
        if not isinstance(metadata, dict) or "ghrr" not in metadata:
            raise ValueError("a safetensors file that was not written by ghrr")
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("the metadata must be strings")
        self._table: Table = table
        return metadata

    def _check_digests(self, metadata: Mapping[str, str]) -> dict[str, str]:
        if metadata["container"] != _CONTAINER:
            raise ValueError(
                f"container version {metadata['container']!r:.80}, expected at most {_CONTAINER}; upgrade ghrr"
            )
        if self.checksum != _checksum(metadata["ghrr"], metadata["digests"], self._table):
            raise ValueError(_DAMAGED)
        digests: dict[str, str] = check_fields(
            "digests", parse_json(metadata["digests"], "digests"), dict.fromkeys(self._table, str)
        )
        for name, tensor in self.tensors.items():
            if hashlib.sha256(_bytes_of(tensor)).hexdigest() != digests[name]:
                raise ValueError(_DAMAGED)
        return digests

    def _read(self, name: str) -> Tensor:
        first, last = self._table[name]["data_offsets"]
        try:
            content = torch.empty(last - first, dtype=torch.uint8)
        except (RuntimeError, MemoryError):
            raise ValueError(f"{name} has {last - first:,} bytes, which do not fit into memory") from None
        buffer, done = content.numpy().data, 0
        while done < len(buffer):  # the system reads at most 2 GiB at a time
            count = os.preadv(self._handle, [buffer[done:]], self._start + first + done)
            if not count:
                raise ValueError("the file was truncated while it was read")
            done += count
        dtype, shape = self.shapes[name]
        return content.view(dtype).view(shape)

    def rows(self, name: str, rows: slice) -> Tensor:
        """Map consecutive rows of a lazy tensor from the file. The tensor is a view; do not write to it.

        Raises
        ------
        ValueError
            The file was written to since it was opened. Reading a mapped file that shrank would crash the process.
        """
        self._check_unchanged()
        dtype, (_, *shape) = self.shapes[name]
        row_bytes = dtype.itemsize * math.prod(shape)
        start = self._start + self._table[name]["data_offsets"][0] + rows.start * row_bytes
        offset = start - start % mmap.ALLOCATIONGRANULARITY
        count = (rows.stop - rows.start) * math.prod(shape)
        # Copy-on-write, since torch warns about read-only memory. The tensor keeps the mapping alive.
        view = mmap.mmap(self._handle, start - offset + count * dtype.itemsize, access=mmap.ACCESS_COPY, offset=offset)
        return torch.frombuffer(view, dtype=dtype, count=count, offset=start - offset).view(-1, *shape)

    def verified_chunks(self, name: str, slices: Iterable[slice]) -> Iterator[tuple[slice, Tensor]]:
        """Map a lazy tensor slice by slice; after the last slice, raise ValueError if the checksum does not match."""
        digest = hashlib.sha256()
        for rows in slices:
            chunk = self.rows(name, rows)
            digest.update(_bytes_of(chunk))
            yield rows, chunk
        if digest.hexdigest() != self._digests[name]:
            raise value_error(_DAMAGED, path=self._given_path)

    def _check_unchanged(self) -> None:
        try:
            unchanged = _identity(self._handle) == self._identity
        except OSError:
            unchanged = False
        if not unchanged:
            raise value_error(
                "the open file was changed or closed by other code; open it again. ghrr itself replaces files and "
                "never changes them",
                path=self._given_path,
            )


def _parse_header(text: str, kind: str, version: int) -> dict[str, Any]:
    header = parse_json(text, "header")
    found = header.get("format") if isinstance(header, dict) else None
    if found != kind:
        raise ValueError(f"a safetensors file of another kind, got format {found!r:.80}, expected {kind!r}")
    if type(header.get("version")) is not int or not 1 <= header["version"] <= version:
        raise ValueError(f"format version {header.get('version')!r:.80}, expected at most {version}; upgrade ghrr")
    assert isinstance(header, dict)
    return header


def _check_entry(name: str, entry: Any, start: int) -> int:
    """Check that a tensor begins at ``start`` and has the length that its shape implies; return its end."""
    check_fields(name, entry, _ENTRY)
    for value in (*entry["shape"], *entry["data_offsets"]):
        check_count(name, value)
    first, last = entry["data_offsets"]
    if first != start or last - first != _DTYPES[entry["dtype"]].itemsize * math.prod(entry["shape"]):
        raise ValueError(f"{name}: the data offsets do not fit the shape or the other tensors")
    return int(last)


def _identity(handle: int) -> tuple[int, int, int, int]:
    """Return values that change when the handle is reused for another file, or the file is written to."""
    status = os.fstat(handle)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


# ------------------------------------------------------------------------------------------------ files of version 0.1


def _check_version_0_1(kind: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Compare a file of version 0.1 with its checksum; return the digests of lazy tensors.

    The checksum depended on the kind of file. That of item memories covers the bytes in the order of the file, without
    ``items``, which had a separate one. That of checkpoints and other files covers names, dtypes, shapes and bytes,
    sorted by name, with different separators.
    """
    digest = hashlib.sha256(metadata["ghrr"].encode())
    is_memory = kind == "ghrr-items"
    frame = "{}" if kind == "ghrr-lm-checkpoint" else "\n{}\n"
    for name in tensors if is_memory else sorted(tensors):
        tensor = tensors[name]
        if not is_memory:
            digest.update(frame.format(f"{name} {tensor.dtype} {tuple(tensor.shape)}").encode())
        digest.update(_bytes_of(tensor))
    if digest.hexdigest() != metadata.get("sha256"):
        raise ValueError(_DAMAGED)
    return {"items": metadata["items_sha256"]} if is_memory else {}

"""Segment: a file of labelled items that never changes, written and read chunk by chunk.

The file is a container (:mod:`ghrr.files.container`) with the tensors ``ids``, ``items``, ``scales`` for int8, and
``labels`` and ``about`` as JSON in bytes. Opening it reads everything but ``items``, which may be larger than memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_choice, describe, named, value_error
from ghrr.files import (
    PathLike,
    TensorChunks,
    TensorFile,
    check_fields,
    parse_json,
    prefix_errors,
    restore_space,
    space_header,
    sync_folder,
    write_tensors,
)
from ghrr.memory.storage import DTYPES, Stored, chunks
from ghrr.space import Space

FORMAT = "ghrr-items"
VERSION = 2
_HEADER = {"space": dict, "storage": str}


def write_segment(
    path: PathLike,
    space: Space,
    storage: str,
    items: dict[str, int],
    read: Callable[[Tensor], Stored],
    *,
    chunk_rows: int,
    about: dict[str, Any] | None = None,
) -> str:
    """Write items to a file and return its checksum.

    Parameters
    ----------
    path
        File to write.
    space, storage
        Of the items.
    items
        Ids by label, ascending.
    read
        Returns the rows of ids; called with ``chunk_rows`` ids at a time.
    about
        JSON object to store with the items.
    """
    ids = torch.tensor(list(items.values()), dtype=torch.int64)
    settings, rotation = space_header(space)
    scales: list[Tensor] = []

    def rows() -> Iterator[Tensor]:
        for chunk in chunks(len(ids), chunk_rows):
            stored = read(ids[chunk])
            if stored.scales is not None:
                scales.append(stored.scales)
            yield stored.numbers

    tensors: dict[str, Tensor | TensorChunks] = {"ids": ids, **rotation}
    tensors["items"] = TensorChunks(DTYPES[storage], (len(ids), 2 * space.total_dim), rows())
    if storage == "int8":
        tensors["scales"] = TensorChunks(torch.float32, (len(ids),), scales)  # complete when the items are written
    tensors["labels"] = _json_bytes(list(items))
    tensors["about"] = _json_bytes(about)
    checksum = write_tensors(path, {"space": settings, "storage": storage}, tensors, kind=FORMAT, version=VERSION)
    sync_folder(Path(path).parent)
    return checksum


class Segment:
    """Open file of items. It never changes.

    The segment stays readable if another file replaces it on disk. A copy in the same process is the same object. A
    pickled segment opens its path again, and raises if another file is there.

    Parameters
    ----------
    path
        File to open.

    Attributes
    ----------
    ids, labels, count
        Ids in ascending order, their labels, and their number.
    space, storage, about
        As given to :func:`write_segment`.
    checksum
        Identifies the content.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file does not hold items, or it was truncated or changed.
    """

    def __init__(self, path: PathLike) -> None:
        self._file = TensorFile(path, kind=FORMAT, version=VERSION, lazy=("items",))
        self.path, self.checksum = self._file.path, self._file.checksum
        with prefix_errors(self.path):
            self._parse(self._file.header, self._file.tensors)
        self._finite_rows = 0  # number of leading rows that were checked to be finite

    def __copy__(self) -> Segment:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Segment:
        return self

    def __reduce__(self) -> tuple[Callable[[str, Any], Segment], tuple[str, Any]]:
        return _reopen, (str(self.path), self._file.identity)

    def _parse(self, header: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        check_fields("header", header, _HEADER)
        check_choice("storage of the header", header["storage"], tuple(DTYPES))
        self.storage = str(header["storage"])
        self.space = restore_space(header["space"], tensors)
        self.ids, self._scales = tensors["ids"], tensors.get("scales")
        self.count = len(self.ids)
        expected = {
            "ids": (torch.int64, (self.count,)),
            **{name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in space_header(self.space)[1].items()},
            "items": (DTYPES[self.storage], (self.count, 2 * self.space.total_dim)),
            **({"scales": (torch.float32, (self.count,))} if self.storage == "int8" else {}),
            **{name: (torch.uint8, (len(tensors[name]),)) for name in ("labels", "about")},
        }
        if self._file.shapes != expected:
            raise ValueError("the tensors do not fit the space and the number of items")
        self.labels: list[str] = parse_json(bytes(tensors["labels"].numpy()), "labels")
        self.about: dict[str, Any] | None = parse_json(bytes(tensors["about"].numpy()) or b"null", "about")
        self._check_content()

    def _check_content(self) -> None:
        """Raise for content that matches its checksum but was not written by :func:`write_segment`."""
        if not isinstance(self.labels, list) or not all(isinstance(label, str) for label in self.labels):
            raise ValueError("labels must be a list of strings")
        "".join(self.labels).encode()  # raises for lone surrogates
        if len(self.labels) != self.count or len(set(self.labels)) != self.count:
            raise ValueError(f"expected {self.count} different labels, got {len(set(self.labels))}")
        if self.count and (int(self.ids[0]) < 0 or bool((self.ids[1:] <= self.ids[:-1]).any())):
            raise ValueError("ids must be non-negative and ascending")
        if not isinstance(self.about, dict | None):
            raise ValueError(f"about must be an object, got {describe(self.about)}")
        if self._scales is not None and not bool((torch.isfinite(self._scales) & (self._scales >= 0)).all()):
            raise ValueError("scales must be finite and non-negative")

    def read(self, indices: slice | Tensor) -> Stored:
        """Return rows as they are stored: a view into the file for a slice, otherwise a copy."""
        if isinstance(indices, slice):
            stored = self._rows(indices)
            if indices.stop > self._finite_rows:
                self._check_finite(stored.numbers)
                self._finite_rows = indices.stop if indices.start <= self._finite_rows else self._finite_rows
            return stored
        first, last = int(indices.min()), int(indices.max()) + 1
        if last - first <= 2 * len(indices):
            stored = self._rows(slice(first, last)).take(indices - first)
        else:
            rows = [self._rows(slice(index, index + 1)).numbers.clone() for index in indices.tolist()]
            stored = Stored(torch.cat(rows), None if self._scales is None else self._scales[indices])
        self._check_finite(stored.numbers)
        return stored

    def _rows(self, rows: slice) -> Stored:
        return Stored(self._file.rows("items", rows), None if self._scales is None else self._scales[rows])

    def _check_finite(self, numbers: Tensor) -> None:
        if not torch.isfinite(numbers).all():
            raise value_error("items must be finite, got NaN or infinity; the file was changed", path=self.path)

    def verified_chunks(self, chunk_rows: int) -> Iterator[tuple[Tensor, Stored]]:
        """Yield ids and rows in chunks; after the last one, raise ValueError if the checksum does not match."""
        for rows, numbers in self._file.verified_chunks("items", chunks(self.count, chunk_rows)):
            self._check_finite(numbers)
            yield self.ids[rows], Stored(numbers, None if self._scales is None else self._scales[rows])


def check_same_kind(segments: Sequence[Segment]) -> None:
    """Raise ValueError unless all files have the same space and storage."""
    for other in segments[1:]:
        if other.space != segments[0].space or other.storage != segments[0].storage:
            raise value_error(
                f"{str(other.path)!r} holds {other.storage} items of {other.space}, but "
                f"{str(segments[0].path)!r} holds {segments[0].storage} items of {segments[0].space}"
            )


def _json_bytes(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _reopen(path: str, identity: Any) -> Segment:
    """Open the file of a pickled segment again."""
    try:
        segment = Segment(path)
    except FileNotFoundError:
        raise FileNotFoundError(
            named("no such file; a pickled memory that was opened from a file needs that file", path=path)
        ) from None
    if segment._file.identity != identity:
        raise value_error("the file was replaced since the memory was pickled; open the memory again", path=path)
    return segment

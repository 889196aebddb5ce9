"""Persistence of an item memory: one file for everything, or a folder to which changes are committed."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ghrr.checks import describe, type_error, value_error
from ghrr.files import PathLike, lock_folder, parse_json
from ghrr.memory.backends import Backend, has_snapshots
from ghrr.memory.folder import (
    Manifest,
    open_entry,
    open_segments,
    read_labels,
    read_manifest,
    read_rows,
    write_manifest,
    write_new_items,
)
from ghrr.memory.items import Items
from ghrr.memory.search import rows_per_chunk
from ghrr.memory.segment import Segment, write_segment
from ghrr.memory.state import CommitPoint, State
from ghrr.memory.storage import pack, unpack
from ghrr.space import Space

# -------------------------------------------------------------------------------------------------------------- writing


def write_items(path: PathLike, state: State, items: dict[str, int], about: dict[str, Any] | None) -> str:
    """Write items, ids by label, to a file and return its checksum."""
    space, backend = state.space, state.backend
    chunk_rows = rows_per_chunk(2 * space.total_dim)
    return write_segment(path, space, backend.storage, items, backend.stored, chunk_rows=chunk_rows, about=about)


def commit(items: Items, folder: PathLike | None, about: dict[str, Any] | None) -> None:
    """Write the changes since the last commit to a folder, by default that of the last commit.

    A new segment is written first. The changes take effect with the manifest.
    """
    with items.lock:
        path = items.state.commit.folder if folder is None else _real_path(folder)
        if path is None:
            raise value_error("the first commit needs a folder, got none")
        path.mkdir(parents=True, exist_ok=True)
        with lock_folder(path):
            found = read_manifest(path)
            if found is not None and (path, found) == items.last_attempt[:2]:
                # The last commit was interrupted after it took effect on disk.
                items.state = items.state._replace(commit=items.last_attempt)
            state = items.state
            point = _write_changes(path, found, state, about)
            if point is not None:
                items.last_attempt = point
                write_manifest(path, point.manifest)
                items.state = state._replace(commit=point, backend=_reopened(state.backend, point))


def _write_changes(
    folder: Path, found: Manifest | None, state: State, about: dict[str, Any] | None
) -> CommitPoint | None:
    """Write what changed to a folder with the manifest ``found``; return what its next manifest makes effective."""
    last = state.commit if folder == state.commit.folder else CommitPoint()
    if (found or Manifest()) != last.manifest:
        raise value_error(
            f"the folder {str(folder)!r} changed: another process wrote to it, or it belongs to "
            f"another memory; read it with ItemMemory.open, or use a new folder"
        )
    removed = last.manifest.removed.union(last.labels.missing_from(state.labels))
    if found is not None and state.next_id == found.next_id and removed == found.removed:
        return None
    manifest = write_new_items(
        folder,
        last.manifest,
        removed=removed,
        next_id=state.next_id,
        items_since=state.labels.since,
        write=lambda path, items: write_items(path, state, items, about),
    )
    return CommitPoint(folder, manifest, state.labels)


def _reopened(backend: Backend, point: CommitPoint) -> Backend:
    """Return the backend of an opened memory with the files of a commit instead of rows in memory."""
    if not has_snapshots(backend) or not backend.segments or point.folder is None:
        return backend
    opened = {(segment.path.name, segment.checksum): segment for segment in backend.segments}
    segments = [
        opened.get((entry.name, entry.sha256)) or open_entry(point.folder, entry) for entry in point.manifest.entries
    ]
    after = backend.snapshot()
    after.use_segments(segments, point.manifest.removed)
    return after


def check_about(about: Any) -> dict[str, Any]:
    """Return ``about``; raise TypeError unless it is a JSON object that can be read again."""
    try:
        if not isinstance(about, dict):
            raise TypeError("not a dict")
        parse_json(json.dumps(about, allow_nan=False), "about")
    except (TypeError, ValueError, RecursionError) as error:
        raise type_error(f"about must be a JSON object, got {describe(about)} ({error})") from error
    return about


def _real_path(path: PathLike) -> Path:
    """Return the path without symbolic links."""
    return Path(os.path.realpath(path))


# -------------------------------------------------------------------------------------------------------------- reading


class Files(NamedTuple):
    """Files of items: one of :func:`write_items` without a manifest, or those of a folder with its manifest."""

    path: PathLike
    manifest: Manifest
    segments: list[Segment]
    space: Space
    storage: str
    about: dict[str, Any] | None  # of the newest file that has one


def open_files(path: PathLike, space: Space | None) -> Files:
    """Open a file or a folder of items; raise ValueError if the items are not of ``space`` or the files are damaged."""
    folder = Path(path)
    manifest, segments = open_segments(folder) if folder.is_dir() else (Manifest(), [Segment(path)])
    found, storage = segments[0].space, segments[0].storage
    if space not in (None, found):
        raise value_error(f"expected items of {space}, got items of {found}", path=path)
    about = next((segment.about for segment in reversed(segments) if segment.about is not None), None)
    return Files(path, manifest, segments, found, storage, about)


def load(items: Items, files: Files) -> None:
    """Read the items of files into a backend without items, completely or not at all."""
    if len(items.state.labels):
        raise value_error(f"the backend must be empty, got one with {len(items.state.labels)} items")
    read_labels(files.segments, files.manifest.removed)  # raises for a repeated label
    storage, offset = items.state.backend.storage, items.state.next_id  # not 0 for a Milvus collection with a past
    try:
        chunk_rows = rows_per_chunk(2 * files.space.total_dim)
        for ids, names, stored in read_rows(files.segments, files.manifest.removed, chunk_rows):
            rows = stored if storage == files.storage else pack(unpack(stored, torch.float32), storage)
            items.append(names, rows, ids + offset, {})
    except BaseException:
        with suppress(ConnectionError, RuntimeError):  # the first error is more informative
            items.remove(items.state.labels.names)  # Milvus must not keep half of a file
        raise
    if storage == files.storage and not offset:
        _continue(items, files)


def use(items: Items, files: Files) -> None:
    """Use the rows of files, which stay there, instead of the rows of a backend with snapshots."""
    backend = items.state.backend_to_change()
    assert has_snapshots(backend)
    backend.use_segments(files.segments, files.manifest.removed)
    labels = read_labels(files.segments, files.manifest.removed)
    next_id = max((int(segment.ids[-1]) + 1 for segment in files.segments if segment.count), default=0)
    items.state = State(files.space, labels, backend, next_id)
    _continue(items, files)


def _continue(items: Items, files: Files) -> None:
    """Let later commits go to the folder of the files."""
    if files.manifest.entries:
        point = CommitPoint(_real_path(files.path), files.manifest, items.state.labels)
        items.state = items.state._replace(commit=point, next_id=files.manifest.next_id)


def verify(backend: Backend) -> None:
    """Read all rows that are in files and compare them with their checksums; raise ValueError for damage."""
    for segment in backend.segments if has_snapshots(backend) else ():
        for _ in segment.verified_chunks(rows_per_chunk(2 * segment.space.total_dim)):
            pass

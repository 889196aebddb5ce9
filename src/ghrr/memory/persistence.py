"""Persistence of an item memory: one file for everything, or a folder to which changes are committed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ghrr._old_checks import describe
from ghrr._old_files import PathLike, parse_json
from ghrr.memory.backends import Backend, TorchBackend
from ghrr.memory.folder import Manifest, open_entry, open_segments, write_new_items
from ghrr.memory.search import rows_per_chunk
from ghrr.memory.segment import Segment, write_segment
from ghrr.memory.state import CommitPoint, State
from ghrr.space import Space


def write_items(path: PathLike, space: Space, state: State, items: dict[str, int], about: dict[str, Any] | None) -> str:
    """Write items, ids by label, to a file and return its checksum."""
    chunk_rows = rows_per_chunk(2 * space.total_dim)
    backend = state.backend
    return write_segment(path, space, backend.storage, items, backend.stored, chunk_rows=chunk_rows, about=about)


def read_items(path: PathLike, space: Space | None) -> tuple[Manifest, list[Segment]]:
    """Open a file or a folder of items. A file has an empty manifest.

    Raises
    ------
    ValueError
        The items are not of ``space``, or the files are damaged.
    """
    folder = Path(path)
    manifest, segments = open_segments(folder) if folder.is_dir() else (Manifest(), [Segment(path)])
    if space is not None and segments[0].space != space:
        raise ValueError(f"ItemMemory({str(path)!r}): expected items of {space}, got items of {segments[0].space}")
    return manifest, segments


def write_changes(
    folder: Path, found: Manifest | None, space: Space, state: State, about: dict[str, Any] | None
) -> CommitPoint | None:
    """Write changes since the last commit to a folder that this process has locked.

    They take effect when the caller writes the manifest of the returned commit point. Returns None if there are no
    changes.

    Parameters
    ----------
    folder, found
        Folder to write to, and its manifest.
    space, state, about
        What to write.
    """
    last = state.commit if folder == state.commit.folder else CommitPoint()
    if (found or Manifest()) != last.manifest:
        raise ValueError(
            f"ItemMemory.commit: the folder {str(folder)!r} changed: another process wrote to it, or it belongs to "
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
        write=lambda path, items: write_items(path, space, state, items, about),
    )
    return CommitPoint(folder, manifest, state.labels)


def reopened(backend: Backend, point: CommitPoint) -> Backend:
    """Return the backend of an opened memory with the files of a commit instead of rows in memory."""
    if not isinstance(backend, TorchBackend) or not backend.segments or point.folder is None:
        return backend
    opened = {(segment.path.name, segment.checksum): segment for segment in backend.segments}
    segments = [
        opened.get((entry.name, entry.sha256)) or open_entry(point.folder, entry) for entry in point.manifest.entries
    ]
    after = backend.snapshot()
    after.use_segments(segments, point.manifest.removed)
    return after


def last_about(segments: Sequence[Segment]) -> dict[str, Any] | None:
    """Return the ``about`` object of the newest segment that has one."""
    return next((segment.about for segment in reversed(segments) if segment.about is not None), None)


def check_about(about: Any) -> dict[str, Any]:
    """Return ``about``; raise TypeError unless it is a JSON object that can be read again."""
    try:
        if not isinstance(about, dict):
            raise TypeError("not a dict")
        parse_json(json.dumps(about, allow_nan=False), "about")
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"ItemMemory.save: about must be a JSON object, got {describe(about)} ({error})") from error
    return about


def real_path(path: PathLike) -> Path:
    """Return the path without symbolic links."""
    return Path(os.path.realpath(path))

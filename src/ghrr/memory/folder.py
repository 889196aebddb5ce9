"""A folder that a memory is saved to bit by bit: files of items that never change, and a manifest that lists them.

What is new goes into a new file; then the manifest is replaced in one step. A kill in between leaves a file that no
manifest names, and the next writer removes it. The new file takes in files before it that are not larger than what it
holds already, as in binary counting: an item is rewritten log2(n) times at most, and log2(n) files are there at most.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.files import atomic_write
from ghrr.memory.segment import UNREADABLE, Segment, same_kind, sync_folder
from ghrr.memory.storage import Stored

FORMAT = "ghrr-item-folder"
VERSION = 1
_MANIFEST, _LOCK = "manifest.json", "lock"
_NAME = re.compile(r"items-[0-9a-f]{16}\.safetensors")
_TRIES = 100


@dataclass(frozen=True)
class Entry:
    """A file of items: its name, its checksum, how many it holds and its first id."""

    name: str
    sha256: str
    items: int
    first: int


@dataclass(frozen=True)
class Manifest:
    """Files in the order of their ids, ids in them that were removed since, and the next id to give."""

    entries: tuple[Entry, ...] = ()
    removed: frozenset[int] = field(default_factory=frozenset)
    next_id: int = 0


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest, or None where there is none. Names in it are checked: they never lead out of the folder."""
    path = folder / _MANIFEST
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        digest, _, text = content.partition(b"\n")
        if digest.decode() != hashlib.sha256(text).hexdigest():
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        return _parse(json.loads(text))
    except UNREADABLE as error:
        reason = str(error) if isinstance(error, ValueError) else f"inconsistent content ({error!r})"
        raise ValueError(f"ItemMemory: {str(path)!r}: {reason:.500}") from error


def _parse(stored: dict[str, Any]) -> Manifest:
    if stored["format"] != FORMAT or stored["version"] != VERSION:
        raise ValueError(
            f"{stored['format']} version {stored['version']!r}, this ghrr reads {FORMAT} version {VERSION}; use the "
            f"version that wrote it"
        )
    entries = tuple(Entry(**entry) for entry in stored["entries"])
    if not all(_NAME.fullmatch(entry.name) for entry in entries):
        raise ValueError(f"names files that ItemMemory does not write: {[entry.name for entry in entries]}")
    return Manifest(entries, frozenset(stored["removed"]), int(stored["next_id"]))


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    """Put a manifest in the place of the one before, and remove files that it does not name."""
    stored = {
        "format": FORMAT,
        "version": VERSION,
        "entries": [vars(entry) for entry in manifest.entries],
        "removed": sorted(manifest.removed),
        "next_id": manifest.next_id,
    }
    text = json.dumps(stored, sort_keys=True).encode()
    with atomic_write(folder / _MANIFEST) as temporary:
        temporary.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    sync_folder(folder)
    named = {entry.name for entry in manifest.entries}
    for path in folder.iterdir():
        left_over = path.name.endswith(".tmp") and path.name.startswith((".items-", f".{_MANIFEST}."))
        if left_over or (_NAME.fullmatch(path.name) and path.name not in named):
            path.unlink(missing_ok=True)


def open_segments(folder: Path) -> tuple[Manifest, list[Segment]]:
    """The manifest and its files, open. While a writer replaces files this starts anew with the new manifest."""
    for _ in range(_TRIES):
        manifest = read_manifest(folder)
        if manifest is None:
            raise FileNotFoundError(f"ItemMemory: {str(folder)!r} is a folder without {_MANIFEST}: no memory is there")
        try:
            segments = [Segment(folder / entry.name) for entry in manifest.entries]
        except FileNotFoundError:
            if read_manifest(folder) == manifest:
                raise
            continue
        for entry, segment in zip(manifest.entries, segments, strict=True):
            if segment.checksum != entry.sha256 or segment.count != entry.items:
                raise ValueError(f"ItemMemory: {str(segment.path)!r} is not the file that {_MANIFEST} means")
        same_kind(segments)
        return manifest, segments
    raise TimeoutError(f"ItemMemory: {str(folder)!r} changed {_TRIES} times while it was being opened; try again")


def read_rows(
    segments: Sequence[Segment], removed: frozenset[int], step: int
) -> Iterator[tuple[Tensor, list[str], Stored]]:
    """Ids, labels and rows of all items that were not removed, ``step`` at a time, with all checksums checked."""
    gone = torch.tensor(sorted(removed), dtype=torch.int64)
    for segment in segments:
        labels = iter(segment.labels)
        for ids, stored in segment.chunks(step):
            alive = ~torch.isin(ids, gone)
            names = list(itertools.compress(itertools.islice(labels, len(ids)), alive.tolist()))
            if names:
                yield ids[alive], names, stored.take(alive)


def update(
    folder: Path,
    before: Manifest,
    *,
    removed: Set[int],
    next_id: int,
    since: Callable[[int], dict[str, int]],
    write: Callable[[Path, dict[str, int]], str],
) -> tuple[Manifest, int]:
    """Bring a folder up to date; gives the new manifest and how many of its files are those of the one before.

    Parameters
    ----------
    folder
        Where; this process is its only writer.
    before
        Its manifest until now.
    removed
        Ids in its files that are no longer there.
    next_id
        The next id to give.
    since
        Gives the items from an id on.
    write
        Writes items to a file and gives its checksum.
    """
    kept = before.entries[: _lasting(before, new=len(since(before.next_id)))]
    if 2 * len(removed) > sum(entry.items for entry in before.entries):
        kept = ()  # more is dead than alive
    first = before.entries[len(kept)].first if len(kept) < len(before.entries) else before.next_id
    items = since(first)
    entries = kept
    if items or not kept:  # a file without items still tells the space
        name = f"items-{secrets.token_hex(8)}.safetensors"
        entries = (*kept, Entry(name, write(folder / name, items), len(items), first))
    manifest = Manifest(entries, frozenset(number for number in removed if number < first), next_id)
    _write_manifest(folder, manifest)
    return manifest, len(kept)


def _lasting(manifest: Manifest, *, new: int) -> int:
    """How many files stay when ``new`` items come: the last ones join the new file while they are not larger."""
    count = len(manifest.entries)
    while count and manifest.entries[count - 1].items <= new:
        count -= 1
        new += manifest.entries[count].items
    return count


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only writer of a folder inside a ``with`` block; raises at once if another is at work."""
    import fcntl  # noqa: PLC0415  (not on all systems, and only writers need it)

    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system lets go of it when the process ends
        except BlockingIOError:
            raise BlockingIOError(f"ItemMemory: another process is writing to {str(folder)!r}; try again") from None
        yield
    finally:
        os.close(handle)

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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.files import atomic_write, check_fields, check_regular, parse_json
from ghrr.memory.labels import LabelTable
from ghrr.memory.segment import Segment, same_kind, sync_folder
from ghrr.memory.storage import Stored
from ghrr.memory.untrusted import UNREADABLE, check_count, check_inside, reason_of

FORMAT = "ghrr-item-folder"
VERSION = 1
_MANIFEST, _LOCK = "manifest.json", "lock"
_NAME = re.compile(r"items-[0-9a-f]{16}\.safetensors")
_TRIES = 100
_MOST_BYTES = 1 << 30  # of a manifest: a hundred million removed items
_FIELDS = {"format": str, "version": int, "entries": list, "removed": list, "next_id": int}
_ENTRY = {"name": str, "sha256": str, "items": int, "first": int}


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
    check_inside(path)
    try:
        check_regular(path, "ItemMemory")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read() if size <= _MOST_BYTES else b""
    except FileNotFoundError:
        return None
    try:
        if size > _MOST_BYTES:
            raise ValueError(f"it has {size:,} bytes, expected at most {_MOST_BYTES:,}")
        digest, _, text = content.partition(b"\n")
        if digest.decode() != hashlib.sha256(text).hexdigest():
            raise ValueError("the content does not match its checksum: the file was damaged or changed")
        return _parse(parse_json(text, "manifest"))
    except UNREADABLE as error:
        raise ValueError(f"ItemMemory: {str(path)!r}: {reason_of(error)}") from error


def _parse(stored: Any) -> Manifest:
    if isinstance(stored, dict) and (stored.get("format") != FORMAT or stored.get("version") != VERSION):
        raise ValueError(
            f"{stored.get('format')} version {stored.get('version')!r}, this ghrr reads {FORMAT} version {VERSION}; "
            f"use the version that wrote it"
        )
    check_fields("manifest", stored, _FIELDS)
    check_count("next_id", stored["next_id"])
    entries = tuple(map(_parse_entry, stored["entries"]))
    names = [entry.name for entry in entries]
    if not all(map(_NAME.fullmatch, names)):
        raise ValueError(f"names files that ItemMemory does not write: {names}")
    if not entries or len(set(names)) < len(names):
        raise ValueError(f"needs at least one file and every file once, got {names}")
    for number in stored["removed"]:
        check_count("a removed id", number)
    removed, bounds = frozenset(stored["removed"]), [entry.first for entry in entries] + [stored["next_id"]]
    if len(removed) < len(stored["removed"]):
        raise ValueError("removed ids repeat")
    if sorted(bounds) != bounds:
        raise ValueError(f"the first ids of its files and next_id must ascend, got {bounds}")
    return Manifest(entries, removed, stored["next_id"])


def _parse_entry(stored: Any) -> Entry:
    entry = Entry(**{name: check_fields("an entry", stored, _ENTRY)[name] for name in _ENTRY})
    check_count("items", entry.items)
    check_count("first", entry.first)
    return entry


def write_manifest(folder: Path, manifest: Manifest) -> None:
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
            with suppress(OSError):  # the items are safe: what cannot be removed stays
                path.unlink()


def open_segments(folder: Path) -> tuple[Manifest, list[Segment]]:
    """The manifest and its files, open. While a writer replaces files this starts anew with the new manifest."""
    for _ in range(_TRIES):
        manifest = read_manifest(folder)
        if manifest is None:
            raise FileNotFoundError(f"ItemMemory: {str(folder)!r} is a folder without {_MANIFEST}: no memory is there")
        try:
            segments = [open_entry(folder, entry) for entry in manifest.entries]
        except FileNotFoundError:
            if read_manifest(folder) == manifest:
                raise
            continue
        same_kind(segments)
        _check_ids(folder / _MANIFEST, manifest, segments)
        return manifest, segments
    raise TimeoutError(f"ItemMemory: {str(folder)!r} changed {_TRIES} times while it was being opened; try again")


def open_entry(folder: Path, entry: Entry) -> Segment:
    """Open a file that a manifest names."""
    path = folder / entry.name
    check_inside(path)
    segment = Segment(path)
    if segment.checksum != entry.sha256 or segment.count != entry.items:
        raise ValueError(f"ItemMemory: {str(path)!r} is not the file that {_MANIFEST} means")
    return segment


def _check_ids(path: Path, manifest: Manifest, segments: Sequence[Segment]) -> None:
    """Raise unless the ids of the files fit the manifest: an id that two items had would give wrong answers."""
    ends = [entry.first for entry in manifest.entries[1:]] + [manifest.next_id]
    known: set[int] = set()
    for entry, segment, end in zip(manifest.entries, segments, ends, strict=True):
        if segment.count and not entry.first <= int(segment.ids[0]) <= int(segment.ids[-1]) < end:
            raise ValueError(
                f"ItemMemory: {str(path)!r}: the ids of {entry.name} must be from {entry.first} to below {end}, got "
                f"{int(segment.ids[0])} to {int(segment.ids[-1])}"
            )
        known.update(manifest.removed.intersection(segment.ids.tolist()) if manifest.removed else ())
    if known != manifest.removed:
        unknown = sorted(manifest.removed - known)
        raise ValueError(f"ItemMemory: {str(path)!r}: removed ids that are in none of its files, {unknown[:5]}")


def read_labels(segments: Sequence[Segment], removed: Set[int]) -> LabelTable:
    """Labels and ids of all items that were not removed; raises if two items have one label."""
    names: list[str] = []
    ids: list[int] = []
    for segment in segments:
        numbers = segment.ids.tolist()
        alive = [number not in removed for number in numbers]
        names += itertools.compress(segment.labels, alive)
        ids += itertools.compress(numbers, alive)
    if len(set(names)) < len(names):
        raise ValueError(f"ItemMemory: {str(segments[0].path.parent)!r}: two items have the same label")
    return LabelTable(names, ids)


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


def write_items(
    folder: Path,
    before: Manifest,
    *,
    removed: Set[int],
    next_id: int,
    since: Callable[[int], dict[str, int]],
    write: Callable[[Path, dict[str, int]], str],
) -> Manifest:
    """Write new items to a file; gives the manifest with which they will be part of the folder.

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
    return Manifest(entries, frozenset(number for number in removed if number < first), next_id)


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

    with open(folder / _LOCK, "ab", opener=_open_lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # the system releases it when the process ends
        except BlockingIOError:
            raise BlockingIOError(
                f"ItemMemory: another process or thread is writing to {str(folder)!r}; try again"
            ) from None
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # closing is not enough: a fork meanwhile has the file open too


def _open_lock(path: str, flags: int) -> int:
    """Open the lock file, if it is one: nothing that blocks, and no link out of the folder."""
    check_inside(Path(path))
    if os.path.exists(path):
        check_regular(path, "ItemMemory")
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)

"""Folder of an item memory: segments that never change, and a manifest that lists them.

A commit writes new items to a new segment and then replaces the manifest in one step. If the process is killed in
between, a segment is left that no manifest names; the next commit removes it. The new segment takes over the items of
previous segments that are not larger than itself, as in binary counting. So each item is rewritten at most log2(n)
times, and there are at most log2(n) segments.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import named, value_error
from ghrr.files import (
    atomic_write,
    check_count,
    check_fields,
    check_inside,
    parse_json,
    prefix_errors,
    read_bytes,
    sync_folder,
)
from ghrr.memory.labels import LabelTable
from ghrr.memory.segment import Segment, check_same_kind
from ghrr.memory.storage import Stored

FORMAT = "ghrr-item-folder"
VERSION = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"items-[0-9a-f]{16}\.safetensors")
_OPEN_ATTEMPTS = 100
_MAX_BYTES = 1 << 30  # of a manifest: enough for a hundred million removed items
_FIELDS = {"format": str, "version": int, "entries": list, "removed": list, "next_id": int}
_ENTRY = {"name": str, "sha256": str, "items": int, "first": int}


@dataclass(frozen=True)
class Entry:
    """Segment in a manifest: file name, checksum, number of items, and the first id that it may hold."""

    name: str
    sha256: str
    items: int
    first: int


@dataclass(frozen=True)
class Manifest:
    """Content of a folder: segments in the order of ids, ids that were removed from them, and the next free id."""

    entries: tuple[Entry, ...] = ()
    removed: frozenset[int] = field(default_factory=frozenset)
    next_id: int = 0


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest, or None if there is none. File names in it are checked: they stay in the folder."""
    path = folder / MANIFEST
    check_inside(path)
    try:
        content = read_bytes(path, limit=_MAX_BYTES)
    except FileNotFoundError:
        return None
    with prefix_errors(path):
        digest, _, text = content.partition(b"\n")
        if digest.decode() != hashlib.sha256(text).hexdigest():
            raise ValueError("the content does not match its checksum; the file was damaged or changed")
        return _parse(parse_json(text, "manifest"))


def _parse(stored: Any) -> Manifest:
    if isinstance(stored, dict) and (stored.get("format") != FORMAT or stored.get("version") != VERSION):
        raise ValueError(
            f"format {stored.get('format')!r:.80} version {stored.get('version')!r:.80}, expected {FORMAT!r} "
            f"version {VERSION}; upgrade ghrr"
        )
    check_fields("manifest", stored, _FIELDS)
    check_count("next_id", stored["next_id"])
    entries = tuple(map(_parse_entry, stored["entries"]))
    names = [entry.name for entry in entries]
    if not all(map(_NAME.fullmatch, names)):
        raise ValueError(f"expected file names as written by ItemMemory, got {names}")
    if not entries or len(set(names)) < len(names):
        raise ValueError(f"expected at least one file and each file once, got {names}")
    for number in stored["removed"]:
        check_count("a removed id", number)
    removed, bounds = frozenset(stored["removed"]), [entry.first for entry in entries] + [stored["next_id"]]
    if len(removed) < len(stored["removed"]):
        raise ValueError("removed ids must be different")
    if sorted(bounds) != bounds:
        raise ValueError(f"the first ids of the files and next_id must be ascending, got {bounds}")
    return Manifest(entries, removed, stored["next_id"])


def _parse_entry(stored: Any) -> Entry:
    entry = Entry(**{name: check_fields("an entry", stored, _ENTRY)[name] for name in _ENTRY})
    check_count("items", entry.items)
    check_count("first", entry.first)
    return entry


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest, then remove files that it does not name."""
    stored = {
        "format": FORMAT,
        "version": VERSION,
        "entries": [vars(entry) for entry in manifest.entries],
        "removed": sorted(manifest.removed),
        "next_id": manifest.next_id,
    }
    text = json.dumps(stored, sort_keys=True).encode()
    with atomic_write(folder / MANIFEST) as temporary:
        temporary.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    sync_folder(folder)
    named = {entry.name for entry in manifest.entries}
    for path in folder.iterdir():
        left_over = path.name.endswith(".tmp") and path.name.startswith((".items-", f".{MANIFEST}."))  # of 0.1
        if left_over or (_NAME.fullmatch(path.name) and path.name not in named):
            with suppress(OSError):  # a file that cannot be removed does no harm
                path.unlink()


def open_segments(folder: Path) -> tuple[Manifest, list[Segment]]:
    """Open all segments of a folder. If a writer replaces them meanwhile, start again with the new manifest."""
    for _ in range(_OPEN_ATTEMPTS):
        manifest = read_manifest(folder)
        if manifest is None:
            raise FileNotFoundError(named(f"the folder holds no memory, it has no {MANIFEST}", path=folder))
        try:
            segments = [open_entry(folder, entry) for entry in manifest.entries]
        except FileNotFoundError:
            if read_manifest(folder) == manifest:
                raise
            continue
        check_same_kind(segments)
        with prefix_errors(folder / MANIFEST):
            _check_ids(manifest, segments)
        return manifest, segments
    raise TimeoutError(named(f"the folder changed {_OPEN_ATTEMPTS} times while it was opened; try again", path=folder))


def open_entry(folder: Path, entry: Entry) -> Segment:
    """Open a segment that a manifest names."""
    path = folder / entry.name
    check_inside(path)
    segment = Segment(path)
    if segment.checksum != entry.sha256 or segment.count != entry.items:
        raise value_error(f"the file is not the one that {MANIFEST} lists", path=path)
    return segment


def _check_ids(manifest: Manifest, segments: Sequence[Segment]) -> None:
    """Raise ValueError unless the ids of the segments fit the manifest, so that each id is used once."""
    ends = [entry.first for entry in manifest.entries[1:]] + [manifest.next_id]
    found: set[int] = set()
    for entry, segment, end in zip(manifest.entries, segments, ends, strict=True):
        if segment.count and not entry.first <= int(segment.ids[0]) <= int(segment.ids[-1]) < end:
            raise ValueError(
                f"the ids of {entry.name} must be from {entry.first} to below {end}, got "
                f"{int(segment.ids[0])} to {int(segment.ids[-1])}"
            )
        found.update(manifest.removed.intersection(segment.ids.tolist()) if manifest.removed else ())
    if found != manifest.removed:
        raise ValueError(f"removed ids must be in one of the files, got {sorted(manifest.removed - found)[:5]}")


def read_labels(segments: Sequence[Segment], removed: Set[int]) -> LabelTable:
    """Return labels and ids of all items that were not removed; raise ValueError if a label occurs twice."""
    names: list[str] = []
    ids: list[int] = []
    for segment in segments:
        numbers = segment.ids.tolist()
        present = [number not in removed for number in numbers]
        names += itertools.compress(segment.labels, present)
        ids += itertools.compress(numbers, present)
    if len(set(names)) < len(names):
        raise value_error("two items have the same label", path=segments[0].path.parent)
    return LabelTable(names, ids)


def read_rows(
    segments: Sequence[Segment], removed: frozenset[int], chunk_rows: int
) -> Iterator[tuple[Tensor, list[str], Stored]]:
    """Yield ids, labels and rows of all items that were not removed, in chunks, and check all checksums."""
    removed_ids = torch.tensor(sorted(removed), dtype=torch.int64)
    for segment in segments:
        labels = iter(segment.labels)
        for ids, stored in segment.verified_chunks(chunk_rows):
            present = ~torch.isin(ids, removed_ids)
            names = list(itertools.compress(itertools.islice(labels, len(ids)), present.tolist()))
            if names:
                yield ids[present], names, stored.take(present)


def write_new_items(
    folder: Path,
    before: Manifest,
    *,
    removed: Set[int],
    next_id: int,
    items_since: Callable[[int], dict[str, int]],
    write: Callable[[Path, dict[str, int]], str],
) -> Manifest:
    """Write new items to a segment and return the manifest that makes it part of the folder.

    Parameters
    ----------
    folder
        Folder that this process has locked.
    before
        Current manifest.
    removed
        Ids in its segments that no longer exist.
    next_id
        Next free id.
    items_since
        Returns labels and ids from an id on.
    write
        Writes items to a file and returns its checksum.
    """
    kept = before.entries[: _count_kept(before, new=len(items_since(before.next_id)))]
    if 2 * len(removed) > sum(entry.items for entry in before.entries):
        kept = ()  # rewrite everything, since more than half was removed
    first = before.entries[len(kept)].first if len(kept) < len(before.entries) else before.next_id
    items = items_since(first)
    entries = kept
    if items or not kept:  # an empty segment stores the space
        name = f"items-{secrets.token_hex(8)}.safetensors"
        entries = (*kept, Entry(name, write(folder / name, items), len(items), first))
    return Manifest(entries, frozenset(number for number in removed if number < first), next_id)


def _count_kept(manifest: Manifest, *, new: int) -> int:
    """Return how many segments stay if ``new`` items are added; the others are merged into the new segment."""
    count = len(manifest.entries)
    while count and manifest.entries[count - 1].items <= new:
        count -= 1
        new += manifest.entries[count].items
    return count

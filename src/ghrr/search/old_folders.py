"""Folders of earlier versions (0.3 in development): read as they are, and rewritten by the next save.

They have the fields in ``fields.safetensors``, the engine in ``engine.json`` unless it is torch, and no table of
records: the records are the vectors of the engine, except vectors without a document in engines outside the folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ghrr.files import check_fields, prefix_errors, read_json
from ghrr.memory.folder import MANIFEST
from ghrr.memory.labels import LabelTable
from ghrr.search.database import read_labels
from ghrr.search.engines import check_engine
from ghrr.search.labels import id_of, number_of

FIELDS_NAME = "fields.safetensors"
ENGINE_NAME = "engine.json"
_TORCH = {"backend": "torch", "uri": None, "collection": None, "approximate": False}
_VERSION = 1


def stamp(folder: Path, vectors: Path) -> str | None:
    """Return a text that identifies the last save to a folder of an earlier version; None if it is none."""
    complete = (vectors / MANIFEST, folder / ENGINE_NAME)
    if not (folder / FIELDS_NAME).exists() or not any(path.exists() for path in complete):
        return None
    found = (folder / FIELDS_NAME).stat()
    return f"file {found.st_ino} of {found.st_mtime_ns}"


def read_engine(folder: Path) -> tuple[dict[str, Any], float | None]:
    """Return the settings of the engine and its recall, if that was measured."""
    path = folder / ENGINE_NAME
    if not path.exists():
        return _TORCH, None
    with prefix_errors(path):
        stored = check_fields("engine", read_json(path), {"version": int})
        if stored["version"] > _VERSION:
            raise ValueError(f"version {stored['version']} is newer than this one ({_VERSION}); update ghrr")
        recall = stored.get("recall")
        return check_engine(stored), float(recall) if isinstance(recall, float) else None


def find_records(folder: Path, vectors: Sequence[str], *, are_in_folder: bool) -> LabelTable:
    """Return ids and numbers of the records, from the labels of the vectors and the documents."""
    with prefix_errors(folder):
        labels = list(vectors)
        if not are_in_folder:  # of an id with two documents, an update was killed: the later one counts
            labels = read_labels(folder)
        numbers = {id_of(label): number_of(label) for label in sorted(labels, key=number_of)}
        ascending = sorted((number, name) for name, number in numbers.items())
        return LabelTable([name for _, name in ascending], [number for number, _ in ascending])


def remove_files(folder: Path) -> None:
    """Remove the files that only earlier versions have."""
    for name in (FIELDS_NAME, ENGINE_NAME):
        (folder / name).unlink(missing_ok=True)

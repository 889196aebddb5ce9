"""Folder of an index: saved and opened, safe against kills and second writers.

A folder has a database (``documents.sqlite``) with the documents, the table of records and a manifest, a file of fields
that the manifest names with its checksum, and the vectors; with Milvus and LanceDB it has the address of the vectors.

A save writes fields and vectors beside the previous ones. Then one transaction of the database writes documents,
table and manifest, which makes the save effective. What no record needs any more is removed after that.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ghrr.checks import check_path, named, value_error
from ghrr.files import PathLike, check_inside, lock_folder, prefix_errors
from ghrr.memory import ItemMemory
from ghrr.memory.backends import has_snapshots
from ghrr.memory.folder import MANIFEST as VECTORS_MANIFEST
from ghrr.memory.labels import LabelTable
from ghrr.search import database, old_folders
from ghrr.search.documents import DocumentStore
from ghrr.search.encoder import RecordEncoder
from ghrr.search.engines import ENGINES, check_engine, describe_engine, keeps_vectors_in_folder, name_of, open_memory
from ghrr.search.labels import id_of, label_of, number_of
from ghrr.search.records import Records
from ghrr.search.saving import read_encoder, write_encoder
from ghrr.search.state import BATCH, State

_VECTORS = "vectors"  # the folder of the item memory
_FIELDS_FILE = re.compile(r"fields-[0-9a-f]{16}\.safetensors")
_INDEX_FILE = re.compile(
    r"(vectors/)?(\.lock|\.ghrr-[0-9a-f]{12}-\d+-\d+-[0-9a-f]{8}\.tmp(/new)?)"
    r"|fields(-[0-9a-f]{16})?\.safetensors|engine\.json|documents\.sqlite(-journal|-wal|-shm)?"
    r"|vectors|vectors/(manifest\.json|items-[0-9a-f]{16}\.safetensors)"
)
_OPEN_ATTEMPTS = 100
_VECTOR_TOLERANCE = 1e-4  # of vectors that are encoded again, whose energy is about 1; single precision is more exact

T = TypeVar("T")


@dataclass(frozen=True)
class Save:
    """What a folder holds.

    Parameters
    ----------
    folder, generation
        The folder, and the text that identifies the save.
    encoder, calibration
        Content of the file of fields.
    fields, checksum
        Its name and checksum; None in a folder of an earlier version.
    records
        Ids and numbers of the records.
    end
        All records in the folder have smaller numbers, and later ones have not.
    """

    folder: Path
    generation: str
    encoder: RecordEncoder
    calibration: NDArray[np.float64]
    fields: str | None
    checksum: str
    records: LabelTable
    end: int


class IndexFolder:
    """Folder that an index is saved to.

    Parameters
    ----------
    records
        Records of the index.
    saved
        The save that they were opened from.
    """

    def __init__(self, records: Records, saved: Save | None = None) -> None:
        self._records = records
        records.may_be_saved = saved is not None
        self._saved = saved  # the last save that this object knows
        self._attempt: Save | None = None  # the last one that was begun; effective if the folder has its generation
        self._leftovers: set[str] | None = None  # labels of documents in the folder without a record; None: not known

    @property
    def path(self) -> Path | None:
        """The folder, or None before the first save."""
        known = self._saved or self._attempt
        return None if known is None else known.folder

    def save(self, folder: PathLike | None) -> None:
        """Write the changes since the last save, to a new folder or the one of the last save."""
        with self._records.lock:
            path = self.path if folder is None else check_path(folder).resolve()
            if path is None:
                raise value_error("the first save needs a folder, got none; call save(folder)")
            self._check_engine(path)
            if self._saved is not None and path == self._saved.folder and not (path / database.NAME).exists():
                raise FileNotFoundError(
                    named(f"the index is no longer in {str(path)!r}; restore the folder, or save to another one")
                )
            path.mkdir(parents=True, exist_ok=True)
            with lock_folder(path):
                before = self._find_save(path)
                self._write(path, before)
                with suppress(OSError):  # leftovers do no harm; the next save removes them
                    self._clean(path, before)

    def _check_engine(self, path: Path) -> None:
        """Raise ValueError unless the vectors can belong to a folder."""
        engine = self._records.state.engine
        if name_of(engine) is None:
            raise value_error(
                f"needs an engine of ghrr, got {type(engine).__name__}, which cannot be opened "
                f"from a folder; use one of {', '.join(ENGINES)}"
            )
        if self.path not in (None, path) and not keeps_vectors_in_folder(engine):
            raise value_error(
                f"the vectors are outside the folder and belong to the index in {str(self.path)!r}, "
                f"got {str(path)!r}; save to that folder, or add the records to a new index with another uri"
            )

    def _find_save(self, path: Path) -> Save | None:
        """Return the last save to a folder, None if there is none; raise ValueError if this object does not know it."""
        generation = _generation(path)
        for known in (self._saved, self._attempt):
            if known is not None and (known.folder, known.generation) == (path, generation):
                return known
        if path == self.path and self._saved is not None:
            raise value_error(
                f"another program saved to {str(path)!r} since this index was opened; open it again and "
                f"repeat the changes, or save to another folder"
            )
        if generation is not None:
            raise value_error(f"{str(path)!r} holds another index; choose a new folder")
        return None

    def _write(self, path: Path, before: Save | None) -> None:
        """Write fields and vectors, and then the database, which makes the save effective."""
        state = self._records.state
        if keeps_vectors_in_folder(state.engine):
            if before is None:
                self._begin(path)
            state.memory.commit(path / _VECTORS)
        fields, checksum = self._write_fields(path, before)
        removed = None  # all
        if before is not None and before.fields is not None:
            removed = before.records.missing_from(state.records)
        if before is None or removed is None:
            self._leftovers = None
        elif self._leftovers is not None:
            self._leftovers.update(label_of(number, before.records.name_of(number)) for number in removed)
        end, token = next(self._records.numbers), secrets.token_hex(8)
        after = Save(path, token, state.encoder, state.calibration, fields, checksum, state.records, end)
        engine = describe_engine(path, state.engine)
        new = state.records.since(0 if before is None else before.end)
        added = state.records.since(0) if removed is None else new
        self._records.may_be_saved, self._attempt = True, after
        database.write(
            path,
            database.Manifest(token, fields, checksum, state.next_id, state.recall, engine, len(state)),
            documents=self._texts(new),
            removed=removed,
            added=((number, name) for name, number in added.items()),
        )
        self._saved = after
        memory = state.memory
        if path != state.documents.folder and has_snapshots(state.engine):  # from now on they stay in files
            memory = ItemMemory.open(path / _VECTORS, space=memory.space, device=state.engine.device)
        self._records.publish(replace(state, memory=memory, documents=DocumentStore(path)))

    def _begin(self, path: Path) -> None:
        """Mark a folder as the folder of an index, and forget the vectors of a first save that was not finished."""
        vectors = path / _VECTORS
        if (vectors / VECTORS_MANIFEST).exists() and not (path / database.NAME).exists():
            raise value_error(f"{str(vectors)!r} holds something else; choose a new folder")
        database.create(path)
        if self._records.state.memory.folder != vectors:
            (vectors / VECTORS_MANIFEST).unlink(missing_ok=True)

    def _write_fields(self, path: Path, before: Save | None) -> tuple[str, str]:
        """Write the fields to a new file, unless they have not changed; return its name and checksum."""
        state = self._records.state
        is_same = before and before.encoder is state.encoder and before.calibration is state.calibration
        if before is not None and before.fields is not None and is_same:
            return before.fields, before.checksum
        name = f"fields-{secrets.token_hex(8)}.safetensors"
        return name, write_encoder(path / name, state.encoder, state.calibration)

    def _texts(self, new: dict[str, int]) -> Iterator[tuple[str, str]]:
        """Yield labels and documents of new records."""
        names = [label_of(number, name) for name, number in new.items()]
        for start in range(0, len(names), BATCH):
            labels = names[start : start + BATCH]
            yield from zip(labels, self._records.state.documents.texts(labels), strict=True)

    def _clean(self, path: Path, before: Save | None) -> None:
        """Remove what neither the save nor a running search needs. The save is effective; a kill here does no harm."""
        if self._records.remove_leftover_vectors() and keeps_vectors_in_folder(self._records.state.engine):
            self._records.state.memory.commit()
        if self._leftovers is None:
            self._leftovers = set(database.read_labels(path, without_record=True))
        unused = [label for label in self._leftovers if not self._records.is_used(label)]
        if unused:
            database.remove_documents(path, unused)
            self._leftovers.difference_update(unused)
        assert self._saved is not None
        for file in path.iterdir():
            if _FIELDS_FILE.fullmatch(file.name) and file.name != self._saved.fields:
                file.unlink()
        if before is not None and before.fields is None:
            old_folders.remove_files(path)

    def verify(self) -> None:
        """Read all vectors and documents and compare them with their checksums, or else with each other."""
        state = self._records.state
        state.memory.verify()
        labels = state.labels
        for start in range(0, len(labels), BATCH):
            part = labels[start : start + BATCH]
            documents = state.documents.get(part)
            if keeps_vectors_in_folder(state.engine):
                continue
            difference = (state.memory.vectors(part) - state.encoder.encode(documents)).abs().flatten(1).amax(dim=1)
            place = int(difference.nan_to_num(math.inf).argmax())
            if not difference[place] < _VECTOR_TOLERANCE:
                raise value_error(
                    f"the vector of {id_of(part[place])!r} does not match its document in "
                    f"{str(self.path)!r}; one of them was damaged: restore the folder and the engine's data"
                )


# -------------------------------------------------------------------------------------------------------------- opening


def open_index(path: Path, uri: str | None) -> tuple[Records, IndexFolder]:
    """Return the records of a folder, whose vectors and documents stay there or in their engine."""
    return _retried(path, lambda: _opened(path, uri))


def _opened(path: Path, uri: str | None) -> tuple[Records, IndexFolder]:
    encoder, calibration, manifest, records = _read_fields(path)
    if manifest is None:
        generation, (settings, recall) = _generation(path), old_folders.read_engine(path)
    else:
        generation, settings, recall = manifest.generation, manifest.engine, manifest.recall
    with prefix_errors(path / database.NAME):
        settings = check_engine(settings)
    memory, engine = open_memory(path, path / _VECTORS, encoder.space, settings, uri)
    if manifest is None:
        are_in_folder = keeps_vectors_in_folder(engine)
        records = old_folders.find_records(path, memory.labels, are_in_folder=are_in_folder)
    next_id = 0 if manifest is None else manifest.next_id
    state = State(encoder, engine, memory, DocumentStore(path), calibration, records, next_id, recall)
    labels, found = state.labels, memory.labels
    missing = [] if labels == found else sorted(set(labels).difference(found), key=number_of)
    if missing:
        raise value_error(
            f"the vectors of {len(missing):,} of {len(state):,} records are "
            f"missing, for example of {id_of(missing[0])!r}; the vectors belong to another index or were changed: "
            f"restore them, or give their address with uri=",
            path=path,
        )
    fields, checksum = (None, "") if manifest is None else (manifest.fields, manifest.checksum)
    end = max(records.ids, default=-1) + 1
    assert generation is not None
    opened = Records(state)
    saved = Save(path, generation, encoder, calibration, fields, checksum, records, end)
    return opened, IndexFolder(opened, saved)


def open_fields(folder: PathLike) -> tuple[RecordEncoder, NDArray[np.float64]]:
    """Return the encoder and the calibration of a saved index."""
    path = Path(folder).resolve()
    return _retried(path, lambda: _read_fields(path)[:2])


def has_index(folder: Path) -> bool:
    """Whether a folder has an index; not after a first save that failed or was killed."""
    return _generation(folder) is not None


def _generation(folder: Path) -> str | None:
    """Return a text that identifies the last save to a folder; None if there is no complete one."""
    manifest = database.read_manifest(folder)
    return old_folders.stamp(folder, folder / _VECTORS) if manifest is None else manifest.generation


def _retried(folder: Path, read: Callable[[], T]) -> T:
    """Return what ``read`` reads from a folder; if it fails because another program saves meanwhile, read again.

    What it reads is of one save: the manifest has the checksum of the fields, and a label never changes its meaning.
    """
    for _ in range(_OPEN_ATTEMPTS):
        generation = _generation(folder)
        if generation is None:
            raise FileNotFoundError(
                named(
                    f"the folder has no index, expected {database.NAME} of a complete "
                    f"RecordIndex.save or `ghrr index`; check the path",
                    path=folder,
                )
            )
        try:
            return read()
        except (OSError, ValueError):
            if _generation(folder) == generation:
                raise
    raise TimeoutError(named(f"the folder changed {_OPEN_ATTEMPTS} times while it was opened; try again", path=folder))


def _read_fields(
    path: Path,
) -> tuple[RecordEncoder, NDArray[np.float64], database.Manifest | None, LabelTable]:
    """Return what a folder has besides vectors and documents; those of earlier versions have no manifest and table."""
    found = database.read_records(path)
    if found is None:
        return (*read_encoder(path / old_folders.FIELDS_NAME), None, LabelTable())
    manifest, records = found
    if not _FIELDS_FILE.fullmatch(manifest.fields) or not (path / manifest.fields).exists():
        raise FileNotFoundError(
            named(
                f"the file of fields {manifest.fields!r:.80} is missing, or "
                f"{database.NAME} belongs to another index; restore the whole folder",
                path=path,
            )
        )
    check_inside(path / manifest.fields)
    return (*read_encoder(path / manifest.fields, manifest.checksum), manifest, records)


def is_index_file(path: PurePath) -> bool:
    """Whether an index writes a file with this path, relative to its folder, so that it may be removed with it."""
    return _INDEX_FILE.fullmatch(path.as_posix()) is not None

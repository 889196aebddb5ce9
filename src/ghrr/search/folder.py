"""FolderStore: records that are saved to a folder and opened from it, safe against kills and second writers.

A folder has the documents (SQLite), the fields, and either the vectors (torch and faiss) or the address of the engine
that has them (Milvus and LanceDB). A save writes them in this order; the last step makes it effective.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Self

from ghrr.files import PathLike, lock_folder
from ghrr.memory import ItemMemory, TorchBackend
from ghrr.memory.folder import MANIFEST as MANIFEST_NAME
from ghrr.search.documents import DocumentStore
from ghrr.search.engines import ENGINES, can_be_saved, keeps_vectors_in_folder, open_memory, write_engine
from ghrr.search.engines import NAME as ENGINE_NAME
from ghrr.search.saving import NAME as FIELDS_NAME
from ghrr.search.saving import read_encoder, write_encoder
from ghrr.search.store import SEPARATOR, RecordStore, id_of

_VECTORS = "vectors"  # the folder of the item memory


class FolderStore(RecordStore):
    """Base class of :class:`ghrr.search.RecordIndex`: a :class:`RecordStore` with files."""

    _folder: Path | None = None
    _stamp: tuple[int, int] | None = None  # of the last save that this object knows

    def save(self, folder: PathLike | None = None) -> None:
        """Write the changes since the last save to a folder, and wait until they are on disk.

        From then on the index reads vectors and documents from the folder, so memory stays small if you add and save in
        turn.

        Documents are written first and vectors last, so a process that is killed leaves the state before or after. One
        process at a time can write.

        Parameters
        ----------
        folder
            A new folder, or the one that this index was opened from or last saved to, which is the default.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> index.save(folder)
        >>> ghrr.search.RecordIndex.open(folder).search({"name": "alan"})[0].document
        {'name': 'Alan'}
        """
        operation = "RecordIndex.save"
        with self._lock:
            path = self._folder if folder is None else Path(folder).resolve()
            if path is None:
                raise ValueError(f"{operation}: the first save needs a folder, got none; call save(folder)")
            if not can_be_saved(self._engine):
                raise ValueError(
                    f"{operation}: needs an engine of ghrr, got {type(self._engine).__name__}, which cannot be opened "
                    f"from a folder; use one of {', '.join(ENGINES)}"
                )
            path.mkdir(parents=True, exist_ok=True)
            with lock_folder(path, operation):
                self._check_unchanged(operation, path)
                self._documents.write(path, self._labels.values())
                try:
                    self._write_vectors(path)
                finally:  # after an error or an interrupt too
                    self._folder, self._stamp = path, _stamp(path)
                self._documents.clean(path, self._removed)
                self._removed = set()

    def _write_vectors(self, path: Path) -> None:
        """Write the fields, then the vectors, which makes the save effective."""
        write_encoder(path / FIELDS_NAME, self._encoder, self._calibration)
        if self._unsaved:
            self._memory.remove(sorted(self._unsaved))
            self._unsaved = set()
        if keeps_vectors_in_folder(self._engine):
            self._memory.commit(path / _VECTORS)
            if path != self._folder and isinstance(self._engine, TorchBackend):  # from now on they stay in the files
                self._memory = ItemMemory.open(path / _VECTORS, space=self.space, device=self._engine.device)
        write_engine(path, self._engine, self._recall)

    def _secure_documents(self, operation: str) -> None:
        if self._folder is not None and not keeps_vectors_in_folder(self._engine):
            with lock_folder(self._folder, operation):
                self._documents.write(self._folder, ())

    def _check_unchanged(self, operation: str, path: Path) -> None:
        """Raise ValueError if the folder holds something else than what this object last saved or opened."""
        if path == self._folder and _stamp(path) == self._stamp:
            return
        if path == self._folder:
            raise ValueError(
                f"{operation}: another program saved to {str(path)!r} since this index was opened; open it again and "
                f"repeat the changes, or save to another folder"
            )
        if _stamp(path) is not None:
            raise ValueError(f"{operation}: {str(path)!r} holds another index; choose a new folder")

    @classmethod
    def open(cls, folder: PathLike, *, uri: str | None = None) -> Self:
        """Use a saved index without reading its vectors and documents into memory.

        With Milvus and LanceDB, the vectors are in their own store. Records that a program added there and did not
        save, because it was killed, are not part of the index; the next save removes them.

        Parameters
        ----------
        folder
            As given to :meth:`save`.
        uri
            Address of Milvus or LanceDB, if it changed or has a password, which is not stored.

        Raises
        ------
        FileNotFoundError
            The folder has no index.
        ValueError
            A file is damaged, or was written by a newer version.

        Examples
        --------
        See :meth:`save`.
        """
        path = Path(folder).resolve()
        if not has_index(path):
            raise FileNotFoundError(
                f"RecordIndex.open({str(folder)!r}): the folder has no index, expected one that RecordIndex.save or "
                f"`ghrr index` wrote; check the path"
            )
        index = cls._from_fields(path)
        index._folder, index._stamp = path, _stamp(path)
        index._memory, index._engine, index._recall = open_memory(path, path / _VECTORS, index.space, uri)
        index._documents = DocumentStore(path)
        labels = index._memory.labels
        if not keeps_vectors_in_folder(index._engine):
            saved = index._documents.labels()
            index._removed = saved.difference(labels)
            labels = [label for label in labels if label in saved]
        index._labels = {id_of(label): label for label in labels}  # the later of two, if an update was killed
        if len(index._memory) > len(index._labels):
            index._unsaved = set(index._memory.labels).difference(index._labels.values())
        last = max((int(label.partition(SEPARATOR)[0], 16) for label in index._memory.labels), default=-1)
        index._revision = itertools.count(last + 1)
        return index

    @classmethod
    def _from_fields(cls, folder: Path, **settings: Any) -> Self:
        """Return an empty index with the fields and the calibration of a saved one."""
        encoder, calibration = read_encoder(folder / FIELDS_NAME)
        index = cls(encoder.space, whole=encoder.whole, **settings)
        index._encoder, index._calibration = encoder, calibration
        return index


def has_index(folder: Path) -> bool:
    """Whether a folder has an index; not after a first save that failed or was killed."""
    complete = (folder / _VECTORS / MANIFEST_NAME, folder / ENGINE_NAME)
    return (folder / FIELDS_NAME).exists() and any(path.exists() for path in complete)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """Return what identifies the last save to a folder, which replaces the file of fields."""
    if not has_index(folder):
        return None
    found = (folder / FIELDS_NAME).stat()
    return found.st_ino, found.st_mtime_ns

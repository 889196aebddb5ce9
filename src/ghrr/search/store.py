"""RecordStore: documents with their hypervectors, which can be added, replaced, removed, saved and opened."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr._locks import Lock
from ghrr.files import PathLike, lock_folder
from ghrr.memory import Backend, ItemMemory, TorchBackend
from ghrr.memory.labels import check_labels, repeated
from ghrr.search.calibration import PRIOR
from ghrr.search.documents import DocumentStore, as_json
from ghrr.search.encoder import RecordEncoder
from ghrr.search.fields import Field, check_weights
from ghrr.search.paths import columns
from ghrr.search.saving import NAME as FIELDS_NAME
from ghrr.search.saving import read_encoder, write_encoder
from ghrr.space import Space, check_space

Document = Mapping[str, Any]
_VECTORS = "vectors"  # the folder of the item memory
BATCH = 4096  # documents encoded at a time
_SEPARATOR = ":"


class RecordStore:
    """Base class of :class:`ghrr.search.RecordIndex`, which adds search and documents the parameters."""

    def __init__(
        self,
        space: Space | None = None,
        *,
        kinds: Mapping[str, str] | None = None,
        weights: Mapping[str, float] | None = None,
        whole: bool = True,
        storage: str | None = None,
        backend: str | Backend = "torch",
        uri: str | None = None,
    ) -> None:
        space = Space(dim=256, m=2, seed=0) if space is None else check_space("RecordIndex", space)
        self._encoder = RecordEncoder(space, kinds=kinds, whole=whole)
        self._given_weights = dict(weights or {})
        check_weights("RecordIndex", weights, list(self._given_weights))
        self._memory = ItemMemory(space, **_memory_settings(space, storage, backend, uri))
        self._is_torch = backend == "torch" or isinstance(backend, TorchBackend)
        self._device = backend.device if isinstance(backend, TorchBackend) else "cpu"
        self._documents = DocumentStore()
        self._labels: dict[str, str] = {}  # label in the item memory by id
        self._revision = itertools.count()
        self._calibration: np.ndarray[Any, np.dtype[np.float64]] = PRIOR.copy()
        self._folder: Path | None = None
        self._removed: set[str] = set()  # labels in the files that are no longer in the index
        self._lock = Lock()

    # -------------------------------------------------------------------------------------------------------- contents

    def __len__(self) -> int:
        return len(self._labels)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._labels

    def __getitem__(self, identifier: str) -> Any:
        return self._documents.get([self._label_of("RecordIndex", identifier)])[0]

    def __repr__(self) -> str:
        width = torch.empty(0, dtype=getattr(torch, self._memory.storage)).element_size()
        size = 2 * self.space.total_dim * width
        return f"RecordIndex({len(self):,} records, {len(self.fields)} fields, {size:,} bytes each)"

    @property
    def space(self) -> Space:
        """Space of the hypervectors."""
        return self._encoder.space

    @property
    def fields(self) -> list[Field]:
        """Fields with their kinds and weights."""
        return list(self._encoder.fields)

    @property
    def ids(self) -> list[str]:
        """Ids of the records, in the order in which they were added or last replaced."""
        return list(self._labels)

    def _label_of(self, operation: str, identifier: str) -> str:
        if identifier not in self._labels:
            raise KeyError(f"{operation}: there is no record {identifier!r} among the {len(self):,} of this index")
        return self._labels[identifier]

    # --------------------------------------------------------------------------------------------------------- changes

    def add(self, documents: Sequence[Document], ids: Iterable[str] | None = None) -> None:
        """Add documents. If this raises, none is added.

        The first call infers the fields and their statistics, so give it a sample that is large enough. Later calls
        add fields for paths that are new.

        Parameters
        ----------
        documents
            Dicts as from JSON, nested to any depth. None, NaN and empty strings count as missing.
        ids
            Strings, all different and not in the index. By default the numbers from the length of the index on.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
        >>> index.ids
        ['0', '1']
        """
        operation = "RecordIndex.add"
        documents = as_list(operation, documents)
        with self._lock:
            names = self._new_ids(operation, documents, ids)
            self._insert(operation, documents, names, [])

    def update(self, documents: Sequence[Document], ids: Iterable[str]) -> None:
        """Replace the documents of ids. If this raises, none is replaced.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}], ids=["a"])
        >>> index.update([{"name": "Ada Lovelace"}], ids=["a"])
        >>> index["a"]
        {'name': 'Ada Lovelace'}
        """
        operation = "RecordIndex.update"
        documents = as_list(operation, documents)
        names = check_labels(operation, ids)
        if len(names) != len(documents) or repeated(names):
            raise ValueError(
                f"{operation}: needs one id for each document, all different, got {len(names)} ids for "
                f"{len(documents)} documents"
            )
        with self._lock:
            self._insert(operation, documents, names, [self._label_of(operation, name) for name in names])

    def remove(self, ids: str | Iterable[str]) -> None:
        """Remove records. If this raises, none is removed.

        Examples
        --------
        >>> import ghrr
        >>> index = ghrr.search.RecordIndex()
        >>> index.add([{"name": "Ada"}, {"name": "Alan"}], ids=["ada", "alan"])
        >>> index.remove("ada")
        >>> index.ids
        ['alan']
        """
        operation = "RecordIndex.remove"
        names = check_labels(operation, ids)
        with self._lock:
            labels = [self._label_of(operation, name) for name in names]
            self._memory.remove(labels)
            self._forget(labels)
            for name in names:
                del self._labels[name]

    def _forget(self, labels: Sequence[str]) -> None:
        self._removed.update(labels)
        self._documents.discard(labels)

    def _new_ids(self, operation: str, documents: Sequence[Document], ids: Iterable[str] | None) -> list[str]:
        if ids is None:
            first = len(self._labels)
            while str(first) in self._labels:
                first += 1
            names = [str(number) for number in range(first, first + len(documents))]
        else:
            names = check_labels(operation, ids)
        if len(names) != len(documents):
            raise ValueError(f"{operation}: needs one id for each document, got {len(names)} for {len(documents)}")
        taken = [name for name in names if name in self._labels] or repeated(names)
        if taken:
            raise ValueError(
                f"{operation}: ids must be new and all different, got {taken[0]!r} ({len(taken)} of {len(names)} are "
                f"not); use RecordIndex.update to replace records"
            )
        return names

    def _insert(self, operation: str, documents: list[Document], names: list[str], replaced: list[str]) -> None:
        """Encode and store documents, then drop the labels that they replace."""
        if not documents:
            return
        texts = as_json(documents, operation)
        is_first = not self._encoder.fields
        before = list(self._encoder.fields)
        labels = [f"{next(self._revision):x}{_SEPARATOR}{name}" for name in names]
        try:
            self._memory.add(labels, self._encode(operation, documents))
        except BaseException:
            self._encoder.fields = before
            raise
        if replaced:
            self._memory.remove(replaced)
            self._forget(replaced)
        self._documents.add(labels, texts)
        for name in names:
            self._labels.pop(name, None)  # a replaced record moves to the end
        self._labels.update(zip(names, labels, strict=True))
        if is_first:
            self._calibrate()

    def _encode(self, operation: str, documents: list[Document]) -> Tensor:
        """Return the hypervectors of documents, after adding fields for their new paths."""
        parts = [slice(start, start + BATCH) for start in range(0, len(documents), BATCH)]
        found = [columns(documents[part], operation, first=part.start) for part in parts]
        if not self._encoder.has_fields(itertools.chain.from_iterable(found)):
            self._set_given_weights(self._encoder.fit(documents))
        vectors = torch.empty(len(documents), *self.space.shape, dtype=self.space.dtype)
        for part, one in zip(parts, found, strict=True):
            count = len(documents[part])
            vectors[part] = self._encoder.encode(self._encoder.prepare_columns(one, count))
        return vectors

    def _set_given_weights(self, new: Sequence[Field]) -> None:
        for field in new:
            field.weight = float(self._given_weights.get(field.name, field.weight))

    def _calibrate(self) -> None:
        """Fit the calibration after the first documents were added."""

    # ----------------------------------------------------------------------------------------------------------- files

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
                raise ValueError(f"{operation}: the first save needs a folder, got none")
            if not self._is_torch:
                raise ValueError(
                    f"{operation}: only an index with the torch backend can be saved, got {self._memory!r}; the "
                    f"vectors of other backends are in their own store"
                )
            path.mkdir(parents=True, exist_ok=True)
            with lock_folder(path, operation):
                self._documents.write(path, self._labels.values())
                write_encoder(path / FIELDS_NAME, self._encoder, self._calibration)
                self._memory.commit(path / _VECTORS)
                if path != self._folder:  # from now on vectors stay in the files
                    self._memory = ItemMemory.open(path / _VECTORS, space=self.space, device=self._device)
                self._documents.clean(path, self._removed)
                self._folder, self._removed = path, set()

    @classmethod
    def open(cls, folder: PathLike) -> Self:
        """Use a saved index without reading its vectors and documents into memory.

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
        if not (path / FIELDS_NAME).exists():
            raise FileNotFoundError(f"RecordIndex.open({str(folder)!r}): the folder has no index")
        encoder, calibration = read_encoder(path / FIELDS_NAME)
        index = cls(encoder.space, whole=encoder.whole)
        index._encoder, index._calibration, index._folder = encoder, calibration, path
        index._memory = ItemMemory.open(path / _VECTORS, space=encoder.space)
        index._documents = DocumentStore(path)
        index._labels = {id_of(label): label for label in index._memory.labels}
        last = max((int(label.partition(_SEPARATOR)[0], 16) for label in index._memory.labels), default=-1)
        index._revision = itertools.count(last + 1)
        return index


def id_of(label: str) -> str:
    return label.partition(_SEPARATOR)[2]


def as_list(operation: str, documents: Sequence[Document]) -> list[Document]:
    if isinstance(documents, Mapping | str | bytes) or not isinstance(documents, Iterable):
        raise TypeError(f"{operation}: needs a list of documents, got {describe(documents)}; put it into a list")
    return list(documents)


def _memory_settings(space: Space, storage: str | None, backend: str | Backend, uri: str | None) -> dict[str, Any]:
    """Return the arguments of the item memory."""
    if backend == "lancedb":
        from ghrr.search.lance_backend import LanceBackend  # noqa: PLC0415 (an optional package)

        if uri is None:
            raise ValueError('RecordIndex: backend="lancedb" needs a folder, got none; give uri="folder"')
        return {"backend": LanceBackend(2 * space.total_dim, uri)}
    settings: dict[str, Any] = {"backend": backend, "uri": uri}
    if backend == "torch":
        settings["storage"] = storage or "int8"
    elif storage is not None:
        settings["storage"] = storage
    return settings

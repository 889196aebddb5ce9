"""ItemStore: hypervectors with labels that can be added, removed, saved and read again."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr._old_checks import check_device, describe
from ghrr._old_files import PathLike, Space, check_space, lock_folder
from ghrr.hypervector import Hypervector
from ghrr.memory import persistence
from ghrr.memory.backends import Backend, Columns, MilvusBackend, TorchBackend, can_filter, check_columns, make_backend
from ghrr.memory.folder import Manifest, read_labels, read_manifest, read_rows, write_manifest
from ghrr.memory.labels import LabelTable, check_labels, repeated
from ghrr.memory.search import rows_per_chunk
from ghrr.memory.segment import Segment
from ghrr.memory.state import CommitPoint, State
from ghrr.memory.storage import Stored, as_rows, pack, unpack


class ItemStore:
    """Base class of :class:`ghrr.memory.ItemMemory`, which adds search and documents the parameters."""

    def __init__(
        self,
        space: Space,
        labels: Iterable[str] | None = None,
        vectors: Tensor | Hypervector | None = None,
        *,
        storage: str | None = None,
        backend: str | Backend = "torch",
        device: torch.device | str = "cpu",
        uri: str | None = None,
        timeout: float | None = None,
        approximate: bool = False,
    ) -> None:
        self.space = check_space("ItemMemory", space)
        initial_backend = make_backend(
            space,
            storage,
            backend,
            check_device("ItemMemory", device),
            uri=uri,
            timeout=timeout,
            approximate=approximate,
        )
        existing = initial_backend.existing()
        next_id = max(max(existing.values(), default=-1) + 1, initial_backend.first_id)
        self._lock = Lock()  # held while a new state is built
        self._state = State(LabelTable(existing, existing.values()), initial_backend, next_id)
        self._last_attempt = CommitPoint()  # the last commit that was begun
        self.about: dict[str, Any] | None = None
        if labels is not None:
            self.add(labels, vectors)
        elif vectors is not None:
            raise ValueError("ItemMemory: vectors need labels, got vectors without labels; give one string for each")

    def __len__(self) -> int:
        return len(self._state.labels)

    def __contains__(self, label: object) -> bool:
        return self._state.labels.find(label) is not None

    def __repr__(self) -> str:
        return f"ItemMemory({len(self)} items, {self.storage}, {type(self._state.backend).__name__}, {self.space})"

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._reading() as state:
            if isinstance(state.backend, MilvusBackend):
                raise TypeError(
                    "ItemMemory: a memory in Milvus cannot be copied or pickled, since both copies would change one "
                    "collection; create another ItemMemory with the same space and URI"
                )
            if isinstance(state.backend, TorchBackend):
                return vars(self) | {"_state": state}
            return vars(self) | {"_state": state._replace(backend=copy.deepcopy(state.backend))}

    @contextmanager
    def _reading(self) -> Iterator[State]:
        """Return a state that does not change inside a ``with`` block."""
        if isinstance(self._state.backend, TorchBackend):
            yield self._state
        else:
            with self._lock:
                yield self._state

    @property
    def labels(self) -> list[str]:
        """Labels in the order in which they were added."""
        return self._state.labels.names

    @property
    def folder(self) -> Path | None:
        """Folder that :meth:`commit` writes to by default; None before the first commit."""
        return self._state.commit.folder

    @property
    def storage(self) -> str:
        """Number type of the stored items."""
        return self._state.backend.storage

    # ------------------------------------------------------------------------------------------------------------ items

    @property
    def can_filter(self) -> bool:
        """Whether the backend stores columns of numbers and can search within bounds, as Milvus and LanceDB do."""
        return can_filter(self._state.backend)

    def _check_filter(self, operation: str) -> None:
        if not self.can_filter:
            raise ValueError(
                f"{operation}: {type(self._state.backend).__name__} has no columns to filter by; use Milvus"
            )

    def add(
        self,
        labels: str | Iterable[str],
        vectors: Tensor | Hypervector | None = None,
        *,
        columns: Columns | None = None,
    ) -> None:
        """Add items. If this raises, none is added.

        Parameters
        ----------
        labels
            Strings that are not in the memory, or a single one.
        vectors
            Hypervectors of the labels, on any device. By default the atoms of these names.
        columns
            Numbers by name, one per item and NaN where it is missing, that searches can set bounds on. The backend
            must be able to filter.

        Shapes
        ------
        vectors: ``(n, dim, m, m)``, or ``(dim, m, m)`` for one label; columns: ``(n,)``

        Examples
        --------
        >>> import ghrr
        >>> memory = ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0))
        >>> memory.add(["a", "b"])
        >>> memory.add("c")
        >>> memory.labels
        ['a', 'b', 'c']
        """
        operation = "ItemMemory.add"
        names = check_labels(operation, labels)
        vectors = self.space.check(self.space.vectors(names) if vectors is None else vectors)
        if isinstance(labels, str) and vectors.ndim == 3:
            vectors = vectors[None]
        if vectors.ndim != 4 or len(vectors) != len(names):
            shape = (len(names), *self.space.shape)
            raise ValueError(
                f"{operation}: vectors must have shape {shape} for {len(names)} labels, got {describe(vectors)}"
            )
        stored = pack(as_rows(operation, "vectors", vectors), self.storage)
        numbers = check_columns(operation, columns, len(names))
        if numbers:
            self._check_filter(operation)
        with self._lock:
            present = self._state.labels
            rejected = [name for name in names if present.find(name) is not None] or repeated(names)
            if rejected:
                raise ValueError(
                    f"{operation}: labels must be new and all different, got {rejected[0]!r} ({len(rejected)} of "
                    f"{len(names)} are not); remove the old item first, or use another label"
                )
            if names:
                first = self._state.next_id
                self._add(names, stored, torch.arange(first, first + len(names)), numbers)

    def _add(self, names: Sequence[str], stored: Stored, ids: Tensor, columns: Columns | None = None) -> None:
        """Add rows with new labels; the caller holds the lock."""
        numbers = ids.tolist()
        before = self._state._replace(next_id=numbers[-1] + 1)
        self._state = before  # even if adding fails: the backend may have used the ids
        backend = before.backend_to_change()
        after = before._replace(labels=before.labels.added(names, numbers), backend=backend)
        try:
            if columns and can_filter(backend):
                backend.add(ids, names, stored, columns)
            else:
                backend.add(ids, names, stored)
            self._state = after
        except BaseException:
            if backend is before.backend and len(backend) > len(before.labels):
                with suppress(ConnectionError, RuntimeError):  # the first error is more informative
                    backend.remove(ids)
            raise

    def remove(self, labels: str | Iterable[str]) -> None:
        """Remove items by label. If this raises, none is removed.

        Examples
        --------
        >>> import ghrr
        >>> memory = ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b", "c"])
        >>> memory.remove(["a", "c"])
        >>> memory.labels
        ['b']
        """
        operation = "ItemMemory.remove"
        names = check_labels(operation, labels)
        with self._lock:
            before = self._state
            ids = before.ids_of(operation, names)
            if repeated(names):
                raise ValueError(f"{operation}: labels must be different, got {repeated(names)[0]!r} twice")
            if not names:
                return
            backend = before.backend_to_change()
            after = before._replace(labels=before.labels.removed(names), backend=backend)
            try:
                backend.remove(ids.sort().values)
                self._state = after
            except BaseException:
                if backend is before.backend and len(backend) == len(after.labels):
                    self._state = after  # the error came after the items were removed
                raise

    def vectors(self, labels: str | Iterable[str] | None = None) -> Tensor:
        """Return the hypervectors of labels, or of all items in the order of :attr:`labels`.

        Narrow storage rounds them. They are on the device of the memory, without gradients.

        Parameters
        ----------
        labels
            Labels in any order, or a single one; by default all.

        Shapes
        ------
        output: ``(n, dim, m, m)``, for a single label ``(dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> memory = ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"])
        >>> memory.vectors().shape, memory.vectors("b").shape
        (torch.Size([2, 100, 2, 2]), torch.Size([100, 2, 2]))
        """
        operation = "ItemMemory.vectors"
        names = None if labels is None else check_labels(operation, labels)
        with self._reading() as state:
            ids = state.ids_of(operation, state.labels.names if names is None else names)
            if len(ids):
                vectors = state.vectors(self.space, ids)
                return vectors[0] if isinstance(labels, str) else vectors
            return self.space.zeros(0).to(getattr(state.backend, "device", "cpu"))

    # ------------------------------------------------------------------------------------------------------------ files

    def save(self, path: PathLike, *, about: dict[str, Any] | None = None) -> None:
        """Write all items to one safetensors file, completely or not at all, and wait until it is on disk.

        Parameters
        ----------
        path
            File to write, usually ``*.safetensors``.
        about
            JSON object to store with the items, for example how to decode them. It becomes the ``about`` attribute of
            this memory and of the memory that is read from the file. By default the current ``about``.

        Examples
        --------
        >>> import ghrr, tempfile, pathlib
        >>> from ghrr.memory import ItemMemory
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "items.safetensors"
        >>> ItemMemory(space, ["a", "b"]).save(path)
        >>> ItemMemory.load(path)
        ItemMemory(2 items, float32, TorchBackend, Space(dim=100, m=2, seed=0))
        """
        note = self.about if about is None else persistence.check_about(about)
        with self._reading() as state:
            persistence.write_items(path, self.space, state, state.labels.since(0), note)
        self.about = note

    def commit(self, folder: PathLike | None = None) -> None:
        """Write the items that were added and removed since the last commit to a folder, and wait until it is on disk.

        Readers of the folder see the state before or after the commit. There can be one writer at a time.

        Parameters
        ----------
        folder
            A new folder, or the one that this memory was opened from, loaded from or last committed to, which is the
            default.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> from ghrr.memory import ItemMemory
        >>> folder = tempfile.mkdtemp()
        >>> memory = ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"])
        >>> memory.commit(folder)
        >>> memory.add("c")
        >>> memory.commit()
        >>> ItemMemory.open(folder).labels
        ['a', 'b', 'c']
        """
        operation = "ItemMemory.commit"
        with self._lock:
            path = self._state.commit.folder if folder is None else persistence.real_path(folder)
            if path is None:
                raise ValueError(f"{operation}: the first commit needs a folder, got none")
            path.mkdir(parents=True, exist_ok=True)
            with lock_folder(path, operation):
                found = read_manifest(path)
                if found is not None and (path, found) == self._last_attempt[:2]:
                    # The last commit was interrupted after it took effect on disk.
                    self._state = self._state._replace(commit=self._last_attempt)
                state = self._state
                point = persistence.write_changes(path, found, self.space, state, self.about)
                if point is not None:
                    self._last_attempt = point
                    write_manifest(path, point.manifest)
                    self._state = state._replace(commit=point, backend=persistence.reopened(state.backend, point))

    @classmethod
    def load(
        cls,
        path: PathLike,
        *,
        space: Space | None = None,
        backend: str | Backend = "torch",
        device: torch.device | str = "cpu",
        uri: str | None = None,
        timeout: float | None = None,
    ) -> Self:
        """Read the items of :meth:`save` or :meth:`commit` into memory and check all of them.

        Parameters
        ----------
        path
            A file or a folder.
        space
            Expected space of the items; by default any.
        backend, device, uri, timeout
            As in :class:`ItemMemory`. With faiss and Milvus, items of other number types become float32.

        Raises
        ------
        FileNotFoundError
            There is no such file, or the folder holds no items.
        ValueError
            The items are of another space, or a file was truncated or changed.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"]).commit(folder)
        >>> ghrr.ItemMemory.load(folder).labels
        ['a', 'b']
        """
        manifest, segments = persistence.read_items(path, space)
        storage = segments[0].storage if backend == "torch" else None
        memory = cls(segments[0].space, storage=storage, backend=backend, device=device, uri=uri, timeout=timeout)
        if len(memory):
            raise ValueError(f"ItemMemory.load: the backend must be empty, got one with {len(memory)} items")
        read_labels(segments, manifest.removed)  # raises for a repeated label
        is_same_storage = memory.storage == segments[0].storage
        offset = memory._state.next_id  # not 0 for a Milvus collection that was emptied
        try:
            for ids, names, stored in read_rows(segments, manifest.removed, rows_per_chunk(2 * memory.space.total_dim)):
                rows = stored if is_same_storage else pack(unpack(stored, torch.float32), memory.storage)
                memory._add(names, rows, ids + offset)
        except BaseException:
            with suppress(ConnectionError, RuntimeError):  # the first error is more informative
                memory.remove(memory.labels)  # Milvus must not keep half of a file
            raise
        memory._read_from(path, Manifest() if offset else manifest, segments)
        return memory

    @classmethod
    def open(cls, path: PathLike, *, space: Space | None = None, device: torch.device | str = "cpu") -> Self:
        """Use the items of a file or a folder without reading them into memory.

        Opening reads and checks the labels. Items are read chunk by chunk for each search; :meth:`verify` checks them.
        You can add items: they stay in memory until :meth:`commit` writes them to a folder. The opened files stay
        readable if a writer replaces them.

        Parameters
        ----------
        path
            A file or a folder.
        space
            Expected space of the items; by default any.
        device
            Device that computes.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> ghrr.ItemMemory(space, ["a", "b"]).commit(folder)
        >>> ghrr.ItemMemory.open(folder).cleanup(space.vectors(["b"])).labels
        [['b']]
        """
        manifest, segments = persistence.read_items(path, space)
        memory = cls(segments[0].space, storage=segments[0].storage, device=device)
        labels = read_labels(segments, manifest.removed)
        backend = memory._state.backend_to_change()
        assert isinstance(backend, TorchBackend)
        backend.use_segments(segments, manifest.removed)
        next_id = max((int(segment.ids[-1]) + 1 for segment in segments if segment.count), default=0)
        memory._state = State(labels, backend, next_id)
        memory._read_from(path, manifest, segments)
        return memory

    def _read_from(self, path: PathLike, manifest: Manifest, segments: Sequence[Segment]) -> None:
        """Remember the ``about`` object of the files, and the folder, so that commits go there."""
        self.about = persistence.last_about(segments)
        if manifest.entries and self.storage == segments[0].storage:
            commit = CommitPoint(persistence.real_path(path), manifest, self._state.labels)
            self._state = self._state._replace(commit=commit, next_id=manifest.next_id)

    def verify(self) -> None:
        """Read all items of an opened memory and compare them with their checksums; raise ValueError for damage.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"]).commit(folder)
        >>> ghrr.ItemMemory.open(folder).verify()
        """
        backend = self._state.backend
        if isinstance(backend, TorchBackend):
            for segment in backend.segments:
                for _ in segment.verified_chunks(rows_per_chunk(2 * self.space.total_dim)):
                    pass

"""ItemMemory: hypervectors by label, and the exact answer to which of them a noisy one is."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ghrr import algebra
from ghrr._checks import check_integer, describe
from ghrr._locks import Lock
from ghrr.files import parse_json
from ghrr.hypervector import Hypervector
from ghrr.memory.backend import Backend
from ghrr.memory.backend_milvus import MilvusBackend
from ghrr.memory.backend_torch import TorchBackend
from ghrr.memory.folder import (
    Manifest,
    open_entry,
    open_segments,
    read_labels,
    read_manifest,
    read_rows,
    write_items,
    write_manifest,
    writing,
)
from ghrr.memory.inputs import as_rows, checked_labels, repeated
from ghrr.memory.labels import LabelTable
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, expected_score, make_matches
from ghrr.memory.search import rows_per_chunk
from ghrr.memory.segment import Segment, write_segment
from ghrr.memory.selection import make_backend
from ghrr.memory.storage import Stored, pack, unpack
from ghrr.space import Space, check_space

PathLike = str | os.PathLike[str]
_ATOM = 1.01  # an atom has the energy 1, to the rounding of narrow storage


class Cleanup(NamedTuple):
    """What cleanup found, best first: ``labels``, lists nested as ``(*batch, k)``, and ``scores``, ``(*batch, k)``."""

    labels: list[Any]
    scores: Tensor


class _Commit(NamedTuple):
    """What a folder holds: its manifest, and the labels at the time it was written."""

    folder: Path | None = None
    manifest: Manifest = Manifest()
    labels: LabelTable = LabelTable()


class _State(NamedTuple):
    """The items. A change makes a new state, which replaces the old one in a single assignment."""

    labels: LabelTable
    backend: Backend  # a TorchBackend belongs to one state; others are changed in place
    next_id: int
    commit: _Commit


class ItemMemory:
    r"""Hypervectors by label. ``cleanup`` finds those most similar to a query, exactly: every item is compared.

    Items can be added, one by one or many at once, and removed. :meth:`save` writes all of them to one file;
    :meth:`commit` writes what is new to a folder. :meth:`load` reads either into memory, :meth:`open` leaves the items
    in the file and reads them chunk by chunk, for memories that are larger than RAM.

    Several threads may use one memory. Changes wait for each other; a search, or any other reading, sees all of a
    change or nothing of it and does not wait, except with faiss and Milvus, where it waits for the other calls. An
    interrupted change, by Ctrl-C for example, is done or not done at all.

    Copies and pickles are memories of their own. What was opened from a file reads the same file: a pickle opens it
    again by its path, and raises if another file is there now. A memory in Milvus cannot be copied; make another one
    with the same URI.

    Parameters
    ----------
    space
        Where the items live.
    labels
        Strings, no two alike.
    vectors
        Their hypervectors; left out, they are the atoms of these names.
    storage
        How numbers are kept: ``"float32"``, ``"float64"``, ``"bfloat16"``, ``"float16"`` or ``"int8"`` with a scale for
        each item. The default is the precision of the space. 16 bits halve the room and int8 quarters it;
        ``benchmarks/memory.py`` measures what that costs.
    backend
        ``"torch"``; ``"faiss"``, on one machine; ``"milvus"``, in a file, on a server or a cluster; or an object with
        the methods of :class:`ghrr.memory.Backend`. All give the same answers, to rounding; faiss and Milvus keep
        float32.
    device
        Where the torch backend keeps items and computes.
    uri
        Where Milvus is: a path, or an address such as ``"http://localhost:19530"``.
    timeout
        Seconds to wait for an answer of Milvus; 60 by default.

    Shapes
    ------
    vectors: ``(n, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.memory import ItemMemory
    >>> space = ghrr.Space(dim=300, m=2, seed=0)
    >>> memory = ItemMemory(space, ["red", "green", "blue"])
    >>> memory
    ItemMemory(3 items, float32, TorchBackend, Space(dim=300, m=2, seed=0))
    >>> noisy = ghrr.bundle(space.vectors(["green", "a", "b", "c"]))
    >>> memory.cleanup(noisy, k=2).labels
    ['green', 'blue']
    >>> memory.match(noisy)
    Match('green', score=1.012, margin=0.987, confident=True)
    """

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
    ) -> None:
        self.space = check_space("ItemMemory", space)
        made = make_backend(space, storage, backend, torch.device(device), uri=uri, timeout=timeout)
        existing = made.existing()  # by label, in the order of ids
        next_id = max(max(existing.values(), default=-1) + 1, made.first_id)
        self._lock = Lock()  # held while a new state is built
        self._state = _State(LabelTable(existing, existing.values()), made, next_id, _Commit())
        self._attempt = _Commit()  # the last commit that was begun
        self.about: dict[str, Any] | None = None  # what the file says that this was read from
        if labels is not None:
            self.add(labels, vectors)
        elif vectors is not None:
            raise ValueError("ItemMemory: vectors were given without labels; give a string for each")

    def __len__(self) -> int:
        return len(self._state.labels)

    def __contains__(self, label: object) -> bool:
        return self._state.labels.find(label) is not None

    def __repr__(self) -> str:
        return f"ItemMemory({len(self)} items, {self.storage}, {type(self._state.backend).__name__}, {self.space})"

    def __copy__(self) -> ItemMemory:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        with self._reading() as state:
            if isinstance(state.backend, MilvusBackend):
                raise TypeError(
                    "ItemMemory: a memory in Milvus cannot be copied or pickled, since both would change one "
                    "collection; make another ItemMemory with the same space and URI"
                )
            if isinstance(state.backend, TorchBackend):
                return vars(self) | {"_state": state}
            return vars(self) | {"_state": state._replace(backend=copy.deepcopy(state.backend))}

    @contextmanager
    def _reading(self) -> Iterator[_State]:
        """Give a state that does not change inside a ``with`` block."""
        if isinstance(self._state.backend, TorchBackend):
            yield self._state
        else:
            with self._lock:
                yield self._state

    @property
    def labels(self) -> list[str]:
        """The labels, in the order in which they were added."""
        return self._state.labels.names

    @property
    def storage(self) -> str:
        """How numbers are kept."""
        return self._state.backend.storage

    def add(self, labels: str | Iterable[str], vectors: Tensor | Hypervector | None = None) -> None:
        """Put in items: all of them, or with an error none.

        Parameters
        ----------
        labels
            Strings that are not in the memory yet; or one.
        vectors
            Their hypervectors; left out, they are the atoms of these names.

        Shapes
        ------
        vectors: ``(n, dim, m, m)``, or ``(dim, m, m)`` for one label
        """
        operation = "ItemMemory.add"
        names = checked_labels(operation, labels)
        vectors = self.space.check(self.space.vectors(names) if vectors is None else vectors, operation)
        if isinstance(labels, str) and vectors.ndim == 3:
            vectors = vectors[None]
        if vectors.ndim != 4 or len(vectors) != len(names):
            shape = (len(names), *self.space.shape)
            raise ValueError(f"{operation}: {len(names)} labels need vectors of shape {shape}, got {describe(vectors)}")
        stored = pack(as_rows(operation, "vectors", vectors), self.storage)
        with self._lock:
            found = self._state.labels
            doubled = [name for name in names if found.find(name) is not None] or repeated(names)
            if doubled:
                raise ValueError(
                    f"{operation}: {doubled[0]!r} is there already, or given twice; labels must differ "
                    f"({len(doubled)} of {len(names)} do not). Remove the old item first, or choose another label"
                )
            if names:
                first = self._state.next_id
                self._add(names, stored, torch.arange(first, first + len(names)))

    def _add(self, names: Sequence[str], stored: Stored, ids: Tensor) -> None:
        """Add rows with new labels; the caller holds the lock."""
        numbers = ids.tolist()
        before = self._state._replace(next_id=numbers[-1] + 1)
        self._state = before  # whatever happens: a backend may have used the ids up
        backend = _to_change(before.backend)
        after = before._replace(labels=before.labels.added(names, numbers), backend=backend)
        try:
            backend.add(ids, names, stored)
            self._state = after
        except BaseException:
            if backend is before.backend and len(backend) > len(before.labels):
                with suppress(ConnectionError, RuntimeError):  # then the error that is under way says more
                    backend.remove(ids)
            raise

    def remove(self, labels: str | Iterable[str]) -> None:
        """Take out items by label: all of them, or with an error none."""
        operation = "ItemMemory.remove"
        names = checked_labels(operation, labels)
        with self._lock:
            before = self._state
            ids = _ids_of(before, operation, names)
            if repeated(names):
                raise ValueError(f"{operation}: {repeated(names)[0]!r} is given twice")
            if not names:
                return
            backend = _to_change(before.backend)
            after = before._replace(labels=before.labels.removed(names), backend=backend)
            try:
                backend.remove(ids.sort().values)
                self._state = after
            except BaseException:
                if backend is before.backend and len(backend) == len(after.labels):
                    self._state = after  # the items are removed, whatever came afterwards
                raise

    def vectors(self, labels: str | Iterable[str]) -> Tensor:
        """The hypervectors of some labels, on the CPU, as they are kept: with narrow storage rounded.

        Shapes
        ------
        output: ``(n, dim, m, m)``
        """
        operation = "ItemMemory.vectors"
        names = checked_labels(operation, labels)
        with self._reading() as state:
            return self._vectors(state, _ids_of(state, operation, names))

    def _vectors(self, state: _State, ids: Tensor) -> Tensor:
        if not len(ids):
            return self.space.zeros(0)
        ascending, places = torch.unique(ids, return_inverse=True)
        rows = unpack(state.backend.stored(ascending), self.space.dtype.to_real())
        return torch.view_as_complex(rows[places].reshape(-1, *self.space.shape, 2))

    def cleanup(self, queries: Tensor | Hypervector, k: int = 1) -> Cleanup:
        """The k items most similar to each query, most similar first; of equal scores the item added first.

        Every item is compared with every query, chunk by chunk: the extra memory does not grow with the number of
        items. With fewer than k items there are fewer answers.

        Parameters
        ----------
        queries
            Hypervectors of the space of this memory.
        k
            How many items to give for each.

        Shapes
        ------
        queries: ``(*batch, dim, m, m)``; output: labels and scores ``(*batch, min(k, n))``

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.memory import ItemMemory
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> memory = ItemMemory(space, ["a", "b", "c"])
        >>> found = memory.cleanup(space.vectors(["c", "a"]), k=2)
        >>> [best for best, second in found.labels]
        ['c', 'a']
        >>> found.scores.shape
        torch.Size([2, 2])
        """
        operation = "ItemMemory.cleanup"
        k = check_integer(operation, "k", k, least=1)
        queries = self.space.check(queries, operation)
        rows = as_rows(operation, "queries", queries)
        with self._reading() as state:
            found, scores = self._search(state, rows, k)
            shape = (*queries.shape[:-3], scores.shape[-1])
            labels = np.empty(found.numel(), dtype=object)
            labels[:] = _labels_of(state, operation, found)
        real = self.space.dtype.to_real()
        return Cleanup(labels.reshape(shape).tolist(), scores.to(queries.device, real).reshape(shape))

    def _search(self, state: _State, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Ids and scores of the k best items, ``(q, k)``; fewer if there are fewer."""
        k = min(k, len(state.labels))
        if not len(rows) or not k:
            return torch.empty(len(rows), k, dtype=torch.int64), torch.empty(len(rows), k)
        products, ids = state.backend.search(rows, k)
        return ids, products / (self.space.m * self.space.dim)

    def match(self, queries: Tensor | Hypervector, *, confidence: float = CONFIDENCE) -> Match | list[Match]:
        r"""The best item for each query, and how sure that is: see :class:`Match`.

        The load is read off the query, :math:`E = \delta(q, q)`: a bundle of n items has about n. So a query must not
        have been normalised. Items may be bundles too: a query of some fields of a record finds the record, and its
        score is the share of the query that is there, 1 for all of it (see :mod:`ghrr.memory.match`).

        Shapes
        ------
        queries: ``(dim, m, m)``, which gives a Match, or ``(n, dim, m, m)``, which gives a list

        Examples
        --------
        >>> import ghrr
        >>> codec = ghrr.Record(ghrr.Space(dim=500, m=3, seed=0))
        >>> people = [{"name": name, "city": "London", "age": age} for name, age in (("Ada", 36), ("Alan", 41))]
        >>> memory = ghrr.ItemMemory(codec.space, ["Ada", "Alan"], codec.encode_many(people))
        >>> memory.match(codec.encode({"name": "Ada", "city": "London"}))
        Match('Ada', score=0.997, margin=0.493, confident=True)
        """
        operation = "ItemMemory.match"
        queries = self.space.check(queries, operation)
        with self._reading() as state:
            if queries.ndim > 4 or not len(state.labels):
                raise ValueError(
                    f"{operation}: needs a memory that is not empty and queries of shape (n, dim, m, m) or "
                    f"(dim, m, m); got {describe(queries)} and {len(state.labels)} items"
                )
            batch = queries.reshape(-1, *self.space.shape)
            ids, scores = self._search(state, as_rows(operation, "queries", batch), 2)
            names = _labels_of(state, operation, ids)
            parts = self._energies(state, ids.cpu())
        labels = [names[start : start + ids.shape[1]] for start in range(0, len(names), ids.shape[1])]
        load = algebra.similarity(batch, batch).double().cpu()[:, None]
        expected = expected_score(load, parts)
        noise = answer_noise(self.space, load, candidate_energy=parts).amax(dim=1)
        scores = scores.to(self.space.dtype.to_real()).double().cpu()
        order = (scores - expected).argsort(dim=1, descending=True, stable=True)
        matches = make_matches(
            [[row[place] for place in places] for row, places in zip(labels, order.tolist(), strict=True)],
            scores.gather(1, order),
            candidates=len(state.labels),
            noise=noise,
            confidence=confidence,
            expected=expected.gather(1, order),
        )
        return matches[0] if queries.ndim == 3 else matches

    def _energies(self, state: _State, ids: Tensor) -> Tensor:
        """How much is bundled in each of these items; 1 for what is an atom but for rounding."""
        different, places = torch.unique(ids, return_inverse=True)
        step = rows_per_chunk(2 * self.space.total_dim, 1)
        parts = [self._vectors(state, some) for some in different.split(step)]
        energies = torch.cat([torch.empty(0), *(algebra.similarity(x, x) for x in parts)]).double()
        return torch.where(energies < _ATOM, 1.0, energies)[places]

    def save(self, path: PathLike, *, about: dict[str, Any] | None = None) -> None:
        """Write all items to one safetensors file, complete or not at all. When this returns they are on the disk.

        A JSON object ``about`` them is kept in the file and is the ``about`` of the memory that is read from it: how to
        decode them, for example. Without one, that of this memory is kept.

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
        note = self.about if about is None else _checked_note(about)
        with self._reading() as state:
            self._write(state, path, state.labels.since(0), note)
        self.about = note

    def _write(self, state: _State, path: PathLike, items: dict[str, int], about: dict[str, Any] | None) -> str:
        step = rows_per_chunk(2 * self.space.total_dim, 1)
        return write_segment(path, self.space, self.storage, items, state.backend.stored, step=step, about=about)

    def commit(self, folder: PathLike | None = None) -> None:
        """Write what was added and removed since the last time to a folder. When this returns it is on the disk.

        The folder is new, or the one that this memory was opened from, loaded from or last committed to; that one is
        also the default. Readers see the state before or after, never one in between; there can be one writer.

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
        with self._lock:
            last = self._state.commit.folder
            if folder is None and last is None:
                raise ValueError("ItemMemory.commit: name a folder; this memory was not committed to one before")
            path = last if folder is None or last == _real(folder) else _real(folder)
            assert path is not None
            path.mkdir(parents=True, exist_ok=True)
            with writing(path):
                self._write_to(path)

    def _write_to(self, path: Path) -> None:
        """Write changes to a folder; the caller holds the lock of the memory and that of the folder."""
        found = read_manifest(path)
        if found is not None and (path, found) == self._attempt[:2]:
            # The last commit was interrupted after it had taken effect on the disk.
            self._state = self._state._replace(commit=self._attempt)
        state = self._state
        known = state.commit if path == state.commit.folder else _Commit()
        if (found or Manifest()) != known.manifest:
            raise ValueError(
                f"ItemMemory.commit: {str(path)!r} holds other items than this memory knows of: another process "
                f"wrote to it, or it is another memory's. Read it with ItemMemory.open, or choose a new folder"
            )
        removed = known.manifest.removed.union(known.labels.missing_from(state.labels))
        if found is not None and state.next_id == found.next_id and removed == found.removed:
            return
        manifest = write_items(
            path,
            known.manifest,
            removed=removed,
            next_id=state.next_id,
            since=state.labels.since,
            write=lambda target, items: self._write(state, target, items, self.about),
        )
        self._attempt = _Commit(path, manifest, state.labels)
        write_manifest(path, manifest)
        self._state = state._replace(commit=self._attempt, backend=_mapped(state.backend, path, manifest))

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
    ) -> ItemMemory:
        """Read what :meth:`save` or :meth:`commit` wrote into memory, checking all of it.

        Parameters
        ----------
        path
            A file or a folder.
        space
            Refuse items of another space than this.
        backend, device, uri, timeout
            As of :class:`ItemMemory`; with faiss and Milvus items of other types become float32.

        Raises
        ------
        FileNotFoundError
            Nothing is there.
        ValueError
            It is not of this library or of this space, or was cut short or changed since it was written.
        """
        manifest, segments = _read(path, space)
        storage = segments[0].storage if backend == "torch" else None
        memory = cls(segments[0].space, storage=storage, backend=backend, device=device, uri=uri, timeout=timeout)
        if len(memory):
            raise ValueError(f"ItemMemory.load: the backend holds {len(memory)} items already; give an empty one")
        read_labels(segments, manifest.removed)  # raises for a label that two items have
        step = rows_per_chunk(2 * memory.space.total_dim, 1)
        same = memory.storage == segments[0].storage
        shift = memory._state.next_id  # a collection of Milvus that was emptied does not use its ids again
        try:
            for ids, names, stored in read_rows(segments, manifest.removed, step):
                rows = stored if same else pack(unpack(stored, torch.float32), memory.storage)
                memory._add(names, rows, ids + shift)
        except BaseException:
            with suppress(ConnectionError, RuntimeError):  # then the error that is under way says more
                memory.remove(memory.labels)  # a backend that outlives the program must not keep half of a file
            raise
        memory._belongs_to(path, Manifest() if shift else manifest, segments)
        return memory

    @classmethod
    def open(cls, path: PathLike, *, space: Space | None = None, device: torch.device | str = "cpu") -> ItemMemory:
        """Leave items where they are, in a file or a folder, and read them chunk by chunk when they are needed.

        Opening reads and checks the labels, not the items; :meth:`verify` checks those. Items can be added: they are in
        memory until :meth:`commit` writes them to a folder. Files stay readable when a writer replaces them meanwhile.

        Parameters
        ----------
        path
            A file or a folder.
        space
            Refuse items of another space than this.
        device
            Where to compute.
        """
        manifest, segments = _read(path, space)
        memory = cls(segments[0].space, storage=segments[0].storage, device=device)
        labels = read_labels(segments, manifest.removed)
        backend = _to_change(memory._state.backend)
        assert isinstance(backend, TorchBackend)
        backend.map(segments, manifest.removed)
        next_id = max((int(segment.ids[-1]) + 1 for segment in segments if segment.count), default=0)
        memory._state = memory._state._replace(labels=labels, backend=backend, next_id=next_id)
        memory._belongs_to(path, manifest, segments)
        return memory

    def _belongs_to(self, path: PathLike, manifest: Manifest, segments: Sequence[Segment]) -> None:
        """Remember the folder that this memory was read from, to commit to it, and what the file says."""
        self.about = next((s.about for s in reversed(segments) if s.about is not None), None)
        if manifest.entries and self.storage == segments[0].storage:
            commit = _Commit(_real(path), manifest, self._state.labels)
            self._state = self._state._replace(commit=commit, next_id=manifest.next_id)

    def verify(self) -> None:
        """Read all items that are in files and compare them with their checksums; raises ValueError for damage."""
        backend = self._state.backend
        if isinstance(backend, TorchBackend):
            for segment in backend.segments:
                for _ in segment.chunks(rows_per_chunk(2 * self.space.total_dim, 1)):
                    pass


def _to_change(backend: Backend) -> Backend:
    """The backend to make a change in: one that readers do not see yet, if it can give one."""
    return backend.snapshot() if isinstance(backend, TorchBackend) else backend


def _mapped(backend: Backend, folder: Path, manifest: Manifest) -> Backend:
    """The backend of an opened memory with the files of its folder instead of rows in memory; others as they are."""
    if not isinstance(backend, TorchBackend) or not backend.segments:
        return backend
    opened = {(segment.path.name, segment.checksum): segment for segment in backend.segments}
    entries = manifest.entries
    segments = [opened.get((entry.name, entry.sha256)) or open_entry(folder, entry) for entry in entries]
    after = backend.snapshot()
    after.map(segments, manifest.removed)
    return after


def _ids_of(state: _State, operation: str, names: list[str]) -> Tensor:
    ids = []
    for name in names:
        number = state.labels.find(name)
        if number is None:
            raise KeyError(f"{operation}: {name!r} is not among the {len(state.labels)} labels of this memory")
        ids.append(number)
    return torch.tensor(ids, dtype=torch.int64)


def _labels_of(state: _State, operation: str, ids: Tensor) -> list[str]:
    try:
        return [state.labels.name_of(number) for number in ids.flatten().tolist()]
    except KeyError as error:
        raise RuntimeError(
            f"{operation}: the backend found id {error}, which is none of this memory's {len(state.labels)} items; "
            f"another program changed what it holds. Make the ItemMemory again"
        ) from None


def _read(path: PathLike, space: Space | None) -> tuple[Manifest, list[Segment]]:
    """What a file or a folder holds."""
    folder = Path(path)
    manifest, segments = open_segments(folder) if folder.is_dir() else (Manifest(), [Segment(path)])
    if space is not None and segments[0].space != space:
        raise ValueError(f"ItemMemory: {str(path)!r} holds items of {segments[0].space}, not of {space}")
    return manifest, segments


def _checked_note(about: Any) -> dict[str, Any]:
    try:
        if not isinstance(about, dict):
            raise TypeError("not a dict")
        parse_json(json.dumps(about, allow_nan=False), "about")  # what is nested too deeply could not be read
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"ItemMemory.save: about must be a JSON object, got {describe(about)} ({error})") from error
    return about


def _real(path: PathLike) -> Path:
    return Path(os.path.realpath(path))

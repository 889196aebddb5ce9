"""ItemMemory: hypervectors by label, and the exact answer to which of them a noisy one is."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ghrr import algebra
from ghrr._checks import check_integer, describe
from ghrr.hypervector import Hypervector
from ghrr.memory.backend import Backend
from ghrr.memory.backend_torch import TorchBackend
from ghrr.memory.folder import Manifest, open_segments, read_manifest, read_rows, update, writing
from ghrr.memory.inputs import as_rows, checked_labels, repeated
from ghrr.memory.match import LEVEL, Match, answer_noise, expected_score, make_matches
from ghrr.memory.search import rows_per_chunk
from ghrr.memory.segment import Segment, write_segment
from ghrr.memory.selection import make_backend
from ghrr.memory.storage import pack, unpack
from ghrr.space import Space

PathLike = str | os.PathLike[str]
_ATOM = 1.01  # an atom has the energy 1, to the rounding of narrow storage


class Cleanup(NamedTuple):
    """What cleanup found, best first: ``labels``, lists nested as ``(*batch, k)``, and ``scores``, ``(*batch, k)``."""

    labels: list[Any]
    scores: Tensor


class ItemMemory:
    r"""Hypervectors by label. ``cleanup`` finds those most similar to a query, exactly: every item is compared.

    Items can be added, one by one or many at once, and removed. :meth:`save` writes all of them to one file;
    :meth:`commit` writes what is new to a folder. :meth:`load` reads either into memory, :meth:`open` leaves the items
    in the file and reads them chunk by chunk, for memories that are larger than RAM.

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
        if not isinstance(space, Space):
            raise TypeError(f"ItemMemory: space must be a Space, got {describe(space)}")
        self.space = space
        self._backend = make_backend(space, storage, backend, torch.device(device), uri=uri, timeout=timeout)
        self._ids = self._backend.existing()  # by label, in the order of ids
        self._names = {number: label for label, number in self._ids.items()}
        self._next_id = max(max(self._names, default=-1) + 1, self._backend.first_id)
        self._folder: Path | None = None
        self._manifest = Manifest()
        self._removed: set[int] = set()  # ids in files of the folder
        self.about: dict[str, Any] | None = None  # what the file says that this was read from
        if labels is not None:
            self.add(labels, vectors)
        elif vectors is not None:
            raise ValueError("ItemMemory: vectors were given without labels; give a string for each")

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, label: object) -> bool:
        return label in self._ids

    def __repr__(self) -> str:
        return f"ItemMemory({len(self)} items, {self.storage}, {type(self._backend).__name__}, {self.space})"

    @property
    def labels(self) -> list[str]:
        """The labels, in the order in which they were added."""
        return list(self._ids)

    @property
    def storage(self) -> str:
        """How numbers are kept."""
        return self._backend.storage

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
        doubled = [name for name in names if name in self._ids] or repeated(names)
        if doubled:
            raise ValueError(
                f"{operation}: {doubled[0]!r} is there already, or given twice; labels must differ "
                f"({len(doubled)} of {len(names)} do not). Remove the old item first, or choose another label"
            )
        if vectors is None:
            vectors = self.space.vectors(names)
        vectors = self.space.check(vectors, operation)
        if isinstance(labels, str) and vectors.ndim == 3:
            vectors = vectors[None]
        if vectors.ndim != 4 or len(vectors) != len(names):
            shape = (len(names), *self.space.shape)
            raise ValueError(f"{operation}: {len(names)} labels need vectors of shape {shape}, got {describe(vectors)}")
        if not names:
            return
        ids = torch.arange(self._next_id, self._next_id + len(names))
        self._next_id += len(names)  # whatever happens: part of them may be there after an error
        self._backend.add(ids, names, pack(as_rows(operation, "vectors", vectors), self.storage))
        self._know(names, ids)

    def _know(self, names: Sequence[str], ids: Tensor) -> None:
        numbers = ids.tolist()
        self._ids.update(zip(names, numbers, strict=True))
        self._names.update(zip(numbers, names, strict=True))
        self._next_id = max(self._next_id, numbers[-1] + 1)

    def remove(self, labels: str | Iterable[str]) -> None:
        """Take out items by label: all of them, or with an error none."""
        operation = "ItemMemory.remove"
        names = checked_labels(operation, labels)
        ids = self._ids_of(operation, names)
        if repeated(names):
            raise ValueError(f"{operation}: {repeated(names)[0]!r} is given twice")
        if not names:
            return
        self._backend.remove(ids.sort().values)
        for name in names:
            del self._names[self._ids.pop(name)]
        self._removed |= {number for number in ids.tolist() if number < self._manifest.next_id}

    def vectors(self, labels: str | Iterable[str]) -> Tensor:
        """The hypervectors of some labels, on the CPU, as they are kept: with narrow storage rounded.

        Shapes
        ------
        output: ``(n, dim, m, m)``
        """
        operation = "ItemMemory.vectors"
        ids = self._ids_of(operation, checked_labels(operation, labels))
        if not len(ids):
            return self.space.empty(0)
        ascending, places = torch.unique(ids, return_inverse=True)
        rows = unpack(self._backend.stored(ascending), self.space.dtype.to_real())
        return torch.view_as_complex(rows[places].reshape(-1, *self.space.shape, 2))

    def _ids_of(self, operation: str, names: list[str]) -> Tensor:
        for name in names:
            if name not in self._ids:
                raise KeyError(f"{operation}: {name!r} is not among the {len(self)} labels of this memory")
        return torch.tensor([self._ids[name] for name in names], dtype=torch.int64)

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
        k = min(check_integer(operation, "k", k, least=1), len(self))
        queries = self.space.check(queries, operation)
        shape = (*queries.shape[:-3], k)
        real = self.space.dtype.to_real()
        rows = as_rows(operation, "queries", queries)
        if not len(rows) or not k:
            return Cleanup(
                np.empty(shape, dtype=object).tolist(), torch.empty(shape, dtype=real, device=queries.device)
            )
        products, ids = self._backend.search(rows, k)
        labels = np.empty(ids.numel(), dtype=object)
        try:
            labels[:] = [self._names[number] for number in ids.flatten().tolist()]
        except KeyError as error:
            raise RuntimeError(
                f"{operation}: the backend found id {error}, which is none of this memory's {len(self)} items; another "
                f"program changed what it holds. Make the ItemMemory again"
            ) from None
        scores = (products / (self.space.m * self.space.dim)).to(queries.device, real)
        return Cleanup(labels.reshape(shape).tolist(), scores.reshape(shape))

    def match(self, queries: Tensor | Hypervector, *, level: float = LEVEL) -> Match | list[Match]:
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
        if queries.ndim > 4 or not len(self):
            raise ValueError(
                f"{operation}: needs a memory that is not empty and queries of shape (n, dim, m, m) or (dim, m, m); "
                f"got {describe(queries)} and {len(self)} items"
            )
        batch = queries.reshape(-1, *self.space.shape)
        labels, scores = self.cleanup(batch, k=2)
        load = algebra.similarity(batch, batch).double().cpu()[:, None]
        parts = self._energies(labels).reshape(scores.shape)
        expected = expected_score(load, parts)
        noise = answer_noise(self.space, load, candidate_energy=parts).amax(dim=1)
        scores = scores.double().cpu()
        order = (scores - expected).argsort(dim=1, descending=True, stable=True)
        matches = make_matches(
            [[row[place] for place in places] for row, places in zip(labels, order.tolist(), strict=True)],
            scores.gather(1, order),
            candidates=len(self),
            noise=noise,
            level=level,
            expected=expected.gather(1, order),
        )
        return matches[0] if queries.ndim == 3 else matches

    def _energies(self, labels: list[list[str]]) -> Tensor:
        """How much is bundled in each of these items; 1 for what is an atom but for rounding."""
        names = list(dict.fromkeys(itertools.chain.from_iterable(labels)))
        step = rows_per_chunk(2 * self.space.total_dim, 1)
        parts = [self.vectors(names[start : start + step]) for start in range(0, len(names), step)]
        energies = torch.cat([torch.empty(0), *(algebra.similarity(x, x) for x in parts)]).double()
        found = dict(zip(names, torch.where(energies < _ATOM, 1.0, energies).tolist(), strict=True))
        return torch.tensor([[found[name] for name in row] for row in labels], dtype=torch.float64)

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
        self.about = self.about if about is None else _checked_note(about)
        self._write(path, self._ids)

    def _write(self, path: PathLike, items: dict[str, int]) -> str:
        step = rows_per_chunk(2 * self.space.total_dim, 1)
        return write_segment(path, self.space, self.storage, items, self._backend.stored, step=step, about=self.about)

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
        if folder is None and self._folder is None:
            raise ValueError("ItemMemory.commit: name a folder; this memory was not committed to one before")
        path = self._folder if folder is None or self._folder == _real(folder) else _real(folder)
        assert path is not None
        path.mkdir(parents=True, exist_ok=True)
        with writing(path):
            known = self._manifest if path == self._folder else Manifest()
            found = read_manifest(path)
            if (found or Manifest()) != known:
                raise ValueError(
                    f"ItemMemory.commit: {str(path)!r} holds other items than this memory knows of: another process "
                    f"wrote to it, or it is another memory's. Read it with ItemMemory.open, or choose a new folder"
                )
            removed = self._removed if path == self._folder else set()
            if found is not None and self._next_id == known.next_id and removed == known.removed:
                return
            manifest, kept = update(
                path, known, removed=removed, next_id=self._next_id, since=self._since, write=self._write
            )
        if isinstance(self._backend, TorchBackend) and self._backend.segments:  # map what was in memory, too
            new = [Segment(path / entry.name) for entry in manifest.entries[kept:]]
            self._backend.map([*self._backend.segments[:kept], *new])
        self._folder, self._manifest, self._removed = path, manifest, set(manifest.removed)

    def _since(self, first: int) -> dict[str, int]:
        """Items from an id on."""
        late = itertools.takewhile(lambda item: item[1] >= first, reversed(self._ids.items()))
        return dict(reversed(list(late)))

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
        step = rows_per_chunk(2 * memory.space.total_dim, 1)
        same = memory.storage == segments[0].storage
        shift = memory._next_id  # a collection of Milvus that was emptied does not use its ids again
        try:
            for ids, names, stored in read_rows(segments, manifest.removed, step):
                rows = stored if same else pack(unpack(stored, torch.float32), memory.storage)
                memory._backend.add(ids + shift, names, rows)
                memory._know(names, ids + shift)
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
        assert isinstance(memory._backend, TorchBackend)
        memory._backend.map(segments)
        for segment in segments:
            if segment.count:
                memory._know(segment.labels, segment.ids)
        memory.remove([memory._names[number] for number in sorted(manifest.removed)])
        memory._belongs_to(path, manifest, segments)
        return memory

    def _belongs_to(self, path: PathLike, manifest: Manifest, segments: Sequence[Segment]) -> None:
        """Remember the folder that this memory was read from, to commit to it, and what the file says."""
        self.about = next((s.about for s in reversed(segments) if s.about is not None), None)
        if manifest.entries and self.storage == segments[0].storage:
            self._folder, self._manifest, self._removed = _real(path), manifest, set(manifest.removed)
            self._next_id = manifest.next_id

    def verify(self) -> None:
        """Read all items that are in files and compare them with their checksums; raises ValueError for damage."""
        if isinstance(self._backend, TorchBackend):
            for segment in self._backend.segments:
                for _ in segment.chunks(rows_per_chunk(2 * self.space.total_dim, 1)):
                    pass


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
        json.dumps(about, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"ItemMemory.save: about must be a JSON object, got {describe(about)} ({error})") from error
    return about


def _real(path: PathLike) -> Path:
    return Path(os.path.realpath(path))

"""ItemMemory: hypervectors with labels, found by similarity, in memory, in files or in an engine of your choice."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import check_device, check_integer, describe, names_errors, value_error
from ghrr.files import PathLike
from ghrr.hypervector import Hypervector
from ghrr.memory import persistence
from ghrr.memory.backends import Backend, Bound, Columns, can_filter, check_bounds, check_columns, make_backend
from ghrr.memory.items import Items
from ghrr.memory.labels import check_labels
from ghrr.memory.match import CONFIDENCE, Match, check_confidence
from ghrr.memory.search import Cleanup
from ghrr.memory.storage import as_rows, pack
from ghrr.space import Space, check_space


@names_errors
class ItemMemory:
    r"""Hypervectors with labels. :meth:`cleanup` and :meth:`match` find the items that are most similar to a query.

    The search is exact, unless you ask otherwise: it compares a query with every item. You can add and remove items at
    any time. :meth:`save` writes all items to one file; :meth:`commit` writes only changes to a folder. :meth:`load`
    reads either into memory. :meth:`open` leaves the items in their files and reads them in chunks, for memories larger
    than RAM.

    Items are stored without gradients, and search is not differentiable. Vectors and queries may be on any device.

    Several threads may use one memory. Changes wait for each other. Reading sees all of a change or nothing of it and
    does not wait, except with faiss and Milvus. A change that is interrupted, for example by Ctrl-C, is done completely
    or not at all.

    Copies and pickles are independent memories. A memory that was opened from files uses the same files: a pickle opens
    them again by path, and raises if they were replaced. A memory in Milvus cannot be copied; create another one with
    the same URI.

    Parameters
    ----------
    space
        Space of the items.
    labels
        Strings, all different.
    vectors
        Hypervectors ``(n, dim, m, m)`` of the labels. By default the atoms of these names, ``space.vectors(labels)``.
    storage
        Number type: ``"float32"``, ``"float64"``, ``"bfloat16"``, ``"float16"``, or ``"int8"`` with one scale per item.
        By default the precision of the space. 16 bits take half the memory and int8 a quarter;
        ``benchmarks/memory/cleanup.py`` measures the effect on accuracy.
    backend
        ``"torch"``; ``"faiss"`` for one machine; ``"milvus"`` for a file, a server or a cluster; or an object with the
        methods of :class:`ghrr.memory.Backend`. All find the same items up to rounding. faiss and Milvus store float32.
    device
        Device that stores the items and computes, for the torch backend. The others use the CPU.
    uri
        Location of Milvus: a path, or an address such as ``"http://localhost:19530"``.
    timeout
        Seconds to wait for a response of Milvus; 60 by default.
    approximate
        Search with an HNSW index of faiss or Milvus. It is faster for many items, but misses some of the best ones,
        more of them the noisier a query is: measure it with :meth:`recall`.

    Attributes
    ----------
    about
        JSON object that :meth:`save` stored with the items, or None.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=300, m=2, seed=0)
    >>> memory = ghrr.ItemMemory(space, ["red", "green", "blue"])
    >>> memory
    ItemMemory(3 items, float32, TorchBackend, Space(dim=300, m=2, seed=0))
    >>> noisy = ghrr.bundle(space.vectors(["green", "a", "b", "c"]))
    >>> memory.cleanup(noisy, k=2).labels
    ['green', 'red']
    >>> memory.match(noisy)
    Match('green', score=1.050, margin=0.994, confident=True)
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
        approximate: bool = False,
    ) -> None:
        self.space = check_space(space)
        device = check_device(device)
        made = make_backend(space, storage, backend, device, uri=uri, timeout=timeout, approximate=approximate)
        self.about: dict[str, Any] | None = None
        self._items = Items(self.space, made)
        if labels is not None:
            self.add(labels, vectors)
        elif vectors is not None:
            raise value_error("vectors need labels, got vectors without labels; give one string for each")

    def __len__(self) -> int:
        return len(self._items.state.labels)

    def __contains__(self, label: object) -> bool:
        return self._items.state.labels.find(label) is not None

    def __repr__(self) -> str:
        backend = type(self._items.state.backend).__name__
        return f"ItemMemory({len(self)} items, {self.storage}, {backend}, {self.space})"

    def __copy__(self) -> Self:
        return copy.deepcopy(self)

    @property
    def labels(self) -> list[str]:
        """Labels in the order in which they were added."""
        return self._items.state.labels.names

    @property
    def folder(self) -> Path | None:
        """Folder that :meth:`commit` writes to by default; None before the first commit."""
        return self._items.state.commit.folder

    @property
    def storage(self) -> str:
        """Number type of the stored items."""
        return self._items.state.backend.storage

    @property
    def can_filter(self) -> bool:
        """Whether the backend stores columns of numbers and can search within bounds, as Milvus and LanceDB do."""
        return can_filter(self._items.state.backend)

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
        >>> memory.labels
        ['a', 'b']
        """
        names = check_labels(labels)
        vectors = self.space.check(self.space.vectors(names) if vectors is None else vectors)
        if isinstance(labels, str) and vectors.ndim == 3:
            vectors = vectors[None]
        if vectors.ndim != 4 or len(vectors) != len(names):
            shape = (len(names), *self.space.shape)
            raise value_error(f"vectors must have shape {shape} for {len(names)} labels, got {describe(vectors)}")
        stored = pack(as_rows("vectors", vectors), self.storage)
        self._items.add(names, stored, check_columns(columns, len(names)))

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
        self._items.remove(check_labels(labels))

    def vectors(self, labels: str | Iterable[str] | None = None) -> Tensor:
        """Return the hypervectors of labels, in any order, or of all items in the order of :attr:`labels`.

        Narrow storage rounds them. They are on the device of the memory. The shape is ``(n, dim, m, m)``, for a single
        label ``(dim, m, m)``.

        Examples
        --------
        >>> import ghrr
        >>> memory = ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"])
        >>> memory.vectors().shape, memory.vectors("b").shape
        (torch.Size([2, 100, 2, 2]), torch.Size([100, 2, 2]))
        """
        names = None if labels is None else check_labels(labels)
        with self._items.reading() as state:
            vectors = state.vectors(state.ids_of(state.labels.names if names is None else names))
        return vectors[0] if isinstance(labels, str) else vectors

    def cleanup(self, queries: Tensor | Hypervector, k: int = 1, *, where: Iterable[Bound] = ()) -> Cleanup:
        """Find the k items that are most similar to each query.

        Items are compared chunk by chunk, so the extra memory does not grow with the number of items. Of equal scores
        the item that was added first comes first. If there are fewer than k items, all are returned. The search is not
        differentiable: the scores have no gradient.

        Parameters
        ----------
        queries
            Hypervectors of the space of this memory, on any device.
        k
            Number of items per query.
        where
            Bounds on the columns of :meth:`add`. Only items that fulfil all of them are found; the backend must be able
            to filter (:attr:`can_filter`).

        Shapes
        ------
        queries: ``(*batch, dim, m, m)``; labels and scores: ``(*batch, min(k, n))``

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> memory = ghrr.ItemMemory(space, ["a", "b", "c"])
        >>> labels, scores = memory.cleanup(space.vectors(["c", "a"]), k=2)
        >>> [best for best, second in labels], scores.shape
        (['c', 'a'], torch.Size([2, 2]))
        """
        k = check_integer("k", k, least=1)
        queries = self.space.check(queries)
        rows, bounds = as_rows("queries", queries), check_bounds(where)
        with self._items.reading() as state:
            ids, scores = state.search(rows, k, bounds)
            shape = (*queries.shape[:-3], scores.shape[-1])
            labels = np.empty(ids.numel(), dtype=object)
            labels[:] = state.labels_of(ids)
        return Cleanup(labels.reshape(shape).tolist(), scores.to(queries.device).reshape(shape))

    def recall(self, queries: Tensor | Hypervector, k: int = 10) -> float:
        """Return the share of the k most similar items that :meth:`cleanup` finds, for backends that are approximate.

        This reads all items and compares each query with each of them. Use queries like those that you expect: noisy
        queries have a lower recall than stored items. Exact backends have a recall of 1, up to rounding.

        Shapes
        ------
        queries: ``(n, dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> names = [str(number) for number in range(500)]
        >>> memory = ghrr.ItemMemory(space, names, backend="faiss", approximate=True)
        >>> memory.recall(space.vectors(names[:50]), k=1)
        1.0
        """
        k = check_integer("k", k, least=1)
        queries = self.space.check(queries)
        rows = as_rows("queries", queries)
        with self._items.reading() as state:
            if len(state.labels) and len(rows):
                return state.recall(rows, k)
        raise value_error(f"needs items and queries, got {len(self)} items and {describe(queries)}")

    def match(self, queries: Tensor | Hypervector, *, confidence: float = CONFIDENCE) -> Match | list[Match]:
        r"""Find the best item for each query, and the probability that it is correct.

        The number of bundled items is estimated from the energy of the query, :math:`E = \delta(q, q)`, so do not
        normalize queries. Items may be bundles too. For example, a query with some fields of a record finds the record,
        and its score is the fraction of the query that the record contains (see ``ghrr.memory.match``).

        Parameters
        ----------
        queries
            Hypervectors of the space of this memory, on any device.
        confidence
            Probability from which a match is ``confident``.

        Shapes
        ------
        queries: ``(dim, m, m)`` for a single Match, or ``(n, dim, m, m)`` for a list

        Examples
        --------
        >>> import ghrr
        >>> codec = ghrr.Record(ghrr.Space(dim=500, m=3, seed=0))
        >>> people = [{"name": name, "city": "London", "age": age} for name, age in (("Ada", 36), ("Alan", 41))]
        >>> memory = ghrr.ItemMemory(codec.space, ["Ada", "Alan"], codec.encode_many(people))
        >>> memory.match(codec.encode({"name": "Ada", "city": "London"}))
        Match('Ada', score=1.003, margin=0.498, confident=True)
        """
        confidence = check_confidence(confidence)
        queries = self.space.check(queries)
        with self._items.reading() as state:
            if queries.ndim > 4 or not len(state.labels):
                raise value_error(
                    f"expected queries of shape (n, dim, m, m) or (dim, m, m) and a memory with items, "
                    f"got {describe(queries)} and {len(state.labels)} items"
                )
            matches = state.match(queries.reshape(-1, *self.space.shape), confidence)
        return matches[0] if queries.ndim == 3 else matches

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
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "items.safetensors"
        >>> ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"]).save(path)
        >>> ghrr.ItemMemory.load(path)
        ItemMemory(2 items, float32, TorchBackend, Space(dim=100, m=2, seed=0))
        """
        note = self.about if about is None else persistence.check_about(about)
        with self._items.reading() as state:
            persistence.write_items(path, state, state.labels.since(0), note)
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
        >>> folder = tempfile.mkdtemp()
        >>> memory = ghrr.ItemMemory(ghrr.Space(dim=100, m=2, seed=0), ["a", "b"])
        >>> memory.commit(folder)
        >>> memory.add("c")
        >>> memory.commit()
        >>> ghrr.ItemMemory.open(folder).labels
        ['a', 'b', 'c']
        """
        persistence.commit(self._items, folder, self.about)

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
        files = persistence.open_files(path, space)
        storage = files.storage if backend == "torch" else None
        memory = cls(files.space, storage=storage, backend=backend, device=device, uri=uri, timeout=timeout)
        persistence.load(memory._items, files)
        memory.about = files.about
        return memory

    @classmethod
    def open(cls, path: PathLike, *, space: Space | None = None, device: torch.device | str = "cpu") -> Self:
        """Use the items of a file or a folder without reading them into memory.

        Opening reads and checks the labels. Items are read chunk by chunk for each search; :meth:`verify` checks them.
        You can add items: they stay in memory until :meth:`commit` writes them to a folder. The opened files stay
        readable if a writer replaces them. ``path`` and ``space`` are as in :meth:`load`, and ``device`` computes.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> space = ghrr.Space(dim=100, m=2, seed=0)
        >>> ghrr.ItemMemory(space, ["a", "b"]).commit(folder)
        >>> ghrr.ItemMemory.open(folder).cleanup(space.vectors(["b"])).labels
        [['b']]
        """
        files = persistence.open_files(path, space)
        memory = cls(files.space, storage=files.storage, device=device)
        persistence.use(memory._items, files)
        memory.about = files.about
        return memory

    def verify(self) -> None:
        """Read all items of an opened memory and compare them with their checksums; raise ValueError for damage.

        Examples
        --------
        >>> import ghrr, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> ghrr.ItemMemory(ghrr.Space(dim=100, m=2), ["a", "b"]).commit(folder)
        >>> ghrr.ItemMemory.open(folder).verify()
        """
        persistence.verify(self._items.state.backend)

"""ItemMemory: exact search for the stored hypervectors that are most similar to a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ghrr import algebra
from ghrr.checks import check_integer, describe
from ghrr.hypervector import Hypervector
from ghrr.memory.backends import Bound, check_bounds
from ghrr.memory.item_store import ItemStore
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, check_confidence, expected_score, make_matches
from ghrr.memory.search import rows_per_chunk, search_chunks
from ghrr.memory.state import State
from ghrr.memory.storage import as_rows, chunks

_CPU = torch.device("cpu")
_ATOM_ENERGY = 1.01  # up to this energy an item counts as an atom; narrow storage rounds


class Cleanup(NamedTuple):
    """Result of :meth:`ItemMemory.cleanup`: the most similar items of each query, best first.

    Parameters
    ----------
    labels
        Lists nested as ``(*batch, k)``.
    scores
        Similarities, ``(*batch, k)``, on the device of the queries.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> labels, scores = ghrr.ItemMemory(space, ["a", "b"]).cleanup(space.vectors(["b"]), k=2)
    >>> labels
    [['b', 'a']]
    """

    labels: list[Any]
    scores: Tensor


class ItemMemory(ItemStore):
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
        Hypervectors of the labels. By default the atoms of these names, ``space.vectors(labels)``.
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
    space
        Space of the items.
    about
        JSON object that :meth:`save` stored with the items, or None.

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
    ['green', 'red']
    >>> memory.match(noisy)
    Match('green', score=1.050, margin=0.994, confident=True)
    """

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

        Returns
        -------
        Cleanup
            Labels and scores, best first. Scores are on the device of the queries.

        Shapes
        ------
        queries: ``(*batch, dim, m, m)``; labels and scores: ``(*batch, min(k, n))``

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
        bounds = check_bounds(operation, where)
        if bounds:
            self._check_filter(operation)
        with self._reading() as state:
            ids, products = state.search(rows, k, bounds)
            shape = (*queries.shape[:-3], products.shape[-1])
            labels = np.empty(ids.numel(), dtype=object)
            labels[:] = state.labels_of(operation, ids)
        return Cleanup(labels.reshape(shape).tolist(), self._as_scores(products).to(queries.device).reshape(shape))

    def recall(self, queries: Tensor | Hypervector, k: int = 10) -> float:
        """Return the share of the k most similar items that :meth:`cleanup` finds, for backends that are approximate.

        This reads all items and compares each query with each of them. Use queries like those that you expect: noisy
        queries have a lower recall than stored items. Exact backends have a recall of 1, up to rounding.

        Parameters
        ----------
        queries
            Hypervectors of the space of this memory.
        k
            Number of items per query.

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
        operation = "ItemMemory.recall"
        k = check_integer(operation, "k", k, least=1)
        queries = self.space.check(queries, operation)
        rows = as_rows(operation, "queries", queries.reshape(-1, *self.space.shape))
        with self._reading() as state:
            if not len(state.labels) or not len(rows):
                raise ValueError(
                    f"{operation}: needs items and queries, got {len(state.labels)} items and {describe(queries)}"
                )
            k = min(k, len(state.labels))
            found = state.search(rows, k)[0]
            ids = torch.tensor(sorted(state.labels.since(0).values()), dtype=torch.int64)
            parts = (ids[chunk] for chunk in chunks(len(ids), rows_per_chunk(2 * self.space.total_dim, k)))
            stored = ((part, None, state.backend.stored(part).to(_CPU)) for part in parts)
            exact = search_chunks(rows.float().cpu(), stored, k)[1]
        return float((found[:, :, None].cpu() == exact[:, None, :]).any(dim=2).double().mean())

    def _as_scores(self, products: Tensor) -> Tensor:
        """Return similarities from dot products of rows."""
        return (products / (self.space.m * self.space.dim)).to(self.space.dtype.to_real())

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
        operation = "ItemMemory.match"
        confidence = check_confidence(operation, confidence)
        queries = self.space.check(queries, operation)
        with self._reading() as state:
            if queries.ndim > 4 or not len(state.labels):
                raise ValueError(
                    f"{operation}: expected queries of shape (n, dim, m, m) or (dim, m, m) and a memory with items, "
                    f"got {describe(queries)} and {len(state.labels)} items"
                )
            batch = queries.reshape(-1, *self.space.shape)
            ids, products = state.search(as_rows(operation, "queries", batch), 2)
            names = state.labels_of(operation, ids)
            item_energies = self._energies(state, ids.cpu())
        labels = [names[start : start + ids.shape[1]] for start in range(0, len(names), ids.shape[1])]
        energies = algebra.similarity(batch.detach(), batch.detach()).double().cpu()[:, None]
        expected = expected_score(energies, item_energies)
        noise = answer_noise(self.space, energies, candidate_energy=item_energies).amax(dim=1)
        scores = self._as_scores(products).double().cpu()
        order = (scores - expected).argsort(dim=1, descending=True, stable=True)
        matches = make_matches(
            [[row[column] for column in columns] for row, columns in zip(labels, order.tolist(), strict=True)],
            scores.gather(1, order),
            candidates=len(state.labels),
            noise=noise,
            confidence=confidence,
            expected=expected.gather(1, order),
        )
        return matches[0] if queries.ndim == 3 else matches

    def _energies(self, state: State, ids: Tensor) -> Tensor:
        """Return the energies of items, in double precision on the CPU; exactly 1 for atoms."""
        different, inverse = torch.unique(ids, return_inverse=True)
        chunk_rows = rows_per_chunk(2 * self.space.total_dim)
        vectors = (state.vectors(self.space, chunk) for chunk in different.split(chunk_rows) if len(chunk))
        energies = torch.cat([torch.empty(0), *(algebra.similarity(x, x).cpu() for x in vectors)]).double()
        return torch.where(energies < _ATOM_ENERGY, 1.0, energies)[inverse]

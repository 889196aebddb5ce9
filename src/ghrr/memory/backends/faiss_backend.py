"""faiss backend: search on all CPU cores of one machine, in single precision; exact unless you ask otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.memory.backends.protocol import import_extra
from ghrr.memory.search import break_ties
from ghrr.memory.storage import Stored

_LINKS = 32  # of each row in an HNSW graph


@names_errors
class FaissBackend:
    """Flat faiss index of inner products. It compares a query with every row, without approximation.

    Rows are on the CPU in float32. Queries from another device are copied to the CPU. Use it as
    ``ItemMemory(space, backend="faiss")``; it needs the extra ``index``.

    Parameters
    ----------
    width
        Real numbers per row.
    approximate
        Use an HNSW graph, which is faster for many items and misses some: see :meth:`ghrr.ItemMemory.recall`. A removal
        builds it again.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> ghrr.ItemMemory(space, ["a", "b"], backend="faiss").cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    name = "faiss"
    storage = "float32"
    first_id = 0

    def __init__(self, width: int, *, approximate: bool = False) -> None:
        self.width = width
        self.approximate = approximate
        self._faiss = import_extra("faiss")
        self._index = self._new_index()

    def _new_index(self) -> Any:
        faiss = self._faiss
        if self.approximate:
            return faiss.IndexIDMap2(faiss.IndexHNSWFlat(self.width, _LINKS, faiss.METRIC_INNER_PRODUCT))
        return faiss.IndexIDMap2(faiss.IndexFlatIP(self.width))

    def __getstate__(self) -> dict[str, Any]:
        ids = self._faiss.vector_to_array(self._index.id_map)
        rows = self._index.reconstruct_batch(ids)
        return {"width": self.width, "approximate": self.approximate, "ids": ids, "rows": rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["width"], approximate=state["approximate"])  # type: ignore[misc]
        self._index.add_with_ids(state["rows"], state["ids"])

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def existing(self) -> dict[str, int]:
        return {}

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        self._index.add_with_ids(stored.numbers.cpu().contiguous().numpy(), ids.numpy())

    def remove(self, ids: Tensor) -> None:
        if not self.approximate:
            self._index.remove_ids(ids.numpy())
            return
        present = self._faiss.vector_to_array(self._index.id_map)
        kept = np.setdiff1d(present, ids.numpy())
        index = self._new_index()
        index.add_with_ids(self._index.reconstruct_batch(kept), kept)
        self._index = index

    def stored(self, ids: Tensor) -> Stored:
        return Stored(torch.from_numpy(self._index.reconstruct_batch(ids.numpy())))

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return break_ties(self._search, queries.float().cpu().contiguous(), k, len(self))

    def _search(self, queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
        if self.approximate:
            graph = self._faiss.downcast_index(self._index.index)
            graph.hnsw.efSearch = max(64, 2 * width)
        scores, ids = self._index.search(queries.numpy(), width)
        few = np.flatnonzero((ids < 0).any(axis=1))  # a graph may reach too few rows
        if len(few):
            rows = self._faiss.downcast_index(graph.storage)
            scores[few], places = rows.search(queries.numpy()[few], width)
            ids[few] = self._faiss.vector_to_array(self._index.id_map)[places]
        return torch.from_numpy(scores), torch.from_numpy(ids)

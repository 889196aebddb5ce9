"""faiss backend: exact search on all CPU cores of one machine, in single precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr.memory.backends.protocol import import_extra
from ghrr.memory.search import break_ties
from ghrr.memory.storage import Stored


class FaissBackend:
    """Flat faiss index of inner products. It compares a query with every row, without approximation.

    Rows are on the CPU in float32. Queries from another device are copied to the CPU. Use it as
    ``ItemMemory(space, backend="faiss")``; it needs the extra ``index``.

    Parameters
    ----------
    width
        Real numbers per row.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> ghrr.ItemMemory(space, ["a", "b"], backend="faiss").cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    storage = "float32"
    first_id = 0

    def __init__(self, width: int) -> None:
        self.width = width
        self._faiss = import_extra("faiss")
        self._index = self._faiss.IndexIDMap2(self._faiss.IndexFlatIP(width))

    def __getstate__(self) -> dict[str, Any]:
        ids = self._faiss.vector_to_array(self._index.id_map)
        return {"width": self.width, "ids": ids, "rows": self._index.reconstruct_batch(ids)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["width"])  # type: ignore[misc]
        self._index.add_with_ids(state["rows"], state["ids"])

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def existing(self) -> dict[str, int]:
        return {}

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        self._index.add_with_ids(stored.numbers.cpu().contiguous().numpy(), ids.numpy())

    def remove(self, ids: Tensor) -> None:
        self._index.remove_ids(ids.numpy())

    def stored(self, ids: Tensor) -> Stored:
        return Stored(torch.from_numpy(self._index.reconstruct_batch(ids.numpy())))

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return break_ties(self._search, queries.float().cpu().contiguous(), k, len(self))

    def _search(self, queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
        scores, ids = self._index.search(queries.numpy(), width)
        return torch.from_numpy(scores), torch.from_numpy(ids)

"""faiss as a backend: exact inner products in single precision, on all cores of one machine."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr.memory.backend import import_extra
from ghrr.memory.search import settle_ties
from ghrr.memory.storage import Stored


class FaissBackend:
    """A flat index of faiss, which compares a query with every row; nothing is approximated.

    Parameters
    ----------
    width
        Real numbers per row.
    """

    storage = "float32"
    first_id = 0

    def __init__(self, width: int) -> None:
        self.width = width
        self._faiss = import_extra("faiss")
        self._index = self._faiss.IndexIDMap2(self._faiss.IndexFlatIP(width))

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
        return settle_ties(self._search, queries.float().cpu().contiguous(), k, len(self))

    def _search(self, queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
        scores, ids = self._index.search(queries.numpy(), width)
        return torch.from_numpy(scores), torch.from_numpy(ids)

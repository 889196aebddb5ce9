"""State of an item memory at one moment: labels, rows, and the last commit. A change replaces it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ghrr.memory.backends import Backend, Bound, TorchBackend, can_filter
from ghrr.memory.folder import Manifest
from ghrr.memory.labels import LabelTable
from ghrr.memory.storage import unpack
from ghrr.space import Space


class CommitPoint(NamedTuple):
    """Content of a folder after a commit: its manifest, and the labels at that time."""

    folder: Path | None = None
    manifest: Manifest = Manifest()
    labels: LabelTable = LabelTable()


class State(NamedTuple):
    """Items of a memory. A TorchBackend belongs to one state; other backends are changed in place."""

    labels: LabelTable
    backend: Backend
    next_id: int
    commit: CommitPoint = CommitPoint()

    def backend_to_change(self) -> Backend:
        """Return the backend for a change: a snapshot that readers do not see, if the backend supports it."""
        return self.backend.snapshot() if isinstance(self.backend, TorchBackend) else self.backend

    def ids_of(self, operation: str, names: list[str]) -> Tensor:
        """Return the ids of labels; raise KeyError for an unknown label."""
        ids = []
        for name in names:
            number = self.labels.find(name)
            if number is None:
                raise KeyError(f"{operation}: label {name!r} is not among the {len(self.labels)} labels of this memory")
            ids.append(number)
        return torch.tensor(ids, dtype=torch.int64)

    def labels_of(self, operation: str, ids: Tensor) -> list[str]:
        """Return the labels of ids that the backend found."""
        try:
            return [self.labels.name_of(number) for number in ids.flatten().tolist()]
        except KeyError as error:
            raise RuntimeError(
                f"{operation}: the backend found id {error}, which is not one of the {len(self.labels)} items of this "
                f"memory: another program changed its content; create the ItemMemory again"
            ) from None

    def vectors(self, space: Space, ids: Tensor) -> Tensor:
        """Return the hypervectors of ids, on the device of the backend."""
        ascending, inverse = torch.unique(ids, return_inverse=True)
        rows = unpack(self.backend.stored(ascending), space.dtype.to_real())
        return torch.view_as_complex(rows[inverse.to(rows.device)].reshape(-1, *space.shape, 2))

    def search(self, rows: Tensor, k: int, where: Sequence[Bound] = ()) -> tuple[Tensor, Tensor]:
        """Return ids and dot products of the k best items for each row, ``(q, k)``; fewer if there are fewer items."""
        k = min(k, len(self.labels))
        if not len(rows) or not k:
            return torch.empty(len(rows), k, dtype=torch.int64), torch.empty(len(rows), k)
        if where and can_filter(self.backend):
            products, ids = self.backend.search(rows, k, where)
        else:
            products, ids = self.backend.search(rows, k)
        return ids, products

"""State of an item memory at one moment: labels, rows, and the last commit. A change replaces it as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ghrr import algebra
from ghrr.checks import named
from ghrr.memory.backends import Backend, Bound, as_filtering, has_snapshots
from ghrr.memory.folder import Manifest
from ghrr.memory.labels import LabelTable
from ghrr.memory.match import Match, answer_noise, expected_score, make_matches
from ghrr.memory.search import rows_per_chunk, search_chunks
from ghrr.memory.storage import as_rows, chunks, unpack
from ghrr.space import Space

_ATOM_ENERGY = 1.01  # up to this energy an item counts as an atom; narrow storage rounds


class CommitPoint(NamedTuple):
    """Content of a folder after a commit: its manifest, and the labels at that time."""

    folder: Path | None = None
    manifest: Manifest = Manifest()
    labels: LabelTable = LabelTable()


class State(NamedTuple):
    """Items of a memory. A backend with snapshots belongs to one state; others are changed in place."""

    space: Space
    labels: LabelTable
    backend: Backend
    next_id: int
    commit: CommitPoint = CommitPoint()

    def backend_to_change(self) -> Backend:
        """Return the backend for a change: a snapshot that readers do not see, if the backend has them."""
        return self.backend.snapshot() if has_snapshots(self.backend) else self.backend

    def ids_of(self, names: Sequence[str]) -> Tensor:
        """Return the ids of labels; raise KeyError for an unknown label."""
        ids = []
        for name in names:
            number = self.labels.find(name)
            if number is None:
                raise KeyError(named(f"label {name!r} is not among the {len(self.labels)} labels of this memory"))
            ids.append(number)
        return torch.tensor(ids, dtype=torch.int64)

    def labels_of(self, ids: Tensor) -> list[str]:
        """Return the labels of ids that the backend found."""
        try:
            return [self.labels.name_of(number) for number in ids.flatten().tolist()]
        except KeyError as error:
            raise RuntimeError(
                named(
                    f"the backend found id {error}, which is not one of the {len(self.labels)} items of this "
                    f"memory: another program changed its content; create the ItemMemory again"
                )
            ) from None

    def vectors(self, ids: Tensor) -> Tensor:
        """Return the hypervectors of ids, on the device of the backend."""
        if not len(ids):
            return self.space.zeros(0).to(getattr(self.backend, "device", "cpu"))
        ascending, inverse = torch.unique(ids, return_inverse=True)
        rows = unpack(self.backend.stored(ascending), self.space.dtype.to_real())
        return torch.view_as_complex(rows[inverse.to(rows.device)].reshape(-1, *self.space.shape, 2))

    def search(self, rows: Tensor, k: int, where: Sequence[Bound] = ()) -> tuple[Tensor, Tensor]:
        """Return ids and scores of the k best items for each row, ``(q, k)``; fewer if there are fewer items."""
        k = min(k, len(self.labels))
        backend = as_filtering(self.backend) if where else self.backend
        if not len(rows) or not k:
            return torch.empty(len(rows), k, dtype=torch.int64), torch.empty(len(rows), k)
        products, ids = as_filtering(backend).search(rows, k, where) if where else backend.search(rows, k)
        return ids, (products / (self.space.m * self.space.dim)).to(self.space.dtype.to_real())

    def recall(self, rows: Tensor, k: int) -> float:
        """Return the share of the k best items that :meth:`search` finds; this reads all rows of the backend."""
        k = min(k, len(self.labels))
        found = self.search(rows, k)[0].cpu()
        ids = torch.tensor(self.labels.ids, dtype=torch.int64)
        parts = (ids[chunk] for chunk in chunks(len(ids), rows_per_chunk(rows.shape[1], k)))
        stored = ((part, None, self.backend.stored(part).to(torch.device("cpu"))) for part in parts)
        exact = search_chunks(rows.float().cpu(), stored, k)[1]
        return float((found[:, :, None] == exact[:, None, :]).any(dim=2).double().mean())

    def match(self, queries: Tensor, confidence: float) -> list[Match]:
        """Return the best item for each query ``(n, dim, m, m)``, with its probability; there must be an item."""
        ids, scores = self.search(as_rows("queries", queries), 2)
        item_energies = self._energies(ids.cpu())
        energies = algebra.similarity(queries.detach(), queries.detach()).double().cpu()[:, None]
        expected = expected_score(energies, item_energies)
        scores = scores.double().cpu()
        order = (scores - expected).argsort(dim=1, descending=True, stable=True)
        names = self.labels_of(ids.cpu().gather(1, order))
        return make_matches(
            [names[start : start + ids.shape[1]] for start in range(0, len(names), ids.shape[1])],
            scores.gather(1, order),
            candidates=len(self.labels),
            noise=answer_noise(self.space, energies, candidate_energy=item_energies).amax(dim=1),
            confidence=confidence,
            expected=expected.gather(1, order),
        )

    def _energies(self, ids: Tensor) -> Tensor:
        """Return the energies of items, in double precision; exactly 1 for atoms."""
        different, inverse = torch.unique(ids, return_inverse=True)
        parts = different.split(rows_per_chunk(2 * self.space.total_dim))
        energies = torch.cat([algebra.similarity(x, x).cpu() for x in map(self.vectors, parts)]).double()
        return torch.where(energies < _ATOM_ENERGY, 1.0, energies)[inverse]

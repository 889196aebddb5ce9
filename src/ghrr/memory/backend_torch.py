"""The default backend: exact search by matrix products, on the CPU or a GPU, over rows in memory and in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ghrr.memory.search import rows_per_chunk, search_chunks
from ghrr.memory.segment import Segment
from ghrr.memory.storage import Buffer, Stored, steps, working_dtype


class TorchBackend:
    """Rows in a :class:`Buffer`, behind those of mapped files if there are any.

    Parameters
    ----------
    width
        Real numbers per row.
    storage
        How they are kept.
    device
        Where the buffer is and where products are computed; files are read to it chunk by chunk.
    """

    first_id = 0

    def __init__(self, width: int, *, storage: str, device: torch.device) -> None:
        self.width, self.storage, self.device = width, storage, device
        self.segments: list[Segment] = []
        self._buffer = Buffer(width, storage, device)

    @property
    def _parts(self) -> list[Segment | Buffer]:
        return [*self.segments, self._buffer]

    def __len__(self) -> int:
        return sum(part.count - part.dead for part in self._parts)

    def existing(self) -> dict[str, int]:
        return {}

    def map(self, segments: Sequence[Segment]) -> None:
        """Have these files instead of all rows."""
        self.segments = list(segments)
        self._buffer = Buffer(self.width, self.storage, self.device)

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        self._buffer.append(ids, stored)

    def remove(self, ids: Tensor) -> None:
        for part, places in self._located(ids):
            part.remove(places)

    def stored(self, ids: Tensor) -> Stored:
        found = [part.read(places) for part, places in self._located(ids)]
        numbers = torch.cat([rows.numbers.cpu() for rows in found])
        scales = [rows.scales.cpu() for rows in found if rows.scales is not None]
        return Stored(numbers, torch.cat(scales) if scales else None)

    def _located(self, ids: Tensor) -> Iterator[tuple[Segment | Buffer, Tensor]]:
        """The parts that hold these ids, and where."""
        for part in self._parts:
            own = part.ids
            if len(own) == 0:
                continue
            wanted = ids.to(own.device)
            places = torch.searchsorted(own, wanted).clamp(max=len(own) - 1)
            here = own[places] == wanted
            if here.any():
                yield part, places[here]

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows = queries.to(self.device, working_dtype(self.storage))
        return search_chunks(rows, self._chunks(rows_per_chunk(self.width, k)), k)

    def _chunks(self, step: int) -> Iterator[tuple[Tensor, Tensor | None, Stored]]:
        for part in self._parts:
            for some in steps(part.count, step):
                alive = part.alive[some].to(self.device) if part.dead else None
                yield part.ids[some].to(self.device), alive, part.read(some).to(self.device)

"""The default backend: exact search by matrix products, on the CPU or a GPU, over rows in memory and in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ghrr.memory.search import rows_per_chunk, search_chunks
from ghrr.memory.segment import Segment
from ghrr.memory.storage import DTYPES, Buffer, Stored, steps, working_dtype


@dataclass(frozen=True)
class Part:
    """The first ``count`` rows of a file or a buffer, without those that were removed; it never changes.

    ``gone`` marks removed rows, ``(n,)`` with n <= count; rows behind its end are there.
    """

    source: Segment | Buffer
    count: int
    gone: Tensor
    removed: int = 0

    @property
    def ids(self) -> Tensor:
        """Ids of all rows, removed ones too, ascending."""
        return self.source.ids[: self.count]

    def alive(self, some: slice) -> Tensor | None:
        """Which rows of a slice are there; None for all."""
        gone = self.gone[some]
        if not self.removed or not gone.any():
            return None
        return torch.cat([~gone, gone.new_ones(some.stop - some.start - len(gone))])

    def without(self, places: Tensor) -> Part:
        """Return the part without these rows, which are all there."""
        gone = torch.cat([self.gone, self.gone.new_zeros(self.count - len(self.gone))])
        gone[places] = True
        part = replace(self, gone=gone, removed=self.removed + len(places))
        is_sparse = isinstance(self.source, Buffer) and 2 * part.removed > part.count
        return part.compact() if is_sparse else part

    def compact(self) -> Part:
        """Return the part with rows of its own if they are in memory, copied without the removed ones."""
        if isinstance(self.source, Segment):
            return self
        alive = self.alive(slice(0, self.count))
        places = slice(0, self.count) if alive is None else alive.nonzero()[:, 0]
        return Part(self.source.copy(places), self.count - self.removed, self.gone.new_empty(0))


class TorchBackend:
    """Rows in memory, behind those of files if there are any.

    Several threads may read while one writes: a search sees all of a change or nothing of it.

    Parameters
    ----------
    width
        Real numbers per row.
    storage
        How they are kept.
    device
        Where rows are kept and products are computed; files are read to it chunk by chunk.
    """

    first_id = 0

    def __init__(self, width: int, *, storage: str, device: torch.device) -> None:
        self.width, self.storage, self.device = width, storage, device
        self._parts: tuple[Part, ...] = (self._empty(),)  # the last is in memory; replaced as a whole

    def _empty(self) -> Part:
        buffer = Buffer(self.width, self.storage, self.device)
        return Part(buffer, 0, torch.empty(0, dtype=torch.bool, device=self.device))

    def snapshot(self) -> TorchBackend:
        """Return a backend with the same rows. Changes of one do not show in the other; only one may be changed."""
        other = TorchBackend.__new__(TorchBackend)
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        *files, last = (part.compact() for part in self._parts)
        stored = last.source.read(slice(0, last.count)).to(torch.device("cpu"))
        # As NumPy arrays: tensors that exist for the pickle alone do not reach a process that is being spawned.
        return {
            "settings": {"width": self.width, "storage": self.storage, "device": self.device},
            "files": [(part.source, part.gone.numpy()) for part in files],
            "ids": last.ids.cpu().numpy(),
            "numbers": stored.numbers.view(torch.uint8).numpy(),
            "scales": None if stored.scales is None else stored.scales.numpy(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["settings"])  # type: ignore[misc]
        files = [Part(s, s.count, torch.from_numpy(gone), int(gone.sum())) for s, gone in state["files"]]
        self._parts = (*files, *self._parts)
        if len(state["ids"]):
            numbers = torch.from_numpy(state["numbers"]).view(DTYPES[self.storage])
            scales = None if state["scales"] is None else torch.from_numpy(state["scales"])
            self.add(torch.from_numpy(state["ids"]), (), Stored(numbers, scales))

    @property
    def segments(self) -> list[Segment]:
        """The files."""
        return [part.source for part in self._parts if isinstance(part.source, Segment)]

    def __len__(self) -> int:
        return sum(part.count - part.removed for part in self._parts)

    def existing(self) -> dict[str, int]:
        return {}

    def map(self, segments: Sequence[Segment], removed: frozenset[int]) -> None:
        """Have the rows of these files, without removed ids, instead of all rows."""
        gone = torch.tensor(sorted(removed), dtype=torch.int64)
        masks = [torch.isin(segment.ids, gone) for segment in segments]
        files = [Part(s, s.count, mask, int(mask.sum())) for s, mask in zip(segments, masks, strict=True)]
        self._parts = (*files, self._empty())

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        *files, last = self._parts
        assert isinstance(last.source, Buffer)
        buffer = last.source.append(last.count, ids, stored)
        self._parts = (*files, replace(last, source=buffer, count=last.count + len(ids)))

    def remove(self, ids: Tensor) -> None:
        parts = list(self._parts)
        for index, places in _located(parts, ids):
            parts[index] = parts[index].without(places)
        self._parts = tuple(parts)

    def stored(self, ids: Tensor) -> Stored:
        parts = self._parts
        found = [parts[index].source.read(places) for index, places in _located(parts, ids)]
        numbers = torch.cat([rows.numbers.cpu() for rows in found])
        scales = [rows.scales.cpu() for rows in found if rows.scales is not None]
        return Stored(numbers, torch.cat(scales) if scales else None)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        rows = queries.to(self.device, working_dtype(self.storage))
        return search_chunks(rows, self._chunks(rows_per_chunk(self.width, k)), k)

    def _chunks(self, step: int) -> Iterator[tuple[Tensor, Tensor | None, Stored]]:
        for part in self._parts:
            for some in steps(part.count, step):
                alive = part.alive(some)
                yield (
                    part.ids[some].to(self.device),
                    None if alive is None else alive.to(self.device),
                    part.source.read(some).to(self.device),
                )


def _located(parts: Sequence[Part], ids: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The numbers of the parts that hold these ids, and where in them."""
    for index, part in enumerate(parts):
        own = part.ids
        if len(own) == 0:
            continue
        wanted = ids.to(own.device)
        places = torch.searchsorted(own, wanted).clamp(max=len(own) - 1)
        here = own[places] == wanted
        if here.any():
            yield index, places[here]

"""torch backend: exact search by matrix products, on a CPU or GPU, over rows in memory and in files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_device, names_errors
from ghrr.memory.search import rows_per_chunk, search_chunks
from ghrr.memory.segment import Segment
from ghrr.memory.storage import DTYPES, Buffer, Stored, chunks


@dataclass(frozen=True)
class RowRange:
    """The first ``count`` rows of a file or a buffer, except removed rows. It never changes.

    Parameters
    ----------
    source
        File or buffer.
    count
        Number of leading rows, removed ones included.
    removed
        Mask of removed rows, ``(n,)`` with n <= count. Rows after its end are present.
    removed_count
        Number of removed rows.
    """

    source: Segment | Buffer
    count: int
    removed: Tensor
    removed_count: int = 0

    @property
    def ids(self) -> Tensor:
        """Ids of all rows, removed ones included, ascending."""
        return self.source.ids[: self.count]

    def present(self, rows: slice) -> Tensor | None:
        """Return a mask of the rows of a slice that were not removed, or None if none was removed."""
        removed = self.removed[rows]
        if not self.removed_count or not removed.any():
            return None
        return torch.cat([~removed, removed.new_ones(rows.stop - rows.start - len(removed))])

    def without(self, indices: Tensor) -> RowRange:
        """Return the range without these rows, which are all present."""
        removed = torch.cat([self.removed, self.removed.new_zeros(self.count - len(self.removed))])
        removed[indices] = True
        rest = replace(self, removed=removed, removed_count=self.removed_count + len(indices))
        is_sparse = isinstance(self.source, Buffer) and 2 * rest.removed_count > rest.count
        return rest.compact() if is_sparse else rest

    def compact(self) -> RowRange:
        """Copy the present rows to a new buffer. A range of a file stays as it is."""
        if isinstance(self.source, Segment):
            return self
        present = self.present(slice(0, self.count))
        indices = slice(0, self.count) if present is None else present.nonzero()[:, 0]
        return RowRange(self.source.copy(indices), self.count - self.removed_count, self.removed.new_empty(0))


@names_errors
class TorchBackend:
    """Rows in memory, and in files if the memory was opened from files. The default backend.

    Several threads may read while one writes: a search sees all of a change or nothing of it.

    Parameters
    ----------
    width
        Real numbers per row.
    storage
        Number type of the rows; see :class:`ghrr.memory.ItemMemory`.
    device
        Device that stores the rows and computes. Rows in files are copied to it chunk by chunk.

    Examples
    --------
    >>> import ghrr, torch
    >>> from ghrr.memory import TorchBackend
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> backend = TorchBackend(2 * space.total_dim, storage="bfloat16", device=torch.device("cpu"))
    >>> ghrr.ItemMemory(space, ["a", "b"], backend=backend)
    ItemMemory(2 items, bfloat16, TorchBackend, Space(dim=100, m=2, seed=0))
    """

    name = "torch"
    first_id = 0
    has_snapshots = True

    def __init__(self, width: int, *, storage: str, device: torch.device) -> None:
        self.width, self.storage, self.device = width, storage, check_device(device)
        self._ranges: tuple[RowRange, ...] = (self._empty(),)  # the last is in memory; replaced as a whole

    def _empty(self) -> RowRange:
        buffer = Buffer(self.width, self.storage, self.device)
        return RowRange(buffer, 0, torch.empty(0, dtype=torch.bool, device=self.device))

    def snapshot(self) -> TorchBackend:
        other = TorchBackend.__new__(TorchBackend)
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        *files, last = (rows.compact() for rows in self._ranges)
        stored = last.source.read(slice(0, last.count)).to(torch.device("cpu"))
        # NumPy arrays: temporary tensors do not reach a process that is being spawned.
        return {
            "settings": {"width": self.width, "storage": self.storage, "device": self.device},
            "files": [(rows.source, rows.removed.numpy()) for rows in files],
            "ids": last.ids.cpu().numpy(),
            "numbers": stored.numbers.view(torch.uint8).numpy(),
            "scales": None if stored.scales is None else stored.scales.numpy(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["settings"])  # type: ignore[misc]
        files = [
            RowRange(segment, segment.count, torch.from_numpy(removed), int(removed.sum()))
            for segment, removed in state["files"]
        ]
        self._ranges = (*files, *self._ranges)
        if len(state["ids"]):
            numbers = torch.from_numpy(state["numbers"]).view(DTYPES[self.storage])
            scales = None if state["scales"] is None else torch.from_numpy(state["scales"])
            self.add(torch.from_numpy(state["ids"]), (), Stored(numbers, scales))

    @property
    def segments(self) -> list[Segment]:
        return [rows.source for rows in self._ranges if isinstance(rows.source, Segment)]

    def __len__(self) -> int:
        return sum(rows.count - rows.removed_count for rows in self._ranges)

    def existing(self) -> dict[str, int]:
        return {}

    def use_segments(self, segments: Sequence[Segment], removed: frozenset[int]) -> None:
        removed_ids = torch.tensor(sorted(removed), dtype=torch.int64)
        masks = [torch.isin(segment.ids, removed_ids) for segment in segments]
        files = [RowRange(s, s.count, mask, int(mask.sum())) for s, mask in zip(segments, masks, strict=True)]
        self._ranges = (*files, self._empty())

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        *files, last = self._ranges
        assert isinstance(last.source, Buffer)
        buffer = last.source.append(last.count, ids, stored)
        self._ranges = (*files, replace(last, source=buffer, count=last.count + len(ids)))

    def remove(self, ids: Tensor) -> None:
        ranges = list(self._ranges)
        for number, indices in _locate(ranges, ids):
            ranges[number] = ranges[number].without(indices)
        self._ranges = tuple(ranges)

    def stored(self, ids: Tensor) -> Stored:
        ranges = self._ranges
        found = [ranges[number].source.read(indices).to(self.device) for number, indices in _locate(ranges, ids)]
        scales = [rows.scales for rows in found if rows.scales is not None]
        return Stored(torch.cat([rows.numbers for rows in found]), torch.cat(scales) if scales else None)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        precision = torch.float64 if self.storage == "float64" else torch.float32
        rows = queries.to(self.device, precision)
        return search_chunks(rows, self._chunks(rows_per_chunk(self.width, k)), k)

    def _chunks(self, chunk_rows: int) -> Iterator[tuple[Tensor, Tensor | None, Stored]]:
        for rows in self._ranges:
            for chunk in chunks(rows.count, chunk_rows):
                present = rows.present(chunk)
                yield (
                    rows.ids[chunk].to(self.device),
                    None if present is None else present.to(self.device),
                    rows.source.read(chunk).to(self.device),
                )


def _locate(ranges: Sequence[RowRange], ids: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield the number of each range that holds some of these ids, and their indices in it."""
    for number, rows in enumerate(ranges):
        range_ids = rows.ids
        if len(range_ids) == 0:
            continue
        wanted = ids.to(range_ids.device)
        indices = torch.searchsorted(range_ids, wanted).clamp(max=len(range_ids) - 1)
        found = range_ids[indices] == wanted
        if found.any():
            yield number, indices[found]

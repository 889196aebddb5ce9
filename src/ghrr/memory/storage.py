"""How the numbers of items are kept: a row of reals per item, in one of five types, in memory that grows by doubling.

A row holds the real and imaginary parts of one hypervector, so that similarity is a dot product of rows. The narrow
types round: ``bfloat16`` to 8 significant bits, ``float16`` to 11, ``int8`` to 255 steps between plus and minus the
largest number of the item, which is kept beside it. Products are always summed in single precision at least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
CHUNK_NUMBERS = 1 << 23  # handled at a time: 32 MiB in single precision


@dataclass(frozen=True)
class Stored:
    """Rows as they are kept: ``numbers`` ``(n, width)`` and for int8 the ``scales`` ``(n,)`` to multiply them with."""

    numbers: Tensor
    scales: Tensor | None = None

    def take(self, places: slice | Tensor) -> Stored:
        """Some of the rows."""
        return Stored(self.numbers[places], None if self.scales is None else self.scales[places])

    def to(self, device: torch.device) -> Stored:
        """The same on another device."""
        return Stored(self.numbers.to(device), None if self.scales is None else self.scales.to(device))


def working_dtype(storage: str) -> torch.dtype:
    """In which precision dot products with rows of this kind are summed."""
    return torch.float64 if storage == "float64" else torch.float32


def pack(rows: Tensor, storage: str) -> Stored:
    """Real rows ``(n, width)`` as they are kept; raises for numbers that are too large for the type."""
    if storage != "int8":
        numbers = rows.to(DTYPES[storage])
        if storage != "float64" and not torch.isfinite(numbers).all():
            largest = float(rows.abs().max())
            raise ValueError(
                f"ItemMemory: a number of size {largest:.3g} does not fit into {storage}; normalize the vectors, or "
                f'choose storage="float32" or "bfloat16"'
            )
        return Stored(numbers)
    scales = rows.abs().amax(dim=1).float() / 127
    steps = rows / torch.where(scales > 0, scales, torch.ones_like(scales))[:, None]
    return Stored(steps.round().clamp(-127, 127).to(torch.int8), scales)


def unpack(stored: Stored, dtype: torch.dtype) -> Tensor:
    """The rows as real numbers again, rounded as they were kept."""
    rows = stored.numbers.to(dtype)
    return rows if stored.scales is None else rows * stored.scales.to(dtype)[:, None]


class Buffer:
    """Growable array of rows, in the order of their ids. Rows that were written never change.

    Its owner says how many rows are its own: several versions of one table can share a buffer. :meth:`append` writes
    behind the last row if there is room and no other version did so before; otherwise it copies. The room doubles, so
    adding a row takes amortised O(1).

    Parameters
    ----------
    width, storage, device
        Numbers per row, how they are kept, and where.
    room
        How many rows fit.
    """

    def __init__(self, width: int, storage: str, device: torch.device, room: int = 0) -> None:
        self.width, self.storage, self.device = width, storage, device
        self.ids = torch.empty(room, dtype=torch.int64, device=device)
        scales = torch.empty(room, device=device) if storage == "int8" else None
        self._rows = Stored(torch.empty(room, width, dtype=DTYPES[storage], device=device), scales)
        self._used = 0

    def append(self, count: int, ids: Tensor, stored: Stored) -> Buffer:
        """Return a buffer with the first ``count`` rows of this one and these rows behind them; it may be this one."""
        total = count + len(ids)
        buffer = self
        if total > len(self.ids) or self._used != count:
            buffer = self.copy(slice(0, count), max(total, 2 * count))
        buffer._used = total  # first: what an interrupt leaves behind the last row is not written over, but copied
        buffer._write(slice(count, total), ids, stored)
        return buffer

    def copy(self, places: slice | Tensor, room: int = 0) -> Buffer:
        """Return a buffer with some of the rows, and room for ``room`` in all."""
        ids = self.ids[places]
        buffer = Buffer(self.width, self.storage, self.device, max(room, len(ids)))
        buffer._used = len(ids)
        buffer._write(slice(0, len(ids)), ids, self.read(places))
        return buffer

    def _write(self, places: slice, ids: Tensor, stored: Stored) -> None:
        self.ids[places] = ids.to(self.device)
        self._rows.numbers[places] = stored.numbers.to(self.device)
        if self._rows.scales is not None and stored.scales is not None:
            self._rows.scales[places] = stored.scales.to(self.device)

    def read(self, places: slice | Tensor) -> Stored:
        """Return some rows as they are kept."""
        return self._rows.take(places)


def steps(count: int, step: int) -> Iterator[slice]:
    """The slices that go through ``count`` things ``step`` at a time."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))

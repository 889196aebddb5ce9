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
    """Rows in memory, in the order of their ids. Adding one more is amortised O(1): the room doubles when it is full.

    Removed rows are marked dead; when fewer than half are alive the dead go, so that removing is amortised O(1) too.
    """

    _ids: Tensor
    _alive: Tensor
    _rows: Stored

    def __init__(self, width: int, storage: str, device: torch.device) -> None:
        self.width, self.storage, self.device = width, storage, device
        self._allocate(0)
        self.count = 0
        self.dead = 0

    def _allocate(self, room: int) -> None:
        device = self.device
        self._ids = torch.empty(room, dtype=torch.int64, device=device)
        self._alive = torch.empty(room, dtype=torch.bool, device=device)
        scales = torch.empty(room, device=device) if self.storage == "int8" else None
        self._rows = Stored(torch.empty(room, self.width, dtype=DTYPES[self.storage], device=device), scales)

    @property
    def ids(self) -> Tensor:
        """Ids of all rows, dead ones too, ascending."""
        return self._ids[: self.count]

    @property
    def alive(self) -> Tensor:
        """Which rows are not removed."""
        return self._alive[: self.count]

    def append(self, ids: Tensor, stored: Stored) -> None:
        """Put rows behind the last; their ids are larger than all before."""
        self._make_room(self.count + len(ids))
        new = slice(self.count, self.count + len(ids))
        self._ids[new] = ids.to(self.device)
        self._alive[new] = True
        self._rows.numbers[new] = stored.numbers.to(self.device)
        if self._rows.scales is not None and stored.scales is not None:
            self._rows.scales[new] = stored.scales.to(self.device)
        self.count += len(ids)

    def _make_room(self, wanted: int) -> None:
        if wanted > len(self._ids):
            self._keep(slice(0, self.count), max(wanted, 2 * len(self._ids)))

    def _keep(self, places: slice | Tensor, room: int) -> None:
        """Move these rows into new memory of the given room."""
        ids, alive, rows = self.ids[places], self.alive[places], self.read(places)
        self._allocate(room)
        self.count = 0
        self.append(ids, rows)
        self._alive[: self.count] = alive
        self.dead = int((~alive).sum())

    def remove(self, places: Tensor) -> None:
        """Mark rows as dead."""
        self._alive[places] = False
        self.dead += len(places)
        if self.dead > self.count - self.dead:
            self._keep(self.alive.nonzero()[:, 0], self.count - self.dead)

    def read(self, places: slice | Tensor) -> Stored:
        """Some rows as they are kept."""
        return self._rows.take(slice(0, self.count)).take(places)


def steps(count: int, step: int) -> Iterator[slice]:
    """The slices that go through ``count`` things ``step`` at a time."""
    return (slice(start, min(start + step, count)) for start in range(0, count, step))

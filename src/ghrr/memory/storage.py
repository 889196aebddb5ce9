"""Storage: hypervectors as rows of real numbers, in one of five number types, in a buffer that grows.

A row holds the real and imaginary parts of one hypervector, so the similarity of two hypervectors is a dot product of
rows. Narrow types round: ``bfloat16`` to 8 significant bits, ``float16`` to 11, and ``int8`` to 255 levels between plus
and minus the largest number of the row, whose scale is stored separately. Dot products are computed in single precision
or better.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import check_finite, describe, type_error, value_error

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}
CHUNK_NUMBERS = 1 << 23  # real numbers processed at a time: 32 MiB in single precision


@dataclass(frozen=True)
class Stored:
    """Rows in a storage type.

    Parameters
    ----------
    numbers
        The rows, ``(n, width)``.
    scales
        For int8, the factor of each row, ``(n,)``; otherwise None.
    """

    numbers: Tensor
    scales: Tensor | None = None

    def take(self, indices: slice | Tensor) -> Stored:
        """Select rows."""
        return Stored(self.numbers[indices], None if self.scales is None else self.scales[indices])

    def to(self, device: torch.device) -> Stored:
        """Move the rows to a device."""
        return Stored(self.numbers.to(device), None if self.scales is None else self.scales.to(device))


def as_rows(name: str, x: Tensor) -> Tensor:
    """Return hypervectors as rows of real numbers without gradient; raise ValueError for NaN and infinity.

    Shapes
    ------
    x: ``(*batch, dim, m, m)``; output: ``(n, 2 * dim * m * m)``, a view if possible
    """
    if x.is_meta:
        raise type_error(f"{name} must hold numbers, got {describe(x)} on the device 'meta'")
    rows = torch.view_as_real(x.detach().resolve_conj()).reshape(-1, 2 * x.shape[-3:].numel())
    # Minimum and maximum need one pass; isfinite of all numbers takes as long as a search among a thousand items.
    if len(rows) and not torch.isfinite(torch.stack(rows.aminmax())).all():
        check_finite(name, x)
    return rows


def pack(rows: Tensor, storage: str) -> Stored:
    """Convert real rows ``(n, width)`` to a storage type; raise ValueError if a number is too large for it."""
    if storage != "int8":
        numbers = rows.to(DTYPES[storage])
        if storage != "float64" and not torch.isfinite(numbers).all():
            largest = float(rows.abs().max())
            raise value_error(
                f"numbers must fit into {storage}, got {largest:.3g}; normalize the vectors, or use "
                f'storage="float32" or "bfloat16"'
            )
        return Stored(numbers)
    numbers = torch.empty(rows.shape, dtype=torch.int8, device=rows.device)
    scales = torch.empty(len(rows), device=rows.device)
    for chunk in chunks(len(rows), max(1, CHUNK_NUMBERS // (16 * max(1, rows.shape[1])))):  # stays in the cache
        part = rows[chunk]
        scales[chunk] = part.abs().amax(dim=1).float() / 127
        divisors = torch.where(scales[chunk] > 0, scales[chunk], 1)[:, None]
        numbers[chunk] = (part / divisors).round_().clamp_(-127, 127)
    return Stored(numbers, scales)


def unpack(stored: Stored, dtype: torch.dtype) -> Tensor:
    """Convert stored rows to real numbers of a dtype."""
    rows = stored.numbers.to(dtype)
    return rows if stored.scales is None else rows * stored.scales.to(dtype)[:, None]


class Buffer:
    """Growable array of rows in the order of their ids. Rows never change once they are written.

    Several versions of a table can share one buffer; each version stores how many leading rows belong to it.
    :meth:`append` writes after the last row if there is capacity and no other version wrote there. Otherwise it copies
    the rows to a buffer of twice the capacity, so adding a row is amortised O(1).

    Parameters
    ----------
    width, storage, device
        Numbers per row, storage type, and device.
    capacity
        Number of rows to allocate.
    """

    def __init__(self, width: int, storage: str, device: torch.device, capacity: int = 0) -> None:
        self.width, self.storage, self.device = width, storage, device
        self.ids = torch.empty(capacity, dtype=torch.int64, device=device)
        scales = torch.empty(capacity, device=device) if storage == "int8" else None
        self._rows = Stored(torch.empty(capacity, width, dtype=DTYPES[storage], device=device), scales)
        self._used = 0

    def append(self, count: int, ids: Tensor, stored: Stored) -> Buffer:
        """Return a buffer with the first ``count`` rows of this one followed by these rows. It may be this buffer."""
        total = count + len(ids)
        buffer = self
        if total > len(self.ids) or self._used != count:
            buffer = self.copy(slice(0, count), max(total, 2 * count))
        buffer._used = total  # before writing: after an interrupt, another append must copy
        buffer._write(slice(count, total), ids, stored)
        return buffer

    def copy(self, indices: slice | Tensor, capacity: int = 0) -> Buffer:
        """Return a new buffer with the selected rows and at least this capacity."""
        ids = self.ids[indices]
        buffer = Buffer(self.width, self.storage, self.device, max(capacity, len(ids)))
        buffer._used = len(ids)
        buffer._write(slice(0, len(ids)), ids, self.read(indices))
        return buffer

    def _write(self, indices: slice, ids: Tensor, stored: Stored) -> None:
        self.ids[indices] = ids.to(self.device)
        self._rows.numbers[indices] = stored.numbers.to(self.device)
        if self._rows.scales is not None and stored.scales is not None:
            self._rows.scales[indices] = stored.scales.to(self.device)

    def read(self, indices: slice | Tensor) -> Stored:
        """Return the selected rows as they are stored."""
        return self._rows.take(indices)


def chunks(count: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of ``range(count)`` with at most ``size`` elements."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))

"""Tables of hypervectors that grow: rows are appended, and never change afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr.checks import check_device
from ghrr.space import Space


class GrowingTable:
    """Table of hypervectors to which rows can be appended.

    Storage doubles when it is full, so appending a row is amortised O(1). Readers need no lock: :attr:`rows` shows all
    rows of an append or none of them, also after an interrupt, and the tensor it returned before stays valid. Rows are
    constants: appending copies values and drops their gradients, while gradients with respect to other operands flow
    through operations on :attr:`rows`, also when rows are appended before ``backward()``.

    Parameters
    ----------
    space
        Space of the hypervectors.
    device
        Device of the rows, the CPU by default.

    Attributes
    ----------
    lock
        Reentrant lock that a writer holds. Hold it to compute new rows from the present ones and append them.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.encoding.growing_table import GrowingTable
    >>> space = ghrr.Space(dim=10, m=2)
    >>> table = GrowingTable(space)
    >>> table.append(space.vectors(["a", "b"]))
    >>> table.rows.shape
    torch.Size([2, 10, 2, 2])
    """

    def __init__(self, space: Space, *, device: torch.device | str | None = None) -> None:
        self.space = space
        self.lock = Lock()
        # Setting this pair makes new rows visible in one step.
        self._state = (
            0,
            torch.empty((0, *space.shape), dtype=space.dtype, device=check_device(device)),
        )

    def __len__(self) -> int:
        return self._state[0]

    @property
    def rows(self) -> Tensor:
        """The hypervectors, ``(n, dim, m, m)``: a view of the storage, which must not be written to."""
        count, storage = self._state
        return storage[:count]

    @property
    def device(self) -> torch.device:
        """Device of the rows."""
        return self._state[1].device

    def append(self, rows: Tensor) -> None:
        """Append hypervectors ``(k, dim, m, m)``."""
        with self.lock:
            count = len(self)

            def copy(table: Tensor) -> None:
                table[count:] = rows

            self.extend(count + len(rows), copy)

    def extend(self, count: int, fill: Callable[[Tensor], None]) -> None:
        """Grow to ``count`` rows, which ``fill`` writes.

        ``fill`` gets a tensor ``(count, dim, m, m)`` that begins with the present rows, and writes the remaining ones.
        Use it for rows that are computed from earlier ones.
        """
        with self.lock:
            present, storage = self._state
            if count > len(storage):
                with torch.inference_mode(False):  # tensors of inference mode could not be used with gradients later
                    larger = storage.new_empty((max(count, 2 * len(storage)), *storage.shape[1:]))
                    larger[:present] = storage[:present]
                storage = larger
            with torch.no_grad():
                # ``data`` keeps the version counter: the rows that autograd may have saved do not change.
                fill(storage.data[:count])
            self._state = count, storage

    def to(self, device: torch.device | str) -> None:
        """Move the rows to a device."""
        with self.lock:
            count, storage = self._state
            self._state = count, storage.to(device)


class NamedTable(GrowingTable):
    """Growing table whose rows have different names.

    Names and rows become visible in one step: every name in :attr:`names` has a row.

    Parameters
    ----------
    space, device
        As for :class:`GrowingTable`.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.encoding.growing_table import NamedTable
    >>> space = ghrr.Space(dim=10, m=2)
    >>> table = NamedTable(space)
    >>> table.indices(["a", "b", "a"], make=space.vectors)
    [0, 1, 0]
    >>> table.names, "c" in table
    (['a', 'b'], False)
    """

    def __init__(self, space: Space, *, device: torch.device | str | None = None) -> None:
        super().__init__(space, device=device)
        self._names: list[str] = []  # the names of all rows; after an interrupt also names without a row, at the end
        self._index: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.index(name) >= 0

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were added."""
        return self._names[: len(self)]

    def index(self, name: str) -> int:
        """Return the row of a name, -1 if it is not in the table."""
        return self.find([name])[0]

    def find(self, names: Sequence[str]) -> list[int]:
        """Return the row of each name, -1 for names that are not in the table."""
        count, get = len(self), self._index.get
        rows = [get(name, -1) for name in names]
        return rows if max(rows, default=-1) < count else [row if row < count else -1 for row in rows]

    def indices(self, names: Sequence[str], make: Callable[[list[str]], Tensor]) -> list[int]:
        """Return the row of each name; ``make`` gives the hypervectors of names that are not in the table yet."""
        rows = self.find(names)
        if -1 not in rows:
            return rows
        with self.lock:
            new = [name for name, row in zip(names, self.find(names), strict=True) if row < 0]
            new = list(dict.fromkeys(new))
            self.append_named(new, make(new))
        return self.find(names)

    def append_named(self, names: Sequence[str], rows: Tensor) -> None:
        """Append hypervectors ``(len(names), dim, m, m)`` with names that are not in the table."""
        with self.lock:
            count = len(self)
            for name in self._names[count:]:  # left by an interrupted call
                self._index.pop(name, None)
            del self._names[count:]
            self._names.extend(names)
            self._index.update({name: row for row, name in enumerate(names, count)})
            super().append(rows)

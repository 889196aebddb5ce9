"""Codebook: names and their hypervectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import (
    check_choice,
    check_device,
    check_names,
    describe,
    is_true,
    named,
    names_errors,
    type_error,
    value_error,
)
from ghrr.encoding.growing_table import NamedTable
from ghrr.encoding.module import Encoder
from ghrr.space import Space, check_space

UNKNOWN = "<unknown>"
_MAX_DEPTH = 32  # of nested lists of names
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@names_errors
class Codebook(Encoder):
    """Encode names as hypervectors that depend only on the seed of the space and the name.

    Several threads may use one codebook: each call sees all names that another call adds, or none of them. An
    interrupted call adds all of its names or none. The hypervectors are constants, without gradients.

    Parameters
    ----------
    space
        Space of the hypervectors.
    names
        Initial names.
    unseen
        How to encode a name that is not in the codebook: ``"error"`` raises KeyError, ``"add"`` adds the name,
        ``"unknown"`` uses one hypervector for all such names.
    namespace
        Codebooks with different namespaces give the same name different hypervectors.
    device
        Device of the hypervectors, the CPU by default.

    Shapes
    ------
    names: a string or a nested list of strings, ``(*batch)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> colours = ghrr.encoding.Codebook(ghrr.Space(dim=100, m=2), ["red", "green"], unseen="add")
    >>> colours(["green", "red", "blue"]).shape
    torch.Size([3, 100, 2, 2])
    >>> colours.names
    ['red', 'green', 'blue']
    """

    def __init__(
        self,
        space: Space,
        names: Iterable[str] = (),
        *,
        unseen: str = "error",
        namespace: str = "",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        check_choice("unseen", unseen, ("error", "add", "unknown"))
        self.space, self.unseen, self.namespace = check_space(space), unseen, namespace
        # Not a buffer: names and rows must change in one step, and a saved codebook needs only the names.
        self._table = NamedTable(space, device=None if device is None else check_device(device))
        self.add(names)

    def __len__(self) -> int:
        return len(self._table)

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were added."""
        return self._table.names

    def vectors(self, names: Any = None) -> Tensor:
        """Return the hypervectors of names; of all names in the codebook by default.

        Parameters
        ----------
        names
            As for calling the codebook.

        Shapes
        ------
        output: ``(*batch, dim, m, m)``, without names ``(len(self), dim, m, m)``

        Examples
        --------
        >>> import ghrr
        >>> colours = ghrr.encoding.Codebook(ghrr.Space(dim=100, m=2), ["red", "green"])
        >>> colours.vectors().shape, colours.vectors("red").shape
        (torch.Size([2, 100, 2, 2]), torch.Size([100, 2, 2]))
        """
        return self._table.rows if names is None else self.forward(names)

    def add(self, names: Iterable[str]) -> None:
        """Add names; the codebook keeps the index of those it has already."""
        self._add(self._table, check_names(names))

    def _add(self, table: NamedTable, names: list[str]) -> list[int]:
        return table.indices(names, lambda new: self.space.vectors(new, namespace=self.namespace))

    def indices(self, names: Any) -> Tensor:
        """Return the index of each name in the codebook, as a tensor of the shape of the nested list."""
        return self._find(self._table, names)

    def _find(self, table: NamedTable, names: Any) -> Tensor:
        flat, shape = _flatten(names)
        rows = self._add(table, check_names(flat)) if self.unseen == "add" else table.find(flat)
        if -1 in rows:
            if self.unseen == "error":
                name = flat[rows.index(-1)]
                raise KeyError(
                    named(
                        f"{name!r} is not among the {len(table)} names; add it with .add([{name!r}]), or "
                        f'choose unseen="add" or unseen="unknown"'
                    )
                )
            (unknown,) = self._add(table, [UNKNOWN])
            rows = [unknown if row < 0 else row for row in rows]
        return torch.tensor(rows, dtype=torch.long, device=table.device).reshape(shape)

    def forward(self, names: Any) -> Tensor:
        """Encode names, given as strings or as integers, their indices in the codebook."""
        table = self._table
        if isinstance(names, np.ndarray):
            names = torch.from_numpy(names.astype(np.int64)) if names.dtype.kind in "iu" else names.tolist()
        if not isinstance(names, Tensor):
            indices = self._find(table, names)
            rows = table.rows
            return rows[indices.to(rows.device)]
        if names.dtype not in _INTEGERS:
            raise type_error(f"needs names or whole numbers, got {describe(names)}")
        rows, indices = table.rows, names.long()
        if is_true(((indices < 0) | (indices >= len(rows))).any()):
            raise IndexError(
                named(
                    f"indices must be from 0 to {len(rows) - 1}, got {int(indices.min())} to "
                    f"{int(indices.max())}; the codebook has {len(rows)} names"
                )
            )
        return rows[indices.to(rows.device)]

    def get_extra_state(self) -> list[str]:
        """Return the names: the space determines their hypervectors."""
        return self.names

    def set_extra_state(self, state: list[str]) -> None:
        """Replace the names by the names of a saved codebook."""
        table = NamedTable(self.space, device=self._table.device)
        self._add(table, check_names(state))
        self._table = table

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Encoder:
        self._table.to(fn(self._table.rows.real.new_empty(0)).device)
        return super()._apply(fn, *arguments, **settings)


def _flatten(names: Any, depth: int = 0) -> tuple[list[str], tuple[int, ...]]:
    """Return a nested list of names as a flat list, and its shape."""
    if isinstance(names, str):
        return [names], ()
    if not isinstance(names, Sequence):
        raise type_error(f"needs a name, a list of names or a tensor of whole numbers, got {describe(names)}")
    if depth >= _MAX_DEPTH:
        raise value_error(f"names are nested deeper than {_MAX_DEPTH} lists, or a list contains itself")
    parts = [_flatten(part, depth + 1) for part in names]
    if len({shape for _, shape in parts}) > 1:
        raise value_error("the lists of names inside a list must have equal lengths")
    return [name for flat, _ in parts for name in flat], (len(parts), *(parts[0][1] if parts else ()))

"""Codebook: a growable table of named hypervectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_choice, describe, is_true
from ghrr._locks import Lock
from ghrr.encoding.module import Encoder
from ghrr.space import Space, check_space

UNKNOWN = "<unknown>"


class _Table(NamedTuple):
    """The names of a book and their hypervectors. A change makes a new table."""

    names: tuple[str, ...]
    places: dict[str, int]
    vectors: Tensor


_MOST_DEPTH = 32  # of lists of names
_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Codebook(Encoder):
    """Table of named hypervectors: a name's hypervector depends on the seed of the space and the name alone.

    Several threads may use one book: each call sees all names that another one adds, or none of them. An interrupted
    call adds all of its names or none.

    Parameters
    ----------
    space
        Space of the hypervectors.
    names
        The names to start with.
    unseen
        What to do with a name that is not in the book: ``"error"``, ``"add"`` it, or encode it as ``"unknown"``, one
        hypervector for all unseen names.
    namespace
        Two books of one space and different namespaces hold the same names as different symbols.

    Shapes
    ------
    names: a string or a nested list of them, ``(*batch)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> book = ghrr.encoding.Codebook(ghrr.Space(dim=100, m=2), ["red", "green"], unseen="add")
    >>> book(["green", "red", "blue"]).shape
    torch.Size([3, 100, 2, 2])
    >>> book.names
    ['red', 'green', 'blue']
    """

    def __init__(self, space: Space, names: Iterable[str] = (), *, unseen: str = "error", namespace: str = "") -> None:
        super().__init__()
        check_choice("Codebook", "unseen", unseen, ("error", "add", "unknown"))
        self.space, self.unseen, self.namespace = check_space("Codebook", space), unseen, namespace
        self._lock = Lock()
        # No buffer of the module: names and vectors must be replaced in one step, and the names are enough to save.
        self._table = _Table((), {}, space.zeros(0))
        self.add(names)

    def __len__(self) -> int:
        return len(self._table.names)

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they were added."""
        return list(self._table.names)

    @property
    def vectors(self) -> Tensor:
        """The hypervectors of all names, ``(n, dim, m, m)``."""
        return self._table.vectors

    def add(self, names: Iterable[str]) -> None:
        """Add names to the book; those that are in it already keep their places."""
        self._add(names)

    def _add(self, names: Iterable[str]) -> _Table:
        names = _checked_names(names)
        if all(name in self._table.places for name in names):
            return self._table
        with self._lock:
            self._table = self._extended(self._table, names)
            return self._table

    def _extended(self, table: _Table, names: list[str]) -> _Table:
        new = [name for name in dict.fromkeys(names) if name not in table.places]
        made = self.space.vectors(new, namespace=self.namespace)
        places = table.places | {name: place for place, name in enumerate(new, len(table.names))}
        vectors = torch.cat([table.vectors, made.to(table.vectors.device)])
        return _Table((*table.names, *new), places, vectors)

    def indices(self, names: Any) -> Tensor:
        """Places of names in the book, as a tensor of the shape of the nested list; unseen names as was chosen."""
        return self._find(names)[0]

    def _find(self, names: Any) -> tuple[Tensor, _Table]:
        """The places of names and the table they are places in."""
        flat, shape = _flatten(names)
        table = self._add(flat if self.unseen == "add" else [UNKNOWN] if self.unseen == "unknown" else [])
        for name in flat:
            if name not in table.places and self.unseen == "error":
                raise KeyError(
                    f"Codebook: {name!r} is not among the {len(table.names)} names; add it with .add([{name!r}]), or "
                    f'choose unseen="add" or unseen="unknown"'
                )
        unknown = table.places.get(UNKNOWN, -1)
        places = [table.places.get(name, unknown) for name in flat]
        return torch.tensor(places, dtype=torch.long, device=table.vectors.device).reshape(shape), table

    def forward(self, names: Any) -> Tensor:
        """Encode names, or whole numbers that are places in the book."""
        if isinstance(names, np.ndarray):
            names = torch.from_numpy(names.astype(np.int64)) if names.dtype.kind in "iu" else names.tolist()
        if isinstance(names, Tensor):
            if names.dtype not in _WHOLE:
                raise TypeError(f"Codebook: needs names or whole numbers, got {describe(names)}")
            places, table = names.long(), self._table
            count = len(table.names)
            if is_true(((places < 0) | (places >= count)).any()):
                raise IndexError(
                    f"Codebook: holds {count} names, so numbers must be from 0 and below {count}; "
                    f"got {int(places.min())} to {int(places.max())}"
                )
        else:
            places, table = self._find(names)
        return table.vectors[places]

    def get_extra_state(self) -> list[str]:
        """The names: with the space they are all that is needed."""
        return self.names

    def set_extra_state(self, state: list[str]) -> None:
        """Replace the names by those of a saved book."""
        with self._lock:
            self._table = self._extended(_Table((), {}, self.vectors[:0]), _checked_names(state))

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Encoder:
        with self._lock:
            device = fn(self.vectors.real.new_empty(0)).device
            self._table = self._table._replace(vectors=self.vectors.to(device))
        return super()._apply(fn, *arguments, **settings)


def _checked_names(names: Iterable[str]) -> list[str]:
    """Return names as a list; raise unless all are strings that are not empty."""
    if isinstance(names, str):
        raise TypeError(f"Codebook: give a list of names, as in [{names!r}]")
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TypeError(f"Codebook: a name must be a string that is not empty, got {describe(name)}")
    return names


def _flatten(names: Any, depth: int = 0) -> tuple[list[str], tuple[int, ...]]:
    """A nested list of names as a flat one, with its shape."""
    if isinstance(names, str):
        return [names], ()
    if not isinstance(names, Sequence):
        raise TypeError(f"Codebook: needs a name, a list of names or a tensor of whole numbers, got {describe(names)}")
    if depth >= _MOST_DEPTH:
        raise ValueError(f"Codebook: names are nested deeper than {_MOST_DEPTH} lists, or the list contains itself")
    parts = [_flatten(part, depth + 1) for part in names]
    if len({shape for _, shape in parts}) > 1:
        raise ValueError("Codebook: the lists of names inside a list must have equal lengths")
    return [name for flat, _ in parts for name in flat], (len(parts), *(parts[0][1] if parts else ()))

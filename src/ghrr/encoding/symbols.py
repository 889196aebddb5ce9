"""Symbols: names to atoms, in a book that can grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_choice, describe, is_true
from ghrr.encoding.module import Encoder
from ghrr.space import Space

UNKNOWN = "<unknown>"


class Codebook(Encoder):
    """Names to hypervectors: a name's hypervector depends on the seed of the space and the name alone.

    Parameters
    ----------
    space
        Where the hypervectors live.
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

    vectors: Tensor

    def __init__(self, space: Space, names: Iterable[str] = (), *, unseen: str = "error", namespace: str = "") -> None:
        super().__init__()
        check_choice("Codebook", "unseen", unseen, ("error", "add", "unknown"))
        self.space, self.unseen, self.namespace = space, unseen, namespace
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self.register_buffer("vectors", space.empty(0), persistent=False)  # made again from the names
        self.add(names)

    def __len__(self) -> int:
        return len(self.names)

    def add(self, names: Iterable[str]) -> None:
        """Put names into the book; those that are in it already stay where they are."""
        if isinstance(names, str):
            raise TypeError(f"Codebook: give a list of names, as in [{names!r}]")
        names = list(names)
        for name in names:
            if not isinstance(name, str) or not name:
                raise TypeError(f"Codebook: a name must be a string that is not empty, got {describe(name)}")
        new = [name for name in dict.fromkeys(names) if name not in self._index]
        if not new:
            return
        made = self.space.vectors(new, namespace=self.namespace)
        self.vectors = torch.cat([self.vectors, made.to(self.vectors.device)])
        for name in new:
            self._index[name] = len(self.names)
            self.names.append(name)

    def indices(self, names: Any) -> Tensor:
        """Places of names in the book, as a tensor of the shape of the nested list; unseen names as was chosen."""
        flat, shape = _flatten(names)
        if self.unseen == "add":
            self.add(flat)
        elif self.unseen == "unknown":
            self.add([UNKNOWN])
        places = []
        for name in flat:
            if name not in self._index and self.unseen == "error":
                raise KeyError(
                    f"Codebook: {name!r} is not among the {len(self)} names; add it with .add([{name!r}]), or choose "
                    f'unseen="add" or unseen="unknown"'
                )
            places.append(self._index.get(name, self._index.get(UNKNOWN, -1)))
        return torch.tensor(places, dtype=torch.long, device=self.vectors.device).reshape(shape)

    def forward(self, names: Any) -> Tensor:
        """Encode names, or whole numbers that are places in the book."""
        if isinstance(names, np.ndarray):
            names = torch.from_numpy(names.astype(np.int64)) if names.dtype.kind in "iu" else names.tolist()
        if isinstance(names, Tensor):
            if names.dtype.is_floating_point or names.dtype.is_complex or names.dtype == torch.bool:
                raise TypeError(f"Codebook: needs names or whole numbers, got {describe(names)}")
            names = names.long()
            if is_true(((names < 0) | (names >= len(self))).any()):
                raise IndexError(
                    f"Codebook: holds {len(self)} names, so numbers must be from 0 and below {len(self)}; "
                    f"got {int(names.min())} to {int(names.max())}"
                )
            return self.vectors[names]
        places = self.indices(names)  # first, since it may make the book grow
        return self.vectors[places]

    def get_extra_state(self) -> list[str]:
        """The names: with the space they are all that is needed."""
        return list(self.names)

    def set_extra_state(self, state: list[str]) -> None:
        """Take up the names of a saved book."""
        self.names, self._index = [], {}
        self.vectors = self.vectors[:0]
        self.add(state)


def _flatten(names: Any) -> tuple[list[str], tuple[int, ...]]:
    """A nested list of names as a flat one, with its shape."""
    if isinstance(names, str):
        return [names], ()
    if not isinstance(names, Sequence):
        raise TypeError(f"Codebook: needs a name, a list of names or a tensor of whole numbers, got {describe(names)}")
    parts = [_flatten(part) for part in names]
    if len({shape for _, shape in parts}) > 1:
        raise ValueError("Codebook: the lists of names inside a list must have equal lengths")
    return [name for flat, _ in parts for name in flat], (len(parts), *(parts[0][1] if parts else ()))

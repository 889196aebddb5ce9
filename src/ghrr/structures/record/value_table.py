"""Hypervectors of values: atoms, given hypervectors, and encodings of numbers on a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.encoding import FractionalPower
from ghrr.hypervector import Hypervector
from ghrr.space import Space
from ghrr.structures.record.path_settings import PathSettings
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.value_names import name_of
from ghrr.structures.vocabulary import Vocabulary

_CHUNK_NUMBERS = 1 << 24  # complex numbers in the encodings that exist at a time: 128 MiB in complex64

Item = str | tuple[Scale, float]  # a name in the vocabulary, or a number on a scale


class ValueTable:
    """Values of a record and their hypervectors.

    Parameters
    ----------
    space
        Space of the hypervectors.
    numbers
        Scales of numbers by path.
    device
        Device of the hypervectors.
    """

    def __init__(self, space: Space, numbers: PathSettings[Scale | None], *, device: torch.device) -> None:
        self.space, self.device = space, device
        self.vocabulary = Vocabulary(space, "record value", device=device)
        self._common_scale = None if numbers.patterns else numbers.default
        self._encoders: dict[Scale, FractionalPower] = {}

    def encoder(self, scale: Scale) -> FractionalPower:
        """Return the encoder of a scale; different scales have independent encoders."""
        if scale not in self._encoders:
            ends = " ".join(repr(float(number)) for number in (scale.low, scale.high, scale.bandwidth))
            name = "record number" if scale == self._common_scale else f"record number {ends}"
            encoder = FractionalPower(self.space, 1, bandwidth=scale.bandwidth, name=name)
            self._encoders[scale] = encoder.to(self.device)
        return self._encoders[scale]

    def items(self, values: Sequence[Any], scales: Sequence[Scale | None], where: Callable[[int], str]) -> list[Item]:
        """Return values as items of this table; ``where(n)`` is the path of value n.

        Raises for values that cannot be encoded, before anything is added to the vocabulary.
        """
        items: list[Item] = []
        given: list[int] = []
        for n, (value, scale) in enumerate(zip(values, scales, strict=True)):
            if isinstance(value, Tensor | Hypervector):
                given.append(n)
                items.append("")
                continue
            name = name_of(value, lambda n=n: where(n))  # type: ignore[misc]
            if scale is None:
                items.append(name)
            elif scale.low <= value <= scale.high:
                items.append((scale, float(value)))
            else:
                raise ValueError(f"Record: {where(n)}: {value!r} is outside of {scale!r}; use a larger range")
        for n in given:
            items[n] = self.vocabulary.resolve(f"Record: {where(n)}", values[n])
        return items

    def vectors(self, items: Sequence[Item]) -> Tensor:
        """Return the hypervectors of items, ``(len(items), dim, m, m)``; new names are added."""
        vectors = torch.empty((len(items), *self.space.shape), dtype=self.space.dtype, device=self.device)
        for row_of, table in self.tables(items):
            is_in_table = row_of >= 0
            vectors[is_in_table] = table[row_of[is_in_table]]
        return vectors

    def tables(self, items: Sequence[Item]) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Yield the hypervectors of items in tables; new names are added.

        The first table is that of the vocabulary; the others have numbers on a scale.

        Yields
        ------
        row_of, vectors
            The row of each item in the table, -1 for items in other tables, and the table, ``(n, dim, m, m)``.
        """
        yield self.indices(items), self.vocabulary.vectors()
        step = max(1, _CHUNK_NUMBERS // self.space.total_dim)
        by_scale: dict[Scale, list[int]] = {}
        for n, item in enumerate(items):
            if not isinstance(item, str):
                by_scale.setdefault(item[0], []).append(n)
        for scale, members in by_scale.items():
            for start in range(0, len(members), step):
                chosen = members[start : start + step]
                row_of = np.full(len(items), -1)
                row_of[chosen] = np.arange(len(chosen))
                numbers = torch.tensor([items[n][1] for n in chosen], dtype=torch.float64, device=self.device)
                yield row_of, self.encoder(scale)(numbers[:, None])

    def indices(self, items: Sequence[Item]) -> NDArray[np.int64]:
        """Return the index of every item in the vocabulary, -1 for numbers on a scale; new names are added."""
        names = [item for item in items if isinstance(item, str)]
        rows = self.vocabulary.indices(names)
        if len(names) == len(items):
            return np.array(rows, dtype=np.int64)
        found = np.full(len(items), -1)
        found[[n for n, item in enumerate(items) if isinstance(item, str)]] = rows
        return found

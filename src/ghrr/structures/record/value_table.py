"""Hypervectors of values: atoms, hypervectors that were given, and encodings of numbers on a scale."""

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
from ghrr.structures.record.by_path import ByPath
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.values import name_of
from ghrr.structures.vocabulary import Vocabulary

_ENCODED_NUMBERS = 1 << 24  # complex numbers in the encodings that exist at a time: 128 MiB in complex64

Item = str | tuple[Scale, float]  # a name in the vocabulary, or a number on a scale


class ValueTable:
    """Values and their hypervectors.

    Parameters
    ----------
    space
        Space of the hypervectors.
    numbers
        Scales of numbers by path.
    """

    def __init__(self, space: Space, numbers: ByPath[Scale | None]) -> None:
        self.space = space
        self.names = Vocabulary(space, "record value")
        self._only = None if numbers.patterns else numbers.default  # one scale for all paths
        self._encoders: dict[Scale, FractionalPower] = {}

    def encoder(self, scale: Scale) -> FractionalPower:
        """Return the encoder of a scale; different scales have independent encoders."""
        if scale not in self._encoders:
            ends = " ".join(repr(float(number)) for number in (scale.low, scale.high, scale.bandwidth))
            name = "record number" if scale == self._only else f"record number {ends}"
            self._encoders[scale] = FractionalPower(self.space, 1, bandwidth=scale.bandwidth, name=name)
        return self._encoders[scale]

    def items(self, values: Sequence[Any], scales: Sequence[Scale | None], where: Callable[[int], str]) -> list[Item]:
        """Return values as items of this table, given hypervectors by their name; ``where(n)`` is the path of value n.

        Raises for what cannot be encoded, before anything is added to the vocabulary.
        """
        items: list[Item] = []
        for place, (value, scale) in enumerate(zip(values, scales, strict=True)):
            if isinstance(value, Tensor | Hypervector):
                items.append("")
                continue
            name = name_of(value, lambda place=place: where(place))  # type: ignore[misc]
            if scale is None:
                items.append(name)
            elif scale.low <= value <= scale.high:
                items.append((scale, float(value)))
            else:
                raise ValueError(f"Record: {where(place)}: {value!r} is outside of {scale!r}")
        for place in [place for place, item in enumerate(items) if item == ""]:
            items[place] = self.names.resolve(f"Record: {where(place)}", values[place])
        return items

    def vectors(self, items: Sequence[Item]) -> Tensor:
        """Return the hypervectors of items, ``(len(items), dim, m, m)``; new names are added."""
        vectors = self.space.zeros(len(items))
        for row_of, table in self.tables(items):
            here = row_of >= 0
            vectors[here] = table[row_of[here]]
        return vectors

    def tables(self, items: Sequence[Item]) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Yield the hypervectors of all items in tables ``(n, dim, m, m)``, and the row of each item, -1 if elsewhere.

        The first table is that of the vocabulary; the others hold numbers on a scale, chunk by chunk.
        """
        yield self.indices(items), self.names.vectors
        step = max(1, _ENCODED_NUMBERS // self.space.total_dim)
        by_scale: dict[Scale, list[int]] = {}
        for place, item in enumerate(items):
            if not isinstance(item, str):
                by_scale.setdefault(item[0], []).append(place)
        for scale, places in by_scale.items():
            for start in range(0, len(places), step):
                chosen = places[start : start + step]
                row_of = np.full(len(items), -1)
                row_of[chosen] = np.arange(len(chosen))
                numbers = torch.tensor([items[place][1] for place in chosen], dtype=torch.float64)
                yield row_of, self.encoder(scale)(numbers[:, None])

    def indices(self, items: Sequence[Item]) -> NDArray[np.int64]:
        """Return the index of every item in the vocabulary, -1 for numbers on a scale; new names are added."""
        names = [item for item in items if isinstance(item, str)]
        rows = self.names.indices(names)
        if len(names) == len(items):
            return np.array(rows, dtype=np.int64)
        found = np.full(len(items), -1)
        found[[place for place, item in enumerate(items) if isinstance(item, str)]] = rows
        return found

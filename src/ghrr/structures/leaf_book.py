"""The leaves of records as hypervectors, and the best match among those that are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr._checks import describe
from ghrr.encoding import FractionalPower
from ghrr.memory.match import Match, make_matches
from ghrr.space import Space
from ghrr.structures.leaves import Scale, is_number, name_of, value_of
from ghrr.structures.vocabulary import Vocabulary

_ENCODED_NUMBERS = 1 << 24  # complex numbers in the encodings that exist at a time: 128 MiB in complex64


class LeafBook:
    """Values of leaves and their hypervectors: atoms, and encodings of numbers where these are on a scale.

    Parameters
    ----------
    space
        Where the hypervectors live.
    numbers
        The scale of numbers; None if they are atoms as well.
    """

    def __init__(self, space: Space, numbers: Scale | None) -> None:
        if numbers is not None and not isinstance(numbers, Scale):
            raise TypeError(f"Record: numbers must be a Scale(low, high, bandwidth) or None, got {describe(numbers)}")
        self.space, self.numbers = space, numbers
        self.atoms = Vocabulary(space, "record value")
        bandwidth = 1.0 if numbers is None else numbers.bandwidth
        self._encoder = FractionalPower(space, 1, bandwidth=bandwidth, name="record number")

    def named(self, values: Sequence[Any], where: Callable[[int], str]) -> list[str | float]:
        """The name of each value's atom, or the number itself if it is on a scale.

        Raises for what cannot be encoded; ``where(n)`` says where the n-th value is.
        """
        scale = self.numbers
        named: list[str | float] = []
        for place, value in enumerate(values):
            name = name_of(value, lambda place=place: where(place))  # type: ignore[misc]
            if scale is None or not is_number(value):
                named.append(name)
            elif scale.low <= value <= scale.high:
                named.append(float(value))
            else:
                raise ValueError(f"Record: {where(place)}: {value!r} is outside of {scale!r}")
        return named

    def vectors(self, named: Sequence[str | float]) -> Tensor:
        """The hypervectors of what :meth:`named` gave, ``(len(named), dim, m, m)``; new atoms become known."""
        vectors = self.space.empty(len(named))
        for places, table in self.tables(named):
            here = places >= 0
            vectors[here] = table[places[here]]
        return vectors

    def tables(self, named: Sequence[str | float]) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """The same hypervectors where they are, in tables ``(n, dim, m, m)``: all atoms, then numbers, chunk by chunk.

        Each comes with the place in it of everything that :meth:`named` gave, -1 for what is in another.
        """
        on_scale = np.array([not isinstance(name, str) for name in named], dtype=bool)
        places = np.full(len(named), -1)
        places[~on_scale] = self.atoms.indices(name for name in named if isinstance(name, str))
        yield places, self.atoms.vectors
        step = max(1, _ENCODED_NUMBERS // self.space.total_dim)
        for start in range(0, on_scale.sum(), step):
            chosen = np.flatnonzero(on_scale)[start : start + step]
            places = np.full(len(named), -1)
            places[chosen] = np.arange(len(chosen))
            numbers = torch.tensor([named[n] for n in chosen], dtype=torch.float64)
            yield places, self._encoder(numbers[:, None])

    def match(self, answers: Tensor, *, noise: Tensor, level: float, odds: float) -> list[Match]:
        """The best match of each answer ``(n, dim, m, m)`` among all that is known."""
        if not len(self.atoms) and self.numbers is None:
            raise ValueError("Record: no values are known yet to choose from; encode a document, or load a state")
        scores, names = self.atoms.best(answers)
        labels = [[value_of(name) for name in row] for row in names]
        candidates, errors = len(self.atoms), None
        if self.numbers is not None:
            candidates += self.numbers.points
            scores, labels, errors = self._with_numbers(answers, scores, labels)
        return make_matches(labels, scores, candidates=candidates, noise=noise, level=level, odds=odds, errors=errors)

    def _with_numbers(
        self, answers: Tensor, scores: Tensor, labels: list[list[Any]]
    ) -> tuple[Tensor, list[list[Any]], list[float | None]]:
        """The best two of the best atoms, the best number, and nothing (a score of 0, where there are no atoms)."""
        assert self.numbers is not None
        number = self._encoder.decode(answers, low=self.numbers.low, high=self.numbers.high)
        ranked = torch.cat([number.score[:, None], scores, torch.zeros_like(number.score[:, None])], dim=1)
        if scores.shape[1]:
            ranked = ranked[:, :-1]
        top = ranked.topk(2)
        rows = [[value, *row, None] for value, row in zip(number.value[:, 0].tolist(), labels, strict=True)]
        order = top.indices.tolist()
        errors = [std if best == 0 else None for std, (best, _) in zip(number.std[:, 0].tolist(), order, strict=True)]
        return top.values, [[row[place] for place in pair] for row, pair in zip(rows, order, strict=True)], errors

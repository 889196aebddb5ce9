"""A book of named atoms that grows, and the best matches in it."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from ghrr._checks import check_finite, describe
from ghrr.algebra import pairwise_similarity, similarity
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match, answer_noise, make_matches
from ghrr.space import Space

_CHUNK_SCORES = 1 << 22  # similarities held at a time: 16 MiB
_CHUNK_NUMBERS = 1 << 22  # complex numbers in the answers held at a time: 32 MiB in complex64


class Book:
    """Names and their atoms, in the order in which they were met.

    Room grows by doubling, so that names may come one at a time.

    Parameters
    ----------
    space
        Where the atoms live.
    namespace
        Books of different namespaces hold different atoms for the same name.
    names
        The names to start with.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.book import Book
    >>> space = ghrr.Space(dim=200, m=2)
    >>> book = Book(space, "colour", ["red", "green"])
    >>> book.places(["green", "blue"])
    [1, 2]
    >>> book.match(book.vectors[:1] + book.vectors[1:2] * 0.1)
    [Match('red', score=1.000, margin=0.901, confident=True)]
    """

    def __init__(self, space: Space, namespace: str, names: Iterable[str] = ()) -> None:
        self.space, self.namespace = space, namespace
        self.names: list[str] = []
        self._index: dict[str, int] = {}
        self._room = space.empty(0)
        self.places(names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def vectors(self) -> Tensor:
        """The atoms of all names, ``(n, dim, m, m)``."""
        return self._room[: len(self)]

    def places(self, names: Iterable[str]) -> list[int]:
        """Where these names stand in the book; new ones are added to it."""
        names = list(names)
        new = [name for name in dict.fromkeys(names) if name not in self._index]
        if new:
            made = self.space.vectors(new, namespace=self.namespace)
            count = len(self) + len(new)
            if count > len(self._room):
                room = self.space.empty(max(count, 2 * len(self._room)))
                room[: len(self)] = self.vectors
                self._room = room
            self._room[len(self) : count] = made
            for name in new:
                self._index[name] = len(self.names)
                self.names.append(name)
        return [self._index[name] for name in names]

    def vectors_of(self, names: Iterable[str]) -> Tensor:
        """The atoms of these names, ``(len(names), dim, m, m)``; new ones are added to the book."""
        places = self.places(names)  # first, since it may make the book grow
        return self._room[torch.tensor(places, dtype=torch.long)]

    def lookup(self, names: Iterable[str]) -> Tensor:
        """The atoms of these names, in the book or not, ``(len(names), dim, m, m)``; asking adds none."""
        names = list(names)
        places = torch.tensor([self._index.get(name, -1) for name in names], dtype=torch.long)
        known = places >= 0
        vectors = self.space.empty(len(names))
        vectors[known] = self._room[places[known]]
        vectors[~known] = self.space.vectors(
            [name for name in names if name not in self._index], namespace=self.namespace
        )
        return vectors

    def best(self, answers: Tensor, k: int = 2) -> tuple[Tensor, list[list[str]]]:
        """Scores ``(n, k)`` and names of the k most similar atoms, best first; fewer if the book is shorter."""
        k = min(k, len(self))
        step = max(1, _CHUNK_SCORES // max(1, len(self)))
        found = [pairwise_similarity(part, self.vectors).topk(k) for part in torch.split(answers, step)]
        scores = torch.cat([answers.real.new_empty(0, k), *(one.values for one in found)])
        rows = [row for one in found for row in one.indices.tolist()]
        return scores, [[self.names[place] for place in row] for row in rows]

    def match(
        self,
        answers: Tensor,
        *,
        energy: Tensor | None = None,
        noise: Tensor | None = None,
        level: float = LEVEL,
    ) -> list[Match]:
        """The best match of each answer ``(n, dim, m, m)``.

        ``noise`` is that of the scores, by default :func:`ghrr.memory.match.answer_noise` for ``energy``, and this by
        default that of the answers.
        """
        if not len(self):
            raise ValueError(f"{self.namespace}: nothing is known yet to choose from; encode something first")
        if noise is None:
            noise = answer_noise(self.space, similarity(answers, answers) if energy is None else energy)
        scores, names = self.best(answers)
        return make_matches(names, scores, candidates=len(self), noise=noise, level=level)

    def members(
        self, answers: Tensor, *, energy: Tensor | None = None, level: float = LEVEL, bound: bool = True
    ) -> list[list[Match]]:
        """Everything that is in each answer, which may be several names: those more probable than not, best first.

        Each name is judged by itself; beforehand one of all names is expected to be there.
        """
        if not len(self):
            return [[] for _ in answers]
        energy = similarity(answers, answers) if energy is None else energy.expand(len(answers))
        noise = answer_noise(self.space, energy, bound=bound)
        step = max(1, _CHUNK_SCORES // len(self))
        found: list[list[Match]] = []
        for part, deviation in zip(torch.split(answers, step), torch.split(noise, step), strict=True):
            scores = pairwise_similarity(part, self.vectors)
            for row, sigma in zip(scores, deviation, strict=True):
                # The odds are even at 1/2 + σ² log N: what is below need not be looked at.
                likely = (row > 0.5 + float(sigma) ** 2 * math.log(len(self))).nonzero()[:, 0]
                order = likely[row[likely].argsort(descending=True, stable=True)]
                labels = [[self.names[place]] for place in order.tolist()]
                found.append(
                    make_matches(
                        labels, row[order, None], candidates=1, noise=sigma, level=level, odds=float(len(self))
                    )
                )
        return found


def runs(count: int, space: Space, each: int = 1) -> list[slice]:
    """Places 0 to ``count`` in runs of as many as may exist at a time, where each of them is so many hypervectors."""
    step = max(1, _CHUNK_NUMBERS // (each * space.total_dim))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def sparse_odds(count: int, x: Tensor) -> float:
    """Odds beforehand that nothing of x is at one of ``count`` places: the energy of x says how many are taken."""
    return max(1.0, count / max(1.0, float(similarity(x, x))) - 1)


def is_settled(match: Match) -> bool:
    """Whether it is certain what is there, or certain that nothing is: only then may something be changed."""
    return match.confident or match.probability_unknown >= match.level


def one_of(operation: str, x: Tensor | Hypervector, space: Space) -> Tensor:
    """As :func:`as_tensor`, for what reads one hypervector at a time: a batch is refused."""
    one = as_tensor(operation, x, space)
    if one.ndim != 3:
        raise ValueError(f"{operation}: needs one hypervector, (dim, m, m), not a batch; got {describe(one)}")
    return one


def as_tensor(operation: str, x: Tensor | Hypervector, space: Space) -> Tensor:
    """A tensor of this space from a tensor or a :class:`Hypervector`; what is of another space is refused."""
    tensor = space.check(x, operation)
    check_finite(operation, "x", tensor)
    return tensor.detach().cpu()


def check_name(operation: str, name: object) -> str:
    """Raise unless ``name`` is a string that is not empty, which is what atoms are called."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"{operation}: needs a string that is not empty, got {describe(name)}")
    return name


def check_names(operation: str, names: object) -> list[str]:
    """Raise unless these are several such names, and not one string by itself."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{operation}: needs a list of strings, got {describe(names)}")
    return [check_name(operation, name) for name in names]

"""The words that a structure has met, and how each is read without what its other orders add to the score."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr._locks import Lock
from ghrr.algebra import similarity
from ghrr.memory.decorrelation import DecorrelatedKeys, Decorrelation, decorrelate, gram_matrix, weighted_sums
from ghrr.memory.match import Match, make_matches
from ghrr.space import Space
from ghrr.structures.vocabulary import chunks

_MOST = 720  # words told apart together: all orders of six steps
_ROOM = 1 << 24  # complex numbers that are kept in all: 128 MiB in complex64
_SAMPLE = 64  # words by which those are judged that are too many

Word = tuple[Any, ...]
Steps = tuple[int, ...]


@dataclass
class _Group:
    """Words of the same steps, their hypervectors and similarities; of too many words only the first."""

    place: dict[Word, int]
    vectors: Tensor
    overlap: Tensor
    others: int = 0  # how many there are besides,
    sample: Tensor | None = None  # the hypervectors of some of those,
    near: Tensor | None = None  # and their similarities with the words
    solution: Decorrelation | None = None

    def extended(self, words: Sequence[Word], vectors: Tensor) -> _Group:
        """The group with more words; what is known of it is not computed again."""
        cross, own = gram_matrix(self.vectors, vectors), gram_matrix(vectors, vectors)
        overlap = torch.cat([torch.cat([self.overlap, cross], dim=1), torch.cat([cross.mT, own], dim=1)])
        place = self.place | {word: len(self.place) + at for at, word in enumerate(words)}
        near = None
        if self.near is not None and self.sample is not None:
            near = torch.cat([self.near, gram_matrix(vectors, self.sample)])
        return _Group(place, torch.cat([self.vectors, vectors]), overlap, self.others, self.sample, near)

    def without(self, gone: Collection[Word]) -> _Group:
        """The group without words that are not there any more."""
        kept = [word for word in self.place if word not in gone]
        rows = torch.tensor([self.place[word] for word in kept], dtype=torch.long)
        near = None if self.near is None else self.near[rows]
        place = {word: at for at, word in enumerate(kept)}
        return _Group(place, self.vectors[rows], self.overlap[rows][:, rows], self.others, self.sample, near)

    def solved(self, noise: float) -> Decorrelation:
        if self.solution is None:
            self.solution = decorrelate(self.overlap, noise=noise)
        return self.solution


@dataclass
class _Told:
    """A group in which words at some places were asked for, and their rows in it."""

    group: _Group
    solution: Decorrelation
    places: list[int]
    rows: list[int]

    @property
    def rest(self) -> Tensor:
        """What each takes from words that were too many to be told apart, if these are there once."""
        if self.group.near is None:
            return torch.zeros(len(self.rows), dtype=torch.float64)
        return self.group.others * (self.solution.coefficients[self.rows] @ self.group.near).abs().mean(dim=1)


class Orders:
    """Words by the steps that they are made of, in any order: paths, tuples, n-grams, edges.

    Parameters
    ----------
    space
        Where the words live.
    vectors
        Gives the hypervectors of words, met or not: ``(n, dim, m, m)``.
    independent
        Whether words of the same steps in another order are independent, because their factors are shifted. Then no
        word is remembered, and each is read as it is.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures.orders import Orders
    >>> space = ghrr.Space(dim=400, m=2)
    >>> pairs = Orders(space, lambda words: ghrr.bind(*(space.vectors(names) for names in zip(*words, strict=True))))
    >>> pairs.add([("a", "b"), ("c", "d")])
    >>> [f"{gain:.2f}" for gain in pairs.apart([("b", "a"), ("d", "a")]).variance_gain]
    ['1.07', '1.00']
    """

    def __init__(self, space: Space, vectors: Callable[[Sequence[Word]], Tensor], *, independent: bool = False) -> None:
        self.space, self.vectors, self.independent = space, vectors, independent
        self._met: dict[Steps, dict[Word, None]] = {}
        self._kept: dict[Steps, _Group] = {}
        self._size = 0  # words in groups that are kept
        self._lock = Lock()  # several threads may read, and reading fills the cache
        self._most = max(2, min(_MOST, _ROOM // space.total_dim))

    def add(self, words: Iterable[Word]) -> None:
        """Take up words that may be in what is read from now on."""
        if self.independent:
            return
        with self._lock:
            for word in words:
                self._met.setdefault(_steps(word), {})[word] = None

    @property
    def words(self) -> list[Word]:
        """All words that were added."""
        with self._lock:
            return [word for words in self._met.values() for word in words]

    def apart(
        self, words: Sequence[Word], *, together: bool = False, without: Collection[Word] = ()
    ) -> DecorrelatedKeys:
        """What to read for each word, so that other words of the same steps that were met add nothing to its score.

        Parameters
        ----------
        words
            Those that are asked for, met or not.
        together
            Whether all of these may be there at once, those too that were never met.
        without
            Words that are not there any more, because they were found and taken out.
        """
        vectors, gain, leak = self.vectors(words), torch.ones(len(words)).double(), torch.zeros(len(words)).double()
        with self._lock:
            for told in self._told(words, together, without):
                vectors[told.places] = weighted_sums(told.solution.coefficients[told.rows], told.group.vectors)
                gain[told.places] = told.solution.variance_gain[told.rows]
                leak[told.places] = told.solution.leakage[told.rows] + told.rest.square()
        leak[self._ambiguous(words)] += 1
        return DecorrelatedKeys(vectors, gain, leak)

    def counts(self, x: Tensor, words: Sequence[Word], sigma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """How often each word is in x, ``(dim, m, m)``, the deviation of this number, and how far it may be off.

        ``sigma`` is the deviation of plain scores, ``()`` or ``(len(words),)``. The last, which is part of the
        deviation too, is what words that depend on each other leave open, however often they are there.
        """
        scores = torch.full((len(words),), torch.nan, dtype=torch.float64)
        gain, bias = torch.ones_like(scores), torch.zeros_like(scores)
        with self._lock:
            for told in self._told(words, together=False, without=()):
                counts = told.solution.coefficients @ similarity(x, told.group.vectors).double()
                scores[told.places] = counts[told.rows]
                gain[told.places] = told.solution.variance_gain[told.rows]
                most = float(counts.abs().max().clamp(min=1))
                bias[told.places] = told.solution.bias(counts)[told.rows] + told.rest * most
        bias[self._ambiguous(words)] += 1
        alone = scores.isnan().nonzero()[:, 0].tolist()
        for run in chunks(len(alone), self.space):
            scores[alone[run]] = similarity(x, self.vectors([words[place] for place in alone[run]])).double()
        return scores, torch.sqrt(gain * sigma.double().square() + bias.square()), bias

    def _ambiguous(self, words: Sequence[Word]) -> list[int]:
        """Words that may be another order of themselves: for m = 1 without shifts, all that were never added."""
        if self.independent or self.space.m > 1:
            return []
        return [
            at for at, word in enumerate(words) if len(set(word)) > 1 and word not in self._met.get(_steps(word), {})
        ]

    def _told(self, words: Sequence[Word], together: bool, without: Collection[Word]) -> Iterator[_Told]:
        """The groups of more than one word, with the places of words that they are for."""
        if self.independent:
            return
        asked: dict[Steps, list[int]] = {}
        for place, word in enumerate(words):
            asked.setdefault(_steps(word), []).append(place)
        gone = set(without)
        for steps, places in asked.items():
            met = self._met.get(steps, {})
            if not (met or together) or len(met.keys() | {words[place] for place in places}) < 2:
                continue
            group = self._group(steps)
            if not gone.isdisjoint(group.place):
                group = group.without(gone)
            if together:
                new = dict.fromkeys(words[place] for place in places if words[place] not in group.place)
                group = self._extended(group, list(new)[: max(0, self._most - len(group.place))])
            known = [place for place in places if words[place] in group.place]
            for some in [known, *([place] for place in places if words[place] not in group.place)]:
                own = self._extended(group, [words[place] for place in some if words[place] not in group.place])
                if some and len(own.place) > 1:
                    rows = [own.place[words[place]] for place in some]
                    yield _Told(own, own.solved(self.space.noise_std), some, rows)

    def _group(self, steps: Steps) -> _Group:
        """The words of these steps that were met; the groups asked for last are kept, as far as there is room."""
        met = self._met.get(steps, {})
        group = self._kept.pop(steps, None)
        if group is None:
            group = _Group({}, self.space.zeros(0), torch.zeros(0, 0, dtype=torch.float64))
        self._size -= len(group.place)
        if len(group.place) + group.others < len(met):
            words = list(met)
            group = self._extended(group, words[len(group.place) : self._most])
            left = words[self._most :]
            if left:
                group.others = len(left)
                group.sample = self._made([left[at * len(left) // _SAMPLE] for at in range(_SAMPLE)])
                group.near = gram_matrix(group.vectors, group.sample)
        if met:
            self._kept[steps] = group
            self._size += len(group.place)
        while self._size * self.space.total_dim > _ROOM and len(self._kept) > 1:
            self._size -= len(self._kept.pop(next(iter(self._kept))).place)
        return group

    def _extended(self, group: _Group, words: Sequence[Word]) -> _Group:
        return group.extended(words, self._made(words)) if words else group

    def _made(self, words: Sequence[Word]) -> Tensor:
        """The hypervectors of words, no more steps of them at a time than there is room for."""
        parts = chunks(len(words), self.space, each=1 + len(words[0]))
        return torch.cat([self.vectors(words[part]) for part in parts])

    def rejudge(self, x: Tensor, words: Sequence[Word], matches: Sequence[Match], *, odds: float) -> list[Match]:
        """Matches that were found by plain scores, each judged again as a whole word of x, ``(dim, m, m)``.

        ``odds`` are those of :func:`ghrr.memory.match.judge` that the matches were made with. A runner-up keeps its
        plain score, which is rather too high.
        """
        judged = list(matches)
        others = [place for place, word in enumerate(words) if self._met.get(_steps(word), {}).keys() - {word}]
        shared = sorted({*others, *self._ambiguous(words)})
        if shared:
            sigma = torch.tensor([judged[place].noise for place in shared]).double()
            best, noise, _ = self.counts(x, [words[place] for place in shared], sigma)
            second = torch.tensor([judged[place].score - judged[place].margin for place in shared]).double()
            again = make_matches(
                [[judged[place].guess, judged[place].runner_up] for place in shared],
                torch.stack([best, torch.minimum(best, second)], dim=1),
                candidates=judged[shared[0]].candidates,
                noise=noise,
                confidence=judged[shared[0]].required_confidence,
                odds=odds,
            )
            for place, match in zip(shared, again, strict=True):
                judged[place] = match
        return judged

    def sift(
        self, x: Tensor, found: Sequence[Sequence[Match]], word: Callable[[int, Any], Word], *, odds: float
    ) -> list[list[Match]]:
        """What :meth:`Vocabulary.members` found in several answers, judged again; only what is known then, best first.

        ``word(n, name)`` is the word that a name makes in the n-th answer.
        """
        words = [word(row, match.guess) for row, matches in enumerate(found) for match in matches]
        judged = iter(self.rejudge(x, words, [match for matches in found for match in matches], odds=odds))
        rows = [[next(judged) for _ in matches] for matches in found]
        return [sorted((match for match in row if not match.unknown), key=lambda match: -match.score) for row in rows]


def _steps(word: Word) -> tuple[int, ...]:
    # Small to keep, for any steps. Words that fall together by chance do no harm: they are not similar.
    return tuple(sorted(map(hash, word)))

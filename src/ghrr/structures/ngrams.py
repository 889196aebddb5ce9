r"""NGrams: which n-grams occur in a sequence, and how often: :math:`\sum_t x_t * \dots * x_{t+n-1}`.

An n-gram is read whole, or by its parts: unbinding the first n - 1 elements from the left leaves the last, unbinding
the last n - 1 from the right leaves the first. Scores are counts, within a noise of :math:`\sqrt{E/(2Dm^2)}` where E is
the sum of the squared counts. N-grams of the same elements in another order share a part of each other (ab and ba
:math:`1/m^2`, aab and baa :math:`2/m^2`); an n-gram is counted without the contribution of such n-grams that were
encoded (:mod:`ghrr.memory.decorrelation`). With ``permute``, and by default for m = 1, element j is shifted by j slots,
and different orders are independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr import encoding
from ghrr._checks import check_integer
from ghrr.algebra import multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.orders import Orders
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, check_names, chunks, one_of

_MOST_BEGINNINGS = 1 << 16

Gram = tuple[str, ...]


class NGrams(Structure):
    """A sequence of names as the bundle of its n-grams, with questions about them.

    Built on :class:`ghrr.encoding.NGrams`. Elements are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    n
        Length of the n-grams.
    confidence
        Probability from which on a match is confident.
    permute
        Shift element j of an n-gram by j slots before binding; by default only for m = 1. It is the better choice for
        m = 2 too, where abc and cba otherwise have a similarity of 1/4; from m = 4 on the two hardly differ.

    Shapes
    ------
    encode: a list of names to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import NGrams
    >>> grams = NGrams(ghrr.Space(dim=1000, m=3), n=2)
    >>> h = grams.encode(list("abracadabra"))
    >>> f"{grams.count(h, 'ab'):.1f} {grams.count(h, 'ar'):.1f}"
    '2.0 0.0'
    >>> [match.label for match in grams.after(h, "a")]
    ['b', 'd', 'c']
    """

    def __init__(self, space: Space, n: int, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.encoder = encoding.NGrams(n, permute=self.permute)
        self.n = self.encoder.n
        self.names = Vocabulary(space, "n-gram element")
        self.orders = Orders(space, self._products, independent=self.permute)

    @classmethod
    def suggest(cls, grams: int, *, names: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which the element after a beginning is found with confidence and right.

        Parameters
        ----------
        grams
            Number of n-grams in the sequence; for repeated ones, the sum of the squared counts.
        names
            Number of different elements.
        m
            Size of the slots' matrices.
        error
            Share of elements that may be missed, not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import NGrams
        >>> NGrams.suggest(100, names=26, m=3)
        Space(dim=265, m=3, seed=0)
        """
        grams = check_integer("NGrams.suggest", "grams", grams, least=1)
        names = check_integer("NGrams.suggest", "names", names, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=grams, candidates=names, several=True)

        return smallest_space("NGrams.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, items: Sequence[Name]) -> Tensor:
        """Return the hypervector of a sequence of at least n names."""
        names = self.names.resolve_all("NGrams.encode", _letters(items))
        if len(names) < self.n:
            raise ValueError(f"NGrams.encode: {self.n}-grams need at least {self.n} items, got {len(names)}")
        at = torch.tensor(self.names.indices(names))
        encoded = self.encoder.from_codebook(self.names.vectors, at)
        self.orders.add(tuple(names[start : start + self.n]) for start in range(len(names) - self.n + 1))
        return encoded

    def count(self, h: Tensor | Hypervector, gram: Sequence[Name]) -> float:
        """Return how often an n-gram occurs, not rounded: its similarity, less what other orders contribute."""
        x = one_of("NGrams.count", h, self.space)
        word = self._checked("NGrams.count", gram, self.n)
        counts, _, _ = self.orders.counts(x, [word], torch.zeros(()))
        return float(counts[0])

    def after(self, h: Tensor | Hypervector, beginning: Sequence[Name]) -> list[Match]:
        """Return all names that follow a beginning of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.after", h, self.space)
        return self._after(x, [self._checked("NGrams.after", beginning, self.n - 1)])[0]

    def before(self, h: Tensor | Hypervector, ending: Sequence[Name]) -> list[Match]:
        """Return all names that precede an ending of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.before", h, self.space)
        end = self._checked("NGrams.before", ending, self.n - 1)
        found = self.names.members(unbind(x, self._products([end], first=1), side="right"), confidence=self.confidence)
        return self.orders.sift(x, found, lambda _, name: (name, *end), odds=len(self.names))[0]

    def decode(self, h: Tensor | Hypervector) -> dict[Gram, Match]:
        """Return all n-grams of known names that are certain, with the match of their last name, a count.

        Every beginning is tried.
        """
        x = one_of("NGrams.decode", h, self.space)
        if not x.any():
            return {}
        self.names.check_not_empty()
        count = len(self.names) ** (self.n - 1)
        if count > _MOST_BEGINNINGS:
            raise ValueError(
                f"NGrams.decode: {len(self.names)} names make {count} beginnings to try, more than {_MOST_BEGINNINGS}; "
                f"ask with count, after or before"
            )
        beginnings = list(itertools.product(self.names.names, repeat=self.n - 1))
        found: dict[Gram, Match] = {}
        for chunk in chunks(count, self.space):
            for beginning, matches in zip(beginnings[chunk], self._after(x, beginnings[chunk]), strict=True):
                found |= {(*beginning, match.guess): match for match in matches if match.confident}
        return found

    def _after(self, x: Tensor, beginnings: Sequence[Gram]) -> list[list[Match]]:
        """The names that follow each of some beginnings."""
        answers = self._shift(unbind(x, self._products(beginnings), side="left"), 1 - self.n)
        found = self.names.members(answers, energy=similarity(x, x), confidence=self.confidence)
        return self.orders.sift(x, found, lambda row, name: (*beginnings[row], name), odds=len(self.names))

    def _products(self, words: Sequence[Gram], first: int = 0) -> Tensor:
        """The products of words of one length, from position ``first`` of an n-gram on: ``(len(words), dim, m, m)``."""
        names = sorted({name for word in words for name in word})
        at = {name: index for index, name in enumerate(names)}
        rows = torch.tensor([[at[name] for name in word] for word in words], dtype=torch.long)
        factors = self.names.lookup(names)
        if not self.permute or not rows.shape[1]:
            return multibind(factors[rows])
        return multibind([self._shift(factors, first + j)[column] for j, column in enumerate(rows.T)])

    def _checked(self, operation: str, names: Sequence[Name], length: int) -> Gram:
        given = self.names.resolve_all(operation, _letters(names))
        if len(given) != length:
            raise ValueError(f"{operation}: needs {length} names for {self.n}-grams, got {given}")
        return tuple(given)

    def _settings(self) -> dict[str, Any]:
        return {"n": self.n, **super()._settings()}

    def _seen(self) -> list[list[str]]:
        return [list(word) for word in self.orders.words]

    def _restore(self, seen: Any) -> None:
        self.orders.add(tuple(check_names("NGrams", word)) for word in seen)


def _letters(items: Any) -> Any:
    """A string is the list of its letters."""
    return list(items) if isinstance(items, str) else items

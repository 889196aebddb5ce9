r"""NGrams: which runs of n names occur in a sequence, and how often: :math:`\sum_t x_t * \dots * x_{t+n-1}`.

A run is read whole, or by its parts: what follows a beginning is left when the beginning is unbound from the left,
what goes before an ending when the ending is unbound from the right. For m = 1 a run and its reversal are the same.
Scores are counts, within a noise of :math:`\sqrt{E/(2Dm^2)}` where E is the sum of the squared counts. Runs of the same
names in another order share a part of each other (ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`); a run is counted
without what such runs that were met may add (:mod:`ghrr.memory.orders`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from ghrr import encoding
from ghrr.algebra import multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary, check_names, chunks, one_of

_MOST_RUNS = 1 << 16

Run = tuple[str, ...]


class NGrams:
    """A sequence of names as the bundle of its runs of n, with questions about them.

    Built on :class:`ghrr.encoding.NGrams`.

    Parameters
    ----------
    space
        Where the hypervectors live.
    n
        Length of the runs.
    level
        From which probability on a match is confident.

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

    def __init__(self, space: Space, n: int, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.encoder = encoding.NGrams(n)
        self.n = self.encoder.n
        self.names = Vocabulary(space, "n-gram element")
        self.orders = Orders(space, self._products)

    def encode(self, items: Sequence[str]) -> Tensor:
        """The hypervector of a sequence of at least n names."""
        names = check_names("NGrams.encode", list(items))
        encoded: Tensor = self.encoder(self.names.lookup(names))
        self.names.indices(names)
        self.orders.add(tuple(names[start : start + self.n]) for start in range(len(names) - self.n + 1))
        return encoded

    def count(self, h: Tensor | Hypervector, run: Sequence[str]) -> float:
        """How often a run occurs, to be rounded: its similarity with the sequence, less what other orders share."""
        x = one_of("NGrams.count", h, self.space)
        word = self._checked("NGrams.count", run, self.n)
        counts, _, _ = self.orders.counts(x, [word], torch.zeros(()))
        return float(counts[0])

    def after(self, h: Tensor | Hypervector, beginning: Sequence[str]) -> list[Match]:
        """All names that follow a beginning of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.after", h, self.space)
        return self._after(x, [self._checked("NGrams.after", beginning, self.n - 1)])[0]

    def before(self, h: Tensor | Hypervector, ending: Sequence[str]) -> list[Match]:
        """All names that go before an ending of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.before", h, self.space)
        end = self._checked("NGrams.before", ending, self.n - 1)
        found = self.names.members(unbind(x, self._products([end]), side="right"), level=self.level)
        return self.orders.sift(x, found, lambda _, name: (name, *end), odds=len(self.names))[0]

    def decode(self, h: Tensor | Hypervector) -> dict[tuple[str, ...], Match]:
        """All runs of known names that certainly occur, with the match of their last name, whose score is the count.

        Each beginning is tried.
        """
        x = one_of("NGrams.decode", h, self.space)
        count = len(self.names) ** (self.n - 1)
        if count > _MOST_RUNS:
            raise ValueError(
                f"NGrams.decode: {len(self.names)} names make {count} beginnings to try, more than {_MOST_RUNS}; ask "
                f"with count, after or before"
            )
        beginnings = list(itertools.product(self.names.names, repeat=self.n - 1))
        found: dict[tuple[str, ...], Match] = {}
        for run in chunks(count, self.space):
            for beginning, matches in zip(beginnings[run], self._after(x, beginnings[run]), strict=True):
                found |= {(*beginning, match.guess): match for match in matches if match.confident}
        return found

    def _after(self, x: Tensor, beginnings: Sequence[Run]) -> list[list[Match]]:
        """The names that follow each of some beginnings."""
        answers = unbind(x, self._products(beginnings), side="left")
        found = self.names.members(answers, energy=similarity(x, x), level=self.level)
        return self.orders.sift(x, found, lambda row, name: (*beginnings[row], name), odds=len(self.names))

    def _products(self, words: Sequence[Run]) -> Tensor:
        """The products of words of one length, of names that are known or not: ``(len(words), dim, m, m)``."""
        names = sorted({name for word in words for name in word})
        at = {name: place for place, name in enumerate(names)}
        rows = torch.tensor([[at[name] for name in word] for word in words], dtype=torch.long)
        return multibind(self.names.lookup(names)[rows])

    def _checked(self, operation: str, names: Sequence[str], length: int) -> Run:
        given = check_names(operation, list(names))
        if len(given) != length:
            raise ValueError(f"{operation}: needs {length} names for runs of {self.n}, got {given}")
        return tuple(given)

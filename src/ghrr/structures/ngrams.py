r"""NGrams: which runs of n names occur in a sequence, and how often: :math:`\sum_t x_t * \dots * x_{t+n-1}`.

A run is read whole, or by its parts: what follows a beginning is left when the beginning is unbound from the left,
what goes before an ending when the ending is unbound from the right. For m = 1 a run and its reversal are the same.
Scores are counts, within a noise of :math:`\sqrt{E/(2Dm^2)}` where E is the sum of the squared counts. This law knows
of independent runs only: those of the same names in another order leave a share of each other that no dimension removes
(ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`), times their count. For m = 2, or many repetitions, a run that is
absent may then be called confident; use m >= 4 there.
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
from ghrr.structures.book import Book, check_names, one_of, runs

_MOST_RUNS = 1 << 16


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
    >>> f"{grams.count(h, 'ab'):.1f} {grams.count(h, 'ba'):.1f}"
    '2.0 0.2'
    >>> [match.label for match in grams.after(h, "a")]
    ['b', 'd', 'c']
    """

    def __init__(self, space: Space, n: int, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.encoder = encoding.NGrams(n)
        self.n = self.encoder.n
        self.names = Book(space, "n-gram element")

    def encode(self, items: Sequence[str]) -> Tensor:
        """The hypervector of a sequence of at least n names."""
        names = check_names("NGrams.encode", list(items))
        encoded: Tensor = self.encoder(self.names.lookup(names))
        self.names.places(names)
        return encoded

    def count(self, h: Tensor | Hypervector, run: Sequence[str]) -> float:
        """How often a run occurs, to be rounded: its similarity with the sequence."""
        x = one_of("NGrams.count", h, self.space)
        return float(similarity(x, self._product("NGrams.count", run, self.n)))

    def after(self, h: Tensor | Hypervector, beginning: Sequence[str]) -> list[Match]:
        """All names that follow a beginning of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.after", h, self.space)
        answer = unbind(x, self._product("NGrams.after", beginning, self.n - 1), side="left")
        return self.names.members(answer[None], level=self.level)[0]

    def before(self, h: Tensor | Hypervector, ending: Sequence[str]) -> list[Match]:
        """All names that go before an ending of n - 1 names, the most frequent first; a score is a count."""
        x = one_of("NGrams.before", h, self.space)
        answer = unbind(x, self._product("NGrams.before", ending, self.n - 1), side="right")
        return self.names.members(answer[None], level=self.level)[0]

    def decode(self, h: Tensor | Hypervector) -> dict[tuple[str, ...], int]:
        """All runs of known names that certainly occur, with their counts. Each beginning is tried."""
        x = one_of("NGrams.decode", h, self.space)
        count = len(self.names) ** (self.n - 1)
        if count > _MOST_RUNS:
            raise ValueError(
                f"NGrams.decode: {len(self.names)} names make {count} beginnings to try, more than {_MOST_RUNS}; ask "
                f"with count, after or before"
            )
        beginnings = list(itertools.product(range(len(self.names)), repeat=self.n - 1))
        found: dict[tuple[str, ...], int] = {}
        for run in runs(count, self.space):
            part = beginnings[run]
            keys = multibind(self.names.vectors[torch.tensor(part, dtype=torch.long)])
            ends = self.names.members(unbind(x, keys, side="left"), energy=similarity(x, x), level=self.level)
            for beginning, matches in zip(part, ends, strict=True):
                names = [self.names.names[place] for place in beginning]
                found |= {(*names, match.label): round(match.score) for match in matches if match.confident}
        return found

    def _product(self, operation: str, names: Sequence[str], length: int) -> Tensor:
        given = check_names(operation, list(names))
        if len(given) != length:
            raise ValueError(f"{operation}: needs {length} names for runs of {self.n}, got {given}")
        return multibind(self.names.lookup(given))

r"""NGrams: which n-grams occur in a sequence, and how often: :math:`\sum_t x_t * \dots * x_{t+n-1}`.

An n-gram is read as a whole, or by its elements: unbinding the first n - 1 elements from the left leaves the last,
unbinding the last n - 1 from the right leaves the first. Scores are counts, within a noise of
:math:`\sqrt{E/(2Dm^2)}` where E is the sum of the squared counts. N-grams of the same elements in another order are
similar (ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`); an n-gram is counted without the contribution of such
n-grams that were encoded (:mod:`ghrr.structures.permuted_paths`). With ``permute``, by default for m = 1, element j is
shifted by j slots, and different orders are independent.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ghrr import encoding
from ghrr.algebra import multibind, similarity, unbind
from ghrr.checks import names_errors, value_error
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.fullness import items_of_counts
from ghrr.structures.inputs import chunks
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchDict, MatchList
from ghrr.structures.vocabulary import Name

_MAX_PREFIXES = 1 << 16

Gram = tuple[str, ...]


@names_errors
class NGrams(Structure):
    """Sequence of names as the bundle of its n-grams.

    Built on :class:`ghrr.encoding.NGramEncoder`. Elements are names or given hypervectors.

    Parameters
    ----------
    space, confidence, device
        See :class:`ghrr.structures.base.Structure`.
    n
        Length of the n-grams.
    permute
        Shift element j of an n-gram by j slots before binding, by default only for m = 1. It is the better choice for
        m = 2 too, where abc and cba otherwise have a similarity of 1/4; from m = 4 on it makes little difference.

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
    '2.0 -0.0'
    >>> [match.label for match in grams.after(h, "a")]
    ['b', 'c', 'd']
    """

    _SIZES, _SEVERAL = ("grams", "names"), True

    def __init__(
        self,
        space: Space,
        n: int,
        *,
        confidence: float = CONFIDENCE,
        permute: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(space, confidence=confidence, permute=permute, device=device)
        self.encoder = encoding.NGramEncoder(n, permute=self.permute)
        self.n = self.encoder.n

    def _create_tables(self) -> None:
        self.names = self._vocabulary("n-gram element")
        self._grams = self.permuted = self._permuted_paths(self._products)

    def encode(self, items: Sequence[Name]) -> Tensor:
        """Return the hypervector of a sequence of at least n names."""
        names = self.names.resolve_all(_letters(items))
        if len(names) < self.n:
            raise value_error(f"{self.n}-grams need at least {self.n} items, got {len(names)}")
        rows = torch.tensor(self.names.indices(names))
        encoded = self.encoder.from_codebook(self.names.vectors(), rows)
        grams = Counter(tuple(names[start : start + self.n]) for start in range(len(names) - self.n + 1))
        self._grams.add(grams)
        self._warn_if_full(items_of_counts(grams.values()), len(self.names))
        return encoded

    def count(self, h: Tensor | Hypervector, gram: Sequence[Name]) -> float:
        """Return how often an n-gram occurs, not rounded: its similarity without the contribution of permutations."""
        x = self._constant(h)
        checked = self._check_gram(gram, self.n)
        counts, _, _ = self._grams.counts(x, [checked], torch.zeros((), device=self.device))
        return float(counts[0])

    def after(self, h: Tensor | Hypervector, prefix: Sequence[Name]) -> MatchList:
        """Return all names that follow a prefix of n - 1 names, the most frequent first; scores are counts."""
        x = self._constant(h)
        start = self._check_gram(prefix, self.n - 1)
        return self._found(x, self._after(x, [start])[0], len(self.names), self.names.note(*start))

    def before(self, h: Tensor | Hypervector, suffix: Sequence[Name]) -> MatchList:
        """Return all names that precede a suffix of n - 1 names, the most frequent first; scores are counts."""
        x = self._constant(h)
        end = self._check_gram(suffix, self.n - 1)
        found = self.names.members(unbind(x, self._products([end], first=1), side="right"), confidence=self.confidence)
        [matches] = self._grams.rejudge_members(x, found, lambda _, name: (name, *end), odds=len(self.names))
        return self._found(x, matches, len(self.names), self.names.note(*end))

    def decode(self, h: Tensor | Hypervector) -> MatchDict:
        """Return all confident n-grams of known names, with the match of their last name, whose score is the count.

        Every n-gram of known names is tried, so the prior odds of each are one to their number. Confident n-grams are
        subtracted, and the rest is read again with less noise, until less than half an n-gram is left.
        """
        x = self._constant(h)
        if not x.any():
            return MatchDict(unexplained=0.0)
        self.names.check_not_empty()
        count = len(self.names) ** (self.n - 1)
        if count > _MAX_PREFIXES:
            raise value_error(
                f"{len(self.names)} names have {count} prefixes to try, expected at most "
                f"{_MAX_PREFIXES}; query with count, after or before"
            )
        prefixes = list(itertools.product(self.names.names, repeat=self.n - 1))
        increments: dict[Gram, Match] = {}

        def read(rest: Tensor, found: Mapping[Gram, Match]) -> dict[Gram, Match]:
            increments.clear()
            if found and similarity(rest, rest) < 0.5:
                return {}
            for chunk in chunks(count, self.space):
                answers = self._after(rest, prefixes[chunk], odds=count)
                for prefix, matches in zip(prefixes[chunk], answers, strict=True):
                    increments.update({(*prefix, match.guess): match for match in matches if match.confident})
            # A count that was read too low in the noise of an earlier round is corrected.
            earlier = {gram: round(found[gram].score) if gram in found else 0 for gram in increments}
            return {
                gram: replace(match, score=earlier[gram] + match.score, margin=earlier[gram] + match.margin)
                for gram, match in increments.items()
            }

        def remove(rest: Tensor, new: Mapping[Gram, Match]) -> Tensor:
            for chunk in chunks(len(new), self.space):
                grams = list(new)[chunk]
                counts = torch.tensor([round(increments[gram].score) for gram in grams], device=self.device)
                rest = rest - (self._products(grams) * counts[:, None, None, None]).sum(dim=0)
            return rest

        found, rest = peel(x, read, remove)
        return MatchDict(found, **self._left(rest))

    def _after(self, x: Tensor, prefixes: Sequence[Gram], odds: float = 1.0) -> list[list[Match]]:
        """Return the names that follow each prefix; ``odds`` are the prior odds that none does."""
        answers = self._shift(unbind(x, self._products(prefixes), side="left"), 1 - self.n)
        found = self.names.members(answers, energy=similarity(x, x), confidence=self.confidence, odds=odds)
        odds = odds * len(self.names)
        return self._grams.rejudge_members(x, found, lambda n, name: (*prefixes[n], name), odds=odds)

    def _products(self, grams: Sequence[Gram], first: int = 0) -> Tensor:
        """Return the products of names from position ``first`` of an n-gram on: ``(len(grams), dim, m, m)``."""
        names = sorted({name for gram in grams for name in gram})
        row = {name: n for n, name in enumerate(names)}
        rows = torch.tensor([[row[name] for name in gram] for gram in grams], dtype=torch.long)
        factors = self.names.vectors(names)
        if not self.permute or not rows.shape[1]:
            return multibind(factors[rows])
        return multibind([self._shift(factors, first + j)[column] for j, column in enumerate(rows.T)])

    def _check_gram(self, names: Sequence[Name], length: int) -> Gram:
        given = self.names.resolve_all(_letters(names))
        if len(given) != length:
            raise value_error(f"needs {length} names for {self.n}-grams, got {given}")
        return tuple(given)

    def _settings(self) -> dict[str, Any]:
        return {"n": self.n, **super()._settings()}


def _letters(items: Any) -> Any:
    """Return a string as the list of its letters."""
    return list(items) if isinstance(items, str) else items

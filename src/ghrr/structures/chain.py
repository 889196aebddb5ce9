r"""Chain: a sequence by chained binding, :math:`x_1 + x_1 * x_2 + x_1 * x_2 * x_3 + \dots`, read from the front.

No positions are needed: each element is bound to all before it, in order. Unbinding a beginning from the left leaves
what follows it. Two chains with the same beginning share it. A chain of n elements answers with noise of about
:math:`\sqrt{n/(2Dm^2)}`.

With shifts, which are the default for m = 1, element t is shifted by t slots before binding, :math:`x_1 + x_1 *
\rho(x_2) + x_1 * \rho(x_2) * \rho^2(x_3) + \dots`: then beginnings of the same elements in another order are
independent. Without shifts they share a part of each other. Two of them have parts of the same length that do not
consist of the same elements, so a beginning is there when all its parts are. In a bundle of chains the parts may be
those of different ones; there a short beginning is judged by itself, among its other orders that were encoded
(:mod:`ghrr.memory.decorrelation`), and a long one is never confident. For m = 1 without shifts all orders of the same
elements are one product, and :meth:`Chain.next` is never confident where another order is possible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.orders import Orders
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.sequence import lists_of_names
from ghrr.structures.vocabulary import Name, Vocabulary, as_tensor, check_names, one_of

_SHORT = 8  # elements of which beginnings are remembered
_SEVERAL = 1.5  # sum of the scores of first elements from which on there are several chains


class Chain(Structure):
    r"""A list of names as one hypervector, :math:`\sum_t x_1 * \dots * x_t`.

    Elements are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift element t by t slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

    Shapes
    ------
    encode: a list of names to ``(dim, m, m)``, n lists to ``(n, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Chain
    >>> words = Chain(ghrr.Space(dim=300, m=3))
    >>> h = words.encode(["to", "be", "or", "not"])
    >>> words.next(h, ["to", "be"])
    Match('or', score=0.965, margin=0.923, confident=True)
    >>> words.next(h, ["be", "to"]).unknown
    True
    >>> [match.label for match in words.decode(h)]
    ['to', 'be', 'or', 'not']
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.names = Vocabulary(space, "chain element")
        self.orders = Orders(space, self._products, independent=self.permute)

    @classmethod
    def suggest(cls, length: int, *, names: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a chain answers with confidence and right.

        Parameters
        ----------
        length
            Number of elements.
        names
            Number of different names.
        m
            Size of the slots' matrices.
        error
            Share of elements that may be not confident or wrong, each read after those before it.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Chain
        >>> Chain.suggest(50, names=1000)
        Space(dim=187, m=3, seed=0)
        """
        length = check_integer("Chain.suggest", "length", length, least=1)
        names = check_integer("Chain.suggest", "names", names, least=1)

        def rate(space: Space) -> float:
            found = answer_rate(space, items=length, candidates=names)
            return found if space.m == 1 else found * _rate_of_beginnings(space, length)

        return smallest_space("Chain.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, items: Items[Name] | Items[Items[Name]]) -> Tensor:
        """Return the hypervector of a list of names, or of each of several lists."""
        many, single = lists_of_names("Chain.encode", items, self.names)
        longest = max(map(len, many), default=0)
        if self.permute and longest > self.space.dim:
            raise ValueError(
                f"Chain.encode: a chain of {longest} elements needs as many slots to be shifted by, got a space of "
                f"{self.space.dim}; use a larger dim, or permute=False"
            )
        rows = [self.names.indices(one) for one in many]
        total = self._encode_rows(self.names.vectors, rows, longest)
        self.orders.add(tuple(one[:end]) for one in many for end in range(1, 1 + min(len(one), _SHORT)))
        return total[0] if single else total

    def _encode_rows(self, table: Tensor, many: list[list[int]], longest: int) -> Tensor:
        """From the last element to the first: a chain is its first element, and this bound to the rest."""
        total = self.space.zeros(len(many))
        for place in range(longest - 1, -1, -1):
            at = [row for row, one in enumerate(many) if place < len(one)]
            first = table[torch.tensor([many[row][place] for row in at])]
            total[at] = first + bind(first, self._shift(total[at], 1))
        return total

    def beginning(self, names: Items[Name]) -> Tensor:
        """Return the product of a beginning, whether its names are known or not: ``(dim, m, m)``."""
        return multibind(self._factors(self.names.resolve_all("Chain.beginning", names)))

    def _factors(self, names: Items[str]) -> Tensor:
        """The elements, shifted by their place: ``(len(names), dim, m, m)``."""
        vectors = self.names.lookup(names)
        if self.permute and len(names):
            vectors = torch.stack([self._shift(vector, place) for place, vector in enumerate(vectors)])
        return vectors

    def _parts(self, names: Items[str]) -> list[Tensor]:
        """The products of all beginnings of a beginning."""
        return list(accumulate(self._factors(names), bind))

    def _after(self, x: Tensor, names: Items[str]) -> Tensor:
        """Unbind a beginning from the left, and take back the shift of what follows."""
        return self._shift(unbind(x, multibind(self._factors(names)), side="left"), -len(names))

    def rest(self, h: Tensor | Hypervector, beginning: Items[Name]) -> Tensor:
        """Return the chain of what follows a beginning, without what is left of the beginning itself."""
        x = as_tensor("Chain.rest", h, self.space)
        names = self.names.resolve_all("Chain.rest", beginning)
        return self._after(x - sum(self._parts(names)), names)

    def next(self, h: Tensor | Hypervector, beginning: Items[Name]) -> Match:
        """Return the element after a beginning; unknown if the beginning is not there.

        Without shifts, in a bundle of several chains, nothing is confident after a beginning of more than seven
        elements; nor is, for m = 1, anything that could come in another order.
        """
        x = one_of("Chain.next", h, self.space)
        energy, names = similarity(x, x), self.names.resolve_all("Chain.next", beginning)
        [match] = self.names.match(self._after(x, names)[None], energy=energy, confidence=self.confidence)
        if self.permute or not names:
            return match
        most = 1.0
        if self.space.m == 1:
            most = 0.5 if len({*names, match.guess}) > 1 else 1.0
        elif len(names) < _SHORT:
            [match] = self.orders.rejudge(x, [(*names, match.guess)], [match], odds=1.0)
        elif self._is_several(x):
            most = 0.5
        scores = torch.stack([similarity(x, part) for part in self._parts(names)]).double()
        there = 1 / (1 + _odds_against(scores, answer_noise(self.space, energy)))
        missing = 1 - there + there * match.probability_unknown
        return replace(match, probability=min(most, there * match.probability), probability_unknown=missing)

    def _is_several(self, x: Tensor) -> bool:
        """Whether more than one chain is in x, by the first elements."""
        return sum(match.score for match in self.names.members(x[None], confidence=self.confidence)[0]) >= _SEVERAL

    def _products(self, words: Items[Items[str]]) -> Tensor:
        return torch.stack([multibind(self._factors(word)) for word in words])

    def item(self, h: Tensor | Hypervector, index: int) -> Match:
        """Return the element at an index, from 0; all before it are read on the way."""
        index = check_integer("Chain.item", "index", index, least=0)
        found = self.decode(one_of("Chain.item", h, self.space), most=index + 1)
        if len(found) <= index:
            raise IndexError(f"Chain.item: nothing is certain at index {index}; the chain was read up to {len(found)}")
        return found[index]

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> list[Match]:
        """Return the elements from the front, up to the first that is unknown.

        Each element is taken out and unbound before the next is read.
        """
        x = one_of("Chain.decode", h, self.space)
        most = check_integer("Chain.decode", "most", most, least=0)
        found: list[Match] = []
        while len(found) < most and x.any():
            match = self.names.match(x[None], confidence=self.confidence)[0]
            if match.unknown:
                break
            found.append(match)
            element = self.names.lookup([match.guess])[0]
            x = self._shift(unbind(x - element, element, side="left"), -1)
        return found

    def _seen(self) -> list[list[str]]:
        return [list(word) for word in self.orders.words]

    def _restore(self, seen: Any) -> None:
        self.orders.add(tuple(check_names("Chain", word)) for word in seen)


def _rate_of_beginnings(space: Space, length: int) -> float:
    """Share of the beginnings of a chain that are recognised by their parts, which is needed without shifts.

    One of k parts is enough to doubt a beginning if it makes the mean of :func:`_odds_against` too large by itself.
    """
    parts = torch.arange(1, max(2, length)).double()
    enough = 1 / 2 + answer_noise(space, length).square() * torch.log(CONFIDENCE / (1 - CONFIDENCE) / parts)
    sigma = max(1e-150, math.sqrt(length - 1) * space.crosstalk_std)
    return float((torch.special.ndtr((1 - enough) / sigma) ** parts).mean())


def _odds_against(scores: Tensor, sigma: Tensor) -> float:
    r"""The odds that a beginning is absent, by the scores of its parts: the mean of :math:`e^{-(s - 1/2)/\sigma^2}`.

    Each is the ratio of two Gaussians, about 0 and about 1. The one part that tells may be any of them.
    """
    return float(torch.exp(-(scores - 1 / 2) / sigma.square()).mean())

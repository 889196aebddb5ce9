r"""Chain: a sequence by chained binding, :math:`x_1 + x_1 * x_2 + x_1 * x_2 * x_3 + \dots`, read from the front.

No positions are needed: each element is bound to all before it, in order. Unbinding a beginning from the left leaves
what follows it. Two chains with the same beginning share it. A chain of n elements answers with noise of about
:math:`\sqrt{n/(2Dm^2)}`. Beginnings of the same elements in another order share a part of each other, for m = 1 all of
it. They are told apart by what they begin with themselves: two of them have parts of the same length that do not
consist of the same elements, and so a beginning is there when all its parts are. In a bundle of chains the parts may be
those of different ones; there a short beginning is judged by itself, among its other orders that were met
(:mod:`ghrr.memory.orders`), and a long one, or any for m = 1, is never confident.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match, answer_noise
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary, as_tensor, check_names, one_of

_SHORT = 8  # elements of which beginnings are remembered
_SEVERAL = 1.5  # from this sum of first elements on there are several chains


class Chain:
    r"""A list of names as one hypervector, :math:`\sum_t x_1 * \dots * x_t`.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

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

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.names = Vocabulary(space, "chain element")
        self.orders = Orders(space, self._products)

    def encode(self, items: Items[str] | Items[Items[str]]) -> Tensor:
        """The hypervector of a list of names, or of each of several lists."""
        if isinstance(items, str) or not isinstance(items, Items):
            raise TypeError(f"Chain.encode: needs a list of names, got {describe(items)}")
        if items and not isinstance(items[0], str):
            return self._encode_many([check_names("Chain.encode", one) for one in items])
        return self._encode_many([check_names("Chain.encode", items)])[0]

    def _encode_many(self, many: list[list[str]]) -> Tensor:
        """Element by element, for all lists that are still going on."""
        total, beginning = self.space.empty(len(many)), self.space.identity(len(many))
        for place in range(max(map(len, many), default=0)):
            rows = torch.tensor([row for row, one in enumerate(many) if place < len(one)])
            beginning[rows] = bind(beginning[rows], self.names.encode(many[row][place] for row in rows))
            total[rows] += beginning[rows]
        self.orders.add(tuple(one[:end]) for one in many for end in range(1, 1 + min(len(one), _SHORT)))
        return total

    def beginning(self, names: Items[str]) -> Tensor:
        """The product of a beginning, whether its names are known or not: ``(dim, m, m)``."""
        return multibind(self.names.lookup(check_names("Chain.beginning", names)))

    def rest(self, h: Tensor | Hypervector, beginning: Items[str]) -> Tensor:
        """The chain of what follows a beginning: unbound from the left, without the end of the beginning itself."""
        x = as_tensor("Chain.rest", h, self.space)
        known = [self.beginning(beginning[: place + 1]) for place in range(len(beginning))]
        return unbind(x - sum(known), self.beginning(beginning), side="left")

    def next(self, h: Tensor | Hypervector, beginning: Items[str]) -> Match:
        """The element after a beginning; unknown if this is not there, which is told by its parts.

        In a bundle of several chains a beginning of more than seven elements, or any for m = 1, is never confident.
        """
        x = one_of("Chain.next", h, self.space)
        energy, names = similarity(x, x), check_names("Chain.next", beginning)
        parts = list(accumulate(self.names.lookup(names), bind))
        product = parts[-1] if parts else self.space.identity()
        [match] = self.names.match(unbind(x, product, side="left")[None], energy=energy, level=self.level)
        if not parts:
            return match
        most = 1.0
        if self.space.m > 1 and len(names) < _SHORT:
            [match] = self.orders.rejudge(x, [(*names, match.guess)], [match], odds=1.0)
        elif self._is_several(x):
            most = 0.5
        scores = torch.stack([similarity(x, part) for part in parts]).double()
        there = 1 / (1 + _odds_against(scores, answer_noise(self.space, energy)))
        missing = 1 - there + there * match.probability_unknown
        return replace(match, probability=min(most, there * match.probability), probability_unknown=missing)

    def _is_several(self, x: Tensor) -> bool:
        """Whether more than one chain is in x, by what they begin with."""
        return sum(match.score for match in self.names.members(x[None], level=self.level)[0]) >= _SEVERAL

    def _products(self, words: Items[Items[str]]) -> Tensor:
        return torch.stack([self.beginning(word) for word in words])

    def item(self, h: Tensor | Hypervector, place: int) -> Match:
        """The element at a place, from 0; all before it are read on the way."""
        place = check_integer("Chain.item", "place", place, least=0)
        found = self.decode(one_of("Chain.item", h, self.space), most=place + 1)
        if len(found) <= place:
            raise IndexError(f"Chain.item: nothing is certain at place {place}; the chain was read up to {len(found)}")
        return found[place]

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> list[Match]:
        """The elements from the front, up to the first that is unknown; each is taken out before the next is read."""
        x = one_of("Chain.decode", h, self.space)
        most = check_integer("Chain.decode", "most", most, least=0)
        found: list[Match] = []
        while len(found) < most and len(self.names):
            match = self.names.match(x[None], level=self.level)[0]
            if match.unknown:
                break
            found.append(match)
            element = self.names.encode([match.guess])[0]
            x = unbind(x - element, element, side="left")
        return found


def _odds_against(scores: Tensor, sigma: Tensor) -> float:
    r"""The odds that a beginning is absent, by the scores of its parts: the mean of :math:`e^{-(s - 1/2)/\sigma^2}`.

    Each is the ratio of two Gaussians, about 0 and about 1. The one part that tells may be any of them.
    """
    return float(torch.exp(-(scores - 1 / 2) / sigma.square()).mean())

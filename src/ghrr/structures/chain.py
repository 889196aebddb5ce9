r"""Chain: a sequence by chained binding, :math:`x_1 + x_1 * x_2 + x_1 * x_2 * x_3 + \dots`, read from the front.

No positions are needed: each element is bound to all before it, in order. Unbinding a beginning from the left leaves
what follows it. Two chains with the same beginning share it; for m = 1 the order inside a beginning is lost. A chain of
n elements answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. This law knows of independent beginnings only: those of
the same elements in another order leave a share of each other that no dimension removes (ab and ba :math:`1/m^2`, aab
and baa :math:`2/m^2`). For m = 2, or many repetitions, an element that is absent may then be called confident; use
m >= 4 there.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.book import Book, as_tensor, check_names, one_of


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
        self.names = Book(space, "chain element")

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
            beginning[rows] = bind(beginning[rows], self.names.vectors_of(many[row][place] for row in rows))
            total[rows] += beginning[rows]
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
        """The element after a beginning."""
        x = one_of("Chain.next", h, self.space)
        answer = unbind(x, self.beginning(beginning), side="left")
        return self.names.match(answer[None], energy=similarity(x, x), level=self.level)[0]

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
            element = self.names.vectors_of([match.guess])[0]
            x = unbind(x - element, element, side="left")
        return found

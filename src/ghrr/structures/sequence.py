r"""Sequence: elements by position, :math:`\sum_t R^t * x_t`, read at a place, in slices, or after an element.

Places stand on the left: an element is read by unbinding :math:`R^t` from the left, a place by unbinding the element
from the right. Of n elements the right answer scores 1 within about :math:`\sqrt{n/(2Dm^2)}`.
"""

from __future__ import annotations

from collections.abc import Sequence as Items

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, pairwise_similarity, similarity, unbind
from ghrr.encoding import sequences
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.structures.vocabulary import Vocabulary, as_tensor, check_name, check_names, chunks, one_of


class Sequence:
    r"""A list of names as one hypervector, :math:`\sum_t R^t * x_t`, with elements to be found by place.

    Built on :class:`ghrr.encoding.Sequence`, which gives R. The codec remembers the names it has met and the length of
    the longest sequence.

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
    >>> from ghrr.structures import Sequence
    >>> words = Sequence(ghrr.Space(dim=300, m=3))
    >>> h = words.encode("to be or not to be".split())
    >>> words.item(h, 3)
    Match('not', score=1.032, margin=1.022, confident=True)
    >>> [match.label for match in words.read(h, 2, 5)]
    ['or', 'not', 'to']
    >>> words.next(h, "or").label
    'not'
    """

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.names = Vocabulary(space, "sequence element")
        self.encoder = sequences.Sequence(space)
        self.longest = 0

    def encode(self, items: Items[str] | Items[Items[str]]) -> Tensor:
        """The hypervector of a list of names, or of each of several lists."""
        if isinstance(items, str) or not isinstance(items, Items):
            raise TypeError(f"Sequence.encode: needs a list of names, got {describe(items)}")
        if items and not isinstance(items[0], str):
            return self._encode_many([check_names("Sequence.encode", one) for one in items])
        return self._encode_many([check_names("Sequence.encode", items)])[0]

    def _encode_many(self, many: list[list[str]]) -> Tensor:
        self.longest = max(self.longest, *map(len, many), 0)
        places = torch.tensor([place for one in many for place in range(len(one))], dtype=torch.long)
        rows = torch.tensor([row for row, one in enumerate(many) for _ in one], dtype=torch.long)
        names = [name for one in many for name in one]
        total = self.space.empty(len(many))
        for run in chunks(len(names), self.space):
            distinct, which = torch.unique(places[run], return_inverse=True)
            keys = self.encoder.positions(distinct)[which]
            total.index_add_(0, rows[run], bind(keys, self.names.encode(names[run])))
        return total

    def item(self, h: Tensor | Hypervector, place: int) -> Match:
        """The element at a place, from 0."""
        place = check_integer("Sequence.item", "place", place, least=0)
        return self.read(one_of("Sequence.item", h, self.space), place, place + 1)[0]

    def read(self, h: Tensor | Hypervector, start: int, stop: int) -> list[Match]:
        """The elements from one place up to another, which is left out as in a slice."""
        x = one_of("Sequence.read", h, self.space)
        start = check_integer("Sequence.read", "start", start, least=0)
        stop = check_integer("Sequence.read", "stop", stop, least=start)
        found: list[Match] = []
        for run in chunks(stop - start, self.space):
            answers = self.encoder.item(x, start + torch.arange(run.start, run.stop))
            found += self.names.match(answers, energy=similarity(x, x), level=self.level)
        return found

    def cut(self, h: Tensor | Hypervector, start: int) -> Tensor:
        """The same sequence counted from another place on: what was at ``start`` is at 0; what was before is noise."""
        x = as_tensor("Sequence.cut", h, self.space)
        start = check_integer("Sequence.cut", "start", start, least=0)
        return self.encoder.item(x, start)

    def place(self, h: Tensor | Hypervector, name: str) -> Match:
        """Where an element stands, among the places met so far; one that occurs twice is not confident."""
        x = one_of("Sequence.place", h, self.space)
        vector = self.names.lookup([check_name("Sequence.place", name)])
        answer = unbind(x, vector, side="right")
        places = max(1, self.longest)
        top = pairwise_similarity(answer, self.encoder.positions(torch.arange(places))).topk(min(2, places))
        noise = answer_noise(self.space, similarity(x, x))
        return make_matches(top.indices.tolist(), top.values, candidates=places, noise=noise, level=self.level)[0]

    def next(self, h: Tensor | Hypervector, name: str) -> Match:
        """The element after another one, which must occur once."""
        found = self.place(h, name)
        if not found.confident:
            raise KeyError(f"Sequence.next: the place of {name!r} is not certain: {found}")
        return self.item(h, found.guess + 1)

    def decode(self, h: Tensor | Hypervector) -> list[Match]:
        """All elements, from place 0 up to the first at which there is nothing."""
        x = one_of("Sequence.decode", h, self.space)
        if not self.longest:
            return []
        found = []
        for match in self.read(x, 0, self.longest):
            if match.unknown:
                break
            found.append(match)
        return found

r"""Set: which names are in a collection, and how often, :math:`\sum_x n_x X`.

Nothing is bound, so there is no side to read on; a member may itself be an ordered tuple of names, their product, and
then ("a", "b") is not ("b", "a"). The score of a member is its count, within a noise of :math:`\sqrt{E/(2Dm^2)}` where
E is the sum of the squared counts. :math:`\delta` of two sets counts the members in common. Tuples of the same names in
another order share a part of each other (ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`); a member is counted
without what such tuples that were met may add (:mod:`ghrr.memory.orders`). Many tuples of the same four or more names
cannot be told apart for m = 2, and are then not certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import multibind, similarity
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match, answer_noise, judge, make_matches
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary, as_tensor, check_name, check_names, one_of, sparse_odds

_OPEN = 0.25  # how far a count may be off and still be rounded

Member = str | tuple[str, ...]


class Set:
    r"""A set or multiset of names, or of tuples of names, as one hypervector: :math:`\sum_x n_x X`.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a member is counted as certain.

    Shapes
    ------
    encode: a collection to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Set
    >>> fruit = Set(ghrr.Space(dim=300, m=3))
    >>> h = fruit.encode(["apple", "plum", "apple"])
    >>> fruit.contains(h, "plum")
    Match('plum', score=1.003, margin=1.003, confident=True)
    >>> fruit.contains(h, "pear").unknown
    True
    >>> fruit.decode(h)
    {'apple': 2, 'plum': 1}
    """

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.atoms = Vocabulary(space, "set member")
        self.known: dict[Member, None] = {}
        self.orders = Orders(space, self._vectors)

    def encode(self, members: Iterable[Member] | Mapping[Member, int]) -> Tensor:
        """The hypervector of a collection; one that maps members to whole numbers gives their counts."""
        if isinstance(members, str) or not isinstance(members, Iterable):
            raise TypeError(f"Set.encode: needs a list of members, or a dict of their counts, got {describe(members)}")
        counts: dict[Member, int] = {}
        for member in members:
            count = members[member] if isinstance(members, Mapping) else 1
            count = check_integer("Set.encode", f"the count of {member!r}", count, least=0)
            member = _checked("Set.encode", member)  # noqa: PLW2901 (a list becomes a tuple)
            counts[member] = counts.get(member, 0) + count
        vectors = self._vectors(list(counts))
        self.known |= dict.fromkeys(counts)
        self.orders.add(map(_names, counts))
        self.atoms.indices(name for member in counts for name in _names(member))
        weights = torch.tensor(list(counts.values()), dtype=vectors.real.dtype)
        return (vectors * weights[:, None, None, None]).sum(dim=0)

    def add(self, h: Tensor | Hypervector, member: Member, times: int = 1) -> Tensor:
        """The collection with a member more."""
        return as_tensor("Set.add", h, self.space) + self.encode({member: times})

    def remove(self, h: Tensor | Hypervector, member: Member, times: int = 1) -> Tensor:
        """The collection with a member less; it must be there at least so often."""
        x = one_of("Set.remove", h, self.space)
        there = round(self.count(x, member)) if self.contains(x, member).confident else 0
        if there < times:
            raise KeyError(f"Set.remove: {member!r} is there {there} times, not {times}")
        return x - self.encode({member: times})

    def count(self, h: Tensor | Hypervector, member: Member) -> float:
        """How often a member is there, to be rounded: its similarity with the collection, less what others share."""
        x = one_of("Set.count", h, self.space)
        counts, _, _ = self._read(x, [_checked("Set.count", member)])
        return float(counts[0])

    def contains(self, h: Tensor | Hypervector, member: Member) -> Match:
        """Whether a member is there: a match of this one candidate, unknown if it is not."""
        x = one_of("Set.contains", h, self.space)
        member = _checked("Set.contains", member)
        counts, noise, _ = self._read(x, [member])
        return make_matches([[member]], counts[:, None], candidates=1, noise=noise, level=self.level)[0]

    def common(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> float:
        """How many members two sets have in common (for multisets the sum of the products of counts), to be rounded."""
        x, y = (one_of("Set.common", h, self.space) for h in (first, second))
        return float(similarity(x, y))

    def decode(self, h: Tensor | Hypervector) -> dict[Member, int]:
        """The members that are certain, with their counts; they are taken out, and the rest is looked at again."""
        x = one_of("Set.decode", h, self.space)
        members = list(self.known)
        vectors = self._vectors(members)
        counts = torch.zeros(len(members), dtype=torch.long)
        odds = sparse_odds(len(members), x)
        for _ in range(1 + len(members)):
            scores, noise, bias = self._read(x, members)
            right, _ = judge(scores, scores, candidates=1, noise=noise, odds=odds)
            # A count once found may be mended by one more or less; a new one must be certain. What other orders leave
            # open must not reach the next whole number.
            told = (right >= self.level) | (counts > 0)
            more = torch.where(told & (bias < _OPEN), scores.round().long(), 0)
            if not more.any():
                break
            counts += more
            x = x - (vectors * more[:, None, None, None]).sum(dim=0)
        return {member: count for member, count in zip(members, counts.tolist(), strict=True) if count}

    def _read(self, x: Tensor, members: Sequence[Member]) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`Orders.counts`."""
        sigma = answer_noise(self.space, similarity(x, x), bound=False)
        return self.orders.counts(x, [_names(member) for member in members], sigma)

    def _vectors(self, members: Sequence[Member]) -> Tensor:
        """Atoms of names and products of tuples, whether they are known or not: ``(len(members), dim, m, m)``."""
        names = sorted({name for member in members for name in _names(member)})
        place = {name: at for at, name in enumerate(names)}
        table = self.atoms.lookup(names)
        out = self.space.empty(len(members))
        for length in {len(_names(member)) for member in members}:
            rows = [row for row, member in enumerate(members) if len(_names(member)) == length]
            out[rows] = multibind(table[torch.tensor([[place[name] for name in _names(members[row])] for row in rows])])
        return out


def _names(member: Member) -> tuple[str, ...]:
    return (member,) if isinstance(member, str) else member


def _checked(operation: str, member: object) -> Member:
    if isinstance(member, (tuple, list)) and member:
        return tuple(check_names(operation, member))
    return check_name(operation, member)

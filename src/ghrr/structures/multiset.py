r"""Set: which names are in a collection, and how often, :math:`\sum_x n_x X`.

Nothing is bound, so there is no side to read on. A member may be a tuple of names, encoded as their product; then ("a",
"b") is not ("b", "a"). The score of a member is its count, within a noise of :math:`\sqrt{E/(2Dm^2)}` where E is the
sum of the squared counts. :math:`\delta` of two sets counts the members in common. Tuples of the same names in another
order share a part of each other (ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`); a member is counted without the
contribution of such tuples that were encoded (:mod:`ghrr.memory.decorrelation`). For m = 2 many tuples of the same four
or more names cannot be distinguished, and are then not certain; with ``permute``, and by default for m = 1, they are
independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import multibind, similarity
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, judge, make_matches
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.orders import Orders
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, as_tensor, check_names, one_of, sparse_odds

_MOST_BIAS = 0.25  # error that other orders may add to a count that is rounded

Member = str | tuple[str, ...]
GivenMember = Name | Sequence[Name]


class Set(Structure):
    r"""A set or multiset of names, or of tuples of names, as one hypervector: :math:`\sum_x n_x X`.

    Names may be hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a member counts as certain.
    permute
        Shift element j of a tuple by j slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

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

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.atoms = Vocabulary(space, "set member")
        self.known: dict[Member, None] = {}
        self.orders = Orders(space, self._vectors, independent=self.permute)

    @classmethod
    def suggest(cls, members: int, *, names: int = 1, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a member is found with confidence.

        Parameters
        ----------
        members
            Number of members; for a multiset, the sum of the squared counts.
        names
            Number of different members that may be in a set, for decoding: each is tried. 1 to ask for single members.
        m
            Size of the slots' matrices.
        error
            Share of members that may be missed, not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Set
        >>> Set.suggest(100, names=1000, m=3)
        Space(dim=324, m=3, seed=0)
        """
        members = check_integer("Set.suggest", "members", members, least=1)
        names = check_integer("Set.suggest", "names", names, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=members, candidates=names, several=True)

        return smallest_space("Set.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, members: Iterable[GivenMember] | Mapping[Any, int]) -> Tensor:
        """Return the hypervector of a collection; a mapping of members to whole numbers gives their counts."""
        if isinstance(members, str) or not isinstance(members, Iterable) or getattr(members, "ndim", 4) < 4:
            raise TypeError(f"Set.encode: needs a list of members, or a dict of their counts, got {describe(members)}")
        counts: dict[Member, int] = {}
        for given in members:
            count = members[given] if isinstance(members, Mapping) else 1
            member = self._checked("Set.encode", given)
            counts[member] = counts.get(member, 0) + check_integer(
                "Set.encode", f"the count of {member!r}", count, least=0
            )
        vectors = self._vectors(list(counts))
        self.atoms.indices(name for member in counts for name in _names(member))
        weights = torch.tensor(list(counts.values()), dtype=vectors.real.dtype)
        h = (vectors * weights[:, None, None, None]).sum(dim=0)
        self.orders.add(map(_names, counts))
        self.known.update(dict.fromkeys(counts))
        return h

    def add(self, h: Tensor | Hypervector, member: GivenMember, times: int = 1) -> Tensor:
        """Return the collection with a member added."""
        return as_tensor("Set.add", h, self.space) + self.encode({self._checked("Set.add", member): times})

    def remove(self, h: Tensor | Hypervector, member: GivenMember, times: int = 1) -> Tensor:
        """Return the collection with a member removed; it must be there at least ``times`` times."""
        x = one_of("Set.remove", h, self.space)
        member = self._checked("Set.remove", member)
        there = round(self.count(x, member)) if self.contains(x, member).confident else 0
        if there < times:
            raise KeyError(f"Set.remove: {member!r} is there {there} times, not {times}")
        return x - self.encode({member: times})

    def count(self, h: Tensor | Hypervector, member: GivenMember) -> float:
        """Return how often a member is there, not rounded: its similarity, less what other orders contribute."""
        x = one_of("Set.count", h, self.space)
        counts, _, _ = self._read(x, [self._checked("Set.count", member)])
        return float(counts[0])

    def contains(self, h: Tensor | Hypervector, member: GivenMember) -> Match:
        """Return a match of this one candidate, unknown if it is not in the collection."""
        x = one_of("Set.contains", h, self.space)
        name = self._checked("Set.contains", member)
        counts, noise, _ = self._read(x, [name])
        return make_matches([[name]], counts[:, None], candidates=1, noise=noise, confidence=self.confidence)[0]

    def common(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> float:
        """Return how many members two sets have in common, not rounded; for multisets the sum of products of counts."""
        x, y = (one_of("Set.common", h, self.space) for h in (first, second))
        return float(similarity(x, y))

    def decode(self, h: Tensor | Hypervector) -> dict[Member, int]:
        """Return the members that are certain, with their counts.

        They are subtracted, and the rest is read again with less noise.
        """
        x = one_of("Set.decode", h, self.space)
        if not x.any():
            return {}
        self.atoms.check_not_empty()
        members = list(self.known)
        vectors = self._vectors(members)
        counts = torch.zeros(len(members), dtype=torch.long)
        odds = sparse_odds(len(members), x)
        for _ in range(1 + len(members)):
            scores, noise, bias = self._read(x, members)
            right, _ = judge(scores, scores, candidates=1, noise=noise, odds=odds)
            # A count that was found may still be corrected; a new one must be certain. The error that other orders may
            # add must not reach the next whole number.
            certain = (right >= self.confidence) | (counts > 0)
            more = torch.where(certain & (bias < _MOST_BIAS), scores.round().long(), 0)
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
        out = self.space.zeros(len(members))
        for length in {len(_names(member)) for member in members}:
            rows = [row for row, member in enumerate(members) if len(_names(member)) == length]
            at = torch.tensor([[place[name] for name in _names(members[row])] for row in rows])
            out[rows] = multibind([self._shift(table, j)[column] for j, column in enumerate(at.T)])
        return out

    def _checked(self, operation: str, member: Any) -> Member:
        if isinstance(member, (tuple, list)) and member:
            return tuple(self.atoms.resolve_all(operation, member))
        return self.atoms.resolve(operation, member)

    def _seen(self) -> list[str | list[str]]:
        return [member if isinstance(member, str) else list(member) for member in self.known]

    def _restore(self, seen: Any) -> None:
        members = [member if isinstance(member, str) else tuple(check_names("Set", member)) for member in seen]
        if not {name for member in members for name in _names(member)} <= set(self.atoms.names):
            raise ValueError("members of names that are not in the vocabulary")
        self.known = dict.fromkeys(members)
        self.orders.add(map(_names, members))


def _names(member: Member) -> tuple[str, ...]:
    return (member,) if isinstance(member, str) else member

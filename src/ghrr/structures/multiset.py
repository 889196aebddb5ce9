r"""Set: which members a collection has, and how often, :math:`\sum_x n_x X`.

Nothing is bound, so there is no side to read on. A member can be a tuple of names, encoded as their product; then
("a", "b") is not ("b", "a"). The score of a member is its count, within a noise of :math:`\sqrt{E/(2Dm^2)}` where E is
the sum of the squared counts. The similarity of two sets counts their common members. Tuples of the same names in
another order are similar (ab and ba :math:`1/m^2`, aab and baa :math:`2/m^2`); a member is counted without the
contribution of such tuples that were encoded (:mod:`ghrr.structures.permuted_paths`). For m = 2 many tuples of the same
four or more names cannot be distinguished, and are then not confident; with ``permute``, by default for m = 1, they are
independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ghrr.algebra import multibind, similarity
from ghrr.checks import check_integer, check_names, describe, named, names_errors, type_error
from ghrr.hypervector import Hypervector
from ghrr.memory.match import Match, answer_noise, make_matches
from ghrr.structures.base import Structure
from ghrr.structures.certainty import empty_odds
from ghrr.structures.fullness import items_of_counts
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchDict
from ghrr.structures.vocabulary import Name

_MAX_BIAS = 0.25  # error from permuted tuples up to which a count is rounded

Member = str | tuple[str, ...]
GivenMember = Name | Sequence[Name]


@names_errors
class Set(Structure):
    r"""Set or multiset of names, or of tuples of names, as one hypervector: :math:`\sum_x n_x X`.

    Names can be given hypervectors.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`. ``permute`` shifts element j of a tuple by j slots.

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
    Match('plum', score=1.014, margin=1.014, confident=True)
    >>> fruit.contains(h, "pear").unknown
    True
    >>> {member: round(match.score) for member, match in fruit.decode(h).items()}
    {'apple': 2, 'plum': 1}
    """

    _SIZES, _DEFAULT_CANDIDATES, _SEVERAL = ("members", "names"), 1, True

    def _create_tables(self) -> None:
        self.atoms = self._vocabulary("set member")
        self.members: dict[Member, None] = {}  # all that were encoded
        self._tuples = self.permuted = self._permuted_paths(self._member_vectors)

    def encode(self, members: Iterable[GivenMember] | Mapping[Any, int]) -> Tensor:
        """Return the hypervector of a collection, given as a list of members or a mapping of members to counts."""
        if isinstance(members, str) or not isinstance(members, Iterable) or getattr(members, "ndim", 4) < 4:
            raise type_error(f"needs a list of members, or a dict of their counts, got {describe(members)}")
        counts: dict[Member, int] = {}
        for given in members:
            count = members[given] if isinstance(members, Mapping) else 1
            member = self._check_member(given)
            count = check_integer(f"the count of {member!r}", count, least=0)
            counts[member] = counts.get(member, 0) + count
        vectors = self._member_vectors(list(counts))
        self.atoms.indices(name for member in counts for name in _names(member))
        h = _weighted_sum(vectors, torch.tensor(list(counts.values())))
        self._tuples.add(map(_names, counts))
        self.members.update(dict.fromkeys(counts))
        self._warn_if_full_of(items_of_counts(counts.values()))
        return h

    def add(self, h: Tensor | Hypervector, member: GivenMember, times: int = 1) -> Tensor:
        """Return the collection with a member added. Differentiable with respect to ``h``."""
        larger = self._vectors(h) + self.encode({self._check_member(member): times})
        self._warn_if_full_of(math.ceil(self._items(larger) * 0.5 / (max(1, times) - 0.5)) if times else 0)
        return larger

    def _warn_if_full_of(self, items: int) -> None:
        """Warn if the space cannot hold this many members, some of which are tried when it is decoded."""
        self._warn_if_full(items, len(self.members) // max(1, items), bound=False)

    def remove(self, h: Tensor | Hypervector, member: GivenMember, times: int = 1) -> Tensor:
        """Return the collection without ``times`` copies of a member. Differentiable with respect to ``h``."""
        x = self._vector(h)
        member = self._check_member(member)
        present = round(self.count(x, member)) if self.contains(x, member).confident else 0
        if present < times:
            raise KeyError(named(f"cannot remove {times} copies of {member!r}, the collection has {present}"))
        return x - self.encode({member: times})

    def count(self, h: Tensor | Hypervector, member: GivenMember) -> float:
        """Return how often a member occurs, not rounded: its similarity without the contribution of permutations."""
        x = self._constant(h)
        counts, _, _ = self._counts(x, [self._check_member(member)])
        return float(counts[0])

    def contains(self, h: Tensor | Hypervector, member: GivenMember) -> Match:
        """Return a match with this member as the only candidate; unknown if it is not in the collection."""
        x = self._constant(h)
        name = self._check_member(member)
        counts, noise, _ = self._counts(x, [name])
        [match] = make_matches([[name]], counts[:, None], candidates=1, noise=noise, confidence=self.confidence)
        return self._noted(match, self.atoms.note(*_names(name)))

    def common(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> float:
        """Return the number of common members, not rounded; for multisets the sum of the products of counts."""
        x, y = (self._constant(h) for h in (first, second))
        return float(similarity(x, y))

    def decode(self, h: Tensor | Hypervector) -> MatchDict:
        """Return the confident members, in the order in which they were encoded; scores are counts.

        Confident members are subtracted, and the rest is read again with less noise.
        """
        x = self._constant(h)
        if not x.any():
            return MatchDict(unexplained=0.0)
        self.atoms.check_not_empty()
        members = list(self.members)
        vectors = self._member_vectors(members)
        odds = empty_odds(len(members), x)
        counts = torch.zeros(len(members), dtype=torch.long)  # subtracted so far
        rounds = 0

        def read(rest: Tensor, found: Mapping[Member, Match]) -> dict[Member, Match]:
            nonlocal rounds
            rounds += 1
            scores, noise, bias = (column.cpu() for column in self._counts(rest, members))
            labels = [[member] for member in members]
            matches = make_matches(
                labels, scores[:, None], candidates=1, noise=noise, confidence=self.confidence, odds=odds
            )
            new: dict[Member, Match] = {}
            increments = torch.zeros_like(counts)
            for n, (member, match) in enumerate(zip(members, matches, strict=True)):
                # A new member must be confident; the count of an earlier one is corrected. The error from permuted
                # tuples must not reach the next integer.
                increment = round(match.score) if (match.confident or member in found) and bias[n] < _MAX_BIAS else 0
                if increment:
                    increments[n] = increment
                    total = int(counts[n]) + match.score
                    new[member] = replace(found.get(member, match), score=total, margin=total)
            if rounds > 1 + len(members):  # corrections can alternate in noise
                return {}
            counts.add_(increments)
            return new

        def remove(rest: Tensor, new: Mapping[Member, Match]) -> Tensor:
            return x - _weighted_sum(vectors, counts)

        found, rest = peel(x, read, remove)
        decoded = {member: found[member] for member, count in zip(members, counts.tolist(), strict=True) if count}
        return MatchDict(decoded, **self._left(rest))

    def _counts(self, x: Tensor, members: Sequence[Member]) -> tuple[Tensor, Tensor, Tensor]:
        """Return counts, their deviations and biases, as :meth:`PermutedPaths.counts`."""
        noise = answer_noise(self.space, similarity(x, x), bound=False)
        return self._tuples.counts(x, [_names(member) for member in members], noise)

    def _member_vectors(self, members: Sequence[Member]) -> Tensor:
        """Return atoms of names and products of tuples, known or not: ``(len(members), dim, m, m)``."""
        names = sorted({name for member in members for name in _names(member)})
        row = {name: n for n, name in enumerate(names)}
        table = self.atoms.vectors(names)
        out = self._zeros(len(members))
        for length in {len(_names(member)) for member in members}:
            chosen = [n for n, member in enumerate(members) if len(_names(member)) == length]
            rows = torch.tensor([[row[name] for name in _names(members[n])] for n in chosen])
            out[chosen] = multibind([self._shift(table, j)[column] for j, column in enumerate(rows.T)])
        return out

    def _check_member(self, member: Any) -> Member:
        if isinstance(member, (tuple, list)) and member:
            return tuple(self.atoms.resolve_all(member))
        return self.atoms.resolve(member)

    def _seen(self) -> list[str | list[str]]:
        return [member if isinstance(member, str) else list(member) for member in self.members]

    def _restore(self, seen: Any) -> None:
        members = [member if isinstance(member, str) else tuple(check_names(member)) for member in seen]
        if not {name for member in members for name in _names(member)} <= set(self.atoms.names):
            raise ValueError("the members have names that are not in the vocabulary")
        self.members = dict.fromkeys(members)
        self._tuples.add(map(_names, members))


def _names(member: Member) -> tuple[str, ...]:
    return (member,) if isinstance(member, str) else member


def _weighted_sum(vectors: Tensor, counts: Tensor) -> Tensor:
    weights = counts.to(vectors.device, vectors.real.dtype)
    return (vectors * weights[:, None, None, None]).sum(dim=0)

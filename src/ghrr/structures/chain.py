r"""Chain: a sequence by chained binding, :math:`x_1 + x_1 * x_2 + x_1 * x_2 * x_3 + \dots`, read from the front.

No positions are needed: each element is bound to all before it, in order. Unbinding a prefix from the left leaves what
follows it, and two chains with the same prefix share it. A chain of n elements answers with noise of about
:math:`\sqrt{n/(2Dm^2)}`.

With shifts, which are the default for m = 1, element t is shifted by t slots before binding,
:math:`x_1 + x_1 * \rho(x_2) + x_1 * \rho(x_2) * \rho^2(x_3) + \dots`: prefixes of the same elements in another order
are then independent. Without shifts they are similar, but some of their own prefixes consist of different elements: a
prefix is present only if all of its prefixes are. In a bundle of several chains these can come from different chains.
There a short prefix is judged separately, without the contribution of its permutations
(:mod:`ghrr.structures.permuted_paths`), and a long one is never confident. For m = 1 without shifts all permutations
are the same product, and :meth:`Chain.next` is never confident if another order is possible.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Items
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from ghrr.algebra import bind, multibind, similarity, unbind
from ghrr.checks import check_integer, named, names_errors, value_error
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchList
from ghrr.structures.vocabulary import Name

_SHORT = 8  # length up to which prefixes are stored
_FIRST_TERMS = 16  # terms of a sum that are computed one by one
_SEVERAL = 1.5  # sum of the scores of first elements from which on there are several chains


@names_errors
class Chain(Structure):
    r"""List of names as one hypervector, :math:`\sum_t x_1 * \dots * x_t`.

    Elements are names or given hypervectors.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`. ``permute`` shifts element t by t slots.

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
    Match('or', score=1.007, margin=0.991, confident=True)
    >>> words.next(h, ["be", "to"]).unknown
    True
    >>> [match.label for match in words.decode(h)]
    ['to', 'be', 'or', 'not']
    """

    _SIZES = ("length", "names")

    @classmethod
    def _rate(cls, space: Space, items: int, candidates: int) -> float:
        rate = super()._rate(space, items, candidates)
        return rate if space.m == 1 else rate * _prefix_rate(space, items)

    def _create_tables(self) -> None:
        self.names = self._vocabulary("chain element")
        self._prefixes = self.permuted = self._permuted_paths(self._products)

    def encode(self, items: Items[Name] | Items[Items[Name]]) -> Tensor:
        """Return the hypervector of a list of names, or of each of several lists."""
        lists, single = self.names.resolve_lists(items)
        longest = max(map(len, lists), default=0)
        if self.permute and longest > self.space.dim:
            raise value_error(
                f"a chain of {longest} elements needs as many slots to be shifted by, got a space of "
                f"{self.space.dim}; use a larger dim, or permute=False"
            )
        rows = [self.names.indices(one) for one in lists]
        self._warn_if_full(longest, len(self.names))
        total = self._encode_rows(self.names.vectors(), rows, longest)
        self._prefixes.add(tuple(one[:end]) for one in lists for end in range(1, 1 + min(len(one), _SHORT)))
        return total[0] if single else total

    def _encode_rows(self, table: Tensor, lists: list[list[int]], longest: int) -> Tensor:
        """Encode from the last element to the first: a chain is its first element plus that one bound to the rest."""
        total = self._zeros(len(lists))
        for position in range(longest - 1, -1, -1):
            longer = [n for n, one in enumerate(lists) if position < len(one)]
            first = table[torch.tensor([lists[n][position] for n in longer])]
            total[longer] = first + bind(first, self._shift(total[longer], 1))
        return total

    def prefix(self, names: Items[Name]) -> Tensor:
        """Return the product of a prefix, whether its names are known or not: ``(dim, m, m)``."""
        return multibind(self._factors(self.names.resolve_all(names)))

    def _factors(self, names: Items[str]) -> Tensor:
        """Return the elements, shifted by their position: ``(len(names), dim, m, m)``."""
        vectors = self.names.vectors(names)
        if self.permute and len(names):
            vectors = torch.stack([self._shift(vector, position) for position, vector in enumerate(vectors)])
        return vectors

    def _all_prefixes(self, names: Items[str]) -> list[Tensor]:
        """Return the products of all prefixes of a prefix."""
        return list(accumulate(self._factors(names), bind))

    def _products(self, prefixes: Items[Items[str]]) -> Tensor:
        return torch.stack([multibind(self._factors(prefix)) for prefix in prefixes])

    def _after(self, x: Tensor, names: Items[str]) -> Tensor:
        """Unbind a prefix from the left, and undo the shift of what follows."""
        return self._shift(unbind(x, multibind(self._factors(names)), side="left"), -len(names))

    def rest(self, h: Tensor | Hypervector, prefix: Items[Name]) -> Tensor:
        """Return the chain that follows a prefix. Differentiable with respect to ``h``."""
        x = self._vectors(h)
        names = self.names.resolve_all(prefix)
        return self._after(x - sum(self._all_prefixes(names)), names)

    def next(self, h: Tensor | Hypervector, prefix: Items[Name]) -> Match:
        """Return the element after a prefix; unknown if the prefix is not in the chain.

        Without shifts, in a bundle of several chains, no element is confident after a prefix of more than seven
        elements. For m = 1 without shifts no element is confident if another order is possible.
        """
        x = self._constant(h)
        energy, names = similarity(x, x), self.names.resolve_all(prefix)
        [match] = self.names.match(self._after(x, names)[None], energy=energy, confidence=self.confidence)
        match = self._noted(match, self.names.note(*names))
        if self.permute or not names:
            return match
        highest = 1.0
        if self.space.m == 1:
            highest = 0.5 if len({*names, match.guess}) > 1 else 1.0
        elif len(names) < _SHORT:
            [match] = self._prefixes.rejudge(x, [(*names, match.guess)], [match], odds=1.0)
        elif self._has_several_chains(x):
            highest = 0.5
        scores = torch.stack([similarity(x, product) for product in self._all_prefixes(names)]).double()
        against = _odds_against(scores, answer_noise(self.space, energy), _permutation_similarity(self.space))
        present = 1 / (1 + against)
        missing = 1 - present + present * match.probability_unknown
        return replace(match, probability=min(highest, present * match.probability), probability_unknown=missing)

    def _has_several_chains(self, x: Tensor) -> bool:
        """Return whether x has more than one first element."""
        return sum(match.score for match in self.names.members(x[None], confidence=self.confidence)[0]) >= _SEVERAL

    def item(self, h: Tensor | Hypervector, index: int) -> Match:
        """Return the element at an index, from 0; all elements before it are decoded too."""
        index = check_integer("index", index, least=0)
        found = self.decode(self._constant(h), limit=index + 1)
        if len(found) <= index:
            raise IndexError(named(f"no element is certain at index {index}; decoded {len(found)} elements"))
        return found[index]

    def decode(self, h: Tensor | Hypervector, limit: int | None = None) -> MatchList:
        """Return the elements from the front up to the first that is unknown.

        Each element is subtracted and unbound before the next is read.

        Parameters
        ----------
        h
            A chain, ``(dim, m, m)``.
        limit
            Maximum number of elements to read. By default 1000, with a warning if the limit is reached.
        """
        x = self._constant(h)
        maximum = self._limit(limit)

        def read(rest: Tensor, found: Mapping[int, Match]) -> dict[int, Match]:
            if len(found) >= maximum or not rest.any():
                return {}
            [match] = self.names.match(rest[None], confidence=self.confidence)
            return {} if match.unknown else {len(found): match}

        def remove(rest: Tensor, new: Mapping[int, Match]) -> Tensor:
            [element] = self.names.vectors([match.guess for match in new.values()])
            return self._shift(unbind(rest - element, element, side="left"), -1)

        found, rest = peel(x, read, remove)
        self._warn_if_cut(len(found), limit)
        return MatchList(found.values(), **self._left(rest))


def _permutation_similarity(space: Space) -> float:
    r"""Return the largest similarity of products of the same factors in another order.

    For Haar matrices it equals the similarity of :math:`a^k * b` and :math:`b * a^k` with :math:`k \ge m`:
    :math:`E|\mathrm{tr}\, A^k|^2/m^2 = \min(k, m)/m^2`. Otherwise two factors can nearly commute.
    """
    haar_in_every_slot = isinstance(space.rotation, str) and space.rotation == "varying" and space.diagonality is None
    return 1 / space.m if haar_in_every_slot else 1.0


def _prefix_rate(space: Space, length: int) -> float:
    """Return the share of the prefixes of a chain that are recognised without shifts.

    A prefix of k elements is rejected if one of the k terms of :func:`_odds_against` exceeds k (1 - c) / c for the
    confidence c. The logarithm of each term is Gaussian.
    """
    prefixes = torch.arange(1, max(2, length)).double()[:, None]
    later = torch.arange(_FIRST_TERMS)
    variance = answer_noise(space, length).square()
    distance = (1 - _permutation_similarity(space)) ** 2
    means = -(1 + later * distance) / (2 * variance)
    deviations = torch.sqrt((length - 1) * space.crosstalk_std**2 * (1 + later * distance)) / variance
    logs = torch.special.log_ndtr(
        (torch.log(prefixes * (1 - CONFIDENCE) / CONFIDENCE) - means) / deviations.clamp(min=1e-150)
    )
    rest = logs[:, -1] * (prefixes[:, 0] - _FIRST_TERMS).clamp(min=0)
    return float(torch.exp((logs * (later < prefixes)).sum(dim=1) + rest).mean())


def _odds_against(scores: Tensor, sigma: Tensor, permutation_similarity: float) -> float:
    r"""Return the odds that a prefix is absent, from the scores of its own prefixes.

    If the chain first differs from the prefix at element j, the prefix of length j is independent of the chain. Longer
    ones can be permutations of a product in the chain, with a similarity of at most :math:`\rho`. The odds are the mean
    over j of the likelihood ratios

    .. math:: e^{-(s_j - 1/2)/\sigma^2} \prod_{i > j} e^{-(1 - \rho) \max(0,\, s_i - (1 + \rho)/2)/\sigma^2} .

    So one low score does not decide if longer prefixes have high scores.
    """
    rho, variance = permutation_similarity, sigma.square()
    evidence = (1 - rho) * (scores - (1 + rho) / 2).clamp(min=0) / variance
    after = evidence.flip(0).cumsum(0).flip(0) - evidence
    return float(torch.exp(torch.logsumexp(-(scores - 1 / 2) / variance - after, dim=0)) / len(scores))

r"""Triples: bundles of products :math:`U * L * V` of a source, a label and a target, for graphs and automata.

The source is bound on the left, the target on the right: targets are read by unbinding :math:`U * L` from the left. A
triple and its reversal have a similarity of about :math:`1/m^2`; a triple is read without the contribution of its
reversal, if that was encoded (:mod:`ghrr.structures.permuted_paths`). With ``permute`` the factors are shifted by 0, 1
and 2 slots, and both are independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from ghrr.algebra import bind, bind_bundle, multibind, similarity, unbind
from ghrr.memory.match import Match
from ghrr.structures.base import Structure
from ghrr.structures.inputs import chunks
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchDict
from ghrr.structures.vocabulary import Vocabulary

Start = tuple[str, str]  # source, label
Triple = tuple[str, str, str]  # source, label, target


class Triples:
    """Triples of names from two vocabularies.

    Parameters
    ----------
    structure
        Structure whose settings apply.
    ends, labels
        Vocabularies of sources and targets, and of labels.
    """

    def __init__(self, structure: Structure, ends: Vocabulary, labels: Vocabulary) -> None:
        self.space, self.confidence = structure.space, structure.confidence
        self.ends, self.labels = ends, labels
        self.permuted = structure._permuted_paths(self.products)
        self._shift, self._zeros = structure._shift, structure._zeros

    def encode(self, triples: Sequence[Triple]) -> Tensor:
        """Return the bundle of triples, ``(dim, m, m)``; new names are added."""
        if not triples:
            return self._zeros()
        sources, labels, targets = zip(*triples, strict=True)
        ends = self.ends.encode([*sources, *targets])
        keys = bind(ends[: len(triples)], self._shift(self.labels.encode(labels), 1))
        return bind_bundle(keys, self._shift(ends[len(triples) :], 2))

    def products(self, triples: Sequence[Triple]) -> Tensor:
        """Return the product of each triple, known or not, ``(len(triples), dim, m, m)``."""
        sources, labels, targets = zip(*triples, strict=True)
        middle, last = self.labels.vectors(labels), self.ends.vectors(targets)
        return multibind([self.ends.vectors(sources), self._shift(middle, 1), self._shift(last, 2)])

    def answers(self, x: Tensor, starts: Sequence[Start]) -> Iterator[Tensor]:
        """Yield the noisy targets of sources and labels, in chunks that fit in memory."""
        for chunk in chunks(len(starts), self.space):
            sources, labels = zip(*starts[chunk], strict=True)
            keys = bind(self.ends.vectors(sources), self._shift(self.labels.vectors(labels), 1))
            yield self._shift(unbind(x, keys, side="left"), -2)

    def target(self, x: Tensor, start: Start) -> Match:
        """Return the best target of a source and a label."""
        [answer] = self.answers(x, [start])
        [match] = self.ends.match(answer, energy=similarity(x, x), confidence=self.confidence)
        return self.permuted.rejudge(x, [(*start, match.guess)], [match], odds=1.0)[0]

    def targets(self, x: Tensor, starts: Sequence[Start], odds: float = 1.0) -> list[list[Match]]:
        """Return all targets of each source and label, best first; ``odds`` are the prior odds that there is none."""
        self.ends.check_not_empty()
        energy, found = similarity(x, x), list[list[Match]]()
        for answers in self.answers(x, starts):
            found += self.ends.members(answers, energy=energy, confidence=self.confidence, odds=odds)
        odds = odds * len(self.ends)
        return self.permuted.rejudge_members(x, found, lambda n, name: (*starts[n], name), odds=odds)

    def confident_from(self, x: Tensor, sources: Sequence[str]) -> dict[Triple, Match]:
        """Return all confident triples with these sources, with the match of the target.

        All of them are tried, so the prior odds of each triple are one to their number.
        """
        starts = list(itertools.product(sources, self.labels.names))
        return {
            (*start, match.guess): match
            for start, matches in zip(starts, self.targets(x, starts, odds=len(starts)), strict=True)
            for match in matches
            if match.confident
        }

    def decode(self, x: Tensor) -> MatchDict:
        """Return all confident triples of known names, with the match of the target.

        They are subtracted, and the rest is read again with less noise, until less than half a triple is left.
        """
        if not x.any():
            return MatchDict(unexplained=0.0)
        self.ends.check_not_empty()

        def read(rest: Tensor, found: Mapping[Triple, Match]) -> dict[Triple, Match]:
            if found and similarity(rest, rest) < 0.5:
                return {}
            confident = self.confident_from(rest, self.ends.names)
            return {triple: match for triple, match in confident.items() if triple not in found}

        def remove(rest: Tensor, new: Mapping[Triple, Match]) -> Tensor:
            return rest - self.encode(list(new))

        found, rest = peel(x, read, remove)
        return MatchDict(found, **Structure._left(rest))

r"""Automaton: a finite automaton, deterministic or not, run on words:
:math:`\sum_{(s, a) \to s'} S * A * S' + \text{START} * S_0 + \sum_{\text{final}} \text{END} * S_f`.

A step unbinds S * A from the left and cleans up the next states, so that noise does not add up over a word. With n
transitions the noise of an answer is about :math:`\sqrt{n/(2Dm^2)}`. A transition and its reversal, (s, a) to t and (t,
a) to s, have a similarity of about :math:`1/m^2`; one is read without the contribution of the other, if that was
encoded (:mod:`ghrr.memory.decorrelation`). For m = 1, where binding commutes, the factors are shifted by 0, 1 and 2
slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, bind_bundle, bundle, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.orders import Orders
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, check_names, chunks, is_settled, one_of

Transition = tuple[str, str, str]
Transitions = Mapping[Any, Name | Sequence[Name]]  # of (state, symbol)


@dataclass(frozen=True)
class Run:
    """How an automaton ran on a word.

    Parameters
    ----------
    states
        For the start and after each symbol, the matches of all states that may have been reached.
    complete
        Whether the whole word was read; if not, there was no transition at the last set of states.
    accepted
        Whether a final state was reached at the end of the word.
    """

    states: list[list[Match]]
    complete: bool
    accepted: bool


class Automaton(Structure):
    """A finite automaton as one hypervector.

    States and symbols are names or hypervectors of your own. A transition may lead to several states.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift symbol and target by 1 and 2 slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

    Shapes
    ------
    encode: transitions to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Automaton
    >>> machine = Automaton(ghrr.Space(dim=300, m=3))
    >>> turnstile = {("locked", "coin"): "open", ("open", "push"): "locked", ("open", "coin"): "open"}
    >>> h = machine.encode(turnstile, start="locked", final=["locked"])
    >>> machine.step(h, "locked", "coin")
    Match('open', score=0.991, margin=0.895, confident=True)
    >>> machine.run(h, ["coin", "coin", "push"]).accepted, machine.run(h, ["coin"]).accepted
    (True, False)
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.states = Vocabulary(space, "automaton state")
        self.symbols = Vocabulary(space, "automaton symbol")
        self.orders = Orders(space, self._products, independent=self.permute)
        self._start, self._end = space.vectors(["start", "end"], namespace="automaton mark")

    @classmethod
    def suggest(cls, transitions: int, *, states: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which an automaton answers with confidence and right.

        Parameters
        ----------
        transitions, states
            Size of the automaton.
        m
            Size of the slots' matrices.
        error
            Share of next states that may be missed, not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Automaton
        >>> Automaton.suggest(100, states=20, m=3)
        Space(dim=328, m=3, seed=0)
        """
        operation = "Automaton.suggest"
        transitions = check_integer(operation, "transitions", transitions, least=1)
        states = check_integer(operation, "states", states, least=1)

        def rate(space: Space) -> float:
            # The start and the final states are bundled too; half of the states may be final.
            items = transitions + 1 + states // 2
            one = answer_rate(space, items=items, candidates=states)
            return min(one, answer_rate(space, items=items, candidates=states, several=True))

        return smallest_space(operation, rate, m=m, error=error, settings=settings)

    def encode(self, transitions: Transitions, *, start: Name, final: Iterable[Name] = ()) -> Tensor:
        """Return the hypervector of an automaton.

        Parameters
        ----------
        transitions
            ``{(state, symbol): next state}``, or a list of next states.
        start
            The state in which it starts; one of the states of the transitions, unless there are none.
        final
            The states in which it may end.
        """
        operation = "Automaton.encode"
        triples = self._triples(operation, transitions)
        ends = list(dict.fromkeys(self.states.resolve_all(operation, final)))
        first = self.states.resolve(operation, start)
        known = {state for before, _, after in triples for state in (before, after)} or {first}
        for what, state in [("start", first), *(("final", end) for end in ends)]:
            if state not in known:
                raise ValueError(
                    f"{operation}: the {what} state {state!r} is not a state of the transitions, expected one of "
                    f"{', '.join(map(repr, sorted(known)[:10]))}"
                )
        [begin] = self.states.encode([first])
        marks = bind(self._end, bundle(self.states.encode(ends))) if ends else self.space.zeros()
        h = self._bundle(triples) + bind(self._start, begin) + marks
        self.orders.add(triples)
        return h

    def add(self, h: Tensor | Hypervector, transitions: Transitions) -> Tensor:
        """Return the automaton with more transitions.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Automaton
        >>> machine = Automaton(ghrr.Space(dim=300, m=3))
        >>> h = machine.encode({("a", "x"): "b"}, start="a", final=["b"])
        >>> h = machine.add(h, {("b", "x"): ["a", "b"]})
        >>> sorted(match.label for match in machine.successors(h, "b", "x"))
        ['a', 'b']
        """
        x = one_of("Automaton.add", h, self.space)
        triples = self._triples("Automaton.add", transitions)
        counts, noise, _ = self.orders.counts(x, triples, answer_noise(self.space, similarity(x, x)))
        names = [[after] for _, _, after in triples]
        there = (
            make_matches(names, counts[:, None], candidates=1, noise=noise, confidence=self.confidence)
            if triples
            else []
        )
        for (before, symbol, after), match in zip(triples, there, strict=True):
            if match.confident:
                raise ValueError(
                    f"Automaton.add: {before!r} already leads to {after!r} on {symbol!r} ({match}); added twice it "
                    f"would count twice"
                )
            if not is_settled(match):
                raise ValueError(
                    f"Automaton.add: it is not certain whether {before!r} leads to {after!r} on {symbol!r} already "
                    f"({match}); use a larger space"
                )
        h = x + self._bundle(triples)
        self.orders.add(triples)
        return h

    def step(self, h: Tensor | Hypervector, state: Name, symbol: Name) -> Match:
        """Return the next state of a deterministic automaton; unknown if there is no such transition.

        If the transition leads to several states, the match is not confident: use :meth:`successors`.
        """
        x = one_of("Automaton.step", h, self.space)
        return self._next(x, [self._pair("Automaton.step", state, symbol)])[0]

    def successors(self, h: Tensor | Hypervector, state: Name, symbol: Name) -> list[Match]:
        """Return all next states, best first."""
        x = one_of("Automaton.successors", h, self.space)
        return self._all_next(x, [self._pair("Automaton.successors", state, symbol)])[0]

    def start(self, h: Tensor | Hypervector) -> Match:
        """Return the state in which the automaton starts."""
        x = one_of("Automaton.start", h, self.space)
        return self.states.match(unbind(x, self._start, side="left")[None], confidence=self.confidence)[0]

    def final(self, h: Tensor | Hypervector) -> list[Match]:
        """Return the states in which it may end."""
        x = one_of("Automaton.final", h, self.space)
        return self.states.members(unbind(x, self._end, side="left")[None], confidence=self.confidence)[0]

    def run(self, h: Tensor | Hypervector, word: Iterable[Name]) -> Run:
        """Read a word, a list of symbols or a string of letters, from the start on."""
        x = one_of("Automaton.run", h, self.space)
        start = self.start(x)
        reached = [] if start.unknown else [start]
        states = [reached]
        for symbol in self.symbols.resolve_all("Automaton.run", list(word) if isinstance(word, str) else word):
            if not reached:
                break
            found = self._all_next(x, [(match.guess, symbol) for match in reached])
            best: dict[str, Match] = {}
            for match in itertools.chain.from_iterable(found):
                if match.guess not in best or match.score > best[match.guess].score:
                    best[match.guess] = match
            reached = list(best.values())
            states.append(reached)
        complete = bool(reached)
        ends = {match.guess for match in self.final(x)} if complete else set()
        return Run(states, complete, any(match.guess in ends for match in reached))

    def decode(self, h: Tensor | Hypervector) -> dict[Transition, Match]:
        """Return all transitions ``(state, symbol, next state)`` that are certain, with the match of the next state."""
        x = one_of("Automaton.decode", h, self.space)
        if not x.any():
            return {}
        self.states.check_not_empty()
        pairs = list(itertools.product(self.states.names, self.symbols.names))
        return {
            (*pair, match.guess): match
            for pair, matches in zip(pairs, self._all_next(x, pairs), strict=True)
            for match in matches
            if match.confident
        }

    def _pair(self, operation: str, state: Name, symbol: Name) -> tuple[str, str]:
        return self.states.resolve(operation, state), self.symbols.resolve(operation, symbol)

    def _triples(self, operation: str, transitions: Transitions) -> list[Transition]:
        """All transitions, one for each next state."""
        if not isinstance(transitions, Mapping):
            raise TypeError(f"{operation}: needs a dict of (state, symbol) to state, got {describe(transitions)}")
        found: dict[Transition, None] = {}
        for pair, targets in transitions.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"{operation}: a transition starts from (state, symbol), got {describe(pair)}")
            before, symbol = self._pair(operation, *pair)
            several = targets if isinstance(targets, (list, tuple, set, frozenset)) else [targets]
            found |= {(before, symbol, after): None for after in self.states.resolve_all(operation, several)}
        return list(found)

    def _bundle(self, triples: Sequence[Transition]) -> Tensor:
        if not triples:
            return self.space.zeros()
        before, read, after = zip(*triples, strict=True)
        states = self.states.encode([*before, *after])
        keys = bind(states[: len(triples)], self._shift(self.symbols.encode(read), 1))
        return bind_bundle(keys, self._shift(states[len(triples) :], 2))

    def _answers(self, x: Tensor, pairs: Sequence[tuple[str, str]]) -> Iterable[Tensor]:
        """What is bound to pairs of state and symbol, as many at a time as fit in memory."""
        for chunk in chunks(len(pairs), self.space):
            before, read = zip(*pairs[chunk], strict=True)
            keys = bind(self.states.lookup(before), self._shift(self.symbols.lookup(read), 1))
            yield self._shift(unbind(x, keys, side="left"), -2)

    def _next(self, x: Tensor, pairs: Sequence[tuple[str, str]]) -> list[Match]:
        """The best next state of each pair."""
        energy, found = similarity(x, x), list[Match]()
        for answers in self._answers(x, pairs):
            found += self.states.match(answers, energy=energy, confidence=self.confidence)
        words = [(*pair, match.guess) for pair, match in zip(pairs, found, strict=True)]
        return self.orders.rejudge(x, words, found, odds=1.0)

    def _all_next(self, x: Tensor, pairs: Sequence[tuple[str, str]]) -> list[list[Match]]:
        """All next states of each pair."""
        energy, found = similarity(x, x), list[list[Match]]()
        for answers in self._answers(x, pairs):
            found += self.states.members(answers, energy=energy, confidence=self.confidence)
        return self.orders.sift(x, found, lambda row, name: (*pairs[row], name), odds=len(self.states))

    def _products(self, transitions: Sequence[Sequence[str]]) -> Tensor:
        before, read, after = zip(*transitions, strict=True)
        first, symbols = self.states.lookup(before), self._shift(self.symbols.lookup(read), 1)
        return multibind([first, symbols, self._shift(self.states.lookup(after), 2)])

    def _seen(self) -> list[list[str]]:
        return [list(word) for word in self.orders.words]

    def _restore(self, seen: Any) -> None:
        self.orders.add(tuple(check_names("Automaton", word)) for word in seen)

r"""Automaton: a finite automaton, deterministic or not, that can be run on words.

.. math:: \sum_{(s, a) \to s'} S * A * S' + \text{START} * S_0 + \sum_{\text{final}} \text{END} * S_f

A step unbinds S * A from the left and cleans up the next states, so that noise does not accumulate over a word. With n
transitions the noise of an answer is about :math:`\sqrt{n/(2Dm^2)}`. A transition is read without the contribution of
its reversal, (s, a) to t and (t, a) to s (:mod:`ghrr.structures.triples`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ghrr.algebra import bind, bundle, similarity, unbind
from ghrr.checks import describe, names_errors, type_error, value_error
from ghrr.hypervector import Hypervector
from ghrr.memory.match import Match, answer_noise, make_matches
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.certainty import is_settled
from ghrr.structures.planning import answer_rate
from ghrr.structures.reading import MatchDict, MatchList
from ghrr.structures.triples import Triples
from ghrr.structures.vocabulary import Name

Transition = tuple[str, str, str]
Transitions = Mapping[Any, Name | Sequence[Name]]  # of (state, symbol)


@names_errors
@dataclass(frozen=True, repr=False)
class Run:
    """Result of running an automaton on a word.

    Parameters
    ----------
    states
        For the start and after each symbol, the matches of all states that can have been reached.
    complete
        Whether the whole word was read; otherwise the last set of states has no transition for the next symbol.
    accepted
        Whether a final state was reached at the end of the word.
    confident
        Whether the answer can be trusted: all states are confident, and the space can hold the automaton.
    note
        What the reader should know, such as an unknown symbol or a space that is too small; otherwise empty.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Automaton
    >>> machine = Automaton(ghrr.Space(dim=300, m=3))
    >>> run = machine.run(machine.encode({("a", "x"): "b"}, start="a", final=["b"]), ["x"])
    >>> run
    Run(accepted=True, states=[['a'], ['b']], complete=True, confident=True)
    """

    states: list[list[Match]]
    complete: bool
    accepted: bool
    confident: bool = True
    note: str = ""

    def __repr__(self) -> str:
        states = [[match.label for match in matches] for matches in self.states]
        note = f", {self.note}" if self.note else ""
        return (
            f"Run(accepted={self.accepted}, states={states}, complete={self.complete}, "
            f"confident={self.confident}{note})"
        )


@names_errors
class Automaton(Structure):
    """Finite automaton as one hypervector.

    States and symbols are names or given hypervectors. A transition can lead to several states.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`. ``permute`` shifts symbol and target by 1 and 2 slots.

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
    Match('open', score=0.994, margin=1.028, confident=True)
    >>> machine.run(h, ["coin", "coin", "push"]).accepted, machine.run(h, ["coin"]).accepted
    (True, False)
    """

    _SIZES = ("transitions", "states")

    @classmethod
    def _rate(cls, space: Space, items: int, candidates: int) -> float:
        items += 1 + candidates // 2  # with the start, and final states, assumed to be half of all
        return min(answer_rate(space, items=items, candidates=candidates, several=one) for one in (False, True))

    def _create_tables(self) -> None:
        self.states, self.symbols = self._vocabulary("automaton state"), self._vocabulary("automaton symbol")
        self._transitions = Triples(self, self.states, self.symbols)
        self.permuted = self._transitions.permuted
        marks = self.space.vectors(["start", "end"], namespace="automaton mark")
        self._start, self._end = marks.to(self.device)

    def encode(self, transitions: Transitions, *, start: Name, final: Iterable[Name] = ()) -> Tensor:
        """Return the hypervector of an automaton.

        Parameters
        ----------
        transitions
            ``{(state, symbol): next state}``, or a list of next states.
        start
            The start state. It must occur in the transitions, unless there are none.
        final
            The final states.
        """
        triples = self._check_transitions(transitions)
        ends = list(dict.fromkeys(self.states.resolve_all(final)))
        first = self.states.resolve(start)
        known = {state for before, _, after in triples for state in (before, after)} or {first}
        for what, state in [("start", first), *(("final", end) for end in ends)]:
            if state not in known:
                raise value_error(
                    f"the {what} state {state!r} does not occur in the transitions, expected one of "
                    f"{', '.join(map(repr, sorted(known)[:10]))}"
                )
        h = self._transitions.encode(triples) + self._encode_marks(first, ends)
        self._transitions.permuted.add(triples)
        self._warn_if_full(len(triples) + 1 + len(ends), len(self.states))
        return h

    def _encode_marks(self, start: str | None, final: Sequence[str]) -> Tensor:
        """Return the marks of the start state and the final states, ``(dim, m, m)``."""
        total = self._zeros()
        if start is not None:
            total = total + bind(self._start, self.states.encode([start])[0])
        return total + bind(self._end, bundle(self.states.encode(final))) if final else total

    def add(self, h: Tensor | Hypervector, transitions: Transitions) -> Tensor:
        """Return the automaton with more transitions. Differentiable with respect to ``h``.

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
        x = self._vector(h)
        triples = self._check_transitions(transitions)
        if triples:
            self._check_absent(x.detach(), triples)
        h = x + self._transitions.encode(triples)
        self._transitions.permuted.add(triples)
        self._warn_if_full(self._items(h), len(self.states))
        return h

    def _check_absent(self, x: Tensor, triples: list[Transition]) -> None:
        """Raise unless it is certain that none of the transitions is in the automaton."""
        noise = answer_noise(self.space, similarity(x, x))
        counts, deviations, _ = self._transitions.permuted.counts(x, triples, noise)
        names = [[after] for _, _, after in triples]
        matches = make_matches(names, counts[:, None], candidates=1, noise=deviations, confidence=self.confidence)
        for (before, symbol, after), match in zip(triples, matches, strict=True):
            if match.confident:
                raise value_error(
                    f"{before!r} already leads to {after!r} on {symbol!r}, got {match}; a second copy would count twice"
                )
            if not is_settled(match):
                raise value_error(
                    f"it is not certain whether {before!r} already leads to {after!r} on {symbol!r}, "
                    f"got {match}; use a larger space"
                )

    def step(self, h: Tensor | Hypervector, state: Name, symbol: Name) -> Match:
        """Return the next state of a deterministic automaton; unknown if there is no transition.

        If the transition leads to several states, the match is not confident: use :meth:`successors`.
        """
        x = self._constant(h)
        pair = self._check_pair(state, symbol)
        return self._noted(self._transitions.target(x, pair), self._note(pair))

    def successors(self, h: Tensor | Hypervector, state: Name, symbol: Name) -> MatchList:
        """Return all next states, best first."""
        x = self._constant(h)
        pair = self._check_pair(state, symbol)
        return self._found(x, self._transitions.targets(x, [pair])[0], len(self.states), self._note(pair))

    def _note(self, pair: tuple[str, str]) -> str:
        return self.states.note(pair[0]) or self.symbols.note(pair[1])

    def start(self, h: Tensor | Hypervector) -> Match:
        """Return the start state."""
        x = self._constant(h)
        return self.states.match(unbind(x, self._start, side="left")[None], confidence=self.confidence)[0]

    def final(self, h: Tensor | Hypervector) -> MatchList:
        """Return the final states."""
        x = self._constant(h)
        [found] = self.states.members(unbind(x, self._end, side="left")[None], confidence=self.confidence)
        return self._found(x, found, len(self.states))

    def run(self, h: Tensor | Hypervector, word: Iterable[Name]) -> Run:
        """Read a word, which is a list of symbols or a string of letters, from the start state."""
        x = self._constant(h)
        start = self.start(x)
        reached = [] if start.unknown else [start]
        states = [reached]
        symbols = self.symbols.resolve_all(list(word) if isinstance(word, str) else word)
        for symbol in symbols:
            if not reached:
                break
            found = self._transitions.targets(x, [(match.guess, symbol) for match in reached])
            best: dict[str, Match] = {}
            for match in itertools.chain.from_iterable(found):
                if match.guess not in best or match.score > best[match.guess].score:
                    best[match.guess] = match
            reached = list(best.values())
            states.append(reached)
        complete, final = bool(reached), self.final(x)
        ends = {match.guess for match in final} if complete else set()
        confident = all(match.confident for match in itertools.chain(*states, final)) and final.complete
        note = self.symbols.note(*symbols)
        note = "; ".join(part for part in (note, final.note) if part)
        return Run(states, complete, any(match.guess in ends for match in reached), confident, note)

    def decode(self, h: Tensor | Hypervector) -> MatchDict:
        """Return all confident transitions ``(state, symbol, next state)``, with the match of the next state.

        They are subtracted, and the rest is read again with less noise.
        """
        x = self._constant(h)
        if not x.any():
            return MatchDict(unexplained=0.0)
        start, final = self.start(x), [match.guess for match in self.final(x) if match.confident]
        return self._transitions.decode(x - self._encode_marks(start.guess if start.confident else None, final))

    def _check_pair(self, state: Name, symbol: Name) -> tuple[str, str]:
        return self.states.resolve(state), self.symbols.resolve(symbol)

    def _check_transitions(self, transitions: Transitions) -> list[Transition]:
        """Return all transitions as triples, one for each next state."""
        if not isinstance(transitions, Mapping):
            raise type_error(f"needs a dict of (state, symbol) to state, got {describe(transitions)}")
        found: dict[Transition, None] = {}
        for pair, targets in transitions.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise type_error(f"a transition must start from (state, symbol), got {describe(pair)}")
            before, symbol = self._check_pair(*pair)
            several = targets if isinstance(targets, (list, tuple, set, frozenset)) else [targets]
            found |= {(before, symbol, after): None for after in self.states.resolve_all(several)}
        return list(found)

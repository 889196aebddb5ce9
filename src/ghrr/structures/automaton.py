r"""Automaton: a deterministic machine of states, run on words:
:math:`\sum_{(s, a) \to s'} S * A * S' + \text{START} * S_0 + \sum_{\text{final}} \text{END} * S_f`.

A step unbinds S * A from the left and cleans up the next state, so that noise does not add up over a word. A machine of
n transitions answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. A transition and its reversal, (s, a) to t and
(t, a) to s, share about :math:`1/m^2` of each other; one is read without what the other, if it was met, may add
(:mod:`ghrr.memory.orders`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from ghrr._checks import describe
from ghrr.algebra import bind, bind_bundle, bundle, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.orders import Orders
from ghrr.structures.vocabulary import Vocabulary, check_name, check_names, chunks, one_of


@dataclass(frozen=True)
class Run:
    """How a word was run: the match of every state that was reached, and whether the word is accepted.

    It stops early where there is no transition; ``complete`` tells.
    """

    states: list[Match]
    complete: bool
    accepted: bool


class Automaton:
    """A deterministic finite automaton as one hypervector.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

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

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.states = Vocabulary(space, "automaton state")
        self.symbols = Vocabulary(space, "automaton symbol")
        self.orders = Orders(space, self._products)
        self._start, self._end = space.vectors(["start", "end"], namespace="automaton mark")

    def encode(self, transitions: Mapping[tuple[str, str], str], *, start: str, final: Iterable[str] = ()) -> Tensor:
        """The hypervector of a machine: ``{(state, symbol): next state}``, where it starts and where it may end."""
        if not isinstance(transitions, Mapping):
            raise TypeError(f"Automaton.encode: needs a dict of (state, symbol) to state, got {describe(transitions)}")
        for pair in transitions:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise TypeError(f"Automaton.encode: a transition starts from (state, symbol), got {describe(pair)}")
        before = check_names("Automaton.encode", [state for state, _ in transitions])
        read = check_names("Automaton.encode", [symbol for _, symbol in transitions])
        after = check_names("Automaton.encode", transitions.values())
        ends = dict.fromkeys(check_names("Automaton.encode", final))
        first = self.states.encode([check_name("Automaton.encode", start)])[0]
        self.orders.add(zip(before, read, after, strict=True))
        keys = bind(self.states.encode(before), self.symbols.encode(read))
        moves = bind_bundle(keys, self.states.encode(after)) if transitions else self.space.empty()
        marks = bind(self._end, bundle(self.states.encode(ends)))
        return moves + bind(self._start, first) + marks

    def step(self, h: Tensor | Hypervector, state: str, symbol: str) -> Match:
        """The state after a symbol; unknown if there is no such transition."""
        x = one_of("Automaton.step", h, self.space)
        return self._after(x, [(check_name("Automaton.step", state), check_name("Automaton.step", symbol))])[0]

    def start(self, h: Tensor | Hypervector) -> Match:
        """The state in which the machine starts."""
        x = one_of("Automaton.start", h, self.space)
        return self.states.match(unbind(x, self._start, side="left")[None], level=self.level)[0]

    def final(self, h: Tensor | Hypervector) -> list[Match]:
        """The states in which it may end."""
        x = one_of("Automaton.final", h, self.space)
        return self.states.members(unbind(x, self._end, side="left")[None], level=self.level)[0]

    def run(self, h: Tensor | Hypervector, word: Iterable[str]) -> Run:
        """Read a word, a list of symbols or a string of letters, from the start on."""
        h = one_of("Automaton.run", h, self.space)
        at = self.start(h)
        states = [at]
        for symbol in check_names("Automaton.run", list(word)):
            if at.unknown:
                break
            at = self.step(h, at.guess, symbol)
            states.append(at)
        complete = not at.unknown
        ends = {match.label for match in self.final(h)} if complete else set()
        return Run(states, complete, complete and at.guess in ends)

    def decode(self, h: Tensor | Hypervector) -> dict[tuple[str, str], Match]:
        """All transitions between known states that are certain, with the match of the next state."""
        x = one_of("Automaton.decode", h, self.space)
        pairs = list(itertools.product(self.states.names, self.symbols.names))
        return {pair: match for pair, match in zip(pairs, self._after(x, pairs), strict=True) if match.confident}

    def _after(self, x: Tensor, pairs: Sequence[tuple[str, str]]) -> list[Match]:
        """The state after each of some pairs of state and symbol."""
        found: list[Match] = []
        for run in chunks(len(pairs), self.space):
            before, read = zip(*pairs[run], strict=True)
            keys = bind(self.states.lookup(before), self.symbols.lookup(read))
            found += self.states.match(unbind(x, keys, side="left"), energy=similarity(x, x), level=self.level)
        words = [(*pair, match.guess) for pair, match in zip(pairs, found, strict=True)]
        return self.orders.rejudge(x, words, found, odds=1.0)

    def _products(self, transitions: Sequence[Sequence[str]]) -> Tensor:
        before, read, after = zip(*transitions, strict=True)
        return multibind([self.states.lookup(before), self.symbols.lookup(read), self.states.lookup(after)])

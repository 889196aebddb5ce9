"""Automata: steps, words that are accepted and refused, and transitions that cannot be reversed."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import Automaton
from tests.helpers import wrong
from tests.structures.common import COMMUTING, SPACE, noise

# Words over a, b with an even number of a: two states.
EVEN = {("even", "a"): "odd", ("odd", "a"): "even", ("even", "b"): "even", ("odd", "b"): "odd"}


def test_step_returns_the_next_state() -> None:
    model = Automaton(SPACE)
    h = model.encode(EVEN, start="even", final=["even"])
    for (state, symbol), after in EVEN.items():
        match = model.step(h, state, symbol)
        assert match.label == after
        assert match.confident
        assert abs(match.score - 1) < 5 * noise(6)
    assert model.step(h, "even", "c").unknown
    assert model.start(h).label == "even"
    assert [match.label for match in model.final(h)] == ["even"]
    read = model.decode(h)
    assert {(state, symbol): after for state, symbol, after in read} == EVEN
    assert all(abs(match.score - 1) < 5 * noise(6) for match in read.values())


def test_run_accepts_the_words_of_the_language() -> None:
    model = Automaton(SPACE)
    h = model.encode(EVEN, start="even", final=["even"])
    for length in range(5):
        for word in itertools.product("ab", repeat=length):
            run = model.run(h, word)
            assert run.complete
            assert run.accepted == (word.count("a") % 2 == 0)
            assert len(run.states) == length + 1
    long = model.run(h, "ab" * 100)  # cleaned up after each step: noise does not add up
    assert long.accepted
    assert min(match.score for [match] in long.states) > 1 - 5 * noise(6)


def test_run_stops_without_a_transition() -> None:
    model = Automaton(SPACE)
    h = model.encode({("s", "a"): "t", ("t", "b"): "u"}, start="s", final=["u"])
    assert model.run(h, "ab").accepted
    stopped = model.run(h, "aab")
    assert not stopped.complete
    assert not stopped.accepted
    assert [len(matches) for matches in stopped.states] == [1, 1, 0]
    assert not model.run(h, "a").accepted
    assert model.run(h, "a").complete


def test_source_and_target_cannot_be_swapped() -> None:
    for space in (SPACE, COMMUTING):
        model = Automaton(space, permute=False)
        h = model.encode({("s", "a"): "t"}, start="s")
        s, t = model.states.encode(["s", "t"])
        key = ghrr.bind(s, model.symbols.encode(["a"])[0])
        assert ghrr.similarity(ghrr.unbind(h, key, side="left"), t) > 1 - 5 * noise(2, space)
        wrong_side = float(ghrr.similarity(ghrr.unbind(h, key, side="right"), t))
        backwards = model.step(h, "t", "a")
        assert not backwards.confident
        if space.m == 1:  # negative control: the order is lost
            assert wrong_side > 0.9
        else:
            assert wrong_side < 1 / 9 + 5 * noise(2)
            assert backwards.unknown
    shifted = Automaton(COMMUTING)
    h = shifted.encode({("s", "a"): "t"}, start="s")
    assert shifted.step(h, "s", "a").label == "t"
    assert shifted.step(h, "t", "a").unknown


def test_successors_returns_all_next_states() -> None:
    """Words over a and b whose second letter from the end is a."""
    model = Automaton(SPACE)
    h = model.encode(
        {("s", "a"): ["s", "t"], ("s", "b"): "s", ("t", "a"): "u", ("t", "b"): "u"}, start="s", final=["u"]
    )
    assert sorted(match.label for match in model.successors(h, "s", "a")) == ["s", "t"]
    assert not model.step(h, "s", "a").confident
    for word in map("".join, itertools.product("ab", repeat=4)):
        assert model.run(h, word).accepted == (word[-2] == "a")


def test_add_adds_transitions() -> None:
    model = Automaton(SPACE)
    h = model.encode({("s", "a"): "t"}, start="s", final=["t"])
    assert not model.run(h, "aab").complete
    h = model.add(h, {("t", "a"): "u", ("u", "b"): ["s", "t"]})
    assert model.run(h, "aab").accepted
    assert len(model.decode(h)) == 4
    with pytest.raises(ValueError, match="'s' already leads to 't' on 'a'"):
        model.add(h, {("s", "a"): "t"})


def test_unknown_start_and_final_states_are_refused() -> None:
    model = Automaton(SPACE)
    with pytest.raises(ValueError, match="the start state 'nowhere' does not occur in the transitions"):
        model.encode({("s", "a"): "t"}, start="nowhere")
    with pytest.raises(ValueError, match="the final state 'nowhere'"):
        model.encode({("s", "a"): "t"}, start="s", final=["nowhere"])
    assert len(model.states) == 0


def test_encode_equals_the_sum_of_transitions_and_marks() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    s, t = space.vectors(["s", "t"], namespace="automaton state")
    [a] = space.vectors(["a"], namespace="automaton symbol")
    start, end = space.vectors(["start", "end"], namespace="automaton mark")
    h = Automaton(space).encode({("s", "a"): "t"}, start="s", final=["t", "t"])
    torch.testing.assert_close(h, s @ a @ t + start @ s + end @ t)


def test_automaton_without_transitions() -> None:
    model = Automaton(SPACE)
    h = model.encode({}, start="s", final=["s"])
    assert model.run(h, []).accepted
    assert not model.run(h, "a").complete
    assert model.decode(h) == {}


def test_bad_automata_are_refused() -> None:
    model = Automaton(SPACE)
    with pytest.raises(TypeError, match=re.escape("Automaton.encode: needs a dict of (state, symbol) to state")):
        model.encode(wrong([("s", "a", "t")]), start="s")
    for pair in ("sa", ("s",), ("s", "a", "b")):
        with pytest.raises(TypeError, match=re.escape("a transition must start from (state, symbol)")):
            model.encode(wrong({pair: "t"}), start="s")
    with pytest.raises(TypeError, match="needs a non-empty string or a hypervector, got int 1"):
        model.encode(wrong({("s", 1): "t"}), start="s")
    with pytest.raises(TypeError, match="needs a list of strings, got str 'end'"):
        model.encode({("s", "a"): "t"}, start="s", final="end")
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        Automaton(SPACE).start(SPACE.zeros())
    with pytest.raises(ValueError, match="does not fit Space"):
        model.run(Space(4, 2).zeros(), "a")

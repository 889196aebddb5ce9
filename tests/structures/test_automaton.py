"""Automata: steps, words of any length, words that are refused; states and symbols cannot change places."""

from __future__ import annotations

import itertools
import re

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import Automaton
from tests.structures.common import COMMUTING, SPACE, noise, wrong

# Words over a, b with an even number of a: two states.
EVEN = {("even", "a"): "odd", ("odd", "a"): "even", ("even", "b"): "even", ("odd", "b"): "odd"}


def test_steps() -> None:
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
    assert {pair: match.label for pair, match in read.items()} == EVEN
    assert all(abs(match.score - 1) < 5 * noise(6) for match in read.values())


def test_words_are_accepted_as_they_should() -> None:
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
    assert min(match.score for match in long.states) > 1 - 5 * noise(6)


def test_a_word_without_a_transition_stops() -> None:
    model = Automaton(SPACE)
    h = model.encode({("s", "a"): "t", ("t", "b"): "u"}, start="s", final=["u"])
    assert model.run(h, "ab").accepted
    stopped = model.run(h, "aab")
    assert not stopped.complete
    assert not stopped.accepted
    assert [match.unknown for match in stopped.states] == [False, False, True]
    assert not model.run(h, "a").accepted
    assert model.run(h, "a").complete


def test_sides_and_order() -> None:
    for space in (SPACE, COMMUTING):
        model = Automaton(space)
        h = model.encode({("s", "a"): "t"}, start="s")
        s, t = model.states.encode(["s", "t"])
        key = ghrr.bind(s, model.symbols.encode(["a"])[0])
        assert ghrr.similarity(ghrr.unbind(h, key, side="left"), t) > 1 - 5 * noise(2, space)
        wrong_side = float(ghrr.similarity(ghrr.unbind(h, key, side="right"), t))
        backwards = model.step(h, "t", "a")
        if space.m == 1:  # the control: the machine would run backwards as well
            assert wrong_side > 0.9
            assert backwards.label == "s"
        else:
            assert wrong_side < 1 / 9 + 5 * noise(2)
            assert backwards.unknown


def test_a_machine_is_the_sum_of_its_parts() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    s, t = space.vectors(["s", "t"], namespace="automaton state")
    [a] = space.vectors(["a"], namespace="automaton symbol")
    start, end = space.vectors(["start", "end"], namespace="automaton mark")
    h = Automaton(space).encode({("s", "a"): "t"}, start="s", final=["t", "t"])
    torch.testing.assert_close(h, s @ a @ t + start @ s + end @ t)


def test_a_machine_without_transitions() -> None:
    model = Automaton(SPACE)
    h = model.encode({}, start="s", final=["s"])
    assert model.run(h, []).accepted
    assert not model.run(h, "a").complete
    assert model.decode(h) == {}


def test_bad_machines() -> None:
    model = Automaton(SPACE)
    with pytest.raises(TypeError, match=re.escape("Automaton.encode: needs a dict of (state, symbol) to state")):
        model.encode(wrong([("s", "a", "t")]), start="s")
    for pair in ("sa", ("s",), ("s", "a", "b")):
        with pytest.raises(TypeError, match=re.escape("a transition starts from (state, symbol)")):
            model.encode(wrong({pair: "t"}), start="s")
    with pytest.raises(TypeError, match="needs a string that is not empty, got int 1"):
        model.encode(wrong({("s", 1): "t"}), start="s")
    with pytest.raises(TypeError, match="needs a list of strings, got str 'end'"):
        model.encode({("s", "a"): "t"}, start="s", final="end")
    with pytest.raises(ValueError, match="nothing is known yet"):
        Automaton(SPACE).start(SPACE.empty())
    with pytest.raises(ValueError, match="does not fit Space"):
        model.run(Space(4, 2).empty(), "a")

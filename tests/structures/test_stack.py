"""Stacks: the last element in is the first out; unbinding on the wrong side misses."""

from __future__ import annotations

import math
import random
import re

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import Stack
from tests.helpers import wrong
from tests.structures.common import COMMUTING, SPACE, close, noise, overloaded

NAMES = ["plate", "bowl", "cup", "bowl"]


def test_last_in_first_out() -> None:
    model = Stack(SPACE)
    h = SPACE.zeros()
    for name in NAMES:
        h = model.push(h, name)
        assert model.peek(h).label == name
    assert close(h, model.encode(NAMES))
    assert abs(model.peek(h).score - 1) < 5 * noise(4)
    for name in reversed(NAMES):
        top, h = model.pop(h)
        assert top.label == name
        assert top.confident
    assert close(h, SPACE.zeros())


def test_decode_returns_elements_from_the_top() -> None:
    model = Stack(SPACE)
    assert [match.label for match in model.decode(model.encode(NAMES))] == NAMES[::-1]
    assert model.decode(SPACE.zeros()) == []
    assert Stack(SPACE).decode(SPACE.zeros()) == []


@overloaded
def test_an_overloaded_stack_is_read_until_uncertain() -> None:
    """Regression: decoding did not end, because after each wrong name another one looked likely."""
    model = Stack(Space(2, 2, seed=1))
    read = model.decode(model.encode(["n0", "n1"] * 150))
    assert all(match.confident for match in read)
    assert len(read) < 300
    roomy = Stack(SPACE)
    h = roomy.encode(NAMES)
    assert [match.label for match in roomy.decode(h, limit=2)] == NAMES[:1:-1]
    assert roomy.decode(h, limit=0) == []
    with pytest.raises(ValueError, match=re.escape("Stack.decode: limit must be a whole number of at least 0")):
        roomy.decode(h, limit=-1)


def test_encode_equals_a_sum_of_powers() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    model = Stack(space)
    a, b, c = space.vectors(["a", "b", "c"], namespace="stack element")
    r = model._below
    torch.testing.assert_close(model.encode(["a", "b", "c"]), c + r @ b + r @ r @ a)


def test_pop_unbinds_from_the_left() -> None:
    for space in (SPACE, COMMUTING):
        model = Stack(space)
        h = model.encode(NAMES)
        below = model.names.encode(["cup"])[0]
        rest = h - model.names.encode(["bowl"])[0]
        assert ghrr.similarity(ghrr.unbind(rest, model._below, side="left"), below) > 1 - 5 * noise(3, space)
        other = float(ghrr.similarity(ghrr.unbind(rest, model._below, side="right"), below))
        if space.m == 1:
            assert other > 1 - 5 * noise(3, space)  # negative control: for m = 1 there are no sides
        else:
            assert other < 1 / 9 + 5 * noise(3)


def test_an_empty_stack_cannot_be_popped() -> None:
    model = Stack(SPACE)
    _, h = model.pop(model.encode(["a"]))
    assert model.peek(h).unknown
    for empty in (h, h + 0.01 * SPACE.random(generator=SPACE.generator("noise"))):
        with pytest.raises(IndexError, match=r"Stack\.pop: .* empty"):
            model.pop(empty)


def test_reading_without_a_vocabulary_raises() -> None:
    h = Stack(SPACE).encode(NAMES)
    model = Stack(SPACE)
    assert model.decode(SPACE.zeros()) == []
    for read in (model.peek, model.pop, model.decode):
        with pytest.raises(ValueError, match="vocabulary is empty"):
            read(h)


def test_given_hypervectors_are_elements() -> None:
    model = Stack(SPACE)
    own = SPACE.random(generator=SPACE.generator("own"))
    h = model.push(model.encode(["a", own]), "b")
    _, h = model.pop(h)
    assert model.peek(h).label == model.names.resolve(own)


@pytest.mark.parametrize("m", [1, 3])
def test_the_suggested_space_is_large_enough_and_not_much_larger(m: int) -> None:
    names, space = [f"n{n}" for n in range(50)], Stack.suggest(20, names=50, m=m, error=0.05)

    def rate(dim: int) -> float:
        right = 0
        for seed in range(20):
            model, rng = Stack(Space(dim, m, seed=seed)), random.Random(seed)
            model.names.indices(names)
            for _ in range(20):
                items = rng.choices(names, k=20)
                top = model.peek(model.encode(items))
                right += top.confident and top.guess == items[-1]
        return right / 400

    error = 4 * math.sqrt(0.05 * 0.95 / 400)
    assert rate(space.dim) > 0.95 - error
    assert rate(round(0.6 * space.dim)) < 0.95 - error


def test_bad_stacks_are_refused() -> None:
    model = Stack(SPACE)
    with pytest.raises(TypeError, match=re.escape("Stack.push: needs a non-empty string")):
        model.push(SPACE.zeros(), wrong(3))
    with pytest.raises(TypeError, match=re.escape("Stack.encode: needs a list of strings, got str 'text'")):
        model.encode("text")
    with pytest.raises(ValueError, match="needs one hypervector"):
        model.push(SPACE.zeros(2), "a")
    with pytest.raises(ValueError, match="vocabulary is empty"):
        model.peek(SPACE.zeros())


@overloaded
def test_an_uncertain_top_is_not_popped() -> None:
    names = [f"name {number}" for number in range(30)]
    refused = 0
    for seed in range(10):
        model = Stack(Space(25, 2, seed=seed))
        model.names.indices(names)
        h = model.encode(names[:20])
        if model.peek(h).confident:
            continue
        with pytest.raises((ValueError, IndexError), match=r"Stack.pop: (the top is not certain|the stack is empty)"):
            model.pop(h)
        refused += 1
    assert refused

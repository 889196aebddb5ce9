"""Structures in spaces that are too small: encoding warns, and results say that they are not complete."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.structures import (
    Automaton,
    CapacityWarning,
    Chain,
    Graph,
    HashTable,
    MatchDict,
    MatchList,
    NGrams,
    Reading,
    Record,
    Set,
    Stack,
    Tree,
)
from ghrr.structures import Sequence as Line
from ghrr.structures.fullness import is_full, items_of_counts
from tests.structures.common import overloaded

NAMES = [f"n{i}" for i in range(40)]
TINY = Space(6, 2, seed=1)


def letters(prefix: str, count: int = 40) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


MOVES = {(f"s{i}", "ab"[j]): f"s{(3 * i + j) % 22}" for i in range(22) for j in range(2)}  # 44 transitions

# How to make each structure, to encode 40 or so items, and to change one of two items.
CASES: dict[str, tuple[Callable[[Space], Any], Callable[[Any], Tensor], Callable[[Any, Tensor], Tensor] | None]] = {
    "Automaton": (
        Automaton,
        lambda model: model.encode(MOVES, start="s0", final=["s1"]),
        lambda model, h: model.add(h, {("s0", "z"): "s1"}),
    ),
    "Chain": (Chain, lambda model: model.encode(NAMES), None),
    "Graph": (Graph, lambda model: model.encode([(n, "to", m) for n, m in pairwise(NAMES)]), None),
    "HashTable": (
        HashTable,
        lambda model: model.encode(dict(zip(NAMES, letters("v"), strict=True))),
        lambda model, h: model.put(h, "new", "v1"),
    ),
    "NGrams": (lambda space: NGrams(space, 2), lambda model: model.encode(NAMES), None),
    "Record": (
        Record,
        lambda model: model.encode_many(
            [{name: f"{name} {i} {j}" for name in NAMES} for i in range(3) for j in range(3)]
        )[0],
        lambda model, h: model.update(h, "new", "value", old="n0 0 0"),
    ),
    "Sequence": (Line, lambda model: model.encode(NAMES), lambda model, h: model.append(h, "n1", at=40)),
    "Set": (Set, lambda model: model.encode(NAMES), lambda model, h: model.add(h, "more")),
    "Stack": (Stack, lambda model: model.encode(NAMES), lambda model, h: model.push(h, "n1")),
    "Tree": (Tree, lambda model: model.encode(["root", *NAMES]), None),
}


def encoded(name: str, space: Space) -> tuple[Any, Tensor]:
    make, encode, _ = CASES[name]
    model = make(space)
    return model, encode(model)


def suggested(warning: warnings.WarningMessage) -> Space:
    """Return the space that a warning suggests."""
    found = re.search(r"use Space\(dim=(\d+), m=(\d+), seed=(\d+)\)$", str(warning.message))
    assert found is not None
    dim, m, seed = map(int, found.groups())
    return Space(dim, m, seed=seed)


@pytest.mark.parametrize("name", CASES)
def test_encoding_more_than_the_space_can_hold_warns(name: str) -> None:
    expected = rf"^{name}\.encode\w*: Space\(dim=6, m=2, seed=1\) cannot hold \d+ items with \d+ candidates?\b"
    with pytest.warns(CapacityWarning, match=expected) as caught:
        encoded(name, TINY)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", CASES)
def test_the_suggested_space_holds_the_structure(name: str) -> None:
    with pytest.warns(CapacityWarning) as caught:
        encoded(name, TINY)
    space = suggested(caught[0])
    assert (space.m, space.seed) == (2, 1)
    model, h = encoded(name, space)  # a warning would raise
    decoded = model.decode(h)
    assert decoded.complete
    assert decoded.confident
    assert decoded.unexplained < 0.5


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[2] is not None])
def test_changes_warn_too(name: str) -> None:
    make, _, change = CASES[name]
    assert change is not None
    with pytest.warns(CapacityWarning):
        model, h = encoded(name, TINY)
    uncertain = ("HashTable", "Automaton")  # these read h first, and refuse to change what they cannot read
    if name in uncertain:
        with pytest.raises(ValueError, match="not certain"):
            change(model, h)
        return
    with pytest.warns(CapacityWarning, match=rf"^{name}\."):
        change(model, h)
    large = make(Space(300, 3))
    change(large, CASES[name][1](large))  # negative control


@overloaded
@pytest.mark.parametrize("name", CASES)
def test_decoding_says_what_is_missing(name: str) -> None:
    model, h = encoded(name, TINY)
    decoded = model.decode(h)
    assert isinstance(decoded, (MatchList, MatchDict, Reading))
    assert not decoded.complete
    assert decoded.unexplained is not None
    assert decoded.unexplained > 5
    assert ("unexplained=" if isinstance(decoded, Reading) else "complete=False") in repr(decoded)


@pytest.mark.parametrize("name", CASES)
def test_an_empty_hypervector_is_complete(name: str) -> None:
    model = CASES[name][0](Space(300, 2))
    CASES[name][1](model)
    decoded = model.decode(torch.zeros_like(model.space.zeros()))
    assert decoded.complete
    assert not (decoded.matches if isinstance(decoded, Reading) else decoded)


@overloaded
def test_runs_of_an_automaton_that_does_not_fit_are_not_confident() -> None:
    for space, fits in ((TINY, False), (Space(300, 3, seed=1), True)):
        machine, h = encoded("Automaton", space)
        run = machine.run(h, ["b"])
        assert run.confident == fits
        assert run.accepted == fits
        assert ("the space is too small" in repr(run)) == (not fits)


@overloaded
def test_queries_with_several_answers_say_if_answers_can_be_missing() -> None:
    for space, fits in ((TINY, False), (Space(300, 3, seed=1), True)):
        graph, h = encoded("Graph", space)
        for answers in (graph.neighbours(h, "n1", "to"), graph.predecessors(h, "n2", "to")):
            assert answers.complete == fits
            assert ("the space is too small" in answers.note) == (not fits)


def test_unknown_names_are_reported_with_similar_ones() -> None:
    space = Space(300, 3)
    table, line, graph, machine = HashTable(space), Line(space), Graph(space), Automaton(space)
    t, s = table.encode({"France": "Paris", "Peru": "Lima"}), line.encode(["to", "be", "ornate"])
    g, a = graph.encode([("Ada", "mother", "Annabella")]), machine.encode({("open", "push"): "shut"}, start="open")
    grams, chain, record, members, stack = NGrams(space, 2), Chain(space), Record(space), Set(space), Stack(space)
    answers: Sequence[tuple[Any, str]] = [
        (table.get(t, "Frence"), "unknown name 'Frence'; did you mean 'France'?"),
        (table.key(t, "Pariss"), "did you mean 'Paris'?"),
        (line.index(s, "ornat"), "did you mean 'ornate'?"),
        (graph.neighbours(g, "Adda", "mother"), "did you mean 'Ada'?"),
        (graph.neighbours(g, "Ada", "mothr"), "did you mean 'mother'?"),
        (graph.predecessors(g, "Annabela", "mother"), "did you mean 'Annabella'?"),
        (graph.edge_labels(g, "Ada", "Annabela"), "did you mean 'Annabella'?"),
        (machine.step(a, "opne", "push"), "did you mean 'open'?"),
        (machine.successors(a, "open", "psh"), "did you mean 'push'?"),
        (machine.run(a, ["puhs"]), "unknown name 'puhs'; did you mean 'push'?"),
        (grams.after(grams.encode(["alpha", "beta", "gamma"]), ["alhpa"]), "did you mean 'alpha'?"),
        (chain.next(chain.encode(["alpha", "beta"]), ["alhpa"]), "did you mean 'alpha'?"),
        (members.contains(members.encode(["apple"]), "aple"), "did you mean 'apple'?"),
        (record.query(record.encode({"name": "Ada", "city": "London"}), "nmae"), "did you mean 'name'?"),
        (record.query(record.encode({"born": {"city": "Rome"}}), "born.citty"), "'citty'; did you mean 'city'?"),
    ]
    for answer, note in answers:
        assert note in answer.note
        assert note in repr(answer)
    known: list[Any] = [
        table.get(t, "Peru"),
        table.get(table.encode({"Peru": "Lima"}), "France"),
        graph.neighbours(g, "Annabella", "mother"),
        machine.run(a, ["push"]),
        stack.peek(stack.encode(["a"])),
    ]
    assert all(answer.note == "" for answer in known)


def test_results_are_lists_and_dicts() -> None:
    stack, table = Stack(Space(300, 3)), HashTable(Space(300, 3))
    found, entries = stack.decode(stack.encode(["a", "b"])), table.decode(table.encode({"k": "v"}))
    assert isinstance(found, list)
    assert found == [found[0], found[1]]
    assert found.labels == ["b", "a"]
    assert isinstance(entries, dict)
    assert entries.labels == {"k": "v"}
    cut = stack.decode(stack.encode(["a", "b"]), limit=1)
    assert (cut.labels, cut.complete, cut.confident) == (["b"], False, False)


def test_a_space_is_full_if_most_right_answers_are_not_confident() -> None:
    model = Line(Space(60, 2, seed=3))
    share = {}
    for length in (5, 10, 40, 80):
        vectors = [f"{length} {i}" for i in range(length)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CapacityWarning)
            h = model.encode(vectors)
        share[length] = sum(match.confident for match in model.read(h, 0, length)) / length
        full = is_full(model.space, length, len(model.names))
        assert full == (share[length] < 0.5)
    assert share[5] > 0.9
    assert share[80] < 0.1


def test_counts_are_items_if_they_are_one() -> None:
    assert items_of_counts([1] * 7) == 7
    assert items_of_counts([]) == 0
    bag = Set(Space(300, 3))
    h = bag.encode({"a": 100})  # one large count fills no space
    assert bag.contains(h, "a").confident


def test_a_stricter_confidence_needs_a_larger_space() -> None:
    dims = []
    for confidence in (0.9, 0.99, 0.9999999):
        with pytest.warns(CapacityWarning) as caught:
            Stack(TINY, confidence=confidence).encode(NAMES)
        space = suggested(caught[0])
        stack = Stack(space, confidence=confidence)
        assert stack.decode(stack.encode(NAMES)).complete
        dims.append(space.dim)
    assert dims[2] >= dims[1] >= dims[0]


def test_settings_of_the_space_are_kept() -> None:
    for space in (
        Space(6, 2, rotation="shared", seed=2),
        Space(6, 2, diagonality=0.5),
        Space(6, 2, rotation=ghrr.unitary.haar(6, m=2, generator=torch.Generator().manual_seed(0))),
        Space(6, 1, dtype=torch.complex128),
    ):
        with pytest.warns(CapacityWarning, match=r"use Space\(dim=\d+, "):
            Stack(space).encode(NAMES)

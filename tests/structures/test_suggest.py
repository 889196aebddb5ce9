"""Suggested spaces are large enough, and not much larger than needed: theory against simulation."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable

import pytest

from ghrr import Space
from ghrr.structures import Automaton, CapacityWarning, Graph, NGrams, Set, Tree
from ghrr.structures.planning import answer_rate

ERROR = 0.02


def graph(space: Space, rng: random.Random) -> list[bool]:
    model, nodes = Graph(space), [f"n{number}" for number in range(80)]
    pairs = rng.sample([(node, label) for node in nodes for label in "abcd"], k=150)
    edges = [(node, label, rng.choice(nodes)) for node, label in pairs]
    model.nodes.indices(nodes)
    h = model.encode(edges)
    return [[match.guess for match in model.neighbours(h, u, label) if match.confident] == [v] for u, label, v in edges]


def tree(space: Space, rng: random.Random) -> list[bool]:
    model, labels = Tree(space), [f"l{number}" for number in range(60)]
    model.labels.indices(labels)
    nodes = {(i, j): rng.choice(labels) for i in range(10) for j in range(9)}
    root = ["l0", *(["l1", *(nodes[i, j] for j in range(9))] for i in range(10))]
    h = model.encode(root)
    return [(m := model.label(h, path)).confident and m.guess == label for path, label in nodes.items()]


def automaton(space: Space, rng: random.Random) -> list[bool]:
    model, states = Automaton(space), [f"s{number}" for number in range(20)]
    moves = {(state, symbol): rng.choice(states) for state in states for symbol in "abcde"}
    h = model.encode(moves, start="s0", final=states[:10])
    return [(m := model.step(h, *pair)).confident and m.guess == after for pair, after in moves.items()]


def collection(space: Space, rng: random.Random) -> list[bool]:
    model, names = Set(space), [f"n{number}" for number in range(200)]
    members = rng.sample(names, k=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CapacityWarning)  # this fills the vocabulary
        model.encode(names)
    h = model.encode(members)
    sigma = model.atoms.members(h[None], confidence=model.confidence, bound=False)[0]
    confident = {match.guess for match in sigma if match.confident}
    return [name in confident and confident <= set(members) for name in members]


def ngrams(space: Space, rng: random.Random) -> list[bool]:
    model, names = NGrams(space, 2), [f"n{number}" for number in range(100)]
    text = rng.sample(names, k=100)
    h = model.encode(text)
    found = [{match.guess for match in model.after(h, [name]) if match.confident} for name in text[:-1]]
    return [one == {name} for one, name in zip(found, text[1:], strict=True)]


CASES: dict[str, tuple[Callable[[int], Space], Callable[[Space, random.Random], list[bool]]]] = {
    "Graph": (lambda m: Graph.suggest(150, nodes=80, m=m, error=ERROR), graph),
    "Tree": (lambda m: Tree.suggest(101, labels=60, m=m, error=ERROR), tree),
    "Automaton": (lambda m: Automaton.suggest(100, states=20, m=m, error=ERROR), automaton),
    "Set": (lambda m: Set.suggest(60, names=200, m=m, error=ERROR), collection),
    "NGrams": (lambda m: NGrams.suggest(99, names=100, m=m, error=ERROR), ngrams),
}


def rate(structure: str, space: Space, repeats: int) -> tuple[float, int]:
    simulate = CASES[structure][1]
    right = [
        answer
        for seed in range(repeats)
        for answer in simulate(Space(space.dim, space.m, seed=seed), random.Random(seed))
    ]
    return sum(right) / len(right), len(right)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("structure", CASES)
def test_suggested_space_reaches_the_requested_rate(structure: str, m: int) -> None:
    space = CASES[structure][0](m)
    share, count = rate(structure, space, 6)
    # Answers of one hypervector share its noise, so the error is as large as for fewer independent ones.
    assert share >= 1 - ERROR - 4 * math.sqrt(ERROR * (1 - ERROR) / count) * 1.5
    smaller, count = rate(structure, Space(int(0.6 * space.dim), m), 3)
    assert smaller < 1 - ERROR - 4 * math.sqrt(ERROR * (1 - ERROR) / count)


def test_suggestion_is_above_a_size_known_to_be_too_small() -> None:
    """An earlier rule suggested dim 439 at m = 3 for 288 edges and 176 nodes, which need two to three times as much."""
    assert Graph.suggest(288, nodes=176, m=3).dim >= 2 * 400
    assert answer_rate(Space(439, 3), items=288, candidates=176, several=True) < 0.95


def test_sizes_can_be_given_by_name_and_are_required() -> None:
    assert Graph.suggest(edges=50, nodes=20, m=2) == Graph.suggest(50, nodes=20, m=2)
    assert Set.suggest(50, m=2) == Set.suggest(members=50, names=1, m=2)
    with pytest.raises(TypeError, match=r"Graph\.suggest: needs edges and nodes, got no nodes"):
        Graph.suggest(50)
    with pytest.raises(TypeError, match="edges must be given once"):
        Graph.suggest(50, edges=50, nodes=20)


def test_more_items_and_candidates_need_larger_spaces() -> None:
    sizes = [Graph.suggest(edges, nodes=nodes, m=2).dim for edges, nodes in ((50, 50), (100, 50), (100, 500))]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"edges": 0, "nodes": 5}, "edges must be a whole number of at least 1"),
        ({"edges": 5, "nodes": 0}, "nodes must be a whole number of at least 1"),
        ({"edges": 5, "nodes": 5, "error": 0.0}, "error must lie in"),
        ({"edges": 5, "nodes": 5, "m": 0}, "m must be a whole number of at least 1"),
    ],
)
def test_bad_sizes_are_refused(bad: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph.suggest(**bad)  # type: ignore[arg-type]

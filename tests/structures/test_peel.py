"""Peeling: decode removes confident values from the bundle before it reads the rest again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import Automaton, Chain, Graph, NGrams, Sequence, Stack, Tree, base
from ghrr.structures.peel import peel


def test_peel_reads_until_a_round_finds_nothing() -> None:
    rounds: list[set[str]] = []

    def read(rest: torch.Tensor, found: Mapping[str, int]) -> dict[str, int]:
        rounds.append(set(found))
        return {str(len(found)): int(rest)} if rest > 0 else {}

    found, rest = peel(torch.tensor(3), read, lambda rest, new: rest - len(new))
    assert found == {"0": 3, "1": 2, "2": 1}
    assert rest == 0
    assert rounds == [set(), {"0"}, {"0", "1"}, {"0", "1", "2"}]


def ways_to_decode(space: Space, seed: int) -> dict[str, tuple[Any, Any, Any]]:
    """Make structures above their capacity. Returns the structure, its hypervector and its content."""
    rng = random.Random(seed)
    names = [f"n{n}" for n in range(12)]
    edges = sorted({(rng.choice(names), "to", rng.choice(names)) for _ in range(30)})
    graph, machine, grams, line = Graph(space), Automaton(space), NGrams(space, 2), Sequence(space)
    text = [rng.choice(names) for _ in range(30)]
    moves: dict[Any, Any] = {}
    for source, _, target in edges:
        moves.setdefault((source, "to"), []).append(target)
    return {
        "Graph": (graph, graph.encode(edges), set(edges)),
        "Automaton": (machine, machine.encode(moves, start=edges[0][0]), set(edges)),
        "NGrams": (grams, grams.encode(text), set(itertools.pairwise(text))),
        "Sequence": (line, line.encode(text), set(enumerate(text))),
    }


def confident_of(name: str, decoded: Any) -> set[Any]:
    if name == "Sequence":
        return {(index, match.guess) for index, match in enumerate(decoded) if match.confident}
    return set(decoded)


@pytest.mark.parametrize("name", ["Graph", "Automaton", "NGrams", "Sequence"])
def test_decode_finds_more_with_peeling_and_stays_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a load at which a single reading finds only a part; the negative control reads once."""

    def read_once(x: torch.Tensor, read: Any, remove: Any) -> Any:
        return dict(read(x, {})), x

    with_peeling, once, wrong = 0, 0, 0
    for seed in range(6):
        structure, h, there = ways_to_decode(Space(36, 3, seed=seed), seed)[name]
        found = confident_of(name, structure.decode(h))
        with_peeling, wrong = with_peeling + len(found & there), wrong + len(found - there)
        with monkeypatch.context() as patch:
            for module in ("triples", "ngrams", "sequence"):
                patch.setattr(f"ghrr.structures.{module}.peel", read_once)
            once += len(confident_of(name, structure.decode(h)) & there)
    assert with_peeling > 1.1 * once > 0
    assert wrong <= 0.05 * with_peeling


@pytest.mark.parametrize("structure", [Chain, Stack, Tree])
def test_decode_warns_at_its_default_limit(structure: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_MAX_DECODED", 3)
    model = structure(Space(300, 3))
    h = model.encode(["a", "b", "c", "d"])
    with pytest.warns(UserWarning, match="stopped after 3 elements"):
        model.decode(h)
    found = model.decode(h, limit=3)  # an explicit limit gives no warning
    assert len(found.matches if structure is Tree else found) == 3
    everything = model.decode(h, limit=10)
    assert len(everything.matches if structure is Tree else everything) == 4


def test_ngram_counts_survive_peeling() -> None:
    grams = NGrams(ghrr.Space(300, 3), 2)
    found = grams.decode(grams.encode("abababac"))
    assert {gram: round(match.score) for gram, match in found.items()} == {("a", "b"): 3, ("b", "a"): 3, ("a", "c"): 1}

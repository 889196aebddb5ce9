"""Eight threads use one record or one graph: every answer is correct.

Four rounds in the normal run, a thousand in ``make fuzz``.
"""

from __future__ import annotations

import random

import pytest

from ghrr import Match, Space
from ghrr.structures import Graph, Record
from tests.faults.threads import run_threads

SPACE = Space(300, 3, seed=5)
NAMES = [f"name {number}" for number in range(400)]
short_or_long = pytest.mark.parametrize("rounds", [4, pytest.param(1000, marks=pytest.mark.fuzz)])


@short_or_long
def test_eight_threads_on_one_record(rounds: int) -> None:
    codec = Record(SPACE)

    def work(rng: random.Random) -> None:
        key, value = rng.choice(NAMES), rng.choice(NAMES)
        h = codec.encode({"person": {key: value}, "city": value})
        for path in (("person", key), ("city",)):
            found = codec.query(h, path)
            assert isinstance(found, Match)
            assert found.label == value

    run_threads(rounds, *[work] * 8)
    for key in NAMES[:20]:
        found = codec.query(codec.encode({"person": {key: key}}), ["person", key])
        assert isinstance(found, Match)
        assert found.label == key


@short_or_long
def test_eight_threads_on_one_graph(rounds: int) -> None:
    graph = Graph(SPACE)

    def work(rng: random.Random) -> None:
        source, label, target = rng.choice(NAMES), rng.choice("abc"), rng.choice(NAMES)
        h = graph.encode([(source, label, target)])
        assert [match.label for match in graph.neighbours(h, source, label)] == [target]
        assert [match.label for match in graph.predecessors(h, target, label)] == [source]

    run_threads(rounds, *[work] * 8)
    assert sorted(graph.nodes.names) == sorted(set(graph.nodes.names))

"""Eight threads on one record and one graph: every answer is right, during and after.

Three seconds in the normal run, a minute in ``make fuzz``.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import pytest

from ghrr import Match, Space
from ghrr.structures import Graph, Record

SPACE = Space(300, 3, seed=5)
NAMES = [f"name {number}" for number in range(400)]
short_or_long = pytest.mark.parametrize("seconds", [3.0, pytest.param(60.0, marks=pytest.mark.fuzz)])


def run_threads(seconds: float, work: Callable[[random.Random], None]) -> int:
    """Repeat some work in eight threads until the time is over; returns how often it was done."""
    errors: list[BaseException] = []
    counts: list[int] = []
    end = time.monotonic() + seconds

    def repeat(seed: int) -> None:
        rng, count = random.Random(seed), 0
        try:
            while time.monotonic() < end and not errors:
                work(rng)
                count += 1
        except BaseException as error:
            errors.append(error)
        counts.append(count)

    threads = [threading.Thread(target=repeat, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(counts)


@short_or_long
def test_eight_threads_on_one_record(seconds: float) -> None:
    codec = Record(SPACE)

    def work(rng: random.Random) -> None:
        key, value = rng.choice(NAMES), rng.choice(NAMES)
        h = codec.encode({"person": {key: value}, "city": value})
        for path in (("person", key), ("city",)):
            found = codec.query(h, path)
            assert isinstance(found, Match)
            assert found.label == value

    assert run_threads(seconds, work) > 8
    for key in NAMES[:20]:
        found = codec.query(codec.encode({"person": {key: key}}), ["person", key])
        assert isinstance(found, Match)
        assert found.label == key


@short_or_long
def test_eight_threads_on_one_graph(seconds: float) -> None:
    graph = Graph(SPACE)

    def work(rng: random.Random) -> None:
        source, label, target = rng.choice(NAMES), rng.choice("abc"), rng.choice(NAMES)
        h = graph.encode([(source, label, target)])
        assert [match.label for match in graph.neighbours(h, source, label)] == [target]
        assert [match.label for match in graph.predecessors(h, target, label)] == [source]

    assert run_threads(seconds, work) > 8
    assert sorted(graph.nodes.names) == sorted(set(graph.nodes.names))

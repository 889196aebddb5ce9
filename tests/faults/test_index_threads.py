"""Threads that search while others add, replace, remove, learn and save see the records of one moment."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ghrr import Space
from ghrr.search import RecordIndex
from tests.faults.threads import run_threads

SPACE = Space(8, 1, seed=0)
FIXED = {f"f{number}": {"name": f"fixed {number}", "turn": 0} for number in range(30)}


def a_changing_index(backend: str, tmp_path: Path) -> RecordIndex:
    """Return an index of fixed records, and of pairs that always have the same turn."""
    uri = str(tmp_path / "lance") if backend == "lancedb" else None
    records = RecordIndex(SPACE, backend=backend, uri=uri, kinds={"turn": "number", "name": "text"})
    records.add(list(FIXED.values()), ids=list(FIXED))
    records.add([{"name": "left", "turn": 0}, {"name": "right", "turn": 0}], ids=["left", "right"])
    return records


@pytest.mark.parametrize(
    ("backend", "rounds"),
    [
        ("torch", 2),
        ("faiss", 2),
        ("lancedb", 1),
        *(pytest.param(b, 100, marks=pytest.mark.fuzz) for b in ("torch", "faiss", "lancedb")),
    ],
)
def test_searches_see_one_state_while_others_change_the_index(backend: str, rounds: int, tmp_path: Path) -> None:
    pytest.importorskip(backend)
    records = a_changing_index(backend, tmp_path)

    def update(rng: random.Random) -> None:
        turn = rng.randrange(1000)
        records.update([{"name": "left", "turn": turn}, {"name": "right", "turn": turn}], ids=["left", "right"])

    def add_and_remove(rng: random.Random) -> None:
        names = [f"t{rng.random()}" for _ in range(5)]
        records.add([{"name": "temporary", f"field {rng.randrange(5)}": 1}] * 5, ids=names)
        records.remove(names)

    def learn_and_save(rng: random.Random) -> None:
        chosen = rng.sample(list(FIXED), 3)
        records.learn_weights([FIXED[name] for name in chosen], chosen)
        records.save(tmp_path / "index")

    def search(rng: random.Random) -> None:
        hits = {hit.guess: hit.document for hit in records.search({"name": "fixed 3", "turn": 5}, k=1000)}
        assert FIXED.items() <= hits.items()
        assert hits["left"]["turn"] == hits["right"]["turn"]

    def read(rng: random.Random) -> None:
        name = rng.choice(list(FIXED))
        assert records[name] == FIXED[name]
        assert records["left"]["name"] == "left"
        assert {"left", *FIXED} <= set(records.ids)
        assert records.explain(name, {"name": "fixed"}).fields
        records.search({"name": "x"}, k=5, candidates=0)

    def group(rng: random.Random) -> None:
        found: list[Any] = records.duplicates(threshold=0.99, neighbours=3)
        assert all(len(cluster.ids) > 1 for cluster in found)

    run_threads(rounds, update, add_and_remove, learn_and_save, search, search, read, group)
    assert len(records) == len(FIXED) + 2
    records.save(tmp_path / "index")
    assert len(records._records.state.memory) == len(records)  # the leftovers of all changes are gone

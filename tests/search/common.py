"""Documents and faults for tests of search."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ghrr.search import RecordIndex

NAMES = [
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Kurt Gödel",
    "Emmy Noether",
    "John von Neumann",
    "Alonzo Church",
]
CITIES = [("London", 51.5, -0.13), ("Princeton", 40.36, -74.67), ("Göttingen", 51.53, 9.93), ("New York", 40.7, -74.0)]


def people(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return nested documents with text, numbers, dates, points, lists and booleans; some fields are missing."""
    rng = random.Random(seed)
    documents = []
    for number in range(count):
        city, latitude, longitude = rng.choice(CITIES)
        document: dict[str, Any] = {
            "name": f"{rng.choice(NAMES)} {rng.choice('ABCDEFGHIJ')}{number}",
            "born": {"year": rng.randrange(1800, 1950), "city": city},
            "joined": f"20{rng.randrange(10, 25)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}",
            "location": {"lat": latitude + rng.random(), "lon": longitude + rng.random()},
            "tags": rng.sample(["poet", "logic", "code", "maths", "physics"], 2),
            "active": rng.random() < 0.5,
        }
        for key in rng.sample(list(document), rng.randrange(2)):
            del document[key]
        documents.append(document)
    return documents


@contextmanager
def full_disk(limit: int) -> Iterator[None]:
    """Let no file of this process grow beyond a number of bytes; writing more raises as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fields_of(records: RecordIndex) -> list[tuple[str, str, float]]:
    return [(field.name, field.kind, field.weight) for field in records.fields]


def assert_vectors_fit(records: RecordIndex) -> None:
    """The vectors of all records are those that the fields of the index give, up to the rounding of the storage."""
    state = records._records.state
    if not len(state):
        return
    vectors = state.memory.vectors(state.labels)
    expected = state.encoder.encode(state.documents.get(state.labels))
    tolerance = 0.02 if state.memory.storage == "int8" else 1e-5
    assert (vectors - expected).abs().max() < tolerance * expected.abs().max()

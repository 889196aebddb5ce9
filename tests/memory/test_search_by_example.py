"""ItemMemory.match with records as items, searched by some of their fields."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import ghrr
from ghrr import ItemMemory, Match, Record, Space
from ghrr.memory.match import answer_noise, make_matches

FIELDS = ["name", "city", "job", "colour", "pet", "car", "drink", "sport"]
COUNT = 1000


def one_match(memory: ItemMemory, query: torch.Tensor) -> Match:
    found = memory.match(query)
    assert isinstance(found, Match)
    return found


def test_a_query_of_two_present_fields_scores_one() -> None:
    codec = Record(Space(dim=500, m=3))
    people = [{"name": name, "city": "London", "job": job} for name, job in (("Ada", "poet"), ("Alan", "runner"))]
    memory = ItemMemory(codec.space)
    memory.add(["first", "second"], codec.encode_many(people))
    found = one_match(memory, codec.encode({"name": "Ada", "city": "London"}))
    assert found.label == "first"
    assert found.confident
    assert found.score == pytest.approx(1.0, abs=4 * found.noise)
    assert found.margin == pytest.approx(0.5, abs=6 * found.noise)  # the other has only London


def records(values: int) -> tuple[random.Random, list[dict[str, str]]]:
    """Return records of 3 to 8 fields with unique names; the other fields share a few values."""
    rng = random.Random(0)
    found = []
    for number in range(COUNT):
        others = rng.sample(FIELDS[1:], rng.randint(2, 7))
        found.append({"name": f"name {number}"} | {field: f"{rng.randrange(values)}" for field in others})
    return rng, found


def answers(memory: ItemMemory, codec: Record, queries: list[dict[str, str]]) -> list[Match]:
    found = memory.match(codec.encode_many(queries))
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("space", "least_recall"), [(Space(dim=256, m=2), 0.98), (Space(dim=100, m=3), 0.98), (Space(dim=50, m=2), 0.0)]
)
def test_confident_matches_are_right_and_absent_records_have_none(space: Space, least_recall: float) -> None:
    codec = Record(space)
    rng, people = records(values=30)
    memory = ItemMemory(space, map(str, range(COUNT)), codec.encode_many(people))
    unique, confident, right = 0, 0, 0
    for size in (1, 2, 3):
        queries, absent = [], []
        for _ in range(100):
            person = rng.choice(people)
            query = {field: person[field] for field in rng.sample(sorted(person), size)}
            queries.append(query)
            absent.append(query | {rng.choice(sorted(query)): "nowhere"})  # one field is wrong
        for query, match in zip(queries, answers(memory, codec, queries), strict=True):
            fitting = [str(number) for number, person in enumerate(people) if query.items() <= person.items()]
            unique += len(fitting) == 1
            confident += match.confident
            right += match.confident and fitting == [match.guess]
            assert match.score == pytest.approx(1.0, abs=1.0)
        assert not any(match.confident for match in answers(memory, codec, absent))
    assert right >= 0.98 * confident
    assert right >= least_recall * unique
    assert unique > 100


def test_records_that_match_equally_are_not_confident() -> None:
    codec = Record(Space(dim=500, m=3))
    people = [{"city": "London", "pet": "cat", "job": job} for job in ("poet", "runner", "painter")]
    memory = ItemMemory(codec.space, ["a", "b", "c"], codec.encode_many(people))
    found = one_match(memory, codec.encode({"city": "London", "pet": "cat"}))
    assert found.score == pytest.approx(1.0, abs=5 * found.noise)
    assert not found.confident


def test_a_record_in_a_noisy_query_is_found() -> None:
    codec = Record(Space(dim=1000, m=3))
    people = [{"name": f"name {i}", "city": f"city {i}", "job": f"job {i}"} for i in range(20)]
    memory = ItemMemory(codec.space, map(str, range(20)), codec.encode_many(people))
    noisy = codec.encode(people[3]) + ghrr.bundle(codec.space.vectors(list("abcdef")))
    found = one_match(memory, noisy)
    assert found.label == "3"
    assert found.confident
    assert found.score == pytest.approx(1.0, abs=4 * found.noise)


def test_a_complete_small_record_beats_half_of_a_large_one() -> None:
    codec = Record(Space(dim=1000, m=3))
    query: dict[str, Any] = dict.fromkeys(FIELDS[:5], "x")
    small = dict.fromkeys(FIELDS[:3], "x")
    large = {field: "x" if field in FIELDS[2:5] else "y" for field in FIELDS}
    memory = ItemMemory(codec.space, ["large", "small"], codec.encode_many([large, small]))
    found = one_match(memory, codec.encode(query))
    assert (found.guess, found.confident) == ("small", True)
    assert found.margin > 0


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "int8"])
def test_atoms_are_judged_by_their_similarity(storage: str) -> None:
    space = Space(dim=100, m=2)
    memory = ItemMemory(space, [f"atom {i}" for i in range(50)], storage=storage)
    noise = space.random(3, 6, generator=space.generator("noise")).sum(dim=1)
    queries = torch.cat([space.vectors(["atom 1", "atom 2", "absent"]) + noise, space.vectors(["atom 3"]) / 2])
    labels, scores = memory.cleanup(queries, k=2)
    expected = make_matches(labels, scores, candidates=50, noise=answer_noise(space, ghrr.similarity(queries, queries)))
    assert memory.match(queries) == expected


def test_an_empty_batch_has_no_matches() -> None:
    space = Space(dim=10, m=2)
    assert ItemMemory(space, ["a", "b"]).match(space.zeros(0)) == []


def test_a_memory_of_one_record_can_be_searched() -> None:
    codec = Record(Space(dim=500, m=3))
    memory = ItemMemory(codec.space, "a", codec.encode({"name": "Ada", "city": "London", "job": "poet"}))
    assert one_match(memory, codec.encode({"name": "Ada", "city": "London"})).confident
    assert not one_match(memory, codec.encode({"name": "Ada", "city": "Paris"})).confident

"""Records: permuted paths are similar, and are never confident if only another order was encoded."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

import ghrr
from ghrr.structures import Reading, Record
from tests.structures.common import is_even, skip_decorrelation

SEEDS = range(20)


def confident(m: int, seed: int) -> bool:
    """Query absent paths of which a permutation is present, such as 1, 0, 0 if there is a value at 0, 0, 1."""
    codec = Record(ghrr.Space(dim=900, m=m, seed=seed))
    match = codec.query(codec.encode([[["p", "q"]], ["z"]]), [1, 0, 0])
    assert isinstance(match, ghrr.Match)
    return match.confident


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_permuted_path_is_never_confident(m: int) -> None:
    assert not any(confident(m, seed) for seed in SEEDS)


def test_permuted_path_is_often_confident_without_decorrelation(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_decorrelation(monkeypatch)
    assert sum(confident(2, seed) for seed in SEEDS) > len(SEEDS) / 4


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_encoded_path_stays_confident(m: int) -> None:
    codec = Record(ghrr.Space(dim=900, m=m))
    document = {"a": {"a": {"b": "x"}, "b": {"a": "z"}}, "b": {"a": {"a": "y"}}}
    reading = codec.decode(codec.encode(document))
    assert reading.value == document
    assert reading.confident


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_a_cube_of_zeros_and_ones_is_never_confidently_wrong(m: int) -> None:
    cube = [[[(i * j + k) % 2 for k in range(3)] for j in range(3)] for i in range(3)]
    codec = Record(ghrr.Space.from_total(9000, m=m))
    h = codec.encode(cube)
    places = [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]
    matches = codec.query_many(h, places)
    assert all(
        match.guess == cube[i][j][k] for match, (i, j, k) in zip(matches, places, strict=True) if match.confident
    )
    assert sum(match.confident for match in matches) > len(places) / 2
    assert codec.decode(h).value == cube


@pytest.mark.parametrize("m", [1, 2, 3])
def test_decode_invents_no_paths(m: int) -> None:
    """A structure that has seen the keys, but not the paths, finds the paths in the correct order only."""
    document = {"a": {"a": {"b": "x"}}, "b": {"b": {"a": "y"}}}
    for seed in SEEDS:
        space = ghrr.Space(dim=900, m=m, seed=seed)
        reader = Record(space)
        reader.encode_many([{"a": "x"}, {"b": "y"}])
        assert reader.decode(Record(space).encode(document)).value == document


@pytest.mark.parametrize("m", [1, 2, 3])
def test_part_is_distinguished_from_permuted_paths(m: int) -> None:
    """Values under "b" are distinguished from those under "a" by their whole paths."""
    for seed in SEEDS:
        codec = Record(ghrr.Space(dim=900, m=m, seed=seed))
        codec.encode({"b": {"a": {"a": "z"}}})
        h = codec.encode({"a": {"a": {"b": "x"}}, "b": {"c": "y"}})
        reading = codec.query(h, "b")
        assert isinstance(reading, Reading)
        assert reading.value == {"c": "y"}


def test_leakage_of_dependent_paths_is_noise() -> None:
    """For m = 2 the even permutations of four keys have half the sum of all permutations, so no path is certain."""
    codec = Record(ghrr.Space.from_total(8000, 2))
    orders = list(itertools.permutations("abcd"))
    codec.encode_many([nested(dict.fromkeys(orders, "p")), {"e": "q"}])
    even = [path for path in orders if is_even(path)]
    matches = codec.query_many(codec.encode(nested(dict.fromkeys(even, "p"))), orders)
    assert not any(match.confident for match in matches)
    assert all(match.noise > math.sqrt(1 / 23) for match in matches)
    assert all(match.score > 0.5 for match in matches)  # negative control: without that noise they would be certain


def nested(leaves: dict[tuple[str, ...], str]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for path, value in leaves.items():
        at = document
        for step in path[:-1]:
            at = at.setdefault(step, {})
        at[path[-1]] = value
    return document

"""The same steps in another order are not independent; a record knows what they may add to a score."""

from __future__ import annotations

import pytest
import torch

import ghrr
from ghrr.structures import Record
from ghrr.structures.codec import Codec

SEEDS = range(20)


def confident(m: int, seed: int) -> bool:
    """Ask for what is not there, when its steps in another order are: 1, 0, 0 for 0, 0, 1."""
    codec = Record(ghrr.Space(dim=900, m=m, seed=seed))
    match = codec.query(codec.encode([[["p", "q"]], ["z"]]), 1, 0, 0)
    assert isinstance(match, ghrr.Match)
    return match.confident


@pytest.mark.parametrize("m", [2, 3, 4])
def test_another_order_is_never_confident(m: int) -> None:
    assert not any(confident(m, seed) for seed in SEEDS)


def test_without_the_share_it_is_half_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Codec, "_shares", lambda self, keys: torch.zeros(len(keys), dtype=torch.float64))
    assert sum(confident(2, seed) for seed in SEEDS) > len(SEEDS) / 4


@pytest.mark.parametrize("m", [3, 4])  # for m = 2 the three orders share too much of each other
def test_what_is_there_is_still_confident(m: int) -> None:
    codec = Record(ghrr.Space(dim=900, m=m))
    document = {"a": {"a": {"b": "x"}, "b": {"a": "z"}}, "b": {"a": {"a": "y"}}}
    reading = codec.decode(codec.encode(document))
    assert reading.value == document
    assert reading.confident


@pytest.mark.parametrize("m", [2, 3, 4])
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

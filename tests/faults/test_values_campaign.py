"""Strange documents: no value of a document is dropped in silence, by search, must, must_not or explain."""

from __future__ import annotations

import pytest

from tests.search.strange import not_found, strange_index


def test_a_sample_of_strange_values_is_found() -> None:
    index, documents = strange_index(seed=0)
    assert not_found(index, documents, first=8)[1] == []


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 112))
def test_hundreds_of_strange_values_are_found(seed: int) -> None:
    index, documents = strange_index(seed, usual=25, strange=15)
    count, faults = not_found(index, documents, first=20)
    assert count > 10
    assert faults == []

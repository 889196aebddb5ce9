"""Records that cannot be told apart: their order and their probabilities."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import ghrr
from ghrr.search import RecordIndex
from ghrr.search.calibration import PRIOR, damaged_examples, is_fitted, probabilities
from tests.search.common import people

SMALL = ghrr.Space(dim=64, m=2, seed=0)


def answers(hits: list[Any]) -> list[tuple[str, float, float]]:
    return [(hit.guess, hit.score, hit.probability) for hit in hits]


@pytest.fixture(scope="module")
def repetitive() -> RecordIndex:
    """Return an index of 8 records with 70 copies each, in a random order."""
    documents = people(8) * 70
    random.Random(0).shuffle(documents)
    index = RecordIndex(SMALL)
    index.add(documents)
    return index


@pytest.mark.parametrize("candidates", [0, 5, 50])
def test_equal_records_come_in_the_order_of_the_index(repetitive: RecordIndex, candidates: int) -> None:
    for example in people(8):
        hits = repetitive.search(example, 5, candidates=candidates)
        equal = [name for name in repetitive.ids if repetitive[name] == example]
        assert [hit.guess for hit in hits] == equal[:5]


@pytest.mark.parametrize("settings", [{}, {"candidates": 0}, {"must": {"born": {"city": "London"}}}, {"candidates": 3}])
def test_hits_of_an_example_do_not_depend_on_the_other_examples(
    repetitive: RecordIndex, settings: dict[str, Any]
) -> None:
    examples = damaged_examples(people(8), seed=1) + people(8) + [{"name": "Ada"}, {"active": True}]
    alone = [answers(repetitive.search(example, 20, **settings)) for example in examples]
    for batch in (examples, examples[::-1], examples[3:] * 3):
        found = repetitive.search_many(batch, 20, **settings)
        for example, hits in zip(batch, found, strict=True):
            expected = alone[examples.index(example)]
            assert [name for name, _, _ in answers(hits)] == [name for name, _, _ in expected]
            np.testing.assert_allclose([hit.score for hit in hits], [score for _, score, _ in expected], atol=1e-6)
            if settings.get("candidates") != 0:  # exact scores are equal to the bit
                assert [score for _, score, _ in answers(hits)] == [score for _, score, _ in expected]


def test_records_of_equal_scores_come_in_the_order_of_the_index_though_their_vectors_differ() -> None:
    index = RecordIndex(SMALL, kinds={"city": "category"}, whole=False)
    index.add([{"name": f"{number * 7919} street", "city": "London"} for number in range(30)])
    assert [hit.guess for hit in index.search({"city": "London"}, 30)] == index.ids
    many = index.search_many([{"name": "street"}, {"city": "London"}], 30)
    assert [hit.guess for hit in many[1]] == index.ids
    assert [hit.guess for hit in many[0]] != index.ids


def test_updated_record_comes_after_its_equals() -> None:
    index = RecordIndex(SMALL)
    index.add([{"name": "Ada"}] * 3)
    index.update([{"name": "Ada"}], ids=["0"])
    assert [hit.guess for hit in index.search({"name": "Ada"})] == ["1", "2", "0"] == index.ids


# ------------------------------------------------------------------------------------------------------- probabilities


@pytest.mark.parametrize("copies", [2, 40])
def test_probabilities_of_copies_sum_to_one_at_most_and_none_is_confident(copies: int) -> None:
    documents = people(50) * copies
    index = RecordIndex(SMALL)
    index.add(documents)
    rng = random.Random(1)
    chosen = [rng.randrange(len(documents)) for _ in range(60)]
    examples = damaged_examples([documents[row] for row in chosen], seed=5)
    used = [(row, example) for row, example in zip(chosen, examples, strict=True) if example]
    found = index.search_many([example for _, example in used], 5, confidence=0.6)
    assert len(found) > 50
    right = np.mean([hits[0].guess == str(row) for (row, _), hits in zip(used, found, strict=True)])
    assert right < 0.6  # only one of the copies is the right one
    assert max(sum(hit.probability for hit in hits) for hits in found) <= 1 + 1e-9
    assert not any(hit.confident for hits in found for hit in hits)
    assert np.mean([hits[0].probability for hits in found]) < right + 0.1


@pytest.mark.parametrize("count", [1, 5, 19])
def test_small_table_is_never_confident(count: int) -> None:
    for seed in range(3):
        documents = people(count + 20, seed)
        index = RecordIndex(SMALL)
        index.add(documents[:count])
        for hits in index.search_many(documents, 5, confidence=0.51):
            assert not any(hit.confident for hit in hits)
            assert sum(hit.probability for hit in hits) <= 1 + 1e-9


def test_table_that_shrinks_is_no_longer_confident_until_it_grows() -> None:
    documents = people(80)
    index = RecordIndex(SMALL)
    index.add(documents[:40])
    assert any(hits[0].confident for hits in index.search_many(documents[:40]))
    index.remove(index.ids[20:])
    assert any(hits[0].confident for hits in index.search_many(documents[:20]))
    index.remove(index.ids[19:])
    assert not any(hit.confident for hits in index.search_many(documents, 5, confidence=0.51) for hit in hits)
    index.add(documents[40:])
    assert is_fitted(index._records.state.calibration)


@pytest.mark.parametrize("count", [8, 19])
def test_table_of_few_records_with_copies_is_never_confident(count: int) -> None:
    documents = people(count + 20)
    index = RecordIndex(SMALL)
    index.add(documents[:count] + documents[:1] * 50)
    assert not any(hit.confident for hits in index.search_many(documents, 5, confidence=0.51) for hit in hits)


def test_large_table_is_confident_of_records_and_not_of_strangers() -> None:
    documents = people(220, seed=2)
    index = RecordIndex(ghrr.Space(dim=256, m=2, seed=0))
    index.add(documents[:200])
    present = index.search_many(damaged_examples(documents[:40], seed=3), 1)
    absent = index.search_many(damaged_examples(documents[200:], seed=3), 1)
    assert np.mean([hits[0].confident for hits in present]) > 0.5
    assert not any(hits[0].confident for hits in absent)


def test_index_that_grows_is_calibrated_later() -> None:
    documents = people(200)
    index = RecordIndex(SMALL)
    index.add(documents[:10])
    assert not is_fitted(index._records.state.calibration)
    index.add(documents[10:])
    assert is_fitted(index._records.state.calibration)


def test_probability_is_shared_by_equal_scores_alone() -> None:
    fitted = np.array([-40.0, 30.0, 30.0])
    alone, unknown = probabilities(fitted, np.array([0.95, 0.3]))
    shared, _ = probabilities(fitted, np.array([0.95, 0.95, 0.3]))
    assert alone[0] > 0.99
    assert unknown == pytest.approx(1 - alone[0], abs=1e-6)
    assert shared[0] == shared[1]
    assert shared.sum() <= 1
    assert probabilities(PRIOR, np.array([1.0]))[0][0] == 0.5

"""What an index learns from labelled examples: aliases, the fields of the whole text, and probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ghrr.search import RecordIndex
from ghrr.search.aliases import find_aliases
from ghrr.search.calibration import PRIOR, features, fit_parameters, probability
from ghrr.search.folder import open_fields
from tests.search.common import assert_vectors_fit, fields_of

COUNT = 60


def films(seed: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return records and examples: three films share each title, and only the year tells them apart."""
    rng = np.random.default_rng(seed)
    years = rng.choice(np.arange(1900, 2020), COUNT, replace=False).tolist()
    titles = [f"the {rng.choice(['red', 'old', 'last'])} story {number // 3}" for number in range(0, COUNT)]
    records = [
        {"title": titles[n - n % 3], "release": years[n], "plot": f"someone number {rng.integers(10**6)} goes away"}
        for n in range(COUNT)
    ]
    examples = [{"title": one["title"], "year": one["release"], "rating": n % 7} for n, one in enumerate(records)]
    return records, examples


@pytest.fixture(scope="module")
def learned() -> tuple[RecordIndex, list[dict[str, Any]]]:
    records, examples = films()
    index = RecordIndex(kinds={"title": "text", "plot": "text", "release": "number"})
    index.add(records)
    index.learn_weights(examples[:40], [str(n) for n in range(40)])
    return index, examples


def test_alias_is_found_and_unrelated_field_is_not() -> None:
    records, examples = films()
    index = RecordIndex()
    index.add(records)
    assert find_aliases(index.fields, examples, records) == {("year",): ("release",)}
    assert find_aliases(index.fields, examples, records[1:] + records[:1]) == {}


def test_alias_makes_held_out_examples_unique(learned: tuple[RecordIndex, list[dict[str, Any]]]) -> None:
    index, examples = learned
    found = [hits[0].guess for hits in index.search_many(examples[40:], k=1)]
    assert np.mean([guess == str(40 + n) for n, guess in enumerate(found)]) > 0.9
    plain = RecordIndex(kinds={"title": "text", "plot": "text", "release": "number"})
    plain.add(films()[0])
    unaided = [hits[0].guess for hits in plain.search_many(examples[40:], k=1)]
    assert np.mean([guess == str(40 + n) for n, guess in enumerate(unaided)]) < 0.7


@pytest.mark.parametrize("step", ["learning.fit_weights", "records.as_columns", "learning.calibrate_on"])
def test_learning_that_fails_changes_nothing(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records, examples = films()
    index = RecordIndex()
    index.add(records)
    index.save(tmp_path)
    before = fields_of(index)

    def fail(*given: Any, **more: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(f"ghrr.search.{step}", fail)  # before, while and after the records are encoded again
    with pytest.raises(MemoryError):
        index.learn_weights(examples, index.ids)
    monkeypatch.undo()
    index.save()
    for one in (index, RecordIndex.open(tmp_path)):
        assert fields_of(one) == before
        assert not one._records.state.encoder.aliases
        assert_vectors_fit(one)
    index.learn_weights(examples, index.ids)
    assert fields_of(index) != before  # negative control


def test_text_that_no_example_has_is_not_part_of_the_whole(learned: tuple[RecordIndex, list[dict[str, Any]]]) -> None:
    index, _ = learned
    document = films()[0][0]
    assert index.explain("0", {"*": document["title"]}).fields["*"] == pytest.approx(1, abs=1e-4)


def test_what_was_learned_is_saved(learned: tuple[RecordIndex, list[dict[str, Any]]], tmp_path: Path) -> None:
    index, examples = learned
    index.save(tmp_path)
    opened = RecordIndex.open(tmp_path)
    assert opened.explain("45", examples[45]) == index.explain("45", examples[45])
    encoder, calibration = open_fields(tmp_path)
    assert encoder.aliases == {("year",): ("release",)}
    assert calibration.shape == (3,)


def test_probability_rises_with_score_and_margin() -> None:
    rng = np.random.default_rng(0)
    found, missing = rng.normal([0.8, 0.3], 0.1, (200, 2)), rng.normal([0.5, 0.1], 0.1, (200, 2))
    parameters = fit_parameters(found, np.ones(200, dtype=bool), missing, labelled=True)
    chances = probability(parameters, np.array([[0.4, 0.1], [0.6, 0.1], [0.6, 0.3], [0.9, 0.4]]))
    assert (np.diff(chances) > 0).all()
    assert probability(parameters, np.concatenate([found, missing])).mean() == pytest.approx(0.5, abs=1e-3)


def test_slope_of_a_misleading_feature_is_zero() -> None:
    rng = np.random.default_rng(0)
    found, missing = rng.normal([0.8, 0.1], 0.1, (200, 2)), rng.normal([0.5, 0.4], 0.1, (200, 2))
    parameters = fit_parameters(found, np.ones(200, dtype=bool), missing, labelled=True)
    assert parameters[1] > 0
    assert parameters[2] == 0


def test_few_examples_give_the_prior() -> None:
    nothing = np.empty((0, 2))
    assert (fit_parameters(nothing, np.empty(0, dtype=bool), nothing, labelled=True) == PRIOR).all()


def test_margin_of_a_single_hit_is_its_score() -> None:
    assert features(np.array([0.7])).tolist() == [[0.7, 0.7]]

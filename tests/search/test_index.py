"""RecordIndex: add, search, explain, update, remove, duplicates and learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr.search import Range, RecordIndex
from ghrr.search.calibration import damaged_examples
from tests.search.common import people

DOCUMENTS = people(300)


@pytest.fixture(scope="module")
def index() -> RecordIndex:
    records = RecordIndex()
    records.add(DOCUMENTS)
    return records


def test_every_record_finds_itself_with_full_scores(index: RecordIndex) -> None:
    for number, hits in enumerate(index.search_many(DOCUMENTS[:50], k=1)):
        assert hits[0].guess == str(number)
        assert hits[0].score == pytest.approx(1)
        assert all(score == pytest.approx(1) for score in hits[0].fields.values())
        assert hits[0].document == DOCUMENTS[number]


def test_damaged_examples_find_their_records(index: RecordIndex) -> None:
    examples = damaged_examples(DOCUMENTS[:100], seed=7)
    found = [hits[0].guess for hits in index.search_many(examples, k=1)]
    assert np.mean([guess == str(i) for i, guess in enumerate(found)]) > 0.9


def test_wrong_examples_are_less_probable_than_right_ones(index: RecordIndex) -> None:
    examples = damaged_examples(DOCUMENTS[:60], seed=3)
    right = np.mean([hits[0].probability for hits in index.search_many(examples)])
    strangers = people(60, seed=99)
    for number, stranger in enumerate(strangers):
        stranger["name"] = f"Stranger Q{number}X"
    wrong = np.mean([hits[0].probability for hits in index.search_many(strangers)])
    assert right > 0.8 > 0.5 > wrong


def test_vectors_alone_rank_like_exact_scores(index: RecordIndex) -> None:
    exact = [hits[0].guess for hits in index.search_many(DOCUMENTS[:50], k=1)]
    rough = [hits[0].guess for hits in index.search_many(DOCUMENTS[:50], k=1, candidates=0)]
    assert exact == rough


def test_missing_fields_are_neutral() -> None:
    records = RecordIndex(kinds={"name": "text", "city": "text", "age": "number"}, whole=False)
    full, partial, unlike = (
        {"name": "Ada", "city": "Rome", "age": 3},
        {"name": "Ada", "city": "Rome"},
        {"name": "Ada", "city": "Oslo", "age": 3},
    )
    records.add(
        [full, partial, unlike, {"name": "Kurt", "city": "Bern", "age": 90}], ids=["full", "partial", "unlike", "x"]
    )
    scores = {hit.guess: hit.score for hit in records.search({"name": "Ada", "city": "Rome", "age": 3})}
    assert scores["full"] == pytest.approx(1)
    assert scores["full"] > scores["partial"] > 0.85 > scores["unlike"]
    assert "age" not in next(hit for hit in records.search({"name": "Ada", "age": 3}) if hit.guess == "partial").fields


def test_threshold_and_k_limit_hits(index: RecordIndex) -> None:
    assert len(index.search(DOCUMENTS[0], k=3)) == 3
    hits = index.search(DOCUMENTS[0], k=300, threshold=0.9)
    assert hits
    assert all(hit.score >= 0.9 for hit in hits)


def test_must_and_must_not_hold_for_every_hit(index: RecordIndex) -> None:
    example = {"name": "Ada Lovelace"}
    inside = index.search(example, k=20, must={"born": {"city": "London"}})
    assert len(inside) == 20
    assert {hit.document["born"]["city"] for hit in inside} == {"London"}
    outside = index.search(example, k=20, must_not={"born": {"city": "London"}})
    assert all(hit.document.get("born", {}).get("city") != "London" for hit in outside)
    assert any(hit.document.get("born", {}).get("city") == "London" for hit in index.search(example, k=20))


def test_conditions_look_beyond_the_first_candidates(index: RecordIndex) -> None:
    near = {"name": "Grace Hopper", "born": {"city": "Princeton"}}
    hits = index.search({"born": {"city": "London"}}, k=3, near=near, candidates=3)
    assert len(hits) == 3
    for hit in hits:
        fields = index.explain(hit.guess, near).fields
        assert min(fields["name"] or 0, fields["born.city"] or 0) >= 0.5


def test_range_finds_numbers_inside(index: RecordIndex) -> None:
    years = [hit.document["born"]["year"] for hit in index.search({"born": {"year": Range(1850, 1860)}}, k=5)]
    assert all(1850 <= year <= 1860 for year in years)


def test_weights_change_the_order() -> None:
    records = RecordIndex(kinds={"name": "text", "city": "text"}, whole=False)
    records.add([{"name": "Ada", "city": "Oslo"}, {"name": "Kurt", "city": "Rome"}], ids=["name", "city"])
    example = {"name": "Ada", "city": "Rome"}
    assert records.search(example, weights={"city": 0.01})[0].guess == "name"
    assert records.search(example, weights={"name": 0.01})[0].guess == "city"
    with pytest.raises(KeyError, match="no field 'x'"):
        records.search(example, weights={"x": 1})


def test_explain_agrees_with_search(index: RecordIndex) -> None:
    example = {"name": "Ada", "born": {"year": 1900}}
    hit = index.search(example)[0]
    told = index.explain(hit.guess, example)
    assert told.score == pytest.approx(hit.score)
    assert {name: score for name, score in told.fields.items() if score is not None} == pytest.approx(
        hit.fields, abs=1e-4
    )
    assert sum(told.weights.values()) == pytest.approx(1, abs=1e-3)


def test_update_and_remove_take_effect() -> None:
    records = RecordIndex()
    records.add([{"name": "Ada"}, {"name": "Alan"}], ids=["a", "b"])
    records.update([{"name": "Grace"}], ids=["a"])
    assert records.search({"name": "Grace"})[0].guess == "a"
    assert records["a"] == {"name": "Grace"}
    records.remove("b")
    assert records.ids == ["a"]
    assert [hit.guess for hit in records.search({"name": "Alan"})] == ["a"]


def test_new_fields_of_later_documents_are_searched() -> None:
    records = RecordIndex()
    records.add([{"name": "Ada"}, {"name": "Alan"}])
    records.add([{"name": "Kurt", "field": "logic"}])
    assert records.search({"field": "logic"})[0].document["name"] == "Kurt"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.add([{"name": "x"}], ids=["a"]), ValueError, "ids must be new"),
        (lambda r: r.add([{"name": "x"}] * 2, ids=["p", "p"]), ValueError, "ids must be new and all different"),
        (lambda r: r.add([{"name": "x"}], ids=["p", "q"]), ValueError, "one id for each document"),
        (lambda r: r.add({"name": "x"}), TypeError, "needs a list of documents"),
        (lambda r: r.add(torch.tensor(1.0)), TypeError, "needs a list of documents"),
        (lambda r: r.add([{"name": object()}]), TypeError, "must be JSON"),
        (lambda r: r.add([{"name": torch.ones(2, device="meta")}]), TypeError, "must be JSON"),
        (lambda r: r.update([{"name": "x"}], ids=["p"]), KeyError, "no record 'p'"),
        (lambda r: r.remove("p"), KeyError, "no record 'p'"),
        (lambda r: r.search({"other": 1}), ValueError, "has no value in a field"),
        (lambda r: r.search({"name": "x"}, k=0), ValueError, "k must be"),
        (lambda r: r.search({"name": "x"}, must={"name": "x"}, candidates=0), ValueError, "candidates=0"),
        (lambda r: r.duplicates(0.5, rate=0.1), ValueError, "threshold or rate"),
        (lambda r: r.learn_weights([{"name": "x"}], ids=["a", "b"]), ValueError, "one id for each"),
        (lambda r: r.save(), ValueError, "first save needs a folder"),
    ],
)
def test_wrong_arguments_are_named_and_change_nothing(call: Any, error: type[Exception], message: str) -> None:
    records = RecordIndex()
    records.add([{"name": "Ada"}, {"name": "Alan"}], ids=["a", "b"])
    with pytest.raises(error, match=message):
        call(records)
    assert records.ids == ["a", "b"]
    assert [field.name for field in records.fields] == ["name"]


def test_hits_without_anything_in_common_say_so() -> None:
    index = RecordIndex()
    index.add([{"name": "lamp", "price": 20.0}, {"name": "desk", "price": 90.0}])
    best, other = index.search({"name": "lmp"})
    assert (best.note, other.note) == ("", "nothing in common with the example")
    assert "nothing in common" in repr(index.search({"price": "cheap"})[0])


def test_numbers_of_any_size_are_accepted() -> None:
    index = RecordIndex(kinds={"x": "number"})
    index.add([{"x": value} for value in (1.0, 2.0, 3.0, 10**400)])  # the last one is too large for a number
    with np.errstate(over="raise"):
        assert index.search({"x": 1e200})[0].score == 0
    hits = index.search({"x": 10**400})
    assert (hits[0].guess, hits[0].score, hits[1].score) == ("3", 1.0, 0.0)


def test_nan_and_mixed_types_are_accepted() -> None:
    records = RecordIndex()
    records.add([{"x": float("nan"), "name": "Ada"}, {"x": 3, "name": "Alan"}, {"x": "three", "name": "Kurt"}])
    assert records["0"] == {"x": None, "name": "Ada"}
    assert records.search({"x": "three"})[0].guess == "2"


def test_small_table_without_threshold_does_not_group_records_that_are_unlike() -> None:
    index = RecordIndex()
    people = [("Ada Lovelace", "London"), ("Alan Turing", "London"), ("Ada Lovelase", "london"), ("Grace", "Dover")]
    index.add([{"name": name, "city": city} for name, city in people])
    assert [cluster.ids for cluster in index.duplicates()] == [("0", "2")]
    index.remove(["2"])
    assert index.duplicates() == []


def test_duplicates_are_grouped() -> None:
    originals = people(80, seed=5)
    copies = [{**original, "name": original.get("name", "Unknown Person") + "x"} for original in originals[:20]]
    records = RecordIndex()
    records.add(originals + copies)
    expected = {(str(i), str(80 + i)) for i in range(20)}
    for clusters in (records.duplicates(), records.duplicates(rate=0.2), records.duplicates(0.8)):
        pairs = {(first, second) for cluster in clusters for first, second, _ in cluster.pairs}
        assert len(pairs & expected) >= 17
        assert len(pairs - expected) <= 3
    assert records.duplicates(rate=0.0) == []


def labelled_products(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return records and examples: the code identifies a record, and the note is misleading."""
    rng = np.random.default_rng(0)
    notes = [f"note about {word} and {other}" for word in ("red", "blue", "green") for other in ("wood", "steel")]
    records = [{"code": f"{rng.integers(10**6):06d}", "note": notes[rng.integers(6)]} for _ in range(count)]
    examples = [{"code": record["code"][:5] + "x", "note": notes[rng.integers(6)]} for record in records]
    return records, examples


def test_learned_weights_prefer_the_field_that_identifies() -> None:
    documents, examples = labelled_products(150)
    records = RecordIndex(
        ghrr.Space(dim=512, m=2, seed=0),
        kinds={"code": "text", "note": "text"},
        weights={"code": 1.0, "note": 3.0},
        whole=False,
    )
    records.add(documents)

    def accuracy() -> float:
        found = records.search_many(examples[100:], k=1)
        return float(np.mean([hits[0].guess == str(100 + i) for i, hits in enumerate(found)]))

    before = accuracy()
    records.learn_weights(examples[:100], [str(i) for i in range(100)])
    weights = {field.name: field.weight for field in records.fields}
    assert weights["code"] > weights["note"]
    assert accuracy() > before
    assert len(records) == 150


def test_empty_index_finds_nothing() -> None:
    assert RecordIndex().search({"name": "Ada"}) == []


def test_default_ids_are_free_and_are_not_chosen_twice(tmp_path: Path) -> None:
    records = RecordIndex()
    records.add([{"name": "given"}] * 2, ids=["3", "9"])
    records.add([{"name": "default"}] * 4)
    assert records.ids == ["3", "9", "2", "4", "5", "6"]
    records.remove("6")
    records.save(tmp_path)
    opened = RecordIndex.open(tmp_path)
    opened.add([{"name": "later"}] * 4)
    assert opened.ids[5:] == ["7", "8", "10", "11"]

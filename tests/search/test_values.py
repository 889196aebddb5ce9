"""Values: every value of a document that is not missing is found by an example that consists of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghrr.encoding.number_scales import logarithm
from ghrr.search import Contains, Range, RecordIndex
from ghrr.search.encoder import RecordEncoder
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import columns
from ghrr.space import Space
from tests.search.common import people
from tests.search.strange import not_found, strange_index
from tests.search.test_old_folders import save_as_before

NFD, NFC = "Go\u0308del", "G\u00f6del"


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32))
def test_every_strange_value_is_found(seed: int) -> None:
    index, documents = strange_index(seed)
    assert not_found(index, documents, first=8)[1] == []


def test_value_that_is_not_compared_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelField, "parse", lambda self, value: None)  # as if all numbers were text
    monkeypatch.setattr("ghrr.search.bags.as_text", str)  # and were not normalized
    index = RecordIndex(kinds={"x": "number", "y": "text"}, whole=False)
    index.add([{"x": 5.0, "y": NFD}])
    assert not_found(index, [{"x": 5, "y": NFC}], first=0)[1] != []


# ------------------------------------------------------------------------------------------------------------- numbers


def prices(*others: Any) -> RecordIndex:
    index = RecordIndex(whole=False)
    index.add([{"price": round(1.5**n, 2)} for n in range(1, 30)] + [{"price": other} for other in others])
    [field] = index.fields
    assert isinstance(field.encoder, KernelField)
    assert field.encoder.logarithmic
    return index


@pytest.mark.parametrize("number", [0, 0.0, -3.5])
def test_numbers_without_logarithm_are_found_on_a_logarithmic_scale(number: float) -> None:
    index = prices(number)
    best, second = index.search({"price": number}, 2)
    assert best.document == {"price": number}
    assert best.score == 1 > second.score


def test_range_from_zero_contains_zero_on_a_logarithmic_scale() -> None:
    index = prices(0)
    hits = index.search({"price": Range(0, 4)}, 10)
    assert sorted(hit.document["price"] for hit in hits if hit.score == 1) == [0, 1.5, 2.25, 3.38]


def test_logarithmic_scale_ascends_through_zero_and_is_exact_above_the_smallest() -> None:
    numbers = np.array([-1e9, -2.0, -0.5, 0.0, 0.01, 0.5, 1.0, 7.0, 1e9])
    scaled = [logarithm(number, smallest=0.5) for number in numbers]
    assert (np.diff(scaled) > 0).all()
    np.testing.assert_allclose(scaled[5:], np.log(numbers[5:]))


@pytest.mark.parametrize(
    ("kind", "usual", "other"),
    [
        ("number", [70, 80, 90], "A-77"),
        ("number", [70, 80, 90], True),
        ("number", [70, 80, 90], 10**400),
        ("date", ["2024-01-01", "2024-02-01"], "spring of 1912"),
        ("point", [{"lat": 3, "lon": 4}], {"lat": 91, "lon": 4}),
        ("point", [{"lat": 3, "lon": 4}], "Paris"),
        ("embedding", [[1.0, 2.0, 0.0]], [1.0, 2.0]),
        ("embedding", [[1.0, 2.0, 0.0]], [0.0, 0.0, 0.0]),
        ("embedding", [[1.0, 2.0, 0.0]], "none"),
    ],
)
def test_value_of_another_type_is_found_and_differs_from_usual_ones(kind: str, usual: list[Any], other: Any) -> None:
    index = RecordIndex(kinds={"x": kind}, whole=False)
    index.add([{"x": value} for value in usual])
    index.add([{"x": other}, {"x": "something else"}])
    hits = index.search({"x": other}, 9)
    assert hits[0].guess == str(len(usual))
    assert hits[0].score == 1
    assert all(hit.score < 0.3 for hit in hits[1:])
    assert [hit.guess for hit in index.search({"x": usual[0]}, must={"x": other})] == [str(len(usual))]


def test_embeddings_of_any_size_of_numbers_are_compared() -> None:
    rows = [[1e200] * 4 + [0.0] * 4, [1e-200] * 8, [0.0] * 7 + [1e-320]]
    index = RecordIndex(kinds={"x": "embedding"}, whole=False)
    index.add([{"x": row} for row in rows])
    assert [index.search({"x": row}, 1)[0].guess for row in rows] == ["0", "1", "2"]
    assert index.search({"x": rows[0]}, 2)[1].score == pytest.approx(0.5**0.5)


def test_path_of_a_single_document_among_many_has_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.search.encoder._FIT_ROWS", 5)  # statistics are taken from every second document
    index = RecordIndex(whole=False)
    index.add([{"name": f"n{n}"} | ({"rare": "x"} if n == 3 else {}) for n in range(10)])
    assert index.search({"rare": "x"}, 1)[0].guess == "3"


# ------------------------------------------------------------------------------------------------------------- missing


@pytest.mark.parametrize(
    "missing",
    [
        None,
        np.float32("nan"),
        np.float64("inf"),
        np.longdouble("nan"),
        pd.NA,
        pd.NaT,
        np.datetime64("NaT"),
        float("nan"),
        np.ma.masked,
    ],
)
def test_missing_values_at_any_depth_are_stored_as_null_and_have_no_field(missing: Any) -> None:
    index = RecordIndex()
    index.add([{"name": "Ada", "x": missing, "y": [{"z": [missing, 1]}, missing], "w": {"v": missing}}])
    assert index["0"] == {"name": "Ada", "x": None, "y": [{"z": [None, 1]}, None], "w": {"v": None}}
    assert [field.name for field in index.fields] == ["name", "y.z", "*"]


def test_numbers_of_more_than_double_precision_are_stored_in_double_precision() -> None:
    index = RecordIndex()
    index.add([{"x": np.longdouble("1.5"), "y": np.array([2.5], dtype=np.longdouble)}])
    assert index["0"] == {"x": 1.5, "y": [2.5]}
    with pytest.raises(TypeError, match="cannot store complex"):
        index.add([{"x": np.clongdouble(1j)}])


def test_missing_elements_of_arrays_are_stored_as_null() -> None:
    index = RecordIndex()
    index.add(
        [{"x": np.array([1.0, np.nan], dtype=np.float32), "t": np.array(["2024-02-01", "NaT"], "datetime64[ns]")}]
    )
    assert index["0"] == {"x": [1.0, None], "t": ["2024-02-01T00:00:00", None]}
    assert json.dumps(index["0"], allow_nan=False)


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000", "\x01"])
def test_text_without_visible_characters_is_missing(blank: str) -> None:
    assert columns([{"x": blank, "y": [blank, "a"]}]).keys() == {("y",)}
    assert columns([{"x": f"{blank}a"}]).keys() == {("x",)}


# ------------------------------------------------------------------------------------------------------------- Unicode


@pytest.mark.parametrize("kind", ["text", "category", "set", "sequence"])
@pytest.mark.parametrize(("stored", "example"), [(NFD, NFC), (NFC, NFD)])
def test_composed_and_decomposed_text_are_equal(kind: str, stored: str, example: str) -> None:
    index = RecordIndex(kinds={"x": kind}, whole=False)
    index.add([{"x": stored}, {"x": "Godel"}, {"x": "Church"}])
    hits = index.search({"x": example}, must={"x": example.upper()})
    assert [hit.score for hit in hits][:1] == [1.0]
    assert hits[0].guess == "0"
    if kind != "text":
        assert len(hits) == 1  # without its dots it is another value


def test_composed_and_decomposed_keys_are_one_field() -> None:
    index = RecordIndex(kinds={"e\u0301": "category"}, weights={"e\u0301": 2.0}, whole=False)
    index.add([{"e\u0301": "a"}, {"\u00e9": "b"}])
    assert [(field.name, field.kind, field.weight) for field in index.fields] == [("\u00e9", "category", 2.0)]
    assert [hit.guess for hit in index.search({"\u00e9": "a"}, must={"e\u0301": "a"}, weights={"e\u0301": 3})] == ["0"]


def test_values_of_keys_that_become_equal_are_all_found() -> None:
    index = RecordIndex(whole=False)
    index.add([{"e\u0301": "first", "\u00e9": "second"}, {"\u00e9": "third"}])
    assert [index.search({"\u00e9": word}, 1)[0].guess for word in ("first", "second", "third")] == ["0", "0", "1"]


# --------------------------------------------------------------------------------------------------------------- names


def test_different_paths_have_different_names_that_all_settings_accept() -> None:
    document = {"a.b": "one", "a": {"b": "two"}, "a\\.b": "three", "*": "four", "\\*": "five"}
    names = ["a\\.b", "a.b", "a\\\\\\.b", "\\*", "\\\\*", "*"]
    kinds = dict(zip(names, ["text", "category", "set", "text", "category", "text"], strict=True))
    weights = {name: float(number) for number, name in enumerate(names, 1)}
    index = RecordIndex(kinds=kinds, weights=weights)
    index.add([document])
    assert [field.name for field in index.fields] == names
    assert {field.name: field.kind for field in index.fields} == kinds
    assert {field.name: field.weight for field in index.fields} == weights
    explained = index.explain("0", document, weights=dict.fromkeys(names, 2.0))
    assert (list(explained.fields), list(explained.weights)) == (names, names)
    for name in names:
        with pytest.raises(KeyError, match="no field"):
            index.search(document, weights={name + "x": 2.0})
        assert index.search(document, weights={name: 0.0})[0].score == 1


def test_fields_of_similar_names_are_searched_apart() -> None:
    index = RecordIndex(kinds={"a.b": "category", "a\\.b": "category"}, whole=False)
    index.add([{"a.b": "red"}, {"a": {"b": "red"}}])
    examples: list[dict[str, Any]] = [{"a.b": "red"}, {"a": {"b": "red"}}]
    for number, example in enumerate(examples):
        hits = index.search(example, must=example)
        assert [(hit.guess, hit.score) for hit in hits] == [(str(number), 1.0)]


def test_star_in_an_example_is_the_text_of_all_fields() -> None:
    index = RecordIndex()
    index.add([{"name": "red lamp", "brand": "Arc"}, {"name": "blue chair", "brand": "Bow"}])
    best = index.search({"*": "Bow blue chair"}, 1)[0]
    assert (best.guess, best.score) == ("1", 1.0)
    assert index.search({"*": "Bow blue chair"}, 1, candidates=0)[0].guess == "1"
    assert len(index.search({"*": "blue"}, near={"*": "blue chair Bow"})) == 1
    assert [hit.guess for hit in index.search({"*": "blue"}, must={"*": "bow"})] == ["1"]
    assert [hit.guess for hit in index.search({"*": "lamp"}, must_not={"*": Contains("chair")})] == ["0"]


def test_document_with_the_key_star_has_a_field_of_its_own() -> None:
    index = RecordIndex()
    index.add([{"*": "red lamp", "name": "Ada"}, {"*": "blue chair", "name": "Alan"}])
    assert [field.name for field in index.fields] == ["\\*", "name", "*"]
    hit = index.search({"*": "blue chair"}, 1, must={"*": "blue chair"})[0]
    assert (hit.guess, hit.fields["\\*"]) == ("1", 1.0)
    assert index.search({"name": "Ada"}, 1)[0].fields["name"] == 1


def test_earlier_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.search.kernel_fields.SHARP_KINDS", ())
    index = RecordIndex()
    index.add([{"name": f"red {n}", "shade": f"dark {n}", "price": 2.0**n} for n in range(9)])
    before = index.search({"name": "red 3", "price": 8.0})
    save_as_before(index, tmp_path / "old")
    make_earlier(tmp_path / "old" / "fields.safetensors")
    monkeypatch.undo()
    opened = RecordIndex.open(tmp_path / "old")
    assert [field.name for field in opened.fields] == ["name", "shade", "price", "*"]
    assert [(hit.guess, hit.score) for hit in opened.search({"name": "red 3", "price": 8.0})] == [
        (hit.guess, hit.score) for hit in before
    ]


def make_earlier(path: Path) -> None:
    """Rewrite a file of fields as version 2 had it."""
    from ghrr.files import read_tensors, write_tensors
    from ghrr.search.saving import FORMAT, VERSION

    header, tensors = read_tensors(path, kind=FORMAT, version=VERSION)
    del header["weights"]
    header["fields"] = [{**field, "path": field["path"] or ["*"]} for field in header["fields"]]
    tensors = {name: tensor[:3] if name.endswith("kernel") else tensor for name, tensor in tensors.items()}
    write_tensors(path, header, tensors, kind=FORMAT, version=2)


def test_names_of_people_keep_their_kinds() -> None:
    encoder = RecordEncoder(Space(dim=64, m=1, seed=0))
    encoder.fit([*people(50), {"joined": "unknown", "location": "nowhere", "born": {"year": "A-77"}}])
    kinds = {field.name: field.kind for field in encoder.fields}
    assert (kinds["joined"], kinds["born.year"]) == ("date", "number")

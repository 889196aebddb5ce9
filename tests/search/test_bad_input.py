"""Bad input: documents that are not what an index expects raise a clear error, or are understood; nothing is lost."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr.encoding.column_kinds import infer_kind
from ghrr.search import RecordIndex
from ghrr.search.bags import BagField

VALUES: list[Any] = [
    1,
    -2.5,
    "3",
    "text",
    "2024-05-06",
    "",
    None,
    True,
    math.nan,
    math.inf,
    10**400,
    "\ud800",
    "x\0y",
    [],
    {},
    [1, "a", None],
    [[1], [2, 3]],
    [{"a": 1}, "b"],
    {"deeper": 5},
    {"lat": 3, "lon": 200},
    {"lat": "3", "lon": None},
    [0.5] * 8,
    "word " * 10_000,
]


def mixed_documents(count: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [{key: rng.choice(VALUES) for key in "abc"} | {"name": f"record {number}"} for number in range(count)]


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_mixed_types_are_indexed(seed: int) -> None:
    documents = mixed_documents(40, seed)
    records = RecordIndex()
    records.add(documents[:20])
    records.add(documents[20:])  # the kinds of the fields are known by now
    for number, hits in enumerate(records.search_many(documents, k=1)):
        assert hits[0].score == pytest.approx(1, abs=1e-6)
        assert hits[0].document["name"] == documents[number]["name"]
    assert records.duplicates(threshold=0.999) == []


def test_missing_values_of_pandas_and_numpy_are_missing() -> None:
    table = pd.DataFrame(
        {
            "age": pd.array([36, None, 41], dtype="Int64"),
            "born": pd.to_datetime(pd.Series(["1815-12-10", None, "1912-06-23"])),
            "score": [1.5, np.nan, np.inf],
            "name": ["Ada", "Grace", "Alan"],
        }
    )
    records = RecordIndex()
    rows: Any = table.to_dict("records")
    records.add(rows)
    assert records["1"] == {"age": None, "born": None, "score": None, "name": "Grace"}
    assert records["2"]["score"] is None
    assert {field.name: field.kind for field in records.fields} == {
        "age": "number",
        "born": "date",
        "score": "number",
        "name": "text",
    }


def test_embeddings_may_be_arrays() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 16))
    records = RecordIndex()
    records.add([{"embedding": row, "rank": np.int64(number)} for number, row in enumerate(rows)])
    assert records.fields[0].kind == "embedding"
    assert [hit.guess for hit in records.search({"embedding": rows[7]}, 1)] == ["7"]
    assert records["7"]["embedding"] == rows[7].tolist()


def contains_itself() -> dict[str, Any]:
    document: dict[str, Any] = {"a": [1]}
    document["a"].append(document)
    return document


def nested(depth: int) -> dict[str, Any]:
    document: dict[str, Any] = {"a": 1}
    for _ in range(depth):
        document = {"a": document}
    return document


@pytest.mark.parametrize(
    ("document", "error", "message"),
    [
        (contains_itself(), ValueError, "document 1 is nested too deeply, or contains itself"),
        (nested(150), ValueError, "is nested deeper than 100 levels"),
        (nested(100_000), ValueError, "is nested too deeply"),
        ({"a": {str(i): {str(j): 1 for j in range(400)} for i in range(260)}}, ValueError, "more than 100,000 values"),
        ({"a": [0] * 100_001}, ValueError, "more than 100,000 values"),
        ({"a": b"bytes"}, TypeError, "document 1 must be JSON: cannot store bytes"),
        ({"a": {1, 2}}, TypeError, "document 1 must be JSON: cannot store set"),
        ({1: "a"}, TypeError, "a key must be a string"),
        ("a", TypeError, "must be an object with fields"),
    ],
)
def test_unusable_documents_are_refused_and_nothing_changes(document: Any, error: type, message: str) -> None:
    records = RecordIndex()
    records.add([{"name": "Ada", "age": 36}])
    before = (records.ids, [(field.name, field.weight) for field in records.fields])
    with pytest.raises(error, match=message):
        records.add([{"name": "Alan", "city": "London"}, document])
    assert (records.ids, [(field.name, field.weight) for field in records.fields]) == before
    assert records.search({"name": "ada"})[0].document == {"name": "Ada", "age": 36}
    records.add([{"name": "Alan"}])
    assert records.ids == ["0", "1"]


def test_giant_texts_are_stored_whole() -> None:
    text = "giant " * 300_000
    records = RecordIndex()
    records.add([{"text": text}, {"text": "small"}])
    assert records["0"] == {"text": text}
    assert records.search({"text": "giant"}, 1)[0].guess == "0"
    assert json.loads(json.dumps(records["1"])) == {"text": "small"}


def test_index_without_content_finds_nothing() -> None:
    records = RecordIndex()
    records.add([])
    assert (records.fields, records.search_many([], 1), records.duplicates()) == ([], [], [])
    records.add([{"a": None, "b": ""}, {}])  # nothing but missing values
    assert (len(records), records.fields) == (2, [])
    with pytest.raises(ValueError, match=r"has no value in a field of this index, got dict .*; the fields are none"):
        records.search({"a": 1})


@pytest.mark.parametrize(
    ("documents", "kinds"),
    [
        ([{"a": 1, "b": "x"}], ["number", "text"]),  # one row
        ([{"a": f"value {n}"} for n in range(30)], ["text"]),  # one column
        ([{"a": 1, "b": "x"}] * 5, ["number", "category"]),  # constants
        ([{"a": n, "b": None if n else "x"} for n in range(0, 90, 7)], ["number", "text"]),  # mostly missing
        ([{"a": value} for value in (1, "two", 3.5, "2020-01-01", "four")], ["text"]),  # mixed types
        ([{"a": f"value {n}"} for n in range(2_000)], ["text"]),  # many different values
    ],
)
def test_table_without_much_content_is_indexed(documents: list[dict[str, Any]], kinds: list[str]) -> None:
    records = RecordIndex()
    records.add(documents)
    assert [field.kind for field in records.fields if field.name != "*"] == kinds
    assert records.search(documents[-1])[0].score == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_million_different_categories_fit_a_field() -> None:
    values = [f"value {n}" for n in range(1_000_000)]
    assert infer_kind("a", values).kind == "text"
    field = BagField("category")
    field.fit(values)
    prepared = field.prepare([values[0], values[-1], values[0]])
    assert field.pair_scores(prepared, np.array([0, 0]), prepared, np.array([1, 2])).round().tolist() == [0, 1]


def test_doubtful_kind_is_named_warned_about_once_and_saved(tmp_path: Path) -> None:
    records = RecordIndex()
    rng = random.Random(0)
    documents = [{"number": rng.randrange(10**6, 10**7), "name": f"person {n}"} for n in range(60)]
    with pytest.warns(UserWarning, match=r"add: the kinds of some fields are unsure: 'number' as text \(numbers that"):
        records.add(documents[:30])
    records.add(documents[30:])  # no second warning, which would be an error here
    doubts = {field.name: field.doubt for field in records.fields if field.doubt}
    assert doubts == {"number": "numbers that look like identifiers"}
    records.save(tmp_path / "index")
    opened = RecordIndex.open(tmp_path / "index")
    assert {field.name: field.doubt for field in opened.fields if field.doubt} == doubts
    RecordIndex(kinds={"number": "text"}).add(documents)  # the kind is given: nothing to doubt

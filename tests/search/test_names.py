"""Names of fields in settings, and the names of operations in errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr.search import RecordIndex
from tests.cli.common import invoke

DOCUMENTS = [{"name": "Ada", "age": 36}, {"name": "Alan", "age": 41}]


@pytest.mark.parametrize("given", [{"weights": {"nmae": 2.0}}, {"kinds": {"nmae": "text"}}])
def test_first_add_warns_of_names_that_no_document_has(given: dict[str, Any]) -> None:
    index = RecordIndex(**given)
    with pytest.warns(UserWarning, match=r"RecordIndex.add: no document has the field 'nmae'.*did you mean 'name'\?"):
        index.add(DOCUMENTS)
    index.add([{"name": "Grace"}])  # warns once: warnings are errors here


def test_names_that_documents_have_do_not_warn() -> None:
    index = RecordIndex(weights={"name": 2.0, "age": 1.0}, kinds={"name": "text", "age": "number"})
    index.add(DOCUMENTS)
    assert [(field.name, field.weight) for field in index.fields] == [("name", 2.0), ("age", 1.0)]


def test_warning_that_is_an_error_adds_nothing() -> None:
    index = RecordIndex(weights={"nmae": 2.0})
    with pytest.raises(UserWarning, match="nmae"):
        index.add(DOCUMENTS)
    assert (index.ids, index.fields) == ([], [])


@pytest.mark.filterwarnings("ignore:RecordIndex.add. no document has")
def test_given_weight_of_a_field_that_appears_after_reopening_is_used(tmp_path: Path) -> None:
    index = RecordIndex(weights={"later": 7.5}, kinds={"later": "category"})
    index.add(DOCUMENTS)
    index.save(tmp_path)
    opened = RecordIndex.open(tmp_path)
    opened.add([{"later": "a", "other": "b"}])
    fields = {field.name: field for field in opened.fields}
    assert (fields["later"].weight, fields["later"].kind) == (7.5, "category")
    assert fields["other"].weight != 7.5


def test_command_warns_of_a_kind_for_a_field_that_does_not_exist(tmp_path: Path) -> None:
    source = tmp_path / "people.jsonl"
    source.write_text('{"name": "Ada"}\n{"name": "Alan"}\n')
    result = invoke("index", str(source), "-o", str(tmp_path / "a"), "--kind", "nmae=text")
    assert "did you mean 'name'?" in " ".join(result.stderr.split())
    assert "Warning" not in invoke("index", str(source), "-o", str(tmp_path / "b"), "--kind", "name=text").stderr


def small_index() -> RecordIndex:
    index = RecordIndex(ghrr.Space(dim=8, m=1, seed=0))
    index.add(DOCUMENTS, ids=["a", "b"])
    return index


EXAMPLE = {"name": "Ada"}
WRONG: list[tuple[str, Any]] = [
    ("RecordIndex", lambda index: RecordIndex(5)),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(kinds="text")),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(kinds={"name": "txt"})),
    ("RecordIndex", lambda index: RecordIndex(weights=[1.0])),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(weights={"name": math.inf})),
    ("RecordIndex", lambda index: RecordIndex(weights={"name": -1})),
    ("RecordIndex", lambda index: RecordIndex(whole="yes")),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(approximate=torch.zeros(2))),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(storage="int4")),
    ("RecordIndex", lambda index: RecordIndex(storage=np.zeros(3))),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: RecordIndex(backend=None)),  # type: ignore[arg-type]
    ("RecordIndex", lambda index: index["c"]),
    ("RecordIndex", lambda index: index[[]]),
    ("RecordIndex.add", lambda index: index.add([5])),
    ("RecordIndex.add", lambda index: index.add([{1: "x"}])),
    ("RecordIndex.add", lambda index: index.add([EXAMPLE], ids=[5])),
    ("RecordIndex.add", lambda index: index.add([EXAMPLE], ids=["a"])),
    ("RecordIndex.update", lambda index: index.update([5], ids=["a"])),
    ("RecordIndex.update", lambda index: index.update([EXAMPLE], ids=["c"])),
    ("RecordIndex.update", lambda index: index.update([EXAMPLE] * 2, ids=["a", "a"])),
    ("RecordIndex.remove", lambda index: index.remove(["a", "a"])),
    ("RecordIndex.remove", lambda index: index.remove(["c"])),
    ("RecordIndex.remove", lambda index: index.remove(5)),
    ("RecordIndex.explain", lambda index: index.explain("c", EXAMPLE)),
    ("RecordIndex.explain", lambda index: index.explain([], EXAMPLE)),
    ("RecordIndex.explain", lambda index: index.explain("a", 5)),
    ("RecordIndex.explain", lambda index: index.explain("a", EXAMPLE, weights={"nmae": 1})),
    ("RecordIndex.duplicates", lambda index: index.duplicates(math.nan)),
    ("RecordIndex.duplicates", lambda index: index.duplicates(rate=-1)),
    ("RecordIndex.duplicates", lambda index: index.duplicates(neighbours=0)),
    ("RecordIndex.similar_pairs", lambda index: index.similar_pairs(-1)),
    ("RecordIndex.similar_pairs", lambda index: index.similar_pairs("x")),
    ("RecordIndex.learn_weights", lambda index: index.learn_weights([5], ["a"])),
    ("RecordIndex.learn_weights", lambda index: index.learn_weights([EXAMPLE], ["c"])),
    ("RecordIndex.save", lambda index: index.save(5)),
    ("RecordIndex.open", lambda index: RecordIndex.open(5)),  # type: ignore[arg-type]
    ("RecordIndex.open", lambda index: RecordIndex.open("\ud800")),
]
SETTINGS: list[dict[str, Any]] = [
    *({"k": 0}, {"k": "x"}, {"threshold": math.nan}, {"candidates": -1}, {"weights": {"nmae": 1}}),
    *({"must": 5}, {"must": np.zeros(3)}, {"must_not": []}, {"must": {"nmae": 1}}, {"must": {1: 2}}),
    *({"near": 5}, {"near": {"nmae": 1}}),
    *({"weights": {"name": math.inf}}, {"weights": 5}),
    *({"confidence": confidence} for confidence in (math.nan, -1, 0.5, 1, 2, "high", None)),
]
WRONG += [
    (
        f"RecordIndex.{name}",
        lambda index, name=name, example=example, given=given: getattr(index, name)(example, **given),
    )
    for name, example in (("search", EXAMPLE), ("search_many", [EXAMPLE]))
    for given in SETTINGS
]
WRONG += [
    ("RecordIndex.search", lambda index: index.search(5)),
    ("RecordIndex.search", lambda index: index.search({"x": 1})),
]
WRONG += [("RecordIndex.search_many", lambda index: index.search_many([EXAMPLE, 5]))]


@pytest.mark.parametrize(("operation", "call"), WRONG)
def test_error_names_the_operation_that_was_called(operation: str, call: Any) -> None:
    index = small_index()
    with pytest.raises((TypeError, ValueError, KeyError)) as raised:
        call(index)
    assert str(raised.value.args[0]).startswith((f"{operation}: ", f"{operation}("))
    assert index.ids == ["a", "b"]

"""Kinds of fields: inference, similarity, and vectors whose dot product is the similarity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ghrr
from ghrr.search.bags import BagField
from ghrr.search.encoder import RecordEncoder
from ghrr.search.fields import infer_kind
from ghrr.search.kernel_fields import KernelField
from ghrr.search.paths import Column, columns
from ghrr.search.values import Range
from tests.search.common import people

SPACE = ghrr.Space(dim=2000, m=2, seed=0)


def test_kinds_are_inferred_from_values() -> None:
    encoder = RecordEncoder(SPACE)
    encoder.fit(people(200))
    assert {field.name: field.kind for field in encoder.fields} == {
        "name": "text",
        "born.year": "number",
        "born.city": "category",
        "joined": "date",
        "location": "point",
        "tags": "set",
        "active": "boolean",
        "*": "text",
    }


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5, 3], "number"),
        (["12.5", "7", "8.25"], "number"),
        (["01234", "99"], "text"),  # leading zeros
        ([5304218, 4066625, 4365168], "text"),  # identifiers
        ([1999, 2003, 1987], "number"),
        (["a", 1, True], "text"),  # several types
        ([[0.1] * 16, [0.2] * 16], "embedding"),
        ([["a", "b"], "c"], "set"),
        (["2024-01-31", "2023-12-01T10:00"], "date"),
    ],
)
def test_kind_of_values(values: list[Any], kind: str) -> None:
    assert infer_kind(("x",), Column(list(range(len(values))), values)).kind == kind


def test_other_kind_can_be_given() -> None:
    encoder = RecordEncoder(SPACE, kinds={"born.city": "text", "active": "ignore"})
    encoder.fit(people(200))
    kinds = {field.name: field.kind for field in encoder.fields}
    assert (kinds["born.city"], kinds["active"]) == ("text", "ignore")
    with pytest.raises(ValueError, match="kind of field 'x'"):
        RecordEncoder(SPACE, kinds={"x": "txt"})


CASES = [
    ("text", ["Sony PS-LX350H camera", "sony pslx350h", "Bose lamp", "camera by Sony"]),
    ("category", ["red", "Red ", "blue"]),
    ("set", [["a", "b"], ["b", "c"], ["a", "b", "c"]]),
    ("sequence", [["a", "b", "c"], ["c", "b", "a"], ["a", "b"]]),
    ("number", [1.0, 1.5, 2.0, 8.0, 9.0]),
    ("date", ["2024-01-01", "2024-01-09", "2024-03-01"]),
    ("point", [(51.5, 0.0), (51.0, 1.0), (40.7, -74.0)]),
    ("embedding", [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]),
]


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize(("kind", "values"), CASES)
def test_dot_product_of_vectors_is_similarity_of_values(kind: str, values: list[Any], m: int) -> None:
    space = ghrr.Space(dim=8000 // m**2, m=m, seed=0)
    field = BagField(kind) if kind in ("text", "category", "set", "sequence") else KernelField(kind)
    field.fit(values)
    prepared: Any = field.prepare(values)
    vectors = field.encode(space, prepared) if isinstance(field, BagField) else field.encode(space, prepared, "x")
    first, second = (grid.ravel() for grid in np.indices((len(values), len(values))))
    exact = field.pair_scores(prepared, first, prepared, second).reshape(len(values), -1)
    found = ghrr.pairwise_similarity(vectors, vectors).numpy()
    # The error of one product of unit vectors is at most about 1/sqrt(2 D m); kernels use m frequencies per slot.
    assert np.abs(found - exact).max() < 5 / np.sqrt(2 * space.dim * m)
    np.testing.assert_allclose(np.diag(exact), 1.0, atol=1e-6)


def test_sequences_in_other_order_differ_and_sets_do_not() -> None:
    forward, backward = ["a", "b", "c"], ["c", "b", "a"]
    for kind, alike in (("set", True), ("sequence", False)):
        field = BagField(kind)
        field.fit([forward, backward])
        a, b = field.prepare([forward]), field.prepare([backward])
        score = field.pair_scores(a, np.array([0]), b, np.array([0]))[0]
        assert (score > 0.99) == alike


def test_range_agrees_inside_and_decays_outside() -> None:
    field = KernelField("number")
    field.fit(list(np.linspace(0, 100, 50)))
    a, b = field.prepare([Range(20, 40)] * 4), field.prepare([20, 30, 41, 90])
    inside, middle, near, far = field.pair_scores(a, np.arange(4), b, np.arange(4))
    assert inside == middle == 1
    assert 1 > near > far


def test_points_are_compared_by_great_circle() -> None:
    field = KernelField("point")
    field.fit([(0, lon) for lon in range(-180, 180, 10)])
    a, b = field.prepare([(0, 179.5)] * 2), field.prepare([(0, -179.5), (0, 170.0)])
    across, same_side = field.pair_scores(a, np.arange(2), b, np.arange(2))
    assert across > same_side  # one degree across the date line, nine and a half degrees on this side


def test_rare_trigrams_count_more() -> None:
    field = BagField("text")
    field.fit(["camera black"] * 50 + ["xq700"])
    a, b = field.prepare(["camera xq700"] * 2), field.prepare(["xq700 lens", "camera lens"])
    rare, common = field.pair_scores(a, np.arange(2), b, np.arange(2))
    assert rare > 2 * common


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_similarity_of_texts_is_symmetric_and_bounded(texts: list[str]) -> None:
    field = BagField("text")
    field.fit(texts)
    prepared = field.prepare(texts)
    first, second = (grid.ravel() for grid in np.indices((len(texts), len(texts))))
    scores = field.pair_scores(prepared, first, prepared, second).reshape(len(texts), -1)
    np.testing.assert_allclose(scores, scores.T, atol=1e-12)
    assert scores.min() >= 0
    assert scores.max() <= 1


def test_swapped_keys_of_paths_differ_for_m_above_1_only() -> None:
    documents = [{"a": {"b": "x"}}, {"b": {"a": "x"}}]
    for m, confused in ((1, True), (2, False)):
        encoder = RecordEncoder(ghrr.Space(dim=4000 // m**2, m=m, seed=0), kinds={"a.b": "category", "b.a": "category"})
        encoder.fit(documents)
        vectors = encoder.encode(documents)
        assert (float(ghrr.similarity(vectors[0], vectors[1])) > 0.9) == confused


def test_lists_of_objects_share_the_paths_of_their_keys() -> None:
    found = columns([{"items": [{"sku": "a", "n": 1}, {"sku": "b"}]}])
    assert {path: column.values for path, column in found.items()} == {
        ("items", "sku"): [["a", "b"]],
        ("items", "n"): [[1]],
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("text", "document 0 must be an object"),
        ({1: "x"}, "a key must be a string"),
        ({"x": list(range(200_000))}, "more than 100,000 values"),
        ({"x": {str(number): number for number in range(200_000)}}, "more than 100,000 values"),
    ],
)
def test_unusable_documents_are_named(document: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        columns([document])


def test_cyclic_document_raises() -> None:
    document: dict[str, Any] = {}
    document["self"] = document
    with pytest.raises(ValueError, match="contains itself"):
        columns([document])

"""Changing records: update, delete and merge, and the errors they raise."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ghrr import Space
from ghrr.structures import MISSING, Record, Scale
from tests.helpers import wrong
from tests.structures.common import SPACE, close, found, overloaded

ADA: dict[str, Any] = {"name": "Ada", "born": {"year": 1815, "city": "London"}, "tags": ["poet"], "notes": {}}


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        (["name"], "Augusta", {**ADA, "name": "Augusta"}),
        (["name"], "Ada", ADA),
        (["born", "city"], None, {**ADA, "born": {"year": 1815, "city": None}}),
        (["born", "country"], "England", {**ADA, "born": {"year": 1815, "city": "London", "country": "England"}}),
        (["tags", 1], "countess", {**ADA, "tags": ["poet", "countess"]}),
        (["born"], "long ago", {**ADA, "born": "long ago"}),
        (["born"], {}, {**ADA, "born": {}}),
        (
            ["name"],
            {"first": "Ada", "last": ["King", "Lovelace"]},
            {**ADA, "name": {"first": "Ada", "last": ["King", "Lovelace"]}},
        ),
        (["name", "first"], "Ada", {**ADA, "name": {"first": "Ada"}}),
        (["notes", "on"], "engine", {**ADA, "notes": {"on": "engine"}}),
        (["died"], 1852, {**ADA, "died": 1852}),
        ([], "nothing", "nothing"),
    ],
)
def test_update_equals_encoding_the_new_document(path: list[str | int], value: Any, want: Any) -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    changed = codec.update(h, path, value)
    assert close(changed, codec.encode(want))
    assert codec.decode(changed).value == want
    assert close(h, codec.encode(ADA))  # the record given is as it was


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (["name"], {"born": ADA["born"], "tags": ["poet"], "notes": {}}),
        (["born", "year"], {**ADA, "born": {"city": "London"}}),
        (["born"], {"name": "Ada", "tags": ["poet"], "notes": {}}),
        (["tags", 0], {"name": "Ada", "born": ADA["born"], "notes": {}}),
    ],
)
def test_delete_equals_encoding_without(path: list[str | int], want: Any) -> None:
    codec = Record(SPACE)
    smaller = codec.delete(codec.encode(ADA), path)
    assert close(smaller, codec.encode(want))
    assert found(codec.query(smaller, path)).unknown


def test_deleting_everything_leaves_nothing() -> None:
    codec = Record(SPACE)
    nothing = codec.delete(codec.encode(ADA), [])
    assert close(nothing, SPACE.zeros())
    assert codec.decode(nothing).value is MISSING


def test_deleting_an_absent_path_raises() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    with pytest.raises(KeyError, match=re.escape("Record.delete: the record has no value at born.country")):
        codec.delete(h, ["born", "country"])
    with pytest.raises(KeyError, match=re.escape("no value at tags[4]")):
        codec.delete(h, ["tags", 4])


@overloaded
def test_given_old_value_is_not_read() -> None:
    crowded = Space.from_total(60, 2, seed=3)
    codec = Record(crowded)
    document = {f"k{n}": f"v{n}" for n in range(40)}
    codec.encode_many([dict.fromkeys(document, value) for value in document.values()])
    h = codec.encode(document)
    matches = codec.query_many(h, [[key] for key in document])
    assert any(match.unknown for match in matches)  # hopeless in this small space: some even look like nothing
    for key in document:
        with pytest.raises(ValueError, match=r"cannot be read with certainty, .* give it as old="):
            codec.update(h, [key], "new")
        with pytest.raises(ValueError, match=r"cannot be read with certainty, .* give it as old="):
            codec.delete(h, [key])
    assert close(codec.update(h, ["k3"], "new", old="v3"), codec.encode({**document, "k3": "new"}))
    del document["k3"]
    assert close(codec.delete(h, ["k3"], old="v3"), codec.encode(document))


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": 1}, {"a": 1}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3, "z": 4}}, {"a": {"x": 1, "y": 3, "z": 4}}),
        ({"a": 1}, {"a": {"x": 2}}, {"a": {"x": 2}}),
        ({"a": {"x": 2}, "c": 0}, {"a": 1}, {"a": 1, "c": 0}),
        ({}, {"a": 1}, {"a": 1}),
        ({"l": ["p", "q"]}, {"l": ["r"]}, {"l": ["r", "q"]}),
    ],
)
def test_merge_takes_leaves_of_the_second_record_where_both_have_one(first: Any, second: Any, want: Any) -> None:
    codec = Record(SPACE)
    a, b = codec.encode_many([first, second])
    merged = codec.merge(a, b)
    assert close(merged, codec.encode(want))
    if first.keys() & second.keys() and first != second:  # negative control: a plain sum keeps the replaced values
        assert not close(a + b, codec.encode(want))


@overloaded
def test_merge_needs_certainty() -> None:
    codec = Record(Space.from_total(60, 2, seed=3))
    crowded = codec.encode({f"k{n}": f"v{n}" for n in range(40)})
    with pytest.raises(ValueError, match=re.escape("Record.merge: the value at")):
        codec.merge(crowded, codec.encode({"k1": "x"}))


@overloaded
def test_merge_is_right_or_refused_when_many_paths_are_known() -> None:
    """Most of the thousands of paths are empty; a missed value would remain beside the new one."""
    known = [f"k{n}" for n in range(2000)]
    roomy, crowded = Record(SPACE), Record(Space.from_total(60, 2, seed=3))
    first, second = dict.fromkeys(known[:40], "x"), dict.fromkeys(known[20:50], "y")
    for codec in (roomy, crowded):
        codec.encode_many([{key: "x", "other": "y"} for key in known])
    a, b = roomy.encode_many([first, second])
    assert close(roomy.merge(a, b), roomy.encode(first | second))
    a, b = crowded.encode_many([first, second])
    with pytest.raises(ValueError, match=r"Record.merge: the value at .* cannot be read .* use a larger"):
        crowded.merge(a, b)


def test_update_nearly_removes_numbers_on_a_scale() -> None:
    codec = Record(SPACE, numbers=Scale(0, 100, bandwidth=2))
    h = codec.encode({"age": 35, "name": "Ada"})
    changed = codec.update(h, ["age"], 36)
    assert found(codec.query(changed, "age")).label == pytest.approx(36, abs=0.2)
    exact = codec.update(h, ["age"], 36, old=35)
    assert close(exact, codec.encode({"age": 36, "name": "Ada"}))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["update", "delete"]),
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3),
        st.sampled_from(["x", "y", 1, None]),
    ),
    max_size=8,
)


def change(document: Any, step: str, path: list[str], value: Any) -> Any:
    """Make the same change in a plain dict: remove values above the path, and dicts that become empty."""
    rest = dict(document) if isinstance(document, dict) else {}
    key, *below = path
    if step == "update":
        rest[key] = change(rest.get(key), step, below, value) if below else value
    elif below and isinstance(rest.get(key), dict):
        rest[key] = change(rest[key], step, below, value)
        if not rest[key]:
            del rest[key]
    elif not below:
        rest.pop(key, None)
    return rest


def lookup(document: Any, path: list[str]) -> Any:
    for key in path:
        document = document.get(key, MISSING) if isinstance(document, dict) else MISSING
    return document


@given(STEPS)
def test_changes_agree_with_those_of_a_dict(steps: list[tuple[str, list[str], Any]]) -> None:
    codec = Record(SPACE)
    document: Any = {"a": "x"}
    h = codec.encode(document)
    for step, path, value in steps:
        if step == "update":
            h = codec.update(h, path, value)
        elif lookup(document, path) is MISSING:
            with pytest.raises(KeyError):
                codec.delete(h, path)
            continue
        else:
            h = codec.delete(h, path)
        document = change(document, step, path, value)
    assert close(h, codec.encode(document) if document else SPACE.zeros())


def test_changes_of_many_records_at_once_are_refused() -> None:
    codec = Record(SPACE)
    rows = codec.encode_many([ADA, ADA])
    for change in (
        lambda: codec.update(rows, ["name"], "x"),
        lambda: codec.delete(rows, ["name"]),
        lambda: codec.merge(rows, rows),
        lambda: codec.decode(rows),
        lambda: codec.query(rows, "name"),
    ):
        with pytest.raises(ValueError, match=re.escape("needs one hypervector, (dim, m, m), not a batch; got")):
            change()


def test_bad_paths_are_refused() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    with pytest.raises(TypeError, match=re.escape("Record.update: path must be a key or a list of keys")):
        codec.update(h, wrong({"name"}), "x")
    for part in (-1, True, 1.5, None):
        with pytest.raises(TypeError, match=r"Record\.query: (path must be a key|a key of a path must be)"):
            codec.query(h, wrong(part))
    with pytest.raises(ValueError, match="path has 101 keys"):
        codec.query(h, ["a"] * 101)
    with pytest.raises(ValueError, match=r"slot .* of x is not finite"):
        codec.query(h * torch.nan, "name")

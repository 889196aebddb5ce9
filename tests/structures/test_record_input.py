"""Input that a record refuses to encode or load, with errors that name the path."""

from __future__ import annotations

import copy
import enum
import math
import re
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from ghrr import Space
from ghrr.encoding import FractionalPower
from ghrr.structures import Record, Scale, parse_json
from tests.structures.common import SPACE, close, found, wrong

GOOD = {"name": "Ada", "tags": ["poet"]}
VERSION_0_1: dict[str, Any] = {
    "format": "ghrr-record",
    "version": 1,
    "numbers": {"low": 0, "high": 100, "bandwidth": 2},
    "level": 0.95,
    "paths": [["name"], ["born", "city"], ["born", "age"], ["tags", 0]],
    "values": ["string:Ada", "string:London", "string:poet"],
}


class Colour(str, enum.Enum):  # noqa: UP042 (formatted, it shows its name)
    RED = "red"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1, 2}, "set {1, 2}"),
        (b"bytes", "bytes b'bytes'"),
        (1j, "complex 1j"),
        (object, "type <class 'object'>"),
        (np.int64(3), "int64 np.int64(3)"),
    ],
)
def test_unsupported_types_are_named_with_their_path(value: Any, shown: str) -> None:
    codec = Record(SPACE)
    message = f"Record.encode: people[1].age: cannot encode {shown}, expected dicts"
    with pytest.raises(TypeError, match=re.escape(message)):
        codec.encode({"people": [{"age": 3}, {"age": value}]})
    with pytest.raises(TypeError, match=re.escape("Record.encode: $: ")):
        codec.encode(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_nan_and_infinity_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match=re.escape("Record.encode: a.b[1]: ")):
        Record(SPACE).encode({"a": {"b": [1, value]}})


def test_numbers_that_are_too_large_are_refused() -> None:
    Record(SPACE).encode(10**1000)
    with pytest.raises(ValueError, match="at most 4096 bits, got one of 33220"):
        Record(SPACE).encode({"n": 10**10000})


@pytest.mark.parametrize("key", [1, None, 2.5, True, ("a", "b")])
def test_keys_must_be_strings(key: Any) -> None:
    with pytest.raises(
        TypeError,
        match=re.escape(f"Record.encode: a: a key must be a string as in JSON, got {type(key).__name__} {key!r}"),
    ):
        Record(SPACE).encode({"a": {"fine": 1, key: 2}})


def test_cyclic_data_is_refused() -> None:
    loop: dict[str, Any] = {"a": [1, 2]}
    loop["a"].append(loop)
    with pytest.raises(
        ValueError, match=re.escape("Record.encode: a[2]: the data is cyclic, this object is also at $")
    ):
        Record(SPACE).encode(loop)
    inner: list[Any] = []
    inner.append(inner)
    with pytest.raises(
        ValueError, match=re.escape("Record.encode_many: x[0]: the data is cyclic, this object is also at x")
    ):
        Record(SPACE).encode_many([GOOD, {"x": inner}])


def test_data_that_is_too_deep_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = {"k": deep}
    codec = Record(SPACE)
    codec.encode(deep)
    codec.encode({"k": parse_json("[" * 100 + "]" * 100)})  # the innermost is empty: a leaf
    with pytest.raises(ValueError, match=re.escape("nested deeper than 100 levels")):
        codec.encode({"one more": deep})
    twice = {"k": GOOD, "l": GOOD}  # the same object in two places is no cycle
    assert codec.decode(codec.encode(twice)).value == twice


def test_subclasses_are_encoded_as_their_base() -> None:
    codec = Record(SPACE)
    plain = codec.encode({"a": ["x", 1.5], "c": "red"})
    assert close(codec.encode(OrderedDict(a=("x", np.float64(1.5)), c=Colour.RED)), plain)


def test_failed_encode_changes_nothing() -> None:
    codec = Record(SPACE)
    codec.encode(GOOD)
    before = copy.deepcopy(codec.state())
    for bad in ({"new": "value", "bad": {1}}, {"new": "value", "bad": math.nan}, [[[{2: 3}]]]):
        with pytest.raises((TypeError, ValueError)):
            codec.encode_many([{"another": "one"}, bad])
    assert codec.state() == before


def test_reading_without_a_vocabulary_raises() -> None:
    h = Record(SPACE).encode(GOOD)
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        Record(SPACE).query(h, "a")
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        Record(SPACE).decode(h)
    assert Record(SPACE).decode(SPACE.zeros()).matches == {}


def test_lists_of_documents() -> None:
    for bad in ("text", {"a": 1}):
        with pytest.raises(TypeError, match=re.escape("Record.encode_many: needs a list of documents, got")):
            Record(SPACE).encode_many(wrong(bad))
    assert Record(SPACE).encode_many(iter([GOOD])).shape == (1, *SPACE.shape)
    with pytest.raises(ValueError, match="needs one record or a list of them"):
        Record(SPACE).query_many(SPACE.zeros(2, 2), [["a"]])


def test_bad_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="numbers must be a Scale"):
        Record(SPACE, numbers=wrong((0, 1)))
    with pytest.raises(ValueError, match="confidence must lie in"):
        Record(SPACE, confidence=0.2)
    with pytest.raises(ValueError, match="Scale: high must lie in"):
        Scale(3, 3, bandwidth=1)
    with pytest.raises(ValueError, match="Scale: bandwidth must lie in"):
        Scale(0, 3, bandwidth=0)
    for low, high, bandwidth in ((0, 1e9, 1), (0, 1, 1e-300)):
        with pytest.raises(
            ValueError, match="points to try when reading, expected at most 262144; give a bandwidth of"
        ):
            Scale(low, high, bandwidth)
    with pytest.raises(
        ValueError, match=re.escape("Record.encode: a[1]: 101 is outside of Scale(low=0, high=100, bandwidth=1)")
    ):
        Record(SPACE, numbers=Scale(0, 100, bandwidth=1)).encode({"a": [5, 101]})


@pytest.mark.parametrize(
    ("low", "high", "bandwidth", "message"),
    [
        (-1e308, 1e308, 1e305, "the length of the range must be finite"),
        (1e15, 1e15 + 1000, 1, "0.125 apart in double precision"),
        (0, 1e-35, 1e-36, "bandwidth must lie in"),
        (0, 1e35, 1e34, "bandwidth must lie in"),
    ],
)
def test_scales_that_cannot_be_resolved_are_refused(low: float, high: float, bandwidth: float, message: str) -> None:
    with pytest.raises(ValueError, match=f"Scale: .*{message}"):
        Scale(low, high, bandwidth)


def test_the_longest_scale_can_be_read() -> None:
    codec = Record(Space(5, 2, seed=1), numbers=Scale(0, (1 << 18) - 1, bandwidth=2))
    assert found(codec.query(codec.encode({"n": 123456.0}), "n")).label == pytest.approx(123456, abs=1)


# --------------------------------------------------------------------------------------------------------- JSON text


def test_parse_json_is_strict() -> None:
    assert parse_json('{"a": [1, null, {"b": "ü"}]}') == {"a": [1, None, {"b": "ü"}]}
    assert parse_json(b"[1.5]") == [1.5]
    with pytest.raises(ValueError, match="the key 'a' more than once"):
        parse_json('[{"a": 1, "b": {"a": 2}, "a": 3}]')
    for word in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(ValueError, match=f"{word} is not a JSON number"):
            parse_json(f"[{word}]")
    with pytest.raises(ValueError, match=r"not valid JSON \(Expecting"):
        parse_json('{"a": ')
    with pytest.raises(ValueError, match="not valid JSON"):
        parse_json(b"\xff\xfe\xfa")
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000 + "]" * 100_000)


# ------------------------------------------------------------------------------------------------------------- states


def broken_states() -> list[tuple[str, Any]]:
    codec = Record(SPACE, numbers={"age": Scale(0, 10, bandwidth=1)})
    codec.encode(GOOD)
    state = codec.state()

    def settings(**changed: Any) -> Any:
        return {**state, "settings": {**state["settings"], **changed}}

    def values(names: Any) -> Any:
        return {**state, "vocabulary": {"values": {"names": names, "given": []}}}

    return [
        ("no dict", [1, 2]),
        ("nothing", {}),
        ("another structure", {**state, "structure": "Graph"}),
        ("another format", {**VERSION_0_1, "format": "other"}),
        ("another version", {**VERSION_0_1, "version": 2}),
        ("no values", {**state, "vocabulary": {}}),
        ("paths of another kind", {**state, "seen": [[["a", 1.5], [0]]]}),
        ("negative indices", {**state, "seen": [[["a", -1], [0]]]}),
        ("a huge list", {**state, "seen": [[["a", 10**12], [0]]]}),
        ("a path that is a string", {**state, "seen": [["name", [0]]]}),
        ("an element inside of a path", {**state, "seen": [[["a", None, "b"], [0]]]}),
        ("values that are not in the vocabulary", {**state, "seen": [[["a"], [99]]]}),
        ("no values at a path", {**state, "seen": [[["a"], []]]}),
        ("values without a kind", values(["Ada"])),
        ("values that are no names", values([3])),
        ("a number that is none", values(["number:1e"])),
        ("a confidence out of range", settings(confidence=7)),
        ("a scale of other words", settings(numbers=[[None, {"from": 1}]])),
        ("a scale that is none", settings(numbers=[[None, [1, 2]]])),
        ("a pattern that is none", settings(numbers=[[[1.5], {"low": 0, "high": 1, "bandwidth": 1}]])),
        ("another kind of lists", settings(lists=[[None, "bags"]])),
    ]


@pytest.mark.parametrize(("what", "state"), broken_states(), ids=lambda part: part if isinstance(part, str) else "")
def test_damaged_states_are_refused(what: str, state: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("Record.from_state: not the state of a Record of this version")):
        Record.from_state(SPACE, state)


@pytest.mark.parametrize("m", [1, 3])
def test_a_state_of_version_0_1_reads_its_records(m: int) -> None:
    space = Space.from_total(2700, m, seed=1, dtype=torch.complex128)
    key = dict(zip("nbcat0", space.vectors([f"key:{n}" for n in ("name", "born", "city", "age", "tags")] + ["place:0"],
                                           namespace="record key"), strict=True))  # fmt: skip
    ada, london, poet = space.vectors(VERSION_0_1["values"], namespace="record value")
    age = FractionalPower(space, 1, bandwidth=2, name="record number")([36.5])
    h = key["n"] @ ada + key["b"] @ (key["c"] @ london + key["a"] @ age) + key["t"] @ key["0"] @ poet

    codec = Record.from_state(space, VERSION_0_1)

    assert codec.confidence == 0.95
    reading = codec.decode(h)
    assert reading.value == {
        "name": "Ada",
        "born": {"city": "London", "age": pytest.approx(36.5, abs=0.2)},
        "tags": ["poet"],
    }
    codec.encode({"name": "Grace"})
    assert found(codec.query(h, "name")).label == "Ada"  # which values were at a path is not known: all count
    assert Record.from_state(space, codec.state()).decode(h).value == reading.value


def test_dots_separate_the_keys_of_a_known_path() -> None:
    record = Record(Space(dim=600, m=3))
    h = record.encode({"born": {"city": "London", "year": 1815}, "tags": ["poet", "countess"], "a.b": "dotted"})
    paths = ["born.city", "tags.1", "a.b", "born.year", ["born", "city"]]
    assert [match.label for match in record.query_many(h, paths)] == ["London", "countess", "dotted", 1815, "London"]
    assert record.query_many(h, ["born.town"])[0].unknown
    assert "born" in record.decode(record.update(h, "born.city", "Rome")).value
    assert record.decode(record.update(h, "born.city", "Rome")).value["born"]["city"] == "Rome"
    assert "city" not in record.decode(record.delete(h, "born.city")).value["born"]


def test_a_key_with_dots_comes_before_a_path_and_two_paths_are_ambiguous() -> None:
    record = Record(Space(dim=600, m=3))
    h = record.encode({"a.b": 1, "a": {"b": 2, "b.c": 3}, "a.b.c": 4})
    assert [match.label for match in record.query_many(h, ["a.b", "a.b.c"])] == [1, 4]
    other = Record(Space(dim=600, m=3))
    h = other.encode({"a": {"b.c": 3, "b": {"c": 4}}})
    with pytest.raises(ValueError, match=r"'a\.b\.c' is ambiguous; use \['a', 'b\.c'\] or \['a', 'b', 'c'\]"):
        other.query(h, "a.b.c")


def test_a_new_key_may_contain_dots() -> None:
    record = Record(Space(dim=600, m=3))
    h = record.encode({"a": {"b": 1}})
    assert record.decode(record.update(h, "x.y", 2)).value == {"a": {"b": 1}, "x.y": 2}

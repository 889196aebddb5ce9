"""Records: encode, query by path and decode; swapped paths and the wrong side miss."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import ghrr
from ghrr import Space
from ghrr.structures import MISSING, Reading, Record, Scale
from ghrr.structures.reading import nest
from ghrr.structures.record.paths import PathSettings
from ghrr.structures.record.values import ValueTable
from tests.structures.common import COMMUTING, SPACE, close, found, noise, overloaded

ADA = {
    "name": "Ada",
    "born": {"year": 1815, "city": "London"},
    "tags": ["poet", "countess"],
    "alive": False,
    "spouse": None,
    "notes": {},
    "papers": [],
}

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
DOCUMENTS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def leaves(value: Any) -> int:
    if isinstance(value, (dict, list)) and value:
        return sum(map(leaves, value.values() if isinstance(value, dict) else value))
    return 1


def identical(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same type: True is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(identical(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(identical, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def person(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    return {
        "name": f"name {rng.randrange(50)}",
        "born": {"year": 1800 + rng.randrange(50), "city": f"city {rng.randrange(9)}"},
        "tags": [f"tag {rng.randrange(9)}" for _ in range(1 + seed % 3)],
    }


def test_query_returns_every_value() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    assert h.shape == SPACE.shape
    paths: list[tuple[list[str | int], Any]] = [
        (["name"], "Ada"),
        (["born", "year"], 1815),
        (["born", "city"], "London"),
        (["tags", 0], "poet"),
        (["tags", 1], "countess"),
        (["alive"], False),
        (["spouse"], None),
        (["notes"], {}),
        (["papers"], []),
    ]
    for path, value in paths:
        match = found(codec.query(h, path))
        assert match.confident
        assert identical(match.label, value)
        assert abs(match.score - 1) < 5 * noise(9)
        assert match.noise == pytest.approx(noise(9), rel=0.1)


def test_encode_equals_the_sum_of_bound_values() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    h = Record(space).encode({"a": {"b": "x"}, "c": ["y"]})
    a, b, c, first = space.vectors(["key:a", "key:b", "key:c", "place:0"], namespace="record key")
    x, y = space.vectors(["string:x", "string:y"], namespace="record value")
    torch.testing.assert_close(h, a @ b @ x + c @ first @ y)


def test_absent_values_are_unknown_and_null_is_a_value() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    assert found(codec.query(h, "died")).unknown
    assert found(codec.query(h, ["born", "country"])).unknown
    assert found(codec.query(h, ["tags", 2])).unknown
    null = found(codec.query(h, "spouse"))
    assert null.label is None
    assert null.confident
    assert not null.unknown


def test_swapped_path_is_unknown() -> None:
    codec = Record(SPACE)
    h = codec.encode({"a": {"b": "right"}, "c": "other"})
    assert found(codec.query(h, ["a", "b"])).label == "right"
    swapped = found(codec.query(h, ["b", "a"]))
    assert swapped.unknown
    assert swapped.score < 1 / 9 + 5 * noise(2)  # mean commutativity of Haar rotations


@pytest.mark.parametrize("space", [SPACE, COMMUTING], ids=["m = 3", "m = 1"])
def test_both_orders_of_a_path_are_distinguished(space: Space) -> None:
    document = {"a": {"b": "one"}, "b": {"a": "two"}}
    codec = Record(space)
    h = codec.encode(document)
    assert codec.decode(h).value == document
    only = Record(space)
    assert found(only.query(only.encode({"a": {"b": "right"}, "c": "other"}), ["b", "a"])).unknown


def test_without_shifts_m_1_cannot_distinguish_orders_and_is_not_confident() -> None:
    codec = Record(COMMUTING, permute=False)
    h = codec.encode({"a": {"b": "one"}, "b": {"a": "two"}})
    assert not any(match.confident for match in codec.query_many(h, [["a", "b"], ["b", "a"]]))
    absent = Record(COMMUTING, permute=False)
    assert not found(absent.query(absent.encode({"a": {"b": "one"}, "c": "two"}), ["b", "a"])).confident


def test_a_shifted_record_is_the_sum_of_its_shifted_leaves() -> None:
    space = Space(20, 1, dtype=torch.complex128)
    h = Record(space).encode({"a": {"b": "x"}, "c": ["y"], "d": "z"})
    a, b, c, d, first = space.vectors(["key:a", "key:b", "key:c", "key:d", "place:0"], namespace="record key")
    x, y, z = space.vectors(["string:x", "string:y", "string:z"], namespace="record value")

    def shifted(v: torch.Tensor, steps: int) -> torch.Tensor:
        return v.roll(steps, dims=0)

    deep = a * shifted(b, 1) * shifted(x, 2) + c * shifted(first, 1) * shifted(y, 2)
    torch.testing.assert_close(h, deep + d * shifted(z, 1))


@pytest.mark.parametrize("permute", [False, True])
@pytest.mark.parametrize("m", [1, 2])
def test_a_part_of_a_record_is_a_record(m: int, permute: bool) -> None:
    codec = Record(Space.from_total(2700, m, seed=1), permute=permute)
    h = codec.encode({"born": {"at": {"city": "London", "year": 1815}}, "name": "Ada"})
    codec.encode({"at": {"city": "London", "year": 1815}})
    part = codec.query(h, "born")
    assert isinstance(part, Reading)
    assert found(codec.query(part.vector, ["at", "city"])).label == "London"
    assert codec.decode(part.vector).value == {"at": {"city": "London", "year": 1815}}


def test_shifts_are_encoded_in_batches_as_one_by_one() -> None:
    documents: list[Any] = [person(n) for n in range(20)] + [3, [], {"deep": [[[{"x": 1}]]]}]
    one, many = Record(COMMUTING), Record(COMMUTING)
    assert close(many.encode_many(documents), torch.stack([one.encode(document) for document in documents]))


def test_paths_longer_than_the_space_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a path of 4 keys does not fit in a space of 3 slots.*permute=False"):
        Record(Space(3, 1)).encode({"a": {"b": {"c": {"d": 1}}}})


def test_unbinding_on_the_wrong_side_misses() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    [key] = codec.paths.vectors([("name",)])
    vectors = codec.values.encode(["string:Ada"])
    assert ghrr.similarity(ghrr.unbind(h, key, side="left"), vectors) > 1 - 5 * noise(9)
    assert ghrr.similarity(ghrr.unbind(h, key, side="right"), vectors) < 1 / 9 + 5 * noise(9)


def test_values_of_different_types_are_distinguished() -> None:
    codec = Record(SPACE)
    values = [True, 1, "1", "true", None, "null", False, 0, "", "0", {}, [], "object", -1, 1.5, "1.5", 10**30]
    h = codec.encode(values)
    assert identical(codec.decode(h).value, values)
    assert len(codec.values) == len(values)
    assert codec.encode([1.0, -0.0, 2**60]).equal(codec.encode([1, 0, float(2**60)]))  # one number, as in JSON
    assert not close(codec.encode({"0": "x"}), codec.encode(["x"]))  # the key "0" is not the place 0


@given(DOCUMENTS)
def test_decode_returns_any_document(document: Any) -> None:
    codec = Record(Space(800, 2, seed=1))
    h = codec.encode(document)
    assert identical(codec.decode(h, like=document).value, document)
    reading = codec.decode(h)
    assert identical(reading.value, document)
    assert len(reading.matches) == leaves(document)
    assert reading.confident
    assert reading.unexplained < 1e-6


def test_decode_keeps_a_score_for_every_leaf() -> None:
    codec = Record(SPACE)
    reading = codec.decode(codec.encode(ADA), like=ADA)
    assert reading.value == ADA
    assert set(reading.scores) == set(reading.matches)
    assert len(reading.matches) == 9
    assert all(abs(score - 1) < 5 * noise(9) for score in reading.scores.values())
    assert repr(reading).endswith("confident=9/9, unexplained=0.0)")


def test_nest_builds_data_from_values() -> None:
    assert nest({("a", "b"): 1, ("a", "c"): 2, ("d", 1): 3}) == {"a": {"b": 1, "c": 2}, "d": [MISSING, 3]}
    assert nest({(): 5}) == 5
    assert nest({}) is MISSING
    assert nest({(): 5, ("a",): 6, ("a", "b"): 7}) == {"a": {"b": 7}}  # the deeper value is kept
    assert nest({(0,): 1, ("a",): 2}) == {0: 1, "a": 2}


def test_decode_reports_unexplained_values() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    asked = codec.decode(h, like={"name": "?", "died": 0, "tags": ["?", "?", "?"]})
    assert asked.value == {"name": "Ada", "died": MISSING, "tags": ["poet", "countess", MISSING]}
    assert repr(MISSING) == "MISSING"
    assert not MISSING
    assert asked.unexplained == pytest.approx(6, rel=0.1)  # the leaves that were not queried
    stranger = Record(SPACE)
    stranger.encode({"other": "thing"})
    nothing = stranger.decode(h)
    assert nothing.value is MISSING
    assert nothing.matches == {}
    assert nothing.unexplained == pytest.approx(9, rel=0.1)


@pytest.mark.slow
def test_decode_tries_new_combinations_of_known_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = Record(SPACE), Record(SPACE)
    reader.encode_many([{"a": {"b": "x"}}, {"c": "y"}, {"d": [1, 2]}])
    moved = {"c": {"b": "y"}, "b": "x", "a": {"d": 2}, "d": [1]}
    reading = reader.decode(writer.encode(moved))
    assert reading.value == moved
    assert reading.confident
    assert reading.unexplained < 1e-6
    h = writer.encode({"a": {"b": {"c": {"d": "x"}}}, "c": "y"})  # 6 known steps make 1296 paths of length 4
    assert reader.decode(h).value == {"c": "y", "a": {"b": {"c": {"d": "x"}}}}
    monkeypatch.setattr("ghrr.structures.record.decode._MAX_UNSEEN_PATHS", 500)
    shallow = reader.decode(h)
    assert shallow.value == {"c": "y"}
    assert shallow.unexplained == pytest.approx(1, abs=1e-3)


def test_query_returns_the_part_under_a_path() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    part = codec.query(h, "born")
    assert isinstance(part, Reading)
    assert part.value == {"year": 1815, "city": "London"}
    assert part.confident
    assert found(codec.query(part.vector, "city")).label == "London"  # the part is a record again
    everything = codec.query(h, [])
    assert isinstance(everything, Reading)
    assert everything.value == ADA
    assert found(codec.query(codec.encode({"name": "Ada"}), "born")).unknown  # known below, but not in this record


def test_decode_finds_more_with_peeling() -> None:
    """At twice the load at which single answers are certain, decoding still finds nearly all values with few errors."""
    space = Space.from_total(900, 3, seed=2)
    codec = Record(space)
    words = [f"word {n}" for n in range(500)]
    rng = random.Random(0)
    codec.encode_many([{f"key {n}": word for n in range(48)} for word in words])
    documents = [{f"key {n}": rng.choice(words) for n in range(48)} for _ in range(20)]
    rows = codec.encode_many(documents)
    paths = [[f"key {n}"] for n in range(48)]
    alone = sum(match.confident for row in codec.query_many(rows, paths) for match in row)
    together = [codec.decode(h, like=document) for h, document in zip(rows, documents, strict=True)]
    sure = [
        (m, document[str(p[0])]) for r, document in zip(together, documents, strict=True) for p, m in r.matches.items()
    ]
    confident = [match.label == value for match, value in sure if match.confident]
    assert alone < 0.75 * 20 * 48
    assert len(confident) > 0.97 * 20 * 48
    assert sum(confident) >= 0.98 * len(confident)


@overloaded
@pytest.mark.slow
def test_confident_leaves_are_right_near_capacity() -> None:
    """Calibration for several sizes and m, with nested records; half of the queried paths are missing."""
    right = sure = total = 0
    for m, seed in itertools.product((1, 2, 3), (0, 10)):
        for size in (100, 400):
            space = Space.from_total(size, m, seed=m + seed)
            codec = Record(space)
            count = round(1.2 * space.capacity(candidates=300))
            rng = random.Random(m)
            documents = [
                {"a": {f"k{n}": f"w{rng.randrange(300)}" for n in range(count)}} for _ in range(max(4, 300 // count))
            ]
            codec.encode_many([{"a": {f"k{n}": f"w{word}" for n in range(count)}} for word in range(300)])
            rows = codec.encode_many(documents)
            paths = [["a", f"k{n}"] for n in range(2 * count)]
            for document, row in zip(documents, codec.query_many(rows, paths), strict=True):
                for path, match in zip(paths, row, strict=True):
                    total += 1
                    sure += match.confident
                    right += match.confident and match.label == document["a"].get(path[1])
    assert total > 6000
    assert 0.1 * total < sure < 0.4 * total
    assert right >= 0.98 * sure


@pytest.mark.parametrize(
    "settings",
    [{"rotation": "shared"}, {"rotation": "fixed"}, {"diagonality": 0.5}, {"phases": 2}],
    ids=lambda settings: next(iter(settings)) + " " + str(next(iter(settings.values()))),
)
def test_every_kind_of_space_is_calibrated(settings: dict[str, Any]) -> None:
    space = Space.from_total(300, 3, seed=2, **settings)
    codec = Record(space)
    count = space.capacity(candidates=300) // 2
    codec.encode_many([{"a": {f"k{n}": f"w{word}" for n in range(count)}} for word in range(300)])
    rng = random.Random(4)
    documents = [{"a": {f"k{n}": f"w{rng.randrange(300)}" for n in range(count)}} for _ in range(60)]
    paths = [["a", f"k{n}"] for n in range(2 * count)]
    table = codec.query_many(codec.encode_many(documents), paths)
    answers = [
        (m, d["a"].get(p[1])) for d, row in zip(documents, table, strict=True) for m, p in zip(row, paths, strict=True)
    ]
    confident = [match.label == value for match, value in answers if match.confident]
    assert sum(confident) >= 0.98 * len(confident)
    assert len(confident) > 0.8 * count * 60
    assert sum(match.unknown for match, value in answers if value is None) >= 0.98 * count * 60


@pytest.mark.slow
def test_decode_finds_few_of_many_known_paths() -> None:
    """Decoding tries 1000 paths, 10 of which have a value: it finds all 10, and almost no others."""
    space = Space.from_total(400, 2, seed=3)
    codec = Record(space)
    rng = random.Random(5)
    keys = [f"key {n}" for n in range(1000)]
    codec.encode_many([{key: f"word {rng.randrange(100)}"} for key in keys])
    documents = [{key: f"word {rng.randrange(100)}" for key in rng.sample(keys, 10)} for _ in range(20)]
    readings = [codec.decode(h) for h in codec.encode_many(documents)]
    found = [
        (reading.value[key], document.get(key))
        for reading, document in zip(readings, documents, strict=True)
        for key in reading.value
    ]
    assert len(found) >= 0.98 * 200
    assert sum(read == written for read, written in found) >= 0.98 * len(found)


def test_batches_equal_single_records() -> None:
    others: list[Any] = [ADA, {}, [], "text", 3, None, {"deep": [[[{"x": 1}]]]}]
    documents = [*(person(n) for n in range(40)), *others]
    one, many = Record(SPACE), Record(SPACE)
    rows = many.encode_many(documents)
    assert rows.shape == (47, *SPACE.shape)
    assert close(rows, torch.stack([one.encode(document) for document in documents]))
    for h, document in zip(rows, documents, strict=True):
        assert identical(many.decode(h, like=document).value, document)
    assert Record(SPACE).encode_many([]).shape == (0, *SPACE.shape)


def test_batches_are_cut_into_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = [person(n) for n in range(30)]
    whole = Record(SPACE).encode_many(documents)
    monkeypatch.setattr("ghrr.structures.inputs._CHUNK_NUMBERS", 7 * SPACE.total_dim)
    monkeypatch.setattr("ghrr.structures.vocabulary._CHUNK_SCORES", 20)
    codec = Record(SPACE)
    assert close(codec.encode_many(documents), whole)
    answers = codec.query_many(whole, [["name"], ["born", "city"]])
    assert [[m.label for m in row] for row in answers] == [[d["name"], d["born"]["city"]] for d in documents]


def test_numbers_on_a_scale_are_encoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale(0, 100, bandwidth=2)
    documents: list[Any] = [[n, f"word {n % 3}", {"half": n / 2, "none": None}] for n in range(10)]
    documents += ["no number", 7, [], [[3, 4.5]]]
    whole = Record(SPACE, numbers=scale).encode_many(documents)
    monkeypatch.setattr("ghrr.structures.record.values._CHUNK_NUMBERS", 4 * SPACE.total_dim)
    codec = Record(SPACE, numbers=scale)
    assert close(codec.encode_many(documents), whole)
    assert close(torch.stack([codec.encode(document) for document in documents]), whole)
    table = ValueTable(SPACE, PathSettings("numbers", scale, lambda value: value, None), device=torch.device("cpu"))
    tables = list(table.tables([(scale, float(n)) for n in range(9)]))
    assert [len(vectors) for _, vectors in tables[1:]] == [4, 4, 1]  # after the vocabulary
    both = table.tables(["null", (scale, 3.0), "array"])
    assert [(rows >= 0).tolist() for rows, _ in both] == [[True, False, True], [False, True, False]]


def test_query_many_reads_records_and_paths() -> None:
    codec = Record(SPACE)
    documents = [person(n) for n in range(10)]
    rows = codec.encode_many(documents)
    table = codec.query_many(rows, [["name"], ["born", "year"]])
    assert [[match.label for match in row] for row in table] == [[d["name"], d["born"]["year"]] for d in documents]
    assert [match.label for match in codec.query_many(rows[0], [["name"]])] == [documents[0]["name"]]
    assert codec.query_many(rows[:0], [["name"]]) == []
    assert codec.query_many(rows[:2], []) == [[], []]
    assert codec.query_many(rows[0], []) == []


def test_reading_adds_nothing_to_the_vocabulary() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    before = codec.state()
    codec.query(h, ["something", 7])
    codec.decode(h, like={"else": "new value"})
    assert codec.state() == before


def test_the_order_of_keys_and_encoding_does_not_matter() -> None:
    first, second = Record(SPACE), Record(SPACE)
    second.encode({"z": "unrelated", "tags": [["deep"]]})
    assert close(first.encode(ADA), second.encode(dict(reversed(ADA.items()))))
    assert not close(first.encode({"l": ["x", "y"]}), first.encode({"l": ["y", "x"]}))  # but lists are ordered


def test_hypervectors_are_read_in_their_own_space_only() -> None:
    codec = Record(SPACE)
    h = codec.encode(ADA)
    assert found(codec.query(SPACE.wrap(h), "name")).label == "Ada"
    other = Space(300, 3, seed=2)
    with pytest.raises(ValueError, match=re.escape("Record.query: a hypervector of Space")):
        codec.query(other.wrap(h), "name")
    with pytest.raises(ValueError, match="does not fit Space"):
        codec.query(Space(300, 2).zeros(), "name")


# ----------------------------------------------------------------------------------------------- numbers on a scale


def test_numbers_on_a_scale_are_decoded_with_their_error() -> None:
    codec = Record(SPACE, numbers=Scale(0, 200, bandwidth=2.0))
    rng = random.Random(1)
    documents = [{"size": rng.uniform(1, 199), "name": f"n{n}", "more": {"age": rng.randrange(100)}} for n in range(60)]
    rows = codec.encode_many(documents)
    off = []
    for document, (size, name) in zip(documents, codec.query_many(rows, [["size"], ["name"]]), strict=True):
        assert size.confident
        assert name.label == document["name"]
        assert name.error is None
        assert size.error is not None
        off.append((size.label - document["size"]) / size.error)
    z = torch.tensor(off)
    assert z.abs().max() < 5
    assert 0.5 < z.std() < 2  # for 60 values: the predicted error has the right order of magnitude
    assert not codec.values.names[0].startswith("number")


def test_near_numbers_make_similar_records() -> None:
    codec = Record(SPACE, numbers=Scale(0, 100, bandwidth=5))
    rows = codec.encode_many([{"age": age} for age in (30, 31, 60)])
    assert ghrr.similarity(rows[0], rows[1]) > 0.9
    assert ghrr.similarity(rows[0], rows[2]) < 5 * noise(1)
    atoms = Record(SPACE).encode_many([{"age": 30}, {"age": 31}])
    assert ghrr.similarity(atoms[0], atoms[1]) < 5 * noise(1)  # negative control: atoms know no distance


def test_missing_numbers_and_other_types_on_a_scale() -> None:
    codec = Record(SPACE, numbers=Scale(0, 100, bandwidth=1))
    h = codec.encode({"n": 5})  # no atom is known at all
    assert found(codec.query(h, "n")).label == pytest.approx(5, abs=0.1)
    assert found(codec.query(h, "other")).unknown
    mixed = codec.encode({"n": 5, "yes": True, "text": "5", "one": 1})
    assert found(codec.query(mixed, "yes")).label is True
    assert found(codec.query(mixed, "text")).label == "5"
    reading = codec.decode(mixed)
    assert reading.value == {"n": pytest.approx(5, abs=0.2), "yes": True, "text": "5", "one": pytest.approx(1, abs=0.2)}


# ------------------------------------------------------------------------------------------------------------- state


def test_record_is_restored_from_its_state() -> None:
    for numbers in (None, Scale(0, 3000, bandwidth=2)):
        codec = Record(SPACE, numbers=numbers, confidence=0.95)
        h = codec.encode(ADA)
        text = json.dumps(codec.state())
        later = Record.from_state(SPACE, json.loads(text))
        assert json.dumps(later.state()) == text
        assert later.confidence == 0.95
        assert later.decode(h).value["born"]["city"] == "London"
        assert later.encode(ADA).equal(h)


def test_query_many_returns_what_query_returns() -> None:
    codec = Record(SPACE, lists={"tags": "set"})
    rows = codec.encode_many([{"name": "Ada", "tags": ["x", "y"], "born": {"city": "Rome"}}, {"name": "Alan"}])
    paths: list[Any] = ["name", "tags", ["born"], ["born", "city"], "nowhere"]
    table = codec.query_many(rows, paths)
    for h, answers in zip(rows, table, strict=True):
        for path, answer in zip(paths, answers, strict=True):
            alone = codec.query(h, path)
            assert type(alone) is type(answer)
            assert getattr(alone, "value", getattr(alone, "label", None)) == getattr(
                answer, "value", getattr(answer, "label", None)
            )
    assert sorted(table[0][1].value) == ["x", "y"]
    assert table[0][2].value == {"city": "Rome"}
    assert table[1][1].unknown

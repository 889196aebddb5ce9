"""Records: candidates of a path, scales of numbers, lists as sets, given hypervectors, files and threads."""

from __future__ import annotations

import math
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import ItemMemory, Space
from ghrr.structures import MISSING, Reading, Record, Scale
from ghrr.structures.record.values import SeenValues
from tests.helpers import STANDARD_ERRORS
from tests.structures.common import COMMUTING, SPACE, close, count_calls, found, wrong

# ------------------------------------------------------------------------------------------------------- candidates


def people(count: int) -> list[dict[str, Any]]:
    rng = random.Random(0)
    return [
        {"name": f"name {n}", "born": {"city": f"city {rng.randrange(9)}"}, "sex": "fm"[n % 2]} for n in range(count)
    ]


def test_the_candidates_of_a_path_are_the_values_seen_there(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, documents = Record(SPACE), people(50)
    rows = codec.encode_many(documents)
    sizes = count_calls(monkeypatch, "ghrr.structures.vocabulary.pairwise_similarity")
    matches = [match for [match] in codec.query_many(rows, [["born", "city"]])]
    assert sizes == [9]  # one comparison with the cities, not with the names
    assert [match.label for match in matches] == [document["born"]["city"] for document in documents]
    assert {match.candidates for match in matches} == {9}
    assert found(codec.query(rows[0], "sex")).candidates == 2
    assert found(codec.query(rows[0], ["born", "country"])).candidates == len(codec.values) == 61  # never seen: all


def test_paths_of_few_candidates_are_compared_together_and_equal_to_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    codec, rng = Record(SPACE), random.Random(3)
    codec.encode_many([{f"k{n}": f"v{rng.randrange(40)}" for n in range(30)} for _ in range(8)])
    h = codec.encode({f"k{n}": f"v{rng.randrange(40)}" for n in range(30)})
    paths = [[f"k{n}"] for n in range(30)]
    sizes = count_calls(monkeypatch, "ghrr.structures.vocabulary.pairwise_similarity")
    together = codec.query_many(h, paths)
    assert len(sizes) == 1
    for path, match in zip(paths, together, strict=True):
        alone = found(codec.query_many(h, [path])[0])
        assert (match.guess, match.candidates, match.runner_up) == (alone.guess, alone.candidates, alone.runner_up)
        assert match.score == pytest.approx(alone.score, abs=1e-5)


def test_a_value_that_was_moved_to_a_path_is_a_candidate_there() -> None:
    codec = Record(SPACE)
    h = codec.encode({"name": "Ada", "born": "London"})
    moved = codec.update(h, ["name"], "London")
    assert found(codec.query(moved, "name")).label == "London"
    stranger = Record(SPACE).encode({"name": "Charles", "born": "London"})
    assert found(codec.query(stranger, "name")).unknown  # negative control: never seen there


def test_candidates_are_kept_in_a_state() -> None:
    codec = Record(SPACE, numbers={"age": Scale(0, 100, 5)})
    rows = codec.encode_many([{**one, "age": 30} for one in people(20)])
    later = Record.from_state(SPACE, codec.state())
    [name, age, city] = later.query_many(rows[3], [["name"], ["age"], ["born", "city"]])
    assert (name.candidates, age.candidates, city.candidates) == (20, 41, 9)
    assert later.state() == codec.state()


def test_adding_candidates_one_by_one_does_not_sort_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, sorted_in, union = SeenValues(), list[int](), np.union1d

    def counted(a: Any, b: Any) -> Any:
        sorted_in.append(len(a) + len(b))
        return union(a, b)

    monkeypatch.setattr(np, "union1d", counted)
    for n in range(20_000):
        seen.add([(0, [n * 7919 % 20_000])])
    assert seen.at(0).tolist() == list(range(20_000))  # type: ignore[union-attr]
    assert sum(sorted_in) < 20_000 * 2 * math.log2(20_000)


# ---------------------------------------------------------------------------------------------------------- numbers


def test_each_path_has_its_scale() -> None:
    day = Scale(1.7e9, 1.7e9 + 86400, 60)
    codec = Record(SPACE, numbers={"age": Scale(0, 120, 5), ("seen", "at"): day, ("scores", None): Scale(0, 1, 0.1)})
    document = {"age": 36, "seen": {"at": 1.7e9 + 4321}, "scores": [0.25, 0.75], "id": 7, "born": {"age": 3}}
    h = codec.encode(document)
    assert "number:7" in codec.values
    assert "number:3" in codec.values  # only the age at the top is on a scale
    assert len(codec.values) == 2
    reading = codec.decode(h)
    matches = {path: (match.label, match.error) for path, match in reading.matches.items()}
    for path, value in {("age",): 36, ("seen", "at"): 1.7e9 + 4321, ("scores", 0): 0.25, ("scores", 1): 0.75}.items():
        label, error = matches[path]
        assert error is not None
        assert abs(label - value) < 5 * max(error, 1e-6)
    assert matches["id",] == (7, None)
    assert found(codec.query(h, "age")).candidates == Scale(0, 120, 5).points


def test_scales_of_different_paths_have_different_ranges() -> None:
    codec = Record(SPACE, numbers={"age": Scale(0, 120, 5), "year": Scale(1000, 2000, 5)})
    codec.encode({"age": 36, "year": 1815})
    with pytest.raises(ValueError, match=r"Record\.encode: age: 1815 is outside of Scale\(low=0"):
        codec.encode({"age": 1815})


def test_the_most_specific_pattern_applies() -> None:
    fine, rough = Scale(0, 10, 0.1), Scale(0, 10, 2)
    codec = Record(SPACE, numbers={("a", None): rough, ("a", "x"): fine})
    h = codec.encode({"a": {"x": 5, "y": 5}})
    assert found(codec.query(h, ["a", "x"])).candidates == fine.points
    assert found(codec.query(h, ["a", "y"])).candidates == rough.points


@pytest.mark.parametrize("numbers", [{3: Scale(0, 1, 1)}, {("a", 1.5): Scale(0, 1, 1)}, {"a": (0, 1, 1)}])
def test_mappings_of_another_kind_are_refused(numbers: Any) -> None:
    with pytest.raises(TypeError, match="Record: numbers"):
        Record(SPACE, numbers=numbers)


def test_numbers_far_from_zero_are_decoded_with_their_error() -> None:
    codec, rng = Record(SPACE, numbers=Scale(1.7e9, 1.7e9 + 86400, 60)), random.Random(0)
    documents = [{"t": 1.7e9 + rng.uniform(100, 86300), "name": f"n{n}"} for n in range(60)]
    matches = [match for [match] in codec.query_many(codec.encode_many(documents), [["t"]])]
    z = torch.tensor([(m.label - d["t"]) / m.error for m, d in zip(matches, documents, strict=True)])
    assert z.abs().max() < 5
    assert 0.5 < z.std() < 2


# ------------------------------------------------------------------------------------------------------------- sets


@pytest.mark.parametrize("space", [SPACE, COMMUTING], ids=["m = 3", "m = 1"])
def test_a_list_as_a_set_has_no_order(space: Space) -> None:
    codec = Record(space, lists="set")
    first, second = codec.encode_many([{"tags": ["x", "y", "z"]}, {"tags": ["z", "x", "y"]}])
    assert close(first, second)
    by_position = Record(space)
    assert not close(*by_position.encode_many([{"tags": ["x", "y", "z"]}, {"tags": ["z", "x", "y"]}]))
    shared = codec.encode({"tags": ["a", "y", "x"]})
    assert ghrr.similarity(first, shared) == pytest.approx(2, abs=5 * 3 * space.noise_std)


def test_repeated_set_members_are_read_repeatedly() -> None:
    codec = Record(SPACE, lists={"tags": "set"})
    document = {"name": "Ada", "tags": ["poet", "poet", "countess"], "places": ["London", "Paris"], "none": []}
    codec.encode({"tags": ["singer", "king"]})
    h = codec.encode(document)
    tags = codec.query(h, "tags")
    assert isinstance(tags, Reading)
    assert sorted(tags.value) == ["countess", "poet", "poet"]
    assert tags.confident
    reading = codec.decode(h)
    assert {**reading.value, "tags": sorted(reading.value["tags"])} == {**document, "tags": sorted(document["tags"])}
    assert reading.unexplained < 1e-6
    asked = codec.decode(h, like={"tags": [""], "died": 0})
    assert sorted(asked.value["tags"]) == ["countess", "poet", "poet"]
    assert asked.value["died"] is MISSING


def test_sets_are_changed_as_a_whole() -> None:
    codec = Record(SPACE, lists="set")
    h = codec.encode({"name": "Ada", "tags": ["x", "y"]})
    assert close(codec.update(h, ["tags"], ["z", "x"]), codec.encode({"name": "Ada", "tags": ["z", "x"]}))
    assert close(codec.delete(h, ["tags"]), codec.encode({"name": "Ada"}))
    merged = codec.merge(h, codec.encode({"tags": ["z"]}))
    assert close(merged, codec.encode({"name": "Ada", "tags": ["z"]}))


def test_numbers_on_a_scale_in_a_set() -> None:
    codec = Record(SPACE, lists="set", numbers=Scale(0, 100, 2))
    value = codec.query(codec.encode({"n": [20, 70]}), "n")
    assert isinstance(value, Reading)
    assert sorted(value.value) == pytest.approx([20, 70], abs=0.5)


def test_elements_of_sets_are_single_values() -> None:
    codec = Record(SPACE, lists="set")
    with pytest.raises(
        ValueError, match=r"Record\.encode: tags: an element of a list that is encoded as a set .* lists="
    ):
        codec.encode({"tags": ["x", {"a": 1}]})
    with pytest.raises(ValueError, match="lists"):
        Record(SPACE, lists=wrong("bags"))


# --------------------------------------------------------------------------------------------------------- given leaves


def test_values_can_be_given_hypervectors(tmp_path: Path) -> None:
    codec, rng = Record(SPACE), torch.Generator().manual_seed(0)
    true, other = SPACE.atoms("true", "other")
    plain = SPACE.random(1, generator=rng)[0]
    h = codec.encode({"a": true * other, "b": true, "c": plain, "d": True})
    reading = codec.decode(h)
    assert reading.confident
    assert reading.value["a"] == "#true * other"
    assert reading.value["b"] == "#true"  # the label of a hypervector, not the value
    assert reading.value["c"].startswith("#")
    assert reading.value["d"] is True
    codec.save(tmp_path / "r.safetensors", h)
    later, stored = Record.load(tmp_path / "r.safetensors")
    assert later.decode(stored).value == reading.value
    assert later.encode({"c": plain}).equal(codec.encode({"c": plain}))


def test_hypervectors_that_do_not_fit_are_refused_with_their_path() -> None:
    codec = Record(SPACE)
    before = codec.state()
    for bad in (torch.zeros(2), Space(10, 2).identity(), SPACE.identity() * 2):
        with pytest.raises((TypeError, ValueError), match=r"Record\.encode: a\[1\]: "):
            codec.encode({"a": ["x", bad]})
    assert codec.state() == before


# -------------------------------------------------------------------------------------------------- files and threads


@pytest.mark.parametrize("m", [1, 3])
def test_file_contains_records_and_vocabulary(tmp_path: Path, m: int) -> None:
    codec = Record(Space.from_total(2700, m), numbers={"age": Scale(0, 100, 2)}, lists={"tags": "set"}, confidence=0.95)
    document = {"name": "Ada", "age": 36.5, "tags": ["x", "y"], "born": {"city": "London"}}
    codec.save(tmp_path / "r.safetensors", codec.encode_many([document, document]))
    later, rows = Record.load(tmp_path / "r.safetensors")
    assert later.state() == codec.state()
    value = later.decode(rows[1]).value
    assert sorted(value.pop("tags")) == ["x", "y"]
    assert value == {"name": "Ada", "age": pytest.approx(36.5, abs=0.2), "born": {"city": "London"}}


@pytest.mark.parametrize("m", [1, 2])
def test_threads_may_encode_and_read_with_one_codec(m: int) -> None:
    codec = Record(Space.from_total(1800, m, seed=1))
    documents = [[{f"k{t}-{n % 7}": {"v": f"w{n}"}, "all": f"w{n}"} for n in range(40)] for t in range(4)]
    rows: dict[int, list[torch.Tensor]] = {}
    errors: list[Exception] = []

    def work(thread: int) -> None:
        try:
            rows[thread] = [codec.encode(document) for document in documents[thread]]
            for h, document in zip(rows[thread][:5], documents[thread], strict=False):
                assert found(codec.query(h, "all")).label == document["all"]
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    alone = Record(codec.space)
    for number, own in rows.items():
        assert close(torch.stack(own), alone.encode_many(documents[number]))
    assert sorted(map(str, codec.paths.leaves())) == sorted(map(str, alone.paths.leaves()))
    assert len(set(codec.values.names)) == len(codec.values) == 40


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("line", [0, 1, 2, 3, 5, 8])
def test_an_interrupted_call_leaves_a_codec_that_works(line: int, monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Record(SPACE)
    codec.encode({"a": {"b": "x"}})
    calls = iter(range(10**6))
    for name in ("ghrr.structures.path_tree.bind", "ghrr.structures.record.values._sort", "ghrr.ops.bind_bags"):
        module, function = name.rsplit(".", 1)
        original = getattr(__import__(module, fromlist=[function]), function)

        def interrupting(*args: Any, _original: Any = original, **options: Any) -> Any:
            if next(calls) == line:
                raise Interrupted
            return _original(*args, **options)

        monkeypatch.setattr(name, interrupting)
    documents = [{f"n{n}": {"b": f"y{n}"}} for n in range(6)]
    for document in documents:
        try:
            codec.encode(document)
        except Interrupted:
            continue
    monkeypatch.undo()
    rows = codec.encode_many([{"a": {"b": "x"}}, *documents])
    assert close(rows, Record(SPACE).encode_many([{"a": {"b": "x"}}, *documents]))
    assert [codec.decode(h).value for h in rows] == [{"a": {"b": "x"}}, *documents]


# ---------------------------------------------------------------------------------------------------------- planning


@pytest.mark.parametrize(("leaves", "values", "m"), [(20, 100, 3), (60, 20, 1), (40, 300, 2)])
def test_the_suggested_space_reaches_the_requested_rate(leaves: int, values: int, m: int) -> None:
    space = Record.suggest(leaves, values=values, m=m, error=0.02)
    smaller = Space(max(1, int(0.6 * space.dim)), m)
    rates = [answer_rate(Record(one), leaves, values, records=4000 // leaves) for one in (space, smaller)]
    error = math.sqrt(0.02 * 0.98 / 4000)
    assert rates[0] >= 0.98 - STANDARD_ERRORS * error
    assert rates[1] < 0.98 - STANDARD_ERRORS * error


def answer_rate(codec: Record, leaves: int, values: int, records: int) -> float:
    rng = random.Random(leaves)
    keys = [f"k{n}" for n in range(leaves)]
    codec.encode_many([dict.fromkeys(keys, f"v{value}") for value in range(values)])
    documents = [{key: f"v{rng.randrange(values)}" for key in keys} for _ in range(records)]
    table = codec.query_many(codec.encode_many(documents), [[key] for key in keys])
    right = [
        bool(match.confident and match.label == document[key])
        for document, row in zip(documents, table, strict=True)
        for key, match in zip(keys, row, strict=True)
    ]
    return sum(right) / len(right)


# ----------------------------------------------------------------------------------------------------- large spaces


@pytest.mark.parametrize("m", [1, 3])
def test_path_vectors_that_do_not_fit_in_memory_are_made_when_needed(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space.from_total(2700, m, seed=1)
    documents = [{"people": [{"name": f"n{n}", "tags": ["x", f"y{n}"]} for n in range(4)], "count": 4}, [[1, 2], 3]]
    whole = Record(space)
    rows = whole.encode_many(documents)
    monkeypatch.setattr("ghrr.structures.path_tree._MAX_NUMBERS", 6 * space.total_dim)
    monkeypatch.setattr("ghrr.structures.inputs._CHUNK_NUMBERS", 4 * space.total_dim)
    codec = Record(space)
    assert close(codec.encode_many(documents), rows)
    assert len(codec.paths._table) <= 6
    assert [codec.decode(h).value for h in rows] == documents


def test_an_index_of_a_set_is_refused() -> None:
    codec = Record(SPACE, lists="set")
    h = codec.encode({"tags": ["a", "b"]})
    for change in (
        lambda: codec.update(h, ["tags", 0], "c"),
        lambda: codec.delete(h, ["tags", 0]),
        lambda: codec.query(h, ["tags", 0]),
        lambda: codec.query_many(h, [("tags", 0)]),
    ):
        with pytest.raises(ValueError, match="the list at tags is encoded as a set, got the index 0"):
            change()


def test_files_of_the_command_line_are_loaded(tmp_path: Path) -> None:
    codec = Record(SPACE)
    memory = ItemMemory(SPACE, ["ada"], codec.encode_many([{"city": "London"}]))
    memory.save(tmp_path / "x", about=codec.state())
    loaded, vectors = Record.load(tmp_path / "x")
    assert found(loaded.query(vectors["ada"], "city")).label == "London"
    ItemMemory(SPACE, ["a"]).save(tmp_path / "y")
    with pytest.raises(ValueError, match="without a vocabulary"):
        Record.load(tmp_path / "y")


def test_a_dotted_string_as_a_path_is_refused() -> None:
    scale = Scale(0, 1, 0.1)
    with pytest.raises(ValueError, match=r"names one key that contains a dot.*\('a', 'b'\)"):
        Record(SPACE, numbers={"a.b": scale})
    codec = Record(SPACE, numbers={("a", "b"): scale, ("a.b",): scale})
    h = codec.encode({"a": {"b": 0.5}, "a.b": 0.25})
    assert found(codec.query(h, ["a", "b"])).error is not None
    assert found(codec.query(h, "a.b")).error is not None


def test_the_first_of_equally_specific_patterns_applies() -> None:
    first, second = Scale(0, 10, 1), Scale(0, 100, 5)
    codec = Record(SPACE, numbers={("a", None): first, (None, "b"): second})
    assert found(codec.query(codec.encode({"a": {"b": 5}}), ["a", "b"])).candidates == first.points

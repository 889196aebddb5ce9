"""Engines: the same answers from every exact one, filters inside them, measured recall of approximate ones."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ghrr import ItemMemory, Space
from ghrr.memory import Bound
from ghrr.search import Contains, Range, RecordIndex
from ghrr.search.calibration import damaged_examples
from ghrr.search.documents import DocumentStore
from tests.search.common import full_disk, people

DOCUMENTS = people(120)
EXAMPLES = damaged_examples(DOCUMENTS[:20], seed=2)
PACKAGES = {"torch": "torch", "faiss": "faiss", "lancedb": "lancedb", "milvus": "milvus_lite", "server": "milvus_lite"}
ENGINES = ["faiss", "lancedb", pytest.param("milvus", marks=pytest.mark.slow)]

# Conditions on every kind: those that engines filter by, those that only documents decide, and both together.
SEARCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "many": {"k": 120},
    "vectors alone": {"candidates": 0},
    "threshold": {"threshold": 0.6},
    "weights": {"weights": {"name": 0.2}},
    "category": {"must": {"born": {"city": "london"}}},
    "other categories": {"must_not": {"born": {"city": "London"}}},
    "number": {"must": {"born": {"year": 1850}}},
    "range": {"must": {"born": {"year": Range(1850, 1900)}}},
    "open range": {"must": {"born": {"year": Range(1850, None)}}},
    "missing": {"must": {"born": {"year": None}}},
    "outside a range": {"must_not": {"born": {"year": Range(1820, 1930)}}},
    "boolean and dates": {"must": {"active": True, "joined": Range("2012-01-01", "2016-01-01")}},
    "text": {"must": {"name": Contains("hopper")}},
    "near text and category": {"near": {"name": "Grace Hopper", "born": {"city": "Princeton"}}},
    "near number and date": {"near": {"born": {"year": 1850}, "joined": "2016-01-01"}},
    "set": {"must": {"tags": ["poet"]}, "must_not": {"active": False}},
    "near place": {"near": {"location": {"lat": 51.6, "lon": -0.1}}},
    "nothing": {"must": {"born": {"city": "Atlantis"}}},
    "few candidates": {"must": {"born": {"city": "London"}}, "candidates": 3, "k": 3},
}


def fill(records: RecordIndex) -> RecordIndex:
    records.add(DOCUMENTS)
    records.remove(["3", "5"])
    records.update([DOCUMENTS[3]], ids=["7"])
    return records


@pytest.fixture(scope="module")
def expected() -> RecordIndex:
    return fill(RecordIndex(storage="float32", kinds={"born.city": "category"}))


@pytest.fixture(scope="module", params=ENGINES)
def records(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RecordIndex:
    pytest.importorskip(PACKAGES[request.param])
    folder = tmp_path_factory.mktemp("engine")
    uri = {"faiss": None, "lancedb": str(folder / "lance"), "milvus": str(folder / "milvus.db")}[request.param]
    return fill(RecordIndex(backend=request.param, uri=uri, kinds={"born.city": "category"}))


def assert_same_answers(records: RecordIndex, expected: RecordIndex, settings: dict[str, Any]) -> int:
    """Compare ids, scores, probabilities and documents; return the number of hits."""
    hits = 0
    for own, other in zip(
        records.search_many(EXAMPLES, **settings), expected.search_many(EXAMPLES, **settings), strict=True
    ):
        assert [hit.guess for hit in own] == [hit.guess for hit in other]
        assert [hit.document for hit in own] == [hit.document for hit in other]
        for name in ("score", "probability"):
            numbers = [[getattr(hit, name) for hit in one] for one in (own, other)]
            assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)
        hits += len(own)
    return hits


@pytest.mark.parametrize("search", SEARCHES)
def test_engines_give_the_same_answers_as_torch(records: RecordIndex, expected: RecordIndex, search: str) -> None:
    hits = assert_same_answers(records, expected, SEARCHES[search])
    assert (hits == 0) == (search == "nothing")


@pytest.mark.parametrize("search", [name for name, given in SEARCHES.items() if "near" in given])
def test_near_equals_a_test_of_every_record(expected: RecordIndex, search: str) -> None:
    near = SEARCHES[search]["near"]

    def is_near(name: str) -> bool:
        explained = expected.explain(name, near)
        least = {"born.year": 0.25, "joined": 0.25}  # half of the wider of two terms
        return all(
            (explained.fields[field] or 0) >= least.get(field, 0.5) for field in explained.weights if field != "*"
        )

    found = {hit.guess for hit in expected.search({"name": "Ada"}, k=120, near=near)}
    assert found
    assert found == set(filter(is_near, expected.ids))


def test_filters_are_evaluated_by_the_engine(records: RecordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    if not records._records.state.memory.can_filter:
        pytest.skip("faiss has no filters")
    found: list[int] = []
    search = ItemMemory.cleanup

    def cleanup(self: ItemMemory, *given: Any, **more: Any) -> Any:
        result = search(self, *given, **more)
        found.append(len(result.labels[0]))
        return result

    monkeypatch.setattr(ItemMemory, "cleanup", cleanup)
    hits = records.search({"name": "Ada"}, k=120, must={"born": {"city": "London", "year": Range(1850, 1900)}})
    assert found == [len(hits)]  # one request, and nothing that the documents then exclude


@pytest.mark.parametrize("value", ["x' OR '1'='1", '"] or id >= 0 or $meta["', "a\\", "x\ny", "`; DROP TABLE records"])
def test_hostile_values_are_only_values(records: RecordIndex, value: str) -> None:
    assert records.search({"name": "Ada"}, must={"born": {"city": value}}) == []
    assert len(records.search({"name": "Ada"}, k=200, must_not={"born": {"city": value}})) == len(records)


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    names = ["a b", "`", "'; --", "A", "a", "ü", "id", "vector", "x" * 200]
    kinds = dict.fromkeys(names, "number")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path), kinds=kinds)
    expected = RecordIndex(storage="float32", kinds=kinds)
    for one in (records, expected):
        one.add([dict.fromkeys(names, number) for number in range(10)])
        one.add([{"later": 3}, {"a": 3}])  # a column that the table did not have
    for name in names:
        own, other = (one.search({name: 9}, k=12, must={name: 3}) for one in (records, expected))
        assert [hit.guess for hit in own] == [hit.guess for hit in other]
        assert 0 < len(own) < 10
    assert [hit.guess for hit in records.search({"later": 3}, must={"later": 3})] == ["10"]


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"must": {"nowhere": 1}}, r"must: there is no field 'nowhere' to compare, expected one of name"),
        ({"must_not": {"born": {"citi": 1}}}, r"must_not: there is no field 'born.citi' .* did you mean 'born.city'"),
        ({"must": {"born": {"city": []}}}, r"must: 'born.city' needs a value, got .*; use None for records without"),
        ({"must": {"born": {"city": {}}}}, r"must: 'born.city' needs a value"),
        ({"must_not": {"born": {"city": Range("a", "b")}}}, r"must_not: 'born.city' must be a number or a date, got R"),
        ({"must": {"born": {"year": Range(float("-inf"), 1900)}}}, r"'born.year' must be a number"),
        ({"must": {"born": {"year": Range(1900, 1800)}}}, r"'born.year' must be a number, .* the lower first"),
        ({"must": {"born": {"year": Range(None, None)}}}, r"'born.year' needs a range with at least one end"),
        ({"must": {"name": Contains("")}}, r"'name' must contain a text that is not empty"),
        ({"must": {"*": None}}, r"must: there is no field"),
        ({"near": {"born": {"city": "\n"}}}, r"near: needs a value that is not missing"),
        ({"near": {"nowhere": 1}}, r"near: there is no field 'nowhere' to compare"),
    ],
)
def test_conditions_without_effect_are_refused(expected: RecordIndex, conditions: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expected.search({"name": "Ada"}, **conditions)


# ---------------------------------------------------------------------------------------------------------- item memory


def test_bounds_of_an_item_memory_select_items(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    from ghrr.search.lance_backend import LanceBackend

    space = Space(dim=20, m=2, seed=0)
    memory = ItemMemory(space, backend=LanceBackend(2 * space.total_dim, str(tmp_path)))
    memory.add(["a", "b", "c"], columns={"Year": np.array([1.0, 2.0, np.nan])})
    query = space.vectors(["c"])
    for bound, names in (
        (Bound("Year", 2, 9), "b"),
        (Bound("Year", 2, 9, inside=False), "ac"),
        (Bound("Year", 5, 9), ""),
    ):
        assert sorted(memory.cleanup(query, 3, where=[bound]).labels[0]) == list(names)
    with pytest.raises(ValueError, match="must be named by letters"):
        memory.cleanup(query, where=[Bound("1 = 1 OR id", 0, 1)])
    with pytest.raises(ValueError, match="must be finite"):
        memory.cleanup(query, where=[Bound("Year", 0, float("inf"))])
    with pytest.raises(ValueError, match="must have 1 numbers"):
        memory.add("d", columns={"Year": np.array([1.0, 2.0])})
    with pytest.raises(ValueError, match="TorchBackend has no columns"):
        ItemMemory(space, ["a"]).cleanup(query, where=[Bound("Year", 0, 1)])


# ---------------------------------------------------------------------------------------------------------- approximate


@pytest.mark.parametrize("backend", ["faiss", "lancedb", pytest.param("milvus", marks=pytest.mark.slow)])
def test_approximate_search_reports_its_recall(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[backend])
    uri = None if backend == "faiss" else str(tmp_path / "engine.db")
    space = Space(dim=16, m=2, seed=0)
    records = RecordIndex(space, backend=backend, uri=uri, approximate=True)
    documents = people(600)
    records.add(documents)
    assert "recall not measured" in repr(records)
    exact = RecordIndex(space, storage="float32")
    exact.add(documents)
    chosen = damaged_examples(documents[::6])
    pairs = [
        ({hit.guess for hit in own}, {hit.guess for hit in other})
        for own, other in zip(*(one.search_many(chosen, candidates=0) for one in (records, exact)), strict=True)
    ]
    measured = records.recall
    assert f"recall@10 {measured:.3f}" in repr(records)
    assert 0.5 < measured <= 1
    # Hits without vectors alone come from 50 candidates, so they are at least as complete as the first ten.
    assert np.mean([len(own & other) / len(other) for own, other in pairs]) > measured - 0.05
    records.remove("0")
    assert "recall not measured" in repr(records)
    assert exact.recall == 1
    measured = records.recall
    records.save(tmp_path / "index")
    opened = RecordIndex.open(tmp_path / "index", uri=uri)
    assert opened.is_approximate
    assert opened._records.state.recall == measured  # it is stored
    assert opened.search(documents[1], 1)[0].guess == "1"


def test_recall_counts_what_a_backend_misses() -> None:
    space = Space(dim=30, m=2, seed=0)
    names = [str(number) for number in range(40)]
    memory = ItemMemory(space, names)
    queries = space.vectors(names[:4])
    assert memory.recall(queries, 5) == ItemMemory(space, names, storage="int8").recall(queries, 5) == 1
    backend: Any = memory._items.state.backend
    search = type(backend).search

    class Forgetful(type(backend)):  # type: ignore[misc]
        def search(self, queries: Any, k: int) -> Any:
            scores, ids = search(self, queries, k + 1)
            return scores[:, 1:], ids[:, 1:]  # without the best

    backend.__class__ = Forgetful
    assert memory.recall(queries, 5) == pytest.approx(0.8)


def test_approximate_torch_is_refused() -> None:
    with pytest.raises(ValueError, match="needs another engine"):
        RecordIndex(approximate=True)
    with pytest.raises(ValueError, match='approximate=True needs backend="faiss" or "milvus"'):
        ItemMemory(Space(dim=4, m=1), approximate=True)


# --------------------------------------------------------------------------------------------------------------- server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Milvus in a process of its own that speaks gRPC on a port: the server of milvus-lite."""
    pytest.importorskip("milvus_lite")
    port = free_port()
    command = [sys.executable, "-m", "milvus_lite", "server", "--host", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--data-dir", str(tmp_path / "server")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_milvus_server_gives_the_same_answers_and_keeps_them(
    server: tuple[str, subprocess.Popen[str]], expected: RecordIndex, tmp_path: Path
) -> None:
    uri, process = server
    records = fill(RecordIndex(backend="milvus", uri=uri, kinds={"born.city": "category"}))
    for name in ("plain", "other categories", "range", "near text and category"):
        assert_same_answers(records, expected, SEARCHES[name])
    records.save(tmp_path / "index")
    opened = RecordIndex.open(tmp_path / "index", uri=uri)
    assert_same_answers(opened, expected, SEARCHES["range"])
    with pytest.raises(ValueError, match="the engine must be empty"):
        RecordIndex(backend="milvus", uri=uri)
    process.kill()
    process.wait()
    with pytest.raises(ConnectionError, match=r"the Milvus server at 'http://127\.0\.0\.1:\d+'"):
        opened.search({"name": "Ada"})
    with pytest.raises(ConnectionError, match="Milvus server"):
        RecordIndex.open(tmp_path / "index", uri=uri)
    assert opened["0"] == DOCUMENTS[0]  # documents are in the folder


# -------------------------------------------------------------------------------------------------------------- folders


@pytest.mark.parametrize("backend", ["faiss", "lancedb"])
def test_saved_index_of_an_engine_is_opened_with_it(backend: str, expected: RecordIndex, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[backend])
    uri = None if backend == "faiss" else str(tmp_path / "engine")
    records = fill(RecordIndex(backend=backend, uri=uri, kinds={"born.city": "category"}))
    records.save(tmp_path / "index")
    opened = RecordIndex.open(tmp_path / "index", uri=uri)
    assert type(opened._records.state.engine).__name__ != "TorchBackend"
    assert_same_answers(opened, expected, SEARCHES["category"])
    opened.add([{"name": "Zuse"}], ids=["new"])
    opened.save()
    assert RecordIndex.open(tmp_path / "index", uri=uri).search({"name": "zuse"}, 1)[0].guess == "new"


def assert_complete(records: RecordIndex, documents: dict[str, Any]) -> None:
    """The index has these documents, finds each of them, and nothing else; the engine has no other vectors."""
    assert {name: records[name] for name in records.ids} == documents
    for name, document in documents.items():
        hits = records.search(document, k=len(documents) + 5)
        assert sorted(hit.guess for hit in hits) == sorted(documents)
        assert next(hit for hit in hits if hit.guess == name).score == pytest.approx(1)
    assert len(records._records.state.memory) == len(documents)


def test_what_a_killed_program_did_not_save_does_not_count(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    folder, uri = tmp_path / "index", str(tmp_path / "lance")
    saved = {str(number): document for number, document in enumerate(DOCUMENTS[:20])}
    records = RecordIndex(backend="lancedb", uri=uri)
    records.add(DOCUMENTS[:20])
    records.save(folder)
    records.add([{"name": "Konrad Zuse"}], ids=["unsaved"])
    records.update([{"name": "Ada Byron"}], ids=["3"])
    records.remove("4")
    del records  # as if the program was killed here
    opened = RecordIndex.open(folder, uri=uri)
    assert opened.ids == list(saved)
    assert len(opened._records.state.memory) == 22  # negative control: the engine has vectors that are no records
    assert all(hit.guess in saved for hit in opened.search({"name": "Konrad Zuse"}, k=30))
    assert opened["3"] == DOCUMENTS[3]
    opened.remove("4")
    opened.update([{"name": "Ada Byron"}], ids=["3"])
    opened.save()
    after = {name: document for name, document in saved.items() if name != "4"} | {"3": {"name": "Ada Byron"}}
    assert_complete(opened, after)
    assert_complete(RecordIndex.open(folder, uri=uri), after)


def test_update_that_fails_keeps_all_old_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    records.add(DOCUMENTS[:20])
    monkeypatch.setattr(DocumentStore, "add", lambda *given: 1 / 0)  # after the new vectors, before the new table
    with pytest.raises(ZeroDivisionError):
        records.update([{"name": "Konrad Zuse"}], ids=["3"])
    monkeypatch.undo()
    assert len(records._records.state.memory) == 21
    assert records["3"] == DOCUMENTS[3]
    assert sorted(hit.guess for hit in records.search({"name": "Konrad Zuse"}, k=30)) == sorted(records.ids)
    records.save(tmp_path / "index")
    assert_complete(records, {str(number): document for number, document in enumerate(DOCUMENTS[:20])})


@pytest.mark.parametrize("lost", ["folder", "table", "rows", "all rows"])
def test_open_raises_if_the_engine_lacks_vectors(lost: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    import lancedb

    folder, lance = tmp_path / "index", tmp_path / "lance"
    records = RecordIndex(backend="lancedb", uri=str(lance))
    records.add(DOCUMENTS[:20])
    records.save(folder)
    lance.rename(tmp_path / "away")
    if lost != "folder":
        shutil.copytree(tmp_path / "away", lance)
        connection = lancedb.connect(lance)
        if lost == "table":
            connection.drop_table("records")
        else:
            some = " OR ".join(f"label = '{label}'" for label in records._records.state.labels[:3])
            connection.open_table("records").delete("true" if lost == "all rows" else some)
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if "away" not in path.parts}
    message = {"rows": "the vectors of 3 of 20 records are missing", "all rows": "of 20 of 20 records"}
    with pytest.raises((FileNotFoundError, ValueError), match=message.get(lost, f"there is no {lost} ")):
        RecordIndex.open(folder, uri=str(lance))
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if "away" not in path.parts} == before
    shutil.rmtree(lance, ignore_errors=True)
    (tmp_path / "away").rename(lance)
    assert_complete(RecordIndex.open(folder, uri=str(lance)), dict(zip(records.ids, DOCUMENTS[:20], strict=True)))


@pytest.mark.parametrize("change", ["exchange", "noise", "none"])
def test_verify_compares_vectors_in_an_engine_with_documents(change: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    uri = str(tmp_path / "lance")
    records = RecordIndex(backend="lancedb", uri=uri)
    records.add(DOCUMENTS[:10])
    records.learn_weights(DOCUMENTS[:5], records.ids[:5])
    records.add([{"new": "field"}])
    records.save(tmp_path / "index")
    memory, labels = records._records.state.memory, records._records.state.labels
    vectors = memory.vectors(labels)
    changed = {"exchange": vectors.flip(0), "noise": vectors + 1e-3, "none": vectors}[change]
    memory.remove(labels)
    memory.add(labels, changed)
    opened = RecordIndex.open(tmp_path / "index", uri=uri)
    if change == "none":
        opened.verify()
    else:
        with pytest.raises(ValueError, match=r"verify: the vector of '\w+' does not match its document in '.*index'"):
            opened.verify()


def test_add_raises_if_the_engine_was_moved_away(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    folder, lance = tmp_path / "index", tmp_path / "lance"
    records = RecordIndex(backend="lancedb", uri=str(lance))
    records.add(DOCUMENTS[:20])
    records.save(folder)
    lance.rename(tmp_path / "away")
    with pytest.raises(OSError, match="no longer there"):  # LanceDB made a new table with this record alone
        records.add([{"name": "Konrad Zuse"}], ids=["new"])
    records.save()
    assert not lance.exists()
    (tmp_path / "away").rename(lance)
    records.add([{"name": "Konrad Zuse"}], ids=["new"])
    records.save()
    opened = RecordIndex.open(folder, uri=str(lance))
    assert_complete(opened, dict(zip(opened.ids, [*DOCUMENTS[:20], {"name": "Konrad Zuse"}], strict=True)))


@pytest.mark.slow
def test_open_raises_if_milvus_lacks_the_collection(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    uri, other = str(tmp_path / "milvus.db"), str(tmp_path / "other.db")
    records = RecordIndex(backend="milvus", uri=uri)
    records.add(DOCUMENTS[:5])
    records.save(tmp_path / "index")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        RecordIndex.open(tmp_path / "index", uri=other)
    assert not Path(other).exists()
    RecordIndex(Space(dim=8, m=1), backend="milvus", uri=other)
    with pytest.raises(ValueError, match="must hold items of"):
        RecordIndex.open(tmp_path / "index", uri=other)
    ItemMemory(Space(dim=8, m=1), backend="milvus", uri=other)
    assert RecordIndex.open(tmp_path / "index", uri=uri).ids == records.ids


def test_vectors_inside_the_folder_move_with_it(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "index" / "lance"))
    records.add(DOCUMENTS[:5])
    records.save(tmp_path / "index")
    (tmp_path / "index").rename(tmp_path / "moved")
    opened = RecordIndex.open(tmp_path / "moved")
    opened.add([{"name": "Zuse"}], ids=["new"])
    opened.save()
    assert RecordIndex.open(tmp_path / "moved").search({"name": "zuse"}, 1)[0].guess == "new"
    assert not (tmp_path / "index").exists()


def test_address_outside_the_folder_must_be_given(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    uri = str(tmp_path / "lance")
    records = RecordIndex(backend="lancedb", uri=uri)
    records.add(DOCUMENTS[:5])
    records.save(tmp_path / "index")
    with pytest.raises(ValueError, match=rf"the vectors are at '{uri}', outside the folder.*uri="):
        RecordIndex.open(tmp_path / "index")
    assert RecordIndex.open(tmp_path / "index", uri=uri).ids == records.ids


def test_two_folders_do_not_share_one_engine(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    records.add(DOCUMENTS[:5])
    records.save(tmp_path / "index")
    with pytest.raises(ValueError, match="belong to the index in"):
        records.save(tmp_path / "second")
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("backend", ["torch", "faiss", "lancedb"])
def test_leftovers_of_an_index_without_a_folder_are_removed(backend: str, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES[backend])
    uri = str(tmp_path) if backend == "lancedb" else None
    records = RecordIndex(Space(dim=8, m=1), backend=backend, uri=uri)
    document = {"name": "Ada"}
    records.add([document] * 2000)
    for _ in range(6):
        records.update([document] * 2000, ids=records.ids)
    assert len(records._records.state.memory) <= 2 * len(records) + 4096
    assert len(records._records.state.documents.new_labels) <= 2 * len(records) + 4096
    assert len(records.search(document, k=2000, candidates=0)) == 2000


def test_second_writer_of_lancedb_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    first = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    first.add(DOCUMENTS[:10])
    first.save(tmp_path / "index")
    second = RecordIndex.open(tmp_path / "index", uri=str(tmp_path / "lance"))
    first.add([{"name": "first"}], ids=["first"])
    second.add([{"name": "second"}], ids=["second"])
    with pytest.raises(RuntimeError, match="another program changed its content"):
        second.search({"name": "first"})
    first.save()
    with pytest.raises(ValueError, match="another program saved to"):
        second.save()
    opened = RecordIndex.open(tmp_path / "index", uri=str(tmp_path / "lance"))
    assert opened.search({"name": "first"})[0].document == {"name": "first"}
    assert "second" not in opened


def test_index_with_an_own_backend_is_not_saved(tmp_path: Path) -> None:
    from ghrr.memory import FaissBackend

    pytest.importorskip("faiss")

    class Own:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def __len__(self) -> int:
            return len(self._inner)

    records = RecordIndex(backend=Own(FaissBackend(2048)))
    records.add(DOCUMENTS[:3])
    with pytest.raises(ValueError, match="needs an engine of ghrr, got Own"):
        records.save(tmp_path)


@pytest.mark.parametrize("backend", ["faiss", "lancedb", "milvus"])
def test_other_storage_is_refused(backend: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"storage with {backend} must be one of 'float32'"):
        RecordIndex(backend=backend, uri=str(tmp_path), storage="int8")


def test_lancedb_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a folder"):
        RecordIndex(backend="lancedb")
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"LanceDB at '.*file' failed"):
        RecordIndex(backend="lancedb", uri=str(tmp_path / "file"))


@pytest.mark.parametrize("damage", ["cut", "zeros", "removed"])
def test_damaged_files_of_lancedb_are_named(damage: str, tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    records.add(DOCUMENTS[:20])
    records.save(tmp_path / "index")
    for path in sorted((tmp_path / "lance").rglob("*.lance")):
        if path.is_file():
            content = path.read_bytes()
            half = content[: len(content) // 2]
            path.write_bytes(half if damage == "cut" else half + bytes(len(content) - len(half)))
            if damage == "removed":
                path.unlink()

    def use() -> None:
        opened = RecordIndex.open(tmp_path / "index", uri=str(tmp_path / "lance"))
        opened.search(DOCUMENTS[0])
        opened.verify()

    with pytest.raises((OSError, ValueError), match=r"^(ItemMemory|RecordIndex).*'.*(lance|index)'"):
        use()


def test_full_disk_of_lancedb_adds_nothing(tmp_path: Path) -> None:
    pytest.importorskip("lancedb")
    records = RecordIndex(backend="lancedb", uri=str(tmp_path / "lance"))
    records.add(DOCUMENTS[:20])
    with full_disk(30_000), pytest.raises(OSError, match=r"RecordIndex\.add: LanceDB at '.*lance' failed"):
        records.add(DOCUMENTS[20:100])
    assert len(records) == 20
    assert records.search(DOCUMENTS[3], 1)[0].guess == "3"
    records.add(DOCUMENTS[20:100])
    assert records.search(DOCUMENTS[99], 1)[0].guess == "99"

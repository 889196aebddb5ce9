"""Milvus backend: persistent collections, atomic changes when requests fail, and clear errors."""

from __future__ import annotations

import importlib
import json
import re
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import torch
from pymilvus import MilvusException

import ghrr
from ghrr import Space
from ghrr.memory import ItemMemory, MilvusBackend, persistence
from ghrr.memory.backends import milvus_backend, milvus_journal
from ghrr.memory.backends.milvus_connection import hide_credentials
from tests.memory.test_backends import NAMES, SPACE

Milvus = Callable[..., ItemMemory]


class Slow(grpc.RpcError):  # type: ignore[misc]
    """Error of grpc for a request that takes too long."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.DEADLINE_EXCEEDED

    def details(self) -> str:
        return "Deadline Exceeded"


GONE = MilvusException(message="server unavailable")
FAILURES = (GONE, Slow(), KeyboardInterrupt())


class FaultyClient:
    """Client whose calls fail on request: ``fail("insert", error, call=2)`` makes the second call raise.

    With ``landed`` the server executes the request, but its response is lost. ``calls`` lists the called methods.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._faults: dict[tuple[str, int], tuple[BaseException, bool]] = {}
        self.calls: list[str] = []
        self.before: dict[str, Callable[[], object]] = {}

    def fail(self, method: str, error: BaseException, *, call: int = 1, landed: bool = False) -> None:
        self._faults[method, Counter(self.calls)[method] + call] = (error, landed)

    def fail_always(self, method: str, error: BaseException) -> None:
        for call in range(1, 100):
            self.fail(method, error, call=call)

    def mend(self) -> None:
        self._faults.clear()

    def __getattr__(self, method: str) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            self.calls.append(method)
            self.before.pop(method, lambda: None)()
            error, landed = self._faults.get((method, self.calls.count(method)), (None, True))
            result = getattr(self._client, method)(*given, **more) if landed else None
            if error is not None:
                raise error
            return result

        return call


@pytest.fixture
def batches_of_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_backend, "_NUMBERS_PER_REQUEST", 10 * 2 * SPACE.total_dim)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests, since starting it takes longer than most of them."""
    return str(tmp_path_factory.mktemp("milvus") / "items.db")


@pytest.fixture
def milvus(database: str) -> Milvus:
    """Open the collection of this test; every call returns another memory with the same items."""
    name = f"test_{secrets.token_hex(8)}"

    def make(space: Space = SPACE, *, collection: str = name, **settings: Any) -> ItemMemory:
        return ItemMemory(space, backend=MilvusBackend(database, space, collection=collection, **settings))

    return make


def faulty(memory: ItemMemory) -> FaultyClient:
    connection: Any = memory._items.state.backend._connection  # type: ignore[attr-defined]
    connection.client = FaultyClient(connection.client)
    return connection.client  # type: ignore[no-any-return]


def insert_rows(memory: ItemMemory, rows: list[dict[str, Any]]) -> None:
    """Write to the collection without the library."""
    backend: Any = memory._items.state.backend
    vector = SPACE.identity()[None]
    filled = [{"row": torch.view_as_real(vector).reshape(-1).numpy()} | row for row in rows]
    backend._connection.client.insert(backend._name, filled)


def rows_in_collection(memory: ItemMemory) -> int:
    backend: Any = memory._items.state.backend
    return int(backend._connection.client.get_collection_stats(backend._name)["row_count"])


def assert_holds(memory: ItemMemory, names: list[str]) -> None:
    """The memory has these labels and finds the same items as a memory in RAM."""
    assert memory.labels == names
    found = memory.cleanup(SPACE.vectors(NAMES), 3).labels
    expected = ItemMemory(SPACE, names).cleanup(SPACE.vectors(NAMES), 3).labels
    assert found == expected


# --------------------------------------------------------------------------------------------- persistent collections


def test_a_collection_is_opened_again_with_its_items(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_backend, "_MAX_RESULTS", 16)  # simulates a large collection
    memory = milvus()
    memory.add(NAMES)
    memory.remove(NAMES[20:40])
    memory.add("late")
    again = milvus()
    assert again.labels == [*NAMES[:20], "late"]
    again.add("later")
    assert again.cleanup(SPACE.vectors(["late", "later"])).labels == [["late"], ["later"]]
    with pytest.raises(ValueError, match="k must be at most 16 with Milvus, got 17"):
        again.cleanup(SPACE.identity(), 17)
    other = milvus(collection="other")
    assert len(other) == 0


def test_a_collection_with_sparse_ids_is_opened_again(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_backend, "_MAX_RESULTS", 2)
    memory = milvus()
    memory.add(NAMES)
    memory.remove(NAMES[1:38])
    assert milvus().labels == [NAMES[0], *NAMES[38:]]


def test_a_collection_without_a_journal_gets_one(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES)
    memory.remove(NAMES[3])
    backend: Any = memory._items.state.backend
    backend._connection.client.drop_collection(backend._journal.name)  # as version 0.1 wrote it

    again = milvus()

    again.add("new")
    assert milvus().labels == [*NAMES[:3], *NAMES[4:], "new"]


def test_a_collection_of_another_space_is_refused(milvus: Milvus) -> None:
    milvus().add(NAMES)
    with pytest.raises(ValueError, match=r"must hold items of Space\(dim=20, m=2, seed=1\), got another space"):
        milvus(Space(20, 2, seed=1))
    rotation = ghrr.unitary.haar(m=2, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="got another space"):
        milvus(Space(20, 2, rotation=rotation))


# ---------------------------------------------------------------------------------------------------- other programs


def test_a_change_by_another_program_raises(milvus: Milvus) -> None:
    first = milvus()
    first.add(NAMES)
    second = milvus()
    second.add("new")
    second.remove(NAMES[3])  # the number of items is as before
    calls: list[Callable[[], object]] = [
        lambda: first.cleanup(SPACE.identity()),
        lambda: first.add("more"),
        lambda: first.remove(NAMES[5]),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match="another program wrote to it"):
            call()
    assert_holds(milvus(), second.labels)


def test_a_query_reads_one_record_and_searches_once(milvus: Milvus) -> None:
    """Counting rows would take seconds."""
    memory = milvus()
    memory.add(NAMES)
    client = faulty(memory)
    memory.cleanup(SPACE.vectors(NAMES))
    assert client.calls == ["get", "search"]


@pytest.mark.parametrize("embedded", [True, False])
def test_only_the_embedded_form_is_flushed_after_many_adds(
    milvus: Milvus, monkeypatch: pytest.MonkeyPatch, embedded: bool
) -> None:
    """A search in the log of the embedded form is thirty times slower; servers limit flush requests."""
    monkeypatch.setattr(milvus_backend, "_NUMBERS_IN_LOG", 30 * 2 * SPACE.total_dim)
    memory = milvus()
    client = faulty(memory)
    backend: Any = memory._items.state.backend
    backend._connection.embedded = embedded
    memory.add(NAMES[:29])
    assert "flush" not in client.calls
    memory.add(NAMES[29:])
    assert ("flush" in client.calls) is embedded
    assert_holds(memory, NAMES)


@pytest.mark.usefixtures("batches_of_ten")
def test_readers_ignore_an_unfinished_add(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES[:5])
    reader = milvus()
    client = faulty(memory)
    client.fail("insert", GONE, call=3)  # only to have a moment in the middle

    def look() -> None:
        assert_holds(reader, NAMES[:5])
        assert_holds(milvus(), NAMES[:5])

    client.before["delete"] = look
    with pytest.raises(ConnectionError):
        memory.add(NAMES[5:])
    assert client.calls.count("insert") == 3
    assert "delete" not in client.before  # look was called


@pytest.mark.usefixtures("batches_of_ten")
def test_of_two_concurrent_adds_only_one_succeeds(milvus: Milvus) -> None:
    slow, quick = milvus(), milvus()
    client = faulty(slow)

    def meanwhile() -> None:
        with pytest.raises(RuntimeError, match="another program added items"):
            quick.add("new")  # opened before the ids were reserved
        milvus().add("new")

    client.before["insert"] = meanwhile
    with pytest.raises(RuntimeError, match="another program changed the collection at the same time"):
        slow.add(NAMES)
    again = milvus()
    assert again.labels == ["new"]
    assert rows_in_collection(again) == 1


# ------------------------------------------------------------------------------------------------------ atomic changes


@pytest.mark.usefixtures("batches_of_ten")
@pytest.mark.parametrize("landed", [False, True], ids=["refused", "response lost"])
@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_an_add_that_fails_in_the_middle_adds_nothing(milvus: Milvus, failure: BaseException, landed: bool) -> None:
    memory = milvus()
    memory.add(NAMES[:5])
    client = faulty(memory)
    client.fail("insert", failure, call=2, landed=landed)

    with pytest.raises((ConnectionError, KeyboardInterrupt)):
        memory.add(NAMES[5:])

    assert rows_in_collection(memory) == 5
    assert_holds(memory, NAMES[:5])
    assert_holds(milvus(), NAMES[:5])
    memory.add(NAMES[5:])
    assert_holds(memory, NAMES)
    assert_holds(milvus(), NAMES)


@pytest.mark.usefixtures("batches_of_ten")
@pytest.mark.parametrize("by", ["the same memory", "a new memory"])
@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_rows_that_could_not_be_deleted_are_ignored_and_deleted_later(
    milvus: Milvus, failure: BaseException, by: str
) -> None:
    memory = milvus()
    memory.add(NAMES[:5])
    client = faulty(memory)
    client.fail("insert", GONE, call=3)
    client.fail("delete", failure)
    with pytest.raises((ConnectionError, KeyboardInterrupt)):
        memory.add(NAMES[5:])
    assert rows_in_collection(memory) == 25

    writer = memory if by == "the same memory" else milvus()

    assert_holds(writer, NAMES[:5])
    writer.add(NAMES[5:])
    assert_holds(writer, NAMES)
    assert rows_in_collection(writer) == 40
    assert_holds(milvus(), NAMES)


def test_rows_that_arrive_after_a_failed_add_are_no_items(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server continues with an insert that timed out."""
    Collection = importlib.import_module("milvus_lite.engine.collection").Collection

    memory = milvus()
    memory.add(NAMES[:5])
    insert, go_on, done = Collection.insert, threading.Event(), threading.Event()

    def slow(collection: Any, records: list[Any], **more: Any) -> Any:
        if len(records) == 1:  # of the journal
            return insert(collection, records, **more)
        go_on.wait(60)
        try:
            return insert(collection, records, **more)
        finally:
            done.set()

    connection: Any = memory._items.state.backend._connection  # type: ignore[attr-defined]
    request = connection.request

    def impatient(method: str, *given: Any, **more: Any) -> Any:
        connection.timeout = 0.5 if method == "insert" else 60.0
        return request(method, *given, **more)

    monkeypatch.setattr(Collection, "insert", slow)
    monkeypatch.setattr(connection, "request", impatient)
    with pytest.raises(ConnectionError, match=r"the Milvus server at .* did not respond within 0.5 s; increase"):
        memory.add(NAMES[5:])
    monkeypatch.undo()
    connection.timeout = 60.0
    go_on.set()
    assert done.wait(60)

    assert rows_in_collection(memory) == 40
    assert_holds(memory, NAMES[:5])
    memory.add(NAMES[5:])
    assert_holds(memory, NAMES)
    assert_holds(milvus(), NAMES)


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_an_add_whose_last_write_is_refused_adds_nothing(milvus: Milvus, failure: BaseException) -> None:
    memory = milvus()
    memory.add(NAMES[:5])
    faulty(memory).fail("upsert", failure, call=2)
    with pytest.raises((ConnectionError, KeyboardInterrupt)):
        memory.add(NAMES[5:])
    assert_holds(memory, NAMES[:5])
    assert_holds(milvus(), NAMES[:5])
    memory.add(NAMES[5:])
    assert_holds(milvus(), NAMES)


@pytest.mark.parametrize("failure", [GONE, Slow()], ids=repr)
def test_an_add_whose_last_response_is_lost_succeeds(milvus: Milvus, failure: BaseException) -> None:
    memory = milvus()
    faulty(memory).fail("upsert", failure, call=2, landed=True)
    memory.add(NAMES)
    assert_holds(memory, NAMES)
    assert_holds(milvus(), NAMES)


def test_an_interrupt_during_the_last_write_undoes_the_change(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES[:5])
    client = faulty(memory)
    client.fail("upsert", KeyboardInterrupt(), call=2, landed=True)
    with pytest.raises(KeyboardInterrupt):
        memory.add(NAMES[5:])
    assert_holds(memory, NAMES[:5])
    client.fail("upsert", KeyboardInterrupt(), landed=True)
    with pytest.raises(KeyboardInterrupt):
        memory.remove(NAMES[:2])
    assert_holds(memory, NAMES[:5])
    assert_holds(milvus(), NAMES[:5])


def test_a_memory_raises_after_an_add_of_unknown_outcome(milvus: Milvus) -> None:
    memory = milvus()
    client = faulty(memory)
    client.fail("upsert", GONE, call=2, landed=True)
    client.fail("get", GONE, call=3)  # the check whether the record was written
    with pytest.raises(ConnectionError, match=r"ItemMemory.add"):
        memory.add(NAMES)
    with pytest.raises(RuntimeError, match=r"did not confirm the last change; create the ItemMemory again"):
        memory.cleanup(SPACE.identity()) if len(memory) else memory.add("new")
    assert_holds(milvus(), NAMES)


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_a_remove_that_is_refused_removes_nothing(milvus: Milvus, failure: BaseException) -> None:
    memory = milvus()
    memory.add(NAMES)
    faulty(memory).fail("upsert", failure)
    with pytest.raises((ConnectionError, KeyboardInterrupt)):
        memory.remove(NAMES[:20])
    assert_holds(memory, NAMES)
    assert_holds(milvus(), NAMES)


def test_a_remove_whose_rows_are_deleted_later_is_complete(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_backend, "_MAX_RESULTS", 16)
    monkeypatch.setattr(milvus_journal, "_RANGES_PER_ROW", 3)  # of scattered items the journal keeps several rows
    memory = milvus()
    memory.add(NAMES)
    client = faulty(memory)
    client.fail("delete", GONE, call=2)

    memory.remove(NAMES[::2])

    assert memory.labels == NAMES[1::2]
    assert rows_in_collection(memory) == 24
    again = milvus()
    assert_holds(again, NAMES[1::2])
    assert rows_in_collection(again) == 20
    memory.add("new")
    assert milvus().labels == [*NAMES[1::2], "new"]


def test_an_interrupt_while_rows_are_deleted_leaves_them_removed(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES)
    faulty(memory).fail("delete", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        memory.remove(NAMES[:20])
    with pytest.raises(RuntimeError, match="create the ItemMemory again"):
        memory.cleanup(SPACE.identity())
    assert_holds(milvus(), NAMES[20:])


def test_a_failed_load_leaves_no_items_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "rows_per_chunk", lambda width: 10)
    ItemMemory(SPACE, NAMES).commit(tmp_path / "saved")
    backend = MilvusBackend(str(tmp_path / "items.db"), SPACE)
    client = FaultyClient(backend._connection.client)
    backend._connection.client = client
    client.fail("insert", GONE, call=3)
    with pytest.raises(ConnectionError):
        ItemMemory.load(tmp_path / "saved", backend=backend)
    assert len(ItemMemory(SPACE, backend="milvus", uri=str(tmp_path / "items.db"))) == 0

    loaded = ItemMemory.load(tmp_path / "saved", backend="milvus", uri=str(tmp_path / "items.db"), timeout=30)

    assert_holds(loaded, NAMES)
    with pytest.raises(ValueError, match="the backend must be empty, got one with 40 items"):
        ItemMemory.load(tmp_path / "saved", backend="milvus", uri=str(tmp_path / "items.db"))


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (GONE, r"the Milvus server at '.*items.db' failed \(server unavailable\); check that it is running"),
        (Slow(), "the Milvus server at '.*items.db' did not respond within 60 s; increase timeout="),
    ],
    ids=["gone", "slow"],
)
def test_connection_errors_name_the_operation(milvus: Milvus, failure: Exception, message: str) -> None:
    memory = milvus()
    memory.add(NAMES)
    client = faulty(memory)
    for verb in ("insert", "upsert", "delete", "search", "get"):
        client.fail_always(verb, failure)
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: memory.add("new"),
        "remove": lambda: memory.remove(NAMES[0]),
        "cleanup": lambda: memory.cleanup(SPACE.identity()),
        "vectors": lambda: memory.vectors(NAMES),
    }
    for name, call in calls.items():
        with pytest.raises(ConnectionError, match=f"ItemMemory.{name}: {message}"):
            call()
    client.mend()
    assert_holds(memory, NAMES)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://127.0.0.1:1", "the Milvus server at 'http://127.0.0.1:1' failed (Fail connecting to server"),
        ("/no/such/folder/x.db", "failed (Open local milvus failed"),
        ("elsewhere", "failed (uri: elsewhere is illegal"),
    ],
)
def test_an_unreachable_server_raises_connection_error(uri: str, message: str) -> None:
    with pytest.raises(ConnectionError, match=re.escape(message)) as caught:
        ItemMemory(SPACE, backend="milvus", uri=uri)
    assert "check that it is running and the address is correct" in str(caught.value)


def test_a_silent_server_raises_after_the_timeout() -> None:
    """The port accepts connections but never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="check that it is running"):
            ItemMemory(SPACE, backend="milvus", uri=uri, timeout=0.5)


@pytest.mark.parametrize(
    "uri",
    [
        "http://root:secret@127.0.0.1:1",
        "root:secret@127.0.0.1",
        "http://root:secret/x@127.0.0.1:1",
        "http://127.0.0.1:1/?token=secret",
    ],
)
@pytest.mark.parametrize("backend", ["milvus", "torch"])
def test_errors_do_not_contain_the_password(uri: str, backend: str) -> None:
    with pytest.raises((ConnectionError, ValueError)) as caught:
        ItemMemory(SPACE, backend=backend, uri=uri, timeout=0.5 if backend == "milvus" else None)
    error: BaseException | None = caught.value
    while error is not None:  # the traceback shows chained errors, too
        assert "secret" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_credentials_are_hidden_in_server_messages() -> None:
    uri = "http://root:p%40ss:word@host:19530"
    text = "cannot log in as root:p@ss:word (password p%40ss:word) at http://root:p%40ss:word@host, not http://a@b"
    hidden = "cannot log in as *** (password ***) at http://***@host, not http://***@b"
    assert hide_credentials(text, uri) == hidden
    assert hide_credentials("no password at http://host:1 for me@home", "http://host:1") == (
        "no password at http://host:1 for me@home"
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ItemMemory(SPACE, backend="milvus"),
            TypeError,
            'backend="milvus" needs uri, a path such as',
        ),
        (lambda: MilvusBackend("x.db", SPACE, collection="a b"), ValueError, "collection must consist of letters"),
        (
            lambda: MilvusBackend("x.db", Space(20_000, 1)),
            ValueError,
            "at most 32768 numbers per row, got 40000 for Space(",
        ),
        *[
            (
                lambda timeout=timeout: ItemMemory(SPACE, backend="milvus", uri="x.db", timeout=timeout),
                error,
                "ItemMemory: timeout must",
            )
            for timeout, error in [
                (0, ValueError),
                (-1.0, ValueError),
                (float("nan"), ValueError),
                (float("inf"), ValueError),
                ("3", TypeError),
            ]
        ],
        (lambda: ItemMemory(SPACE, timeout=3.0), ValueError, 'timeout needs backend="milvus"'),
    ],
)
def test_bad_settings_raise(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_labels_that_are_too_long_raise(milvus: Milvus) -> None:
    memory = milvus()
    with pytest.raises(ValueError, match="must have at most 65535 bytes, got 'ööö"):
        memory.add("ö" * 40_000)
    assert len(memory) == 0


# --------------------------------------------------------------------------- collections changed by other programs


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([{"id": 3, "label": "item 2"}], "39 different labels for 40 items"),
        ([{"id": -1, "label": "x"}], "the id int -1"),
        ([{"id": 1 << 61, "label": "item 1"}], "40 different labels for 41 items"),
    ],
    ids=["repeated label", "negative id", "repeated label far away"],
)
def test_rows_that_are_no_items_are_refused(milvus: Milvus, rows: list[dict[str, Any]], reason: str) -> None:
    memory = milvus()
    memory.add(NAMES)
    backend: Any = memory._items.state.backend
    insert_rows(memory, rows)
    backend._connection.client.drop_collection(backend._journal.name)  # which would not list them
    with pytest.raises(ValueError, match=f"was not written by ghrr.*{reason}"):
        milvus()


def test_labels_that_are_no_strings_are_refused(milvus: Milvus, monkeypatch: pytest.MonkeyPatch) -> None:
    milvus().add(NAMES)
    monkeypatch.setattr(MilvusBackend, "_query", lambda *given: [{"id": 0, "label": 7}])
    with pytest.raises(ValueError, match="the id int 0 and the label int 7"):
        milvus()


def test_rows_with_nan_are_refused(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES)
    broken = torch.full((2 * SPACE.total_dim,), torch.nan).numpy()
    insert_rows(memory, [{"id": 3, "label": NAMES[3], "row": broken}])
    with pytest.raises(ValueError, match=r"got NaN or infinity for the row of id 3"):
        memory.cleanup(SPACE.identity(), 40)
    with pytest.raises(ValueError, match=r"the rows of 1 items .* the first has the id 3"):
        memory.vectors(NAMES)


def test_rows_that_another_program_deleted_or_added_raise(milvus: Milvus) -> None:
    memory = milvus()
    memory.add(NAMES)
    memory.remove(NAMES[7])
    insert_rows(memory, [{"id": 7, "label": "x"}])
    with pytest.raises(RuntimeError, match="found id 7, which is not one of the 39 items"):
        memory.cleanup(SPACE.identity())
    backend: Any = memory._items.state.backend
    backend._connection.client.delete(backend._name, ids=[7, 8, 9])
    with pytest.raises(RuntimeError, match=r"expected 39 results .* got 37"):
        memory.cleanup(SPACE.identity(), 39)
    with pytest.raises(ValueError, match=r"the rows of 2 items .* missing"):
        memory.vectors([name for name in NAMES if name != NAMES[7]])
    with pytest.raises(ValueError, match="37 different labels for 39 items"):
        milvus()


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "[]",
        "{}",
        json.dumps({"version": 1, "count": 9, "next_id": 3, "unfinished": [], "removed": [], "more_removed": []}),
        json.dumps(
            {"version": 1, "count": 0, "next_id": 3, "unfinished": [[1, "2"]], "removed": [], "more_removed": []}
        ),
        json.dumps({"version": 1, "count": 0, "next_id": 3, "unfinished": [], "removed": [], "more_removed": [5]}),
    ],
)
def test_a_damaged_journal_is_refused(milvus: Milvus, text: str) -> None:
    memory = milvus()
    memory.add(NAMES)
    backend: Any = memory._items.state.backend
    backend._journal._write_rows("upsert", {0: text})
    for call in (milvus, lambda: memory.cleanup(SPACE.identity())):
        with pytest.raises(ValueError, match=r"the journal .* is damaged .* drop this collection to rebuild"):
            call()


def test_approximate_search_that_reaches_too_few_rows_looks_further(
    milvus: Milvus, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = milvus(approximate=True)
    memory.add(NAMES)
    connection: Any = memory._items.state.backend._connection  # type: ignore[attr-defined]
    search, seen = connection.client.search, []

    def few(*given: Any, search_params: dict[str, Any], **more: Any) -> Any:
        seen.append(search_params["params"]["ef"])
        hits = search(*given, search_params=search_params, **more)
        return [row[:-1] for row in hits] if len(seen) == 1 else hits

    monkeypatch.setattr(connection.client, "search", few)
    assert memory.cleanup(SPACE.vectors(NAMES[3:4]), 5).labels[0][0] == NAMES[3]
    assert seen == [64, 32_768]
    assert memory.recall(SPACE.vectors(NAMES[:5]), 3) > 0.9

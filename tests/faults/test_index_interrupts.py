"""An interrupted change of an index is complete or undone, in memory and in its folder, and the index keeps working."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ghrr import Space
from ghrr.search import RecordIndex
from tests.faults.interrupts import in_another_thread, interrupt_every_line
from tests.search.common import assert_vectors_fit

SPACE = Space(8, 1, seed=0)
OLD: dict[str, Any] = {str(n): {"name": f"name {n}", "year": 1900 + 7 * n} for n in range(6)}
NEW: dict[str, Any] = {"x": {"name": "xenon", "height": 3}, "y": {"name": "yoga", "year": 1950}}
EXAMPLES = [{"name": "name 2", "year": 1914}, {"title": "name 4", "year": 1928}, {"title": "name 5", "year": 1935}]
AFTER = {name: document for name, document in OLD.items() if name not in ("1", "3")} | NEW | {"3": {"name": "three"}}
# Interrupts of each action: each one takes a tenth of a second to a second.
few_or_many = pytest.mark.parametrize("tries", [4, pytest.param(200, marks=pytest.mark.fuzz)])
LINES = {"add": 2400, "update": 1200, "remove": 100, "learn_weights": 11_000, "save": 1500, "open": 1500}  # about
engines = pytest.mark.parametrize(
    "backend", ["torch", "faiss", "lancedb", pytest.param("milvus", marks=pytest.mark.fuzz)]
)
PACKAGES = {"faiss": "faiss", "lancedb": "lancedb", "milvus": "milvus_lite"}


class Subject(NamedTuple):
    """An index, its folder and the address of its engine."""

    records: RecordIndex
    folder: Path
    uri: str | None

    def opened(self) -> RecordIndex:
        return RecordIndex.open(self.folder, uri=self.uri)


def contents(records: RecordIndex) -> dict[str, Any]:
    return {name: records[name] for name in records.ids}


def weights(records: RecordIndex) -> list[tuple[str, float]]:
    return [(field.name, field.weight) for field in records.fields]


def assert_works(records: RecordIndex, *allowed: dict[str, Any]) -> None:
    """The index has one of the allowed contents, its vectors fit its fields, and each record is found."""
    found = contents(records)
    assert found in allowed
    assert_vectors_fit(records)
    for name, hits in zip(found, records.search_many(list(found.values()), k=20), strict=True):
        assert {hit.guess: hit.document for hit in hits} == found
        assert next(hit for hit in hits if hit.guess == name).score == pytest.approx(1)
    assert len(records.search({"name": "name"}, k=20, candidates=0)) == len(found)


@pytest.fixture
def prepare(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Subject]:
    """Return a function that opens a fresh copy of a saved index, on a disk that need not be waited for."""
    if backend in PACKAGES:
        pytest.importorskip(PACKAGES[backend])
    monkeypatch.setattr(os, "fsync", lambda file: None)
    name = {"lancedb": "lance", "milvus": "milvus.db"}.get(backend)
    first = RecordIndex(SPACE, backend=backend, uri=None if name is None else str(tmp_path / "first" / name))
    (tmp_path / "first").mkdir(exist_ok=True)
    first.add(list(OLD.values()), ids=list(OLD))
    first.save(tmp_path / "first" / "index")
    del first
    numbers = itertools.count()
    last: list[Path] = []

    def new() -> Subject:
        while last:
            shutil.rmtree(last.pop())
        path = tmp_path / str(next(numbers))
        last.append(path)
        shutil.copytree(tmp_path / "first", path)
        uri = None if name is None else str(path / name)
        return Subject(RecordIndex.open(path / "index", uri=uri), path / "index", uri)

    return new


def change(records: RecordIndex) -> None:
    records.add(list(NEW.values()), ids=list(NEW))
    records.remove("1")
    records.update([AFTER["3"]], ids=["3"])


CHANGES: dict[str, tuple[Callable[[RecordIndex], object], dict[str, Any]]] = {
    "add": (lambda records: records.add(list(NEW.values()), ids=list(NEW)), OLD | NEW),
    "update": (lambda records: records.update([AFTER["3"]], ids=["3"]), OLD | {"3": AFTER["3"]}),
    "remove": (lambda records: records.remove(["1", "3"]), {n: OLD[n] for n in OLD if n not in ("1", "3")}),
    "learn_weights": (lambda records: records.learn_weights(EXAMPLES, ["2", "4", "5"]), OLD),
}


@engines
@few_or_many
@pytest.mark.parametrize("call", CHANGES)
def test_interrupted_change_is_complete_or_undone(
    call: str, tries: int, backend: str, prepare: Callable[[], Subject]
) -> None:
    act, after = CHANGES[call]
    reference = prepare().records
    before = weights(reference)
    act(reference)
    allowed = (before, weights(reference))
    assert (allowed[0] != allowed[1]) == (call in ("add", "learn_weights"))  # negative control

    def check(subject: Subject) -> None:
        def work() -> None:
            assert_works(subject.records, OLD, after)
            assert weights(subject.records) in allowed
            assert_works(subject.opened(), OLD)
            with suppress(ValueError, KeyError):  # records that were added or removed already
                act(subject.records)
            assert_works(subject.records, after)
            subject.records.save()
            assert_works(subject.records, after)
            opened = subject.opened()
            assert_works(opened, after)
            assert weights(opened) == weights(subject.records)
            assert len(opened._records.state.memory) == len(after)  # nothing is left over

        in_another_thread(work)

    lines = interrupt_every_line(prepare, lambda subject: act(subject.records), check, step=LINES[call] // tries)
    assert lines > 1


@engines
@few_or_many
def test_interrupted_save_leaves_the_folder_before_or_after(
    tries: int, backend: str, prepare: Callable[[], Subject]
) -> None:
    def changed() -> Subject:
        subject = prepare()
        change(subject.records)
        subject.records.learn_weights(EXAMPLES[:1], ["2"])
        return subject

    before, reference = weights(prepare().records), weights(changed().records)
    assert before != reference

    def check(subject: Subject) -> None:
        def work() -> None:
            opened = subject.opened()
            assert_works(opened, OLD, AFTER)
            assert weights(opened) == (before if contents(opened) == OLD else reference)
            assert_works(subject.records, AFTER)
            subject.records.add([{"name": "last"}], ids=["last"])
            subject.records.save()
            opened = subject.opened()
            assert_works(opened, AFTER | {"last": {"name": "last"}})
            assert len(opened._records.state.memory) == len(AFTER) + 1
            assert len(list(subject.folder.glob("fields*"))) == 1

        in_another_thread(work)

    lines = interrupt_every_line(changed, lambda subject: subject.records.save(), check, step=LINES["save"] // tries)
    assert lines > 1


@few_or_many
@pytest.mark.parametrize("backend", ["torch", "faiss"])
def test_interrupted_first_save_can_be_repeated(
    tries: int, backend: str, prepare: Callable[[], Subject], tmp_path: Path
) -> None:
    numbers = itertools.count()

    def unsaved() -> Subject:
        records = RecordIndex(SPACE, backend=backend)
        records.add(list(OLD.values()), ids=list(OLD))
        return Subject(records, tmp_path / f"new {next(numbers)}", None)

    def check(subject: Subject) -> None:
        def work() -> None:
            with suppress(FileNotFoundError):  # if the save took no effect
                assert_works(subject.opened(), OLD)
            assert_works(subject.records, OLD)
            change(subject.records)
            subject.records.save(subject.folder)
            assert_works(subject.records, AFTER)
            assert_works(subject.opened(), AFTER)

        in_another_thread(work)

    lines = interrupt_every_line(
        unsaved, lambda subject: subject.records.save(subject.folder), check, step=LINES["save"] // tries
    )
    assert lines > 1


@engines
@few_or_many
def test_interrupted_open_leaves_the_folder_as_it_was(tries: int, backend: str, prepare: Callable[[], Subject]) -> None:
    subject = prepare()
    files = sorted(path.relative_to(subject.folder) for path in subject.folder.rglob("*"))

    def check(subject: Subject) -> None:
        assert sorted(path.relative_to(subject.folder) for path in subject.folder.rglob("*")) == files
        assert_works(subject.opened(), OLD)

    lines = interrupt_every_line(lambda: subject, Subject.opened, check, step=LINES["open"] // tries)
    assert lines > 1

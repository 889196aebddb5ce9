"""An interrupted change of a memory or codebook is complete or undone, and the object keeps working."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ghrr import Space
from ghrr.encoding import Codebook
from ghrr.memory import ItemMemory
from tests.faults.interrupts import in_another_thread, interrupt_every_line

SPACE = Space(4, 2)
OLD = ["a", "b", "c"]
NEW = ["d", "e"]
BACKENDS = ("torch", "faiss")
# Actions that write files take long: every line in the long campaign only.
some_or_all = pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.fuzz)])


def assert_works(memory: ItemMemory, *allowed: list[str]) -> None:
    """The memory holds one of the allowed lists of labels, reads and finds all of them, and can be changed."""

    def check() -> None:
        labels = memory.labels
        assert labels in allowed
        assert len(memory) == len(labels)
        vectors = memory.space.vectors(labels)
        assert torch.equal(memory.vectors(labels), vectors)
        assert memory.cleanup(vectors, 10).scores.shape == (len(labels), len(labels))
        assert [best for best, *_ in memory.cleanup(vectors, 2).labels] == labels
        memory.add("later")
        assert memory.cleanup(memory.space.vectors(["later"])).labels == [["later"]]
        memory.remove("later")
        assert memory.labels == labels

    in_another_thread(check)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Make new folders, on a disk that need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    numbers = itertools.count()

    def new() -> Path:
        path = tmp_path / str(next(numbers))
        path.mkdir()
        return path

    return new


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupted_add_is_complete_or_undone(backend: str) -> None:
    def check(memory: ItemMemory) -> None:
        assert_works(memory, OLD, OLD + NEW)
        missing = [name for name in NEW if name not in memory]
        memory.add(missing)
        assert_works(memory, OLD + NEW)

    lines = interrupt_every_line(lambda: ItemMemory(SPACE, OLD, backend=backend), lambda memory: memory.add(NEW), check)
    assert lines > 50  # negative control: lines were interrupted


@pytest.mark.parametrize("backend", BACKENDS)
def test_interrupted_remove_is_complete_or_undone(backend: str) -> None:
    lines = interrupt_every_line(
        lambda: ItemMemory(SPACE, OLD + NEW, backend=backend),
        lambda memory: memory.remove(["b", "e", "d"]),
        lambda memory: assert_works(memory, OLD + NEW, ["a", "c"]),
    )
    assert lines > 30


@some_or_all
def test_interrupted_save_keeps_the_old_file_or_has_the_new_one(step: int, folders: Callable[[], Path]) -> None:
    def prepare() -> tuple[ItemMemory, Path]:
        path = folders() / "file"
        memory = ItemMemory(SPACE, OLD)
        memory.save(path, about={"version": 1})
        memory.add(NEW)
        return memory, path

    def check(subject: tuple[ItemMemory, Path]) -> None:
        memory, path = subject
        assert memory.about in ({"version": 1}, {"version": 2})
        saved = ItemMemory.load(path)
        assert (saved.labels, saved.about) in ((OLD, {"version": 1}), (OLD + NEW, {"version": 2}))
        assert_works(memory, OLD + NEW)
        memory.save(path)
        assert ItemMemory.load(path).labels == OLD + NEW

    lines = interrupt_every_line(
        prepare, lambda subject: subject[0].save(subject[1], about={"version": 2}), check, step=step
    )
    assert lines * step > 50


@some_or_all
@pytest.mark.parametrize("opened", [False, True])
def test_interrupted_commit_can_be_committed_again(opened: bool, step: int, folders: Callable[[], Path]) -> None:
    after = ["a", "c", *NEW]

    def prepare() -> tuple[ItemMemory, Path]:
        path = folders()
        memory = ItemMemory(SPACE, [*OLD, "x"])
        memory.commit(path)
        memory = ItemMemory.open(path) if opened else memory
        memory.add(NEW)
        memory.remove(["b", "x"])
        return memory, path

    def check(subject: tuple[ItemMemory, Path]) -> None:
        memory, path = subject
        assert ItemMemory.open(path).labels in ([*OLD, "x"], after)
        memory.add("last")
        memory.commit()
        assert_works(memory, [*after, "last"])
        assert_works(ItemMemory.open(path), [*after, "last"])

    lines = interrupt_every_line(prepare, lambda subject: subject[0].commit(), check, step=step)
    assert lines * step > 100


@some_or_all
@pytest.mark.parametrize("read", [ItemMemory.open, ItemMemory.load])
def test_interrupted_reading_leaves_the_folder_readable(read: Any, step: int, folders: Callable[[], Path]) -> None:
    path = folders()
    ItemMemory(SPACE, OLD).commit(path / "folder")
    lines = interrupt_every_line(
        lambda: path / "folder", read, lambda folder: assert_works(ItemMemory.open(folder), OLD), step=step
    )
    assert lines * step > 100


def assert_consistent(book: Codebook, *allowed: list[str]) -> None:
    def check() -> None:
        names = book.names
        assert names in allowed
        assert len(book) == len(names)
        assert torch.equal(book.vectors(), SPACE.vectors(names))
        assert torch.equal(book(names), SPACE.vectors(names))
        book.add(["later"])
        assert book.names == [*names, "later"]

    in_another_thread(check)


CODEBOOK_CALLS: dict[str, tuple[Callable[[Codebook], object], list[str]]] = {
    "add": (lambda book: book.add(NEW), OLD + NEW),
    "encode": (lambda book: book([NEW, ["a", "e"]]), OLD + NEW),
    "load": (lambda book: book.set_extra_state(["x", "y"]), ["x", "y"]),
    "move": (lambda book: book.to("cpu"), OLD),
}


@pytest.mark.parametrize("call", CODEBOOK_CALLS)
def test_interrupted_codebook_stays_consistent(call: str) -> None:
    act, after = CODEBOOK_CALLS[call]
    lines = interrupt_every_line(
        lambda: Codebook(SPACE, OLD, unseen="add"), act, lambda book: assert_consistent(book, OLD, after)
    )
    assert lines > 3

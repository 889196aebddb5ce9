"""Copies and pickles of an item memory are independent, and notice a replaced file."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from ghrr import Space
from ghrr.memory import ItemMemory

SPACE = Space(10, 2)
NAMES = [f"item {i}" for i in range(6)]


def pickled(memory: ItemMemory) -> ItemMemory:
    again = pickle.loads(pickle.dumps(memory))
    assert isinstance(again, ItemMemory)
    return again


COPIES: dict[str, Callable[[ItemMemory], ItemMemory]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickled,
}


def assert_holds(memory: ItemMemory, labels: list[str]) -> None:
    assert memory.labels == labels
    vectors = SPACE.vectors(labels)
    assert torch.equal(memory.vectors(labels), vectors)
    assert memory.cleanup(vectors).labels == [[label] for label in labels]


@pytest.mark.parametrize("kind", COPIES)
def test_copy_of_an_opened_memory_outlives_the_original(kind: str, tmp_path: Path) -> None:
    """The number of a closed file is given to the next one that is opened: a copy must not read that."""
    ItemMemory(SPACE, NAMES).save(tmp_path / "x")
    ItemMemory(SPACE, NAMES, -SPACE.vectors(NAMES)).save(tmp_path / "other")
    memory = ItemMemory.open(tmp_path / "x")
    other = COPIES[kind](memory)
    del memory
    with open(tmp_path / "other", "rb"):  # takes the free number
        assert_holds(other, NAMES)
        other.verify()


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("backend", ["torch", "faiss"])
def test_changes_of_a_copy_do_not_show_in_the_original(kind: str, backend: str) -> None:
    memory = ItemMemory(SPACE, NAMES, backend=backend)
    assert_holds(COPIES[kind](ItemMemory(SPACE, backend=backend)), [])
    memory.remove(NAMES[1])
    left = [name for name in NAMES if name != NAMES[1]]
    other = COPIES[kind](memory)
    memory.add("in the original")
    other.add(["in the copy", "and more"])
    other.remove(NAMES[0])
    assert_holds(memory, [*left, "in the original"])
    assert_holds(other, [*left[1:], "in the copy", "and more"])


def test_opened_memory_with_changes_is_pickled_with_them(tmp_path: Path) -> None:
    ItemMemory(SPACE, NAMES).commit(tmp_path)
    memory = ItemMemory.open(tmp_path)
    memory.add("new")
    memory.remove(NAMES[2])
    other = pickled(memory)
    assert_holds(other, memory.labels)
    other.commit()
    assert_holds(ItemMemory.open(tmp_path), memory.labels)


@pytest.mark.parametrize("storage", ["float32", "bfloat16", "float16", "int8"])
def test_pickle_keeps_every_storage(storage: str) -> None:
    memory = ItemMemory(SPACE, NAMES, storage=storage)
    other = pickled(memory)
    assert other.storage == storage
    assert torch.equal(other.vectors(NAMES), memory.vectors(NAMES))


def test_pickle_of_a_replaced_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    ItemMemory(SPACE, NAMES).save(path)
    memory = ItemMemory.open(path)
    content = pickle.dumps(memory)
    ItemMemory(SPACE, NAMES, -SPACE.vectors(NAMES)).save(path)
    with pytest.raises(ValueError, match="was replaced since the memory was pickled"):
        pickle.loads(content)
    assert_holds(memory, NAMES)  # the one that is open reads its own file
    assert_holds(copy.copy(memory), NAMES)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no such file"):
        pickle.loads(content)


def test_relative_path_is_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ItemMemory(SPACE, NAMES).save("x")
    content = pickle.dumps(ItemMemory.open("x"))
    monkeypatch.chdir("/")
    assert_holds(pickle.loads(content), NAMES)


def overwrite(path: Path, memory: ItemMemory) -> None:
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # clocks of some file systems are coarse


def truncate(path: Path, memory: ItemMemory) -> None:
    os.truncate(path, 100)


def take_the_handle(path: Path, memory: ItemMemory) -> None:
    """Another file gets the number under which the file of the memory was open."""
    (segment,) = memory._items.state.backend.segments  # type: ignore[attr-defined]
    handle = os.open("/dev/null", os.O_RDONLY)
    os.dup2(handle, segment._file._handle)
    os.close(handle)


@pytest.mark.parametrize("change", [overwrite, truncate, take_the_handle])
def test_file_that_changes_under_an_opened_memory_is_noticed(
    change: Callable[[Path, ItemMemory], None], tmp_path: Path
) -> None:
    path = tmp_path / "x"
    ItemMemory(SPACE, NAMES).save(path)
    memory = ItemMemory.open(path)
    assert_holds(memory, NAMES)  # negative control
    change(path, memory)
    reads: tuple[Callable[[], Any], ...] = (
        lambda: memory.cleanup(SPACE.vectors(NAMES)),
        lambda: memory.vectors(NAMES),
        memory.verify,
    )
    for read in reads:
        with pytest.raises(ValueError, match="the open file was changed or closed"):
            read()


def test_memory_works_in_a_forked_process(tmp_path: Path) -> None:
    ItemMemory(SPACE, NAMES).save(tmp_path / "x")
    memory = ItemMemory.open(tmp_path / "x")
    child = os.fork()
    if child == 0:
        try:
            assert_holds(memory, NAMES)
            del memory
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert_holds(memory, NAMES)


class Labels(Dataset[str]):
    def __init__(self, memory: ItemMemory) -> None:
        self.memory, self.queries = memory, torch.view_as_real(SPACE.vectors(memory.labels))

    def __len__(self) -> int:
        return len(self.memory)

    def __getitem__(self, index: int) -> str:
        label = self.memory.cleanup(torch.view_as_complex(self.queries[index])).labels[0]
        assert isinstance(label, str)
        return label


def test_memory_works_in_spawned_workers(tmp_path: Path) -> None:
    ItemMemory(SPACE, NAMES).save(tmp_path / "x")
    memory = ItemMemory.open(tmp_path / "x")
    memory.add("new")
    batches = list(DataLoader(Labels(memory), batch_size=4, num_workers=1, multiprocessing_context="spawn"))
    assert [label for batch in batches for label in batch] == [*NAMES, "new"]


def test_copy_of_a_memory_in_milvus_is_refused(tmp_path: Path) -> None:
    memory = ItemMemory(SPACE, ["a"], backend="milvus", uri=str(tmp_path / "items.db"))
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            act(memory)

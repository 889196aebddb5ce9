"""Threads that add, remove, search and save in one memory or codebook see complete changes only."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ghrr import Space
from ghrr.encoding import Codebook
from ghrr.memory import ItemMemory
from tests.faults.threads import run_threads
from tests.helpers import rounding

SPACE = Space(30, 2)
short_or_long = pytest.mark.parametrize("rounds", [10, pytest.param(200, marks=pytest.mark.fuzz)])


def assert_atoms(vectors: Tensor, names: list[str]) -> None:
    """The vectors are the atoms of the names, to rounding, which depends on how many are made at a time."""
    assert (vectors - SPACE.vectors(names)).abs().max() < rounding(torch.float32) if names else not len(vectors)


class Pairs:
    """A memory of pairs of items that are added together and removed together, by several threads."""

    def __init__(self, **settings: Any) -> None:
        self.memory = ItemMemory(SPACE, ["fixed left", "fixed right"], **settings)
        self.writers = 0

    def writer(self) -> Callable[[random.Random], None]:
        """Each writer has pairs of its own; it knows which of them are there."""
        self.writers += 1
        number, here = self.writers, list[int]()

        def write(chance: random.Random) -> None:
            if here and chance.random() < 0.45:
                pair = here.pop(chance.randrange(len(here)))
                self.memory.remove(self.names(number, pair))
            else:
                pair = chance.randrange(10**9)
                self.memory.add(self.names(number, pair))
                here.append(pair)
                assert self.memory.cleanup(SPACE.vectors(self.names(number, pair))).labels == [
                    [name] for name in self.names(number, pair)
                ]

        return write

    @staticmethod
    def names(writer: int, pair: int) -> list[str]:
        return [f"{writer}.{pair} left", f"{writer}.{pair} right"]

    @staticmethod
    def assert_whole(labels: list[str]) -> None:
        pairs = [label.rpartition(" ")[0] for label in labels]
        assert len(set(labels)) == len(labels)
        assert all(pairs.count(pair) == 2 for pair in pairs)

    def search(self, chance: random.Random) -> None:
        labels = self.memory.labels
        self.assert_whole(labels)
        pair = chance.choice(labels).rpartition(" ")[0]
        both = SPACE.vectors([f"{pair} left", f"{pair} right"]).sum(dim=0)
        found = {label for label in self.memory.cleanup(both, 2).labels if label.startswith(f"{pair} ")}
        assert len(found) in (0, 2)
        match = self.memory.match(SPACE.vectors(["fixed right"])[0])
        assert not isinstance(match, list)
        assert match.label == "fixed right"

    def read(self, chance: random.Random) -> None:
        labels = [label for label in self.memory.labels if chance.random() < 0.5]
        try:
            vectors = self.memory.vectors(labels)
        except KeyError:  # removed meanwhile
            return
        assert_atoms(vectors, labels)

    def assert_right(self) -> None:
        labels = self.memory.labels
        self.assert_whole(labels)
        vectors = SPACE.vectors(labels)
        assert_atoms(self.memory.vectors(labels), labels)
        assert self.memory.cleanup(vectors).labels == [[label] for label in labels]


@short_or_long
def test_threads_change_and_read_one_memory(rounds: int, tmp_path: Path) -> None:
    pairs = Pairs()
    pairs.memory.commit(tmp_path / "folder")
    pairs.memory = ItemMemory.open(tmp_path / "folder")

    def save(chance: random.Random) -> None:
        pairs.memory.commit()
        pairs.memory.save(tmp_path / "file")
        for path in (tmp_path / "folder", tmp_path / "file"):
            saved = Pairs()
            saved.memory = ItemMemory.open(path)
            saved.assert_right()

    writers = [pairs.writer() for _ in range(3)]
    run_threads(rounds, *writers, pairs.search, pairs.search, pairs.read, pairs.read, save)
    pairs.assert_right()
    pairs.memory.commit()
    assert ItemMemory.load(tmp_path / "folder").labels == pairs.memory.labels


def test_threads_change_and_read_a_memory_in_faiss() -> None:
    pairs = Pairs(backend="faiss")
    run_threads(100, pairs.writer(), pairs.writer(), pairs.search, pairs.read)
    pairs.assert_right()


@short_or_long
def test_threads_grow_one_codebook(rounds: int) -> None:
    book = Codebook(SPACE, unseen="add")

    def encode(chance: random.Random) -> None:
        names = [str(chance.randrange(200)) for _ in range(3)]
        assert_atoms(book(names), names)

    def read(chance: random.Random) -> None:
        count = len(book)
        assert len(book.names) >= count
        if count:
            assert_atoms(book(torch.tensor([count - 1])), [book.names[count - 1]])

    def move(chance: random.Random) -> None:
        book.to("cpu")

    run_threads(10 * rounds, *[encode] * 5, read, read, move)
    assert len(set(book.names)) == len(book) == len(book.vectors())
    assert_atoms(book.vectors(), book.names)

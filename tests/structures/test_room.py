"""Memory that another thread touches is used, once, and changes no result."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import ghrr
from ghrr.structures import Record, Scale, codec
from ghrr.structures.room import room_ahead

LARGE = (1 << 10, 1 << 9, 1, 1)
DOCUMENTS: list[Any] = [{"name": f"word {n % 7}", "size": n, "list": [n % 3, None]} for n in range(600)]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_large_memory_is_there_and_small_is_not_worth_it() -> None:
    room = room_ahead(LARGE, torch.complex64)()
    assert room is not None
    assert (room.shape, room.dtype) == (LARGE, torch.complex64)
    assert not room.any()  # all of it was touched
    assert room_ahead((1, *LARGE[1:]), torch.complex64)() is None


def test_one_thread_is_not_made_two() -> None:
    torch.set_num_threads(1)
    assert room_ahead(LARGE, torch.complex64)() is None


def test_where_no_thread_can_be_had_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert room_ahead(LARGE, torch.complex64)() is None


@pytest.mark.parametrize("numbers", [None, Scale(0, 1000, bandwidth=5)])
@pytest.mark.parametrize("backend", ["numba", "torch", "reference"])
def test_records_are_the_same_to_the_bit(backend: str, numbers: Scale | None, monkeypatch: pytest.MonkeyPatch) -> None:
    space = ghrr.Space(dim=250, m=2, seed=0)
    made = []

    def poisoned(shape: tuple[int, ...], dtype: torch.dtype) -> Any:
        made.append(torch.full(shape, torch.nan, dtype=dtype))
        return lambda: made[-1]

    with ghrr.backend(backend):
        torch.set_num_threads(1)
        want = Record(space, numbers=numbers).encode_many(DOCUMENTS)
        torch.set_num_threads(2)
        assert torch.equal(Record(space, numbers=numbers).encode_many(DOCUMENTS), want)
        monkeypatch.setattr(codec, "room_ahead", poisoned)
        got = Record(space, numbers=numbers).encode_many(DOCUMENTS)
    assert torch.equal(got, want)
    assert (got.data_ptr() == made[-1].data_ptr()) == (backend == "numba")


def test_an_error_in_a_large_batch_is_raised_as_in_a_small_one() -> None:
    codec = Record(ghrr.Space(dim=1000, m=1))
    with pytest.raises(TypeError, match=r"Record: name: .* cannot be encoded"):
        codec.encode_many([*DOCUMENTS, {"name": object()}])
    assert codec.encode_many(DOCUMENTS).isfinite().all()

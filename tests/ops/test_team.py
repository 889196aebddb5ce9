"""Products divided between PyTorch's own threads: complete, also in a forked process and without OpenMP."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch

from ghrr import ops
from ghrr.ops import reference
from ghrr.ops.cpu import loops, team
from tests.helpers import gaussian


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of threads of products that were divided."""
    seen: list[int] = []
    original = team.bind_flat

    def record(threads: int, *arguments: int) -> None:
        seen.append(threads)
        original(threads, *arguments)

    monkeypatch.setattr(team, "bind_flat", record)
    return seen


def pair(m: int, numbers: int = team.MIN_NUMBERS) -> tuple[torch.Tensor, torch.Tensor]:
    dim = numbers // m**2 + 1
    return gaussian(dim, m, m, seed=0), gaussian(dim, m, m, seed=1)


@pytest.mark.skipif(not team._start, reason="PyTorch has no GNU OpenMP here")
@pytest.mark.parametrize("m", [2, 3, 4, 7])
def test_divided_product_equals_reference(m: int, calls: list[int]) -> None:
    a, b = pair(m)
    torch.testing.assert_close(ops.bind(a, b, True, False), reference.bind(a, b, adjoint_a=True))
    assert calls == [2]


@pytest.mark.skipif(not team._start, reason="PyTorch has no GNU OpenMP here")
@pytest.mark.parametrize("threads", [1, 3, 50])
def test_all_parts_are_computed_for_any_number_of_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "threads_for", lambda numbers: threads)
    a, b = pair(3)
    torch.testing.assert_close(ops.bind(a, b), reference.bind(a, b))


@pytest.mark.parametrize("threads", [1, 2])
def test_small_products_and_single_threads_are_not_divided(threads: int, calls: list[int]) -> None:
    torch.set_num_threads(threads)
    ops.bind(*pair(3, team.MIN_NUMBERS if threads == 1 else team.MIN_NUMBERS // 2))
    assert calls == []


def test_product_without_openmp_equals_reference(monkeypatch: pytest.MonkeyPatch, calls: list[int]) -> None:
    monkeypatch.setattr(team, "_start", 0)
    a, b = pair(3)
    torch.testing.assert_close(ops.bind(a, b), reference.bind(a, b))
    assert calls == []


def test_missing_library_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise OSError("not loaded")

    monkeypatch.setattr("ctypes.CDLL", refuse)
    assert team._find() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_binds() -> None:
    """The threads of OpenMP do not exist in a forked process: waiting for them would never end."""
    a, b = pair(3)
    want = ops.bind(a, b)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(20)
            got = ops.bind(a, b)
            torch.set_num_threads(1)  # PyTorch itself would wait for its threads
            os._exit(0 if got.equal(want) and not team._start else 1)
        except BaseException:  # nothing of the test runner may run in this process
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_divided_product_differs_if_a_part_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the comparison notices a product of half of the slots."""
    a, b = pair(3)
    want = ops.bind(a, b)

    def half(threads: int, *arguments: int) -> None:
        *start, count, slot = arguments
        loops.bind_flat(*start, count // 2, slot)

    monkeypatch.setattr(team, "threads_for", lambda numbers: 2)
    monkeypatch.setattr(team, "bind_flat", half)
    got = ops.bind(a, b)
    half_of_slots = len(a) // 2
    assert got[:half_of_slots].equal(want[:half_of_slots])
    assert not got[half_of_slots:].equal(want[half_of_slots:])

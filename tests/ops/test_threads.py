"""run_in_threads: every row once, errors raised, memory kept while threads write."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pytest
import torch

from ghrr.ops import threads
from ghrr.ops.cpu import products as cpu_products
from ghrr.ops.threads import run_in_threads


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("calls_torch", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 10])
def test_every_row_is_processed_once(rows: int, calls_torch: bool) -> None:
    done: list[int] = []
    run_in_threads(lambda part: done.extend(range(part.start, part.stop)), rows, calls_torch=calls_torch)
    assert sorted(done) == list(range(rows))


def test_work_that_calls_pytorch_runs_in_single_threaded_workers() -> None:
    seen: set[tuple[int, int]] = set()
    run_in_threads(lambda part: seen.add((threading.get_ident(), torch.get_num_threads())), 3, calls_torch=True)
    assert threading.get_ident() not in {thread for thread, _ in seen}
    assert {count for _, count in seen} == {1}
    with ThreadPoolExecutor(1) as pool:
        assert torch.get_num_threads() == pool.submit(torch.get_num_threads).result() == 3


@pytest.mark.parametrize("failing", [0, 2])
def test_error_is_raised_after_other_threads_finish(failing: int) -> None:
    ended = []

    def work(part: slice) -> None:
        if part.start == failing:
            raise KeyError(failing)
        time.sleep(0.05)
        ended.append(part.start)

    with pytest.raises(KeyError, match=str(failing)):
        run_in_threads(work, 3)
    assert sorted(ended) == sorted({0, 1, 2} - {failing})


@pytest.mark.parametrize("what", ["submit", "start"])
def test_caller_does_all_work_without_threads(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> NoReturn:
        raise RuntimeError("no thread is to be had")

    owner = ThreadPoolExecutor if what == "submit" else threading.Thread
    if what == "submit":
        run_in_threads(lambda part: None, 3)  # the pool exists, but accepts no more work
    else:
        threads._pool.cache_clear()
    monkeypatch.setattr(owner, what, refuse)
    seen = []
    run_in_threads(lambda part: seen.append(threading.get_ident()), 3)
    assert seen == [threading.get_ident()] * 3
    assert torch.get_num_threads() == 3
    threads._pool.cache_clear()


def test_memory_outlives_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C other threads still write to addresses, so the memory must stay allocated."""

    def interrupt(waiting: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "wait", interrupt)
    go, memory = threading.Event(), torch.zeros(1)
    alive, caller = weakref.ref(memory), threading.get_ident()

    def work(part: slice) -> None:
        if threading.get_ident() != caller:
            go.wait()

    with pytest.raises(KeyboardInterrupt):
        cpu_products.run_loop_in_threads(work, 2, keep=(memory,))
    del memory
    assert alive() is not None
    go.set()
    for _ in range(100):
        if alive() is None:
            return
        time.sleep(0.01)
    pytest.fail("the memory is never given back")


def test_incomplete_pool_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    threads._pool.cache_clear()
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_one(self: threading.Thread) -> None:
        if started:
            raise RuntimeError("no second thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    done: list[int] = []
    run_in_threads(lambda part: done.append(part.start), 3)
    assert sorted(done) == [0, 1, 2]
    threads._pool.cache_clear()

"""Work shared out over threads.

Each process has a pool of its own, whose threads stay: a fork takes a pool along, but not its threads. In them torch
uses no further ones, which would be more than there are cores.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch


def share_out(work: Callable[[slice], Any], rows: int, *, calls_torch: bool = False) -> None:
    """Do ``work`` for slices that make up so many rows, side by side in as many threads as torch uses.

    The calling thread does its share too, unless ``work`` calls torch, which would use further threads there. ``work``
    must keep alive what it writes to: if this is interrupted, threads may go on for a while. Where no thread can be
    had, as when the interpreter ends, everything is done here.

    Examples
    --------
    >>> from ghrr.ops.threads import share_out
    >>> done = [False] * 10
    >>> def work(part):
    ...     done[part] = [True] * (part.stop - part.start)
    >>> share_out(work, 10)
    >>> all(done)
    True
    """
    count = max(1, min(torch.get_num_threads(), rows))
    edges = [rows * n // count for n in range(count + 1)]
    parts = [slice(*pair) for pair in itertools.pairwise(edges)]
    away = 0 if count == 1 else count - (not calls_torch)  # so many go to other threads
    waiting: list[Future[Any]] = []
    try:
        pool = _pool(os.getpid(), away) if away else None
        while pool is not None and len(waiting) < away:
            try:
                waiting.append(pool.submit(work, parts[len(waiting)]))
            except RuntimeError:  # the interpreter ends
                pool = None
        for part in parts[len(waiting) :]:
            work(part)
    finally:
        wait(waiting)
    for one in waiting:
        one.result()


@functools.cache
def _pool(process: int, count: int) -> ThreadPoolExecutor | None:
    """Threads that have all been started, or None if that is not possible."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=f"ghrr-{process}")
    threads, ready = torch.get_num_threads(), threading.Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # a thread takes over the number of the process when it first asks, not later
        torch.set_num_threads(1)
        ready.wait()

    try:
        for _ in range(count):
            pool.submit(begin)
        ready.wait()
    except RuntimeError:  # no thread can be started; a broken barrier is one too
        ready.abort()
        return None
    finally:
        torch.set_num_threads(threads)  # which is also that of threads to come
    return pool

"""Work divided between threads.

Each process has its own pool of threads: a forked process inherits the pool object but not its threads. Inside these
threads PyTorch uses no further threads, which would be more than there are cores.
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

from ghrr._calls import in_this_call


def run_in_threads(work: Callable[[slice], Any], rows: int, *, calls_torch: bool = False) -> None:
    """Call ``work`` with slices that cover ``range(rows)``, in as many threads as PyTorch uses.

    The calling thread takes one slice too, unless ``work`` calls PyTorch, which would start more threads there.
    ``work`` must keep a reference to everything it writes to: after an interrupt, threads may keep running for a while.
    If no thread can be started, as while the interpreter shuts down, the calling thread does everything.

    Examples
    --------
    >>> from ghrr.ops.threads import run_in_threads
    >>> done = [False] * 10
    >>> def work(rows):
    ...     done[rows] = [True] * (rows.stop - rows.start)
    >>> run_in_threads(work, 10)
    >>> all(done)
    True
    """
    count = max(1, min(torch.get_num_threads(), rows))
    edges = [rows * n // count for n in range(count + 1)]
    slices = [slice(*pair) for pair in itertools.pairwise(edges)]
    submitted = 0 if count == 1 else count - (not calls_torch)
    futures: list[Future[Any]] = []
    try:
        pool = _pool(os.getpid(), submitted) if submitted else None
        while pool is not None and len(futures) < submitted:
            try:
                futures.append(pool.submit(in_this_call(work), slices[len(futures)]))
            except RuntimeError:  # the interpreter shuts down
                pool = None
        for remaining in slices[len(futures) :]:
            work(remaining)
    finally:
        wait(futures)
    for future in futures:
        future.result()


@functools.cache
def _pool(process: int, count: int) -> ThreadPoolExecutor | None:
    """Return a pool whose threads have all started, or None if that is not possible."""
    pool = ThreadPoolExecutor(count, thread_name_prefix=f"ghrr-{process}")
    threads, ready = torch.get_num_threads(), threading.Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # a thread copies the setting of the process at its first call, and not later
        torch.set_num_threads(1)
        ready.wait()

    try:
        for _ in range(count):
            pool.submit(begin)
        ready.wait()
    except RuntimeError:  # no thread can be started; a broken barrier is a RuntimeError too
        ready.abort()
        return None
    finally:
        torch.set_num_threads(threads)  # also the setting of threads started later
    return pool

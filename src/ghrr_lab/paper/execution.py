"""Compute trials in this process, in several processes, or on a dask cluster, with identical results.

Each trial uses one thread, so sums are taken in the same order everywhere, and has its own random generator.
"""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import pandas as pd
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

import ghrr
from ghrr_lab.paper.experiment import Params, Settings
from ghrr_lab.paper.journal import Trial, as_columns
from ghrr_lab.paper.registry import ALL

WORKER_TIMEOUT = 20.0  # seconds to wait for a new worker after a cluster has lost all of them
_CONNECT_SECONDS = 10.0  # to wait for the scheduler


class ComputeError(RuntimeError):
    """The processes that compute trials have died."""


class ClusterError(ComputeError):
    """The dask cluster cannot be reached, cannot be used, or has died."""


@dataclass(frozen=True)
class Task:
    """A trial to compute."""

    experiment: str
    settings: Settings
    seed: int
    number: int
    params: Params


def run_tasks(tasks: Sequence[Task], *, jobs: int = 1, dask: str | None = None) -> Iterator[tuple[Task, Trial]]:
    """Compute trials and yield each one as soon as it is finished, in any order.

    Parameters
    ----------
    tasks
        The trials to compute.
    jobs
        Number of processes.
    dask
        Address of a dask scheduler, such as ``"tcp://host:8786"``, whose workers compute the trials.
    """
    if dask is not None:
        yield from _run_on_dask(tasks, dask)
    elif jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield _run_task(task)
    else:
        # If this process is killed, its idle workers exit after 30 seconds instead of five minutes.
        with (
            warnings.catch_warnings(),
            joblib.parallel_config(backend="loky", inner_max_num_threads=1, idle_worker_timeout=30),
        ):
            # loky warns when it replaces a worker that uses much memory; no trial is lost.
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            try:
                yield from parallel(joblib.delayed(_run_task)(task) for task in tasks)
            except TerminatedWorkerError as error:
                raise ComputeError(
                    "a worker process was killed, possibly for lack of memory; use a smaller --jobs"
                ) from error


def _run_on_dask(tasks: Sequence[Task], address: str) -> Iterator[tuple[Task, Trial]]:
    # joblib's dask backend is not used: with a single worker it silently computes in this process.
    from dask.distributed import CancelledError, Client, KilledWorker, as_completed  # noqa: PLC0415 (optional)

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # errors are raised, so do not log them too
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ClusterError(f"cannot connect to a dask scheduler at {address}: {error}") from error
    try:
        _check_workers(client, address)
        futures = client.map(_run_task, tasks, pure=False)
        done: Any = as_completed(futures, loop=client.loop)  # type: ignore[no-untyped-call]
        finished: deque[Any] = deque()
        last_seen = time.monotonic()
        while finished or done.count():
            while done.has_ready():
                finished.append(next(done))
            result = None
            if finished:
                with contextlib.suppress(TimeoutError):  # the worker that has the result may have died
                    result = finished[0].result(timeout=1)
            if result is not None:
                finished.popleft()
                yield result
            elif client.scheduler_info()["workers"]:
                last_seen = time.monotonic()
                time.sleep(0.01)
            elif time.monotonic() - last_seen > WORKER_TIMEOUT:
                raise ClusterError(f"the dask cluster at {address} has had no workers for {WORKER_TIMEOUT:g} s")
            else:
                time.sleep(0.1)
    except (OSError, CancelledError) as error:
        raise ClusterError(f"lost the connection to the dask cluster at {address}") from error
    except KilledWorker as error:
        raise ClusterError(f"workers of the dask cluster at {address} were killed during a trial: {error}") from error
    finally:
        client.close(timeout=2)  # type: ignore[no-untyped-call]


def _check_workers(client: Any, address: str) -> None:
    if not client.scheduler_info()["workers"]:
        raise ClusterError(f"the dask scheduler at {address} has no workers; start some with: dask worker {address}")
    versions = set(client.run(_version).values())
    if versions != {ghrr.__version__}:
        found = ", ".join(sorted(versions))
        raise ClusterError(
            f"the workers at {address} have ghrr {found}, expected {ghrr.__version__}; install the same version"
        )


def _version() -> str:
    return ghrr.__version__


def _run_task(task: Task) -> tuple[Task, Trial]:
    experiment = ALL[task.experiment]
    generator = ghrr.Space(1, 1, seed=task.seed).generator(f"{task.experiment} {task.number}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = time.perf_counter()
    try:
        table = experiment.run_trial(task.settings, task.params, generator)
    finally:
        torch.set_num_threads(threads)
    return task, Trial(task.number, pd.DataFrame(as_columns(table)), time.perf_counter() - start)

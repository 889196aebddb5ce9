"""Computing trials: here, in several processes, or on a dask cluster. The numbers do not depend on where.

Each trial runs with one thread, so that sums are taken in the same order everywhere, and draws from a generator of its
own.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import joblib
import pandas as pd
import torch
from joblib.externals.loky.process_executor import TerminatedWorkerError

import ghrr
from ghrr.paper.claims import EXPERIMENTS
from ghrr.paper.experiment import Params, Settings
from ghrr.paper.journal import Trial, as_columns

PATIENCE = 20.0  # seconds to wait for a cluster that has lost all its workers


class ComputeError(RuntimeError):
    """The processes that should compute are gone."""


class ClusterError(ComputeError):
    """The dask cluster does not answer, does not fit, or went away."""


@dataclass(frozen=True)
class Task:
    """A trial to be computed."""

    experiment: str
    settings: Settings
    seed: int
    number: int
    params: Params


def compute(tasks: Sequence[Task], *, jobs: int = 1, dask: str | None = None) -> Iterator[tuple[Task, Trial]]:
    """Compute trials and give each as soon as it is done, in any order.

    Parameters
    ----------
    tasks
        What to compute.
    jobs
        How many processes share the work.
    dask
        The address of a dask scheduler, such as ``"tcp://host:8786"``; its workers then do the work.
    """
    if dask is not None:
        yield from _on_dask(tasks, dask)
    elif jobs == 1 or len(tasks) <= 1:
        for task in tasks:
            yield _run(task)
    else:
        # Should this process be killed, its idle workers go after half a minute instead of five.
        with (
            warnings.catch_warnings(),
            joblib.parallel_config(backend="loky", inner_max_num_threads=1, idle_worker_timeout=30),
        ):
            # loky replaces a worker that has grown, and is loud about it; nothing is lost
            warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
            parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            try:
                yield from parallel(joblib.delayed(_run)(task) for task in tasks)
            except TerminatedWorkerError as error:
                raise ComputeError(
                    "a worker process was killed, for want of memory perhaps: try a smaller -j"
                ) from error


def _on_dask(tasks: Sequence[Task], address: str) -> Iterator[tuple[Task, Trial]]:
    """As they come back from the workers.

    Not by joblib's own dask backend: where the cluster has a single worker it computes here, without a word.
    """
    from dask.distributed import CancelledError, Client, KilledWorker, as_completed  # noqa: PLC0415 (a cluster's alone)

    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is raised, not logged as well
    try:
        client = Client(address, timeout="10s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise ClusterError(f"no dask scheduler answers at {address}: {error}") from error
    try:
        _check_workers(client, address)
        done: Any = as_completed(client.map(_run, tasks, pure=False), loop=client.loop)  # type: ignore[no-untyped-call]
        last_seen = time.monotonic()
        while done.count():
            if done.has_ready():
                yield next(done).result()
            elif client.scheduler_info()["workers"]:
                last_seen = time.monotonic()
                time.sleep(0.01)
            elif time.monotonic() - last_seen > PATIENCE:
                raise ClusterError(f"the dask cluster at {address} has had no worker for {PATIENCE:g} s")
            else:
                time.sleep(0.1)
    except (OSError, CancelledError) as error:
        raise ClusterError(f"the dask cluster at {address} went away") from error
    except KilledWorker as error:
        raise ClusterError(f"the workers of the dask cluster at {address} die at their work: {error}") from error
    finally:
        client.close(timeout=2)  # type: ignore[no-untyped-call]


def _check_workers(client: Any, address: str) -> None:
    if not client.scheduler_info()["workers"]:
        raise ClusterError(f"the dask scheduler at {address} has no workers: start some with dask worker {address}")
    versions = set(client.run(_version).values())
    if versions != {ghrr.__version__}:
        found = ", ".join(sorted(versions))
        raise ClusterError(f"the workers of {address} have ghrr {found}, this is {ghrr.__version__}: install the same")


def _version() -> str:
    return ghrr.__version__


def _run(task: Task) -> tuple[Task, Trial]:
    experiment = EXPERIMENTS[task.experiment]
    generator = ghrr.Space(1, 1, seed=task.seed).generator(f"{task.experiment} {task.number}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    start = time.perf_counter()
    try:
        table = experiment.run_trial(task.settings, task.params, generator)
    finally:
        torch.set_num_threads(threads)
    return task, Trial(task.number, pd.DataFrame(as_columns(table)), time.perf_counter() - start)

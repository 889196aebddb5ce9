"""Trials give the same numbers in one process, in several, and on a dask cluster; failures lose no finished trial."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from ghrr_lab import paper
from ghrr_lab.paper import execution
from ghrr_lab.paper.experiments import quasi_orthogonality
from tests.lab.paper.conftest import SMALL
from tests.processes import HANG

NAME = "quasi-orthogonality"
Finished = tuple[Path, list[paper.Outcome]]


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Start a dask scheduler and workers; yields its address and the processes, the scheduler first."""
    about = folder / "scheduler.json"
    module = [sys.executable, "-W", "ignore", "-m"]
    options = ["--host", "127.0.0.1", "--scheduler-file", str(about), "--no-dashboard"]
    processes = [
        subprocess.Popen(
            [*module, "distributed.cli.dask_scheduler", "--port", "0", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    ]
    try:
        while not about.exists() or not about.read_text().endswith("}"):  # written completely
            assert processes[0].poll() is None
            time.sleep(0.05)
        one = ["--nworkers", "1", "--nthreads", "1", "--no-nanny", "--scheduler-file", str(about), "--no-dashboard"]
        processes += [
            subprocess.Popen(
                [*module, "distributed.cli.dask_worker", *one],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for _ in range(workers)
        ]
        address = json.loads(about.read_text())["address"]
        wait_for_workers(address, workers)
        yield address, processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_workers(address: str, count: int) -> None:
    from dask.distributed import Client

    with Client(address, timeout=HANG, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=HANG)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster with two workers."""
    with cluster(tmp_path_factory.mktemp("cluster"), workers=2) as (address, _):
        yield address


def table(folder: Path) -> bytes:
    return (folder / f"{NAME}.csv").read_bytes()


@pytest.mark.usefixtures("small")
def test_dask_cluster_gives_same_numbers(address: str, finished: Finished, tmp_path: Path) -> None:
    paper.run([NAME], tmp_path, dask=address)
    assert table(tmp_path) == table(finished[0])


@pytest.mark.usefixtures("small")
def test_several_processes_give_same_numbers(finished: Finished, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    paper.run([NAME], tmp_path, jobs=2)
    assert table(tmp_path) == table(finished[0])
    assert torch.get_num_threads() == threads


def test_workers_of_another_version_are_rejected(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.__version__", "9.9.9")
    with pytest.raises(paper.ClusterError, match=r"have ghrr .*, expected 9\.9\.9"):
        paper.run([NAME], tmp_path, dask=address)


@pytest.mark.parametrize(("killed", "message"), [(0, "lost the connection"), (1, "has had no workers for 0.5 s")])
def test_dying_cluster_loses_no_finished_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int, message: str
) -> None:
    """Kill the scheduler (process 0) or the only worker (process 1)."""
    settings = {"quick": SMALL | {"blocks": 500}}
    experiment = dataclasses.replace(quasi_orthogonality.EXPERIMENT, settings=settings)
    monkeypatch.setattr(quasi_orthogonality, "EXPERIMENT", experiment)
    seen = []
    with cluster(tmp_path, workers=1) as (address, processes):

        def kill_after_three(step: paper.RunProgress) -> None:
            seen.append(step.done)
            if step.done == 3:
                processes[killed].kill()
                processes[killed].wait()
                monkeypatch.setattr(execution, "WORKER_TIMEOUT", 0.5 if killed == 1 else HANG)

        with pytest.raises(paper.ClusterError, match=message):
            paper.run([NAME], tmp_path, dask=address, on_progress=kill_after_three)
        if killed == 1:
            with pytest.raises(paper.ClusterError, match="has no workers"):
                paper.run([NAME], tmp_path / "again", dask=address)
    stored = (tmp_path / "trials" / "quick-seed-0" / f"{NAME}.jsonl").read_bytes()
    assert stored.count(b"\n") == 1 + seen[-1] >= 4
    assert stored.endswith(b"\n")


def test_killed_worker_process_is_reported() -> None:
    experiment = paper.EXPERIMENTS[NAME]
    tasks = [execution.Task(NAME, experiment.settings["quick"], 0, n, {"block": n}) for n in range(4)]
    results = execution.run_tasks(tasks, jobs=2)
    next(results)
    for child in psutil.Process().children(recursive=True):
        if "popen_loky" in " ".join(child.cmdline()):
            child.kill()
    with pytest.raises(paper.ComputeError, match="a worker process was killed"):
        list(results)


@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:9", "nonsense://x"])
def test_missing_scheduler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setattr(execution, "_CONNECT_SECONDS", 0.1)
    with pytest.raises(paper.ClusterError, match=f"cannot connect to a dask scheduler at {wrong}"):
        paper.run([NAME], tmp_path, dask=wrong)

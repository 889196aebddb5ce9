"""The same numbers in one process, in several, and on a real dask cluster; a cluster that goes away loses nothing."""

from __future__ import annotations

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

from ghrr import paper
from ghrr.paper import compute

NAME = "quasi-orthogonality"


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A dask scheduler and its workers as processes of their own; gives the address and them, the scheduler first."""
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
        while not about.exists():
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
        yield json.loads(about.read_text())["address"], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_workers(address: str, count: int) -> None:
    from dask.distributed import Client

    with Client(address, timeout="60s", set_as_default=False) as client:
        client.wait_for_workers(count, timeout=120)


def table(folder: Path) -> bytes:
    return (folder / f"{NAME}.csv").read_bytes()


@pytest.mark.usefixtures("small")
def test_a_dask_cluster_gives_the_same_numbers(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=2) as (address, _):
        wait_for_workers(address, 2)
        paper.run([NAME], tmp_path / "dask", dask=address)
    paper.run([NAME], tmp_path / "here", jobs=1)
    assert table(tmp_path / "dask") == table(tmp_path / "here")
    assert (tmp_path / "dask" / "index.html").exists()


def test_a_scheduler_that_dies_loses_nothing(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as (address, processes):
        wait_for_workers(address, 1)

        def kill_after_three(step: paper.Progress) -> None:
            if step.done == 3:
                processes[0].kill()

        with pytest.raises(paper.ClusterError, match=f"the dask cluster at {address} went away"):
            paper.run([NAME], tmp_path, size="full", dask=address, on_progress=kill_after_three)
    stored = (tmp_path / "trials" / "full-seed-0" / f"{NAME}.jsonl").read_bytes()
    assert 4 <= stored.count(b"\n") < 201
    assert stored.endswith(b"\n")


def test_a_cluster_that_loses_its_workers_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute, "PATIENCE", 2.0)
    with cluster(tmp_path, workers=1) as (address, processes):
        wait_for_workers(address, 1)

        def kill_after_three(step: paper.Progress) -> None:
            if step.done == 3:
                processes[1].kill()

        with pytest.raises(paper.ClusterError, match="has had no worker for 2 s"):
            paper.run([NAME], tmp_path, size="full", dask=address, on_progress=kill_after_three)
    stored = (tmp_path / "trials" / "full-seed-0" / f"{NAME}.jsonl").read_bytes()
    assert 4 <= stored.count(b"\n") < 201


def test_workers_of_another_version_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(tmp_path, workers=1) as (address, _):
        wait_for_workers(address, 1)
        monkeypatch.setattr("ghrr.__version__", "9.9.9")
        with pytest.raises(paper.ClusterError, match=r"have ghrr .*, this is 9\.9\.9: install the same"):
            paper.run([NAME], tmp_path, dask=address)


def test_a_killed_worker_process_is_named() -> None:
    experiment = paper.EXPERIMENTS[NAME]
    tasks = [compute.Task(NAME, experiment.settings["quick"], 0, n, {"block": n}) for n in range(4)]
    results = compute.compute(tasks, jobs=2)
    next(results)
    for child in psutil.Process().children(recursive=True):
        if "popen_loky" in " ".join(child.cmdline()):
            child.kill()
    with pytest.raises(paper.ComputeError, match="a worker process was killed"):
        list(results)


def test_a_cluster_without_workers_is_named(tmp_path: Path) -> None:
    with cluster(tmp_path, workers=0) as (address, _), pytest.raises(paper.ClusterError, match="has no workers"):
        paper.run([NAME], tmp_path / "dask", dask=address)


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(paper.ClusterError, match=r"no dask scheduler answers at tcp://127\.0\.0\.1:9"):
        paper.run([NAME], tmp_path, dask="tcp://127.0.0.1:9")
    with pytest.raises(paper.ClusterError, match="no dask scheduler answers at nonsense://x"):
        paper.run([NAME], tmp_path, dask="nonsense://x")


@pytest.mark.usefixtures("small")
def test_several_processes_give_the_same_numbers(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    for jobs in (1, 2):
        paper.run([NAME], tmp_path / str(jobs), jobs=jobs)
    assert table(tmp_path / "1") == table(tmp_path / "2")
    assert torch.get_num_threads() == threads

"""Run the tasks of ``benchmarks/learn/measure.py`` in several processes, with a time limit for each.

A process that exceeds the limit is ended, and the task is stored as such. The journal holds one line per task, so a run
that was stopped goes on where it was.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import multiprocessing.connection
import os
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.learn.data import SOURCES, Dataset, load
from benchmarks.learn.methods import METHODS
from benchmarks.learn.search_space import Method, configurations
from benchmarks.learn.tasks import Setting, Task, measure

SLOW = 3  # configurations over the time limit after which the rest of a search is left out
_START_SECONDS = 120.0  # imports and the first loading of data are not counted in the time limit
_LARGE = 2000  # samples from which our methods wait for the GPU
_HUGE = 10_000_000  # numbers of all samples from which every method that can use the GPU waits for it


class Journal:
    """Results of tasks, one JSON object per line; later lines replace earlier ones.

    Tasks that exceeded a time limit lower than ``limit`` are forgotten, so they run again; with ``retry`` also those
    that failed.
    """

    def __init__(self, path: Path, *, retry: bool = False, limit: float = 0.0) -> None:
        self.path = path
        self.entries: dict[tuple[str, str, str, int], dict[str, Any]] = {}
        for entry in read_journal(path) if path.exists() else ():
            slow = entry["status"] == "time limit"
            if entry["limit_s"] >= limit if slow else entry["status"] == "ok" or not retry:
                self.entries[entry["data"], entry["method"], entry["stage"], entry["index"]] = entry

    def tuned(self, data: str, method: str) -> list[dict[str, Any]]:
        """Return the entries of all configurations of a pair, also those beyond the budget of this run."""
        found = [entry for key, entry in self.entries.items() if key[:3] == (data, method, "tune")]
        return sorted(found, key=lambda entry: entry["index"])

    def add(self, entry: dict[str, Any]) -> None:
        """Append an entry."""
        self.entries[entry["data"], entry["method"], entry["stage"], entry["index"]] = entry
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a journal, compressed or not; a last line that was cut off is left out."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    entries = []
    for line in content.decode().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries


@dataclass
class Search:
    """A method on a data set: configurations to try, then seeds to test the best one with."""

    data: str
    method: Method
    configs: list[dict[str, Any]]
    seeds: int
    large: bool
    size: int

    def next_tasks(self, journal: Journal) -> list[Task]:
        """Return the tasks that can run now and are not in the journal."""
        name = self.method.name
        found = journal.tuned(self.data, self.method.tuned_by or name)
        done = {entry["index"] for entry in found}
        open_ = [index for index in range(len(self.configs)) if index not in done]
        if open_ and _count_slow(found) < SLOW:
            if self.method.tuned_by:
                return []
            return [Task(self.data, name, "tune", index, self.configs[index]) for index in open_]
        config = best_config(found) if self.configs else self._default()
        if config is None:
            return []
        tasks = [Task(self.data, name, "test", seed, config) for seed in range(self.seeds)]
        tested = [journal.entries.get(task.key) for task in tasks]
        if any(entry is not None and entry["status"] == "time limit" for entry in tested):
            return []  # the other seeds would exceed it as well
        return [task for task, entry in zip(tasks, tested, strict=True) if entry is None]

    def _default(self) -> dict[str, Any]:
        return self.method.default(SOURCES[self.data][0])


def _count_slow(entries: Sequence[dict[str, Any]]) -> int:
    return sum(entry["status"] == "time limit" for entry in entries)


def best_config(entries: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the configuration with the highest validation accuracy, the first of equal ones; None if all failed."""
    right = [entry for entry in entries if entry["status"] == "ok"]
    return max(right, key=lambda entry: (entry["accuracy"], -entry["index"]))["config"] if right else None


def searches(data: Sequence[str], methods: Sequence[str], folder: Path, *, budget: int, seeds: int) -> list[Search]:
    """Return all pairs of a data set and a method, those that should start early first."""
    made = []
    for name in data:
        loaded = load(name, folder)
        for method in (METHODS[chosen] for chosen in methods):
            if loaded.kind not in method.kinds or name not in (method.sets or data):
                continue
            tries = min(budget, 8) if method.family == "order" else budget
            searched = METHODS[method.tuned_by] if method.tuned_by else method
            configs = configurations(searched, loaded.kind, name, tries)
            once = method.deterministic and len(loaded.splits) == 1
            count = 1 if once else len(loaded.splits) if len(loaded.splits) > 1 else seeds
            size = _count_numbers(loaded)
            made.append(Search(name, method, configs, count, len(loaded.labels) >= _LARGE, size))
    return sorted(made, key=lambda search: (_priority(search), search.size))


def _count_numbers(data: Dataset) -> int:
    """Return the numbers, characters or nodes of all samples."""
    if data.kind == "graph":
        return sum(len(graph.labels) for graph in data.samples)
    return sum(map(len, data.samples)) if data.kind == "text" else data.samples.size


def _priority(search: Search) -> int:
    """Return the rank of a pair: targets and ``HD ridge`` first, slow pairs of minor interest last.

    Small data sets come first within a rank, so that a run that is stopped has many complete pairs. Baselines that take
    minutes on huge sets start early, because one process does them.
    """
    family, huge = search.method.family, search.size >= _HUGE
    ranks = {
        "ghrr large": 0,
        "baseline": 2,
        "torch-hd": 3,
        "published": 3,
        "order": 5,
        "ghrr": 8 if huge else 4,
        "torch-hd documented": 7 if huge else 6,
    }
    return 1 if search.method.name == "HD ridge" else ranks[family]


@dataclass
class Worker:
    """A process that measures one task after the other."""

    setting: Setting
    limit: float
    process: Any = None
    connection: Any = None
    task: Task | None = None
    since: float = 0.0
    fresh: bool = field(default=True)

    def start(self) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, self.setting), daemon=True)
        self.process.start()
        other.close()
        self.fresh = True

    def give(self, task: Task) -> None:
        """Hand over a task."""
        if self.process is None:
            self.start()
        self.task, self.since = task, time.monotonic()
        self.connection.send(task)

    def overdue(self) -> bool:
        """Return whether the task has exceeded the time limit."""
        allowed = self.limit + (_START_SECONDS if self.fresh else 0.0)
        return self.task is not None and time.monotonic() - self.since > allowed

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.process, self.task = None, None


def _serve(connection: Any, setting: Setting) -> None:
    torch.set_num_threads(1)
    while True:
        try:
            task = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        connection.send(measure(task, setting))


def run(
    pairs: Sequence[Search], journal: Journal, workers: Sequence[Worker], *, seconds: float, shard: tuple[int, int]
) -> int:
    """Run all open tasks; stop after so many seconds. Returns the number of tasks that are left."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"  # read by the processes that start from now on
    start = time.monotonic()
    own = [pair for pair in pairs if zlib.crc32(pair.data.encode()) % shard[1] == shard[0]]
    waiting = {(pair.data, pair.method.name): pair.next_tasks(journal) for pair in own}
    changed: dict[tuple[str, str], list[Search]] = {}  # pairs whose tasks depend on the results of a pair
    for pair in own:
        for name in {pair.method.name, pair.method.tuned_by or pair.method.name}:
            changed.setdefault((pair.data, name), []).append(pair)
    try:
        while time.monotonic() - start < seconds:
            for worker in workers:
                if worker.task is None and (tasks := _choose(own, waiting, worker, workers)):
                    worker.give(tasks.pop(0))
            busy = [worker for worker in workers if worker.task is not None]
            if not busy:
                break
            for entry in _collect(busy):
                journal.add(entry)
                _show(entry)
                taken = {worker.task.key for worker in busy if worker.task is not None}
                for pair in changed[entry["data"], entry["method"]]:
                    tasks = [task for task in pair.next_tasks(journal) if task.key not in taken]
                    waiting[pair.data, pair.method.name] = tasks
    except KeyboardInterrupt:
        print("stopped; the same command goes on where it was", flush=True)
    finally:
        for worker in workers:
            worker.stop()
    return sum(len(pair.next_tasks(journal)) for pair in own)


def _choose(
    pairs: Sequence[Search], waiting: dict[tuple[str, str], list[Task]], worker: Worker, workers: Sequence[Worker]
) -> list[Task]:
    """Return the first tasks for a worker.

    Without a GPU, the first of all. Otherwise a worker on a GPU takes tasks that need it, then other large ones that
    can use it, then the rest; a worker on a CPU leaves those out that need a GPU.
    """
    found = [pair for pair in pairs if waiting[pair.data, pair.method.name]]
    if worker.setting.device == "cuda":
        found.sort(key=lambda pair: (not _needs_gpu(pair), not (pair.method.on_gpu and pair.large)))
    elif any(other.setting.device == "cuda" for other in workers):
        found = [pair for pair in found if not _needs_gpu(pair)]
    return waiting[found[0].data, found[0].method.name] if found else []


def _needs_gpu(pair: Search) -> bool:
    """Return whether a fit would take long on one core.

    That are all methods on huge sets, ours on large ones and on series, dynamic time warping, and IntRVFL, which
    inverts a matrix of the size of its dimension.
    """
    theirs = pair.method.family.startswith("torch-hd")
    slow = pair.method.name == "IntRVFL" if theirs else pair.large or SOURCES[pair.data][0] == "series"
    return pair.method.on_gpu and (slow or pair.size >= _HUGE)


def _collect(busy: Sequence[Worker]) -> list[dict[str, Any]]:
    """Wait for results, at most a second, and end what has exceeded its time; return the entries."""
    entries = []
    connections = {worker.connection: worker for worker in busy}
    for ready in multiprocessing.connection.wait(list(connections), timeout=1.0):
        worker = connections[ready]
        try:
            entries.append(worker.connection.recv())
            worker.task, worker.fresh = None, False
        except (EOFError, ConnectionError):
            entries.append(asdict(worker.task) | {"status": "the process ended"})  # type: ignore[arg-type]
            worker.stop()
    for worker in busy:
        if worker.overdue():
            entries.append(asdict(worker.task) | {"status": "time limit", "limit_s": worker.limit})  # type: ignore[arg-type]
            worker.stop()
    return entries


def _show(entry: dict[str, Any]) -> None:
    if entry["stage"] == "test" or entry["status"] != "ok":
        score = f"{entry['accuracy']:.4f} in {entry['fit_s']:.2f} s" if entry["status"] == "ok" else entry["status"]
        print(f"{entry['data']:<17}{entry['method']:<28}{entry['stage']} {entry['index']:<3}{score}", flush=True)

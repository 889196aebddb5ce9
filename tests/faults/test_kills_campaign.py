"""Killed writers: all acknowledged versions are there, and every file is complete.

A forked process writes version after version and acknowledges each through a pipe; it is killed at a random moment. Two
kills per writer in the normal run, fifty in ``make fuzz``.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

import ghrr
from ghrr import paper
from ghrr.files import read_json, write_json
from ghrr.lm.checkpoint import load_checkpoint, save_checkpoint
from ghrr.memory import ItemMemory
from ghrr.paper.journal import Journal, Trial
from ghrr.structures import Graph

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SPACE = ghrr.Space(20, 2)
VECTOR = SPACE.vectors(["x"])[0]


def write_vector(path: Path, version: int) -> None:
    ghrr.save(path, SPACE.wrap(VECTOR * version, f"v{version}"))


def read_vector(path: Path) -> int:
    found = ghrr.load(path)
    assert isinstance(found, ghrr.Hypervector)
    version = int(found.expression.removeprefix("v"))
    torch.testing.assert_close(found.tensor, VECTOR * version)
    return version


def write_graph(path: Path, version: int) -> None:
    graph = Graph(SPACE)
    graph.save(path, graph.encode([("a", "version", str(version))]))


def read_graph(path: Path) -> int:
    graph, _ = Graph.load(path)
    return max(int(name) for name in graph.nodes.names if name != "a")


def write_memory(path: Path, version: int) -> None:
    memory = ItemMemory.open(path) if path.exists() else ItemMemory(SPACE)
    memory.add([f"item {version}"])
    memory.commit(None if path.exists() else path)


def read_memory(path: Path) -> int:
    memory = ItemMemory.open(path)
    memory.verify()
    versions = sorted(int(label.removeprefix("item ")) for label in memory.labels)
    assert versions == list(range(1, len(versions) + 1))
    torch.testing.assert_close(memory.vectors(memory.labels), SPACE.vectors(memory.labels))
    return len(versions)


def write_settings(path: Path, version: int) -> None:
    write_json(path, {"version": version, "padding": ["x"] * 1000})


def read_settings(path: Path) -> int:
    content = read_json(path, "test")
    assert len(content["padding"]) == 1000
    return int(content["version"])


def write_checkpoint(path: Path, version: int) -> None:
    model = torch.nn.Linear(100, 10)
    torch.nn.init.constant_(model.weight, version)
    info = {"best_valid": 1.0, "best_step": 0, "seconds": 0.5, "model": {}, "vocabulary": ""}
    save_checkpoint(path, model, {"step": version, **info})


def read_checkpoint(path: Path) -> int:
    info, tensors = load_checkpoint(path)
    [weight] = [tensor for name, tensor in tensors.items() if name.endswith("weight")]
    assert (weight == info["step"]).all()
    return int(info["step"])


def a_journal(path: Path) -> Journal:
    return Journal(path, paper.EXPERIMENTS["fixed-vs-varying"], {"trials": 1}, seed=0)


def write_trial(path: Path, version: int) -> None:
    journal = a_journal(path)
    assert journal.open() == ""
    journal.append(Trial(version, pd.DataFrame({"version": [version] * 50}), 0.5))


def read_trials(path: Path) -> int:
    journal = a_journal(path)
    assert journal.open() == ""
    trials = journal.trials()
    assert sorted(trials) == list(range(1, len(trials) + 1))
    assert all((trial.table["version"] == number).all() for number, trial in trials.items())
    return len(trials)


WRITERS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], int]]] = {
    "ghrr.save": (write_vector, read_vector),
    "Graph.save": (write_graph, read_graph),
    "ItemMemory.commit": (write_memory, read_memory),
    "write_json": (write_settings, read_settings),
    "save_checkpoint": (write_checkpoint, read_checkpoint),
    "Journal.append": (write_trial, read_trials),
}


def kill_one(path: Path, write: Callable[[Path, int], None], first: int, seconds: float, *, wait: bool) -> int:
    """Let a process write versions from ``first`` on, kill it, and return the last version that it acknowledged.

    With ``wait`` the time before the kill starts with the first acknowledgement.
    """
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover (it is killed)
        for version in range(first, first + 10_000):
            write(path, version)
            os.write(send, b"%d\n" % version)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as acknowledged:
        start = acknowledged.readline() if wait else ""
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = (start + acknowledged.read()).split()
    return int(lines[-1]) if lines else first - 1


def kill_writer(writer: str, path: Path, kills: int, seed: int) -> int:
    """Kill a writer several times, check that each acknowledged version is found, and return the last one."""
    write, read = WRITERS[writer]
    rng = random.Random(seed)
    write(path, 1)
    version = 1
    for number in range(kills):
        last = kill_one(path, write, version + 1, rng.uniform(0.005, 0.08), wait=number % 2 == 0)
        found = read(path)
        assert found in (last, last + 1)  # the next one may have been written but not acknowledged
        version = found
    return version


@pytest.mark.parametrize("writer", WRITERS)
def test_killed_writer_loses_no_acknowledged_version(writer: str, tmp_path: Path) -> None:
    kill_writer(writer, tmp_path / "x", kills=2, seed=0)


@pytest.mark.fuzz
@pytest.mark.parametrize("writer", WRITERS)
def test_writer_killed_fifty_times_loses_no_acknowledged_version(writer: str, tmp_path: Path) -> None:
    assert kill_writer(writer, tmp_path / "x", kills=50, seed=1) > 10
    assert len(list(tmp_path.iterdir())) <= 3  # temporary files of killed processes were removed

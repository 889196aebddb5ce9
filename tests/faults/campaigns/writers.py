"""Writers of versions, and readers that check that a file is whole and return its version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch
from tests.cli.common import invoke

import ghrr
from ghrr.files import read_json, write_json
from ghrr.memory import ItemMemory
from ghrr.search import RecordIndex
from ghrr.structures import Graph
from ghrr_lab import paper
from ghrr_lab.lm.checkpoint import load_checkpoint, save_checkpoint
from ghrr_lab.paper.journal import Journal, Trial

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
    content = read_json(path)
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


def write_index(path: Path, version: int) -> None:
    """Replace an index by ``ghrr index --force``; repeat it if it discards what a killed one built from other data."""
    source = path.with_suffix(".jsonl")
    source.write_text(f'{{"version": "v{version}"}}\n' * 20)
    statuses = [invoke("index", str(source), "-o", str(path), "--force", "--dim", "20").exit_code]
    while statuses[-1] == 2 and len(statuses) < 3:
        statuses.append(invoke("index", str(source), "-o", str(path), "--force", "--dim", "20").exit_code)
    assert statuses[-1] == 0


def read_index(path: Path) -> int:
    records = RecordIndex.open(path)
    assert len(records) == 20
    assert len(records.search(records["0"], k=20)) == 20
    (version,) = {records[name]["version"] for name in records.ids}
    return int(version.removeprefix("v"))


VERSIONED: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], int]]] = {
    "ghrr.save": (write_vector, read_vector),
    "Graph.save": (write_graph, read_graph),
    "ItemMemory.commit": (write_memory, read_memory),
    "write_json": (write_settings, read_settings),
    "save_checkpoint": (write_checkpoint, read_checkpoint),
    "Journal.append": (write_trial, read_trials),
    "ghrr index --force": (write_index, read_index),
}

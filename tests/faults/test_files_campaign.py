"""Damaged files of every writer: readers return what was written, or raise an error that names the file.

A sample runs with the other tests, thousands of files by ``make fuzz``. A file is damaged in one of two ways: bytes are
changed, and then what is read must be what was written; or values are changed by someone who knows the format and
renews its checksum, and then anything of the right kind may be read. A case follows from its number and the bytes that
were written, in which safetensors may order the entries of its header in another way each time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import ItemMemory, Space, paper
from ghrr.lm import load_run, train
from ghrr.lm.checkpoint import load_checkpoint, restore_model, restore_optimizer
from ghrr.lm.run_folder import read_description, read_result
from ghrr.lm.summary import add_results, stored_runs
from ghrr.lm.train_log import read_log
from ghrr.lm.train_step import make_optimizer
from ghrr.paper.journal import Journal, Trial
from ghrr.structures import Graph
from tests.faults.damage import BYTES, sealed_change
from tests.lm.common import new_model, random_text, short_training, small_config

SPACE = Space(20, 2, seed=3)
SAMPLE, CAMPAIGN = 50, 800  # files per writer
LIMIT = 4 << 30  # bytes that a reader may allocate beyond what the process has


@dataclass(frozen=True)
class Writer:
    """A function that writes files to a folder, and one that reads them as plain values."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    unsealed: tuple[str, ...] = ()  # files without a checksum


def plain(x: Tensor) -> Any:
    return x.shape, x.dtype, x.detach().contiguous().view(torch.uint8).numpy().tobytes() if x.numel() else b""


def save_hypervectors(folder: Path) -> None:
    a, b = SPACE.atoms("a", "b")
    ghrr.save(folder / "x.safetensors", {"bound": a * b, "a": a})


def read_hypervectors(folder: Path) -> Any:
    loaded = ghrr.load(folder / "x.safetensors")
    items = loaded if isinstance(loaded, dict) else {"": loaded}
    return [(name, x.expression, repr(x.space), plain(x.tensor)) for name, x in items.items()]


def save_graph(folder: Path) -> None:
    graph = Graph(SPACE)
    graph.save(folder / "x.safetensors", graph.encode([("a", "likes", "b"), ("b", "likes", "c")]))


def read_graph(folder: Path) -> Any:
    graph, vectors = Graph.load(folder / "x.safetensors")
    return json.dumps(graph.state(), default=str), repr(graph.space), plain(vectors) if vectors is not None else None


def read_memory(path: Path) -> Any:
    memory = ItemMemory.open(path)
    memory.verify()
    again = ItemMemory.load(path)
    assert memory.labels == again.labels
    return memory.labels, repr(memory.space), json.dumps(memory.about), plain(again.vectors(again.labels))


def save_memory_folder(folder: Path) -> None:
    memory = ItemMemory(SPACE, list("abcdef"), storage="int8")
    memory.commit(folder / "memory")
    memory.remove(["b"])
    memory.add(["g", "h"])
    memory.commit()


def save_run(folder: Path) -> None:
    train(small_config(), short_training(epochs=1), random_text(), folder / "run")


def read_run(folder: Path) -> Any:
    run = folder / "run"
    model, tokens = load_run(run)
    info, tensors = load_checkpoint(run / "checkpoint.safetensors")
    resumed = new_model()
    optimizer = make_optimizer(resumed, learning_rate=0.01, weight_decay=0.1, betas=(0.9, 0.98))
    try:
        restore_model(resumed, tensors)
        restore_optimizer(optimizer, tensors)
    except ValueError as error:
        raise ValueError(f"{run}: {error}") from error  # as train has it
    weights = [plain(tensor) for tensor in (*model.state_dict().values(), *resumed.state_dict().values())]
    about = [info, read_log(run), read_description(run), read_result(run), tokens.fingerprint]
    return weights, json.dumps(about)


def journal(folder: Path) -> Journal:
    return Journal(folder / "x.jsonl", paper.EXPERIMENTS["fixed-vs-varying"], {"m": 2, "dims": [1, 2]}, 0)


def save_journal(folder: Path) -> None:
    journal(folder).open()
    for number in range(4):
        table = pd.DataFrame({"kind": ["a", "ü\n"], "value": [number / 3, float("nan")]})
        journal(folder).append(Trial(number, table, 0.25))


def read_journal(folder: Path) -> Any:
    opened = journal(folder)
    opened.open()
    return {n: (trial.table.to_json(), trial.seconds) for n, trial in opened.trials().items()}


def save_summary(folder: Path) -> None:
    run = {"dataset": "ptb", "attention": "rope", "variant": "", "params": 5, "valid_ppl": 9.0, "test_ppl": 8.0}
    run |= {"tokens_per_s": 7, "command": "ghrr lm train ptb"}
    add_results(folder / "summary.json", [{**run, "seed": seed} for seed in range(3)])


WRITERS = {
    "save": Writer(save_hypervectors, read_hypervectors),
    "Graph.save": Writer(save_graph, read_graph),
    "ItemMemory.save": Writer(
        lambda folder: ItemMemory(SPACE, list("abc")).save(folder / "x.safetensors", about={"a": [1]}),
        lambda folder: read_memory(folder / "x.safetensors"),
    ),
    "ItemMemory.commit": Writer(save_memory_folder, lambda folder: read_memory(folder / "memory")),
    "train": Writer(save_run, read_run, unsealed=("run.json", "result.json", "log.jsonl")),
    "journal": Writer(save_journal, read_journal),
    "summary": Writer(save_summary, lambda folder: stored_runs(folder / "summary.json"), unsealed=("summary.json",)),
}


@pytest.fixture(scope="module", params=WRITERS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("written")
    WRITERS[request.param].write(folder)
    return request.param, folder


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Limit memory, so that a huge allocation that a file asks for fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else None
    if pages is None:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def attack(name: str, original: Path, folder: Path, number: int, expected: Any) -> str:
    """Damage one file of a copy and read it; return the outcome, and fail for an unclear error."""
    writer, rng = WRITERS[name], random.Random(f"{name} {number}")
    shutil.copytree(original, folder)
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", ".lock"))
    path = rng.choice(paths)
    is_sealed = rng.random() < 0.5
    mutation = sealed_change(path) if is_sealed else rng.choice(BYTES)
    before = path.read_bytes()
    path.write_bytes(mutation(rng, before))
    case = f"{name} {number}: {path.relative_to(folder)} by {mutation.__name__}"
    try:
        found = writer.read(folder)
    except (ValueError, OSError) as error:
        if str(folder) not in str(error):
            raise AssertionError(f"{case}: the message does not name the file: {error!r:.500}") from error
        return "refused"
    except Exception as error:
        raise AssertionError(f"{case}: {error!r:.500}") from error
    if is_sealed or path.name in writer.unsealed:
        return "read"
    if name == "journal":  # damaged lines are left out
        assert found.items() <= expected.items(), case
    else:
        assert found == expected, case
    return "read as it was"


def campaign(written: tuple[str, Path], tmp_path: Path, count: int) -> Counter[str]:
    name, original = written
    expected = WRITERS[name].read(original)
    outcomes: Counter[str] = Counter()
    with bounded_memory():
        for number in range(count):
            folder = tmp_path / str(number)
            outcomes[attack(name, original, folder, number, expected)] += 1
            shutil.rmtree(folder)
    assert outcomes["refused"] + outcomes["read"] > count / 3  # negative control: files were damaged
    return outcomes


def test_a_sample_of_damaged_files(written: tuple[str, Path], tmp_path: Path) -> None:
    campaign(written, tmp_path, SAMPLE)


@pytest.mark.fuzz
def test_thousands_of_damaged_files(written: tuple[str, Path], tmp_path: Path) -> None:
    outcomes = campaign(written, tmp_path, CAMPAIGN)
    print(f"{written[0]}: {dict(outcomes)}")  # noqa: T201 (shown by pytest -s)

"""Kills: kill -9 at a random moment of a process that writes.

Right is: the file or folder opens; it has the state of the last acknowledged save or of the one after it, with all
its records, fields and answers; it can be changed and saved again; a resumed command or training gives what an
uninterrupted one gives.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from tests.faults.campaigns.killing import Acknowledge, kill_forked
from tests.faults.campaigns.outcome import LOST, RAW, WRONG, Fault, Outcome, ensure, must_work
from tests.faults.campaigns.records import (
    Answers,
    Change,
    Documents,
    answers,
    check_records,
    check_saves,
    copy_template,
    kept_folder,
    make_documents,
    open_index,
    random_change,
)
from tests.faults.campaigns.writers import VERSIONED
from tests.lab.lm.common import random_text, short_training, small_config
from typer.testing import CliRunner

from ghrr.cli import app
from ghrr.search import RecordIndex, commands, index_folder
from ghrr_lab.lm import TrainProgress, load_run, train

OLD = make_documents(range(10))
VERSIONS = 25
_KEYS = 12  # orders of changes; what they give is computed once
ROOT = Path(__file__).parents[3]


def attack(rng: random.Random, folder: Path) -> Outcome:
    kinds = [_kill_index, _kill_index_command, _kill_training, _kill_writer]
    return rng.choices(kinds, [40, 12, 3, 45])[0](rng, folder)


# ------------------------------------------------------------------------------------------------------- RecordIndex


def changes(key: str) -> list[tuple[Change, bool]]:
    """Return the changes of an index, and whether it is saved after each of them."""
    rng, now, result = random.Random(key), OLD, []
    for version in range(VERSIONS):
        change = random_change(rng, now, 1000 + 10 * version)
        now = change.after
        result.append((change, version == VERSIONS - 1 or rng.random() < 0.7))
    return result


def write_versions(index: RecordIndex, key: str, acknowledge: Acknowledge) -> None:
    for version, (change, is_saved) in enumerate(changes(key), 1):
        change.act(index)
        if is_saved:
            index.save()
            acknowledge(version)


def _kill_index(rng: random.Random, folder: Path) -> Outcome:
    engine = rng.choice(["torch", "torch", "torch", "faiss"])
    path, key = copy_template(engine, OLD, folder / "index"), f"changes {rng.randrange(_KEYS)}"

    def write(acknowledge: Acknowledge) -> None:
        write_versions(open_index(path, engine), key, acknowledge)

    last = kill_forked(rng, write, f"{engine}: writer")
    _check_index(folder, engine, key, last)
    return Outcome(f"killed an index in {engine}", kills=1)


def kill_external_index(rng: random.Random, folder: Path, engine: str) -> Outcome:
    """Kill a writer with an engine whose threads do not survive a fork, in a process of its own."""
    path, key = copy_template(engine, OLD, folder / "index"), f"changes {rng.randrange(_KEYS)}"
    command = [sys.executable, "-m", "tests.faults.campaigns.kills", engine, str(path), key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        try:
            process.wait(rng.uniform(0.001, 0.4))
        except subprocess.TimeoutExpired:
            process.kill()
        lines += process.communicate(timeout=60)[0].splitlines()
        if process.returncode not in (0, -9):
            raise Fault(RAW, f"the writer ended with {process.returncode}", engine)
    _check_index(folder, engine, key, int([line for line in lines if line.strip()][-1]))
    return Outcome(f"killed an index in {engine}", kills=1)


@functools.cache
def _replay(engine: str, key: str) -> tuple[RecordIndex, list[tuple[Documents, Answers]]]:
    """Return an index that no one kills, and its states so far: after no change, after the first one, and so on."""
    index = open_index(copy_template(engine, OLD, kept_folder("replayed") / "index"), engine)
    return index, [(OLD, answers(index))]


def _state_after(engine: str, key: str, version: int) -> tuple[Documents, Answers]:
    index, states = _replay(engine, key)
    for change, _ in changes(key)[len(states) - 1 : version]:
        change.act(index)
        states.append((change.after, answers(index)))
    return states[version]


def _check_index(folder: Path, engine: str, key: str, last: int) -> None:
    """Check that the folder has the last acknowledged state, or the next one that was to be saved."""
    steps = changes(key)
    saved = [version for version, (_, is_saved) in enumerate(steps, 1) if is_saved and version > last]
    allowed = [last, *saved[:1]]
    case = f"{engine}: killed after version {last}, {', '.join(step.name for step, _ in steps[last : allowed[-1]])}"
    with must_work(case):
        index = open_index(folder / "index", engine)
        found = answers(index)
    states = {version: _state_after(engine, key, version) for version in allowed}
    match = next((version for version, (_, wanted) in states.items() if found.equals(wanted)), None)
    if match is None:
        lost = sorted(set(states[last][1].ids) - set(found.ids)) if len(states) == 1 else []
        text = " / ".join(f"version {version}: {wanted.difference(found)}" for version, (_, wanted) in states.items())
        raise Fault(LOST if lost else WRONG, f"neither of the allowed states; {text}", case)
    ensure(index.ids == list(states[match][0]), WRONG, "other records than the model", case)
    check_saves(index, folder / "index", engine, case)


# --------------------------------------------------------------------------------------------------------- ghrr index


def _kill_index_command(rng: random.Random, folder: Path) -> Outcome:
    """Kill `ghrr index` and run the same command again, in some cases after the source has changed."""
    rows = list(make_documents(range(rng.randint(30, 90))).values())
    source, out = folder / "source.jsonl", folder / "index"
    arguments = ["index", str(source), "-o", str(out), "--dim", "32"]
    _write_rows(source, rows)
    with _small_batches():

        def write(acknowledge: Acknowledge) -> None:
            original, versions = RecordIndex.save, itertools.count(1)

            def save(self: RecordIndex, *given: Any) -> None:
                original(self, *given)
                acknowledge(next(versions))

            RecordIndex.save = save  # type: ignore[assignment, method-assign] # in the killed process
            app(arguments, standalone_mode=False)

        kill_forked(rng, write, "ghrr index", ["line", "acknowledged", "acknowledged", "acknowledged"])
        change = rng.choice(["none", "none", "none", "insert", "edit", "shorten", "append"])
        changed = _changed(rng, rows, change)
        _write_rows(source, changed)
        case = f"ghrr index, killed and resumed, change of the source: {change}"
        result = CliRunner().invoke(app, arguments)
    refused = result.exit_code == 2 and isinstance(result.exception, SystemExit) and "Traceback" not in result.output
    if refused and ("--force" in result.output or "already exists" in result.output):
        if change == "none" and not _is_complete(out):
            raise Fault(LOST, f"the command does not go on: {result.output[-300:]}", case)
        if change == "none":
            check_records(RecordIndex.open(out), {str(row): one for row, one in enumerate(rows)}, case)
        return Outcome("the resumed command refused", kills=1)
    ensure(result.exit_code == 0, RAW, f"exit {result.exit_code}: {result.output[-300:]} {result.exception!r}", case)
    with must_work(case):
        index = RecordIndex.open(out)
    expected = {str(row): document for row, document in enumerate(changed)}
    if [index[name] for name in expected if name in index] != list(expected.values()) or len(index) != len(expected):
        raise Fault(WRONG, f"exit 0, but the {len(index)} records are not the {len(expected)} of the source", case)
    check_records(index, expected, case)
    return Outcome("resumed a command", kills=1)


def _is_complete(out: Path) -> bool:
    try:
        RecordIndex.open(out)
    except (OSError, ValueError):
        return False
    return not (out / "incomplete.json").exists()


def _write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _changed(rng: random.Random, rows: list[dict[str, Any]], change: str) -> list[dict[str, Any]]:
    extra = next(iter(make_documents(range(500, 501)).values()))
    place = rng.randrange(len(rows))
    return {
        "none": rows,
        "insert": [extra, *rows],
        "edit": [*rows[:place], extra, *rows[place + 1 :]],
        "shorten": rows[:place] + rows[place + 1 :],
        "append": [*rows, extra],
    }[change]


@contextmanager
def _small_batches() -> Iterator[None]:
    """Let `ghrr index` save after every ten documents."""
    with patch.object(index_folder, "BATCH", 10), patch.object(commands, "_SAVED", 1):
        yield


# ------------------------------------------------------------------------------------------------- training and files


@functools.cache
def _finished() -> dict[str, torch.Tensor]:
    folder = kept_folder("finished") / "run"
    train(small_config(), short_training(), random_text(), folder)
    return _weights(folder)


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in load_run(folder)[0].state_dict().items()}


def _kill_training(rng: random.Random, folder: Path) -> Outcome:
    run, wanted = folder / "run", _finished()

    def write(acknowledge: Acknowledge) -> None:
        def report(progress: TrainProgress) -> None:
            acknowledge(1)

        train(small_config(), short_training(), random_text(), run, on_progress=report)

    kill_forked(rng, write, "train")
    with must_work("train, resumed"):
        if run.exists() and not (run / "result.json").exists():
            train(small_config(), short_training(), random_text(), run, resume=True)
        elif not run.exists():
            train(small_config(), short_training(), random_text(), run)
        found = _weights(run)
    same = found.keys() == wanted.keys() and all(torch.equal(found[name], wanted[name]) for name in wanted)
    ensure(same, WRONG, "the resumed training has other weights than an uninterrupted one", "train")
    return Outcome("resumed a training", kills=1)


def _kill_writer(rng: random.Random, folder: Path) -> Outcome:
    name = rng.choice(list(VERSIONED))
    write_one, read = VERSIONED[name]
    path = folder / "x"
    write_one(path, 1)

    def write(acknowledge: Acknowledge) -> None:
        for version in range(2, 10_000):
            write_one(path, version)
            acknowledge(version)

    last = kill_forked(rng, write, name) or 1
    with must_work(name):
        found = read(path)
    ensure(found >= last, LOST, f"version {found} is there, version {last} was acknowledged", name)
    ensure(found <= last + 1, WRONG, f"version {found} is there after version {last}", name)
    with must_work(name):
        write_one(path, found + 1)
        again = read(path)
    ensure(again == found + 1, WRONG, f"after a kill version {found + 1} is written, and version {again} read", name)
    left = [one.name for one in folder.iterdir()]
    ensure(len(left) <= 3, WRONG, f"temporary files are left: {left}", name)
    return Outcome(f"killed {name}", kills=1)


if __name__ == "__main__":
    _, own_engine, own_folder, own_key = sys.argv
    write_versions(open_index(Path(own_folder), own_engine), own_key, functools.partial(print, flush=True))

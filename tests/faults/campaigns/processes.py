"""Processes: several open, change and save one folder at the same time.

Right is: a process that may not save gets an error that says so; every save that was accepted is there at the end with
its records, fields and learned weights, and nothing else; a process that only reads always finds an accepted state.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.faults.campaigns.outcome import HANG, LOST, RAW, Fault, Outcome, describe, ensure, must_work
from tests.faults.campaigns.records import (
    check_records,
    check_saves,
    copy_template,
    make_document,
    make_documents,
    open_index,
)

from ghrr.search import RecordIndex

OLD = make_documents(range(10))
LIMIT = 60.0
REFUSED = ("another program", "another process", "is using", "locked", "open it again", "is writing")


def attack(rng: random.Random, folder: Path) -> Outcome:
    engine = rng.choice(["torch", "torch", "torch", "faiss"])
    path = copy_template(engine, OLD, folder / "index")
    writers, rounds = rng.randint(2, 3), rng.randint(4, 8)
    seeds = [rng.random() for _ in range(writers + 1)]
    case = f"{engine}: {writers} writers and a reader"
    processes = [_start(_write, engine, path, number, rounds, seeds[number]) for number in range(writers)]
    processes.append(_start(_read, engine, path, writers, 2 * rounds, seeds[-1]))
    reports = _reports(processes, case)
    for report in reports:
        for line in report:
            if "error" in line:
                raise Fault(line["kind"], line["error"], case)
    accepted = [line for report in reports for line in report if "saved" in line]
    expected = OLD | {name: document for line in accepted for name, document in line["saved"].items()}
    with must_work(case):
        index = open_index(path, engine)
    _check_fields(index, expected, case)
    check_records(index, expected, case)
    check_saves(index, path, engine, case)
    return Outcome("several accepted" if len(accepted) > 1 else "one or none accepted")


def _check_fields(index: RecordIndex, expected: dict[str, Any], case: str) -> None:
    """Check that each key of an accepted document is a field."""
    names = {field.name for field in index.fields}
    wanted = {key for document in expected.values() for key in document if key != "born"}
    ensure(wanted <= names, LOST, f"fields that were saved are not there: {sorted(wanted - names)}", case)


def _write(report: Callable[..., None], engine: str, path: Path, number: int, rounds: int, seed: float) -> None:
    rng = random.Random(seed)
    index = open_index(path, engine)
    for step in range(rounds):
        if rng.random() < 0.7:
            index = open_index(path, engine)
        serial = 1000 * (number + 1) + step
        document = make_document(serial)
        if rng.random() < 0.4:
            document[f"extra {serial}"] = f"extra value {serial}"
        is_learning, pause = rng.random() < 0.15, rng.choice([0, 0, 0.01])
        with _refusals() as refused:
            index.add([document], ids=[f"id {serial}"])
            if is_learning:
                chosen = sorted(OLD)[:4]
                index.learn_weights([{"name": OLD[one]["name"]} for one in chosen], chosen)
            time.sleep(pause)
            index.save()
            report(saved={f"id {serial}": document})
        if refused:
            index = open_index(path, engine)


def _read(report: Callable[..., None], engine: str, path: Path, number: int, rounds: int, seed: float) -> None:
    rng = random.Random(seed)
    for _ in range(rounds):
        index = open_index(path, engine)
        with _refusals():
            documents = {name: index[name] for name in index.ids}
            ensure(set(OLD) <= set(documents), LOST, "a reader does not find the first records")
            check_records(index, documents, "reader")
            _check_fields(index, documents, "reader")
        time.sleep(rng.choice([0, 0.01]))


@contextmanager
def _refusals() -> Iterator[list[str]]:
    """Accept errors that say that another process has changed the folder, or is writing; list them."""
    refused: list[str] = []
    try:
        yield refused
    except (ValueError, OSError, RuntimeError, Fault) as error:
        if not any(words in str(error) for words in REFUSED):
            raise
        refused.append(str(error))


def _start(work: Callable[..., None], *arguments: Any) -> tuple[int, int]:
    """Run work in a forked process that reports JSON lines; return its number and the end of the pipe to read."""
    receive, send = os.pipe()
    child = os.fork()
    if child:
        os.close(send)
        return child, receive
    os.close(receive)  # pragma: no cover

    def report(**values: Any) -> None:
        os.write(send, json.dumps(values).encode() + b"\n")

    try:
        work(report, *arguments)
    except Fault as fault:
        report(error=str(fault), kind=fault.kind)
    except BaseException as error:
        report(error=f"{work.__name__}: {describe(error)}", kind=RAW)
    os._exit(0)


def _reports(processes: list[tuple[int, int]], case: str) -> list[list[dict[str, Any]]]:
    contents = {receive: b"" for _, receive in processes}
    open_pipes, end = set(contents), time.monotonic() + LIMIT
    try:
        while open_pipes:
            ready = select.select(sorted(open_pipes), [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                raise Fault(HANG, f"a process does not end within {LIMIT:.0f} s", case)
            for receive in ready:
                part = os.read(receive, 1 << 16)
                contents[receive] += part
                if not part:
                    open_pipes.discard(receive)
    finally:
        for child, receive in processes:
            os.kill(child, signal.SIGKILL)  # it has ended, or hangs
            os.waitpid(child, 0)
            os.close(receive)
    return [[json.loads(line) for line in content.splitlines()] for content in contents.values()]

"""Threads: readers beside a writer.

Right is: no reader gets an error; each answer fits a state that the index had while the reader asked. A record that is
never changed is always found by its own document; what is found of other records is a document that they had; ids and
counts belong to one state. At the end the index has exactly the records of the writer, and saves and opens.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.campaigns.outcome import HANG, RAW, WRONG, Fault, Outcome, describe, ensure
from tests.faults.campaigns.records import (
    Documents,
    check_records,
    check_saves,
    copy_template,
    make_documents,
    open_index,
    random_change,
)

from ghrr.search import RecordIndex

OLD = make_documents(range(10))
STEADY = ("id 0", "id 3", "id 7")
STEPS = 4
SECONDS = 60.0


class States:
    """The states that an index had: before a change begins its result is listed as possible."""

    def __init__(self, first: Documents) -> None:
        self.all = [first]
        self.done = 0  # changes that have returned

    def since(self, first: int) -> list[Documents]:
        return self.all[first:]


class Readers:
    """Readers of one index; each checks its answers against the states of the writer."""

    def __init__(self, index: RecordIndex, states: States) -> None:
        self.index, self.states = index, states

    def search(self, rng: random.Random) -> None:
        name, first = rng.choice(STEADY), self.states.done
        hits = self.index.search(OLD[name], k=rng.choice([1, 5, 40]))
        ensure(hits and hits[0].guess == name and hits[0].score > 0.999, WRONG, f"{name!r} is not found first: {hits}")
        self._check_hits(hits, first)

    def search_many(self, rng: random.Random) -> None:
        first = self.states.done
        found = self.index.search_many([OLD[name] for name in STEADY], k=3, candidates=rng.choice([0, 50]))
        ensure(len(found) == len(STEADY), WRONG, f"{len(found)} answers to {len(STEADY)} examples")
        for name, hits in zip(STEADY, found, strict=True):
            ensure(hits and hits[0].guess == name, WRONG, f"{name!r} is not found first: {hits}")
            self._check_hits(hits, first)

    def filtered(self, rng: random.Random) -> None:
        name, first = rng.choice(STEADY), self.states.done
        hits = self.index.search(OLD[name], k=3, must={"year": OLD[name]["year"]})
        ensure(name in [hit.guess for hit in hits], WRONG, f"{name!r} is not found with must")
        self._check_hits(hits, first)

    def _check_hits(self, hits: list[Any], first: int) -> None:
        """Check that all hits are records of one state that the index had since then."""
        found = {hit.guess: hit.document for hit in hits}
        ensure(len(found) == len(hits), WRONG, f"a record is found twice: {hits}")
        possible = self.states.since(first)
        is_correct = any(all(state.get(name) == document for name, document in found.items()) for state in possible)
        ensure(is_correct, WRONG, f"hits of no state: {hits}")

    def contents(self, rng: random.Random) -> None:
        first = self.states.done
        ids, possible = self.index.ids, self.states.since(first)
        ensure(any(list(state) == ids or set(state) == set(ids) for state in possible), WRONG, "ids of no state")
        first = self.states.done
        count, possible = len(self.index), self.states.since(first)
        ensure(count in {len(state) for state in possible}, WRONG, f"{count} records, of no state")
        name = rng.choice(STEADY)
        ensure(name in self.index and self.index[name] == OLD[name], WRONG, f"{name!r} is not there")
        self.index.explain(name, OLD[name])
        _ = self.index.fields, repr(self.index), self.index.recall

    def duplicates(self, rng: random.Random) -> None:
        first = self.states.done
        found = {name for cluster in self.index.duplicates(threshold=0.5) for name in cluster.ids}
        ensure(any(found <= set(state) for state in self.states.since(first)), WRONG, "duplicates of no state")


def attack(rng: random.Random, folder: Path) -> Outcome:
    engine = rng.choices(["torch", "faiss", "lancedb"], [8, 3, 1])[0]
    path = copy_template(engine, OLD, folder / "index")
    index = open_index(path, engine)
    states, seed = States(OLD), rng.random()
    readers = Readers(index, states)
    work: list[Callable[[random.Random], None]] = [
        *rng.choices([readers.search, readers.search_many, readers.filtered, readers.contents], k=2),
        rng.choice([readers.contents, readers.duplicates, readers.search]),
    ]
    is_saving, is_learning = rng.random() < 0.5, rng.random() < 0.3
    case = f"{engine}: {', '.join(sorted(one.__name__ for one in work))} beside a writer" + " that saves" * is_saving
    faults: list[Fault] = []
    over = threading.Event()

    def read(number: int) -> None:
        own = random.Random(f"{seed} {number}")
        try:
            while not over.is_set():
                work[number](own)
        except Fault as fault:
            faults.append(Fault(fault.kind, str(fault), case))
        except Exception as error:
            faults.append(Fault(RAW, f"{work[number].__name__}: {describe(error)}", case))
        over.set()

    def write() -> None:
        own, now = random.Random(f"{seed} writer"), OLD
        try:
            for step in range(STEPS):
                change = random_change(own, now, 1000 + 10 * step, learn=is_learning)
                while not set(STEADY) <= set(change.after) or any(change.after[x] != OLD[x] for x in STEADY):
                    change = random_change(own, now, 1000 + 10 * step, learn=is_learning)
                states.all.append(change.after)
                change.act(index)
                states.done, now = states.done + 1, change.after
                if is_saving:
                    index.save()
                if over.is_set():
                    break
        except Exception as error:
            faults.append(Fault(RAW, f"writer: {describe(error)}", case))
        over.set()

    threads = [threading.Thread(target=read, args=(number,), daemon=True) for number in range(len(work))]
    threads.append(threading.Thread(target=write, daemon=True))
    before = sys.getswitchinterval()
    sys.setswitchinterval(rng.choice([1e-4, 1e-3, 5e-3]))
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
            if thread.is_alive():
                over.set()
                raise Fault(HANG, f"a thread does not end within {SECONDS:.0f} s", case)
    finally:
        sys.setswitchinterval(before)
    if faults:
        raise faults[0]
    check_records(index, states.all[-1], case)
    check_saves(index, path, engine, case)
    return Outcome(f"{engine} read and written")

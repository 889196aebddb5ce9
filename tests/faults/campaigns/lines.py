"""Lines: Ctrl-C at a random line of a call that changes or saves an index.

Right is: the index is exactly as before or as after the call (ids, documents, weights, scores with and without the
documents); every record is found by its own document; the folder opens as it was last saved or as the interrupted save
writes it; the index can be changed, saved and opened, with the same answers.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.campaigns.outcome import WRONG, Fault, Outcome, ensure, must_work
from tests.faults.campaigns.records import (
    Answers,
    Documents,
    answers,
    check_saves,
    copy_template,
    kept_folder,
    make_document,
    make_documents,
    open_index,
)
from tests.faults.interrupts import in_another_thread, interrupt_line, lines_of

from ghrr.search import RecordIndex

OLD = make_documents(range(10))


@dataclass
class Subject:
    """An index that was opened from a folder, or changed since then."""

    index: RecordIndex
    folder: Path
    engine: str
    documents: Documents


def new_folder(subject: Subject) -> Path:
    return subject.folder.with_name(f"{subject.folder.name} copy")


def _add(subject: Subject) -> Documents:
    new = make_documents(range(100, 103))
    subject.index.add(list(new.values()), ids=list(new))
    return subject.documents | new


def _add_fields(subject: Subject) -> Documents:
    new = {name: {**document, "extra": f"{name} extra"} for name, document in make_documents(range(200, 203)).items()}
    subject.index.add(list(new.values()), ids=list(new))
    return subject.documents | new


def _update(subject: Subject) -> Documents:
    new = {name: make_document(number, version=1) for number, name in enumerate(["id 3", "id 7"], 300)}
    subject.index.update(list(new.values()), ids=list(new))
    return {name: document for name, document in subject.documents.items() if name not in new} | new


def _remove(subject: Subject) -> Documents:
    gone = ["id 2", "id 5", "id 6"]
    subject.index.remove(gone)
    return {name: document for name, document in subject.documents.items() if name not in gone}


def _learn_weights(subject: Subject) -> Documents:
    chosen = ["id 0", "id 4", "id 8", "id 9"]
    subject.index.learn_weights([{"name": subject.documents[name]["name"]} for name in chosen], chosen)
    return subject.documents


def _save(subject: Subject) -> Documents:
    subject.index.save()
    return subject.documents


def _save_elsewhere(subject: Subject) -> Documents:
    subject.index.save(new_folder(subject))
    return subject.documents


CHANGES: dict[str, Callable[[Subject], Documents]] = {
    "add": _add,
    "add a field": _add_fields,
    "update": _update,
    "remove": _remove,
    "learn_weights": _learn_weights,
}
ACTIONS = CHANGES | {"save": _save, "save to a new folder": _save_elsewhere}


@functools.cache
def saved_answers(engine: str) -> Answers:
    return answers(open_index(copy_template(engine, OLD, kept_folder("saved") / "index"), engine))


def attack(rng: random.Random, folder: Path) -> Outcome:
    engine = rng.choices(["torch", "faiss", "lancedb"], [8, 1, 1])[0]
    action = rng.choice(list(ACTIONS))
    pending = rng.choice(list(CHANGES)) if action.startswith("save") else rng.choice(["", *CHANGES])
    pending = "" if pending == action else pending
    if engine == "lancedb" and action == "save to a new folder":
        action = "save"  # two folders would share one table
    act = ACTIONS[action]

    def prepare(name: str) -> Subject:
        path = copy_template(engine, OLD, folder / name)
        subject = Subject(open_index(path, engine), path, engine, OLD)
        if pending:
            subject.documents = CHANGES[pending](subject)
        return subject

    whole = prepare("whole")
    saved, before = saved_answers(engine), answers(whole.index)
    results: list[Documents] = []
    places = lines_of(lambda subject: results.append(act(subject)), whole)
    allowed = {"before": (whole.documents, before), "after": (results[0], answers(whole.index))}

    subject = prepare("interrupted")
    number = rng.randrange(len(places)) if rng.random() < 0.5 else places.index(rng.choice(sorted(set(places))))
    place = interrupt_line(act, subject, number + 1)
    shown = "/".join((place or "none").split("/")[-2:])
    case = f"{engine}: {action}" + (f" after {pending}" if pending else "") + f", interrupted at {shown}"
    target = new_folder(subject) if action == "save to a new folder" else subject.folder
    in_another_thread(lambda: _check(subject, allowed, saved, case, target=target, is_saving=action == "save"))
    return Outcome("ended before the line" if place is None else "interrupted")


def _check(
    subject: Subject,
    allowed: dict[str, tuple[Documents, Answers]],
    saved: Answers,
    case: str,
    *,
    target: Path,
    is_saving: bool,
) -> None:
    """Check the index, then the folder, then the index after another change and a save to ``target``."""
    with must_work(case):
        found = answers(subject.index)
    state = next((name for name, (_, wanted) in allowed.items() if found.equals(wanted)), None)
    if state is None:
        differences = " / ".join(f"{name}: {wanted.difference(found)}" for name, (_, wanted) in allowed.items())
        raise Fault(WRONG, f"neither as before nor as after; {differences}", case)
    with must_work(case):
        stored = answers(open_index(subject.folder, subject.engine))
    known = [saved, allowed["after"][1]] if is_saving else [saved]
    ensure(
        any(stored.equals(one) for one in known),
        WRONG,
        f"the folder is not as it was saved: {saved.difference(stored)}",
        case,
    )
    ensure(subject.index.ids == list(allowed[state][0]), WRONG, "other records than the model", case)
    check_saves(subject.index, target, subject.engine, case)

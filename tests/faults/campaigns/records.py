"""A plain model of an index of records, a dictionary of documents, and checks that an index agrees with it."""

from __future__ import annotations

import atexit
import functools
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.campaigns.outcome import LOST, WRONG, Fault, ensure, must_work

import ghrr
from ghrr.search import RecordIndex, database

SPACE = ghrr.Space(dim=32, m=2, seed=0)
LOCAL = ("torch", "faiss")  # engines that keep their vectors in the folder of the index
EXTERNAL = ("lancedb", "milvus")
_GIVEN = ("Ada", "Alan", "Grace", "Kurt", "Emmy", "Paul", "Rózsa", "Sofia")
_FAMILY = ("Lovelace", "Turing", "Hopper", "Gödel", "Noether", "Erdős", "Péter", "Kovalevskaya")
_CITIES = ("Rome", "Oslo", "Lima")
_TOLERANCE = 2e-4  # of scores: storage rounds in the same way before and after

Documents = dict[str, dict[str, Any]]


def make_document(number: int, version: int = 0) -> dict[str, Any]:
    """Return a document that no other number or version has."""
    rng = random.Random(f"document {number} {version}")
    document: dict[str, Any] = {
        "name": f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)} {number:04d}-{version}",
        "year": 1700 + 7 * number % 300,
        "born": {"city": rng.choice(_CITIES)},
    }
    if rng.random() < 0.4:
        document["note"] = " ".join(rng.choices(["red", "green", "blue", "ink", "oak"], k=4))
    return document


def make_documents(numbers: range) -> Documents:
    return {f"id {number}": make_document(number) for number in numbers}


def address(engine: str, folder: Path) -> str | None:
    """Return where an engine keeps vectors that are not in the folder of the index: beside it."""
    if engine in LOCAL:
        return None
    return f"{folder}.{engine}" + (".db" if engine == "milvus" else "")


def make_index(engine: str, folder: Path, documents: Documents) -> RecordIndex:
    """Make an index with documents, which will be saved to a folder."""
    index = RecordIndex(SPACE, backend=engine, uri=address(engine, folder))
    if documents:
        index.add(list(documents.values()), ids=list(documents))
    return index


def open_index(folder: Path, engine: str) -> RecordIndex:
    return RecordIndex.open(folder, uri=address(engine, folder))


def copy_template(engine: str, documents: Documents, folder: Path) -> Path:
    """Write a saved index of documents to a folder, with what its engine has; quick after the first time."""
    template = _template(engine, tuple(documents))
    shutil.copytree(template, folder)
    source, target = (address(engine, path) for path in (template, folder))
    if source and target:
        shutil.copytree(source, target) if Path(source).is_dir() else shutil.copy(source, target)
    return folder


def read_stored_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a saved index."""
    with closing(sqlite3.connect(folder / database.NAME)) as connection:
        stored: dict[str, Any] = json.loads(connection.execute("SELECT body FROM manifest").fetchone()[0][9:])
    return stored


def write_stored_manifest(folder: Path, content: dict[str, Any]) -> None:
    """Change the manifest of a saved index, with a checksum that fits."""
    with closing(sqlite3.connect(folder / database.NAME)) as connection, connection:
        text = database.with_checksum("manifest", json.dumps(content))
        connection.execute("UPDATE manifest SET body = ?", (text,))


def kept_folder(prefix: str) -> Path:
    """Return a new folder that several cases use; it is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _template(engine: str, names: tuple[str, ...]) -> Path:
    folder = kept_folder("template") / engine
    documents = {name: make_document(int(name.rpartition(" ")[2])) for name in names}
    make_index(engine, folder, documents).save(folder)
    return folder


# ----------------------------------------------------------------------------------------------------------- changes


@dataclass
class Change:
    """A change of an index, and of its model."""

    name: str
    act: Callable[[RecordIndex], object]
    after: Documents


def random_change(rng: random.Random, now: Documents, fresh: int, *, learn: bool = True) -> Change:
    """Return a change of records. ``fresh`` is the first number that no document has."""
    kind = rng.choice(["add", "add", "add with a new field", "update", "remove", "learn_weights" if learn else "add"])
    if kind != "add" and kind != "add with a new field" and len(now) < 4:
        kind = "add"
    if kind == "learn_weights":
        chosen = rng.sample(sorted(now), min(8, len(now)))
        examples = [{key: now[name][key] for key in ("name", "born")} for name in chosen]
        return Change(kind, lambda index: index.learn_weights(examples, chosen), dict(now))
    if kind == "update":
        chosen = rng.sample(sorted(now), 2)
        new = {name: make_document(fresh + i, version=1) for i, name in enumerate(chosen)}
        rest = {name: document for name, document in now.items() if name not in new}
        return Change(kind, lambda index: index.update(list(new.values()), ids=list(new)), rest | new)
    if kind == "remove":
        chosen = rng.sample(sorted(now), rng.randint(1, 3))
        rest = {name: document for name, document in now.items() if name not in chosen}
        return Change(kind, lambda index: index.remove(chosen), rest)
    added = make_documents(range(fresh, fresh + rng.randint(1, 4)))
    if kind == "add with a new field":
        added = {name: {**document, f"extra {fresh}": f"{name} extra"} for name, document in added.items()}
    return Change(kind, lambda index: index.add(list(added.values()), ids=list(added)), now | added)


# ------------------------------------------------------------------------------------------------------------ checks


@dataclass
class Answers:
    """All that an index answers about its records: ids, documents, weights, and the scores of searches."""

    ids: list[str]
    documents: list[Any]
    weights: dict[str, float]
    exact: Any = field(repr=False)
    by_vector: Any = field(repr=False)

    def equals(self, other: Answers) -> bool:
        if (self.ids, self.documents) != (other.ids, other.documents) or self.weights.keys() != other.weights.keys():
            return False
        own, others = (np.array(list(one.weights.values())) for one in (self, other))
        return (
            np.allclose(own, [other.weights[name] for name in self.weights], atol=_TOLERANCE)
            and len(own) == len(others)
            and np.allclose(self.exact, other.exact, atol=_TOLERANCE)
            and np.allclose(self.by_vector, other.by_vector, atol=_TOLERANCE)
        )

    def difference(self, other: Answers) -> str:
        """Describe the first difference, for the report of a fault."""
        if self.ids != other.ids:
            return f"ids {sorted(set(self.ids) ^ set(other.ids))[:5] or 'in another order'}"
        if self.documents != other.documents:
            return "documents"
        if any(abs(self.weights.get(name, -1) - weight) > _TOLERANCE for name, weight in other.weights.items()):
            return f"weights {self.weights} and {other.weights}"
        exact = np.abs(self.exact - other.exact).max(initial=0)
        return f"scores by {exact:.3g}, vectors by {np.abs(self.by_vector - other.by_vector).max(initial=0):.3g}"


def answers(index: RecordIndex) -> Answers:
    """Ask an index about each of its records, with and without the documents."""
    ids = index.ids
    documents = [index[name] for name in ids]
    weights = {one.name: one.weight for one in index.fields}
    exact, by_vector = np.zeros((len(ids), len(ids), 2)), np.zeros((len(ids), len(ids)))
    if ids:
        place = {name: row for row, name in enumerate(ids)}
        for row, hits in enumerate(index.search_many(documents, k=len(ids))):
            for hit in hits:
                exact[row, place[hit.guess]] = hit.score, hit.probability
        for row, hits in enumerate(index.search_many(documents, k=len(ids), candidates=0)):
            for hit in hits:
                by_vector[row, place[hit.guess]] = hit.score
    return Answers(ids, documents, weights, exact, by_vector)


def check_records(index: RecordIndex, expected: Mapping[str, Any], case: str) -> None:
    """Check that an index has exactly these records, finds each by its own document, and finds duplicates."""
    with must_work(case):
        ids, count, listed = index.ids, len(index), {name: name in index for name in expected}
    missing = [name for name in expected if name not in ids or not listed[name]]
    ensure(not missing, LOST, f"{len(missing)} of {len(expected)} records are not there, such as {missing[:3]}", case)
    ensure(len(set(ids)) == len(ids) == count == len(expected), WRONG, f"{count} records, not {len(expected)}", case)
    with must_work(case):
        stored = [index[name] for name in expected]
        hits = index.search_many(list(expected.values()), k=1) if expected else []
        clusters = index.duplicates(threshold=0.99)
    for name, document, own, found in zip(expected, expected.values(), stored, hits, strict=True):
        ensure(own == document, WRONG, f"the document of {name!r} is {own}, not {document}", case)
        ensure(found, WRONG, f"a search for the document of {name!r} finds nothing", case)
        ensure(
            found[0].document == document and found[0].score > 0.999,
            WRONG,
            f"a search for the document of {name!r} finds {found[0]!r}",
            case,
        )
    unknown = {name for cluster in clusters for name in cluster.ids} - set(expected)
    ensure(not unknown, WRONG, f"duplicates has unknown records {unknown}", case)


def check_saves(index: RecordIndex, folder: Path, engine: str, case: str) -> RecordIndex:
    """Add a record, save, open again, and check that both indexes give the same answers; return the opened one."""
    documents = {name: index[name] for name in index.ids}
    extra = {"the last": make_document(9999)}
    with must_work(case):
        index.add(list(extra.values()), ids=list(extra))
        index.save(folder)
        opened = open_index(folder, engine)
    check_records(opened, documents | extra, f"{case}, saved and opened")
    with must_work(case):
        before, after = answers(index), answers(opened)
    if not before.equals(after):
        raise Fault(WRONG, f"after save and open the index answers otherwise: {before.difference(after)}", case)
    return opened

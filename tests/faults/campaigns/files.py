"""Files: damaged, crafted, missing and exchanged files of every format.

Right is: a reader returns what was written, or raises an error that names the file. Files are damaged in four ways.
Bytes are changed, a file is missing or cut, or it is exchanged with another file of the same kind: then what is
read must be what was written. Or values are changed by someone who knows the format and renews its checksum: then
anything of the right kind may be read, within the limits of time and memory, and nothing outside the folder is made.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tests.faults.campaigns.outcome import RAW, WRONG, Fault, Outcome, describe, ensure
from tests.faults.campaigns.records import (
    address,
    kept_folder,
    make_document,
    make_documents,
    make_index,
    read_stored_manifest,
    write_stored_manifest,
)
from tests.faults.damage import BYTES, bounded_memory, change_value, sealed_change
from tests.lab.lm.common import new_model, random_text, short_training, small_config
from torch import Tensor

import ghrr
from ghrr import ItemMemory, Space
from ghrr.relations import RelationModel, load_model, save_model
from ghrr.search import RecordIndex
from ghrr.search.database import with_checksum
from ghrr.structures import Graph
from ghrr.training import restore_module, restore_optimizer
from ghrr_lab import paper
from ghrr_lab.lm import load_run, train
from ghrr_lab.lm.checkpoint import load_checkpoint
from ghrr_lab.lm.run_folder import read_description, read_result
from ghrr_lab.lm.summary import add_results, stored_runs
from ghrr_lab.lm.train_log import read_log
from ghrr_lab.lm.train_step import make_optimizer
from ghrr_lab.paper.journal import Journal, Trial

SPACE = Space(20, 2, seed=3)


@dataclass(frozen=True)
class Writer:
    """A function that writes files to a folder, and one that reads them as plain values."""

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    unsealed: tuple[str, ...] = ()  # files without a checksum
    parts: bool = False  # whether several files belong together, so that none may come from another folder


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
        restore_module(resumed, tensors, "model")
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


def save_relations(folder: Path) -> None:
    save_model(folder / "x.safetensors", RelationModel(("a", "b", "c"), ("to", "of"), dim=4, m=2, seed=1))


def read_relations(folder: Path) -> Any:
    model = load_model(folder / "x.safetensors")
    return model.entities, model.relations, [(name, plain(x)) for name, x in model.state_dict().items()]


def save_index(engine: str, folder: Path) -> None:
    """Save an index. Folder 1 has other records than folder 0; folder 2 has other documents with the same ids."""
    copy = int(folder.name)
    documents = make_documents(range(100, 112) if copy == 1 else range(12))
    if copy == 2:
        documents = {name: make_document(number, version=3) for number, name in enumerate(documents)}
    index = make_index(engine, folder / "index", documents)
    index.save(folder / "index")
    index.remove(index.ids[:2])
    index.save()


def read_index(engine: str, folder: Path) -> Any:
    """Return all records of an index and what it answers about them."""
    index = RecordIndex.open(folder / "index", uri=address(engine, folder / "index"))
    documents = [index[name] for name in index.ids]
    ensure(all(isinstance(one, dict) for one in documents), WRONG, "a document that is not an object is read")
    index.verify()
    examples = [one for one in documents if one]  # a crafted document may be empty
    found = index.search_many(examples, k=5) if examples else []
    hits = [[(hit.guess, round(hit.score, 3), round(hit.probability, 3)) for hit in own] for own in found]
    near = index.search_many(examples[:5], k=5, candidates=0) if examples else []
    by_vector = [[round(hit.score, 3) for hit in own] for own in near]
    clusters = [cluster.ids for cluster in index.duplicates(threshold=0.5)]
    weights = [(field.name, field.kind, field.weight) for field in index.fields]
    return json.dumps([index.ids, documents, hits, by_vector, clusters, weights])


WRITERS = {
    "save": Writer(save_hypervectors, read_hypervectors),
    "Graph.save": Writer(save_graph, read_graph),
    "ItemMemory.save": Writer(
        lambda folder: ItemMemory(SPACE, list("abc")).save(folder / "x.safetensors", about={"a": [1]}),
        lambda folder: read_memory(folder / "x.safetensors"),
    ),
    "ItemMemory.commit": Writer(save_memory_folder, lambda folder: read_memory(folder / "memory")),
    "train": Writer(save_run, read_run, unsealed=("log.jsonl",)),
    "journal": Writer(save_journal, read_journal),
    "summary": Writer(save_summary, lambda folder: stored_runs(folder / "summary.json"), unsealed=("summary.json",)),
    "relations": Writer(save_relations, read_relations),
    **{
        f"RecordIndex {engine}": Writer(
            functools.partial(save_index, engine), functools.partial(read_index, engine), parts=True
        )
        for engine in ("torch", "faiss", "lancedb")
    },
}
_SHARES = [1, 1, 1, 2, 1, 1, 0.3, 1, 6, 2, 2]


@functools.cache
def _written(name: str, copy: int) -> tuple[Path, Any]:
    """Return a folder with written files, and what is read from it."""
    folder = kept_folder("written") / str(copy)
    folder.mkdir()
    WRITERS[name].write(folder)
    return folder, WRITERS[name].read(folder)


# -------------------------------------------------------------------------------------------------------------- damage


def change_bytes(rng: random.Random, path: Path, other: Path) -> str:
    mutation = rng.choice(BYTES)
    path.write_bytes(mutation(rng, path.read_bytes()))
    return mutation.__name__


def change_text(rng: random.Random, path: Path, other: Path) -> str:
    """Replace a letter or a digit by another one: what is read may still be well-formed."""
    content, letters = bytearray(path.read_bytes()), b"0123456789abcdefghijklmnopqrstuvwxyz"
    place = rng.choice([place for place, byte in enumerate(content) if byte in letters])
    content[place] = rng.choice([byte for byte in letters if byte != content[place]])
    path.write_bytes(bytes(content))
    return f"byte {place}"


def change_values(rng: random.Random, path: Path, other: Path) -> str:
    if path.suffix == ".sqlite":
        return _change_database(rng, path)
    mutation = sealed_change(path)
    path.write_bytes(mutation(rng, path.read_bytes()))
    return mutation.__name__


def _change_database(rng: random.Random, path: Path) -> str:
    """Change the database of an index in what it stores, with checksums that fit."""
    kind = rng.choice(["statement", "statement", "manifest", "address"])
    if kind == "statement":
        statement = rng.choice(_STATEMENTS)
        _execute(path, statement)
        return statement
    stored = read_stored_manifest(path.parent)
    if kind == "manifest":
        changed = change_value(rng, stored)
    else:
        outside = f"{path.parents[2] / 'outside'}{rng.choice(['', '.db'])}"
        engine = {"backend": rng.choice(["lancedb", "milvus"]), "uri": outside, "collection": "records"}
        changed = {**stored, "engine": {**engine, "approximate": False}}
    write_stored_manifest(path.parent, changed)
    return f"{kind}: {changed!r:.200}"


def _execute(path: Path, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.create_function("checked", 2, with_checksum)
        connection.executescript(statement)


_STATEMENTS = (
    "UPDATE documents SET body = checked(label, '{}') WHERE rowid = 3",
    "UPDATE documents SET body = checked(label, '[1]') WHERE rowid = 3",
    "UPDATE documents SET body = checked(label, '{') WHERE rowid = 3",
    "UPDATE documents SET body = checked(label, '17')",
    "UPDATE records SET number = -number",
    "UPDATE records SET label = label || 'x'",
    "UPDATE records SET label = x'ff00'",
    "UPDATE documents SET body = '{}' WHERE rowid = 3",
    "UPDATE documents SET body = '[1]' WHERE rowid = 3",
    "UPDATE documents SET body = '{' WHERE rowid = 3",
    "UPDATE documents SET body = x'ff00' WHERE rowid = 3",
    "UPDATE documents SET body = 17",
    "ALTER TABLE documents RENAME TO others",
    "ALTER TABLE documents ADD COLUMN more TEXT",
    "DROP TABLE documents; CREATE TABLE documents (label INT, body BLOB)",
    "DROP TABLE documents; CREATE VIEW documents AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT 'a:' || i AS label, '{}' AS body FROM n",
    "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END",
    "INSERT INTO documents SELECT 'ff:' || label, body FROM documents",
)
_ROWS = (
    "DELETE FROM documents WHERE rowid = 3",
    "DELETE FROM documents",
    "UPDATE documents SET label = 'x' || label",
    "DELETE FROM records WHERE number = (SELECT min(number) FROM records)",
    "DELETE FROM records",
    "UPDATE documents SET body = (SELECT max(body) FROM documents)",
)


def remove_rows(rng: random.Random, path: Path, other: Path) -> str:
    if path.suffix != ".sqlite":
        return remove(rng, path, other)
    statement = rng.choice(_ROWS)
    _execute(path, statement)
    return statement


def remove(rng: random.Random, path: Path, other: Path) -> str:
    path.unlink()
    return "removed"


def exchange(rng: random.Random, path: Path, other: Path) -> str:
    (same,) = [one for one in other.parent.iterdir() if _kind_of(one) == _kind_of(path)]
    shutil.copy(same, path)
    return "exchanged"


def _kind_of(path: Path) -> str:
    """Return the name of a file without what is random in it."""
    return re.sub(r"[0-9a-f]{16}", "", path.name)


def replace_by_other_kind(rng: random.Random, path: Path, other: Path) -> str:
    path.unlink()
    kind = rng.choice(["folder", "broken link", "FIFO"])
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(path.parent / "nowhere")
    return kind


def attack(rng: random.Random, folder: Path) -> Outcome:
    """Damage one file of a copy and read it."""
    name = rng.choices(list(WRITERS), _SHARES)[0]
    writer = WRITERS[name]
    original, expected = _written(name, 0)
    damages = [change_bytes] * 8 + [change_text] * 4 + [change_values] * 8 + [remove, replace_by_other_kind]
    damages += [exchange] * 4 + [remove_rows] * 2 if writer.parts else []
    damage = rng.choice(damages)
    other = _written(name, rng.choice([1, 2]))[0] if damage is exchange else original
    inside = folder / "files"
    shutil.copytree(original, inside)
    roots = [inside / "index"] if writer.parts else [inside]
    paths = sorted(
        path for root in roots for path in root.rglob("*") if path.is_file() and path.name not in ("lock", ".lock")
    )
    path = rng.choice(paths)
    how = damage(rng, path, other / path.relative_to(inside))
    case = f"{name}: {path.relative_to(inside)}, {damage.__name__}: {how}"
    before = set(os.listdir(folder))
    try:
        with bounded_memory():
            found = writer.read(inside)
    except Fault as fault:
        raise Fault(fault.kind, str(fault).removeprefix(f"{fault.kind}: "), case) from fault
    except (ValueError, OSError) as error:
        if str(inside) not in str(error) and path.name not in str(error):
            raise Fault(RAW, f"the message does not name the file: {describe(error)}", case) from error
        result = "refused"
    except Exception as error:
        raise Fault(RAW, describe(error), case) from error
    else:
        result = "read"
        if damage is not change_values and path.name not in writer.unsealed:
            is_correct = found.items() <= expected.items() if name == "journal" else found == expected
            ensure(is_correct, WRONG, "something else is read than was written", case)
            result = "read as it was"
    made = set(os.listdir(folder)) - before
    ensure(not made, WRONG, f"reading made {sorted(made)} outside the folder", case)
    return Outcome(f"{result}: {name}")

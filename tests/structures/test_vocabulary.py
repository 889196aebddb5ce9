"""Vocabularies: names and given hypervectors in one table."""

from __future__ import annotations

import copy
import pickle
import re
import threading

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import ghrr
from ghrr import Space
from ghrr.structures import Automaton, Graph, NGrams, Record, Set, Tree, Vocabulary
from tests.helpers import wrong
from tests.processes import needs_fork
from tests.structures.common import SPACE


def some_vector(seed: int = 0) -> torch.Tensor:
    return SPACE.random(generator=torch.Generator().manual_seed(seed))


def test_names_stand_for_atoms_of_their_namespace() -> None:
    table = Vocabulary(SPACE, "colour", ["red"])
    assert table.indices(["green", "red", "green"]) == [1, 0, 1]
    torch.testing.assert_close(table.vectors(), SPACE.vectors(["red", "green"], namespace="colour"))
    torch.testing.assert_close(table.vectors(["blue", "red"]), SPACE.vectors(["blue", "red"], namespace="colour"))
    assert table.names == ["red", "green"]
    assert "red" in table
    assert "blue" not in table


def test_a_defined_name_stands_for_the_given_hypervector() -> None:
    table = Vocabulary(SPACE, "colour", ["red"])
    vector = some_vector()
    table.define("mine", vector)
    table.define("mine", vector)  # the same again changes nothing
    assert torch.equal(table.encode(["mine"])[0], vector)
    assert table.match(vector[None])[0].label == "mine"
    assert table.resolve(vector) == "mine"
    for name in ("red", "mine"):
        with pytest.raises(ValueError, match=f"the name '{name}' already has a different hypervector"):
            table.define(name, some_vector(1))


def test_given_hypervectors_are_named_by_expression_or_digest() -> None:
    table = Vocabulary(SPACE, "colour")
    a, b = SPACE.atoms("a", "b")
    assert table.resolve(a * b) == "#a * b"
    label = table.resolve(some_vector())
    assert re.fullmatch(r"#[0-9a-f]{8}", label)
    assert table.resolve(some_vector()) == label
    assert table.names == []  # a query adds nothing
    table.indices([label, "#a * b"])
    assert table.names == [label, "#a * b"]
    assert torch.equal(table.vectors(), torch.stack([some_vector(), (a * b).tensor]))


def test_two_names_of_one_hypervector_are_both_saved() -> None:
    vector = some_vector()
    table = Vocabulary(SPACE, "colour")
    table.define("a", vector)
    table.define("b", vector)
    again = Vocabulary(SPACE, "colour")
    again.restore(table.state(), table.given_vectors())
    assert torch.equal(again.vectors(), torch.stack([vector, vector]))


def test_query_with_a_hypervector_adds_no_name() -> None:
    graph = Graph(SPACE)
    h = graph.encode([("a", "to", some_vector())])
    count = len(graph.nodes)
    assert [match.label for match in graph.predecessors(h, some_vector(), "to")] == ["a"]
    assert graph.neighbours(h, some_vector(3), "to") == []
    assert len(graph.nodes) == count
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        Graph(SPACE).neighbours(h, some_vector(), "to")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (SPACE.zeros(), "must be unitary"),
        (SPACE.identity(2), "needs one hypervector"),
        (ghrr.Space(4, 2).identity(), "does not fit Space"),
        (ghrr.Space(4, 2).atoms("a")[0], "does not belong to"),
        (SPACE.identity() * torch.nan, "not finite"),
    ],
)
def test_bad_hypervectors_are_refused(bad: torch.Tensor, message: str) -> None:
    graph = Graph(SPACE)
    with pytest.raises(ValueError, match=message):
        graph.encode([("a", "to", bad)])
    assert len(graph.nodes) == 0


@pytest.mark.parametrize("bad", ["", 3, None, b"x"])
def test_bad_names_are_refused(bad: object) -> None:
    with pytest.raises(TypeError, match="needs a non-empty string or a hypervector"):
        Graph(SPACE).encode([("a", "to", wrong(bad))])


def test_structures_take_given_hypervectors() -> None:
    v, w = some_vector(1), some_vector(2)
    graph = Graph(SPACE)
    graph.nodes.define("v", v)
    assert [m.label for m in graph.neighbours(graph.encode([(w, "to", v)]), w, "to")] == ["v"]
    tree = Tree(SPACE)
    tree.labels.define("v", v)
    assert tree.decode(tree.encode(["S", v, ["x", v]])).value == ["S", "v", ["x", "v"]]
    machine = Automaton(SPACE)
    machine.states.define("v", v)
    h = machine.encode({("p", w): v}, start="p", final=[v])
    assert machine.step(h, "p", w).label == "v"
    assert machine.run(h, [w]).accepted
    collection = Set(SPACE)
    h = collection.encode([v, (w, v)])
    assert collection.contains(h, v).confident
    assert collection.contains(h, [w, v]).confident
    assert not collection.contains(h, [v, w]).confident
    grams = NGrams(SPACE, 2)
    grams.names.define("v", v)
    assert [m.label for m in grams.after(grams.encode([w, v, "x"]), [w])] == ["v"]


def test_copies_do_not_share_their_table() -> None:
    table = Vocabulary(SPACE, "colour", ["red"])
    for other in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        other.indices(["green"])
        assert (table.names, other.names) == (["red"], ["red", "green"])


def test_threads_add_every_name_once() -> None:
    space = ghrr.Space(4, 2)
    table = Vocabulary(space, "colour")
    names = [f"name {number}" for number in range(300)]

    def add(start: int) -> None:
        for name in names[start:] + names[:start]:
            table.indices([name])

    threads = [threading.Thread(target=add, args=(start,)) for start in range(0, 300, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(table.names) == sorted(names)
    assert torch.equal(table.vectors(), space.vectors(table.names, namespace="colour"))


def test_an_interrupted_call_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(dict[str, int]):
        def update(self, *_: object, **__: int) -> None:  # after the names were extended
            super().update(green=1)
            raise KeyboardInterrupt

    table = Vocabulary(SPACE, "colour", ["red"])
    monkeypatch.setattr(table._table, "_index", Interrupted(table._table._index))
    with pytest.raises(KeyboardInterrupt):
        table.indices(["green", "blue"])
    assert table.names == ["red"]
    assert "green" not in table
    monkeypatch.setattr(table._table, "_index", dict(table._table._index))
    assert table.indices(["blue", "green"]) == [1, 2]
    torch.testing.assert_close(table.vectors(), SPACE.vectors(["red", "blue", "green"], namespace="colour"))


class Encoded(Dataset[Tensor]):
    """Records that workers encode."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor:
        return self.record.encode({"name": f"person {index}"})


@needs_fork
def test_records_of_a_worker_cannot_be_read_and_the_error_says_why() -> None:
    record = Record(Space(dim=60, m=3))
    [batch] = DataLoader(Encoded(record), batch_size=2, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(ValueError, match="a worker of a DataLoader, adds names to a copy of its own"):
        record.query(batch[0], "name")
    record.encode_many([{"name": f"person {index}"} for index in range(2)])
    assert [match.label for [match] in record.query_many(batch, ["name"])] == ["person 0", "person 1"]


def test_best_names_are_the_same_in_chunks_and_of_equal_ones_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Vocabulary(SPACE, "word", [f"w{n}" for n in range(20)])
    answers = words.vectors(["w3", "w12", "w7"])
    scores, rows = words.best(answers)
    assert rows[:, 0].tolist() == [3, 12, 7]
    indices = np.array([1, 3, 12, 15])
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[0, 1] = False
    _, some_rows = words.best(answers, indices, mask)
    assert some_rows[0, 0] != 3  # w3 is masked for the first answer
    assert some_rows[1, 0] == 12
    assert set(some_rows.flatten().tolist()) <= set(indices.tolist())
    monkeypatch.setattr("ghrr.structures.vocabulary._CHUNK_SCORES", 6)
    assert torch.equal(words.best(answers)[1], rows)
    assert torch.allclose(words.best(answers)[0], scores)
    assert torch.equal(words.best(answers, indices, mask)[1], some_rows)
    assert words.best(torch.zeros_like(answers))[1].tolist() == [[0, 1]] * 3
    assert words.best(answers, indices[:1])[1].tolist() == [[1]] * 3
    assert words.best(answers, indices[:0])[1].shape == (3, 0)

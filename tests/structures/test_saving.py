"""Every structure is saved with its vocabulary and loaded into a new object."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.structures import Automaton, Chain, Graph, HashTable, NGrams, Sequence, Set, Stack, Tree
from ghrr.structures.base import Structure
from tests.containers import reseal
from tests.structures.common import SPACE

SHIFTED = Space(2700, 1, seed=4)
WORDS = ["to", "be", "or", "not", "to", "be"]
EDGES = [("Byron", "father of", "Ada"), ("Ada", "mother of", "Ralph"), ("Ralph", "child of", "Ada")]


def own_vector(space: Space) -> torch.Tensor:
    return space.random(generator=space.generator("own"))


CASES: dict[str, tuple[Callable[[Space], Any], Callable[[Any], torch.Tensor], Callable[[Any, torch.Tensor], Any]]] = {
    "Graph": (Graph, lambda s: s.encode(EDGES), lambda s, h: s.decode(h)),
    "Tree": (Tree, lambda s: s.encode("(S (NP she) (VP runs (PP in circles)))"), lambda s, h: s.decode(h).value),
    "Set": (Set, lambda s: s.encode(["a", ("b", "c"), ("c", "b"), "a"]), lambda s, h: s.decode(h)),
    "NGrams": (lambda space: NGrams(space, 3), lambda s: s.encode(list("abcba")), lambda s, h: s.decode(h)),
    "Sequence": (Sequence, lambda s: s.encode([*WORDS, own_vector(s.space)]), lambda s, h: s.decode(h)),
    "Chain": (Chain, lambda s: s.encode([*WORDS[:4], own_vector(s.space)]), lambda s, h: s.decode(h)),
    "HashTable": (HashTable, lambda s: s.encode({"Peru": "Lima", "Chad": "N'Djamena"}), lambda s, h: s.decode(h)),
    "Stack": (lambda space: Stack(space, confidence=0.95), lambda s: s.encode(WORDS), lambda s, h: s.decode(h)),
    "Automaton": (
        Automaton,
        lambda s: s.encode({("p", "a"): "q", ("q", "a"): ["p", "q"]}, start="p", final=["q"]),
        lambda s, h: (s.decode(h), s.run(h, "aa")),
    ),
}


@pytest.mark.parametrize("space", [SPACE, SHIFTED], ids=["m = 3", "m = 1"])
@pytest.mark.parametrize("kind", CASES)
def test_loaded_structure_reads_saved_hypervectors(kind: str, space: Space, tmp_path: Path) -> None:
    make, encode, read = CASES[kind]
    structure = make(space)
    h = encode(structure)
    want = read(structure, h)
    structure.save(tmp_path / "x.safetensors", h)
    loaded, vectors = type(structure).load(tmp_path / "x.safetensors")
    assert torch.equal(vectors, h)
    assert loaded.space == space
    assert loaded.state() == structure.state()
    assert loaded.confidence == structure.confidence
    assert read(loaded, vectors) == want
    assert torch.equal(encode(loaded), h)
    assert want


@pytest.mark.parametrize("kind", CASES)
def test_new_structure_has_an_empty_vocabulary(kind: str) -> None:
    make, encode, read = CASES[kind]
    h = encode(make(SPACE))
    with pytest.raises(ValueError, match="the vocabulary is empty"):
        read(make(SPACE), h)


def test_save_takes_several_vectors_or_none(tmp_path: Path) -> None:
    graph = Graph(SPACE)
    one = graph.encode(EDGES[:1])
    vectors = {"one": one, "two": SPACE.wrap(graph.encode(EDGES))}
    graph.save(tmp_path / "x", vectors)
    loaded, found = Graph.load(tmp_path / "x")
    assert {name: len(loaded.decode(h)) for name, h in found.items()} == {"one": 1, "two": 3}
    batch = torch.stack([one, graph.encode(EDGES[1:])])
    graph.save(tmp_path / "x", batch)
    assert torch.equal(Graph.load(tmp_path / "x")[1], batch)
    graph.save(tmp_path / "x")
    loaded, nothing = Graph.load(tmp_path / "x")
    assert nothing is None
    assert loaded.nodes.names == graph.nodes.names


def test_given_hypervectors_are_saved(tmp_path: Path) -> None:
    graph = Graph(SPACE)
    vector = SPACE.random(generator=torch.Generator().manual_seed(0))
    h = graph.encode([("Ada", "looks like", vector)])
    graph.save(tmp_path / "x", h)
    loaded, found = Graph.load(tmp_path / "x")
    [match] = loaded.neighbours(found, "Ada", "looks like")
    assert match.confident
    assert match == graph.neighbours(h, "Ada", "looks like")[0]
    assert [name.label for name in loaded.predecessors(found, vector, "looks like")] == ["Ada"]
    atoms = Graph.from_state(SPACE, Graph(SPACE).state())
    assert atoms.nodes.names == []


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["state"].update(structure="Tree"),
        lambda header: header["state"].update(settings={"nope": 1}),
        lambda header: header["state"].update(vocabulary={}),
        lambda header: header["state"]["vocabulary"]["nodes"].update(names=["a", "a"]),
        lambda header: header["state"]["vocabulary"]["nodes"].update(names=[1, 2]),
        lambda header: header["state"]["vocabulary"]["nodes"].update(given=["a"]),
        lambda header: header["state"].update(seen=[[1]]),
        lambda header: header["state"].update(seen=3),
        lambda header: header.update(state=[]),
        lambda header: header.update(vectors="many"),
        lambda header: header.update(vectors="none"),
        lambda header: header.update(version=2),
        lambda header: header.update(format="ghrr-hypervectors"),
    ],
)
def test_files_with_inconsistent_content_are_refused(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    path = tmp_path / "x"
    graph = Graph(SPACE)
    graph.save(path, graph.encode(EDGES))
    reseal(path, lambda _: None)
    Graph.load(path)  # negative control: rewriting alone changes nothing
    reseal(path, change)
    with pytest.raises(ValueError, match=r"Graph\.load\("):
        Graph.load(path)


def test_a_file_of_another_structure_is_refused(tmp_path: Path) -> None:
    Graph(SPACE).save(tmp_path / "x")
    with pytest.raises(ValueError, match="state of a Graph, expected a Tree"):
        Tree.load(tmp_path / "x")
    with pytest.raises(ValueError, match="got format 'ghrr-structure', expected 'ghrr-hypervectors'"):
        ghrr.load(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="no such file"):
        Graph.load(tmp_path / "y")


def test_save_refuses_bad_input(tmp_path: Path) -> None:
    graph = Graph(SPACE)
    with pytest.raises(ValueError, match=r"Graph\.save: .* does not fit"):
        graph.save(tmp_path / "x", Space(4, 2).zeros())
    with pytest.raises(TypeError, match="must be a printable string"):
        graph.save(tmp_path / "x", {"a\n": SPACE.zeros()})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match=r"Structure: needs a ghrr\.Space"):
        Structure(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="permute must be True, False or None"):
        Graph(SPACE, permute="yes")  # type: ignore[arg-type]

"""Graphs: neighbours, predecessors, labels and paths; an edge is not its reversal."""

from __future__ import annotations

import re
import sys

import networkx as nx
import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.memory.match import Match
from ghrr.structures import Graph
from tests.helpers import wrong
from tests.structures.common import COMMUTING, SPACE, close, noise

EDGES = [
    ("Byron", "father of", "Ada"),
    ("Anne", "mother of", "Ada"),
    ("Ada", "mother of", "Ralph"),
    ("Ada", "mother of", "Byron jr"),
    ("Ada", "friend of", "Charles"),
    ("Charles", "friend of", "Ada"),
]


def labels(matches: list[Match]) -> set[str]:
    return {match.label for match in matches if match.confident}


def test_neighbours_and_predecessors_are_found() -> None:
    model = Graph(SPACE)
    h = model.encode(EDGES)
    assert labels(model.neighbours(h, "Ada", "mother of")) == {"Ralph", "Byron jr"}
    assert labels(model.neighbours(h, "Byron", "father of")) == {"Ada"}
    assert labels(model.predecessors(h, "Ada", "mother of")) == {"Anne"}
    assert labels(model.edge_labels(h, "Ada", "Charles")) == {"friend of"}
    assert model.neighbours(h, "Ralph", "mother of") == []
    assert model.neighbours(h, "Ada", "father of") == []
    assert model.neighbours(h, "stranger", "friend of") == []
    assert model.edge_labels(h, "Ralph", "Ada") == []
    for match in model.neighbours(h, "Ada", "mother of"):
        assert abs(match.score - 1) < 5 * noise(6)


def test_an_edge_is_not_its_reversal() -> None:
    edges = [("a", "to", "b"), ("c", "to", "d")]
    for model in (Graph(SPACE), Graph(COMMUTING), Graph(SPACE, permute=True)):
        h = model.encode(edges)
        assert labels(model.neighbours(h, "a", "to")) == {"b"}
        assert labels(model.neighbours(h, "b", "to")) == set()
        assert labels(model.predecessors(h, "b", "to")) == {"a"}
        assert labels(model.edge_labels(h, "c", "d")) == {"to"}
        assert labels(model.edge_labels(h, "d", "c")) == set()
        assert list(model.decode(h)) == edges


@pytest.mark.parametrize("space", [SPACE, COMMUTING], ids=repr)
def test_both_directions_of_an_edge_are_found_with_confidence(space: Space) -> None:
    model = Graph(space)
    edges = [("a", "to", "b"), ("b", "to", "a"), ("c", "to", "d")]
    assert set(model.decode(model.encode(edges))) == set(edges)


def test_directions_that_cannot_be_distinguished_are_not_confident() -> None:
    control = Graph(COMMUTING, permute=False)
    edges = [("a", "to", "b"), ("b", "to", "a"), ("c", "to", "d")]
    h = control.encode(edges)
    assert list(control.decode(h)) == [("c", "to", "d")]
    assert not any(match.confident for match in control.neighbours(h, "d", "to"))


def test_unbinding_on_the_wrong_side_misses() -> None:
    model = Graph(SPACE)
    h = model.encode(EDGES)
    key = ghrr.bind(model.nodes.encode(["Byron"])[0], model.labels.encode(["father of"])[0])
    ada = model.nodes.encode(["Ada"])[0]
    assert ghrr.similarity(ghrr.unbind(h, key, side="left"), ada) > 1 - 5 * noise(6)
    assert ghrr.similarity(ghrr.unbind(h, key, side="right"), ada) < 1 / 9 + 5 * noise(6)


def test_encode_equals_the_sum_of_edges() -> None:
    space = Space(20, 2, dtype=torch.complex128)
    a, b = space.vectors(["a", "b"], namespace="graph node")
    likes, edge = space.vectors(["likes", "edge"], namespace="graph label")
    h = Graph(space).encode([("a", "likes", "b"), ("b", "a"), ("a", "likes", "b")])
    torch.testing.assert_close(h, a @ likes @ b + b @ edge @ a)


def test_walk_follows_labels() -> None:
    model = Graph(SPACE)
    h = model.encode(EDGES)
    assert model.walk(h, "Byron", ["father of", "mother of"]) == ["Byron jr", "Ralph"]
    assert model.walk(h, "Byron", ["mother of", "father of"]) == []
    assert model.walk(h, "Charles", ["friend of", "friend of"]) == ["Charles"]
    assert model.walk(h, "Byron", []) == ["Byron"]


def test_paths_over_several_edges() -> None:
    model = Graph(SPACE)
    h = model.encode([("a", "b"), ("b", "c"), ("c", "d"), ("a", "short", "c"), ("c", "a")])
    assert model.paths(h, "a", "c", hops=1) == [[("a", "short", "c")]]
    two = model.paths(h, "a", "c", hops=2)
    assert two == [[("a", "short", "c")], [("a", "edge", "b"), ("b", "edge", "c")]]
    assert len(model.paths(h, "a", "d", hops=3)) == 2
    assert model.paths(h, "d", "a", hops=4) == []


def test_decode_returns_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Graph(SPACE)
    found = model.decode(model.encode(EDGES))
    assert sorted(found) == sorted(EDGES)
    for (_, _, target), match in found.items():
        assert match.label == target
        assert abs(match.score - 1) < 5 * noise(6)
    monkeypatch.setattr("ghrr.structures.inputs._CHUNK_NUMBERS", 4 * SPACE.total_dim)
    assert sorted(model.decode(model.encode(EDGES))) == sorted(EDGES)
    assert model.decode(model.encode([])) == {}
    assert Graph(SPACE).decode(SPACE.zeros()) == {}


def test_reading_without_a_vocabulary_raises() -> None:
    h = Graph(SPACE).encode(EDGES)
    fresh = Graph(SPACE)
    for read in (
        lambda: fresh.neighbours(h, "Ada", "mother of"),
        lambda: fresh.predecessors(h, "Ada", "mother of"),
        lambda: fresh.edge_labels(h, "Anne", "Ada"),
        lambda: fresh.walk(h, "Ada", ["mother of"]),
        lambda: fresh.paths(h, "Anne", "Ada", hops=2),
        lambda: fresh.decode(h),
    ):
        with pytest.raises(ValueError, match=r"graph (node|label): the vocabulary is empty"):
            read()
    assert fresh.decode(SPACE.zeros()) == {}


def test_networkx_round_trip() -> None:
    source = nx.DiGraph()
    source.add_edge("a", "b", label="likes")
    source.add_edge("b", "c")
    model = Graph(SPACE)
    h = model.from_networkx(source)
    assert close(h, model.encode([("a", "likes", "b"), ("b", "edge", "c")]))
    back = model.to_networkx(h)
    assert sorted(back.edges(data="label")) == [("a", "b", "likes"), ("b", "c", "edge")]
    assert close(model.from_networkx(back), h)
    both = model.from_networkx(nx.Graph([("a", "b")]))
    assert close(both, model.encode([("a", "b"), ("b", "a")]))


def test_missing_networkx_raises_import_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Graph(SPACE)
    h = model.encode([("a", "b")])
    monkeypatch.setitem(sys.modules, "networkx", None)
    assert list(model.decode(h)) == [("a", "edge", "b")]
    with pytest.raises(ImportError, match=re.escape("Graph.to_networkx: needs networkx; pip install networkx")):
        model.to_networkx(h)


def test_bad_graphs_are_refused() -> None:
    model = Graph(SPACE)
    for edge in ("ab", ("a",), ("a", "b", "c", "d"), 3):
        with pytest.raises(
            TypeError, match=re.escape("Graph.encode: an edge must be (source, label, target) or (source, target)")
        ):
            model.encode(wrong([edge]))
    with pytest.raises(TypeError, match="needs a non-empty string or a hypervector, got int 2"):
        model.encode(wrong([("a", 2)]))
    for bad in (None, 3, "ab"):
        with pytest.raises(
            TypeError, match=re.escape("Graph.encode: needs a list of edges (source, label, target), got")
        ):
            model.encode(wrong(bad))
    h = model.encode(EDGES)
    with pytest.raises(ValueError, match="hops must be a whole number of at least 1"):
        model.paths(h, "Ada", "Ralph", hops=0)
    with pytest.raises(
        TypeError,
        match=re.escape("Graph.neighbours: needs a non-empty string"),
    ):
        model.neighbours(h, wrong(None))
    with pytest.raises(ValueError, match="does not fit Space"):
        model.decode(Space(4, 2).zeros())

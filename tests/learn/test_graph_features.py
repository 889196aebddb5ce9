"""GraphFeatures: the kernel of edges and neighbourhoods, direction, forms of input, wrong graphs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ghrr.learn import GraphFeatures, HDClassifier

GRAPHS: list[Any] = [
    (["C", "C", "O", "N"], [[0, 1], [1, 2], [1, 3]], ["-", "=", "-"]),
    (["C", "C", "O"], [[0, 1], [1, 2]], ["-", "-"]),
    (["N", "C", "C", "C"], [[0, 1], [1, 2], [2, 3], [3, 0]], ["-", "=", "-", "="]),
    (["O"], [], []),
]


def products_of(graph: Any, radius: int, directed: bool) -> Counter[Any]:
    """The products of a graph by their definition, with neighbourhoods as nested tuples."""
    labels, edges, kinds = graph
    arcs = [(*edge, kind) for edge, kind in zip(edges, kinds, strict=True)]
    both = arcs if directed else arcs + [(v, u, kind) for u, v, kind in arcs]
    found: Counter[Any] = Counter(("edge", labels[u], kind, labels[v]) for u, v, kind in both)
    colours: list[Any] = list(labels)
    for r in range(radius + 1):
        found.update((r, colour) for colour in colours)
        out = [sorted(repr((k, colours[v])) for u, v, k in both if u == node) for node in range(len(labels))]
        back = [sorted(repr((k, colours[u])) for u, v, k in arcs if v == node) for node in range(len(labels))]
        colours = [(c, tuple(o), tuple(b) if directed else ()) for c, o, b in zip(colours, out, back, strict=True)]
    return found


def exact_kernel(graphs: list[Any], radius: int, *, directed: bool = False, power: float = 0.5) -> Any:
    bags = [products_of(graph, radius, directed) for graph in graphs]
    names = sorted({name for bag in bags for name in bag}, key=repr)
    weights = np.array([[bag[name] for name in names] for bag in bags], dtype=float) ** power
    weights[np.array([[bag[name] for name in names] for bag in bags]) == 0] = 0.0
    kernel = weights @ weights.T
    lengths = np.sqrt(np.diag(kernel))
    return kernel / np.sqrt(np.outer(lengths, lengths)) / lengths.mean()


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("weighting", "power"), [("sqrt", 0.5), ("count", 1.0)])
def test_inner_products_are_the_kernel(m: int, directed: bool, weighting: str, power: float) -> None:
    encoder = GraphFeatures(9000 // m**2, m=m, radius=2, directed=directed, weighting=weighting, random_state=0)
    z = encoder.fit_transform(GRAPHS)
    # An edge and its reversal share up to 1/m² for m > 1.
    tolerance = 8 / np.sqrt(2 * 9000) if m == 1 else 0.15
    np.testing.assert_allclose(z @ z.T, exact_kernel(GRAPHS, 2, directed=directed, power=power), atol=tolerance)
    other = exact_kernel(GRAPHS, 0, directed=directed, power=power)  # negative control: another radius
    assert np.abs(z @ z.T - other).max() > 2 * tolerance


@pytest.mark.parametrize("m", [1, 2, 3])
def test_direction_of_edges_matters_if_directed(m: int) -> None:
    there, back = (["a", "b"], [[0, 1]]), (["a", "b"], [[1, 0]])
    for directed in (False, True):
        z = GraphFeatures(4000 // m**2, m=m, radius=0, directed=directed, random_state=0).fit_transform([there, back])
        want = 1.0 if not directed else 2 / 3 + 1 / (3 * m**2) * (m > 1)  # the nodes are the same, the edge is not
        assert z[0] @ z[1] / (z[0] @ z[0]) == pytest.approx(want, abs=0.06)
    refined = GraphFeatures(2000, radius=1, directed=True, random_state=0).fit_transform([there, back])
    assert refined[0] @ refined[1] < 0.5


def test_numbering_of_nodes_does_not_matter() -> None:
    labels, edges, kinds = GRAPHS[0]
    order = np.array([2, 0, 3, 1])  # new node i is old node order[i]
    renamed = ([labels[i] for i in order], np.argsort(order)[np.array(edges)], kinds)
    encoder = GraphFeatures(50, radius=3, random_state=0).fit(GRAPHS)
    np.testing.assert_allclose(encoder.transform([renamed]), encoder.transform([GRAPHS[0]]), atol=1e-5)
    swapped = ([labels[i] for i in order], edges, kinds)
    assert np.abs(encoder.transform([swapped]) - encoder.transform([GRAPHS[0]])).max() > 0.01


def test_features_do_not_depend_on_the_other_graphs_of_a_call() -> None:
    encoder = GraphFeatures(50, m=2, random_state=0).fit(GRAPHS)
    alone = np.concatenate([encoder.transform([graph]) for graph in GRAPHS])
    np.testing.assert_allclose(alone, encoder.transform(GRAPHS), atol=1e-6)


def test_number_of_nodes_means_degrees_as_labels() -> None:
    edges = [[0, 1], [1, 2], [1, 3]]
    encoder = GraphFeatures(50, random_state=0).fit([(4, edges)])
    np.testing.assert_array_equal(encoder.transform([(4, edges)]), encoder.transform([(["1", "3", "1", "1"], edges)]))


def test_networkx_graphs_equal_their_arrays() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.Graph()
    for node, label in zip("wxyz", GRAPHS[0][0], strict=True):
        graph.add_node(node, label=label)
    for (u, v), label in zip(GRAPHS[0][1], GRAPHS[0][2], strict=True):
        graph.add_edge("wxyz"[u], "wxyz"[v], label=label)
    encoder = GraphFeatures(50, random_state=0).fit(GRAPHS)
    np.testing.assert_allclose(encoder.transform([graph]), encoder.transform([GRAPHS[0]]), atol=1e-6)
    star = nx.star_graph(3)
    np.testing.assert_allclose(encoder.transform([star]), encoder.transform([(4, [[0, 1], [0, 2], [0, 3]])]), atol=1e-6)


@pytest.mark.parametrize("ends", [("x", "y"), ("y", "x")])
def test_undirected_networkx_edges_lead_in_both_directions_if_directed(ends: tuple[str, str]) -> None:
    nx = pytest.importorskip("networkx")
    encoder = GraphFeatures(50, directed=True, random_state=0).fit([(["a", "b"], [[0, 1]])])
    found = {}
    for kind in (nx.Graph, nx.DiGraph):
        graph = kind()
        for end in ends:
            graph.add_node(end, label=end)
        graph.add_edge(*ends, label="-")
        found[kind] = encoder.transform([graph])
    both = encoder.transform([(ends, [[0, 1], [1, 0]], ["-", "-"])])
    one = encoder.transform([(ends, [[0, 1]], ["-"])])
    np.testing.assert_allclose(found[nx.Graph], both, atol=1e-6)
    np.testing.assert_allclose(found[nx.DiGraph], one, atol=1e-6)  # negative control
    assert np.abs(both - one).max() > 0.01


def test_networkx_labels_are_those_of_all_nodes_or_of_none() -> None:
    nx = pytest.importorskip("networkx")
    graph = nx.path_graph(2)
    graph.nodes[0]["label"] = "C"
    with pytest.raises(ValueError, match="graph 0 has None as the label of node 1"):
        GraphFeatures(5).fit([graph])
    graph.nodes[1]["label"] = "None"  # a label
    GraphFeatures(5).fit([graph, nx.path_graph(2)])


def test_rings_and_paths_are_classified() -> None:
    rings = [(["C"] * n, [[i, (i + 1) % n] for i in range(n)]) for n in range(4, 14)]
    paths = [(["C"] * n, [[i, i + 1] for i in range(n - 1)]) for n in range(4, 14)]
    model = HDClassifier(GraphFeatures(200, radius=1, random_state=0)).fit(rings[::2] + paths[::2], [0] * 5 + [1] * 5)
    assert model.score(rings[1::2] + paths[1::2], [0] * 5 + [1] * 5) == 1.0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "0 sample"),
        (GRAPHS[0], "put a graph into a list"),
        ([["C", "C", "O", "C"]], "must be"),
        ([(["C"], [[0, 1]])], "edges of graph 0 must be indices of its 1 nodes, counted from 0; got 0 to 1"),
        ([(["C", "C"], [[0, -1]])], "indices of its 2 nodes"),
        ([([], [[0, 1]])], "edges of graph 0 must be indices of its 0 nodes"),
        ([(["C", "C"], [[0.0, np.nan]])], "whole numbers"),
        ([(["C", "C"], [0, 1, 1])], "whole numbers"),
        ([(["C", "C"], [[0, 1], [1]])], "edges of graph 0 must be .* got rows of different lengths"),
        ([(-1, [])], "graph 0 has -1 nodes, expected labels or a number"),
        ([(None, [])], "graph 0 has None nodes, expected labels or a number"),
        ([([1.0, np.nan], [[0, 1]])], "graph 0 has nan as the label of node 1"),
        ([(["C", np.nan], [[0, 1]])], "graph 0 has nan as the label of node 1"),
        ([(np.array(["C", np.nan], dtype=object), [[0, 1]])], "graph 0 has nan as the label of node 1"),
        ([GRAPHS[0], ([None, "C"], [[0, 1]])], "graph 1 has None as the label of node 0"),
        ([(["C", "C"], [[0, 1]], [None])], "graph 0 has None as the label of edge 0"),
        ([(["C", "C"], [[0, 1]], ["-", "="])], "graph 0 needs one label per edge; got shape"),
        ([("CC", [[0, 1]])], "graph 0 needs one label per node; got shape"),
    ],
)
def test_wrong_graphs_are_refused(X: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphFeatures().fit(X)

"""Names of the edges and neighbourhoods of graphs, for explanations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.learn.graph_colours import ColouredGraphs, Colours, Graph


def name_edges(graphs: Sequence[Graph], nodes: ColouredGraphs, triples: NDArray[Any]) -> list[str]:
    """Return the names of edges, given as the colours of source, edge and target.

    ``"C -> O"``, or ``"C -[double]-> O"`` with an edge label. The names of an undirected edge and of its reversal are
    the same, ``"C - O"``.
    """
    labels = _labels_by_colour(graphs, nodes)
    names = []
    for source, edge, target in triples.tolist():
        ends = [labels[source], labels[target]]
        first, last = ends if nodes.directed else sorted(ends)
        middle = f"-[{labels[edge]}]-" if labels[edge] else "-"
        names.append(f"{first} {middle}{'>' if nodes.directed else ''} {last}")
    return names


def name_neighbourhoods(
    graphs: Sequence[Graph], nodes: ColouredGraphs, colours: Colours, radius: int
) -> dict[int, str]:
    """Return a name for every colour of a radius: the labels of the nodes at distance 0, 1, … up to the radius.

    Different neighbourhoods can have the same name, because the name does not contain which nodes are connected.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn.graph_colours import Graph, colour_graphs
    >>> from ghrr.learn.graph_names import name_neighbourhoods
    >>> path = Graph(np.array(["C", "C", "O"]), np.array([[0, 1], [1, 2]]), np.array(["", ""]))
    >>> nodes = colour_graphs([path], directed=False)
    >>> sorted(name_neighbourhoods([path], nodes, nodes.refine(nodes.colours), 1).values())
    ['C | C', 'C | C O', 'O | C']
    """
    labels = np.concatenate([graph.labels for graph in graphs])
    ends = np.concatenate([nodes.sources, nodes.targets]), np.concatenate([nodes.targets, nodes.sources])
    order = np.argsort(ends[0], kind="stable")
    bounds = np.searchsorted(ends[0][order], np.arange(len(labels) + 1))
    around = ends[1][order]
    distinct, first = np.unique(colours, return_index=True)
    return {
        colour: " | ".join(
            " ".join(sorted(labels[layer].tolist())) for layer in _layers(node, around, bounds, radius) if layer
        )
        for colour, node in zip(distinct.tolist(), first.tolist(), strict=True)
    }


def _layers(node: int, around: NDArray[Any], bounds: NDArray[Any], radius: int) -> Iterator[list[int]]:
    """Yield the nodes at distance 0, 1, … of a node."""
    layer, seen = [node], {node}
    yield layer
    for _ in range(radius):
        near = {other for one in layer for other in around[bounds[one] : bounds[one + 1]].tolist()}
        layer = sorted(near - seen)
        seen |= near
        yield layer


def _labels_by_colour(graphs: Sequence[Graph], nodes: ColouredGraphs) -> dict[int, str]:
    labels = np.concatenate([graph.labels for graph in graphs])
    edge_labels = np.concatenate([graph.edge_labels for graph in graphs])
    arcs = nodes.arc_colours[: len(edge_labels)].tolist()
    return dict(zip(nodes.colours.tolist(), labels.tolist(), strict=True)) | dict(
        zip(arcs, edge_labels.tolist(), strict=True)
    )

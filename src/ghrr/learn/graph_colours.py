"""Colour refinement of many graphs at once (Weisfeiler and Lehman), with colours that need no vocabulary.

A colour is a 64-bit hash of a neighbourhood, so equal neighbourhoods have the same colour in every graph and in every
call. The hash of a multiset is the sum of the hashes of its elements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Colours = NDArray[np.uint64]
Integers = NDArray[np.int64]
Strings = NDArray[np.str_]


@dataclass(frozen=True)
class Graph:
    """Graph with labelled nodes and edges.

    Parameters
    ----------
    labels
        Label of each node, ``(nodes,)``.
    edges
        Source and target of each edge, as indices of nodes, ``(edges, 2)``.
    edge_labels
        Label of each edge, ``(edges,)``.
    """

    labels: Strings
    edges: Integers
    edge_labels: Strings


@dataclass(frozen=True)
class ColouredGraphs:
    """Nodes and arcs of several graphs, numbered through.

    Parameters
    ----------
    owners
        Graph of each node, ``(nodes,)``.
    colours
        Colour of each node, from its label, ``(nodes,)``.
    sources, targets
        Nodes of each arc, ``(arcs,)``. An undirected edge is two arcs.
    arc_colours
        Colour of each arc, from its label, ``(arcs,)``.
    directed
        Whether an arc differs from its reversal.
    """

    owners: Integers
    colours: Colours
    sources: Integers
    targets: Integers
    arc_colours: Colours
    directed: bool

    def refine(self, colours: Colours) -> Colours:
        """Return new colours: a hash of the colours of a node, its arcs and its neighbours.

        In directed graphs, neighbours along and against an arc count as different.
        """
        along = _sum_by(self.sources, mix(mix(self.arc_colours) + colours[self.targets]), len(colours))
        if self.directed:
            against = _sum_by(self.targets, mix(mix(self.arc_colours) + colours[self.sources]), len(colours))
            along = mix(along) + against
        return mix(mix(colours) + along)


def colour_graphs(graphs: Sequence[Graph], *, directed: bool) -> ColouredGraphs:
    """Collect the nodes and arcs of graphs, with the colours of their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from ghrr.learn.graph_colours import Graph, colour_graphs
    >>> path = Graph(np.array(["C", "C", "O"]), np.array([[0, 1], [1, 2]]), np.array(["-", "-"]))
    >>> nodes = colour_graphs([path], directed=False)
    >>> [len(np.unique(colours)) for colours in (nodes.colours, nodes.refine(nodes.colours))]
    [2, 3]
    """
    sizes = np.array([len(graph.labels) for graph in graphs], dtype=np.int64)
    shifts = np.cumsum(sizes) - sizes
    owners = np.repeat(np.arange(len(graphs)), sizes)
    edges = np.concatenate([graph.edges + shift for graph, shift in zip(graphs, shifts, strict=True)])
    arc_colours = _colours_of(np.concatenate([graph.edge_labels for graph in graphs]), "edge")
    if not directed:
        edges = np.concatenate([edges, edges[:, ::-1]])
        arc_colours = np.concatenate([arc_colours, arc_colours])
    colours = _colours_of(np.concatenate([graph.labels for graph in graphs]), "node")
    return ColouredGraphs(owners, colours, edges[:, 0], edges[:, 1], arc_colours, directed)


def mix(x: NDArray[Any]) -> Colours:
    """Hash 64-bit numbers (the finaliser of splitmix64, a bijection)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Colours = x ^ (x >> np.uint64(31))
    return mixed


def _sum_by(rows: Integers, values: Colours, count: int) -> Colours:
    """Return the sum of the values of each row, modulo 2**64."""
    sums = np.zeros(count, dtype=np.uint64)
    np.add.at(sums, rows, values)
    return sums


def _colours_of(labels: Strings, kind: str) -> Colours:
    """Return the colours of labels."""
    distinct, index = np.unique(labels, return_inverse=True)
    digests = (hashlib.blake2b(f"{kind} {label}".encode(), digest_size=8).digest() for label in distinct.tolist())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[index]

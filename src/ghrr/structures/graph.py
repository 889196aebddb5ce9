r"""Graph: directed edges with labels, :math:`\sum_{(u, l, v)} U * L * V`.

Source on the left, target on the right: neighbours are read by unbinding U * L from the left, predecessors by unbinding
L * V from the right, the label of an edge by both. An edge is not its reversal, unless m = 1. A graph of n edges
answers with noise of about :math:`\sqrt{n/(2Dm^2)}`. An edge and its reversal share about :math:`1/m^2` of each other;
an edge is read without what its reversal, if that was met, may add (:mod:`ghrr.memory.orders`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, bind_bundle, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.book import Book, check_name, check_names, one_of, runs
from ghrr.structures.orders import Orders

if TYPE_CHECKING:
    import networkx

EDGE = "edge"  # the label of edges that have none
Edge = tuple[str, str, str]


class Graph:
    """A directed graph with labelled edges as one hypervector.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

    Shapes
    ------
    encode: a list of edges to ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Graph
    >>> family = Graph(ghrr.Space(dim=300, m=3))
    >>> h = family.encode([("Byron", "father of", "Ada"), ("Anne", "mother of", "Ada"), ("Ada", "mother of", "Ralph")])
    >>> family.neighbours(h, "Ada", "mother of")
    [Match('Ralph', score=1.000, margin=1.000, confident=True)]
    >>> family.predecessors(h, "Ada", "mother of")[0].label
    'Anne'
    >>> family.walk(h, "Byron", ["father of", "mother of"])
    ['Ralph']
    """

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.nodes = Book(space, "graph node")
        self.labels = Book(space, "graph label")
        self.orders = Orders(space, self._products)

    def encode(self, edges: Iterable[Sequence[str]]) -> Tensor:
        """The hypervector of edges ``(source, label, target)``, or ``(source, target)``; each counts once."""
        if isinstance(edges, str) or not isinstance(edges, Iterable):
            raise TypeError(f"Graph.encode: needs a list of edges (source, label, target), got {describe(edges)}")
        checked = dict.fromkeys(_checked_edge(edge) for edge in edges)
        if not checked:
            return self.space.empty()
        self.orders.add(checked)
        sources, labels, targets = zip(*checked, strict=True)
        u, v = self.nodes.vectors_of(sources), self.nodes.vectors_of(targets)
        return bind_bundle(bind(u, self.labels.vectors_of(labels)), v)

    def neighbours(self, h: Tensor | Hypervector, node: str, label: str = EDGE) -> list[Match]:
        """All nodes that an edge of this label leads to."""
        x = one_of("Graph.neighbours", h, self.space)
        return self._ahead(x, [(check_name("Graph.neighbours", node), check_name("Graph.neighbours", label))])[0]

    def predecessors(self, h: Tensor | Hypervector, node: str, label: str = EDGE) -> list[Match]:
        """All nodes from which an edge of this label leads here."""
        x = one_of("Graph.predecessors", h, self.space)
        end = bind(self._label("Graph.predecessors", label), self._node("Graph.predecessors", node))
        found = self.nodes.members(unbind(x, end, side="right")[None], energy=similarity(x, x), level=self.level)
        return self.orders.sift(x, found, lambda _, name: (name, label, node), odds=len(self.nodes))[0]

    def edge_labels(self, h: Tensor | Hypervector, source: str, target: str) -> list[Match]:
        """The labels of all edges from one node to another."""
        x = one_of("Graph.edge_labels", h, self.space)
        answer = unbind(x, self._node("Graph.edge_labels", source), side="left")
        answer = unbind(answer, self._node("Graph.edge_labels", target), side="right")
        found = self.labels.members(answer[None], energy=similarity(x, x), level=self.level)
        return self.orders.sift(x, found, lambda _, name: (source, name, target), odds=len(self.labels))[0]

    def walk(self, h: Tensor | Hypervector, start: str, labels: Sequence[str]) -> list[str]:
        """Where edges of these labels lead to, one after the other: all nodes at the end, sorted."""
        x = one_of("Graph.walk", h, self.space)
        at = [check_name("Graph.walk", start)]
        for label in check_names("Graph.walk", labels):
            reached = self._ahead(x, [(node, label) for node in at])
            at = sorted({match.label for matches in reached for match in matches if match.confident})
        return at

    def paths(self, h: Tensor | Hypervector, source: str, target: str, hops: int) -> list[list[Edge]]:
        """All ways from one node to another over at most so many edges of any label, without a node twice."""
        x = one_of("Graph.paths", h, self.space)
        hops = check_integer("Graph.paths", "hops", hops, least=1)
        check_name("Graph.paths", source)
        check_name("Graph.paths", target)
        found: list[list[Edge]] = []
        ways: list[list[Edge]] = [[]]
        for _ in range(hops):
            ends = [way[-1][2] if way else source for way in ways]
            steps = dict[str, list[Edge]]()
            for edge in self._edges_from(x, sorted(set(ends))):
                steps.setdefault(edge[0], []).append(edge)
            ways = [
                [*way, step]
                for way, end in zip(ways, ends, strict=True)
                for step in steps.get(end, [])
                if step[2] not in {source, *(edge[2] for edge in way)}
            ]
            found += [way for way in ways if way[-1][2] == target]
            ways = [way for way in ways if way[-1][2] != target]
        return found

    def decode(self, h: Tensor | Hypervector) -> dict[Edge, Match]:
        """All edges between known nodes that are certain, in the order in which nodes and labels were met.

        With each comes the match of its target.
        """
        return self._edges_from(one_of("Graph.decode", h, self.space), self.nodes.names)

    def _edges_from(self, x: Tensor, nodes: Sequence[str]) -> dict[Edge, Match]:
        """The certain edges out of these nodes."""
        starts = list(itertools.product(nodes, self.labels.names))
        return {
            (*start, match.guess): match
            for start, matches in zip(starts, self._ahead(x, starts), strict=True)
            for match in matches
            if match.confident
        }

    def _ahead(self, x: Tensor, starts: Sequence[tuple[str, str]]) -> list[list[Match]]:
        """The targets of edges that start so."""
        found: list[list[Match]] = []
        for run in runs(len(starts), self.space):
            nodes, labels = zip(*starts[run], strict=True)
            keys = bind(self.nodes.lookup(nodes), self.labels.lookup(labels))
            found += self.nodes.members(unbind(x, keys, side="left"), energy=similarity(x, x), level=self.level)
        return self.orders.sift(x, found, lambda row, name: (*starts[row], name), odds=len(self.nodes))

    def _products(self, edges: Sequence[Sequence[str]]) -> Tensor:
        sources, labels, targets = zip(*edges, strict=True)
        return multibind([self.nodes.lookup(sources), self.labels.lookup(labels), self.nodes.lookup(targets)])

    def _node(self, operation: str, name: str) -> Tensor:
        return self.nodes.lookup([check_name(operation, name)])[0]

    def _label(self, operation: str, name: str) -> Tensor:
        return self.labels.lookup([check_name(operation, name)])[0]

    def from_networkx(self, graph: networkx.DiGraph, attribute: str = "label") -> Tensor:
        """The hypervector of a networkx graph; each edge is labelled by an attribute, ``"edge"`` where it has none.

        Edges without a direction go both ways. Nodes without an edge are not in a bundle of edges.
        """
        edges = [(u, data.get(attribute, EDGE), v) for u, v, data in graph.edges(data=True)]
        return self.encode(edges if graph.is_directed() else edges + [(v, label, u) for u, label, v in edges])

    def to_networkx(self, h: Tensor | Hypervector, attribute: str = "label") -> networkx.MultiDiGraph:
        """The decoded graph as a ``networkx.MultiDiGraph``, with labels in an attribute of the edges."""
        try:
            import networkx  # noqa: PLC0415 (asked for here only)
        except ImportError as error:
            raise ImportError("Graph.to_networkx: needs networkx; pip install networkx") from error
        graph = networkx.MultiDiGraph()
        graph.add_edges_from((u, v, {attribute: label}) for u, label, v in self.decode(h))
        return graph


def _checked_edge(edge: Sequence[str]) -> Edge:
    if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
        raise TypeError(f"Graph.encode: an edge is (source, label, target) or (source, target), got {describe(edge)}")
    names = check_names("Graph.encode", edge)
    return (names[0], names[1] if len(names) == 3 else EDGE, names[-1])

r"""Graph: directed edges with labels, :math:`\sum_{(u, l, v)} U * L * V`.

The source is bound on the left, the target on the right: neighbours are read by unbinding U * L from the left,
predecessors by unbinding L * V from the right, the label of an edge by both. A graph of n edges answers with noise of
about :math:`\sqrt{n/(2Dm^2)}`. An edge and its reversal have a similarity of about :math:`1/m^2`; an edge is read
without the contribution of its reversal, if that was encoded (:mod:`ghrr.memory.decorrelation`). For m = 1, where
binding commutes, the factors are shifted by 0, 1 and 2 slots, so that an edge is not its reversal.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import bind, bind_bundle, multibind, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.orders import Orders
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, check_names, chunks, one_of

if TYPE_CHECKING:
    import networkx

EDGE = "edge"  # the label of edges that have none
Edge = tuple[str, str, str]


class Graph(Structure):
    """A directed graph with labelled edges as one hypervector.

    Nodes and labels are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift label and target by 1 and 2 slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

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

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.nodes = Vocabulary(space, "graph node")
        self.labels = Vocabulary(space, "graph label")
        self.orders = Orders(space, self._products, independent=self.permute)

    @classmethod
    def suggest(cls, edges: int, *, nodes: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a graph answers with confidence and right.

        Parameters
        ----------
        edges, nodes
            Size of the graph.
        m
            Size of the slots' matrices.
        error
            Share of neighbours that may be missed, not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Graph
        >>> Graph.suggest(288, nodes=176, m=3)
        Space(dim=854, m=3, seed=0)
        """
        edges = check_integer("Graph.suggest", "edges", edges, least=1)
        nodes = check_integer("Graph.suggest", "nodes", nodes, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=edges, candidates=nodes, several=True)

        return smallest_space("Graph.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, edges: Iterable[Sequence[Name]]) -> Tensor:
        """Return the hypervector of edges ``(source, label, target)`` or ``(source, target)``; repeats count once."""
        if isinstance(edges, str | Tensor) or not isinstance(edges, Iterable):
            raise TypeError(f"Graph.encode: needs a list of edges (source, label, target), got {describe(edges)}")
        checked = dict.fromkeys(self._checked_edge(edge) for edge in edges)
        if not checked:
            return self.space.zeros()
        sources, labels, targets = zip(*checked, strict=True)
        u, v = self.nodes.encode(sources), self.nodes.encode(targets)
        h = bind_bundle(bind(u, self._shift(self.labels.encode(labels), 1)), self._shift(v, 2))
        self.orders.add(checked)
        return h

    def neighbours(self, h: Tensor | Hypervector, node: Name, label: Name = EDGE) -> list[Match]:
        """Return all nodes that an edge of this label leads to."""
        x = one_of("Graph.neighbours", h, self.space)
        start = self.nodes.resolve("Graph.neighbours", node), self.labels.resolve("Graph.neighbours", label)
        return self._targets(x, [start])[0]

    def predecessors(self, h: Tensor | Hypervector, node: Name, label: Name = EDGE) -> list[Match]:
        """Return all nodes from which an edge of this label leads here."""
        x = one_of("Graph.predecessors", h, self.space)
        target, name = self.nodes.resolve("Graph.predecessors", node), self.labels.resolve("Graph.predecessors", label)
        [label_vector], [target_vector] = self.labels.lookup([name]), self.nodes.lookup([target])
        end = bind(self._shift(label_vector, 1), self._shift(target_vector, 2))
        found = self.nodes.members(
            unbind(x, end, side="right")[None], energy=similarity(x, x), confidence=self.confidence
        )
        return self.orders.sift(x, found, lambda _, source: (source, name, target), odds=len(self.nodes))[0]

    def edge_labels(self, h: Tensor | Hypervector, source: Name, target: Name) -> list[Match]:
        """Return the labels of all edges from one node to another."""
        x = one_of("Graph.edge_labels", h, self.space)
        ends = [self.nodes.resolve("Graph.edge_labels", node) for node in (source, target)]
        first, last = self.nodes.lookup(ends)
        answer = self._shift(unbind(unbind(x, first, side="left"), self._shift(last, 2), side="right"), -1)
        found = self.labels.members(answer[None], energy=similarity(x, x), confidence=self.confidence)
        return self.orders.sift(x, found, lambda _, name: (ends[0], name, ends[1]), odds=len(self.labels))[0]

    def walk(self, h: Tensor | Hypervector, start: Name, labels: Sequence[Name]) -> list[str]:
        """Return all nodes that edges of these labels, one after the other, lead to, sorted."""
        x = one_of("Graph.walk", h, self.space)
        at = [self.nodes.resolve("Graph.walk", start)]
        for label in self.labels.resolve_all("Graph.walk", labels):
            reached = self._targets(x, [(node, label) for node in at])
            at = sorted({match.label for matches in reached for match in matches if match.confident})
        return at

    def paths(self, h: Tensor | Hypervector, source: Name, target: Name, hops: int) -> list[list[Edge]]:
        """Return all ways from one node to another over at most ``hops`` edges that visit no node twice."""
        x = one_of("Graph.paths", h, self.space)
        hops = check_integer("Graph.paths", "hops", hops, least=1)
        first, last = (self.nodes.resolve("Graph.paths", node) for node in (source, target))
        found: list[list[Edge]] = []
        ways: list[list[Edge]] = [[]]
        for _ in range(hops):
            ends = [way[-1][2] if way else first for way in ways]
            steps = dict[str, list[Edge]]()
            for edge in self._edges_from(x, sorted(set(ends))):
                steps.setdefault(edge[0], []).append(edge)
            ways = [
                [*way, step]
                for way, end in zip(ways, ends, strict=True)
                for step in steps.get(end, [])
                if step[2] not in {first, *(edge[2] for edge in way)}
            ]
            found += [way for way in ways if way[-1][2] == last]
            ways = [way for way in ways if way[-1][2] != last]
        return found

    def decode(self, h: Tensor | Hypervector) -> dict[Edge, Match]:
        """Return all edges between known nodes that are certain, each with the match of its target."""
        x = one_of("Graph.decode", h, self.space)
        if not x.any():
            return {}
        self.nodes.check_not_empty()
        return self._edges_from(x, self.nodes.names)

    def _edges_from(self, x: Tensor, nodes: Sequence[str]) -> dict[Edge, Match]:
        """The certain edges out of these nodes."""
        starts = list(itertools.product(nodes, self.labels.names))
        return {
            (*start, match.guess): match
            for start, matches in zip(starts, self._targets(x, starts), strict=True)
            for match in matches
            if match.confident
        }

    def _targets(self, x: Tensor, starts: Sequence[tuple[str, str]]) -> list[list[Match]]:
        """The targets of edges with these sources and labels."""
        self.nodes.check_not_empty()
        found: list[list[Match]] = []
        for chunk in chunks(len(starts), self.space):
            nodes, labels = zip(*starts[chunk], strict=True)
            keys = bind(self.nodes.lookup(nodes), self._shift(self.labels.lookup(labels), 1))
            answers = self._shift(unbind(x, keys, side="left"), -2)
            found += self.nodes.members(answers, energy=similarity(x, x), confidence=self.confidence)
        return self.orders.sift(x, found, lambda row, name: (*starts[row], name), odds=len(self.nodes))

    def _products(self, edges: Sequence[Sequence[str]]) -> Tensor:
        sources, labels, targets = zip(*edges, strict=True)
        u, v = self.nodes.lookup(sources), self.nodes.lookup(targets)
        return multibind([u, self._shift(self.labels.lookup(labels), 1), self._shift(v, 2)])

    def _checked_edge(self, edge: Sequence[Name]) -> Edge:
        if isinstance(edge, str | Tensor) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
            raise TypeError(
                f"Graph.encode: an edge is (source, label, target) or (source, target), got {describe(edge)}"
            )
        label = self.labels.resolve("Graph.encode", edge[1]) if len(edge) == 3 else EDGE
        return (self.nodes.resolve("Graph.encode", edge[0]), label, self.nodes.resolve("Graph.encode", edge[-1]))

    def _seen(self) -> list[list[str]]:
        return [list(edge) for edge in self.orders.words]

    def _restore(self, seen: Any) -> None:
        self.orders.add(tuple(check_names("Graph", edge)) for edge in seen)

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

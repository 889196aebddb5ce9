r"""Graph: directed edges with labels, :math:`\sum_{(u, l, v)} U * L * V`.

The source is bound on the left, the target on the right: neighbours are read by unbinding U * L from the left,
predecessors by unbinding L * V from the right, the label of an edge by unbinding both ends. A graph of n edges answers
with noise of about :math:`\sqrt{n/(2Dm^2)}`. An edge is read without the contribution of its reversal
(:mod:`ghrr.structures.triples`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ghrr.algebra import bind, similarity, unbind
from ghrr.checks import check_integer, describe, named, names_errors, type_error
from ghrr.hypervector import Hypervector
from ghrr.structures.base import Structure
from ghrr.structures.reading import MatchDict, MatchList
from ghrr.structures.triples import Triples
from ghrr.structures.vocabulary import Name

if TYPE_CHECKING:
    import networkx

EDGE = "edge"  # the label of edges that are given without one
Edge = tuple[str, str, str]


@names_errors
class Graph(Structure):
    """Directed graph with labelled edges as one hypervector.

    Nodes and labels are names or given hypervectors.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`. ``permute`` shifts label and target by 1 and 2 slots.

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
    MatchList(['Ralph'], complete=True, confident=1/1)
    >>> family.predecessors(h, "Ada", "mother of")[0].label
    'Anne'
    >>> family.walk(h, "Byron", ["father of", "mother of"])
    ['Ralph']
    """

    _SIZES, _SEVERAL = ("edges", "nodes"), True

    def _create_tables(self) -> None:
        self.nodes, self.labels = self._vocabulary("graph node"), self._vocabulary("graph label")
        self._edges = Triples(self, self.nodes, self.labels)
        self.permuted = self._edges.permuted

    def encode(self, edges: Iterable[Sequence[Name]]) -> Tensor:
        """Return the hypervector of edges ``(source, label, target)`` or ``(source, target)``; repeats count once."""
        if isinstance(edges, str | Tensor) or not isinstance(edges, Iterable):
            raise type_error(f"needs a list of edges (source, label, target), got {describe(edges)}")
        checked = list(dict.fromkeys(self._check_edge(edge) for edge in edges))
        h = self._edges.encode(checked)
        self._edges.permuted.add(checked)
        self._warn_if_full(len(checked), len(self.nodes))
        return h

    def neighbours(self, h: Tensor | Hypervector, node: Name, label: Name = EDGE) -> MatchList:
        """Return the targets of all edges with this source and label."""
        x = self._constant(h)
        start = self.nodes.resolve(node), self.labels.resolve(label)
        note = self.nodes.note(start[0]) or self.labels.note(start[1])
        return self._found(x, self._edges.targets(x, [start])[0], len(self.nodes), note)

    def predecessors(self, h: Tensor | Hypervector, node: Name, label: Name = EDGE) -> MatchList:
        """Return the sources of all edges with this target and label."""
        x = self._constant(h)
        target, name = self.nodes.resolve(node), self.labels.resolve(label)
        [label_vector], [target_vector] = self.labels.vectors([name]), self.nodes.vectors([target])
        end = bind(self._shift(label_vector, 1), self._shift(target_vector, 2))
        answer = unbind(x, end, side="right")[None]
        found = self.nodes.members(answer, energy=similarity(x, x), confidence=self.confidence)
        [matches] = self._edges.permuted.rejudge_members(
            x, found, lambda _, source: (source, name, target), odds=len(self.nodes)
        )
        return self._found(x, matches, len(self.nodes), self.nodes.note(target) or self.labels.note(name))

    def edge_labels(self, h: Tensor | Hypervector, source: Name, target: Name) -> MatchList:
        """Return the labels of all edges from one node to another."""
        x = self._constant(h)
        ends = [self.nodes.resolve(node) for node in (source, target)]
        first, last = self.nodes.vectors(ends)
        answer = self._shift(unbind(unbind(x, first, side="left"), self._shift(last, 2), side="right"), -1)
        found = self.labels.members(answer[None], energy=similarity(x, x), confidence=self.confidence)
        [matches] = self._edges.permuted.rejudge_members(
            x, found, lambda _, name: (ends[0], name, ends[1]), odds=len(self.labels)
        )
        return self._found(x, matches, len(self.nodes), self.nodes.note(*ends))

    def walk(self, h: Tensor | Hypervector, start: Name, labels: Sequence[Name]) -> list[str]:
        """Return all nodes that are reached by following edges with these labels, sorted."""
        x = self._constant(h)
        reached = [self.nodes.resolve(start)]
        for label in self.labels.resolve_all(labels):
            targets = self._edges.targets(x, [(node, label) for node in reached])
            reached = sorted({match.label for matches in targets for match in matches if match.confident})
        return reached

    def paths(self, h: Tensor | Hypervector, source: Name, target: Name, hops: int) -> list[list[Edge]]:
        """Return all paths of at most ``hops`` edges from one node to another that visit no node twice."""
        x = self._constant(h)
        hops = check_integer("hops", hops, least=1)
        first, last = (self.nodes.resolve(node) for node in (source, target))
        found: list[list[Edge]] = []
        paths: list[list[Edge]] = [[]]
        for _ in range(hops):
            ends = [path[-1][2] if path else first for path in paths]
            edges = dict[str, list[Edge]]()
            for edge in self._edges.confident_from(x, sorted(set(ends))):
                edges.setdefault(edge[0], []).append(edge)
            paths = [
                [*path, edge]
                for path, end in zip(paths, ends, strict=True)
                for edge in edges.get(end, [])
                if edge[2] not in {first, *(visited[2] for visited in path)}
            ]
            found += [path for path in paths if path[-1][2] == last]
            paths = [path for path in paths if path[-1][2] != last]
        return found

    def decode(self, h: Tensor | Hypervector) -> MatchDict:
        """Return all confident edges between known nodes, each with the match of its target.

        They are subtracted, and the rest is read again with less noise.
        """
        return self._edges.decode(self._constant(h))

    def _check_edge(self, edge: Sequence[Name]) -> Edge:
        if isinstance(edge, str | Tensor) or not isinstance(edge, Sequence) or len(edge) not in (2, 3):
            raise type_error(f"an edge must be (source, label, target) or (source, target), got {describe(edge)}")
        label = self.labels.resolve(edge[1]) if len(edge) == 3 else EDGE
        return (self.nodes.resolve(edge[0]), label, self.nodes.resolve(edge[-1]))

    def from_networkx(self, graph: networkx.DiGraph, attribute: str = "label") -> Tensor:
        """Encode a networkx graph, with the labels from an edge attribute, ``"edge"`` where it is missing.

        Undirected edges become two edges. Nodes without an edge are not encoded.
        """
        edges = [(u, data.get(attribute, EDGE), v) for u, v, data in graph.edges(data=True)]
        return self.encode(edges if graph.is_directed() else edges + [(v, label, u) for u, label, v in edges])

    def to_networkx(self, h: Tensor | Hypervector, attribute: str = "label") -> networkx.MultiDiGraph:
        """Return the decoded graph as a ``networkx.MultiDiGraph``, with labels in an edge attribute."""
        try:
            import networkx  # noqa: PLC0415 (an optional dependency)
        except ImportError as error:
            raise ImportError(named("needs networkx; pip install networkx")) from error
        graph = networkx.MultiDiGraph()
        graph.add_edges_from((u, v, {attribute: label}) for u, label, v in self.decode(h))
        return graph

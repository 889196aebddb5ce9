"""Graphs as bundles of neighbourhoods and bound edges."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Tensor

from ghrr.checks import check_device, names_errors, value_error
from ghrr.encoding.bags import weighted_bags
from ghrr.encoding.ngram_counts import NGramCounts, count_pairs
from ghrr.encoding.ngram_vectors import CHUNK_NUMBERS, ngram_vectors
from ghrr.learn.base import Effects, FeatureEncoder, as_features, row_slices, seed_of
from ghrr.learn.graph_colours import ColouredGraphs, Graph, colour_graphs, mix
from ghrr.learn.graph_names import name_edges, name_neighbourhoods
from ghrr.space import Space

_MISSING = ("None", "nan", "NaT", "<NA>", "inf", "-inf")  # values that are no labels, as strings


@names_errors
class GraphFeatures(FeatureEncoder):
    r"""Encode graphs by their labelled edges and by the neighbourhoods of their nodes.

    .. math:: \sum_{(u, v)} x_u * e_{uv} * x_v + \sum_{r=0}^{R} \sum_v x_{c_r(v)}

    The first sum binds source, edge label and target of each edge in order, so the direction matters; for m = 1, where
    binding commutes, factor j is shifted by j slots. The second sum has one atom for each neighbourhood:
    :math:`c_0(v)` is the label of node v, and :math:`c_r(v)` stands for :math:`c_{r-1}(v)` together with the multiset
    of edge labels and colours :math:`c_{r-1}` of its neighbours (Weisfeiler-Lehman refinement). Products that
    occur k times in a graph have the weight :math:`\sqrt k`, or k.

    Two graphs are similar if they share edges and neighbourhoods. The inner product of these sums approximates the
    Weisfeiler-Lehman subtree kernel of these weights, with edges in addition. Rows are divided by the square root of
    their length: this keeps some information on the size of a graph, without letting it dominate.

    Parameters
    ----------
    dim, m
        Size of the hypervectors. The output has ``2 * dim * m**2`` columns, scaled such that the rows of the training
        graphs have a mean squared length of about 1.
    radius
        Largest radius R of neighbourhoods. 0 uses labels and edges alone.
    directed
        Whether an edge differs from its reversal. If False, every edge counts in both directions.
    weighting
        ``"count"`` or ``"sqrt"``.
    random_state
        Seed of the atoms.
    device
        Device that computes the features.

    Attributes
    ----------
    space_
        Space of the hypervectors.
    scale_
        Factor of all rows, after division by the square roots of their lengths.

    Notes
    -----
    A graph is a pair ``(labels, edges)`` or a triple ``(labels, edges, edge_labels)``: one label per node, an array of
    source and target indices ``(edges, 2)``, and one label per edge. Labels are compared as strings. The number of
    nodes instead of labels means that the degree of a node is its label. A networkx graph also works; its labels are
    the attributes ``"label"`` of nodes and edges, either of all nodes or of none, and with ``directed=True`` each edge
    of an undirected one leads in both directions.

    Examples
    --------
    >>> from ghrr.learn import GraphFeatures
    >>> ethanol = (["C", "C", "O"], [[0, 1], [1, 2]])
    >>> methanol = (["C", "O"], [[0, 1]])
    >>> nitrogen = (["N", "N"], [[0, 1]], ["triple"])
    >>> z = GraphFeatures(dim=1000, random_state=0).fit_transform([ethanol, methanol, nitrogen])
    >>> bool(z[0] @ z[1] > 0.3 > 0.1 > abs(z[0] @ z[2]))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "dim": [Interval(Integral, 1, None, closed="left")],
        "m": [Interval(Integral, 1, None, closed="left")],
        "radius": [Interval(Integral, 0, None, closed="left")],
        "directed": ["boolean"],
        "weighting": [StrOptions({"count", "sqrt"})],
        "random_state": ["random_state"],
        "device": [str, torch.device, None],
    }

    def __init__(
        self,
        dim: int = 1024,
        *,
        m: int = 1,
        radius: int = 3,
        directed: bool = False,
        weighting: str = "sqrt",
        random_state: Any = None,
        device: Any = None,
    ) -> None:
        self.dim = dim
        self.m = m
        self.radius = radius
        self.directed = directed
        self.weighting = weighting
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the scale of the features; y is not used."""
        self._validate_params()
        graphs = self.check_samples(X)
        self.space_ = Space(dim=int(self.dim), m=int(self.m), seed=seed_of(self.random_state))
        self.n_features_out_ = 2 * self.space_.total_dim
        lengths = 0.0
        for rows in row_slices(len(graphs), self.n_features_out_):
            counted = self._count(colour_graphs(graphs[rows], directed=self.directed))
            squares = sum(np.bincount(part.texts, self._weights(part) ** 2, len(graphs[rows])) for part in counted)
            lengths += float(np.sqrt(squares).sum())
        # A hypervector of one product has the length sqrt(m * dim).
        self.scale_ = (max(lengths, 1.0) / len(graphs) * (int(self.m) * int(self.dim)) ** 0.5) ** -0.5
        return self

    def check_samples(self, X: Any) -> list[Graph]:
        """Return graphs with labels as strings and edges as arrays."""
        if isinstance(X, (str, tuple)) or not hasattr(X, "__iter__") or hasattr(X, "nodes"):
            raise value_error(f"needs a list of graphs, got {type(X).__name__}; put a graph into a list")
        graphs = [_read_graph(graph, number, directed=self.directed) for number, graph in enumerate(X)]
        if not graphs:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required by GraphFeatures.")
        return graphs

    def encode(self, samples: list[Graph]) -> Tensor:
        """Return the features of checked graphs, ``(n, 2 * dim * m**2)``."""
        device = check_device(self.device)
        sums = torch.zeros(len(samples), *self.space_.shape, dtype=self.space_.dtype, device=device)
        step = max(1, CHUNK_NUMBERS[sums.is_cuda] // self.space_.total_dim)
        for place, counted in enumerate(self._count(colour_graphs(samples, directed=self.directed))):
            bind = self._bind_neighbourhoods if place else self._bind_edges
            for rows, bags in weighted_bags(counted.texts, counted.indices, self._weights(counted), step, sums):
                bags.add_to(sums, bind(counted.grams[rows]))
        out = as_features(sums)
        lengths = torch.linalg.vector_norm(out, dim=1, keepdim=True)
        return out.mul_(self.scale_ * lengths.clamp(min=1e-6).rsqrt())

    def effects(self, samples: list[Graph], vector: Tensor, reference: Any) -> Effects:
        r"""Return what each edge and each neighbourhood contributes.

        It is the weight in a graph times the similarity of the hypervector with v. Weights are divided by the square
        root of the length, as in the features, so the contributions in a graph add up to the inner product
        :math:`\langle z, v \rangle`. An undirected edge and its reversal are one part.
        """
        # The length of a row is scale * sqrt(length of the bundle).
        factors = self.scale_**2 / torch.linalg.vector_norm(self.encode(samples), dim=1).clamp(min=1e-6)
        nodes = colour_graphs(samples, directed=self.directed)
        edges, *neighbourhoods = self._count(nodes)
        names = name_edges(samples, nodes, edges.grams)
        parts = self._contributions(edges, self._bind_edges, factors, vector)
        distinct, rows = np.unique(np.array(names, dtype=np.str_), return_inverse=True)
        shown, means = distinct.tolist(), [torch.as_tensor(np.bincount(rows, parts, len(distinct)))]
        colours = nodes.colours
        for radius, counted in enumerate(neighbourhoods):
            colours = nodes.refine(colours) if radius else colours
            known = name_neighbourhoods(samples, nodes, colours, radius)
            shown += [known[colour] for colour in counted.grams[:, 0].tolist()]
            means.append(torch.as_tensor(self._contributions(counted, self._bind_neighbourhoods, factors, vector)))
        mean = torch.cat(means)
        return Effects(shown, mean, mean.abs())  # weights are never negative

    def _contributions(
        self, counted: NGramCounts, vectors_of: Callable[[NDArray[Any]], Tensor], factors: Tensor, vector: Tensor
    ) -> NDArray[Any]:
        """Return the mean contribution of each product over all graphs."""
        own = self._weights(counted) * factors.numpy(force=True)[counted.texts]
        shares = np.bincount(counted.indices, own, minlength=len(counted.grams)) / len(factors)
        similar = np.zeros(len(counted.grams))
        for rows in row_slices(len(counted.grams), self.n_features_out_):
            products = as_features(vectors_of(counted.grams[rows]))
            similar[rows] = (products @ vector.to(products)).numpy(force=True)
        contributions: NDArray[Any] = shares * similar
        return contributions

    def _count(self, nodes: ColouredGraphs) -> list[NGramCounts]:
        """Count the edges of each graph, as triples of colours, and the neighbourhoods of each radius."""
        colours = nodes.colours
        triples = np.stack([colours[nodes.sources], nodes.arc_colours, colours[nodes.targets]], axis=1)
        keys = mix(mix(mix(triples[:, 0]) + triples[:, 1]) + triples[:, 2])
        first, *pairs = count_pairs(nodes.owners[nodes.sources], keys)
        counted = [NGramCounts(triples[first], *pairs)]
        for radius in range(self.radius + 1):
            colours = nodes.refine(colours) if radius else colours
            first, *pairs = count_pairs(nodes.owners, colours)
            counted.append(NGramCounts(colours[first][:, None], *pairs))
        return counted

    def _weights(self, counted: NGramCounts) -> NDArray[Any]:
        return np.sqrt(counted.counts) if self.weighting == "sqrt" else counted.counts.astype(np.float64)

    def _bind_edges(self, triples: NDArray[Any]) -> Tensor:
        distinct, index = np.unique(triples, return_inverse=True)
        chunks = ngram_vectors(self._atoms(distinct), index.reshape(triples.shape))
        return torch.cat([vectors for _, vectors in chunks], dim=1)

    def _bind_neighbourhoods(self, grams: NDArray[Any]) -> Tensor:
        return self._atoms(grams[:, 0])

    def _atoms(self, colours: NDArray[Any]) -> Tensor:
        return self.space_.vectors([f"{c:x}" for c in colours.tolist()], namespace="colour", device=self.device)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags


def _read_graph(graph: Any, number: int, *, directed: bool) -> Graph:
    """Return a graph given as a pair, a triple or a networkx graph."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        graph = _from_networkx(graph, directed=directed)
    if not isinstance(graph, (tuple, list)) or len(graph) not in (2, 3):
        raise value_error(
            f"graph {number} must be (labels, edges) or (labels, edges, edge_labels), got {type(graph).__name__}"
        )
    is_number = isinstance(graph[0], (int, np.integer))
    if not (graph[0] >= 0 if is_number else hasattr(graph[0], "__len__")):
        raise value_error(f"graph {number} has {graph[0]} nodes, expected labels or a number from 0 up")
    count = int(graph[0]) if is_number else len(graph[0])
    edges = _read_edges(graph[1], count, number)
    nodes = np.bincount(edges.ravel(), minlength=count) if is_number else graph[0]
    labels = _read_labels(nodes, "node", count, number)
    edge_labels = _read_labels(graph[2] if len(graph) == 3 else [""] * len(edges), "edge", len(edges), number)
    return Graph(labels, edges, edge_labels)


def _read_edges(given: Any, count: int, number: int) -> NDArray[np.int64]:
    """Return the edges of a graph of ``count`` nodes, ``(edges, 2)``."""
    try:
        edges = np.asarray(given)
    except ValueError as error:
        raise value_error(
            f"edges of graph {number} must be whole numbers (edges, 2), got rows of different lengths; "
            f"give two indices of nodes for each edge"
        ) from error
    edges = edges.reshape(0, 2).astype(np.int64) if not edges.size else edges
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise value_error(f"edges of graph {number} must be whole numbers (edges, 2), got {edges.dtype} {edges.shape}")
    if edges.size and (edges.min() < 0 or edges.max() >= count):
        raise value_error(
            f"edges of graph {number} must be indices of its {count} nodes, counted from 0; got "
            f"{edges.min()} to {edges.max()}"
        )
    return edges.astype(np.int64)


def _read_labels(given: Any, kind: str, count: int, number: int) -> NDArray[np.str_]:
    """Return the labels of all nodes or edges as strings."""
    labels = np.asarray(given)
    if labels.shape != (count,):
        raise value_error(f"graph {number} needs one label per {kind}; got shape {labels.shape} for {count} {kind}s")
    if labels.dtype.kind not in "iub":  # whole numbers are never missing
        for index, label in enumerate(given):
            if not isinstance(label, str) and str(label) in _MISSING:
                raise value_error(
                    f"graph {number} has {label} as the label of {kind} {index}, expected a label; give "
                    f"each {kind} one, or none at all"
                )
    return labels.astype(np.str_)


def _from_networkx(graph: Any, *, directed: bool) -> tuple[Any, ...]:
    """Return labels, edges and edge labels of a networkx graph."""
    if directed:
        graph = graph.to_directed(as_view=True)  # an undirected edge leads in both directions
    rows = {node: row for row, node in enumerate(graph.nodes)}
    labels = [label for _, label in graph.nodes(data="label")]
    edges = [(rows[source], rows[target], label) for source, target, label in graph.edges(data="label", default="")]
    nodes = len(rows) if all(label is None for label in labels) else labels
    return nodes, [edge[:2] for edge in edges], [edge[2] for edge in edges]

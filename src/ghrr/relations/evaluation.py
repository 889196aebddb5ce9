"""Evaluation of link prediction: filtered ranks, mean reciprocal rank and hits at k."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import check_integer, describe, has_finite_sum
from ghrr.relations.graph import KnowledgeGraph, with_reciprocals
from ghrr.relations.known_answers import KnownAnswers, known_answers
from ghrr.relations.model import RelationModel, check_model

_MAX_SCORES = 1 << 25  # in memory at a time; of the products of heads and relations, no more numbers either


@dataclass(frozen=True, repr=False, eq=False)
class RankMetrics:
    """Ranks of the true entities, and the usual summaries of them.

    Parameters
    ----------
    ranks
        Rank of the true tail and of the true head of each triple, from 1. Tied scores get the realistic rank: the
        mean of the best and the worst rank that an order of the tied entities could give.

    Shapes
    ------
    ranks: ``(n, 2)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import RankMetrics
    >>> metrics = RankMetrics(torch.tensor([[1.0, 2.0], [4.0, 20.0]]))
    >>> metrics
    <RankMetrics of 2 triples, MRR 0.4500, hits at 1, 3, 10: 0.2500, 0.5000, 0.7500>
    """

    ranks: Tensor

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank."""
        return float(self.ranks.double().reciprocal().mean())

    def hits(self, k: int) -> float:
        """Return the fraction of ranks that are at most k."""
        check_integer("RankMetrics.hits", "k", k, least=1)
        return float((self.ranks <= k).double().mean())

    def summary(self) -> dict[str, float]:
        """Return MRR and hits at 1, 3 and 10 by name."""
        return {"mrr": self.mrr, **{f"hits_at_{k}": self.hits(k) for k in (1, 3, 10)}}

    def __repr__(self) -> str:
        hits = ", ".join(f"{self.hits(k):.4f}" for k in (1, 3, 10))
        return f"<RankMetrics of {len(self.ranks):,} triples, MRR {self.mrr:.4f}, hits at 1, 3, 10: {hits}>"


def evaluate(model: RelationModel, graph: KnowledgeGraph, split: str = "test") -> RankMetrics:
    """Rank the true tail and the true head of every triple of a split among all entities.

    Ranks are filtered: other entities that are true by a triple of any split do not count. Heads are ranked by the
    reciprocal relation.

    Parameters
    ----------
    model
        Model with the entities and relations of the graph.
    graph
        Graph.
    split
        ``"train"``, ``"valid"`` or ``"test"``.

    Raises
    ------
    ValueError
        The model has other entities or relations than the graph, or the split is empty.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph, RelationModel, evaluate
    >>> triples = torch.tensor([[0, 0, 1], [1, 0, 2], [0, 0, 2]])
    >>> graph = KnowledgeGraph("g", ("a", "b", "c"), ("before",), *triples.split(1))
    >>> evaluate(RelationModel(graph.entities, graph.relations, dim=10, m=2), graph).ranks.shape
    torch.Size([1, 2])
    """
    check_vocabulary("evaluate", check_model("evaluate", model), graph)
    triples = graph.split(split)
    if not len(triples):
        raise ValueError(f"evaluate: the {split} split is empty, expected at least one triple")
    device = model.entity_table.device
    questions = with_reciprocals(triples, len(graph.relations)).to(device)
    ranks = [
        realistic_ranks(scores, targets)
        for scores, targets in filtered_scores(model, questions, known_answers(graph, device))
    ]
    return RankMetrics(torch.cat(ranks).view(2, -1).T.cpu())


def check_vocabulary(operation: str, model: RelationModel, graph: KnowledgeGraph) -> None:
    """Raise unless the graph has the entities and relations of the model."""
    if not isinstance(graph, KnowledgeGraph):
        raise TypeError(f"{operation}: the graph must be a KnowledgeGraph, got {describe(graph)}")
    for kind in ("entities", "relations"):
        found, expected = getattr(graph, kind), getattr(model, kind)
        if found != expected:
            raise ValueError(
                f"{operation}: the graph must have the {kind} of the model ({len(expected):,}), got {len(found):,} "
                f"other or differently ordered {kind}; read it with load_graph(folder, like=model)"
            )


@torch.no_grad()
def filtered_scores(
    model: RelationModel, questions: Tensor, known: KnownAnswers, *, max_scores: int | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the scores of all entities and the targets of some questions at a time.

    Known answers other than the target have the score minus infinity. At most ``max_scores`` scores are in
    memory, by default 2**25.

    Shapes
    ------
    questions: ``(n, 3)``, triples with reciprocal relations; yields ``(rows, entities)`` and ``(rows,)``
    """
    for chunk in torch.split(questions, max(1, (max_scores or _MAX_SCORES) // max(model.entity_table.shape))):
        heads, relations, targets = chunk.unbind(1)
        scores = model.scores(heads, relations)
        check_scores("evaluate", scores)
        right = scores.gather(1, targets[:, None])
        scores[known.find(heads, relations)] = -torch.inf
        yield scores.scatter_(1, targets[:, None], right), targets


def check_scores(operation: str, scores: Tensor) -> None:
    """Raise for scores that are NaN or infinite, which have no order."""
    if not has_finite_sum(scores) and not scores.isfinite().all():
        raise ValueError(
            f"{operation}: the scores of the model are not numbers or are infinite; train it with a lower learning rate"
        )


def realistic_ranks(scores: Tensor, targets: Tensor) -> Tensor:
    r"""Return the realistic rank of each target among the scores of its row.

    The mean of the optimistic rank :math:`1 + |\{i: s_i > s\}|` and the pessimistic rank :math:`|\{i: s_i \ge s\}|`.

    Shapes
    ------
    scores: ``(n, N)``, targets: ``(n,)``; output: ``(n,)``, in double precision

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.evaluation import realistic_ranks
    >>> scores = torch.tensor([[3.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
    >>> realistic_ranks(scores, torch.tensor([2, 0]))
    tensor([2., 2.], dtype=torch.float64)
    """
    right = scores.gather(1, targets[:, None])
    optimistic = 1 + (scores > right).sum(dim=1)
    pessimistic = (scores >= right).sum(dim=1)
    return (optimistic + pessimistic).double() / 2

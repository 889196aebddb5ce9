"""The frequency baseline: the MRR of answering with the most frequent tails of a relation, whatever the head."""

from __future__ import annotations

import torch

from ghrr.relations.evaluation import RankMetrics, realistic_ranks
from ghrr.relations.graph import KnowledgeGraph, with_reciprocals
from ghrr.relations.known_answers import known_answers

_SCORES = 1 << 24  # in memory at a time


def frequency_baseline(graph: KnowledgeGraph, split: str = "valid") -> RankMetrics:
    """Rank the true tail and head of every triple of a split by how often they occur with the relation.

    A model that does worse has learned nothing about the heads of questions.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph
    >>> from ghrr.relations.baseline import frequency_baseline
    >>> train = torch.tensor([[0, 0, 3], [1, 0, 3], [2, 0, 4]])
    >>> valid = torch.tensor([[4, 0, 3]])
    >>> graph = KnowledgeGraph("g", tuple("abcde"), ("lives in",), train, valid, valid)
    >>> frequency_baseline(graph).ranks  # 3 is the most frequent tail; e was never a head, like d
    tensor([[1.0000, 2.5000]], dtype=torch.float64)
    """
    relations, entities = len(graph.relations), len(graph.entities)
    _, kinds, tails = with_reciprocals(graph.train, relations).unbind(1)
    ones, size = torch.ones(len(tails)), (2 * relations, entities)
    # An argument check_invariants makes torch 2.11 warn.
    with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
        counts = torch.sparse_coo_tensor(torch.stack([kinds, tails]), ones, size).coalesce()
    known = known_answers(graph)
    ranks = []
    for chunk in torch.split(with_reciprocals(graph.split(split), relations), max(1, _SCORES // entities)):
        heads, kinds, targets = chunk.unbind(1)
        scores = counts.index_select(0, kinds).to_dense()
        target_scores = scores.gather(1, targets[:, None])
        scores[known.find(heads, kinds)] = -torch.inf
        ranks.append(realistic_ranks(scores.scatter_(1, targets[:, None], target_scores), targets))
    return RankMetrics(torch.cat(ranks).view(2, -1).T)

"""KnownAnswers: the true tails of every question of a graph, as one sorted table."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.relations.graph import KnowledgeGraph, with_reciprocals


@dataclass(frozen=True)
class KnownAnswers:
    """True tails by question (head, relation), with reciprocal relations.

    Attributes
    ----------
    keys
        Sorted numbers of the questions, ``head * 2R + relation``, one for each answer.
    tails
        Answers, in the order of ``keys``.
    relations
        Number 2R of relations with their reciprocals.
    """

    keys: Tensor
    tails: Tensor
    relations: int

    def find(self, heads: Tensor, relations: Tensor) -> tuple[Tensor, Tensor]:
        """Return all answers of n questions as pairs: rows of the questions and indices of entities.

        Shapes
        ------
        heads, relations: ``(n,)``; outputs: ``(answers,)``

        Examples
        --------
        >>> import torch
        >>> from ghrr.relations import KnowledgeGraph
        >>> from ghrr.relations.known_answers import known_answers
        >>> triples = torch.tensor([[0, 0, 1], [0, 0, 2], [1, 0, 2]])
        >>> known = known_answers(KnowledgeGraph("g", ("a", "b", "c"), ("r",), *triples.split(1)))
        >>> rows, tails = known.find(torch.tensor([0, 2]), torch.tensor([0, 1]))  # a r ?, c ~r ?
        >>> rows.tolist(), tails.tolist()
        ([0, 0, 1, 1], [1, 2, 0, 1])
        """
        wanted = heads * self.relations + relations
        starts = torch.searchsorted(self.keys, wanted)
        counts = torch.searchsorted(self.keys, wanted, right=True) - starts
        rows = torch.repeat_interleave(torch.arange(len(wanted), device=wanted.device), counts)
        within = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        return rows, self.tails[starts[rows] + within]


def known_answers(graph: KnowledgeGraph, device: torch.device | None = None) -> KnownAnswers:
    """Return the answers that the triples of all splits give."""
    count = len(graph.relations)
    triples = with_reciprocals(torch.cat([graph.train, graph.valid, graph.test]), count).to(device)
    keys, order = torch.sort(triples[:, 0] * (2 * count) + triples[:, 1], stable=True)
    return KnownAnswers(keys, triples[order, 2], 2 * count)

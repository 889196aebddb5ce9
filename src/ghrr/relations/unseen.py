r"""Questions about entities that occur in no training triple: answered by how frequent the tails of the relation are.

Training knows nothing about such an entity: its vector is a random start that was pushed away from the answers of all
questions, so the scores of its questions are noise. What is known is the relation. For a question (h, r, ?) with an
unseen h the score is the logarithm of

.. math:: p(t \mid r) \propto n_1(r, t) + \tfrac{1}{100} n(r, t) + \tfrac{1}{N} .

:math:`n(r, t)` counts the training triples of the relation with this tail, and :math:`n_1(r, t)` those among them whose
head occurs in no other triple: without that triple, the head would be unseen too. N is the number of entities.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr.relations.graph import KnowledgeGraph, with_reciprocals

_SHARE = 0.01  # of a triple whose head occurs in others as well


class UnseenHeads(nn.Module):
    """Scores of questions about heads that occur in no training triple.

    Parameters
    ----------
    is_unseen
        Whether an entity occurs in no training triple.
    counts
        Sparse matrix of the weighted counts of tails, for each relation and reciprocal relation.

    Shapes
    ------
    is_unseen: ``(entities,)``, bool; counts: ``(2R, entities)``, sparse

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph
    >>> from ghrr.relations.unseen import count_tails
    >>> triples = torch.tensor([[0, 0, 3], [1, 0, 3], [2, 0, 4], [5, 0, 3]])  # entity 5 is not in training
    >>> graph = KnowledgeGraph("g", tuple("abcdef"), ("lives in",), triples[:3], triples[3:], triples[3:])
    >>> unseen = count_tails(graph)
    >>> scores = unseen.replace(torch.zeros(2, 6), torch.tensor([0, 5]), torch.tensor([0, 0]))
    >>> scores.exp().round(decimals=2)
    tensor([[1.0000, 1.0000, 1.0000, 1.0000, 1.0000, 1.0000],
            [0.0400, 0.0400, 0.0400, 0.5400, 0.2900, 0.0400]])
    """

    is_unseen: Tensor
    counts: Tensor

    def __init__(self, is_unseen: Tensor, counts: Tensor) -> None:
        super().__init__()
        # Not parameters of the model: files store them separately, and checkpoints do not need them.
        self.register_buffer("is_unseen", is_unseen, persistent=False)
        self.register_buffer("counts", counts, persistent=False)

    def replace(self, scores: Tensor, heads: Tensor, relations: Tensor, scale: float = 1.0) -> Tensor:
        """Return the scores with the rows of unseen heads replaced by log-probabilities, times a scale.

        Shapes
        ------
        scores: ``(n, entities)``; heads, relations: ``(n,)``; output: ``(n, entities)``
        """
        rows = self.is_unseen[heads].nonzero()[:, 0]
        if not len(rows):
            return scores
        counts = self.counts.index_select(0, relations[rows]).to_dense() + 1 / len(self.is_unseen)
        logits = scale * (counts / counts.sum(dim=1, keepdim=True)).log()
        return scores.index_copy(0, rows, logits.to(scores))


def count_tails(graph: KnowledgeGraph) -> UnseenHeads | None:
    """Return the answers of entities that occur in no training triple; None if there is no such entity."""
    occurrences = torch.bincount(graph.train[:, [0, 2]].flatten(), minlength=len(graph.entities))
    if occurrences.all():
        return None
    heads, relations, tails = with_reciprocals(graph.train, len(graph.relations)).unbind(1)
    weights = (occurrences[heads] == 1).float() + _SHARE
    size = 2 * len(graph.relations), len(graph.entities)
    # An argument check_invariants makes torch 2.11 warn.
    with torch.sparse.check_sparse_tensor_invariants(False):  # type: ignore[no-untyped-call]
        counts = torch.sparse_coo_tensor(torch.stack([relations, tails]), weights, size)
    return UnseenHeads(occurrences == 0, counts.coalesce())

r"""Calibration: a temperature that makes probabilities of predictions agree with their frequencies.

The probability of an entity is the softmax of the logits :math:`\ell_i = mD\,\delta(h * r, t_i)` over all candidates,
divided by a temperature:

.. math:: P(i) = e^{\ell_i / T} / \sum_j e^{\ell_j / T} .

It is the probability that i is the missing answer of a held-out question, given that known answers are not
candidates. T minimises the mean of :math:`-\log P` of the right entities of validation triples, a convex problem in
1/T. No temperature changes the order of the candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ghrr.relations.evaluation import filtered_scores
from ghrr.relations.graph import KnowledgeGraph, with_reciprocals
from ghrr.relations.known_answers import known_answers
from ghrr.relations.model import RelationModel

_QUESTIONS = 2000  # enough for one number
_ROWS = 256  # of probabilities in memory at a time
_LARGEST_CHANGE = 2.0  # of 1/T in one step of Newton's method


def fit_temperature(model: RelationModel, graph: KnowledgeGraph, split: str = "valid") -> float:
    """Return the temperature that maximises the probability of the right entities of a split.

    Uses up to 2,000 questions, spread evenly over the split.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph, RelationModel
    >>> from ghrr.relations.calibration import fit_temperature
    >>> triples = torch.tensor([[0, 0, 1], [1, 0, 2], [0, 0, 2]])
    >>> graph = KnowledgeGraph("g", ("a", "b", "c"), ("before",), *triples.split(1))
    >>> fit_temperature(RelationModel(graph.entities, graph.relations, dim=10, m=2, init_std=0.3), graph) > 0
    True
    """
    parts = [
        part
        for logits, targets in _filtered_logits(model, graph, split, _QUESTIONS)
        for part in zip(torch.split(logits, _ROWS), torch.split(targets, _ROWS), strict=True)
    ]
    inverse = 1.0
    for _ in range(50):
        slope = curvature = 0.0
        for logits, targets in parts:
            probability = torch.softmax(inverse * logits, dim=1)
            finite = torch.where(logits.isfinite(), logits, 0.0)  # known answers have the probability 0
            mean = (probability * finite).sum(dim=1)
            slope += float((mean - finite.gather(1, targets[:, None])[:, 0]).sum())
            curvature += float((probability * (finite - mean[:, None]).square()).sum())
        new = inverse - slope / max(curvature, 1e-12)
        new = min(max(new, inverse / _LARGEST_CHANGE), inverse * _LARGEST_CHANGE)
        if abs(new - inverse) < 1e-5 * inverse or not 1e-3 < new < 1e3:
            break
        inverse = new
    return 1 / inverse


def top_confidences(model: RelationModel, graph: KnowledgeGraph, split: str) -> tuple[Tensor, Tensor]:
    """Return the probability of the best entity of each question, and whether it is the right one.

    Shapes
    ------
    outputs: ``(2n,)`` for n triples
    """
    confidences, right = [], []
    for logits, targets in _filtered_logits(model, graph, split, None):
        best, indices = torch.softmax(logits / model.temperature, dim=1).max(dim=1)
        confidences.append(best.cpu())
        right.append((indices == targets).cpu())
    return torch.cat(confidences), torch.cat(right)


def expected_calibration_error(confidences: Tensor, right: Tensor, bins: int = 10) -> float:
    """Return the mean distance of confidence and accuracy over bins of equal width, weighted by their size.

    Shapes
    ------
    confidences, right: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.calibration import expected_calibration_error
    >>> expected_calibration_error(torch.tensor([0.5, 0.5, 1.0]), torch.tensor([True, False, True]))
    0.0
    """
    index = (confidences * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, confidences.double() - right.double())
    return float(gap.abs().sum() / len(confidences))


def _filtered_logits(
    model: RelationModel, graph: KnowledgeGraph, split: str, limit: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    device = model.entity_table.device
    questions = with_reciprocals(graph.split(split), len(graph.relations))
    if limit is not None:
        questions = questions[:: -(-len(questions) // limit)]
    for scores, targets in filtered_scores(model, questions.to(device), known_answers(graph, device)):
        yield scores * (model.m * model.dim), targets

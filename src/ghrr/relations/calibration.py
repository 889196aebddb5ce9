r"""Calibration: a temperature and a background that make probabilities of predictions agree with their frequencies.

The probability of an entity among n candidates is a softmax of the logits :math:`\ell_i = mD\,s(h, r, t_i)`,
mixed with a uniform distribution:

.. math:: P(i) = (1 - b)\, e^{\ell_i / T} / \sum_j e^{\ell_j / T} + b / n .

It is the probability that i is the missing answer of a held-out question, given that known answers are not
candidates. The temperature T and the background b minimise the mean of :math:`-\log P` of the right entities of
validation triples. The background is the share of questions about which the model has no information. Without it, these
questions raise the temperature, and all answers become too uncertain. Neither changes the order of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ghrr.relations.evaluation import filtered_scores
from ghrr.relations.graph import KnowledgeGraph, with_reciprocals
from ghrr.relations.known_answers import known_answers
from ghrr.relations.model import RelationModel

_QUESTIONS = 1000  # enough for two numbers
_ROWS = 256  # of probabilities in memory at a time
_TEMPERATURES = [10 ** (power / 4) for power in range(-8, 9)]  # tried first
_REFINEMENTS = 12  # of the best one, which make it exact to 0.1 %


def fit_calibration(model: RelationModel, graph: KnowledgeGraph, split: str = "valid") -> tuple[float, float]:
    """Return the temperature and the background that maximise the probability of the right entities of a split.

    Uses up to 1,000 questions, spread evenly over the split.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph, RelationModel
    >>> from ghrr.relations.calibration import fit_calibration
    >>> triples = torch.tensor([[0, 0, 1], [1, 0, 2], [0, 0, 2]])
    >>> graph = KnowledgeGraph("g", ("a", "b", "c"), ("before",), *triples.split(1))
    >>> temperature, background = fit_calibration(RelationModel(graph.entities, graph.relations, dim=10, m=2), graph)
    >>> temperature > 0, 0 <= background <= 1
    (True, True)
    """
    return maximise_likelihood(list(_filtered_logits(model, graph, split, _QUESTIONS)))


def maximise_likelihood(questions: Sequence[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Return the temperature and the background that maximise the probability of the targets.

    Shapes
    ------
    questions: pairs of logits ``(n, N)`` and targets ``(n,)``; logits of minus infinity are not candidates
    """
    parts = [
        part
        for logits, targets in questions
        for part in zip(torch.split(logits, _ROWS), torch.split(targets, _ROWS), strict=True)
    ]
    chance = 1 / torch.cat([logits.isfinite().sum(dim=1) for logits, _ in parts]).double()

    def fit(temperature: float) -> tuple[float, float]:
        """Return the loss with the best background, and that background."""
        known = torch.cat([-cross_entropy(x / temperature, y, reduction="none") for x, y in parts]).double().exp()
        background = _fit_background(known, chance)
        return float(-((1 - background) * known + background * chance).log().mean()), background

    tried = {temperature: fit(temperature) for temperature in _TEMPERATURES}
    step = _TEMPERATURES[1] / _TEMPERATURES[0]
    for _ in range(_REFINEMENTS):
        best, step = min(tried, key=tried.__getitem__), math.sqrt(step)
        tried |= {temperature: fit(temperature) for temperature in (best / step, best * step)}
    best = min(tried, key=tried.__getitem__)
    return best, tried[best][1]


def _fit_background(known: Tensor, chance: Tensor) -> float:
    """Return the b that maximises the sum of log((1 - b) known + b chance), by bisection of the decreasing slope."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        slope = float(((chance - known) / ((1 - middle) * known + middle * chance)).sum())
        low, high = (middle, high) if slope > 0 else (low, middle)
    return low


def probabilities(model: RelationModel, logits: Tensor) -> Tensor:
    """Return the calibrated probabilities of all entities; logits of minus infinity are not candidates.

    Shapes
    ------
    logits: ``(n, N)``; output: ``(n, N)``
    """
    candidates = logits.isfinite()
    uniform = candidates / candidates.sum(dim=1, keepdim=True)
    return (1 - model.background) * torch.softmax(logits / model.temperature, dim=1) + model.background * uniform


def top_confidences(model: RelationModel, graph: KnowledgeGraph, split: str) -> tuple[Tensor, Tensor]:
    """Return the probability of the best entity of each question, and whether it is the right one.

    Shapes
    ------
    outputs: ``(2n,)`` for n triples
    """
    confidences, right = [], []
    for logits, targets in _filtered_logits(model, graph, split, None):
        best, indices = probabilities(model, logits).max(dim=1)
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

r"""Calibration: a temperature and a background that make probabilities of predictions agree with their frequencies.

The probability of an entity among n candidates is a softmax of the logits :math:`\ell_i = mD\,s(h, r, t_i)`,
mixed with a uniform distribution:

.. math:: P(i) = (1 - b)\, e^{\ell_i / T} / \sum_j e^{\ell_j / T} + b / n .

It is the probability that i is the missing answer of a held-out question, given that known answers are not
candidates. The temperature T and the background b minimise the mean of :math:`-\log P` of the true entities of
validation triples. The background is the share of questions about which the model has no information. Without it, these
questions raise the temperature, and all answers become too uncertain. Neither changes the order of the candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ghrr.relations.evaluation import filtered_scores
from ghrr.relations.graph import KnowledgeGraph, with_reciprocals
from ghrr.relations.known_answers import known_answers
from ghrr.relations.model import RelationModel

_QUESTIONS = 1000  # enough for two numbers
_STORED = 1 << 25  # logits of all questions that are kept; more are computed again for each pass over the questions
_SCORES = 1 << 24  # logits in memory at a time, if not all are kept
_BLOCK = 1 << 21  # probabilities in memory at a time
_REFINEMENTS = 12  # of the best temperature, which make it exact to 0.1 %
_STEP = 1 << _REFINEMENTS  # of the temperatures 10 ** (k / (4 * _STEP)) that are tried first, from 0.01 to 100
_LEVELS = 2  # refinements in one pass, if each pass computes the logits again


def fit_calibration(model: RelationModel, graph: KnowledgeGraph, split: str = "valid") -> tuple[float, float]:
    """Return the temperature and the background that maximise the probability of the true entities of a split.

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
    count = min(_QUESTIONS, 2 * len(graph.split(split)))
    if count * len(graph.entities) <= _STORED:
        return maximise_likelihood(list(_filtered_logits(model, graph, split, _QUESTIONS)))
    return maximise_likelihood(_Questions(model, graph, split), levels=_LEVELS)


@dataclass(frozen=True)
class _Questions:
    """Logits and targets of a split, computed again at each pass over them: they may not fit in memory."""

    model: RelationModel
    graph: KnowledgeGraph
    split: str

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return _filtered_logits(self.model, self.graph, self.split, _QUESTIONS)


def maximise_likelihood(questions: Iterable[tuple[Tensor, Tensor]], *, levels: int = 1) -> tuple[float, float]:
    """Return the temperature and the background that maximise the probability of the targets.

    Parameters
    ----------
    questions
        Logits and targets of some questions at a time. Passed over several times.
    levels
        Refinements of the temperature in one pass. More of them need fewer passes, but more computation in each. The
        result is the same.

    Shapes
    ------
    questions: pairs of logits ``(n, N)`` and targets ``(n,)``; logits of minus infinity are not candidates
    """
    found: dict[int, tuple[float, float]] = {}  # loss with the best background, and that background

    def fit(powers: Iterable[int]) -> None:
        new = [power for power in powers if power not in found]
        known, chance = _likelihoods(questions, [_temperature(power) for power in new])
        for power, likelihood in zip(new, known, strict=True):
            background = _fit_background(likelihood, chance)
            loss = -((1 - background) * likelihood + background * chance).log().mean()
            found[power] = float(loss), background

    tried = set(range(-8 * _STEP, 9 * _STEP, _STEP))
    fit(tried)
    for level in range(_REFINEMENTS):
        best, step = min(tried, key=found.__getitem__), _STEP >> (level + 1)
        if not {best - step, best + step} <= found.keys():
            finest = _STEP >> min(level + levels, _REFINEMENTS)
            fit(range(best - 2 * step + finest, best + 2 * step, finest))
        tried |= {best - step, best + step}
    best = min(tried, key=found.__getitem__)
    return _temperature(best), found[best][1]


def _temperature(power: int) -> float:
    return float(10 ** (power / (4 * _STEP)))


def _likelihoods(questions: Iterable[tuple[Tensor, Tensor]], temperatures: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Return the probability of each target without background, and by chance: ``(temperatures, n)`` and ``(n,)``."""
    known, candidates = [], []
    for logits, targets in questions:
        for x, y in _blocks(logits, targets):
            losses = [cross_entropy(x / temperature, y, reduction="none") for temperature in temperatures]
            known.append(-torch.stack(losses))
            candidates.append(x.isfinite().sum(dim=1))
    return torch.cat(known, dim=1).double().exp(), 1 / torch.cat(candidates).double()


def _blocks(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Split questions into blocks whose probabilities fit in little memory."""
    rows = max(1, _BLOCK // logits.shape[1])
    yield from zip(torch.split(logits, rows), torch.split(targets, rows), strict=True)


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
    """Return the probability of the best entity of each question, and whether it is the true one.

    Shapes
    ------
    outputs: ``(2n,)`` for n triples
    """
    confidences, correct = [], []
    for logits, targets in _filtered_logits(model, graph, split, None):
        for x, y in _blocks(logits, targets):
            best, indices = probabilities(model, x).max(dim=1)
            confidences.append(best.cpu())
            correct.append((indices == y).cpu())
    return torch.cat(confidences), torch.cat(correct)


def expected_calibration_error(confidences: Tensor, correct: Tensor, bins: int = 10) -> float:
    """Return the mean distance of confidence and accuracy over bins of equal width, weighted by their size.

    Shapes
    ------
    confidences, correct: ``(n,)``

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations.calibration import expected_calibration_error
    >>> expected_calibration_error(torch.tensor([0.5, 0.5, 1.0]), torch.tensor([True, False, True]))
    0.0
    """
    index = (confidences * bins).long().clamp(max=bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64).index_add_(0, index, confidences.double() - correct.double())
    return float(gap.abs().sum() / len(confidences))


def _filtered_logits(
    model: RelationModel, graph: KnowledgeGraph, split: str, limit: int | None
) -> Iterator[tuple[Tensor, Tensor]]:
    device = model.entity_table.device
    questions = with_reciprocals(graph.split(split), len(graph.relations))
    if limit is not None:
        questions = questions[:: -(-len(questions) // limit)]
    for scores, targets in filtered_scores(
        model, questions.to(device), known_answers(graph, device), max_scores=_SCORES
    ):
        yield scores.mul_(model.m * model.dim), targets

"""Answer questions with a relation model: ranked entities for a head and a relation, or for a path of relations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ghrr.checks import check_integer, describe, names_errors, type_error, value_error
from ghrr.memory.match import Answer
from ghrr.relations.calibration import probabilities
from ghrr.relations.evaluation import check_scores, check_vocabulary
from ghrr.relations.graph import KnowledgeGraph
from ghrr.relations.known_answers import known_answers
from ghrr.relations.model import RelationModel, check_model


@names_errors
def predict(
    model: RelationModel,
    head: str,
    relation: str | Sequence[str],
    *,
    k: int = 10,
    known: KnowledgeGraph | None = None,
) -> list[Answer]:
    r"""Return the k best tails for a head and a relation or a path of relations, best first.

    A path :math:`r_1, r_2, \dots` is one product, :math:`h * r_1 * r_2 * \dots`. To ask for heads, use the reciprocal
    relation: ``predict(model, tail, "~relation")``.

    The ``score`` of a match comes from :class:`RelationModel`, and its ``margin`` is the distance to the next entity.
    The ``probability`` is a softmax of the scores over all candidates, mixed with a uniform distribution and fitted to
    validation triples (``relations/calibration.py``): the probability that t is the missing answer of a question, given
    that its known answers are not candidates. It is calibrated for single relations; for longer paths it is only a
    ranking.

    Parameters
    ----------
    model
        Trained model.
    head
        Name of an entity.
    relation
        Name of a relation, or names along a path.
    k
        Number of matches.
    known
        Leave out tails that a triple of this graph links to the head by the relation. For a path nothing is left out.

    Raises
    ------
    ValueError
        An entity or relation is unknown, the path is empty, or the scores are not finite numbers.

    Examples
    --------
    >>> from ghrr.relations import RelationModel, predict
    >>> model = RelationModel(("Ada", "Byron", "John"), ("parent",), dim=20, m=3, init_std=0.1, seed=0)
    >>> [match.guess for match in predict(model, "Ada", ["parent", "~parent"], k=1)]
    ['Ada']
    """
    check_model(model)
    check_integer("k", k, least=1)
    if not isinstance(relation, Sequence):
        raise type_error(f"relation must be a name or a list of names, got {describe(relation)}")
    path = [relation] if isinstance(relation, str) else list(relation)
    if not path:
        raise value_error("the path is empty, expected at least one relation")
    device = model.entity_table.device
    start, *steps = (
        torch.tensor([index], device=device)
        for index in (model.entity_index(head), *(model.relation_index(name) for name in path))
    )
    with torch.no_grad():
        scores = model.scores(start, *steps)
    check_scores(scores)
    if known is not None:
        check_vocabulary(model, known)
        if len(steps) == 1:
            scores[known_answers(known, device).find(start, steps[0])] = -torch.inf
    chances = probabilities(model, scores.double() * (model.m * model.dim))[0]
    candidates = int(scores[0].isfinite().sum())
    best = scores[0].topk(min(k + 1, candidates))
    rows = list(zip(best.indices.tolist(), best.values.tolist(), chances[best.indices].tolist(), strict=True))
    following = [*rows[1:], (None, 0.0, 0.0)]
    return [
        Answer(
            guess=model.entities[index],
            score=score,
            runner_up=None if other is None else model.entities[other],
            margin=score - next_score,
            candidates=candidates,
            probability=probability,
        )
        for (index, score, probability), (other, next_score, _) in zip(rows[:k], following, strict=False)
    ]

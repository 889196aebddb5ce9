r"""Settings that are not given: chosen from the size of the graph, and the regulariser by the validation triples.

A graph is small if an epoch computes at most :data:`SMALL` scores. The regulariser matters most: what is good for
40,000 entities in a few triples each keeps a model of 100 entities in many triples from learning anything. On small
graphs a few weights are therefore tried, each in a short training, and the one with the best validation MRR is used.
Large graphs have fixed defaults: a trial there takes as long as a training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ghrr.relations.config import RelationConfig
from ghrr.relations.graph import KnowledgeGraph

SMALL = 1 << 30  # scores in an epoch
TRIAL_EPOCHS = 10
_FIRST_WEIGHT, _FACTOR, _MOST_TRIALS = 0.01, 3.0, 6
_NUMBERS = 360  # complex numbers per entity of a small graph
_STEPS = 40  # per epoch of a small graph
_LARGE = {"dim": 111, "batch": 1000, "regularizer_weight": 0.1}


def is_small(graph: KnowledgeGraph) -> bool:
    """Return whether the scores of an epoch are few enough to try several regularisers."""
    return 2 * len(graph.train) * len(graph.entities) <= SMALL


def default_sizes(graph: KnowledgeGraph, config: RelationConfig) -> RelationConfig:
    """Return settings in which ``dim`` and ``batch`` are given; on large graphs also the weight of the regulariser.

    Examples
    --------
    >>> import torch
    >>> from ghrr.relations import KnowledgeGraph, RelationConfig
    >>> from ghrr.relations.defaults import default_sizes
    >>> triples = torch.arange(9000)[:, None] * torch.tensor([1, 0, 7]) % 100
    >>> graph = KnowledgeGraph("g", tuple(map(str, range(100))), ("r",), triples, triples[:1], triples[:1])
    >>> chosen = default_sizes(graph, RelationConfig(m=3))
    >>> chosen.dim, chosen.batch, default_sizes(graph, RelationConfig(dim=7)).dim
    (40, 450, 7)
    """
    defaults: dict[str, Any] = dict(_LARGE)
    if is_small(graph):
        batch = min(1000, max(50, 2 * len(graph.train) // _STEPS))
        defaults = {"dim": max(1, round(_NUMBERS / config.m**2)), "batch": batch}
    return replace(config, **{name: value for name, value in defaults.items() if getattr(config, name) is None})


def choose_weight(valid_mrr: Callable[[float], float]) -> float:
    """Return the weight of the regulariser with the best validation MRR.

    Weights differ by factors of 3. The search starts at 0.01 and follows the better neighbour until it gets worse.

    Parameters
    ----------
    valid_mrr
        Returns the validation MRR of a short training with a weight.

    Examples
    --------
    >>> from ghrr.relations.defaults import choose_weight
    >>> tried = []
    >>> def valid_mrr(weight):
    ...     tried.append(weight)
    ...     return -abs(weight - 0.1)
    >>> f"{choose_weight(valid_mrr):.2f}", [f"{weight:.4f}" for weight in tried]
    ('0.09', ['0.0100', '0.0033', '0.0300', '0.0900', '0.2700'])
    """
    found: dict[int, float] = {}

    def score(power: int) -> float:
        if power not in found:
            found[power] = valid_mrr(_FIRST_WEIGHT * _FACTOR**power)
        return found[power]

    best = max((0, -1, 1), key=score)
    direction = best
    while direction and len(found) < _MOST_TRIALS and score(best + direction) > score(best):
        best += direction
    return _FIRST_WEIGHT * _FACTOR**best

r"""Learned relations: hypervectors of entities and relations, trained on a knowledge graph or on chains of relations.

The score of a triple (head, relation, tail) is :math:`\delta(h * r, t)`. Binding is associative and, for m > 1, not
commutative: a path of relations is one product, and its order matters.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ghrr.relations.config import RelationConfig
    from ghrr.relations.evaluation import RankMetrics, evaluate
    from ghrr.relations.explanation import Composition, RelationExplanation, explain, find_compositions
    from ghrr.relations.graph import KnowledgeGraph
    from ghrr.relations.model import RelationModel
    from ghrr.relations.prediction import predict
    from ghrr.relations.saving import load_model, save_model
    from ghrr.relations.training import RelationProgress, train
    from ghrr.relations.triples import load_graph

__all__ = [
    "Composition",
    "KnowledgeGraph",
    "RankMetrics",
    "RelationConfig",
    "RelationExplanation",
    "RelationModel",
    "RelationProgress",
    "evaluate",
    "explain",
    "find_compositions",
    "load_graph",
    "load_model",
    "predict",
    "save_model",
    "train",
]

_MODULES = {
    "Composition": "explanation",
    "KnowledgeGraph": "graph",
    "RankMetrics": "evaluation",
    "RelationConfig": "config",
    "RelationExplanation": "explanation",
    "RelationModel": "model",
    "RelationProgress": "training",
    "evaluate": "evaluation",
    "explain": "explanation",
    "find_compositions": "explanation",
    "load_graph": "triples",
    "load_model": "saving",
    "predict": "prediction",
    "save_model": "saving",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ghrr.relations' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ghrr.relations.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

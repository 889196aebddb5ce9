"""Abstract reasoning: rules over hypervectors solve matrices of panels and complete rows of numbers and symbols.

A rule is an expression of bindings over the panels of a row; a distribution over values is a weighted bundle. Rules are
given or learnt from right answers alone, and every answer has a probability.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ghrr.reasoning.completion import Completion, complete
    from ghrr.reasoning.panels import Entities, Matrices, Numbers, Slots
    from ghrr.reasoning.perception import Perception, train_perception
    from ghrr.reasoning.posterior import Prior
    from ghrr.reasoning.raven import read_raven, read_raven_x
    from ghrr.reasoning.reasoner import Explanation, Reasoner, Solutions
    from ghrr.reasoning.rules import Rule

_MODULES = {
    "Completion": "completion",
    "Entities": "panels",
    "Explanation": "reasoner",
    "Matrices": "panels",
    "Numbers": "panels",
    "Perception": "perception",
    "Prior": "posterior",
    "Reasoner": "reasoner",
    "Rule": "rules",
    "Slots": "panels",
    "Solutions": "reasoner",
    "complete": "completion",
    "read_raven": "raven",
    "read_raven_x": "raven",
    "train_perception": "perception",
}

__all__ = [
    "Completion",
    "Entities",
    "Explanation",
    "Matrices",
    "Numbers",
    "Perception",
    "Prior",
    "Reasoner",
    "Rule",
    "Slots",
    "Solutions",
    "complete",
    "read_raven",
    "read_raven_x",
    "train_perception",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ghrr.reasoning' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ghrr.reasoning.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

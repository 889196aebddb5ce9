"""Abstract reasoning: rules over hypervectors solve matrices of panels and complete rows of numbers and symbols.

A rule is an expression of bindings over the panels of a row; a distribution over values is a weighted bundle. Rules are
given or learnt from correct answers alone, and every answer has a probability.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ghrr.reasoning.completion import Completion, complete
from ghrr.reasoning.panels import Entities, Matrices, Numbers, Slots
from ghrr.reasoning.posterior import Prior
from ghrr.reasoning.raven import read_raven
from ghrr.reasoning.reasoner import Reasoner, RuleExplanation, Solutions
from ghrr.reasoning.rules import Rule

if TYPE_CHECKING:
    from ghrr.reasoning.drawing import draw_panel
    from ghrr.reasoning.perception import Perception, train_perception

__all__ = [
    "Completion",
    "Entities",
    "Matrices",
    "Numbers",
    "Perception",
    "Prior",
    "Reasoner",
    "Rule",
    "RuleExplanation",
    "Slots",
    "Solutions",
    "complete",
    "draw_panel",
    "read_raven",
    "train_perception",
]


def __getattr__(name: str) -> Any:
    modules = {"Perception": "perception", "draw_panel": "drawing", "train_perception": "perception"}  # need Pillow
    if name not in modules:
        raise AttributeError(f"module 'ghrr.reasoning' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ghrr.reasoning.{modules[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

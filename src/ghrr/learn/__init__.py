"""Learning: scikit-learn estimators on hypervectors.

Encoders are transformers from samples to real features whose inner product is a similarity of hypervectors;
:class:`HDClassifier` and :class:`HDRegressor` learn one hypervector per class or target. They also have the methods of
scikit-learn's base classes, such as ``get_params``, ``set_output`` and ``score``. The numerical core (the modules
``ridge``, ``prototypes``, ``gradient_training``, ``probabilities`` and ``bandwidth``) needs PyTorch alone, so
the estimators are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ghrr.checks import install_hint

if TYPE_CHECKING:
    from ghrr.learn.classifier import TRAINING, HDClassifier
    from ghrr.learn.explanations import explain, plot_explanation
    from ghrr.learn.graph_features import GraphFeatures
    from ghrr.learn.image_features import ImageFeatures
    from ghrr.learn.kernel_features import KernelFeatures
    from ghrr.learn.regressor import HDRegressor
    from ghrr.learn.saving import load, save
    from ghrr.learn.series_features import SeriesFeatures
    from ghrr.learn.table_features import TableFeatures
    from ghrr.learn.table_files import read_table
    from ghrr.learn.table_models import make_task
    from ghrr.learn.text_features import TextFeatures

__all__ = [
    "TRAINING",
    "GraphFeatures",
    "HDClassifier",
    "HDRegressor",
    "ImageFeatures",
    "KernelFeatures",
    "SeriesFeatures",
    "TableFeatures",
    "TextFeatures",
    "explain",
    "load",
    "make_task",
    "plot_explanation",
    "read_table",
    "save",
]

_MODULES = {
    "TRAINING": "classifier",
    "GraphFeatures": "graph_features",
    "HDClassifier": "classifier",
    "HDRegressor": "regressor",
    "ImageFeatures": "image_features",
    "KernelFeatures": "kernel_features",
    "SeriesFeatures": "series_features",
    "TableFeatures": "table_features",
    "TextFeatures": "text_features",
    "explain": "explanations",
    "load": "saving",
    "make_task": "table_models",
    "plot_explanation": "explanations",
    "read_table": "table_files",
    "save": "saving",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ghrr.learn' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"ghrr.learn.{_MODULES[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("pandas", "sklearn", "scipy"):
            raise
        raise ImportError(f"learn.{name}: {error.name} is not installed; {install_hint('learn')}") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Reproduce the paper: one experiment per figure or table, with a verdict computed for each claim.

The comparisons of models (``ghrr compare``) are experiments too, and run in the same way.

This package uses only public names of the library. It needs the extra ``ghrr[paper]``: its functions are imported on
first use, so that the help of the commands needs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ghrr_lab.paper.execution import ClusterError, ComputeError
    from ghrr_lab.paper.experiment import Outcome
    from ghrr_lab.paper.registry import COMPARISONS, EXPERIMENTS, select
    from ghrr_lab.paper.runner import RunProgress, plot, run

__all__ = [
    "COMPARISONS",
    "EXPERIMENTS",
    "ClusterError",
    "ComputeError",
    "Outcome",
    "RunProgress",
    "plot",
    "run",
    "select",
]

_MODULES = {
    "COMPARISONS": "registry",
    "EXPERIMENTS": "registry",
    "ClusterError": "execution",
    "ComputeError": "execution",
    "Outcome": "experiment",
    "RunProgress": "runner",
    "plot": "runner",
    "run": "runner",
    "select": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

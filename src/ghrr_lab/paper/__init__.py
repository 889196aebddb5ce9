"""Reproduce the paper: one experiment per figure or table, with a verdict computed for each claim.

The comparisons of models (``ghrr compare``) are experiments too, and run in the same way.

This package uses only public names of the library. It needs the extra ``ghrr[paper]``.
"""

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

"""Reproduce the paper: one experiment per figure or table, with a verdict computed for each claim.

This package uses only public names of the library. It needs the extra ``ghrr[paper]``.
"""

from ghrr.paper.execution import ClusterError, ComputeError
from ghrr.paper.experiment import Outcome
from ghrr.paper.registry import EXPERIMENTS, select
from ghrr.paper.runner import RunProgress, plot, run

__all__ = ["EXPERIMENTS", "ClusterError", "ComputeError", "Outcome", "RunProgress", "plot", "run", "select"]

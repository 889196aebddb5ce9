"""The paper, re-made: one file per figure or table, each claim with a verdict computed from data.

Uses public names of the library only: it is the proof that they suffice. Needs the extra ``ghrr[paper]``.
"""

from ghrr.paper.claims import CLAIMS, EXPERIMENTS
from ghrr.paper.compute import ClusterError, ComputeError
from ghrr.paper.run import Outcome, Progress, choose, plot, run

__all__ = ["CLAIMS", "EXPERIMENTS", "ClusterError", "ComputeError", "Outcome", "Progress", "choose", "plot", "run"]

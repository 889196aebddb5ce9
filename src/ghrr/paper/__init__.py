"""The paper, re-made: one file per figure or table, each claim with a verdict computed from data.

Uses public names of the library only: it is the proof that they suffice. Needs the extra ``ghrr[paper]``.
"""

from ghrr.paper.claims import CLAIMS, EXPERIMENTS
from ghrr.paper.run import Outcome, choose, run

__all__ = ["CLAIMS", "EXPERIMENTS", "Outcome", "choose", "run"]

"""Every claim of the paper as data, in the order of the paper; the verdicts are computed from the runs."""

from __future__ import annotations

import pandas as pd

from ghrr.paper import fixed_vs_varying, quasi_orthogonality
from ghrr.paper.experiment import Claim, Experiment, Finding, Settings, judge

_MODULES = (quasi_orthogonality, fixed_vs_varying)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
CLAIMS: list[Claim] = [claim for module in _MODULES for claim in module.CLAIMS]


def judge_all(name: str, data: pd.DataFrame, settings: Settings) -> list[Finding]:
    """Test every claim about one experiment on its data."""
    return [judge(claim, data, settings) for claim in CLAIMS if claim.experiment == name]

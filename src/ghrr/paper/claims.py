"""Every claim of the paper as data, in the order of the paper; the verdicts are computed from the runs."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from ghrr.paper import fixed_vs_varying, quasi_orthogonality
from ghrr.paper.experiment import Claim, Experiment, Finding

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT for module in (quasi_orthogonality, fixed_vs_varying)
}
CLAIMS: list[Claim] = [*quasi_orthogonality.CLAIMS, *fixed_vs_varying.CLAIMS]


def judge(name: str, data: pd.DataFrame, settings: Mapping[str, int]) -> list[Finding]:
    """Test every claim about one experiment on its data."""
    return [Finding(claim, claim.test(data, settings)) for claim in CLAIMS if claim.experiment == name]

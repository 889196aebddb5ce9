"""Every claim of the paper as data, in the order of the paper; the verdicts are computed from the runs."""

from __future__ import annotations

import pandas as pd

from ghrr.paper import (
    algebraic_properties,
    binding_as_attention,
    binding_as_projection,
    bundling_heatmaps,
    capacity_curves,
    diagonality_commutativity,
    fixed_vs_varying,
    kernel_shapes,
    memorisation,
    nested_dictionary,
    other_models,
    perplexity,
    positions_in_attention,
    quasi_orthogonality,
    table_capacity,
    time_complexity,
    tree_decoding,
    tree_diagonality,
)
from ghrr.paper.experiment import Claim, Experiment, Finding, Settings, judge

_MODULES = (
    algebraic_properties,
    quasi_orthogonality,
    kernel_shapes,
    fixed_vs_varying,
    binding_as_projection,
    binding_as_attention,
    positions_in_attention,
    time_complexity,
    nested_dictionary,
    diagonality_commutativity,
    tree_decoding,
    tree_diagonality,
    memorisation,
    bundling_heatmaps,
    capacity_curves,
    table_capacity,
    perplexity,
    other_models,
)
EXPERIMENTS: dict[str, Experiment] = {module.EXPERIMENT.name: module.EXPERIMENT for module in _MODULES}
CLAIMS: list[Claim] = [claim for module in _MODULES for claim in module.CLAIMS]


def judge_all(name: str, data: pd.DataFrame, settings: Settings) -> list[Finding]:
    """Test every claim about one experiment on its data."""
    return [judge(claim, data, settings) for claim in CLAIMS if claim.experiment == name]

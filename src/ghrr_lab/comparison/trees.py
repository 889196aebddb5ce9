"""Trees: the leaf at the end of a path of left and right turns, where order is all that counts."""

from __future__ import annotations

import math

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr_lab.comparison.contestants import CORE, DIAGONALITIES, contestants, sized
from ghrr_lab.comparison.model_figures import COMMUTATIVE, draw_panels
from ghrr_lab.comparison.model_structures import best, encode_tree, read_tree
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import STANDARD_ERRORS, mean_with_error, rows_where


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants([*CORE, *DIAGONALITIES]), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Encode complete binary trees with different leaves, and read every leaf."""
    rows = []
    for depth in range(1, settings["depth"] + 1):
        model = sized(params, settings, order=depth + 1)
        codebook = model.random(settings["candidates"], generator=generator)
        for _ in range(settings["trees"]):
            keys = model.random_keys(2, generator=generator)
            chosen = torch.randperm(settings["candidates"], generator=generator)[: 2**depth]
            tree = encode_tree(model, keys, codebook[chosen], generator)
            found = best(model, read_tree(model, tree, keys, depth), codebook)
            correct = float((found == chosen).double().mean())
            rows.append({**params, "task": "trees", "x": depth, "value": correct})
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, x="depth of the tree", y="share read correctly", log=False)


def commutative_bound(depth: int) -> float:
    """Return the largest share that a commutative model can read correctly.

    Leaves whose paths have the same number of left turns get the same score, so one per class is correct: (d + 1)/2ᵈ.
    """
    return (depth + 1) * 0.5**depth


def _commutative_models_are_bounded(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Compare each commutative model with the bound at the largest depth."""
    checks = []
    depth = settings["depth"]
    for name in COMMUTATIVE:
        rows = rows_where(data, model=name, x=depth)
        if len(rows):
            mean, error = mean_with_error(rows["value"])
            bound = commutative_bound(depth)
            holds = mean <= bound + STANDARD_ERRORS * max(error, math.sqrt(bound / (2**depth * len(rows))))
            checks.append(Check(f"{name}, depth {depth}", mean, error, f"≤ {bound:.3g}", holds))
    return checks


CLAIMS = [
    Claim(
        "Paper, section on decoding trees",
        "Commutative models without permutations read at most (d + 1)/2ᵈ of the leaves of a tree of depth d.",
        _commutative_models_are_bounded,
        comment="In HRR and continuous MAP paths of one class differ by noise; the bound holds on average.",
    )
]

EXPERIMENT = Experiment(
    name="compare-trees",
    title="Trees: leaves at paths of left and right",
    caption=(
        "Share of the leaves of a complete binary tree that are read correctly, among 100 candidates. A path is the "
        "product of the keys left and right, so commutative models confuse all paths with as many left turns."
    ),
    settings={
        "quick": {"reals": 576, "candidates": 100, "depth": 5, "trees": 5, "blocks": 2},
        "full": {"reals": 576, "candidates": 100, "depth": 5, "trees": 20, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

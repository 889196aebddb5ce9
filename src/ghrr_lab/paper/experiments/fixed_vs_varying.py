"""Figure fixed-vs-vary: similarity of two encodings with the same phases, for Q fixed or varying over the slots."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import equals, mean_with_error, ratio_with_error, rows_where, std_with_error
from ghrr_lab.paper.style import BLUE, ORANGE, draw_distribution, new_figure, style

FIXED, VARYING = "fixed Q", "varying Q"
_COLOURS = {FIXED: BLUE, VARYING: ORANGE}


def _theory(kind: str, settings: Settings) -> float:
    """Predict the standard deviation. Re tr U / m of a Haar matrix U has variance 1/(2m²); varying Q averages slots."""
    return float(1 / (settings["m"] * math.sqrt(2 * (settings["dim"] if kind == VARYING else 1))))


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    dim, m, pairs = settings["dim"], settings["m"], settings["pairs"]
    tables = []
    for kind, slots in ((FIXED, 1), (VARYING, dim)):
        # Λ(0) = 1, so φ(0) = Q. If Q is the same in all slots, one slot is enough.
        first, second = ghrr.unitary.haar(2, pairs, slots, m=m, generator=generator)
        tables.append(pd.DataFrame({"kind": kind, "similarity": ghrr.similarity(first, second)}))
    return pd.concat(tables, ignore_index=True)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    limit = 4.2 * _theory(FIXED, settings)
    figure = new_figure(4.6)
    axes = figure.subplots(2, 1, sharex=True)
    for axis, (kind, colour) in zip(axes, _COLOURS.items(), strict=True):
        values, std = rows_where(data, kind=kind)["similarity"], _theory(kind, settings)
        bins, x = np.linspace(-4.2 * std, 4.2 * std, 41), np.linspace(-limit, limit, 2001)
        draw_distribution(axis, values, bins, x=x, std=std, colour=colour)
        axis.set_title(f"{kind}: {len(values)} pairs of encodings, std {std_with_error(values)[0]:.4f}")
    axes[-1].set_xlabel("similarity δ(φ₁(0), φ₂(0)) (no unit)")
    figure.supylabel("probability density")
    return figure


def _varying_is_narrower(data: pd.DataFrame, settings: Settings) -> list[Check]:
    by_kind = {kind: rows_where(data, kind=kind)["similarity"] for kind in (FIXED, VARYING)}
    checks = []
    for kind, values in by_kind.items():
        checks.append(equals(f"mean, {kind}", *mean_with_error(values), 0.0))
        checks.append(equals(f"std, {kind}", *std_with_error(values), _theory(kind, settings)))
    ratio = ratio_with_error(std_with_error(by_kind[FIXED]), std_with_error(by_kind[VARYING]))
    checks.append(equals("std of fixed Q / std of varying Q", *ratio, math.sqrt(settings["dim"])))
    return checks


CLAIMS = [
    Claim(
        "Section on encoding data, figure fixed-vs-vary",
        "Varying Q over the dimensions concentrates the distribution significantly more around its mean.",
        _varying_is_narrower,
        comment="The predicted standard deviation is 1/(m√2) for fixed and 1/(m√(2D)) for varying Q, a ratio of √D.",
    ),
]

EXPERIMENT = Experiment(
    name="fixed-vs-varying",
    title="Varying Q over the slots concentrates the similarity of two encodings",
    caption=(
        "Two encodings φ₁, φ₂ have the same phases Λ and different Q. Their similarity at 0 is that of their "
        "rotations. If Q is the same in every slot, the similarity does not average out, however many slots there are. "
        "If Q varies, it does."
    ),
    settings={
        "quick": {"dim": 1000, "m": 3, "pairs": 100, "blocks": 10},
        "full": {"dim": 1000, "m": 3, "pairs": 100, "blocks": 100},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)

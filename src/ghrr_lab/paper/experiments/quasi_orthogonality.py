"""Figure quasi-orthogonal: the similarities of random hypervectors concentrate around zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import equals, exceeds, mean_with_error, ratio_with_error, rows_where, std_with_error
from ghrr_lab.paper.style import BLUE, GREEN, ORANGE, PURPLE, draw_distribution, new_figure, style

FIXED, VARYING, BOUND, SHARED = "fixed Q", "varying Q", "H₁ and H₁ * H₂", "one Q for all (not the paper's reading)"
_COLOURS = {FIXED: BLUE, VARYING: ORANGE, BOUND: GREEN, SHARED: PURPLE}


def _spaces(settings: Settings) -> dict[str, ghrr.Space]:
    dim, m = settings["dim"], settings["m"]
    return {
        FIXED: ghrr.Space(dim, m, rotation="fixed"),
        VARYING: ghrr.Space(dim, m),
        SHARED: ghrr.Space(dim, m, rotation="shared"),
    }


def _theory(kind: str, settings: Settings) -> float:
    # δ(H₁, H₁ * H₂) = δ(1, H₂), so a bound hypervector and its factor are as dissimilar as independent ones.
    return _spaces(settings)[VARYING if kind == BOUND else kind].noise_std


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    tables = []
    for kind, space in _spaces(settings).items():
        first, second = space.random(2, settings["pairs"], generator=generator)
        results = {kind: ghrr.similarity(first, second)}
        if kind == VARYING:
            results[BOUND] = ghrr.similarity(first, ghrr.bind(first, second))
        tables += [pd.DataFrame({"kind": name, "similarity": values}) for name, values in results.items()]
    return pd.concat(tables, ignore_index=True)


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    limit = 4.2 * _theory(SHARED, settings)
    bins = np.linspace(-limit, limit, 64)
    figure = new_figure(6.4)
    axes = figure.subplots(4, 1, sharex=True, sharey=True)
    for axis, (kind, colour) in zip(axes, _COLOURS.items(), strict=True):
        values = rows_where(data, kind=kind)["similarity"]
        draw_distribution(axis, values, bins, x=bins, std=_theory(kind, settings), colour=colour)
        axis.set_title(f"{kind}: {len(values)} pairs, std {std_with_error(values)[0]:.4f}")
    axes[-1].set_xlabel("similarity δ (no unit)")
    figure.supylabel("probability density")
    return figure


def _is_centred_with_std(kind: str, data: pd.DataFrame, settings: Settings) -> list[Check]:
    values = rows_where(data, kind=kind)["similarity"]
    return [
        equals(f"mean, {kind}", *mean_with_error(values), 0.0),
        equals(f"std, {kind}", *std_with_error(values), _theory(kind, settings)),
    ]


def _concentrates(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [check for kind in (FIXED, VARYING) for check in _is_centred_with_std(kind, data, settings)]


def _binding_is_unlike_factor(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return _is_centred_with_std(BOUND, data, settings)


def _fixed_is_wider(data: pd.DataFrame, settings: Settings) -> list[Check]:
    by_kind = {kind: rows_where(data, kind=kind)["similarity"] for kind in (FIXED, VARYING)}
    ratio = ratio_with_error(std_with_error(by_kind[FIXED]), std_with_error(by_kind[VARYING]))
    return [
        equals(f"mean, {FIXED}", *mean_with_error(by_kind[FIXED]), 0.0),
        exceeds("std of fixed / std of varying", *ratio, 1.0),
    ]


CLAIMS = [
    Claim(
        "Corollary 1, figure quasi-orthogonal (top, middle)",
        "Similarities of random hypervectors concentrate around zero, for fixed and for varying Q.",
        _concentrates,
        comment="The paper gives no number. The predicted standard deviation is 1/√(2Dm²) if each hypervector has its "
        "own Q.",
    ),
    Claim(
        "Corollary 2, figure quasi-orthogonal (bottom)",
        "A bound hypervector H₁ * H₂ is quasi-orthogonal to its factor H₁.",
        _binding_is_unlike_factor,
    ),
    Claim(
        "Table of GHRR variants",
        "Hypervectors with fixed Q are quasi-orthogonal, with a higher variance than those with varying Q.",
        _fixed_is_wider,
        comment="With independent phases the variances are equal; fixed Q only has heavier tails. The claim holds for "
        "encodings that share their phases: see the experiment fixed-vs-varying.",
    ),
]

EXPERIMENT = Experiment(
    name="quasi-orthogonality",
    title="Random hypervectors are quasi-orthogonal",
    caption=(
        "Similarities of independent random hypervectors. Each has its own Q, either the same in every slot (fixed) or "
        "a different one per slot (varying). Third panel: a hypervector and its product with another one. Fourth "
        "panel: all hypervectors share one Q, which increases the standard deviation by √m."
    ),
    settings={
        "quick": {"dim": 1000, "m": 3, "pairs": 50, "blocks": 20},
        "full": {"dim": 1000, "m": 3, "pairs": 50, "blocks": 200},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
)

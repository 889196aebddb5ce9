"""Figure quasi-orthogonal: similarities of random hypervectors concentrate about zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr.paper.experiment import (
    Check,
    Claim,
    Experiment,
    Params,
    Settings,
    equals,
    exceeds,
    mean_with_error,
    ratio_with_error,
)
from ghrr.paper.experiment import std_with_error as std_of
from ghrr.paper.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, style

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
    # A bound hypervector differs from its factor like an independent one: δ(H₁, H₁ * H₂) = δ(1, H₂).
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


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    limit = 4.2 * _theory(SHARED, settings)
    bins = np.linspace(-limit, limit, 64)
    with style():
        figure = Figure(figsize=(6.4, 6.4), layout="constrained")
        axes = figure.subplots(4, 1, sharex=True, sharey=True)
        for axis, (kind, colour) in zip(axes, _COLOURS.items(), strict=True):
            values = data.loc[data["kind"] == kind, "similarity"]
            std = _theory(kind, settings)
            axis.hist(values, bins=list(bins), density=True, color=colour, alpha=0.65, label="measured")
            curve = np.exp(-0.5 * (bins / std) ** 2) / (std * np.sqrt(2 * np.pi))
            axis.plot(bins, curve, color=BLACK, lw=1.2, label=f"theory, std {std:.4f}")
            axis.set_title(f"{kind}: {len(values)} pairs, std {std_of(values)[0]:.4f}")
            axis.legend(loc="upper right")
        axes[-1].set_xlabel("similarity δ (no unit)")
        figure.supylabel("probability density")
    return figure


def _is_centred_with_std(kind: str, data: pd.DataFrame, settings: Settings) -> list[Check]:
    values = data.loc[data["kind"] == kind, "similarity"]
    return [
        equals(f"mean, {kind}", *mean_with_error(values), 0.0),
        equals(f"std, {kind}", *std_of(values), _theory(kind, settings)),
    ]


def _concentrates(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [check for kind in (FIXED, VARYING) for check in _is_centred_with_std(kind, data, settings)]


def _binding_is_unlike_factor(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return _is_centred_with_std(BOUND, data, settings)


def _fixed_is_wider(data: pd.DataFrame, settings: Settings) -> list[Check]:
    by_kind = {kind: data.loc[data["kind"] == kind, "similarity"] for kind in (FIXED, VARYING)}
    ratio = ratio_with_error(std_of(by_kind[FIXED]), std_of(by_kind[VARYING]))
    return [
        equals(f"mean, {FIXED}", *mean_with_error(by_kind[FIXED]), 0.0),
        exceeds("std of fixed / std of varying", *ratio, 1.0),
    ]


EXPERIMENT = Experiment(
    name="quasi-orthogonality",
    title="Random hypervectors are quasi-orthogonal",
    caption=(
        "Similarities of independent random hypervectors. Each draws its own Q, the same in every slot (fixed) or one "
        "per slot (varying). Third: a hypervector and its product with another. Fourth: the reading in which all "
        "hypervectors share one Q, whose spread is larger by √m."
    ),
    settings={
        "quick": {"dim": 1000, "m": 3, "pairs": 50, "blocks": 20},
        "full": {"dim": 1000, "m": 3, "pairs": 50, "blocks": 200},
    },
    run_trial=run_trial,
    draw=draw,
)

CLAIMS = [
    Claim(
        EXPERIMENT.name,
        "Corollary 1, figure quasi-orthogonal (top, middle)",
        "Similarities of randomly sampled hypervectors concentrate about zero, for fixed and for varying Q.",
        _concentrates,
        comment="The paper gives no number; theory gives std 1/√(2Dm²) when each hypervector has its own Q.",
    ),
    Claim(
        EXPERIMENT.name,
        "Corollary 2, figure quasi-orthogonal (bottom)",
        "A bound hypervector H₁ * H₂ is quasi-orthogonal to its factor H₁.",
        _binding_is_unlike_factor,
    ),
    Claim(
        EXPERIMENT.name,
        "Table of GHRR variants",
        "Fixed Q is quasi-orthogonal with higher variance than varying Q.",
        _fixed_is_wider,
        comment="With independent phases the variances are equal; only the tails of fixed Q are heavier. The claim is "
        "true of encodings that share their phases, tested in the next experiment.",
    ),
]

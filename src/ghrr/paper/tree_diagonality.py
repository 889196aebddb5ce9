"""Figure decode-diag: nested dictionaries whose rotations have a given diagonality, against FHRR and permutation."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

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
    difference_with_error,
    exceeds,
    falls_below,
    mean_with_error,
)
from ghrr.paper.style import style
from ghrr.paper.trees import PERMUTED, PLAIN, by_tree, draw_curve, follows, measure_trees, theory


def _fraction(x: float) -> str:
    return str(Fraction(x).limit_denominator(100))


def _space(settings: Settings, m: int, diagonality: float) -> ghrr.Space:
    return ghrr.Space.from_total(settings["total_dim"], m, diagonality=diagonality)


def _law(settings: Settings, m: int, diagonality: float) -> Callable[[int], float]:
    dim = _space(settings, m, diagonality).dim
    return lambda depth: theory(depth, dim, m, diagonality=diagonality)


def _fhrr(settings: Settings, kind: str) -> Callable[[int], float]:
    return lambda depth: theory(depth, settings["total_dim"], 1, permuted=kind == PERMUTED)


def trials(settings: Settings) -> list[Params]:
    sorts = [(1, 1.0)] + [(m, diagonality) for diagonality in settings["diagonalities"] for m in settings["ms"]]
    return [{"m": m, "diagonality": x, "block": block} for m, x in sorts for block in range(settings["blocks"])]


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = _space(settings, params["m"], params["diagonality"])
    kinds = (PLAIN, PERMUTED) if params["m"] == 1 else (PLAIN,)  # m = 1 is FHRR, to compare with
    first = params["block"] * settings["trees"]
    numbers = range(first, first + settings["trees"])
    table = measure_trees(space, kinds, numbers, depth=settings["depth"], generator=generator)
    return table.assign(m=params["m"], diagonality=params["diagonality"])


def _trees(data: pd.DataFrame, m: int, diagonality: float) -> pd.DataFrame:
    return by_tree(data[data["diagonality"] == diagonality], m, PLAIN)


def _overall(trees: pd.DataFrame) -> tuple[float, float]:
    """Accuracy averaged over the depths."""
    return mean_with_error(trees.mean(axis=1))


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    with style():
        figure = Figure(figsize=(6.4, 6.4), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True, sharey=True)
        for axis, letter, diagonality in zip(axes.flat, "ABCD", settings["diagonalities"], strict=False):
            for kind, line in ((PERMUTED, ":"), (PLAIN, "--")):
                label = "m = 1 (FHRR)" if kind == PLAIN else "m = 1, permuted"
                draw_curve(axis, by_tree(data, 1, kind), _fhrr(settings, kind), 1, label=label, line=line)
            for m in settings["ms"]:
                draw_curve(axis, _trees(data, m, diagonality), _law(settings, m, diagonality), m)
            axis.set_title(f"{letter}. diagonality {_fraction(diagonality)}")
        axes.flat[0].set_xticks(range(1, settings["depth"] + 1))
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=3, title="marks: measured, lines: theory")
        figure.supxlabel("depth of the tree (levels)", fontsize=10)
        figure.supylabel("share of values decoded (no unit)", fontsize=10)
    return figure


def _one_equals_fhrr(data: pd.DataFrame, settings: Settings) -> list[Check]:
    law = _fhrr(settings, PLAIN)
    return [follows(f"m = {m} and FHRR of dimension Dm²", _trees(data, m, 1.0), law) for m in settings["ms"]]


def _one_equals_smaller_fhrr(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in settings["ms"]:
        phases = _space(settings, m, 1.0).dim * m

        def law(depth: int, dim: int = phases) -> float:
            return theory(depth, dim, 1)

        checks.append(follows(f"m = {m} and FHRR of dimension Dm = {phases}", _trees(data, m, 1.0), law))
    return checks


def _zero_equals_permutation(data: pd.DataFrame, settings: Settings) -> list[Check]:
    law = _fhrr(settings, PERMUTED)
    return [follows(f"m = {m} and FHRR with permutation", _trees(data, m, 0.0), law) for m in settings["ms"]]


def _zero_nears_permutation(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for smaller, larger in zip(settings["ms"], settings["ms"][1:], strict=False):
        gain = difference_with_error(_overall(_trees(data, larger, 0.0)), _overall(_trees(data, smaller, 0.0)))
        checks.append(exceeds(f"mean accuracy, m = {larger} more than m = {smaller}", *gain, 0.0))
    return checks + [
        follows(f"m = {m} and theory", _trees(data, m, 0.0), _law(settings, m, 0.0)) for m in settings["ms"]
    ]


def _step(data: pd.DataFrame, m: int, low: float, high: float) -> tuple[str, float, float]:
    """How the accuracy changes from one diagonality to another."""
    change = difference_with_error(_overall(_trees(data, m, high)), _overall(_trees(data, m, low)))
    return (f"mean accuracy at {_fraction(high)} less that at {_fraction(low)}, m = {m}", *change)


def _steps(settings: Settings) -> list[tuple[float, float]]:
    return list(zip(settings["diagonalities"], settings["diagonalities"][1:], strict=False))


def _interpolates(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [falls_below(*_step(data, m, *step), 0.0) for m in settings["ms"] for step in _steps(settings)]


def _falls_later(data: pd.DataFrame, settings: Settings) -> list[Check]:
    first, *later = _steps(settings)
    rises = [exceeds(*_step(data, m, *first), 0.0) for m in settings["ms"] if m <= 3]
    falls = [falls_below(*_step(data, m, *step), 0.0) for m in settings["ms"] if m >= 3 for step in later]
    return rises + falls


EXPERIMENT = Experiment(
    name="tree-diagonality",
    title="Diagonality and the decoding of nested dictionaries",
    caption=(
        "The trees of the experiment tree-decoding, without permutation, with rotations of a given diagonality. Total "
        "dimension Dm² nearest to 600: D = 150, 67, 38, 24 for m = 2 to 5. Black: FHRR of dimension 600 without and "
        "with permutation. Lines: theory; the noise, which depends on the paths where rotations are not uniform, is "
        "averaged over pairs of paths."
    ),
    settings={
        "quick": {
            "total_dim": 600,
            "ms": [2, 3, 4, 5],
            "diagonalities": [0.0, 1 / 3, 2 / 3, 1.0],
            "depth": 6,
            "trees": 16,
            "blocks": 2,
        },
        "full": {
            "total_dim": 600,
            "ms": [2, 3, 4, 5],
            "diagonalities": [0.0, 1 / 3, 2 / 3, 1.0],
            "depth": 8,
            "trees": 6,
            "blocks": 8,
        },
    },
    run_trial=run_trial,
    draw=draw,
    trials=trials,
)

_SECTION = "Section on decoding accuracy for nested structures, figure decode-diag"

CLAIMS = [
    Claim(
        EXPERIMENT.name,
        f"{_SECTION} D",
        "With diagonality 1 the encoding commutes and is functionally equivalent to FHRR.",
        _one_equals_smaller_fhrr,
        rejected={"FHRR of the same total dimension Dm²": _one_equals_fhrr},
        comment="It is FHRR of dimension Dm: all but Dm of its Dm² numbers are zero. So at equal total dimension it "
        "holds less than FHRR, the less the larger m is.",
    ),
    Claim(
        EXPERIMENT.name,
        f"{_SECTION} A",
        "Rotations of diagonality 0 act like permutation, as a permutation matrix has diagonality 0.",
        _zero_equals_permutation,
        corrected=_zero_nears_permutation,
        correction="With diagonality 0 the accuracy grows with m towards that of permutation. For m = 2 and 3, a "
        "rotation with an empty diagonal has one entry in each row, and products of keys coincide.",
        comment="For m = 2 the square of such a key is a multiple of the identity, so K₁ * K₁ * K₂ = K₂ * K₁ * K₁, and "
        "at most (⌊d/2⌋ + 1)(⌈d/2⌉ + 1) of 2^d values can be read. The permutation ρ moves whole slots, which no "
        "matrix inside a slot does.",
    ),
    Claim(
        EXPERIMENT.name,
        _SECTION,
        "Raising the diagonality from 0 to 1 leads from the accuracy of FHRR with permutation to that of FHRR.",
        _interpolates,
        corrected=_falls_later,
        correction="The accuracy falls from diagonality 1/3 to 1 for m ≥ 3. From 0 to 1/3 it rises for m = 2 and 3.",
        comment="It is highest near the diagonality of uniformly drawn rotations, about 1/m; at m = 5, 0 is as good.",
    ),
]

"""Figure decode-diag: decoding nested dictionaries whose rotations have a given diagonality."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import Measured, difference_with_error, exceeds, falls_below, mean_with_error, rows_where
from ghrr_lab.paper.style import new_figure, style
from ghrr_lab.paper.theory.trees import PERMUTED, PLAIN, by_tree, draw_curve, follows, measure_trees, theory


def _fraction(x: float) -> str:
    return str(Fraction(x).limit_denominator(100))


def _space(settings: Settings, m: int, diagonality: float) -> ghrr.Space:
    return ghrr.Space.from_total(settings["total_dim"], m, diagonality=diagonality)


def _theory(settings: Settings, m: int, diagonality: float) -> Callable[[int], float]:
    """Return the predicted accuracy as a function of the depth."""
    dim = _space(settings, m, diagonality).dim
    return lambda depth: theory(depth, dim, m, diagonality=diagonality)


def _fhrr_theory(settings: Settings, kind: str) -> Callable[[int], float]:
    return lambda depth: theory(depth, settings["total_dim"], 1, permuted=kind == PERMUTED)


def trials(settings: Settings) -> list[Params]:
    cases = [{"m": m, "diagonality": x} for x in settings["diagonalities"] for m in settings["ms"]]
    return repeat([{"m": 1, "diagonality": 1.0}, *cases], settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = _space(settings, params["m"], params["diagonality"])
    kinds = (PLAIN, PERMUTED) if params["m"] == 1 else (PLAIN,)  # m = 1 is FHRR, for comparison
    first = params["block"] * settings["trees"]
    numbers = range(first, first + settings["trees"])
    table = measure_trees(space, kinds, numbers, depth=settings["depth"], generator=generator)
    return table.assign(m=params["m"], diagonality=params["diagonality"])


def _trees(data: pd.DataFrame, m: int, diagonality: float) -> pd.DataFrame:
    return by_tree(rows_where(data, diagonality=diagonality), m, PLAIN)


def _mean_accuracy(trees: pd.DataFrame) -> Measured:
    """Return the mean accuracy over all depths."""
    return mean_with_error(trees.mean(axis=1))


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    figure = new_figure(6.4)
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    for axis, letter, diagonality in zip(axes.flat, "ABCD", settings["diagonalities"], strict=False):
        for kind, line in ((PERMUTED, ":"), (PLAIN, "--")):
            label = "m = 1 (FHRR)" if kind == PLAIN else "m = 1, permuted"
            draw_curve(axis, by_tree(data, 1, kind), _fhrr_theory(settings, kind), 1, label=label, line=line)
        for m in settings["ms"]:
            draw_curve(axis, _trees(data, m, diagonality), _theory(settings, m, diagonality), m)
        axis.set_title(f"{letter}. diagonality {_fraction(diagonality)}")
    axes.flat[0].set_xticks(range(1, settings["depth"] + 1))
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, title="marks: measured, lines: theory")
    figure.supxlabel("depth of the tree (levels)", fontsize=10)
    figure.supylabel("share of values decoded (no unit)", fontsize=10)
    return figure


def _one_equals_fhrr(data: pd.DataFrame, settings: Settings) -> list[Check]:
    expected = _fhrr_theory(settings, PLAIN)
    return [follows(f"m = {m} and FHRR of dimension Dm²", _trees(data, m, 1.0), expected) for m in settings["ms"]]


def _one_equals_smaller_fhrr(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in settings["ms"]:
        dim = _space(settings, m, 1.0).dim * m
        expected = functools.partial(theory, dim=dim, m=1)
        checks.append(follows(f"m = {m} and FHRR of dimension Dm = {dim}", _trees(data, m, 1.0), expected))
    return checks


def _zero_equals_permutation(data: pd.DataFrame, settings: Settings) -> list[Check]:
    expected = _fhrr_theory(settings, PERMUTED)
    return [follows(f"m = {m} and FHRR with permutation", _trees(data, m, 0.0), expected) for m in settings["ms"]]


def _zero_nears_permutation(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for smaller, larger in zip(settings["ms"], settings["ms"][1:], strict=False):
        gain = difference_with_error(
            _mean_accuracy(_trees(data, larger, 0.0)), _mean_accuracy(_trees(data, smaller, 0.0))
        )
        checks.append(exceeds(f"mean accuracy, m = {larger} minus m = {smaller}", *gain, 0.0))
    return checks + [
        follows(f"m = {m} and theory", _trees(data, m, 0.0), _theory(settings, m, 0.0)) for m in settings["ms"]
    ]


def _step(data: pd.DataFrame, m: int, low: float, high: float) -> tuple[str, float, float]:
    """Return a description and the measured change of the accuracy from one diagonality to another."""
    change = difference_with_error(_mean_accuracy(_trees(data, m, high)), _mean_accuracy(_trees(data, m, low)))
    return (f"mean accuracy at {_fraction(high)} minus that at {_fraction(low)}, m = {m}", *change)


def _steps(settings: Settings) -> list[tuple[float, float]]:
    return list(zip(settings["diagonalities"], settings["diagonalities"][1:], strict=False))


def _interpolates(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [falls_below(*_step(data, m, *step), 0.0) for m in settings["ms"] for step in _steps(settings)]


def _falls_later(data: pd.DataFrame, settings: Settings) -> list[Check]:
    first, *later = _steps(settings)
    rises = [exceeds(*_step(data, m, *first), 0.0) for m in settings["ms"] if m <= 3]
    falls = [falls_below(*_step(data, m, *step), 0.0) for m in settings["ms"] if m >= 3 for step in later]
    return rises + falls


_SECTION = "Section on decoding accuracy for nested structures, figure decode-diag"

CLAIMS = [
    Claim(
        f"{_SECTION} D",
        "With diagonality 1 the encoding commutes and is functionally equivalent to FHRR.",
        _one_equals_smaller_fhrr,
        rejected={"FHRR of the same total dimension Dm²": _one_equals_fhrr},
        comment="It is equivalent to FHRR of dimension Dm: only Dm of its Dm² numbers are not zero. At equal total "
        "dimension it therefore stores less than FHRR, and the difference grows with m.",
    ),
    Claim(
        f"{_SECTION} A",
        "Rotations of diagonality 0 act like permutation, as a permutation matrix has diagonality 0.",
        _zero_equals_permutation,
        corrected=_zero_nears_permutation,
        correction="With diagonality 0 the accuracy grows with m towards that of permutation. For m = 2 and 3, a "
        "rotation with zero diagonal has one entry in each row, and some products of keys coincide.",
        comment="For m = 2 the square of such a key is a multiple of the identity, so K₁ * K₁ * K₂ = K₂ * K₁ * K₁, and "
        "at most (⌊d/2⌋ + 1)(⌈d/2⌉ + 1) of 2^d values can be decoded. The permutation ρ moves whole slots, which no "
        "matrix inside a slot can do.",
    ),
    Claim(
        _SECTION,
        "From diagonality 0 to 1, the accuracy changes from that of FHRR with permutation to that of FHRR.",
        _interpolates,
        corrected=_falls_later,
        correction="The accuracy falls from diagonality 1/3 to 1 for m ≥ 3. From 0 to 1/3 it rises for m = 2 and 3.",
        comment="It is highest near 1/m, the diagonality of Haar rotations. At m = 5, diagonality 0 is equally good.",
    ),
]

EXPERIMENT = Experiment(
    name="tree-diagonality",
    title="Diagonality and the decoding of nested dictionaries",
    caption=(
        "The trees of the experiment tree-decoding, without permutation, with rotations of a given diagonality. Total "
        "dimension Dm² nearest to 600: D = 150, 67, 38, 24 for m = 2 to 5. Black: FHRR of dimension 600 without and "
        "with permutation. Lines: theory. For rotations that are not Haar the noise depends on the paths; theory uses "
        "its mean over pairs of paths."
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
    claims=CLAIMS,
)

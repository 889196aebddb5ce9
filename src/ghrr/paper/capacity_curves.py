"""Figure capacity: capacity against total dimension, with permutations of bound hypervectors (A) and without (B)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr.paper.capacity_search import capacity, expected_size
from ghrr.paper.experiment import (
    Check,
    Claim,
    Experiment,
    Params,
    Settings,
    all_equal,
    difference_with_error,
    equals,
    equals_to,
    exceeds,
    falls_below,
    mean_with_error,
    ratio_with_error,
)
from ghrr.paper.style import M_COLOURS, M_MARKERS, style

SIZES, COMPONENTS = (1, 2, 3, 4), (1, 2, 3, 4)
KEPT, REMOVED = "A", "B"
Measured = tuple[float, float]
Numbers = npt.NDArray[np.float64]


def trials(settings: Settings) -> list[Params]:
    """Some repetitions of one point; strings of one component have no permutations, so A serves for B."""
    return [
        {"panel": panel, "components": n, "total_dim": total, "m": m, "block": block}
        for panel, n, total, m in product((KEPT, REMOVED), COMPONENTS, settings["total_dims"], SIZES)
        if panel == KEPT or n > 1
        for block in range(settings["blocks"])
    ]


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = ghrr.Space.from_total(params["total_dim"], params["m"])
    search = partial(capacity, space, params["components"], ordered=params["panel"] == KEPT, generator=generator)
    found = [2 * search() for _ in range(settings["repetitions"])]
    return pd.DataFrame({**params, "capacity": found}).drop(columns="block")


def _points(data: pd.DataFrame, panel: str, components: int, m: int) -> list[Measured]:
    """Mean capacities along one curve, with their errors."""
    panel = KEPT if components == 1 else panel
    chosen = data[(data["panel"] == panel) & (data["components"] == components) & (data["m"] == m)]
    return [mean_with_error(values) for _, values in chosen.groupby("total_dim")["capacity"]]


def _theory(panel: str, components: int, m: int, totals: Sequence[int]) -> Numbers:
    """Mean capacities along a curve and standard deviations of single trials, as two rows."""
    spaces = [ghrr.Space.from_total(total, m) for total in totals]
    return 2 * np.array([expected_size(space, components, ordered=panel == KEPT) for space in spaces]).T


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    totals = settings["total_dims"]
    with style():
        figure = Figure(figsize=(6.4, 7.8), layout="constrained")
        axes = figure.subplots(len(COMPONENTS), 2, sharex=True, sharey=True)
        for (row, n), (column, panel) in product(enumerate(COMPONENTS), enumerate((KEPT, REMOVED))):
            axis = axes[row, column]
            if n == 1 and panel == REMOVED:  # it would show the same as its neighbour, and makes room for the legend
                axis.set_axis_off()
                axis.legend(*axes[0, 0].get_legend_handles_labels(), loc="center", ncols=2, handlelength=1.2)
                continue
            for m in SIZES:
                means, errors = np.array(_points(data, panel, n, m)).T
                look = {"fmt": M_MARKERS[m], "ms": 4, "color": M_COLOURS[m], "label": f"m = {m}, ± error"}
                axis.errorbar(np.array(totals) + 8 * (m - 2.5), means, errors, **look)
                axis.plot(totals, _theory(panel, n, m, totals)[0], color=M_COLOURS[m], lw=1, label=f"m = {m}, theory")
            which = f"{panel}. {n} components" if n > 1 else "A and B. 1 component"
            axis.set_title(which + (", permutations removed" if panel == REMOVED else ""))
            axis.set_xticks(totals[:: math.ceil(len(totals) / 5)])
        axes[0, 0].set_ylim(bottom=0)  # shared, so after everything is drawn
        for axis in axes[-1]:
            axis.set_xlabel("total dimension Dm²")
        figure.supylabel("capacity |X| + |X'| (number of hypervectors)", fontsize=10)
    return figure


def _height(data: pd.DataFrame, panel: str, components: Sequence[int], m: int) -> Measured:
    """Capacities summed along curves: one number that says how high they are."""
    values, errors = np.array([point for n in components for point in _points(data, panel, n, m)]).T
    return float(values.sum()), float(np.linalg.norm(errors))


def _relative(data: pd.DataFrame, panel: str, components: Sequence[int], m: int) -> Measured:
    """How high the curves of m are, those of m = 1 being 1."""
    return ratio_with_error(_height(data, panel, components, m), _height(data, panel, components, 1))


def _after_components(data: pd.DataFrame, panel: str, components: int, m: int) -> Measured:
    """How high a curve is, that of one component being 1."""
    return ratio_with_error(_height(data, panel, [components], m), _height(data, panel, [1], m))


def _same_for_all_m(panel: str, components: Sequence[int], data: pd.DataFrame, settings: Settings) -> list[Check]:
    curves = product(components, SIZES[1:])
    return [equals(f"components={n}: m={m} / m=1", *_relative(data, panel, [n], m), 1) for n, m in curves]


def _follows_theory(panel: str, sizes: Sequence[int], data: pd.DataFrame, settings: Settings) -> Check:
    """Whether all points are where theory says; it gives the errors, too, since few trials do not tell them well."""
    totals = settings["total_dims"]
    curves = list(product(COMPONENTS, sizes))
    values = np.concatenate([np.array(_points(data, panel, *one))[:, 0] for one in curves])
    expected, stds = np.concatenate([_theory(panel, *one, totals) for one in curves], axis=1)
    errors = stds / math.sqrt(settings["repetitions"] * settings["blocks"])
    return all_equal(f"{panel} against theory, m in {[*sizes]}", list(values), list(errors), list(expected))


def _mean_curve(data: pd.DataFrame, panel: str, components: Sequence[int], sizes: Sequence[int]) -> Numbers:
    """Means and errors of several curves averaged, as two rows."""
    curves = np.array([_points(data, panel, n, m) for n, m in product(components, sizes)])
    return np.array([curves[..., 0].mean(axis=0), np.linalg.norm(curves[..., 1], axis=0) / len(curves)])


def _is_nearly_straight(panel: str, components: Sequence[int], data: pd.DataFrame, settings: Settings) -> list[Check]:
    # Over these dimensions a straight line explains 98 % of the variation of √x, and 95 % of that of x².
    totals = np.array(settings["total_dims"], dtype=float)
    means, _ = _mean_curve(data, panel, components, SIZES)
    explained = float(np.corrcoef(totals, means)[0, 1]) ** 2
    return [equals_to("share of the variation that a straight line explains", explained, 1, tolerance=0.01)]


def _power(totals: Sequence[int], values: Numbers, errors: Numbers) -> Measured:
    """Exponent of a power law through points, weighted by their errors, with its standard error."""
    fit, covariance = np.polyfit(np.log(totals), np.log(values), 1, w=values / errors, cov="unscaled")
    return float(fit[0]), math.sqrt(covariance[0, 0])


def _is_proportional(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Exponents of the curves of B, averaged over components."""
    checks = []
    for m in SIZES:
        measured = _power(settings["total_dims"], *_mean_curve(data, REMOVED, COMPONENTS[1:], [m]))
        checks.append(equals(f"exponent of the growth, m={m}", *measured, 1.0))
    return checks


def _fhrr_is_worse(data: pd.DataFrame, settings: Settings) -> list[Check]:
    gain = {n: _relative(data, KEPT, [n], 4) for n in COMPONENTS}
    return [
        *(exceeds(f"components={n}: m=4 / m=1", *gain[n], 1) for n in (3, 4)),
        *(exceeds(f"m=4 / m=1, components {n} less 1", *difference_with_error(gain[n], gain[1]), 0) for n in (3, 4)),
        _follows_theory(KEPT, [1], data, settings),
    ]


def _components_cost_little(data: pd.DataFrame, settings: Settings) -> list[Check]:
    left = {m: _after_components(data, KEPT, 4, m) for m in SIZES}
    half_way, error = (1 + left[1][0]) / 2, left[1][1] / 2
    return [exceeds(f"components 4 / 1, m={m}", left[m][0], math.hypot(left[m][1], error), half_way) for m in SIZES[1:]]


def _permutations_are_the_reason(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        *(falls_below(f"A, m=1, components {n} / 1", *_after_components(data, KEPT, n, 1), 1) for n in (3, 4)),
        *(equals(f"B, m=1, components {n} / 1", *_after_components(data, REMOVED, n, 1), 1) for n in COMPONENTS[1:]),
    ]


def _no_loss(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        *(equals(f"B, all components: m={m} / m=1", *_relative(data, REMOVED, COMPONENTS, m), 1) for m in SIZES[1:]),
        *(exceeds(f"A, all components: m={m} / m=1", *_relative(data, KEPT, COMPONENTS, m), 1) for m in SIZES[1:]),
        *(_follows_theory(panel, SIZES, data, settings) for panel in (KEPT, REMOVED)),
    ]


EXPERIMENT = Experiment(
    name="capacity-curves",
    title="Capacity against total dimension, with and without permutations",
    caption=(
        "Capacity as in table cap. A: strings of bound hypervectors of which one may be a permutation of another. B: "
        "one string of each set of permutations. Theory has no free parameter: without permutations, N = |X| fulfils "
        "N Φ(−√(Dm²/N)) = ln 2 in the median; with them, similarities of about 1/m² come on top."
    ),
    settings={
        "quick": {"total_dims": [144, 432, 720, 1008], "repetitions": 5, "blocks": 2},
        "full": {"total_dims": list(range(144, 1297, 144)), "repetitions": 5, "blocks": 8},
    },
    run_trial=run_trial,
    draw=draw,
    trials=trials,
)

_A, _B, _BOTH = (f"Section on capacity, figure capacity{panel}" for panel in (", A", ", B", ""))
_claim = partial(Claim, EXPERIMENT.name)
CLAIMS = [
    _claim(
        _A,
        "For base hypervectors (one component) the capacity is virtually the same for all m.",
        partial(_same_for_all_m, KEPT, [1]),
    ),
    _claim(
        _A,
        "Capacity increases approximately linearly with the total dimension.",
        partial(_is_nearly_straight, KEPT, [1]),
        comment="A straight line describes it, but not one through the origin: see the same claim about B.",
    ),
    _claim(
        _A,
        "With more bound components the capacities for different m differ more; m = 1 (FHRR) is significantly worse.",
        _fhrr_is_worse,
        comment="By theory the capacity of m = 1 stops growing: 74 strings of four components however large Dm². With "
        "two components the loss is a fifth at the most, and tested by the comparison with theory alone.",
    ),
    _claim(
        _A,
        "For fixed m > 1 the difference between numbers of components is not large.",
        _components_cost_little,
        comment="Tested: four components cost less than half of what they cost FHRR. For m = 2 the loss grows with the "
        "total dimension, by theory from 1 % at 144 to 12 % at 1296.",
    ),
    _claim(
        _B,
        "Without permutations there is a negligible difference between different m.",
        partial(_same_for_all_m, REMOVED, COMPONENTS[1:]),
    ),
    _claim(
        _B,
        "Without permutations the capacity scales linearly with the total dimension, for all m.",
        partial(_is_nearly_straight, REMOVED, COMPONENTS[1:]),
        rejected={"in proportion, without an offset": _is_proportional},
        comment="A straight line with an offset describes it. It grows like the power 0.75 of the total dimension, as "
        "theory says: larger sets have more members that can be lost, so each must be safer, N Φ(−√(Dm²/N)) = ln 2.",
    ),
    _claim(_BOTH, "FHRR is worse in A because it cannot tell permutations apart.", _permutations_are_the_reason),
    _claim(_BOTH, "At fixed total dimension a larger m costs negligible capacity, none against FHRR.", _no_loss),
]

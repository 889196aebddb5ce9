"""Figure capacity: capacity by total dimension, with (A) and without (B) permutations of bound hypervectors."""

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
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import (
    Measured,
    all_equal,
    difference_with_error,
    equals,
    exceeds,
    falls_below,
    is_close,
    mean_with_error,
    ratio_with_error,
    rows_where,
)
from ghrr_lab.paper.style import M_COLOURS, M_MARKERS, new_figure, style
from ghrr_lab.paper.theory.capacity import capacity, expected_size

SIZES, COMPONENTS = (1, 2, 3, 4), (1, 2, 3, 4)
KEPT, REMOVED = "A", "B"
Array = npt.NDArray[np.float64]


def trials(settings: Settings) -> list[Params]:
    """Return the trials of all points. Strings of one component have no permutations: B uses the ones of A."""
    points = (
        {"panel": panel, "components": n, "total_dim": total, "m": m}
        for panel, n, total, m in product((KEPT, REMOVED), COMPONENTS, settings["total_dims"], SIZES)
        if panel == KEPT or n > 1
    )
    return repeat(points, settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    space = ghrr.Space.from_total(params["total_dim"], params["m"])
    search = partial(capacity, space, params["components"], ordered=params["panel"] == KEPT, generator=generator)
    found = [2 * search() for _ in range(settings["repetitions"])]
    return pd.DataFrame({**params, "capacity": found}).drop(columns="block")


def _points(data: pd.DataFrame, panel: str, components: int, m: int) -> list[Measured]:
    """Return the mean capacities along one curve, with their standard errors."""
    rows = rows_where(data, panel=KEPT if components == 1 else panel, components=components, m=m)
    return [mean_with_error(values) for _, values in rows.groupby("total_dim")["capacity"]]


def _theory(panel: str, components: int, m: int, totals: Sequence[int]) -> Array:
    """Predict the mean capacities along a curve and the standard deviations of single trials, as two rows."""
    spaces = [ghrr.Space.from_total(total, m) for total in totals]
    return 2 * np.array([expected_size(space, components, ordered=panel == KEPT) for space in spaces]).T


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    totals = settings["total_dims"]
    figure = new_figure(7.8)
    axes = figure.subplots(len(COMPONENTS), 2, sharex=True, sharey=True)
    for (row, n), (column, panel) in product(enumerate(COMPONENTS), enumerate((KEPT, REMOVED))):
        axis = axes[row, column]
        if n == 1 and panel == REMOVED:  # would be identical to panel A; used for the legend
            axis.set_axis_off()
            axis.legend(*axes[0, 0].get_legend_handles_labels(), loc="center", ncols=2, handlelength=1.2)
            continue
        for m in SIZES:
            means, errors = np.array(_points(data, panel, n, m)).T
            options = {"fmt": M_MARKERS[m], "ms": 4, "color": M_COLOURS[m], "label": f"m = {m}, ± error"}
            axis.errorbar(np.array(totals) + 8 * (m - 2.5), means, errors, **options)
            axis.plot(totals, _theory(panel, n, m, totals)[0], color=M_COLOURS[m], lw=1, label=f"m = {m}, theory")
        title = f"{panel}. {n} components" if n > 1 else "A and B. 1 component"
        axis.set_title(title + (", permutations removed" if panel == REMOVED else ""))
        axis.set_xticks(totals[:: math.ceil(len(totals) / 5)])
    axes[0, 0].set_ylim(bottom=0)  # the axis is shared, so set its limit after drawing
    for axis in axes[-1]:
        axis.set_xlabel("total dimension Dm²")
    figure.supylabel("capacity |X| + |X'| (number of hypervectors)", fontsize=10)
    return figure


def _height(data: pd.DataFrame, panel: str, components: Sequence[int], m: int) -> Measured:
    """Return the sum of the capacities along curves: a single number for their height."""
    values, errors = np.array([point for n in components for point in _points(data, panel, n, m)]).T
    return float(values.sum()), float(np.linalg.norm(errors))


def _relative_to_fhrr(data: pd.DataFrame, panel: str, components: Sequence[int], m: int) -> Measured:
    """Return the height of the curves of m relative to the curves of m = 1."""
    return ratio_with_error(_height(data, panel, components, m), _height(data, panel, components, 1))


def _relative_to_one(data: pd.DataFrame, panel: str, components: int, m: int) -> Measured:
    """Return the height of a curve relative to the curve of one component."""
    return ratio_with_error(_height(data, panel, [components], m), _height(data, panel, [1], m))


def _same_for_all_m(panel: str, components: Sequence[int], data: pd.DataFrame, settings: Settings) -> list[Check]:
    curves = product(components, SIZES[1:])
    return [equals(f"components={n}: m={m} / m=1", *_relative_to_fhrr(data, panel, [n], m), 1) for n, m in curves]


def _follows_theory(panel: str, sizes: Sequence[int], data: pd.DataFrame, settings: Settings) -> Check:
    """Check that all points equal the prediction. The errors are also predicted, since there are few trials."""
    totals = settings["total_dims"]
    curves = list(product(COMPONENTS, sizes))
    values = np.concatenate([np.array(_points(data, panel, *curve))[:, 0] for curve in curves])
    expected, stds = np.concatenate([_theory(panel, *curve, totals) for curve in curves], axis=1)
    errors = stds / math.sqrt(settings["repetitions"] * settings["blocks"])
    return all_equal(f"{panel} compared with theory, m in {[*sizes]}", list(values), list(errors), list(expected))


def _mean_curve(data: pd.DataFrame, panel: str, components: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the mean of several curves and its standard errors, as two rows."""
    curves = np.array([_points(data, panel, n, m) for n, m in product(components, sizes)])
    return np.array([curves[..., 0].mean(axis=0), np.linalg.norm(curves[..., 1], axis=0) / len(curves)])


def _is_nearly_straight(panel: str, components: Sequence[int], data: pd.DataFrame, settings: Settings) -> list[Check]:
    # In this range a straight line explains 98 % of the variance of √x, and 95 % of that of x².
    totals = np.array(settings["total_dims"], dtype=float)
    means, _ = _mean_curve(data, panel, components, SIZES)
    explained = float(np.corrcoef(totals, means)[0, 1]) ** 2
    return [is_close("share of the variance that a straight line explains", explained, 1, tolerance=0.01)]


def _power(totals: Sequence[int], values: Array, errors: Array) -> Measured:
    """Fit a power law to points, weighted by their errors. Returns the exponent and its standard error."""
    fit, covariance = np.polyfit(np.log(totals), np.log(values), 1, w=values / errors, cov="unscaled")
    return float(fit[0]), math.sqrt(covariance[0, 0])


def _is_proportional(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Check that the curves of B, averaged over components, have the exponent 1."""
    checks = []
    for m in SIZES:
        measured = _power(settings["total_dims"], *_mean_curve(data, REMOVED, COMPONENTS[1:], [m]))
        checks.append(equals(f"exponent of the power law, m={m}", *measured, 1.0))
    return checks


def _fhrr_is_worse(data: pd.DataFrame, settings: Settings) -> list[Check]:
    gain = {n: _relative_to_fhrr(data, KEPT, [n], 4) for n in COMPONENTS}
    return [
        *(exceeds(f"components={n}: m=4 / m=1", *gain[n], 1) for n in (3, 4)),
        *(exceeds(f"m=4 / m=1, components {n} minus 1", *difference_with_error(gain[n], gain[1]), 0) for n in (3, 4)),
        _follows_theory(KEPT, [1], data, settings),
    ]


def _components_cost_little(data: pd.DataFrame, settings: Settings) -> list[Check]:
    left = {m: _relative_to_one(data, KEPT, 4, m) for m in SIZES}
    half_way, error = (1 + left[1][0]) / 2, left[1][1] / 2
    return [exceeds(f"components 4 / 1, m={m}", left[m][0], math.hypot(left[m][1], error), half_way) for m in SIZES[1:]]


def _permutations_are_the_reason(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        *(falls_below(f"A, m=1, components {n} / 1", *_relative_to_one(data, KEPT, n, 1), 1) for n in (3, 4)),
        *(equals(f"B, m=1, components {n} / 1", *_relative_to_one(data, REMOVED, n, 1), 1) for n in COMPONENTS[1:]),
    ]


def _no_loss(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        *(
            equals(f"B, all components: m={m} / m=1", *_relative_to_fhrr(data, REMOVED, COMPONENTS, m), 1)
            for m in SIZES[1:]
        ),
        *(
            exceeds(f"A, all components: m={m} / m=1", *_relative_to_fhrr(data, KEPT, COMPONENTS, m), 1)
            for m in SIZES[1:]
        ),
        *(_follows_theory(panel, SIZES, data, settings) for panel in (KEPT, REMOVED)),
    ]


_A, _B, _BOTH = (f"Section on capacity, figure capacity{panel}" for panel in (", A", ", B", ""))
CLAIMS = [
    Claim(
        _A,
        "For base hypervectors (one component) the capacity is virtually the same for all m.",
        partial(_same_for_all_m, KEPT, [1]),
    ),
    Claim(
        _A,
        "Capacity increases approximately linearly with the total dimension.",
        partial(_is_nearly_straight, KEPT, [1]),
        comment="A straight line fits, but not one through the origin: see the same claim about B.",
    ),
    Claim(
        _A,
        "With more bound components the capacities for different m differ more; m = 1 (FHRR) is significantly worse.",
        _fhrr_is_worse,
        comment="According to theory the capacity for m = 1 is limited: 74 strings of four components for any Dm². "
        "With two components the loss is at most a fifth, and is tested only by the comparison with theory.",
    ),
    Claim(
        _A,
        "For fixed m > 1 the capacity depends little on the number of components.",
        _components_cost_little,
        comment="The checks require that four components lose less than half of what FHRR loses. For m = 2 the loss "
        "grows with the total dimension: in theory, from 1 % at 144 to 12 % at 1296.",
    ),
    Claim(
        _B,
        "Without permutations, different m differ negligibly.",
        partial(_same_for_all_m, REMOVED, COMPONENTS[1:]),
    ),
    Claim(
        _B,
        "Without permutations the capacity scales linearly with the total dimension, for all m.",
        partial(_is_nearly_straight, REMOVED, COMPONENTS[1:]),
        rejected={"proportional, without an offset": _is_proportional},
        comment="A straight line with an offset fits. The capacity grows like the power 0.75 of the total dimension, "
        "as theory predicts: a larger set has more members that can be lost, so the noise must be smaller, "
        "N Φ(−√(Dm²/N)) = ln 2.",
    ),
    Claim(_BOTH, "FHRR is worse in A because it cannot distinguish permutations.", _permutations_are_the_reason),
    Claim(
        _BOTH, "At fixed total dimension, a larger m loses negligible capacity, and none compared with FHRR.", _no_loss
    ),
]

EXPERIMENT = Experiment(
    name="capacity-curves",
    title="Capacity by total dimension, with and without permutations",
    caption=(
        "Capacity as in table cap. A: strings of bound hypervectors may be permutations of each other. B: only one of "
        "all permutations of a string is used. Theory has no free parameter: without permutations, the median N = |X| "
        "satisfies N Φ(−√(Dm²/N)) = ln 2; with permutations, similarities of about 1/m² are added."
    ),
    settings={
        "quick": {"total_dims": [144, 432, 720, 1008], "repetitions": 5, "blocks": 2},
        "full": {"total_dims": list(range(144, 1297, 144)), "repetitions": 5, "blocks": 8},
    },
    run_trial=run_trial,
    draw=draw,
    trials=trials,
    claims=CLAIMS,
)

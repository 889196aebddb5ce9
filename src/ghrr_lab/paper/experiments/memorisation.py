"""Figure cap-vis: similarities of the members of a set with their own bundle and with the bundle of another set."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings
from ghrr_lab.paper.statistics import (
    all_equal,
    equals,
    is_close,
    mean_with_error,
    rows_where,
    share_with_error,
    std_with_error,
)
from ghrr_lab.paper.style import BLACK, BLUE, ORANGE, new_figure, normal_density, style
from ghrr_lab.paper.theory.capacity import chance_memorised

OWN, OTHER = "own", "other"
_CHUNK_NUMBERS = 1 << 21  # complex numbers drawn at a time


def trials(settings: Settings) -> list[Params]:
    """Return one trial per repetition of a case: a total dimension and the number of hypervectors in each bundle."""
    few, many = settings["bundled"]
    large, middle, small = settings["total_dims"]
    cases = {(total, few): settings["repetitions"] for total in (large, middle, small)}
    cases |= {(large, many): settings["repetitions_of_many"], (small, many): settings["repetitions_of_many"]}
    cases[small, few // 2] = 2 * settings["repetitions"]
    return [
        {"total_dim": total, "bundled": size, "repetition": repetition}
        for (total, size), repetitions in cases.items()
        for repetition in range(repetitions)
    ]


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    size, m = params["bundled"], settings["m"]
    dim = ghrr.Space.from_total(params["total_dim"], m).dim
    similarities = torch.zeros(2, size)
    step = max(1, _CHUNK_NUMBERS // (2 * size * m**2))
    for start in range(0, dim, step):  # slots are independent, and the similarity is a mean over slots
        slots = min(step, dim - start)
        own, other = ghrr.Space(slots, m).random(2, size, generator=generator)
        bundles = torch.stack([ghrr.bundle(own), ghrr.bundle(other)])
        similarities += ghrr.pairwise_similarity(bundles, own) * (slots / dim)
    return pd.DataFrame({**params, OWN: similarities[0], OTHER: similarities[1]})


def noise_std(total_dim: int, others: int) -> float:
    """Return the standard deviation of the similarity with a bundle of ``others``; each adds a variance of 1/(2Dm²)."""
    return math.sqrt(others / (2 * total_dim))


def chance_disjoint(total_dim: int, size: int) -> float:
    """Predict the probability that all similarities with the own bundle exceed all those with the other bundle."""
    t = torch.linspace(-2, 3, 20001, dtype=torch.float64)
    others_below = torch.exp(size * torch.special.log_ndtr(t / noise_std(total_dim, size)))
    own_above = torch.exp(size * torch.special.log_ndtr((1 - t) / noise_std(total_dim, size - 1)))
    return float(((own_above[1:] + own_above[:-1]) / 2 * others_below.diff()).sum())


def _case(data: pd.DataFrame, total_dim: int, size: int) -> pd.DataFrame:
    return rows_where(data, total_dim=total_dim, bundled=size)


def outcomes(data: pd.DataFrame) -> pd.DataFrame:
    """Return a row per trial.

    ``right``: whether all members are more similar to their own bundle. ``disjoint``: whether the histograms are.
    """
    by_trial = data.assign(right=data[OWN] > data[OTHER]).groupby(["total_dim", "bundled", "repetition"])
    disjoint = by_trial[OWN].min() > by_trial[OTHER].max()
    return pd.DataFrame({"right": by_trial["right"].all(), "disjoint": disjoint}).reset_index()


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    totals, sizes = settings["total_dims"][::2], settings["bundled"]
    figure = new_figure(5.2)
    axes = figure.subplots(2, 2, sharex="col")
    for (row, size), (column, total) in ((r, c) for r in enumerate(sizes) for c in enumerate(totals)):
        axis, case = axes[row, column], _case(data, total, size)
        case = case[case["repetition"] == 0]
        limit = 4 * noise_std(total, max(sizes))
        x = np.linspace(-limit, 1 + limit, 1001)
        bins = list(np.linspace(-limit, 1 + limit, 91))
        for name, mean, others, colour in ((OTHER, 0, size, ORANGE), (OWN, 1, size - 1, BLUE)):
            std = noise_std(total, others)
            label = "δ(x, C₁)" if name == OWN else "δ(x, C₂)"
            axis.hist(case[name], bins=bins, density=True, color=colour, alpha=0.6, label=label)
            axis.plot(x, normal_density(x, mean, std), color=BLACK, lw=1, label="theory" if name == OWN else None)
        right = int((case[OWN] > case[OTHER]).sum())
        axis.set_title(f"{size} per bundle, Dm² = {total}:\n{right} of {size} more similar to C₁")
    axes[0, 1].legend(loc="upper right")
    for axis in axes[-1]:
        axis.set_xlabel("similarity (no unit)")
    figure.supylabel("probability density", fontsize=10)
    return figure


def _share(data: pd.DataFrame, total: int, size: int, which: str) -> tuple[float, float]:
    """Return the share of the trials of a case that are ``right`` or ``disjoint``, with its standard error."""
    found = _case(outcomes(data), total, size)[which]
    return share_with_error(int(found.sum()), len(found))


def _small_sets_are_memorised(index: int, divisor: int, data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Check that all members are more similar to their own bundle in every trial.

    ``index`` selects the total dimension, and ``divisor`` divides the size of the smaller set.
    """
    total_dim, size = settings["total_dims"][index], settings["bundled"][0] // divisor
    share = _share(data, total_dim, size, "right")
    expected = chance_memorised(size, ghrr.Space.from_total(total_dim, settings["m"]), 1, ordered=False)
    return [
        is_close(f"|X| = {size}, Dm² = {total_dim}: share of trials with all x correct", share[0], 1, tolerance=0),
        equals("the same, compared with theory", *share, expected),
    ]


def _large_sets_are_not_memorised(data: pd.DataFrame, settings: Settings) -> list[Check]:
    size = settings["bundled"][1]
    checks = []
    for total in settings["total_dims"][::2]:
        right, disjoint = (_share(data, total, size, which)[0] for which in ("right", "disjoint"))
        checks.append(is_close(f"Dm² = {total}: share of trials with all x correct", right, 0, tolerance=0))
        checks.append(is_close(f"Dm² = {total}: share of trials with disjoint histograms", disjoint, 0, tolerance=0))
    return checks


def _implies(data: pd.DataFrame, settings: Settings, condition: str, which: str) -> list[Check]:
    """Check, for the smaller sets, that all trials that fulfil a condition also fulfil another one."""
    checks = []
    for total in settings["total_dims"][:2]:
        found = _case(outcomes(data), total, settings["bundled"][0])
        found = found.loc[found[condition], which]
        if found.empty:
            continue
        words = {"right": "all x correct", "disjoint": "disjoint histograms"}
        what = f"Dm² = {total}: share with {words[which]} among the {len(found)} trials with {words[condition]}"
        checks.append(is_close(what, float(found.mean()), 1, tolerance=0))
    return checks


def _right_implies_disjoint(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return _implies(data, settings, "right", "disjoint")


def _disjoint_implies_right(data: pd.DataFrame, settings: Settings) -> list[Check]:
    size = settings["bundled"][0]
    shares = {total: _share(data, total, size, "disjoint") for total in settings["total_dims"][:2]}
    return _implies(data, settings, "disjoint", "right") + [
        equals(f"Dm² = {total}: share of trials with disjoint histograms", *share, chance_disjoint(total, size))
        for total, share in shares.items()
    ]


def _are_around_one_and_zero(data: pd.DataFrame, settings: Settings) -> list[Check]:
    measured: dict[str, list[tuple[float, float, float]]] = {"means": [], "standard deviations": []}
    for total, size in sorted({(params["total_dim"], params["bundled"]) for params in trials(settings)}):
        for name, mean, others in ((OWN, 1.0, size - 1), (OTHER, 0.0, size)):
            deviation = _case(data, total, size)[name] - mean
            # For a given other bundle, members are independent. In their own bundle, each pair counts twice.
            average, error = mean_with_error(deviation)
            measured["means"].append((average, error * (math.sqrt(2) if name == OWN else 1), 0))
            measured["standard deviations"].append((*std_with_error(deviation), noise_std(total, others)))
    return [
        all_equal(f"{what} of δ(x, C₁) - 1 and δ(x, C₂)", *(list(column) for column in zip(*values, strict=True)))
        for what, values in measured.items()
    ]


_claim = partial(Claim, "Section on capacity, figure cap-vis")
CLAIMS = [
    _claim(
        "In bundles of 250, every x of X is more similar to C₁ than to C₂.",
        partial(_small_sets_are_memorised, 0, 1),
        rejected={
            "Dm² = 900 as in table cap": partial(_small_sets_are_memorised, 2, 1),
            "Dm² = 900, 250 in both bundles together": partial(_small_sets_are_memorised, 2, 2),
        },
        comment="The paper does not give the total dimension; 9000 is that of figure quasi-orthogonal (D = 1000, m = "
        "3). According to theory, both panels are reproduced with a probability of at least 95 % for Dm² from 3200 to "
        "12,400.",
    ),
    _claim(
        "In bundles of 1500, some x is not, so the histograms overlap.",
        _large_sets_are_not_memorised,
        comment="The caption says x ∈ C₁ instead of x ∈ X.",
    ),
    _claim(
        "Because every x is more similar to C₁ than to C₂, the histograms do not overlap.",
        _right_implies_disjoint,
        _disjoint_implies_right,
        "If the histograms do not overlap, every x is more similar to C₁. The converse does not hold.",
        comment="δ(x, C₁) > δ(x, C₂) compares similarities of the same x. The histograms compare those of different x.",
    ),
    _claim(
        "Similarities are around 1 with the own bundle and around 0 with the other: the intuition behind capacity.",
        _are_around_one_and_zero,
        comment="The predicted standard deviation is √(k/(2Dm²)) for k other members in the bundle.",
    ),
]

EXPERIMENT = Experiment(
    name="memorisation",
    title="Members of small sets are more similar to their own bundle than to another one",
    caption=(
        "Similarities of all x in X with the bundle C₁ of X, and with the bundle C₂ of equally many others. The paper "
        "does not give the total dimension. Its figure requires one as on the left; on the right is that of its table."
    ),
    settings={
        "quick": {
            **{"m": 1, "total_dims": [9000, 3600, 900], "bundled": [250, 1500]},
            **{"repetitions": 8, "repetitions_of_many": 1},
        },
        "full": {
            **{"m": 3, "total_dims": [9000, 3600, 900], "bundled": [250, 1500]},
            **{"repetitions": 12, "repetitions_of_many": 2},
        },
    },
    run_trial=run_trial,
    draw=draw,
    trials=trials,
    claims=CLAIMS,
)

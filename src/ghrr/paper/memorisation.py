"""Figure cap-vis: similarities of the members of a set with its own bundle and with that of another set."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

import ghrr
from ghrr.paper.capacity_search import chance_memorised
from ghrr.paper.experiment import (
    Check,
    Claim,
    Experiment,
    Params,
    Settings,
    all_equal,
    equals,
    equals_to,
    mean_with_error,
    share_with_error,
    std_with_error,
)
from ghrr.paper.style import BLACK, BLUE, ORANGE, style

OWN, OTHER = "own", "other"
_CHUNK_NUMBERS = 1 << 21  # complex numbers drawn at a time


def trials(settings: Settings) -> list[Params]:
    """One repetition of a case: a total dimension and the number of hypervectors in each of the two bundles."""
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
    for start in range(0, dim, step):  # slots are independent, and δ is a mean over slots
        slots = min(step, dim - start)
        own, other = ghrr.Space(slots, m).random(2, size, generator=generator)
        bundles = torch.stack([ghrr.bundle(own), ghrr.bundle(other)])
        similarities += ghrr.pairwise_similarity(bundles, own) * (slots / dim)
    return pd.DataFrame({**params, OWN: similarities[0], OTHER: similarities[1]})


def spread(total_dim: int, others: int) -> float:
    """Standard deviation of a similarity with a bundle of so many others, each adding 1 / √(2Dm²)."""
    return math.sqrt(others / (2 * total_dim))


def chance_disjoint(total_dim: int, size: int) -> float:
    """Chance that the least similarity with the own bundle exceeds the greatest with the other, by theory."""
    t = torch.linspace(-2, 3, 20001, dtype=torch.float64)
    greatest = torch.exp(size * torch.special.log_ndtr(t / spread(total_dim, size)))
    all_above = torch.exp(size * torch.special.log_ndtr((1 - t) / spread(total_dim, size - 1)))
    return float(((all_above[1:] + all_above[:-1]) / 2 * greatest.diff()).sum())


def _chance_right(total_dim: int, size: int, settings: Settings) -> float:
    """Chance that all members are nearer to their own bundle, by theory."""
    return chance_memorised(size, ghrr.Space.from_total(total_dim, settings["m"]), 1, ordered=False)


def _case(data: pd.DataFrame, total_dim: int, size: int) -> pd.DataFrame:
    return data[(data["total_dim"] == total_dim) & (data["bundled"] == size)]


def outcomes(data: pd.DataFrame) -> pd.DataFrame:
    """For each trial whether all members are nearer to their own bundle, and whether the histograms are disjoint."""
    by_trial = data.assign(right=data[OWN] > data[OTHER]).groupby(["total_dim", "bundled", "repetition"])
    disjoint = by_trial[OWN].min() > by_trial[OTHER].max()
    return pd.DataFrame({"right": by_trial["right"].all(), "disjoint": disjoint}).reset_index()


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    totals, sizes = settings["total_dims"][::2], settings["bundled"]
    with style():
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        axes = figure.subplots(2, 2, sharex="col")
        for (row, size), (column, total) in ((r, c) for r in enumerate(sizes) for c in enumerate(totals)):
            axis, case = axes[row, column], _case(data, total, size)
            case = case[case["repetition"] == 0]
            limit = 4 * spread(total, max(sizes))
            x = np.linspace(-limit, 1 + limit, 1001)
            bins = list(np.linspace(-limit, 1 + limit, 91))
            for name, mean, others, colour in ((OTHER, 0, size, ORANGE), (OWN, 1, size - 1, BLUE)):
                std = spread(total, others)
                label = "δ(x, C₁)" if name == OWN else "δ(x, C₂)"
                axis.hist(case[name], bins=bins, density=True, color=colour, alpha=0.6, label=label)
                density = np.exp(-0.5 * ((x - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))
                axis.plot(x, density, color=BLACK, lw=1, label="theory" if name == OWN else None)
            right = int((case[OWN] > case[OTHER]).sum())
            axis.set_title(f"{size} per bundle, Dm² = {total}:\n{right} of {size} nearer to C₁")
        axes[0, 1].legend(loc="upper right")
        for axis in axes[-1]:
            axis.set_xlabel("similarity (no unit)")
        figure.supylabel("probability density", fontsize=10)
    return figure


def _share(data: pd.DataFrame, total: int, size: int, which: str) -> tuple[float, float]:
    """Share of the trials of a case in which something is so, with its standard error."""
    found = _case(outcomes(data), total, size)[which]
    return share_with_error(int(found.sum()), len(found))


def _few_are_told_apart(total: int, size: int, data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Whether all members are nearer to their own bundle in every trial; places in the settings are given."""
    dim, bundled = settings["total_dims"][total], settings["bundled"][0] // size
    share = _share(data, dim, bundled, "right")
    return [
        equals_to(f"|X| = {bundled}, Dm² = {dim}: share of trials with all x right", share[0], 1, tolerance=0),
        equals("the same, against theory", *share, _chance_right(dim, bundled, settings)),
    ]


def _many_are_not(data: pd.DataFrame, settings: Settings) -> list[Check]:
    size = settings["bundled"][1]
    checks = []
    for total in settings["total_dims"][::2]:
        right, disjoint = (_share(data, total, size, which)[0] for which in ("right", "disjoint"))
        checks.append(equals_to(f"Dm² = {total}: share of trials with all x right", right, 0, tolerance=0))
        checks.append(equals_to(f"Dm² = {total}: share with disjoint histograms", disjoint, 0, tolerance=0))
    return checks


def _given(data: pd.DataFrame, settings: Settings, condition: str, which: str) -> list[Check]:
    """Share of trials with the few in which something is so, of those that fulfil a condition."""
    checks = []
    for total in settings["total_dims"][:2]:
        found = _case(outcomes(data), total, settings["bundled"][0])
        found = found.loc[found[condition], which]
        if found.empty:
            continue
        what = f"Dm² = {total}: share {which}, of the {len(found)} trials {condition}"
        checks.append(equals_to(what, float(found.mean()), 1, tolerance=0))
    return checks


def _right_means_disjoint(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return _given(data, settings, "right", "disjoint")


def _disjoint_means_right(data: pd.DataFrame, settings: Settings) -> list[Check]:
    size = settings["bundled"][0]
    shares = [
        equals(f"Dm² = {total}: share disjoint", *_share(data, total, size, "disjoint"), chance_disjoint(total, size))
        for total in settings["total_dims"][:2]
    ]
    return _given(data, settings, "disjoint", "right") + shares


def _are_about_one_and_zero(data: pd.DataFrame, settings: Settings) -> list[Check]:
    measured: dict[str, list[tuple[float, float, float]]] = {"means": [], "standard deviations": []}
    for total, size in sorted({(params["total_dim"], params["bundled"]) for params in trials(settings)}):
        for name, mean, others in ((OWN, 1.0, size - 1), (OTHER, 0.0, size)):
            off = _case(data, total, size)[name] - mean
            # Given the bundle of others, members are independent; in their own, each pair of them counts twice.
            average, error = mean_with_error(off)
            measured["means"].append((average, error * (math.sqrt(2) if name == OWN else 1), 0))
            measured["standard deviations"].append((*std_with_error(off), spread(total, others)))
    return [
        all_equal(f"{what} of δ(x, C₁) - 1 and δ(x, C₂)", *(list(column) for column in zip(*values, strict=True)))
        for what, values in measured.items()
    ]


EXPERIMENT = Experiment(
    name="memorisation",
    title="Members of a set are nearer to its bundle than to another, as long as it is small",
    caption=(
        "Similarities of all x in X with the bundle C₁ of X and with the bundle C₂ of as many others. The paper does "
        "not say the total dimension; what it shows needs one as on the left. On the right, that of its table."
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
)

_claim = partial(Claim, EXPERIMENT.name, "Section on capacity, figure cap-vis")
CLAIMS = [
    _claim(
        "In bundles of 250, every x of X is more similar to C₁ than to C₂.",
        partial(_few_are_told_apart, 0, 1),
        rejected={
            "Dm² = 900 as in table cap": partial(_few_are_told_apart, 2, 1),
            "Dm² = 900, 250 in both bundles together": partial(_few_are_told_apart, 2, 2),
        },
        comment="The total dimension is not given; 9000 is the paper's D = 1000, m = 3 of figure quasi-orthogonal. By "
        "theory both panels come out at least 19 times in 20 for Dm² from 3200 to 12,400.",
    ),
    _claim(
        "In bundles of 1500, some x is not, so the histograms overlap.",
        _many_are_not,
        comment="The caption writes x ∈ C₁ where it means x ∈ X.",
    ),
    _claim(
        "Because every x is more similar to C₁ than to C₂, the histograms do not overlap.",
        _right_means_disjoint,
        _disjoint_means_right,
        "Histograms that do not overlap mean that every x is more similar to C₁, but not the other way round.",
        comment="δ(x, C₁) > δ(x, C₂) compares two similarities of the same x; histograms compare those of different x.",
    ),
    _claim(
        "Similarities lie about 1 with the own bundle and about 0 with the other: the intuition behind capacity.",
        _are_about_one_and_zero,
        comment="Theory: standard deviation √(k/(2Dm²)) for k other members in the bundle.",
    ),
]

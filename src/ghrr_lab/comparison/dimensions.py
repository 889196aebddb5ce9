"""Dimensions needed to find 99 % of the members of a bundle: the experiment of Schlegel, Neubert and Protzel."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr import models
from ghrr_lab.comparison.contestants import TITLES
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import Measured, equals, mean_with_error
from ghrr_lab.paper.style import BLUE, ORANGE, new_figure, style

NAMES = (
    *("fhrr", "hrr", "hrr-unitary", "map", "map-continuous", "bsc", "vtb", "mbat", "smr", "hlb"),
    *("ghrr-2", "ghrr-3", "ghrr-4"),
)
# Sizes are squares of even numbers, so that steps of the grid are 4√d. Rounding to the grid has a standard deviation of
# 4√d/√12 for one number of items; about 9 of them determine the line near 15.
GRID_STD = 4 / math.sqrt(12) / 3
SUM, NORMALISED = "bundle", "normalised bundle"
# Dimensions for 15 items: the method below, applied to the accuracies that the authors published with their toolbox
# (TUC-ProAut/VSA_Toolbox, experimental_results/bundle_capacity.mat), one run of ten iterations.
PUBLISHED = {
    ("map", NORMALISED): ("MAP-B", 792.6),
    ("map-continuous", NORMALISED): ("MAP-C", 636.7),
    ("map", SUM): ("MAP-I", 473.4),
    ("hrr", SUM): ("HRR", 514.4),
    ("fhrr", NORMALISED): ("FHRR", 333.3),
    ("vtb", SUM): ("VTB", 503.4),
    ("bsc", SUM): ("BSC", 752.4),
    ("mbat", SUM): ("MBAT", 478.1),
}


def trials(settings: Settings) -> list[Params]:
    return repeat([{"model": name, "budget": "both"} for name in settings["models"]], settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Repeat the whole experiment once: accuracies on a grid of dimensions and items, then a line through the sizes."""
    rows = []
    accuracy = {task: np.zeros((len(settings["roots"]), len(settings["items"]))) for task in (SUM, NORMALISED)}
    sizes = []
    for d, root in enumerate(settings["roots"]):
        model = _model(params["model"], root**2)
        sizes.append(_components(model))
        for _ in range(settings["iterations"]):
            codebook = model.random(settings["candidates"], generator=generator)
            bundles, members = [], []
            for items in settings["items"]:
                members.append(torch.randperm(settings["candidates"], generator=generator)[:items])
                bundles.append(model.bundle(codebook[members[-1]], generator=generator))
            sums = torch.stack(bundles)
            for task, x in ((SUM, sums), (NORMALISED, model.normalize(sums, generator=generator))):
                ranked = model.pairwise_similarity(x, codebook).argsort(dim=-1, descending=True)
                for k, (items, chosen) in enumerate(zip(settings["items"], members, strict=True)):
                    found = torch.isin(ranked[k, :items], chosen).double().mean()
                    accuracy[task][d, k] += float(found) / settings["iterations"]
    for task, table in accuracy.items():
        slope, needed = needed_dimensions(table, np.array(sizes), np.array(settings["items"]), settings)
        rows.append({**params, "task": task, "x": settings["reference_items"], "value": needed, "slope": slope})
    return pd.DataFrame(rows)


def _model(name: str, components: int) -> models.Architecture:
    """Return a model with this number of components, complex ones counted once, as in the published experiment."""
    is_complex = models.MODELS[name].model.dtype.is_complex
    return models.make(name, reals=components * (2 if is_complex else 1))


def _components(model: models.Architecture) -> int:
    return model.reals_per_vector // (2 if model.dtype.is_complex else 1)


def needed_dimensions(
    accuracy: np.ndarray, sizes: np.ndarray, items: np.ndarray, settings: Settings
) -> tuple[float, float]:
    """Return slope and value of the line through the smallest sizes that reach the threshold, as the authors do.

    For each number of items the smallest size of the grid is taken, and numbers that no size reaches are left out.
    """
    reached = accuracy >= settings["threshold"]
    any_size = reached.any(axis=0)
    smallest = sizes[reached.argmax(axis=0)]
    slope, start = np.polyfit(items[any_size], smallest[any_size], 1)
    return float(slope), float(start + slope * settings["reference_items"])


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    names = [name for name in NAMES if name in set(data["model"])]
    figure = new_figure(0.32 * len(names) + 1.4)
    axis = figure.subplots()
    for offset, task, colour, marker in ((-0.15, SUM, BLUE, "o"), (0.15, NORMALISED, ORANGE, "s")):
        values = [_measured(data, name, task) for name in names]
        y = np.arange(len(names)) + offset
        axis.errorbar(
            [v[0] for v in values], y, xerr=[v[1] for v in values], fmt=marker, color=colour, ms=5, label=task
        )
        marks = [i for i, name in enumerate(names) if (name, task) in PUBLISHED]
        x = [PUBLISHED[names[i], task][1] for i in marks]
        axis.scatter(x, [i + offset for i in marks], marker="|", s=160, color=colour, label=f"{task}, published")
    axis.set(yticks=range(len(names)), yticklabels=[TITLES[name] for name in names], ylim=(len(names) - 0.5, -0.5))
    axis.set(xlabel=f"components for 99 % at {settings['reference_items']} of {settings['candidates']} items")
    axis.set_xlim(left=0)
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _measured(data: pd.DataFrame, name: str, task: str) -> Measured:
    return mean_with_error(data[(data["model"] == name) & (data["task"] == task)]["value"])


def _agrees(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Compare with the published numbers. They are from one run, whose standard deviation is taken to equal ours."""
    checks = []
    for (name, task), (printed, expected) in PUBLISHED.items():
        values = data[(data["model"] == name) & (data["task"] == task)]["value"]
        if len(values) > 1:
            # The standard deviation of a few runs is uncertain, so it is at least the rounding error of the grid.
            std = max(float(values.std()), GRID_STD * math.sqrt(float(values.mean())))
            error = std * math.sqrt(1 + 1 / len(values))
            checks.append(equals(f"{printed}: components for 15 items", float(values.mean()), error, expected))
    return checks


CLAIMS = [
    Claim(
        "Schlegel, Neubert and Protzel 2022, number of dimensions for 99 % accuracy",
        "The dimensions that each architecture needs to find 99 % of 15 bundled items among 1,000.",
        _agrees,
        comment=(
            "Expected values come from the authors' stored accuracies and the authors' method. The errors are the "
            "spread of a single run of the experiment, since theirs is one. The method takes the smallest size of a "
            "coarse grid, so it overestimates by about half a step of the grid."
        ),
    )
]

EXPERIMENT = Experiment(
    name="compare-dimensions",
    title="Components needed to find 99 % of a bundle",
    caption=(
        "Components (complex ones count once) with which 99 % of the members of a bundle of 15 are among the 15 "
        "nearest of 1,000 candidates. Marks show the numbers of Schlegel, Neubert and Protzel (2022). Normalised "
        "bundles are signs (MAP, bipolar), clipped (MAP, continuous), phases (FHRR) or unitary slots (GHRR)."
    ),
    settings={
        size: {
            **{"candidates": 1000, "items": list(range(3, 52, 2)), "roots": list(range(2, 41, 2)), "threshold": 0.99},
            **{"iterations": 10, "reference_items": 15, "blocks": blocks, "models": list(names)},
        }
        for size, blocks, names in (
            ("quick", 2, [*dict.fromkeys(name for name, _ in PUBLISHED), "ghrr-3"]),
            ("full", 5, NAMES),
        )
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

"""Bundling: how many members of a bundle are found again among 1,000 candidates."""

from __future__ import annotations

import math

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr import models
from ghrr_lab.comparison.contestants import CORE, DIAGONALITIES, contestants, sized, title
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import all_equal, rows_where

SUM, NORMALISED = "bundle", "normalised bundle"


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants([*CORE, *DIAGONALITIES]), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Bundle random members of a codebook, and count the members among the nearest candidates."""
    model = sized(params, settings)
    codebook = model.random(settings["candidates"], generator=generator)
    bundles = []
    for items in settings["items"]:
        for _ in range(settings["bundles"]):
            chosen = torch.randperm(settings["candidates"], generator=generator)[:items]
            bundles.append((chosen, model.bundle(codebook[chosen], generator=generator)))
    normalised = [(chosen, model.normalize(bundle, generator=generator)) for chosen, bundle in bundles]
    rows = []
    for task, queries in ((SUM, bundles), (NORMALISED, normalised)):
        for chosen, x in queries:
            nearest = model.pairwise_similarity(x, codebook).topk(len(chosen)).indices
            found = float(torch.isin(nearest, chosen).double().mean())
            rows.append({**params, "task": task, "x": len(chosen), "value": found})
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, task=SUM, x="items in the bundle", y="share found", ticks=settings["items"])


def _equals_theory(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for (model, budget), rows in data[data["task"] == SUM].groupby(["model", "budget"], sort=False):
        measured, errors, expected = [], [], []
        size = sized({"model": model, "budget": budget}, settings)
        for items in settings["items"]:
            values = rows_where(rows, x=items)["value"]
            prediction = models.bundling_accuracy(size, items, settings["candidates"])
            # At least the error of independent members: near 1 all bundles may have the same share.
            least = math.sqrt(max(prediction * (1 - prediction), 1e-4) / (items * len(values)))
            measured.append(float(values.mean()))
            errors.append(max(float(values.std()) / math.sqrt(len(values)), least))
            expected.append(prediction)
        checks.append(all_equal(title(str(model), str(budget)), measured, errors, expected))
    return checks


CLAIMS = [
    Claim(
        "Theory of ghrr.models",
        "The share of members that are found equals the prediction of bundling_accuracy.",
        _equals_theory,
        comment="The prediction takes all scores as independent, and Gaussian or binomial.",
    )
]

EXPERIMENT = Experiment(
    name="compare-bundling",
    title="Bundling: members found among 1,000 candidates",
    caption=(
        "A bundle of random vectors is compared with 1,000 candidates; shown is the share of its members among as many "
        "nearest candidates. Binary and sparse models appear twice: with as many numbers (solid) and with as many "
        "bytes (dashed) as the others."
    ),
    settings={
        "quick": {"reals": 576, "candidates": 1000, "items": [4, 8, 16, 32, 64, 128], "bundles": 8, "blocks": 1},
        "full": {"reals": 576, "candidates": 1000, "items": [4, 8, 16, 32, 64, 128], "bundles": 20, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

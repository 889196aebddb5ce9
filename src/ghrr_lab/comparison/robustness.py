"""Robustness: records that are read after components were erased, flipped or disturbed."""

from __future__ import annotations

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ghrr import models
from ghrr_lab.comparison.contestants import CORE, contestants, sized
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.comparison.model_structures import best, encode_record, read
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import exceeds, mean_with_error, rows_where

ERASED, FLIPPED, NOISE = "erased", "flipped", "noise"


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants(CORE), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Damage the vector of a record, and read all its values."""
    model = sized(params, settings, order=2)
    codebook = model.random(settings["candidates"], generator=generator)
    keys = model.random_keys(settings["pairs"], generator=generator)
    rows = []
    for _ in range(settings["records"]):
        chosen = torch.randint(settings["candidates"], (settings["pairs"],), generator=generator)
        record = encode_record(model, keys, codebook[chosen], generator)
        for kind, levels in settings["levels"].items():
            for level in levels:
                damaged = damage(model, record, kind, level, generator)
                if damaged is not None:
                    answers = best(model, read(model, damaged, [keys]), codebook)
                    correct = float((answers == chosen).double().mean())
                    rows.append({**params, "task": kind, "x": level, "value": correct})
    return pd.DataFrame(rows)


def damage(model: models.Architecture, x: Tensor, kind: str, level: float, generator: torch.Generator) -> Tensor | None:
    """Return a damaged copy of a vector, or None if its components cannot be damaged in this way.

    Erased components are 0, or random in models without a zero. Flipped ones change their sign or their bit, or get a
    random index (SBC). Noise is Gaussian, with this standard deviation relative to the root mean square of components.
    """
    hit = torch.rand(x.shape, generator=generator) < level
    if not model.facts.differentiable:
        if kind == NOISE:
            return None
        flipped = ~x if kind == FLIPPED and x.dtype == torch.bool else None
        return torch.where(hit, model.random(generator=generator) if flipped is None else flipped, x)
    if kind == NOISE:
        noise = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        return x + level * noise * x.abs().square().mean().sqrt()
    return torch.where(hit, torch.zeros_like(x) if kind == ERASED else -x, x)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, task=ERASED, x="share of components erased", y="share read correctly", log=False)


def _half_can_be_erased(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """Half of all components are enough for records of a quarter of the capacity."""
    return [
        exceeds(f"{name}: share read correctly", *mean_with_error(rows["value"]), 0.5)
        for name, rows in rows_where(data, task=ERASED, x=0.5).groupby("model", sort=False)
    ]


CLAIMS = [
    Claim(
        "Kanerva 2009, on robustness of distributed representations",
        "A record is read mostly correctly after half of its components were erased.",
        _half_can_be_erased,
    )
]

EXPERIMENT = Experiment(
    name="compare-robustness",
    title="Robustness: erased, flipped and noisy components",
    caption=(
        "Share of the values of a record of eight pairs that are read correctly, among 100 candidates, after "
        "components were erased. The table also has flipped components and added noise."
    ),
    settings={
        size: {
            **{"reals": 576, "candidates": 100, "pairs": 8, "records": records, "blocks": blocks},
            "levels": {
                ERASED: [0.0, 0.25, 0.5, 0.75, 0.9],
                FLIPPED: [0.1, 0.2, 0.3, 0.4],
                NOISE: [0.5, 1.0, 2.0, 4.0],
            },
        }
        for size, records, blocks in (("quick", 8, 2), ("full", 30, 10))
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

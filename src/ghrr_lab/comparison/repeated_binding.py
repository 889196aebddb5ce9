"""Repeated binding and unbinding: what is left of a vector."""

from __future__ import annotations

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr_lab.comparison.contestants import CORE, NOT_CLOSED, contestants, sized
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.comparison.model_structures import rescale
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import is_close

EXACT = ("fhrr", "hrr-unitary", "map", "bsc", "sbc", "mbat", "smr", "hlb", "ghrr-1", "ghrr-2", "ghrr-3", "ghrr-4")


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants(name for name in CORE if name != NOT_CLOSED), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Bind a vector with keys one after the other, unbind them in reverse, and compare with the vector."""
    model = sized(params, settings)
    keys = model.random_keys(settings["depth"], generator=generator)
    values = model.random(settings["vectors"], generator=generator)
    rows, bound = [], values
    for depth in range(1, settings["depth"] + 1):
        bound = rescale(model, model.bind(keys[depth - 1], bound))
        back = bound
        for key in reversed(keys[:depth]):
            back = rescale(model, model.unbind(back, key, side="left"))
        left = model.similarity(back, rescale(model, values))
        rows += [{**params, "task": "similarity", "x": depth, "value": float(value)} for value in left]
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(data, x="number of keys bound and unbound", y="cosine with the vector", log=False)


def _exact_models_lose_nothing(data: pd.DataFrame, settings: Settings) -> list[Check]:
    found = data[data["model"].isin(EXACT)]
    return [
        is_close(f"{name}: smallest cosine at any depth", float(rows["value"].min()), 1.0, tolerance=1e-4)
        for name, rows in found.groupby("model", sort=False)
    ]


CLAIMS = [
    Claim(
        "Facts of ghrr.models",
        "Models with an exact inverse lose nothing at any depth.",
        _exact_models_lose_nothing,
    )
]

EXPERIMENT = Experiment(
    name="compare-repeated-binding",
    title="Repeated binding and unbinding",
    caption=(
        "Cosine of a vector with what is left of it after it was bound with random keys and unbound again in reverse "
        "order. TPR is left out: its vectors grow with every key."
    ),
    settings={
        "quick": {"reals": 576, "depth": 12, "vectors": 20, "blocks": 2},
        "full": {"reals": 576, "depth": 12, "vectors": 50, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

"""Sequences: the item at a position."""

from __future__ import annotations

import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr_lab.comparison.contestants import CORE, NOT_CLOSED, contestants, sized
from ghrr_lab.comparison.model_figures import draw_panels
from ghrr_lab.comparison.model_structures import best, encode_by_binding, encode_by_shift, rescale
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import falls_below, mean_with_error, rows_where

BINDING, SHIFT = "by binding", "by shift"


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants(CORE), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Encode sequences by powers of a key and by shifts, and read every position."""
    model = sized(params, settings)
    codebook = model.random(settings["candidates"], generator=generator)
    rows = []
    for length in settings["lengths"]:
        for _ in range(settings["sequences"]):
            chosen = torch.randint(settings["candidates"], (length,), generator=generator)
            shifted = encode_by_shift(model, codebook[chosen], generator)
            queries = {SHIFT: torch.stack([model.shift(shifted, -i) for i in range(length)])}
            if params["model"] != NOT_CLOSED:
                key = model.random_keys(generator=generator)
                steps = [encode_by_binding(model, key, codebook[chosen], generator)]
                for _ in range(length - 1):
                    steps.append(rescale(model, model.unbind(steps[-1], key, side="left")))
                queries[BINDING] = torch.stack(steps)
            for task, found in queries.items():
                correct = float((best(model, found, codebook) == chosen).double().mean())
                rows.append({**params, "task": task, "x": length, "value": correct})
    return pd.DataFrame(rows)


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    return draw_panels(
        data, task=BINDING, x="length of the sequence", y="share read correctly", ticks=settings["lengths"]
    )


def _self_inverse_models_forget_positions(data: pd.DataFrame, settings: Settings) -> list[Check]:
    """A key bound twice cancels, so positions of one parity are the same."""
    checks = []
    for name in ("map", "bsc"):
        rows = rows_where(data, model=name, task=BINDING, x=settings["lengths"][0])
        if len(rows):
            mean, error = mean_with_error(rows["value"])
            checks.append(falls_below(f"{name}, {settings['lengths'][0]} items", mean, error, 0.7))
    return checks


CLAIMS = [
    Claim(
        "Facts of ghrr.models",
        "Self-inverse models cannot count with powers of a key: positions of one parity are confused.",
        _self_inverse_models_forget_positions,
    )
]

EXPERIMENT = Experiment(
    name="compare-sequences",
    title="Sequences: the item at a position",
    caption=(
        "Share of items that are read correctly, among 100 candidates. Item number i is bound i times with one key. "
        "The table also has item number i shifted by i, with which all models can read positions. TPR is left out: "
        "items would be tensors of different order."
    ),
    settings={
        "quick": {"reals": 576, "candidates": 100, "lengths": [4, 8, 16, 32], "sequences": 5, "blocks": 2},
        "full": {"reals": 576, "candidates": 100, "lengths": [4, 8, 16, 32], "sequences": 20, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

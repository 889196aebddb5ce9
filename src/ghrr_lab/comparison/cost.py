"""Cost: time of every operation, relative to FHRR in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from ghrr import models
from ghrr_lab.comparison.contestants import CORE, contestants, sized, title
from ghrr_lab.comparison.model_figures import summarise
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import STANDARD_ERRORS, mean_with_error, rows_where
from ghrr_lab.paper.style import BLUE, GREEN, GREY, ORANGE, PURPLE, new_figure, style

OPERATIONS = ("bind", "unbind", "bundle", "cleanup")


def trials(settings: Settings) -> list[Params]:
    entries = [entry for entry in contestants(CORE) if entry["budget"] != "reals"]
    return repeat(entries, settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Time the operations of a model and of FHRR alternately, and take the ratio of medians."""
    calls = _calls(sized(params, settings, order=2), settings, generator)
    reference = _calls(sized({"model": "fhrr", "budget": "both"}, settings), settings, generator)
    rows = []
    for operation in OPERATIONS:
        seconds = [[_time(calls[operation]), _time(reference[operation])] for _ in range(settings["repetitions"])]
        ratio = np.median([a for a, _ in seconds]) / np.median([b for _, b in seconds])
        rows.append({**params, "task": operation, "x": settings["reals"], "value": float(ratio)})
    return pd.DataFrame(rows)


def _calls(
    model: models.Architecture, settings: Settings, generator: torch.Generator
) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the calls to time. Keys are one for all vectors of a batch."""
    key = model.random_keys(generator=generator)
    values = model.random(settings["batch"], generator=generator)
    codebook = model.random(settings["candidates"], generator=generator)
    pairs = model.bind(key, values)
    return {
        "bind": lambda: model.bind(key, values),
        "unbind": lambda: model.unbind(pairs, key, side="left"),
        "bundle": lambda: model.bundle(values, generator=generator),
        "cleanup": lambda: model.pairwise_similarity(values, codebook).argmax(dim=-1),
    }


def _time(call: Callable[[], torch.Tensor]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    table = summarise(data)
    names = list(dict.fromkeys(zip(table["model"], table["budget"], strict=True)))
    figure = new_figure(0.34 * len(names) + 1.2)
    axis = figure.subplots()
    y = np.arange(len(names))
    for offset, operation, colour in zip(
        (-0.24, -0.08, 0.08, 0.24), OPERATIONS, (BLUE, ORANGE, GREEN, PURPLE), strict=True
    ):
        rows = [rows_where(table, task=operation, model=m, budget=b).iloc[0] for m, b in names]
        axis.errorbar(
            [r["mean"] for r in rows],
            y + offset,
            xerr=[r["error"] for r in rows],
            fmt="o",
            ms=4,
            color=colour,
            label=operation,
        )
    axis.axvline(1, color=GREY, lw=0.8, ls=":")
    axis.set(yticks=y, yticklabels=[title(*name) for name in names], ylim=(len(names) - 0.5, -0.5), xscale="log")
    axis.set_xlabel("time relative to FHRR, equal bytes")
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _cost_is_at_most_m(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for m in (2, 3, 4):
        rows = rows_where(data, model=f"ghrr-{m}", task="bind")
        if len(rows):
            mean, error = mean_with_error(rows["value"])
            checks.append(Check(f"m = {m}", mean, error, f"≤ {m}", mean <= m + STANDARD_ERRORS * error))
    return checks


CLAIMS = [
    Claim(
        "Paper, section on complexity",
        "With as many numbers, binding in GHRR takes at most m times as long as in FHRR.",
        _cost_is_at_most_m,
    )
]

EXPERIMENT = Experiment(
    name="compare-cost",
    title="Cost: time of the operations",
    caption=(
        "Time to bind and unbind a batch of 100 vectors of 2,304 reals with one key, to bundle them, and to find the "
        "most similar of 1,000 candidates for each, divided by the time of FHRR with as many bytes, measured "
        "alternately in one run on one thread."
    ),
    settings={
        "quick": {"reals": 2304, "batch": 100, "candidates": 1000, "repetitions": 15, "blocks": 2},
        "full": {"reals": 2304, "batch": 100, "candidates": 1000, "repetitions": 30, "blocks": 5},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
    exclusive=True,
)

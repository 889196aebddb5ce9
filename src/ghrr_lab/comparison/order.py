"""Order: the similarity of the products a∘b and b∘a, and of the paths a.b and b.a."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ghrr import models
from ghrr_lab.comparison.contestants import CORE, DIAGONALITIES, contestants, sized, title
from ghrr_lab.comparison.model_figures import summarise
from ghrr_lab.comparison.model_structures import rescale
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import equals, is_close, mean_with_error, rows_where
from ghrr_lab.paper.style import BLUE, GREY, new_figure, style

PRODUCTS, PATHS, READ = "a∘b and b∘a", "a.b and b.a", "read by b.a"


def trials(settings: Settings) -> list[Params]:
    return repeat(contestants([*CORE, *DIAGONALITIES]), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Compare a∘b with b∘a and a∘(b∘v) with b∘(a∘v), and read v from a∘(b∘v) by the path b.a."""
    model = sized(params, settings, order=3)
    n = settings["pairs_of_matrices"] if model.facts.matrix_keys else settings["pairs"]
    a, b = model.random_keys(2, n, generator=generator)
    v = model.random(n, generator=generator)
    there, back = (rescale(model, model.bind(x, model.bind(y, v))) for x, y in ((a, b), (b, a)))
    wrong = there
    for key in (b, a):
        wrong = model.unbind(wrong, key, side="left")
    measured = {
        PRODUCTS: _similarity_of_keys(model, model.bind_keys(a, b), model.bind_keys(b, a)),
        PATHS: model.similarity(there, back),
        READ: model.similarity(wrong, rescale(model, v)),
    }
    return pd.concat(
        [pd.DataFrame({**params, "task": task, "x": 2, "value": values.double()}) for task, values in measured.items()],
        ignore_index=True,
    )


def _similarity_of_keys(model: models.Architecture, a: Tensor, b: Tensor) -> Tensor:
    """Return the similarity of vectors of equal length, or the cosine of matrices."""
    if model.facts.matrix_keys:
        return torch.cosine_similarity(a.flatten(1), b.flatten(1))
    return model.similarity(rescale(model, a), rescale(model, b))


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    table = summarise(rows_where(data, task=PATHS))
    figure = new_figure(0.26 * len(table) + 0.9)
    axis = figure.subplots()
    y = np.arange(len(table))
    axis.errorbar(table["mean"], y, xerr=table["error"], fmt="o", color=BLUE, ms=5)
    for m, align in ((2, "center"), (3, "left"), (4, "right")):
        axis.axvline(1 / m**2, color=GREY, lw=0.8, ls=":")
        axis.text(1 / m**2, -0.8, f"1/{m**2}", ha=align, va="bottom", fontsize=8, color=GREY)
    labels = [title(model, budget) for model, budget in zip(table["model"], table["budget"], strict=True)]
    axis.set(yticks=y, yticklabels=labels, ylim=(len(table) - 0.5, -0.7), xlim=(-0.1, 1.05))
    axis.set_xlabel("similarity of a.b and b.a (1: order is lost)")
    return figure


def _similarity(data: pd.DataFrame, name: str) -> pd.Series[float]:
    return rows_where(data, task=PATHS, model=name)["value"]


def _commutative_models_lose_order(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        is_close(f"{name}: smallest similarity", float(values.min()), 1.0, tolerance=1e-5)
        for name in dict.fromkeys(data["model"])
        if models.make(name, reals=settings["reals"]).facts.commutative
        for values in [_similarity(data, name)]
    ]


def _ghrr_keeps_a_part(data: pd.DataFrame, settings: Settings) -> list[Check]:
    return [
        equals(f"GHRR, m = {m}", *mean_with_error(values), 1 / m**2)
        for m in (2, 3, 4)
        for values in [_similarity(data, f"ghrr-{m}")]
        if len(values)
    ]


CLAIMS = [
    Claim(
        "Facts of ghrr.models", "In commutative models a.b and b.a are the same vector.", _commutative_models_lose_order
    ),
    Claim(
        "Theory of ghrr.commutativity",
        "In GHRR with Haar rotations a.b and b.a have a similarity of 1/m².",
        _ghrr_keeps_a_part,
    ),
]

EXPERIMENT = Experiment(
    name="compare-order",
    title="Order: the paths a.b and b.a",
    caption="Mean similarity of a value at the path a.b with the same value at the path b.a.",
    settings={
        "quick": {"reals": 576, "pairs": 100, "pairs_of_matrices": 5, "blocks": 2},
        "full": {"reals": 576, "pairs": 200, "pairs_of_matrices": 20, "blocks": 10},
    },
    run_trial=run_trial,
    draw=draw,
    claims=CLAIMS,
    trials=trials,
)

"""Figures of comparisons: one line per model, with standard errors, GHRR in a panel of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ghrr_lab.comparison.contestants import title
from ghrr_lab.paper.statistics import rows_where
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, new_figure, style

_COLOURS = {
    "fhrr": BLACK,
    "hrr": BLUE,
    "hrr-unitary": SKY,
    "map": ORANGE,
    "map-continuous": RED,
    "bsc": GREEN,
    "sbc": PURPLE,
    "vtb": BLUE,
    "mbat": ORANGE,
    "smr": RED,
    "tpr": GREEN,
    "hlb": GREY,
    "ghrr-1": BLACK,
    "ghrr-2": BLUE,
    "ghrr-3": ORANGE,
    "ghrr-4": GREEN,
    "ghrr-3-diagonality-0.0": SKY,
    "ghrr-3-diagonality-0.5": PURPLE,
    "ghrr-3-diagonality-0.75": RED,
    "ghrr-3-diagonality-1.0": GREY,
}
_MARKERS = dict(zip(_COLOURS, "osP^vDXosP^vosDXvsP^", strict=True))
COMMUTATIVE = ("fhrr", "hrr", "hrr-unitary", "map", "map-continuous", "bsc", "sbc", "hlb")
NON_COMMUTATIVE = ("vtb", "mbat", "smr", "tpr")
PANELS = {"commutative models": COMMUTATIVE, "other models": NON_COMMUTATIVE, "GHRR": ()}


def summarise(data: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard error of ``value`` for every model, budget, task and x.

    Blocks are independent; measurements of a block may share keys. So the error is computed from the means of blocks.
    """
    entry = ["task", "model", "budget", "x"]
    blocks = data.groupby([*entry, "block"], sort=False)["value"].mean().reset_index()
    table = blocks.groupby(entry, sort=False)["value"].agg(["mean", "std", "count"]).reset_index()
    return table.assign(error=table["std"].fillna(0) / np.sqrt(table["count"])).drop(columns=["std", "count"])


def panel_of(model: str) -> str:
    """Return the panel of a model."""
    found = [name for name, members in PANELS.items() if model in members]
    return found[0] if found else "GHRR"


def draw_lines(axis: Axes, table: pd.DataFrame) -> None:
    """Draw a line with error bars per model and budget; equal bytes are dashed."""
    for (model, budget), rows in table.sort_values("x", kind="stable").groupby(["model", "budget"], sort=False):
        axis.errorbar(
            rows["x"],
            rows["mean"],
            yerr=rows["error"],
            color=_COLOURS[str(model)],
            marker=_MARKERS[str(model)],
            ls="--" if budget == "bytes" else "-",
            ms=4,
            lw=1.2,
            label=title(str(model), str(budget)),
        )


@style()
def draw_panels(
    data: pd.DataFrame, *, task: str | None = None, x: str, y: str, log: bool = True, ticks: Sequence[float] = ()
) -> Figure:
    """Draw the means of one task against x, in a panel for commutative models, one for others and one for GHRR."""
    table = summarise(data if task is None else rows_where(data, task=task))
    panels = {name: table[table["model"].map(panel_of) == name] for name in PANELS}
    panels = {name: rows for name, rows in panels.items() if len(rows)}
    figure = new_figure(2.5 * len(panels) + 0.4)
    axes = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True, sharey=True))
    for axis, (name, rows) in zip(axes, panels.items(), strict=True):
        draw_lines(axis, rows)
        axis.set_title(name)
        axis.set_ylabel(y)
        if log:
            axis.set_xscale("log", base=2)
        if len(ticks):
            axis.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    axes[-1].set_xlabel(x)
    return figure

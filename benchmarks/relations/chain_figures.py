"""Figures of docs/results/relations-chains.md, from the stored results of ``relations/chains.py``.

Usage::

    python -m benchmarks relations.chain_figures
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.common.figure_files import write_figures
from benchmarks.common.paths import ROOT
from benchmarks.relations import chain_tables
from ghrr_lab.paper.style import BLACK, GREY, M_COLOURS, M_MARKERS, new_figure, style

FOLDER = ROOT / "docs" / "results" / "images"
SHOWN = ("father", "mother", "son", "daughter", "brother", "sister", "husband", "wife")
SIZES = (1, 2, 4, 8)
TITLES = {"train-2-3": "trained on 2 and 3 steps", "train-2-3-4": "trained on 2 to 4 steps"}


@style()
def accuracy() -> Figure:
    """Share of correct answers against the length of the chain, with and without clean-up."""
    figure = new_figure(5.6)
    axes = figure.subplots(2, 2, sharey=True)
    for row, (kind, label) in enumerate((("path", "CLUTRR"), ("generated", "generated"))):
        for axis, (folder, title) in zip(axes[row], TITLES.items(), strict=True):
            for m in SIZES:
                for method, line in (("chart", "-"), ("product", ":")):
                    shares = chain_tables.shares(folder, "hypervectors", method, kind, m=m)
                    style_of_m = {"color": M_COLOURS[m], "marker": M_MARKERS[m], "markersize": 4.5}
                    axis.plot(list(shares), list(shares.values()), linestyle=line, **style_of_m)
            counted = chain_tables.shares(folder, "table", "chart of pairs", kind)
            axis.plot(list(counted), list(counted.values()), color=GREY, linestyle="--", linewidth=1)
            axis.set(title=f"{label}, {title}", ylim=(0, 1.04))
            if kind == "generated":
                axis.set(xscale="log", xlabel="steps")
                axis.set_xticks(list(counted), [str(length) for length in counted])
                axis.minorticks_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("share of correct answers")
    for m in SIZES:
        axes[0, 0].plot([], [], color=M_COLOURS[m], marker=M_MARKERS[m], markersize=4.5, label=f"m = {m}")
    for line, colour, label in (
        ("-", BLACK, "all bracketings, with clean-up"),
        (":", BLACK, "one product, no clean-up"),
        ("--", GREY, "counted pairs, all bracketings"),
    ):
        axes[0, 0].plot([], [], color=colour, linestyle=line, label=label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@style()
def table() -> Figure:
    """Composition of pairs of relations, read out of the learned vectors."""
    cells = {(a, b): (answer, share, seen) for a, b, answer, share, seen in chain_tables.stored()["table"]["cells"]}
    figure = new_figure(5.2)
    axis = figure.subplots()
    shares = [[cells[a, b][1] for b in SHOWN] for a in SHOWN]
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1.8, aspect="auto")
    for i, a in enumerate(SHOWN):
        for j, b in enumerate(SHOWN):
            answer, _, seen = cells[a, b]
            text = answer.replace("-in-law", "\n-in-law").replace("grand", "grand\n")
            axis.text(j, i, text, ha="center", va="center", fontsize=8, fontweight="bold" if seen else "normal")
    axis.set_xticks(range(len(SHOWN)), SHOWN)
    axis.set_yticks(range(len(SHOWN)), SHOWN)
    axis.set(xlabel="second step", ylabel="first step")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    return figure


FIGURES = {"chains-accuracy": accuracy, "chains-table": table}


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Draw all figures; returns their paths."""
    return write_figures(FIGURES, FOLDER, "Figures of the results on chains of relations.", arguments)

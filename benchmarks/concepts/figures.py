"""Figures of the concept pages, drawn from stored measurements and theory.

The measurements come from ``concepts/measure.py``, for recall from ``examples/record_capacity.py``, and for
architectures of ``ghrr compare``; lines are theory.
Figures have a white background, so that they can be read on a dark page too. They are drawn again, without measuring,
by::

    python -m benchmarks concepts.figures
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ghrr
from benchmarks.common.figure_files import write_figures
from benchmarks.common.paths import RESULTS, ROOT
from benchmarks.concepts.measure import ROTATIONS, TAIL_M, TREE_DEPTH, TREE_M, TREE_TOTAL
from ghrr import models
from ghrr.capacity import diagonal_weight, recall_error
from ghrr.structures import Record
from ghrr_lab.comparison.contestants import TITLES
from ghrr_lab.paper import COMPARISONS
from ghrr_lab.paper.style import BLACK, BLUE, GREEN, GREY, M_COLOURS, M_MARKERS, ORANGE, new_figure, style
from ghrr_lab.paper.theory.trees import PERMUTED, theory

FOLDER = ROOT / "docs" / "concepts" / "images"
ROTATION_LOOKS = {"varying": (BLUE, "o"), "fixed": (ORANGE, "s"), "shared": (GREEN, "^")}
Row = dict[str, Any]


@functools.cache
def stored() -> dict[str, Any]:
    """Read the measurements of concepts.py."""
    report: dict[str, Any] = json.loads((RESULTS / "concepts.json").read_text(encoding="utf-8"))
    return report


@functools.cache
def stored_recall() -> dict[str, Any]:
    """Read the measurements of examples/record_capacity.py."""
    path = ROOT / "examples" / "results" / "record_capacity.json"
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def points(axes: Axes, rows: Iterable[Row], x: Callable[[Row], float], key: str, m: int) -> None:
    """Draw measurements with error bars of two standard errors, in the colour and marker of m."""
    chosen = list(rows)
    axes.errorbar(
        [x(row) for row in chosen],
        [row[key] for row in chosen],
        [2 * row["error"] for row in chosen],
        color=M_COLOURS[m],
        marker=M_MARKERS[m],
        markersize=4.5,
        linestyle="",
        capsize=2,
        label=f"m = {m}",
    )


@style()
def order() -> Figure:
    """Similarity of a * b and b * a: against m, and against diagonality."""
    rows = stored()["order"]
    figure = new_figure(3.2)
    left, right = figure.subplots(1, 2, sharey=True)
    ms = [row["m"] for row in rows if row["diagonality"] is None]
    left.plot(ms, [1 / m**2 for m in ms], color=GREY, linewidth=1)
    for row in rows:
        if row["diagonality"] is None:
            points(left, [row], lambda r: float(r["m"]), "mean", row["m"])
    left.set(xlabel="m", xticks=ms, ylabel="similarity of a * b and b * a", title="random rotations: 1/m²")
    grid = [step / 50 for step in range(51)]
    for m in TREE_M:
        right.plot(grid, [diagonal_weight(m, value) ** 2 for value in grid], color=M_COLOURS[m], linewidth=1)
        points(right, _with_diagonality(rows, m), lambda r: float(r["diagonality"]), "mean", m)
    right.set(xlabel="diagonality", title="rotations of a given diagonality")
    right.legend(title="marks: measured\nlines: theory")
    return figure


def _with_diagonality(rows: Iterable[Row], m: int) -> list[Row]:
    return [row for row in rows if row["m"] == m and row["diagonality"] is not None]


@style()
def trees() -> Figure:
    """Share of the values of a nested dictionary that are read, against diagonality."""
    rows = stored()["trees"]
    figure = new_figure(3.4)
    axes = figure.subplots()
    for m in TREE_M:
        dim = ghrr.Space.from_total(TREE_TOTAL, m).dim
        measured = _with_diagonality(rows, m)
        grid = [row["diagonality"] for row in measured]
        lines = [theory(TREE_DEPTH, dim, m, diagonality=value) for value in grid]
        axes.plot(grid, lines, color=M_COLOURS[m], linewidth=1)
        points(axes, measured, lambda r: float(r["diagonality"]), "mean", m)
    for permuted, line, label in ((True, ":", "m = 1, with shifts"), (False, "--", "m = 1, no shifts")):
        axes.axhline(theory(TREE_DEPTH, TREE_TOTAL, 1, permuted=permuted), color=BLACK, linestyle=line, label=label)
        row = next(row for row in rows if row["m"] == 1 and (row["kind"] == PERMUTED) == permuted)
        axes.errorbar([1.0], row["mean"], 2 * row["error"], color=BLACK, marker=M_MARKERS[1], markersize=4.5)
    axes.set(xlabel="diagonality", ylabel="share of values read", ylim=(0, 1.05))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", title="marks: measured\nlines: theory")
    return figure


@style()
def noise() -> Figure:
    """Noise against total dimension, and recall error against the number of pairs."""
    figure = new_figure(3.2)
    left, right = figure.subplots(1, 2)
    rows = stored()["noise"]
    totals = sorted({row["total_dim"] for row in rows})
    left.plot(totals, [1 / math.sqrt(2 * total) for total in totals], color=GREY, linewidth=1)
    for m in sorted({row["m"] for row in rows}):
        points(left, [row for row in rows if row["m"] == m], lambda r: float(r["total_dim"]), "std", m)
    left.set(xscale="log", yscale="log", xlabel="total dimension D m²", title="noise: 1/√(2 D m²)")
    left.set(ylabel="standard deviation of δ", xticks=[200, 1000, 4000], xticklabels=["200", "1000", "4000"])
    left.set(yticks=[0.01, 0.02, 0.05], yticklabels=["0.01", "0.02", "0.05"])
    left.minorticks_off()
    left.legend()
    setting = stored_recall()["setting"]
    space = ghrr.Space(setting["total_dim"], 1)
    sizes = range(2, max(setting["sizes"]) + 1)
    errors = [recall_error(n, setting["words"], space.noise_std, space.crosstalk_std) for n in sizes]
    right.plot(sizes, errors, color=GREY, linewidth=1)
    for m in setting["m"]:
        measured = [
            {"items": point["leaves"], "wrong": 1 - point["recall"]["mean"], "error": point["recall"]["error"]}
            for point in stored_recall()["points"]
            if point["m"] == m
        ]
        points(right, measured, lambda r: float(r["items"]), "wrong", m)
    right.set(xlabel="pairs in one hypervector", ylabel="share of wrong answers")
    right.set_title(f"recall, total dimension {setting['total_dim']}")
    return figure


def tail_theory(x: float, rotation: str) -> float:
    """Predict the share of similarities beyond x, in units of the noise of varying rotations, for m = 2.

    For a fixed rotation the variance of a pair is |Q_11|² + |Q_22|² = 2u, with u uniform between 0 and 1.
    """
    variances = torch.ones(1, dtype=torch.float64)
    if rotation == "shared":
        variances = variances * TAIL_M
    if rotation == "fixed":
        variances = 2 * (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    return float(torch.special.erfc(x / torch.sqrt(2 * variances)).mean())


@style()
def tails() -> Figure:
    """Share of similarities beyond a threshold, for each kind of rotation."""
    rows = {row["rotation"]: row for row in stored()["rotations"]}
    figure = new_figure(3.2)
    axes = figure.subplots()
    grid = [step / 20 for step in range(101)]
    for rotation in ROTATIONS:
        colour, marker = ROTATION_LOOKS[rotation]
        axes.plot(grid, [tail_theory(x, rotation) for x in grid], color=colour, linewidth=1)
        total = rows[rotation]["pairs"]
        shares = {float(x): count / total for x, count in rows[rotation]["beyond"].items() if count}
        errors = [2 * math.sqrt(share * (1 - share) / total) for share in shares.values()]
        axes.errorbar(
            list(shares), list(shares.values()), errors, color=colour, marker=marker, markersize=4, linestyle=""
        )
        axes.plot([], [], color=colour, marker=marker, markersize=4, label=rotation)
    axes.set(yscale="log", ylim=(3e-6, 1.5), xlim=(0, 5))
    axes.set(xlabel="threshold, in units of 1/√(2 D m²)", ylabel="share of |δ| beyond it")
    axes.legend(title="rotation (marks: measured, lines: theory)")
    return figure


@style()
def sizes() -> Figure:
    """Total dimension that a number of pairs needs, for right and for confident answers. Theory only."""
    figure = new_figure(3.2)
    axes = figure.subplots()
    items = [5, 10, 20, 50, 100, 200, 500]
    for candidates, colour in ((100, BLUE), (10_000, ORANGE)):
        confident = [Record.suggest(count, values=candidates, m=1).dim for count in items]
        right = [ghrr.Space.suggest(count, m=1, candidates=candidates).dim for count in items]
        axes.plot(
            items, confident, color=colour, marker="o", markersize=4, label=f"confident, {candidates:,} candidates"
        )
        axes.plot(items, right, color=colour, linestyle="--", label=f"right, {candidates:,} candidates")
    axes.set(xscale="log", yscale="log", xlabel="pairs in one hypervector", ylabel="total dimension D m²")
    axes.set(xticks=items, xticklabels=[str(count) for count in items])
    axes.set(yticks=[100, 1000, 10_000], yticklabels=["100", "1,000", "10,000"])
    axes.minorticks_off()
    axes.legend(title="99 % of the answers are")
    return figure


@style()
def architectures() -> Figure:
    """Draw the members found in bundles of several models: measured by ``ghrr compare``, and by theory."""
    looks = {
        ("sbc", "reals"): (GREEN, "D"),
        ("fhrr", "both"): (BLACK, "o"),
        ("bsc", "reals"): (BLUE, "s"),
        ("ghrr-3-diagonality-1.0", "both"): (ORANGE, "^"),
    }
    path = ROOT / "results" / "compare" / "summary.json"
    rows = [row for row in json.loads(path.read_text(encoding="utf-8")) if row["experiment"] == "compare-bundling"]
    settings = COMPARISONS["compare-bundling"].settings["full"]
    figure = new_figure(3.4)
    axes = figure.subplots()
    grid = sorted({round(2 ** (n / 4)) for n in range(8, 30)})
    for (name, budget), (colour, marker) in looks.items():
        model = models.make(name, reals=settings["reals"])
        predicted = [models.bundling_accuracy(model, items, settings["candidates"]) for items in grid]
        axes.plot(grid, predicted, color=colour, lw=1.2)
        found = [r for r in rows if (r["model"], r["budget"], r["task"]) == (name, budget, "bundle")]
        x, y, error = ([row[key] for row in found] for key in ("x", "mean", "error"))
        axes.errorbar(
            x, y, [2 * e for e in error], fmt=marker, color=colour, ms=5, label=TITLES[name].replace(", ", ",\n", 1)
        )
    axes.set(xscale="log", xlabel="items in the bundle", ylabel="share of members found", ylim=(0.3, 1.03))
    axes.set_xticks(settings["items"], labels=[str(items) for items in settings["items"]])
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), title="576 numbers")
    return figure


FIGURES = {
    "order": order,
    "trees": trees,
    "noise": noise,
    "tails": tails,
    "sizes": sizes,
    "architectures": architectures,
}


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Draw all figures; returns their paths."""
    return write_figures(FIGURES, FOLDER, "Figures of the concept pages from stored measurements.", arguments)

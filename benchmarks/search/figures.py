"""Figure of docs/results/search.md, from the stored results of ``search/measure.py``.

Usage::

    python -m benchmarks search.figures
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.common.figure_files import write_figures
from benchmarks.common.paths import ROOT
from benchmarks.search import tables as search_tables
from ghrr_lab.paper.style import BLUE, GREY, M_COLOURS, M_MARKERS, ORANGE, new_figure, style

FOLDER = ROOT / "docs" / "results" / "images"


@style()
def recall() -> Figure:
    """Recall on the linkage sets, and recall against the size of a record."""
    figure = new_figure(3.4)
    bars, lines = figure.subplots(1, 2, width_ratios=(1.7, 1))
    groups = search_tables.first_recalls()
    methods = list(next(iter(groups.values())))
    for place, (method, colour) in enumerate(zip(methods, (GREY, BLUE, ORANGE), strict=True)):
        heights = [own[method] for own in groups.values()]
        bars.bar([i + 0.27 * (place - 1) for i in range(len(groups))], heights, 0.25, color=colour, label=method)
    bars.set_xticks(range(len(groups)), [name.replace("-", "-\n") for name in groups])
    bars.set(ylim=(0.5, 1), ylabel="partner is first")
    for (m, method), points in search_tables.recalls_by_size().items():
        line = "-" if method == "vectors" else ":"
        lines.plot(
            *zip(*points, strict=True), line, color=M_COLOURS[m], marker=M_MARKERS[m], label=f"m = {m}, {method}"
        )
    lines.set(xscale="log", xlabel="bytes per record, Abt-Buy", ylim=(0.58, 0.94))
    ticks = sorted({size for points in search_tables.recalls_by_size().values() for size, _ in points})
    lines.set_xticks(ticks, [str(size) for size in ticks])
    lines.minorticks_off()
    lines.legend(fontsize=7, loc="lower right")
    figure.legend(*bars.get_legend_handles_labels(), loc="outside lower left", ncols=3)
    return figure


FIGURES = {"search-recall": recall}


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Draw the figure; returns its path."""
    return write_figures(FIGURES, FOLDER, "Figure of the results on search.", arguments)

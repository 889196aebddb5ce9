"""Draw the mean ranks of ``benchmarks/learn/measure.py`` with the critical difference of Nemenyi."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.learn.tables import WITH_ALL, WITH_TORCH_HD
from ghrr.files import atomic_write
from ghrr_lab.paper.style import BLUE, GREEN, ORANGE, style, to_png

_STYLES = {"ghrr": ("ghrr", BLUE, "o"), "torch-hd": ("torch-hd", ORANGE, "s"), "baseline": ("baseline", GREEN, "D")}


def figure(report: Mapping[str, Any]) -> Figure:
    """Draw one panel per comparison that has data sets: a method is a point, its bar half the critical difference."""
    shown = [WITH_TORCH_HD] + [WITH_ALL] * ("mean_ranks" in report["ranks"][WITH_ALL])
    families = {row["method"]: row["family"] for row in report["rows"]}
    heights = [len(report["ranks"][title]["methods"]) + 3 for title in shown]
    result = Figure(figsize=(4.4, 0.26 * sum(heights)), layout="constrained")
    panels = result.subplots(len(shown), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for axes, title in zip(panels, shown, strict=True):
        _panel(axes, report["ranks"][title], families)
    labels = {name: handle for axes in panels for handle, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    result.legend(labels.values(), labels.keys(), loc="outside upper left", ncols=3)
    return result


def _panel(axes: Axes, compared: Mapping[str, Any], families: Mapping[str, str]) -> None:
    count = len(compared["sets"])
    axes.set_title(f"{len(compared['methods'])} methods, {count} data sets")
    if "mean_ranks" not in compared:
        return
    ordered = sorted(compared["mean_ranks"].items(), key=lambda item: item[1])
    half = compared["critical_difference"] / 2
    for family, (label, colour, marker) in _STYLES.items():
        places = [place for place, (method, _) in enumerate(ordered) if families[method] == family]
        if places:
            values = [ordered[place][1] for place in places]
            axes.errorbar(values, places, xerr=half, fmt=marker, color=colour, markersize=6, capsize=3, label=label)
    axes.axvline(ordered[0][1] + half, color=_STYLES[families[ordered[0][0]]][1], linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(ordered)), [method for method, _ in ordered])
    axes.invert_yaxis()
    axes.set(xlabel="mean rank (1 is best)", xlim=(0.5, len(ordered) + 0.5))


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Write the figure."""
    with style():
        drawn = figure(report)
    with atomic_write(path) as temporary:
        temporary.write_bytes(to_png(drawn))

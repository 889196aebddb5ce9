"""Figures of the stored results of ``benchmarks/ops/speed.py``: time against m, batch size, dim and number of items.

To draw them again from the stored results::

    python -m benchmarks ops.figures
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.common.paths import RESULTS
from ghrr.files import atomic_write
from ghrr_lab.paper.style import BLACK, BLUE, GREY, ORANGE, style, to_png

LINES = {
    "ours": ("ghrr", BLUE, "o"),
    "matmul": ("torch.matmul", ORANGE, "s"),
    "FHRR": ("elementwise product (FHRR)", BLACK, "^"),
    "copy": ("copy of as many bytes", GREY, "D"),
}
Row = dict[str, Any]


def numbers_of(row: Row) -> int:
    """Return the number of complex numbers per operand, by which times are divided."""
    setting = row["setting"]
    count: int = setting["dim"] * setting["m"] ** 2 * setting.get("batch", 1) * setting.get("items", 1)
    return count


def draw(axes: Axes, rows: Sequence[Row], key: str, title: str) -> None:
    """Plot nanoseconds per complex number against one setting: medians, with quartiles as error bars."""
    for name, (label, colour, marker) in LINES.items():
        points = [row for row in rows if name in row["seconds"]]
        if not points:
            continue
        x = [row["setting"][key] for row in points]
        low, y, high = (
            [1e9 * row["seconds"][name][part] / numbers_of(row) for row in points] for part in ("low", "median", "high")
        )
        bars = [[b - a for a, b in zip(low, y, strict=True)], [b - a for a, b in zip(y, high, strict=True)]]
        axes.errorbar(x, y, yerr=bars, color=colour, marker=marker, markersize=4, linewidth=1.2, capsize=2, label=label)
    axes.set_yscale("log")
    if key != "m":
        axes.set_xscale("log")
    axes.set_xlabel({"m": "m, at equal total dimension", "items": "number of items"}.get(key, key))
    axes.set_title(title)


def figure(report: dict[str, Any], panels: Sequence[tuple[str, str, str]]) -> Figure | None:
    """Draw a panel for each (group, setting, title) that has results; return None if there are none."""
    groups = [
        (rows, key, title)
        for group, key, title in panels
        if (rows := [row for row in report["rows"] if row["group"] == group and row["right"]])
    ]
    if not groups:
        return None
    result = Figure(figsize=(3.6 * len(groups) + 0.4, 3.2), layout="constrained")
    all_axes = result.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    for axes, (rows, key, title) in zip(all_axes, groups, strict=True):
        draw(axes, rows, key, title)
    all_axes[0].set_ylabel("ns per complex number")
    result.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return result


PANELS = {
    "m": [
        ("bind, in cache", "m", "bind, batch 16 (in cache)"),
        ("bind, out of cache", "m", "bind, large batch (out of cache)"),
        ("bind", "m", "bind"),
        ("gradient by a", "m", "gradient by the left factor"),
        ("gradient by b", "m", "gradient by the right factor"),
    ],
    "sizes": [
        ("bind by batch", "batch", "bind, m = 3"),
        ("bind by dim", "dim", "bind, m = 3, batch 16"),
        ("bind_bundle by items", "items", "bind and bundle, m = 3"),
    ],
}


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Draw the figures of all stored results, and return their paths."""
    parser = argparse.ArgumentParser(description="Figures from the stored results of benchmarks/ops/speed.py.")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder with the results")
    options = parser.parse_args(list(sys.argv[1:] if arguments is None else arguments))
    written = []
    for name in ("speed", "speed_gpu"):
        stored = options.out / f"{name}.json"
        if not stored.exists():
            continue
        report = json.loads(stored.read_text(encoding="utf-8"))
        for word, panels in PANELS.items():
            with style():
                drawn = figure(report, panels)
            if drawn is None:
                continue
            path = options.out / f"{name}_{word}.png"
            with atomic_write(path) as temporary:
                temporary.write_bytes(to_png(drawn))
            written.append(path)
    if not written:
        parser.error(f"there is no speed.json in {options.out}; create it with python -m benchmarks ops.speed")
    print("\n".join(path.name for path in written))
    return written

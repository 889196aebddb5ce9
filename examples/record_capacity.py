"""Compare predicted with measured recall, for records of growing size.

Nested records of n leaves, with values drawn from 1000 words, are encoded in spaces of one total dimension and m = 1,
2, 3 and 4. Then every leaf is queried. Theory (``ghrr.capacity.recall_error``) predicts how often the best of all words
is correct; it depends on the total dimension, not on m. Measured are:

- recall: the share of leaves whose best match is correct;
- confident: the share of leaves whose match is confident at 99 %, and the share of those that is correct;
- decoded: the same for ``decode``, which subtracts confident leaves from the record and reads the others again.

Error bars are standard errors over records. Run it with::

    python examples/record_capacity.py            # a minute or two
    python examples/record_capacity.py --quick    # seconds, small sizes
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ghrr
from ghrr.capacity import recall_error
from ghrr.files import atomic_write
from ghrr.memory.match import Match
from ghrr.structures import CapacityWarning, Record
from ghrr_lab.paper.style import BLACK, GREY, M_COLOURS, M_MARKERS, style

ERROR = 0.01  # the share of wrong answers at which the capacity is marked in the figure


@dataclass(frozen=True)
class Setting:
    """Sizes of the experiment."""

    total_dim: int
    sizes: tuple[int, ...]  # leaves per record
    m: tuple[int, ...]
    words: int
    answers: int  # least number of leaves queried per point


FULL = Setting(
    total_dim=900, sizes=(10, 20, 30, 40, 55, 75, 100, 140, 200, 280), m=(1, 2, 3, 4), words=1000, answers=6000
)
QUICK = Setting(total_dim=144, sizes=(4, 8, 16, 32), m=(1, 3), words=100, answers=400)


def make_records(setting: Setting, leaves: int, seed: int) -> list[dict[str, Any]]:
    """Return records of two levels, ten leaves in each group."""
    rng = random.Random(seed)  # noqa: S311 (nothing here is secret)
    count = math.ceil(setting.answers / leaves)
    return [make_record([f"word {rng.randrange(setting.words)}" for _ in range(leaves)]) for _ in range(count)]


def make_record(words: Sequence[str]) -> dict[str, Any]:
    """Return a record with these leaves."""
    record: dict[str, Any] = {}
    for n, word in enumerate(words):
        record.setdefault(f"group {n // 10}", {})[f"key {n % 10}"] = word
    return record


def mean_and_error(shares: list[float]) -> dict[str, float]:
    """Return the mean over records and its standard error."""
    values = torch.tensor(shares, dtype=torch.float64)
    return {"mean": float(values.mean()), "error": float(values.std() / math.sqrt(len(values)))}


def shares(matches: Sequence[Match], correct: Sequence[str]) -> dict[str, float]:
    """Return the shares of the answers of one record that are correct, confident, and both."""
    is_correct = [match.guess == word for match, word in zip(matches, correct, strict=True)]
    sure = [match.confident for match in matches]
    both = [a and b for a, b in zip(is_correct, sure, strict=True)]
    return {name: sum(flags) / len(matches) for name, flags in (("recall", is_correct), ("sure", sure), ("both", both))}


def measure(setting: Setting, m: int, leaves: int, seed: int) -> dict[str, Any]:
    """Return one point of the figure: predicted and measured recall."""
    space = ghrr.Space.from_total(setting.total_dim, m, seed=seed)
    warnings.simplefilter("ignore", CapacityWarning)  # the figure shows spaces that are too small
    codec = Record(space)
    codec.encode_many([make_record([f"word {n}"] * leaves) for n in range(setting.words)])  # all are candidates
    known = len(codec.values)
    records = make_records(setting, leaves, seed)
    rows = codec.encode_many(records)
    paths = [[f"group {n // 10}", f"key {n % 10}"] for n in range(leaves)]
    single, decoded = [], []
    for record, h, matches in zip(records, rows, codec.query_many(rows, paths), strict=True):
        correct = [record[group][key] for group, key in paths]
        single.append(shares(matches, correct))
        reading = codec.decode(h, like=record).matches
        decoded.append(shares([reading[group, key] for group, key in paths], correct))
    return {
        "m": m,
        "dim": space.dim,
        "leaves": leaves,
        "records": len(records),
        "predicted_recall": 1 - recall_error(leaves, known, space.noise_std, space.crosstalk_std),
        "recall": mean_and_error([row["recall"] for row in single]),
        "confident": summarize(single, leaves),
        "decoded": summarize(decoded, leaves),
    }


def summarize(rows: list[dict[str, float]], leaves: int) -> dict[str, Any]:
    """Return share and number of confident answers, and the share of them that is correct, None if there are none."""
    sure, both = sum(row["sure"] for row in rows), sum(row["both"] for row in rows)
    share = mean_and_error([row["sure"] for row in rows])
    return {"share": share, "count": round(sure * leaves), "right": both / sure if sure else None}


def table(points: list[dict[str, Any]]) -> str:
    """Return the results as text."""
    lines = [
        "recall of single leaves, and share of confident leaves (in brackets: share of these that is correct)",
        f"{'m':>2}{'leaves':>8}{'predicted':>11}{'measured':>18}{'confident':>20}{'decoded':>20}",
    ]
    for point in points:
        recall = f"{point['recall']['mean']:.4f} ± {point['recall']['error']:.4f}"
        cells = [
            f"{part['share']['mean']:.3f} " + ("(none)" if part["right"] is None else f"({part['right']:.4f})")
            for part in (point["confident"], point["decoded"])
        ]
        lines.append(
            f"{point['m']:>2}{point['leaves']:>8}{point['predicted_recall']:>11.4f}{recall:>18}{cells[0]:>20}{cells[1]:>20}"
        )
    return "\n".join(lines)


# The figure


def draw(setting: Setting, points: list[dict[str, Any]]) -> Figure:
    """Draw predicted and measured recall on the left, confident answers on the right."""
    with style():
        figure = Figure(figsize=(9.6, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharex=True)
        _draw_recall(left, setting, points)
        _draw_confident(right, setting, points)
        for axis in (left, right):
            axis.set(xscale="log", ylim=(0, 1.03))
            axis.set_xticks(setting.sizes, [str(size) for size in setting.sizes])
            axis.set_xticks([], minor=True)
    return figure


def _draw_recall(axis: Axes, setting: Setting, points: list[dict[str, Any]]) -> None:
    space = ghrr.Space.from_total(setting.total_dim, 1)
    lowest, highest = min(setting.sizes), max(setting.sizes)
    grid = sorted({round(lowest * (highest / lowest) ** (step / 100)) for step in range(101)})
    predicted = [1 - recall_error(n, setting.words, space.noise_std, space.crosstalk_std) for n in grid]
    axis.plot(grid, predicted, color=GREY, lw=2, label="predicted, any m", zorder=1)
    for m in setting.m:
        chosen = [point for point in points if point["m"] == m]
        axis.errorbar(
            _positions(setting, chosen, m),
            [point["recall"]["mean"] for point in chosen],
            yerr=[2 * point["recall"]["error"] for point in chosen],
            fmt=M_MARKERS[m],
            color=M_COLOURS[m],
            ms=4,
            capsize=2,
            label=f"measured, m = {m}",
        )
    capacity = space.capacity(candidates=setting.words, error=ERROR)
    axis.axvline(capacity, color=BLACK, lw=0.8, ls=":")
    axis.annotate(
        f"capacity at\n{ERROR:.0%} errors:\n{capacity} leaves",
        (capacity, 0.6),
        xytext=(-6, 0),
        ha="right",
        textcoords="offset points",
    )
    axis.set(xlabel="leaves in one record", ylabel="share of leaves read correctly (± 2 standard errors)")
    axis.set_title(f"Recall among {setting.words} words, total_dim {setting.total_dim}")
    axis.legend(loc="lower left")


def _draw_confident(axis: Axes, setting: Setting, points: list[dict[str, Any]]) -> None:
    for name, line, label in (("confident", "--", "one at a time"), ("decoded", "-", "decoded together")):
        for m in setting.m:
            chosen = [point for point in points if point["m"] == m]
            axis.errorbar(
                _positions(setting, chosen, m),
                [point[name]["share"]["mean"] for point in chosen],
                yerr=[2 * point[name]["share"]["error"] for point in chosen],
                ls=line,
                lw=1,
                marker=M_MARKERS[m],
                color=M_COLOURS[m],
                ms=4,
                capsize=2,
                label=f"{label}, m = {m}",
            )
    axis.set(xlabel="leaves in one record", ylabel="share of leaves called confident (± 2 standard errors)")
    sure = [point[name] for point in points for name in ("confident", "decoded") if point[name]["count"]]
    correct, count = sum(part["right"] * part["count"] for part in sure), sum(part["count"] for part in sure)
    axis.set_title(f"Called confident at 99 %: {correct:.0f} of {count} are correct")
    axis.legend(loc="lower left", fontsize=8)


def _positions(setting: Setting, points: list[dict[str, Any]], m: int) -> list[float]:
    """Return the positions of points, slightly shifted for each m, so that none hides another."""
    step = 1.015 ** (setting.m.index(m) - (len(setting.m) - 1) / 2)
    return [step * float(point["leaves"]) for point in points]


# The command


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print the table, write numbers and figure, and return the numbers."""
    parser = argparse.ArgumentParser(description="Compare predicted with measured recall of records.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds instead of minutes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.seed < 0:
        parser.error("--seed must be at least 0")
    setting = QUICK if options.quick else FULL

    start = time.perf_counter()
    points = [measure(setting, m, leaves, options.seed) for m in setting.m for leaves in setting.sizes]
    print(table(points))
    report = {
        "command": shlex.join(["python", "examples/record_capacity.py", *given]),
        "seed": options.seed,
        "seconds": round(time.perf_counter() - start, 1),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "setting": asdict(setting),
        "points": points,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    with atomic_write(options.out / "record_capacity.json") as path:
        path.write_text(json.dumps(report, indent=1) + "\n")
    figure = draw(setting, points)
    with style(), atomic_write(options.out / "record_capacity.png") as path:
        figure.savefig(path, format="png", dpi=120, metadata={"Software": None})
    print(f"wrote record_capacity.json and .png in {options.out}")
    return report


if __name__ == "__main__":
    main()

"""Measure the largest codebooks for which a resonator finds the factors of a product, by dimension and m.

A product has three factors, one from each of three codebooks of n random hypervectors. ``resonator``, with its default
settings, searches the n³ combinations. Measured are, for m = 1 to 4 at equal total dimension:

- the share of products whose factors are found, and the limit: the n at which half are found, by interpolation;
- the number of wrong answers, and how often the same factors in reverse order are found, which is wrong for m > 1;
- variants of the search: the projection of the estimates, and noise on the weights.

Result (``results/resonator_limits.json``): all m have the same limit at equal total dimension. It grows about like the
square root of the total dimension. Beyond the limit the search mostly reports that it found nothing; use a larger
dimension for larger codebooks. No answer was wrong, and for m > 1 none was in reverse order.

Run it with::

    python examples/resonator_limits.py            # minutes
    python examples/resonator_limits.py --quick    # seconds, small sizes
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr.files import atomic_write
from ghrr.memory import Factors, resonator
from ghrr_lab.paper.style import BLUE, GREY, M_COLOURS, M_MARKERS, ORANGE, style

FACTORS = 3
PROJECTIONS = ("norm", "phase", "polar")
JITTERS = (0.0, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Setting:
    """Sizes of the experiment."""

    ms: tuple[int, ...]
    totals: tuple[int, ...]  # multiples of 144, which 1, 4, 9 and 16 divide
    sizes: tuple[int, ...]
    books: int  # sets of codebooks per point
    products: int  # products per set
    variants_at: tuple[int, int, int]  # m, total dimension and size for the comparison of variants


FULL = Setting(
    ms=(1, 2, 3, 4),
    totals=(288, 576, 1152, 2304),
    sizes=(8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768),
    books=4,
    products=25,
    variants_at=(2, 576, 96),
)
QUICK = Setting(ms=(1, 2), totals=(144, 288), sizes=(4, 32, 160), books=2, products=8, variants_at=(2, 288, 32))


# Measurements


def draw(space: ghrr.Space, size: int, products: int) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
    """Return codebooks, products, the indices of their factors, and the products in reverse order."""
    generator = space.generator(f"resonator, {size}")
    books = [space.random(size, generator=generator) for _ in range(FACTORS)]
    chosen = torch.randint(0, size, (products, FACTORS), generator=generator)
    parts = [book[chosen[:, i]] for i, book in enumerate(books)]
    return books, ghrr.multibind(parts), chosen, ghrr.multibind(parts[::-1])


def count(answer: Factors, chosen: Tensor) -> dict[str, int]:
    """Return the number of found products, of wrong ones among them, and of iterations."""
    correct = (answer.indices == chosen).all(dim=-1)
    return {
        "found": int(answer.found.sum()),
        "wrong": int((answer.found & ~correct).sum()),
        "iterations": int(answer.iterations.sum()),
    }


def measure(setting: Setting, m: int, total: int, size: int) -> dict[str, Any]:
    """Return one point of a curve."""
    sums = {"found": 0, "wrong": 0, "iterations": 0, "reversed_found": 0}
    start = time.perf_counter()
    for seed in range(setting.books):
        space = ghrr.Space.from_total(total, m, seed=seed)
        books, products, chosen, reversed_products = draw(space, size, setting.products)
        for name, value in count(resonator(products, books), chosen).items():
            sums[name] += value
        control = resonator(reversed_products[:5], books, restarts=1)
        sums["reversed_found"] += int(control.found.sum())
    tried = setting.books * setting.products
    return {
        "m": m,
        "total_dim": total,
        "size": size,
        "tried": tried,
        "share": sums["found"] / tried,
        "error": standard_error(sums["found"], tried),
        **sums,
        "reversed_tried": setting.books * min(5, setting.products),
        "seconds": round(time.perf_counter() - start, 2),
    }


def standard_error(successes: int, tried: int) -> float:
    """Return the standard error of a share, after Agresti and Coull: not zero if all succeed."""
    share = (successes + 2) / (tried + 4)
    return math.sqrt(share * (1 - share) / (tried + 4))


def curve(setting: Setting, m: int, total: int) -> list[dict[str, Any]]:
    """Return the points of one m and total dimension, up to the size at which almost nothing is found."""
    rows = []
    for size in setting.sizes:
        rows.append(measure(setting, m, total, size))
        if rows[-1]["share"] < 0.02:
            break
    return rows


def limit(rows: list[dict[str, Any]]) -> float | None:
    """Return the size at which half of the products are found, interpolated in log size; None if all find more."""
    for low, high in itertools.pairwise(rows):
        if low["share"] >= 0.5 > high["share"]:
            t = (low["share"] - 0.5) / (low["share"] - high["share"])
            return float(low["size"] ** (1 - t) * high["size"] ** t)
    return None


def law(limits: list[dict[str, Any]]) -> dict[str, float] | None:
    """Fit size = factor · total_dim^exponent to the limits of all m; None for a single total dimension."""
    known = [(math.log(row["total_dim"]), math.log(row["size"])) for row in limits if row["size"] is not None]
    if len({total for total, _ in known}) < 2:
        return None
    totals, sizes = torch.tensor(known, dtype=torch.float64).T
    centred = totals - totals.mean()
    exponent = (centred @ sizes) / (centred @ centred)
    off = sizes - sizes.mean() - exponent * centred
    return {
        "exponent": float(exponent),
        "factor": float(torch.exp(sizes.mean() - exponent * totals.mean())),
        "largest_deviation": float(off.abs().max().exp() - 1),
    }


def compare_variants(setting: Setting) -> list[dict[str, Any]]:
    """Return the share found for each projection and each noise on the weights, without restarts."""
    m, total, size = setting.variants_at
    rows = []
    for projection in PROJECTIONS:
        for jitter in JITTERS:
            found, start = 0, time.perf_counter()
            for seed in range(setting.books):
                space = ghrr.Space.from_total(total, m, seed=seed)
                books, products, chosen, _ = draw(space, size, setting.products)
                answer = resonator(products, books, projection=projection, jitter=jitter, restarts=1)
                found += count(answer, chosen)["found"]
            tried = setting.books * setting.products
            row = {"projection": projection, "jitter": jitter, "share": found / tried}
            seconds = round(time.perf_counter() - start, 2)
            rows.append({**row, "error": standard_error(found, tried), "tried": tried, "seconds": seconds})
    return rows


# Table and figure


def table(limits: list[dict[str, Any]]) -> str:
    """Return the limits as text."""
    lines = [f"codebook size at which half of the products of {FACTORS} factors are found"]
    ms = sorted({row["m"] for row in limits})
    lines.append(f"{'total_dim':<11}" + "".join(f"{f'm = {m}':>9}" for m in ms))
    for total in sorted({row["total_dim"] for row in limits}):
        cells = {row["m"]: row["size"] for row in limits if row["total_dim"] == total}
        shown = ["beyond" if cells[m] is None else f"{cells[m]:.0f}" for m in ms]
        lines.append(f"{total:<11}" + "".join(f"{cell:>9}" for cell in shown))
    return "\n".join(lines)


def draw_figure(
    setting: Setting, rows: list[dict[str, Any]], limits: list[dict[str, Any]], variants: list[dict[str, Any]]
) -> Figure:
    """Draw the curves of each total dimension, the limits, and the variants."""
    with style():
        figure = Figure(figsize=(11, 6.4), layout="constrained")
        columns = max(3, (len(setting.totals) + 3) // 2)
        axes = figure.subplots(2, columns).flatten()
        for axis, total in zip(axes, setting.totals, strict=False):
            _draw_curves(axis, [row for row in rows if row["total_dim"] == total], total)
        _draw_limits(axes[-2], limits, law(limits))
        _draw_variants(axes[-1], variants, setting.variants_at)
        for axis in axes[len(setting.totals) : -2]:
            axis.set_axis_off()
    return figure


def _draw_curves(axis: Axes, rows: list[dict[str, Any]], total: int) -> None:
    for m in sorted({row["m"] for row in rows}):
        points = [row for row in rows if row["m"] == m]
        sizes, shares = [row["size"] for row in points], [row["share"] for row in points]
        axis.errorbar(
            sizes,
            shares,
            yerr=[row["error"] for row in points],
            color=M_COLOURS[m],
            marker=M_MARKERS[m],
            ms=4,
            lw=1.2,
            capsize=2,
            label=f"m = {m}",
        )
    axis.axhline(0.5, color=GREY, lw=0.8, ls=":")
    axis.set(xscale="log", xlabel="size n of each codebook", ylabel="share of products found", ylim=(-0.05, 1.05))
    axis.set_title(f"total dimension {total}")
    axis.legend(loc="lower left")


def _draw_limits(axis: Axes, limits: list[dict[str, Any]], line: dict[str, float] | None) -> None:
    for m in sorted({row["m"] for row in limits}):
        known = [row for row in limits if row["m"] == m and row["size"] is not None]
        totals, sizes = [row["total_dim"] for row in known], [row["size"] for row in known]
        axis.plot(totals, sizes, color=M_COLOURS[m], marker=M_MARKERS[m], ms=4, lw=1.2, label=f"m = {m}")
    if line is not None:
        totals = sorted({row["total_dim"] for row in limits})
        label = f"{line['factor']:.2g} · total^{line['exponent']:.2f}"
        axis.plot(
            totals, [line["factor"] * total ** line["exponent"] for total in totals], "--", color=GREY, label=label
        )
        axis.set(xscale="log", yscale="log")
        axis.set_xticks(totals, [str(total) for total in totals])
        ticks = [size for size in (25, 50, 100, 200, 400, 800) if min(sizes) / 2 < size < 2 * max(sizes)]
        axis.set_yticks(ticks, [str(size) for size in ticks])
        axis.minorticks_off()
    axis.set(xlabel="total dimension", ylabel="size n at which half are found")
    axis.set_title("Limit of the codebook size")
    axis.legend()


def _draw_variants(axis: Axes, variants: list[dict[str, Any]], where: tuple[int, int, int]) -> None:
    for projection, colour, marker in zip(PROJECTIONS, (BLUE, ORANGE, GREY), "os^", strict=True):
        points = [row for row in variants if row["projection"] == projection]
        axis.errorbar(
            [row["jitter"] for row in points],
            [row["share"] for row in points],
            yerr=[row["error"] for row in points],
            color=colour,
            marker=marker,
            ms=4,
            lw=1.2,
            capsize=2,
            label=projection,
        )
    m, total, size = where
    axis.set(xlabel="noise on the weights (rms of similarities)", ylabel="share found, one start", ylim=(-0.05, 1.05))
    axis.set_title(f"Variants: m = {m}, total {total}, n = {size}")
    axis.legend()


# The command


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure, print the table, write numbers and figure, and return the numbers."""
    parser = argparse.ArgumentParser(description="Measure the codebook sizes up to which a resonator finds factors.")
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds instead of minutes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    setting = QUICK if options.quick else FULL

    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    limits: list[dict[str, Any]] = []
    for total in setting.totals:
        for m in setting.ms:
            points = curve(setting, m, total)
            rows += points
            limits.append({"m": m, "total_dim": total, "size": limit(points)})
            shares = ", ".join(f"{row['size']}: {row['share']:.2f}" for row in points)
            print(f"total {total}, m = {m}: {shares}", flush=True)
    variants = compare_variants(setting)
    print(table(limits))
    line = law(limits)
    if line is not None:
        print(f"about {line['factor']:.2g} · total_dim^{line['exponent']:.2f}, for all m")
    for row in variants:
        print(f"{row['projection']:<6} noise {row['jitter']}: {row['share']:.2f} ({row['seconds']:.1f} s)")
    report = {
        "command": shlex.join(["python", "examples/resonator_limits.py", *given]),
        "seconds": round(time.perf_counter() - start, 1),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "factors": FACTORS,
        "setting": asdict(setting),
        "limits": limits,
        "law": law(limits),
        "wrongly_found": sum(row["wrong"] for row in rows),
        "reversed_found_for_m_above_1": sum(row["reversed_found"] for row in rows if row["m"] > 1),
        "variants": variants,
        "points": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    with atomic_write(options.out / "resonator_limits.json") as path:
        path.write_text(json.dumps(report, indent=1) + "\n")
    figure = draw_figure(setting, rows, limits, variants)
    with style(), atomic_write(options.out / "resonator_limits.png") as path:
        figure.savefig(path, format="png", dpi=120, metadata={"Software": None})
    print(f"wrote resonator_limits.json and .png in {options.out}")
    return report


if __name__ == "__main__":
    main()

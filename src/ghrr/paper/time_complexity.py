"""Section on time complexity: what binding costs against m, counted in multiplications and measured in seconds."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ghrr
from ghrr.paper.experiment import Check, Claim, Experiment, Params, Settings, equals, equals_to
from ghrr.paper.style import BLACK, BLUE, ORANGE, style

BIND, ELEMENTWISE, COUNT = "bind", "elementwise product", "multiplications per number"


class Counted:
    """A number that counts how often numbers of its kind were multiplied."""

    multiplications = 0

    def __mul__(self, other: Counted) -> Counted:
        Counted.multiplications += 1
        return self

    def __add__(self, other: Counted) -> Counted:
        return self


def count_multiplications(dim: int, m: int) -> int:
    """Multiplications of numbers in the definition of binding: ``dim`` products of m x m matrices."""
    a = np.full((dim, m, m), Counted(), dtype=object)
    Counted.multiplications = 0
    np.matmul(a, a)
    return Counted.multiplications


def list_trials(settings: Settings) -> list[Params]:
    return [{"batch": batch, "block": block} for batch in settings["batches"] for block in range(settings["blocks"])]


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Rounds in which every m has its turn, in random order, on the same numbers cut into other slots."""
    total, batch, ms = settings["total_dim"], params["batch"], settings["ms"]
    left, right = torch.randn(2, batch, total, dtype=torch.complex64, generator=generator)
    jobs: dict[tuple[str, int], Callable[[], Tensor]] = {(ELEMENTWISE, 1): functools.partial(torch.mul, left, right)}
    for m in ms:
        a, b = (x.reshape(batch, total // m**2, m, m) for x in (left, right))
        jobs[BIND, m] = functools.partial(ghrr.bind, a, b)
    repeats = max(1, settings["numbers"] // (batch * total))
    for job in jobs.values():
        _seconds(job, repeats)  # not measured: the first calls find caches and memory cold
    rows = []
    keys = list(jobs)
    for round_ in range(settings["rounds"]):
        for index in torch.randperm(len(keys), generator=generator).tolist():
            what, m = keys[index]
            nanoseconds = 1e9 * _seconds(jobs[keys[index]], repeats) / (batch * total)
            rows.append({"what": what, "m": m, "round": round_, "value": nanoseconds})
    rows += [{"what": COUNT, "m": m, "round": 0, "value": count_multiplications(2, m) / (2 * m**2)} for m in ms]
    return pd.DataFrame(rows).assign(batch=batch, block=params["block"], threads=torch.get_num_threads())


def _seconds(job: Callable[[], Tensor], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        job()
    return (time.perf_counter() - start) / repeats


def relative_times(data: pd.DataFrame, batch: int) -> pd.DataFrame:
    """Time of each m in units of m = 1 of the same round: a row per round, a column per m."""
    rows = data.loc[(data["what"] == BIND) & (data["batch"] == batch)]
    times = rows.pivot(index=["block", "round"], columns="m", values="value")
    return times.div(times[1], axis=0)


def exponents(relative: pd.DataFrame) -> pd.Series[float]:
    """The p of a power law m^p through the times of each round: least squares of logarithms."""
    x = np.log(relative.columns.to_numpy(dtype=float))
    slopes = np.log(relative.to_numpy()) @ (x - x.mean()) / np.square(x - x.mean()).sum()
    return pd.Series(slopes, index=relative.index)


def median_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Median and its standard error for bell-shaped values; their width comes from quartiles, which outliers spare."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(math.sqrt(math.pi / 2) * (high - low) / 1.349 / math.sqrt(len(values)))


def _size(batch: int, settings: Settings) -> str:
    megabytes = 3 * 8 * batch * settings["total_dim"] / 1e6  # two factors and their product, in complex64
    return f"{megabytes:.2g} MB"


def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    ms = settings["ms"]
    with style():
        figure = Figure(figsize=(6.4, 5.8), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True)
        looks = zip(settings["batches"], ((BLUE, "o"), (ORANGE, "s")), (0.985, 1.015), strict=True)
        for batch, (colour, marker), shift in looks:
            relative = relative_times(data, batch)
            times = data.loc[(data["batch"] == batch) & (data["what"] == BIND)].groupby("m")["value"]
            for axis, quartiles in (
                (top, relative.quantile([0.25, 0.5, 0.75])),
                (bottom, times.quantile([0.25, 0.5, 0.75]).unstack(0)),
            ):
                low, middle, high = quartiles.to_numpy()
                label = f"bind, {_size(batch, settings)}"
                errors = np.stack([middle - low, high - middle])
                axis.errorbar(
                    shift * np.array(ms), middle, errors, fmt=f"{marker}-", color=colour, capsize=3, label=label
                )
            product = data.loc[(data["batch"] == batch) & (data["what"] == ELEMENTWISE), "value"].median()
            label = f"a · b, elementwise, {_size(batch, settings)}"
            bottom.axhline(product, color=colour, lw=1, ls=":", label=label)
        top.plot(ms, ms, "--", color=BLACK, lw=1.2, label="multiplications: m")
        top.set(xscale="log", yscale="log", ylabel="time / time of m = 1 (no unit)")
        top.set_title("Time and number of multiplications at equal total dimension")
        bottom.set(yscale="log", xlabel="size m of a slot (no unit)", ylabel="time per number (ns)")
        bottom.set_title("Median and quartiles of interleaved rounds")
        bottom.set_xticks(ms, [str(m) for m in ms])
        bottom.minorticks_off()
        bottom.set_ylim(bottom=bottom.get_ylim()[0] / 6)
        top.legend(loc="lower right")
        bottom.legend(loc="lower right", ncols=2)
    return figure


def _counts(data: pd.DataFrame, settings: Settings) -> list[Check]:
    counts = data.loc[data["what"] == COUNT].groupby("m")["value"].max()
    return [equals_to(f"{COUNT}, m = {m}", float(counts[m]), m, tolerance=0.0) for m in settings["ms"]]


def _time_grows_like_m(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for batch in settings["batches"]:
        relative, size = relative_times(data, batch), _size(batch, settings)
        checks.append(equals(f"exponent p of m^p, {size}", *median_with_error(exponents(relative)), 1.0))
        times = {m: median_with_error(relative[m]) for m in settings["ms"][1:]}
        checks += [equals(f"time of m = {m} / time of m = 1, {size}", *time, m) for m, time in times.items()]
    return checks


EXPERIMENT = Experiment(
    name="time-complexity",
    title="Binding takes m times the multiplications; what that is in time",
    caption=(
        "Time to bind hypervectors of equal total dimension D·m² = 14,400, against m, for a batch that fits into the "
        "cache of a processor and one that does not. Each round measures all m, in random order."
    ),
    settings={
        # 14,400 is the smallest number that all these m² divide.
        "quick": {
            "total_dim": 14400,
            "ms": [1, 2, 3, 4, 5, 6, 8],
            "batches": [2, 256],
            "numbers": 288000,
            "rounds": 15,
            "blocks": 3,
        },
        "full": {
            "total_dim": 14400,
            "ms": [1, 2, 3, 4, 5, 6, 8],
            "batches": [2, 256],
            "numbers": 288000,
            "rounds": 20,
            "blocks": 12,
        },
    },
    run_trial=run_trial,
    draw=draw,
    trials=list_trials,
    alone=True,
)

CLAIMS = [
    Claim(
        EXPERIMENT.name,
        "Section on time complexity",
        "Binding takes O(Dm³) operations, a factor of m more than FHRR of equal total dimension.",
        _counts,
        rejected={"a factor of m in seconds": _time_grows_like_m},
        comment="Counted with numbers that count their multiplications, for the matrix product by its definition; the "
        "paper writes FHRR where it means GHRR once. Orders of growth are no times: at small m the routine that "
        "multiplies small matrices, and memory, matter more than the number of multiplications. The seconds are those "
        "of the machine that made this report.",
    ),
]

"""Section on time complexity: multiplications and seconds that binding takes as a function of m."""

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
from ghrr_lab.paper.experiment import Check, Claim, Experiment, Params, Settings, repeat
from ghrr_lab.paper.statistics import equals, is_close, rows_where
from ghrr_lab.paper.style import BLACK, BLUE, ORANGE, new_figure, style

BIND, ELEMENTWISE, COUNT = "bind", "elementwise product", "multiplications per number"


class CountingNumber:
    """A number that counts all multiplications of numbers of this class."""

    multiplications = 0

    def __mul__(self, other: CountingNumber) -> CountingNumber:
        CountingNumber.multiplications += 1
        return self

    def __add__(self, other: CountingNumber) -> CountingNumber:
        return self


def count_multiplications(dim: int, m: int) -> int:
    """Count the multiplications in the definition of binding: ``dim`` products of m x m matrices."""
    a = np.full((dim, m, m), CountingNumber(), dtype=object)
    CountingNumber.multiplications = 0
    np.matmul(a, a)
    return CountingNumber.multiplications


def trials(settings: Settings) -> list[Params]:
    return repeat(({"batch": batch} for batch in settings["batches"]), settings["blocks"])


def run_trial(settings: Settings, params: Params, generator: torch.Generator) -> pd.DataFrame:
    """Measure all m in every round, in random order, on the same numbers divided into different slots."""
    total, batch, ms = settings["total_dim"], params["batch"], settings["ms"]
    left, right = torch.randn(2, batch, total, dtype=torch.complex64, generator=generator)
    functions: dict[tuple[str, int], Callable[[], Tensor]] = {
        (ELEMENTWISE, 1): functools.partial(torch.mul, left, right)
    }
    for m in ms:
        a, b = (x.reshape(batch, total // m**2, m, m) for x in (left, right))
        functions[BIND, m] = functools.partial(ghrr.bind, a, b)
    repeats = max(1, settings["numbers"] // (batch * total))
    for function in functions.values():
        _measure_seconds(function, repeats)  # warm up caches and memory
    rows = []
    keys = list(functions)
    for round_ in range(settings["rounds"]):
        for index in torch.randperm(len(keys), generator=generator).tolist():
            what, m = keys[index]
            nanoseconds = 1e9 * _measure_seconds(functions[keys[index]], repeats) / (batch * total)
            rows.append({"what": what, "m": m, "round": round_, "value": nanoseconds})
    rows += [{"what": COUNT, "m": m, "round": 0, "value": count_multiplications(2, m) / (2 * m**2)} for m in ms]
    return pd.DataFrame(rows).assign(batch=batch, block=params["block"], threads=torch.get_num_threads())


def _measure_seconds(function: Callable[[], Tensor], repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    return (time.perf_counter() - start) / repeats


def _times(data: pd.DataFrame, batch: int) -> pd.DataFrame:
    """Return the time of each m in nanoseconds per number: a row per round, a column per m."""
    return rows_where(data, what=BIND, batch=batch).pivot(index=["block", "round"], columns="m", values="value")


def relative_times(data: pd.DataFrame, batch: int) -> pd.DataFrame:
    """Return the time of each m relative to m = 1 in the same round: a row per round, a column per m."""
    times = _times(data, batch)
    return times.div(times[1], axis=0)


def exponents(relative: pd.DataFrame) -> pd.Series[float]:
    """Fit a power law m^p to the times of each round by least squares of logarithms, and return the exponents p."""
    x = np.log(relative.columns.to_numpy(dtype=float))
    slopes = np.log(relative.to_numpy()) @ (x - x.mean()) / np.square(x - x.mean()).sum()
    return pd.Series(slopes, index=relative.index)


def median_with_error(values: pd.Series[float]) -> tuple[float, float]:
    """Return the median and its standard error for normally distributed values with outliers.

    The standard deviation is estimated from the quartiles, which are robust to outliers.
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(middle), float(math.sqrt(math.pi / 2) * (high - low) / 1.349 / math.sqrt(len(values)))


def _memory(batch: int, settings: Settings) -> str:
    megabytes = 3 * 8 * batch * settings["total_dim"] / 1e6  # two factors and their product in complex64
    return f"{megabytes:.2g} MB"


@style()
def draw(data: pd.DataFrame, settings: Settings) -> Figure:
    ms = settings["ms"]
    figure = new_figure(5.8)
    top, bottom = figure.subplots(2, 1, sharex=True)
    looks = zip(settings["batches"], ((BLUE, "o"), (ORANGE, "s")), (0.985, 1.015), strict=True)
    for batch, (colour, marker), shift in looks:
        for axis, times in ((top, relative_times(data, batch)), (bottom, _times(data, batch))):
            low, middle, high = times.quantile([0.25, 0.5, 0.75]).to_numpy()
            label = f"bind, {_memory(batch, settings)}"
            errors = np.stack([middle - low, high - middle])
            axis.errorbar(shift * np.array(ms), middle, errors, fmt=f"{marker}-", color=colour, capsize=3, label=label)
        product = rows_where(data, batch=batch, what=ELEMENTWISE)["value"].median()
        label = f"a · b, elementwise, {_memory(batch, settings)}"
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
    counts = rows_where(data, what=COUNT).groupby("m")["value"].max()
    return [is_close(f"{COUNT}, m = {m}", float(counts[m]), m, tolerance=0.0) for m in settings["ms"]]


def _time_grows_like_m(data: pd.DataFrame, settings: Settings) -> list[Check]:
    checks = []
    for batch in settings["batches"]:
        relative, memory = relative_times(data, batch), _memory(batch, settings)
        checks.append(equals(f"exponent p of m^p, {memory}", *median_with_error(exponents(relative)), 1.0))
        times = {m: median_with_error(relative[m]) for m in settings["ms"][1:]}
        checks += [equals(f"time of m = {m} / time of m = 1, {memory}", *time, m) for m, time in times.items()]
    return checks


CLAIMS = [
    Claim(
        "Section on time complexity",
        "Binding takes O(Dm³) operations, a factor of m more than FHRR of equal total dimension.",
        _counts,
        rejected={"a factor of m in seconds": _time_grows_like_m},
        comment="The multiplications are counted for the matrix product by its definition. The paper once writes FHRR "
        "instead of GHRR. The complexity does not determine the time: for small m, memory bandwidth and the routine "
        "for small matrices matter more than the number of multiplications. The times are those of the machine that "
        "made this report.",
    ),
]

EXPERIMENT = Experiment(
    name="time-complexity",
    title="Binding takes m times as many multiplications as in FHRR; measured times",
    caption=(
        "Time to bind hypervectors of equal total dimension D·m² = 14,400 for different m, for a batch that fits into "
        "the processor cache and one that does not. Each round measures all m in random order."
    ),
    settings={
        # 14,400 is the smallest common multiple of all m².
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
    trials=trials,
    exclusive=True,
    claims=CLAIMS,
)

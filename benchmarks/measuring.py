"""What the benchmarks share: rivals that take turns, quartiles, facts about the machine, a file of results.

A :class:`Case` is one comparison. Its result is checked before anything is timed; where the check fails there is no
time. Rivals take turns in one process, so that all meet the same state of the machine, and a ratio is that of two
neighbours.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import json
import math
import os
import platform
import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.files import atomic_write

RESULTS = Path(__file__).parent / "results"
SAMPLE_SECONDS = 2e-3  # the least that a turn lasts
Function = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """One comparison: ours, others that do the same, and how to know that ours is right.

    Attributes
    ----------
    group, setting
        What it is called and at which sizes.
    ours, others
        What is timed, the others by name.
    errors
        From our result to errors in units of what rounding explains, by name; more than 1 is wrong.
    targets
        The least ratio, by name of the other.
    parts
        For another that was given a part of the work only, to be done in reasonable time: how many times the work is
        larger.
    most
        The seconds that ours may take.
    memory
        Whether to look at the peak of extra memory as well.
    patience
        So many times as many turns. Large results need memory from the system, and a virtual machine that gives free
        memory back to its host makes that slow for a second now and then.
    """

    group: str
    setting: dict[str, Any]
    ours: Function
    others: dict[str, Function]
    errors: Callable[[Any], Mapping[str, float]]
    targets: dict[str, float] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    most: float | None = None
    memory: bool = False
    patience: int = 1


def run_case(case: Case, repeats: int, device: str = "cpu") -> dict[str, Any]:
    """Check one case, then time it: their time over ours, so more than 1 means that ours is quicker."""
    row: dict[str, Any] = {"group": case.group, "setting": case.setting}
    row["errors"] = {name: float(error) for name, error in case.errors(case.ours()).items()}
    row["right"] = all(error <= 1 for error in row["errors"].values())  # false for NaN
    if not row["right"]:
        return row
    seconds = in_turns({"ours": case.ours, **case.others}, case.patience * repeats, device=device)
    for name, factor in case.parts.items():
        seconds[name] = [factor * second for second in seconds[name]]
    row["seconds"] = {name: quartiles(values) for name, values in seconds.items()}
    row["ratios"] = {
        name: quartiles([theirs / mine for theirs, mine in zip(seconds[name], seconds["ours"], strict=True)])
        for name in case.others
    }
    if case.memory and device == "cpu":
        row["extra_megabytes"] = peak_extra_memory(case.ours)
    return row | {"targets": case.targets, "parts": case.parts, "most_seconds": case.most}


def run_cases(cases: Iterable[Case], repeats: int, device: str = "cpu") -> list[dict[str, Any]]:
    """Check, time and print one case after the other; what a case holds is freed before the next is made."""
    rows = []
    for case in cases:
        rows.append(run_case(case, repeats, device))
        print(line(rows[-1]), flush=True)
        del case
    return rows


def line(row: Mapping[str, Any]) -> str:
    """A row of the table for the terminal."""
    setting = ", ".join(f"{name} {value}" for name, value in row["setting"].items())
    head = f"{row['group']:<26}{setting:<40}"
    if not row["right"]:
        wrong = ", ".join(f"{name} {error:.1e}" for name, error in row["errors"].items() if not error <= 1)
        return f"{head}wrong result: no time given ({wrong} times what rounding explains)"
    most = f" (at most {duration(row['most_seconds'])})" if row["most_seconds"] is not None else ""
    cells = [f"{duration(row['seconds']['ours']['median']) + most:>9}"]
    for name, ratio in row["ratios"].items():
        target = f", wanted {row['targets'][name]:.3g}" if name in row["targets"] else ""
        extrapolated = f", from 1/{row['parts'][name]:.0f} of the work" if name in row["parts"] else ""
        spread = f"({ratio['low']:.3g} to {ratio['high']:.3g}{target}{extrapolated})"
        cells.append(f"{name} {ratio['median']:.3g} {spread}")
    if row.get("extra_megabytes") is not None:
        cells.append(f"extra memory {row['extra_megabytes']:.1f} MB")
    return head + "   ".join(cells)


def duration(seconds: float) -> str:
    """Seconds, in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def in_turns(
    functions: Mapping[str, Function],
    repeats: int,
    *,
    device: str = "cpu",
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of a call of each, taking turns; the first round, with ``warm_up``, is not counted.

    What is short is called several times in its turn, for a fifth of the time of the slowest: after a long turn of
    another's the first call finds cores asleep and memory given back. ``clock`` measures on the CPU;
    ``time.process_time`` gives CPU time, which other processes hardly disturb.
    """
    sample = _on_gpu if device == "cuda" else functools.partial(_on_cpu, clock=clock)
    once = {name: _second_call(function) for name, function in functions.items()} if warm_up else {}
    length = max([SAMPLE_SECONDS, *[seconds / 5 for seconds in once.values()]])
    calls = {name: max(1, round(length / seconds)) for name, seconds in once.items()}
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, seconds_of_sample in sample(functions, calls).items():
            seconds[name].append(seconds_of_sample)
    return seconds


def _second_call(function: Function) -> float:
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _on_cpu(
    functions: Mapping[str, Function], calls: Mapping[str, int], clock: Callable[[], float]
) -> dict[str, float]:
    """One round; a result is freed before the next is made."""
    seconds = {}
    for name, function in functions.items():
        count = calls.get(name, 1)
        start = clock()
        for _ in range(count):
            function()
        seconds[name] = (clock() - start) / count
    return seconds


def _on_gpu(functions: Mapping[str, Function], calls: Mapping[str, int]) -> dict[str, float]:
    """One round by the GPU's own clock. It begins with work that is not counted, so that the GPU never waits for us."""
    marks: dict[str, tuple[torch.cuda.Event, torch.cuda.Event]] = {}
    for function in functions.values():
        function()
    for name, function in functions.items():
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        function()
        last.record()
        marks[name] = first, last
    torch.cuda.synchronize()
    return {name: first.elapsed_time(last) / 1e3 for name, (first, last) in marks.items()}


def peak_extra_memory(function: Function) -> float | None:
    """Megabytes of resident memory at the peak above those before; None where the system does not count them."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that was freed would be used again and not be counted
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before = _status("VmRSS")
        function()
        return (_status("VmHWM") - before) / 1000
    except (OSError, AttributeError):
        return None


def _status(name: str) -> float:
    """Kilobytes, of 1000 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1.024 * int(text.split()[1]) for text in lines if text.startswith(f"{name}:"))


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Median and the quartiles about it."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")  # never beyond the values
    return {"median": median, "low": low, "high": high}


def error(got: Tensor, want: Tensor, terms: int) -> float:
    """Largest difference in units of what rounding explains in sums of so many terms: 1 is the most that is allowed."""
    if got.shape != want.shape:
        return math.inf
    scale = max(1.0, float(want.abs().max()))
    precision = torch.finfo(got.dtype).eps
    return float((got.to(want.dtype) - want).abs().max()) / (20 * terms * scale * precision)


def facts(device: str = "cpu") -> dict[str, Any]:
    """What the numbers depend on: machine, threads, versions."""
    installed = ("numba", "triton", "torch-hd", "holovec", "faiss-cpu")
    versions = {name: version for name in installed if (version := _version(name)) is not None}
    machine = {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,  # over the last minute
    }
    if device == "cuda":
        machine["gpu"] = torch.cuda.get_device_name()
    return {
        "machine": machine,
        "versions": {"python": platform.python_version(), "torch": torch.__version__, **versions},
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((text.partition(":")[2].strip() for text in lines if text.startswith("model name")), platform.machine())


def command(script: str, arguments: Sequence[str]) -> str:
    """The command that was given, to be stored with its results."""
    return shlex.join(["python", f"benchmarks/{script}.py", *arguments])


def store(report: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write results to ``name``.json, complete or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / f"{name}.json") as path:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

"""Timing, quartiles, a description of the machine, and files of results, shared by all benchmarks.

A :class:`Case` compares our implementation with others. Our result is checked first; a wrong result is not timed. The
implementations are timed alternately in one process, so that changes of the machine's load affect all of them. Each
ratio compares two successive measurements.
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

SAMPLE_SECONDS = 2e-3  # minimum duration of one measurement; faster functions are called several times
Function = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Comparison of our implementation with others that compute the same.

    Attributes
    ----------
    group, setting
        Name of the operation, and its sizes.
    ours, others
        Functions to time; the others by name.
    errors
        Function from our result to its errors by name, relative to the expected rounding error. A result with an error
        above 1 is wrong.
    targets
        Smallest acceptable ratio of their time to ours, by name of the other implementation.
    scale_up
        For implementations that are too slow for all of the work and are timed on a part of it: the factor by which
        the whole work is larger, by name.
    max_seconds
        Longest acceptable time of our implementation.
    measure_memory
        Whether to measure the peak of additional memory too.
    repeat_factor
        Factor on the number of measurements. Large results need memory from the operating system, which can
        occasionally take a second on a virtual machine that returns free memory to its host.
    """

    group: str
    setting: dict[str, Any]
    ours: Function
    others: dict[str, Function]
    errors: Callable[[Any], Mapping[str, float]]
    targets: dict[str, float] = field(default_factory=dict)
    scale_up: dict[str, float] = field(default_factory=dict)
    max_seconds: float | None = None
    measure_memory: bool = False
    repeat_factor: int = 1


def run_case(case: Case, repeats: int, device: str = "cpu") -> dict[str, Any]:
    """Check and time one case. Ratios are their time divided by ours: above 1, ours is faster."""
    row: dict[str, Any] = {"group": case.group, "setting": case.setting}
    row["errors"] = {name: float(error) for name, error in case.errors(case.ours()).items()}
    row["right"] = all(error <= 1 for error in row["errors"].values())  # false for NaN
    if not row["right"]:
        return row
    seconds = time_alternately({"ours": case.ours, **case.others}, case.repeat_factor * repeats, device=device)
    for name, factor in case.scale_up.items():
        seconds[name] = [factor * second for second in seconds[name]]
    row["seconds"] = {name: quartiles(values) for name, values in seconds.items()}
    row["ratios"] = {
        name: quartiles([theirs / mine for theirs, mine in zip(seconds[name], seconds["ours"], strict=True)])
        for name in case.others
    }
    if case.measure_memory and device == "cpu":
        row["extra_megabytes"] = peak_extra_memory(case.ours)
    return row | {"targets": case.targets, "parts": case.scale_up, "most_seconds": case.max_seconds}


def run_cases(cases: Iterable[Case], repeats: int, device: str = "cpu") -> list[dict[str, Any]]:
    """Check, time and print each case; the tensors of a case are freed before the next case is created."""
    rows = []
    for case in cases:
        rows.append(run_case(case, repeats, device))
        print(line(rows[-1]), flush=True)
        del case
    return rows


def line(row: Mapping[str, Any]) -> str:
    """Format a result as a line of text."""
    setting = ", ".join(f"{name} {value}" for name, value in row["setting"].items())
    head = f"{row['group']:<26}{setting:<40}"
    if not row["right"]:
        wrong = ", ".join(f"{name} {error:.1e}" for name, error in row["errors"].items() if not error <= 1)
        return f"{head}wrong result, not timed (errors relative to the expected rounding error: {wrong})"
    most = f" (at most {duration(row['most_seconds'])})" if row["most_seconds"] is not None else ""
    cells = [f"{duration(row['seconds']['ours']['median']) + most:>9}"]
    for name, ratio in row["ratios"].items():
        target = f", target {row['targets'][name]:.3g}" if name in row["targets"] else ""
        extrapolated = f", measured on 1/{row['parts'][name]:.0f} of the work" if name in row["parts"] else ""
        quartile_range = f"({ratio['low']:.3g} to {ratio['high']:.3g}{target}{extrapolated})"
        cells.append(f"{name} {ratio['median']:.3g} {quartile_range}")
    if row.get("extra_megabytes") is not None:
        cells.append(f"extra memory {row['extra_megabytes']:.1f} MB")
    return head + "   ".join(cells)


def duration(seconds: float) -> str:
    """Format a time in s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def time_alternately(
    functions: Mapping[str, Function],
    repeats: int,
    *,
    device: str = "cpu",
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Measure the time of one call of each function, in ``repeats`` rounds that call all functions in turn.

    With ``warm_up`` every function is called twice before the first round, to estimate its time. Fast functions are
    then called several times per round, for a fifth of the time of the slowest function: after a long call of another
    function, the first call is slow because cores are idle and memory was returned to the system. ``clock`` measures
    time on the CPU; ``time.process_time`` measures CPU time, which depends little on other processes.
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
    """Time one round. Each result is freed before the next call."""
    seconds = {}
    for name, function in functions.items():
        count = calls.get(name, 1)
        start = clock()
        for _ in range(count):
            function()
        seconds[name] = (clock() - start) / count
    return seconds


def _on_gpu(functions: Mapping[str, Function], calls: Mapping[str, int]) -> dict[str, float]:
    """Time one round with CUDA events. Untimed calls come first, so that the GPU's queue is never empty."""
    events: dict[str, tuple[torch.cuda.Event, torch.cuda.Event]] = {}
    for function in functions.values():
        function()
    for name, function in functions.items():
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        function()
        last.record()
        events[name] = first, last
    torch.cuda.synchronize()
    return {name: first.elapsed_time(last) / 1e3 for name, (first, last) in events.items()}


def peak_extra_memory(function: Function) -> float | None:
    """Return by how many megabytes a call raises the peak of resident memory; None if the system does not report it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # otherwise the call could reuse freed memory, which would not be counted
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _status("VmRSS")
        function()
        return (_status("VmHWM") - before) / 1000
    except (OSError, AttributeError):
        return None


def _status(name: str) -> float:
    """Return a value of ``/proc/self/status`` in kilobytes of 1000 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1.024 * int(text.split()[1]) for text in lines if text.startswith(f"{name}:"))


def quartiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and both quartiles."""
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")  # stays within the range of the values
    return {"median": median, "low": low, "high": high}


def error(got: Tensor, want: Tensor, terms: int) -> float:
    """Return the largest difference, relative to the rounding error of sums of ``terms`` terms; above 1 it is wrong."""
    if got.shape != want.shape:
        return math.inf
    scale = max(1.0, float(want.abs().max()))
    precision = torch.finfo(got.dtype).eps
    return float((got.to(want.dtype) - want).abs().max()) / (20 * terms * scale * precision)


def facts(device: str = "cpu") -> dict[str, Any]:
    """Describe what measurements depend on: machine, threads and versions of packages."""
    installed = ("numba", "triton", "torch-hd", "holovec", "faiss-cpu", "pykeen")
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


def command(name: str, arguments: Sequence[str], names: Mapping[str, str] | None = None) -> str:
    """Return the command line of a benchmark, to store it with the results.

    ``names`` gives the word to store after an option, such as ``{"--data": "DATA"}`` in place of a folder.
    """
    words = [(names or {}).get(option, word) for option, word in zip(["", *arguments], arguments, strict=False)]
    return shlex.join(["python", "-m", "benchmarks", name, *words])


def store(report: Mapping[str, Any], folder: Path, name: str) -> None:
    """Write results to ``name``.json, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / f"{name}.json") as path:
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

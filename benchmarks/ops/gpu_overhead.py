"""Measure the host time of ``ghrr.bind`` on a GPU, and the sizes from which each backend is faster.

Three measurements, printed and written as JSON:

- host time per call: microseconds until the call returns, without waiting for the GPU, for ``ghrr.bind``, ``a @ b`` and
  ``a * b``;
- profile: the functions in which ``ghrr.bind`` spends its host time, by ``cProfile``. The profiler slows down Python
  functions, so read the order and the call counts, not the times;
- time by size: microseconds of one synchronous call for 2^10 to 2^20 complex numbers and m = 1 to 4.

Run it on a machine with a GPU that does nothing else::

    PYTHONPATH=src python -m benchmarks ops.gpu_overhead --out gpu_overhead.json
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ghrr

CALLS = 200  # per burst: few enough that the GPU's queue never fills and blocks the host
BACKENDS = ("torch", "triton", "auto")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description="Host time of ghrr.bind on a GPU.")
    parser.add_argument("--out", type=Path, default=Path("gpu_overhead.json"), help="file for the numbers")
    parser.add_argument("--repeats", type=int, default=25, help="bursts per measurement; the median is reported")
    parser.add_argument("--device", default="cuda", help="cpu works too, to see that the script runs")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU here")
    check(options.device)
    found = {
        "machine": describe(options.device),
        "host_us": host_times(options.device, options.repeats),
        "profile": profile(options.device),
        "sync_us": times_by_size(options.device, options.repeats),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {options.out}")
    return 0


def describe(device: str) -> dict[str, str]:
    """The versions and the GPU that the numbers belong to."""
    found = {"python": sys.version.split()[0], "torch": torch.__version__, "ghrr": ghrr.__version__}
    try:
        import triton  # noqa: PLC0415
    except ImportError:
        found["triton"] = "not installed"
    else:
        found["triton"] = triton.__version__
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    print(", ".join(f"{name} {value}" for name, value in found.items()))
    return found


def draw(numbers: int, m: int, device: str) -> tuple[Tensor, Tensor]:
    """Two batches of Gaussian slots with about this many complex numbers each."""
    generator = torch.Generator(device).manual_seed(0)
    shape = (numbers // (m * m), m, m)
    a, b = (torch.randn(shape, dtype=torch.complex64, device=device, generator=generator) for _ in range(2))
    return a, b


def check(device: str) -> None:
    """Raise unless repeated calls give the result of ``a @ b``, also for tensors at odd addresses and broadcast."""
    for m in range(1, 9):
        a, b = draw(1 << 14, m, device)
        odd = torch.empty(a.numel() + 1, dtype=a.dtype, device=device)[1:].view(a.shape).copy_(a)
        for x, y in ((a, b), (a, b), (odd, b), (a, odd), (a, b), (a.mH, b), (torch.stack([a, b]), b)):
            for backend in ("triton", "auto") if device == "cuda" else ("auto",):
                with ghrr.backend(backend):
                    for _ in range(2):
                        torch.testing.assert_close(ghrr.bind(x, y), x @ y, atol=1e-4 * m, rtol=1e-4)
    print("results are correct")


def wait(device: str) -> None:
    """Wait until the GPU has done everything."""
    if device == "cuda":
        torch.cuda.synchronize()


def host_time(call: Callable[[], Any], device: str, repeats: int) -> float:
    """Microseconds until a call returns; the median over bursts of calls."""
    for _ in range(20):
        call()
    bursts = []
    for _ in range(repeats):
        wait(device)
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        bursts.append((time.perf_counter() - start) / CALLS * 1e6)
    return statistics.median(bursts)


def sync_time(call: Callable[[], Any], device: str, repeats: int) -> float:
    """Microseconds until the result of a call exists."""
    for _ in range(10):
        call()
    times = []
    for _ in range(4 * repeats):
        wait(device)
        start = time.perf_counter()
        call()
        wait(device)
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def host_times(device: str, repeats: int) -> dict[str, float]:
    """Host time of binding and of what it is compared with, on 2^18 numbers and on few."""
    found: dict[str, float] = {}
    for m in (1, 3):
        a, b = draw(1 << 18, m, device)
        leaf = a.clone().requires_grad_()
        calls: dict[str, Callable[[], Any]] = {
            "empty_like": lambda a=a: torch.empty_like(a),  # type: ignore[misc]
            "a * b": lambda a=a, b=b: a * b,  # type: ignore[misc]
            "a @ b": lambda a=a, b=b: a @ b,  # type: ignore[misc]
            "ghrr.ops.bind": lambda a=a, b=b: ghrr.ops.bind(a, b),  # type: ignore[misc]
            "ghrr.bind": lambda a=a, b=b: ghrr.bind(a, b),  # type: ignore[misc]
            "ghrr.unbind left": lambda a=a, b=b: ghrr.unbind(a, b, side="left"),  # type: ignore[misc]
            "ghrr.bind, one against many": lambda a=a, b=b: ghrr.bind(a, b[None]),  # type: ignore[misc]
            "ghrr.bind with gradient": lambda a=leaf, b=b: ghrr.bind(a, b),  # type: ignore[misc]
            "a @ b with gradient": lambda a=leaf, b=b: a @ b,  # type: ignore[misc]
        }
        backend = "triton" if device == "cuda" else "auto"
        for name, call in calls.items():
            with ghrr.backend(backend):
                found[f"m={m} {name}"] = round(host_time(call, device, repeats), 2)
            print(f"host µs per call  m={m} {name:32} {found[f'm={m} {name}']:8.2f}")
    return found


def profile(device: str, calls: int = 2000, rows: int = 30) -> list[dict[str, Any]]:
    """Where ``ghrr.bind`` spends its host time: the functions with most time of their own."""
    a, b = draw(1 << 18, 3, device)
    profiler = cProfile.Profile()
    with ghrr.backend("triton" if device == "cuda" else "auto"):
        for _ in range(20):
            ghrr.bind(a, b)
        for _ in range(calls // CALLS):
            wait(device)
            profiler.enable()
            for _ in range(CALLS):
                ghrr.bind(a, b)
            profiler.disable()
    stats: dict[Any, Any] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    found = [
        {
            "function": f"{Path(file).name}:{line} {name}",
            "calls": round(count / calls, 2),
            "own_us": round(own / calls * 1e6, 2),
            "total_us": round(total / calls * 1e6, 2),
        }
        for (file, line, name), (count, _, own, total, _) in stats.items()
    ]
    found = sorted(found, key=lambda row: -float(row["own_us"]))[:rows]
    print("calls, own µs, total µs per ghrr.bind")
    for row in found:
        print(f"{row['calls']:6} {row['own_us']:8} {row['total_us']:8}  {row['function']}")
    return found


def times_by_size(device: str, repeats: int) -> list[dict[str, Any]]:
    """Synchronous time of ``ghrr.bind`` with each backend, and of ``a @ b``."""
    found = []
    for m in range(1, 5):
        for power in range(10, 21):
            a, b = draw(1 << power, m, device)
            row: dict[str, Any] = {"m": m, "numbers": a.numel(), "power": power}
            for name in BACKENDS if device == "cuda" else ("torch", "auto"):
                with ghrr.backend(name):
                    row[name] = round(sync_time(lambda a=a, b=b: ghrr.bind(a, b), device, repeats), 2)  # type: ignore[misc]
            row["a @ b"] = round(sync_time(lambda a=a, b=b: a @ b, device, repeats), 2)  # type: ignore[misc]
            found.append(row)
            print("synchronous µs  " + "  ".join(f"{name} {value}" for name, value in row.items()))
    return found

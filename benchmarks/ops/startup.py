"""Time to import the library, and of the first call of each kernel.

Each measurement runs in a new process: with an empty folder for compiled kernels, then with the same folder, which has
them. ``ops/speed.py`` includes these measurements; ``python -m benchmarks ops.startup`` repeats only them and
replaces them in the stored table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import command, facts, quartiles, store
from benchmarks.common.paths import RESULTS

IMPORT = """
import time
import torch
start = time.perf_counter()
import ghrr
print(time.perf_counter() - start)
"""

FIRST_CALLS = """
import sys, time
import torch, ghrr
device = sys.argv[1]
batch = 64 if device == "cuda" else 8  # for smaller tensors on a GPU, torch is used
with ghrr.backend("torch"):
    x = ghrr.Space(1000, 3).random(batch, generator=torch.Generator(device))
calls = {
    "random": lambda: ghrr.Space(1000, 3).random(batch, generator=torch.Generator(device)),
    "bind": lambda: ghrr.bind(x, x),
    "bind_bundle": lambda: ghrr.bind_bundle(x, x),
    "multibind": lambda: ghrr.multibind(x),
    "unbind_similarity": lambda: ghrr.unbind_similarity(x, x, x, side="left"),
    "power": lambda: ghrr.power(x, 5),
}
for name in sys.argv[2:]:
    start = time.perf_counter()
    calls[name]()
    if device == "cuda":
        torch.cuda.synchronize()
    print(name, time.perf_counter() - start)
"""

OPERATIONS = ("random", "bind", "bind_bundle", "multibind", "unbind_similarity", "power")
TARGETS = {"import beyond torch": 0.3, "first call": 10.0, "first call, from the cache": 1.0}


def run(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """Run code in a new process, and return the lines that it prints."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(  # noqa: S603 (our own code)
        command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **(environment or {})}
    )
    return done.stdout.splitlines()


def measure(device: str, repeats: int, operations: Sequence[str] = OPERATIONS) -> list[dict[str, Any]]:
    """Return the time of the import and of each first call, with the longest acceptable time."""
    seconds = [float(run(IMPORT)[0]) for _ in range(max(2, repeats))]
    rows = [{"what": "import beyond torch", "seconds": quartiles(seconds)["median"]}]
    with tempfile.TemporaryDirectory() as folder:
        environment = {"NUMBA_CACHE_DIR": f"{folder}/numba", "TRITON_CACHE_DIR": f"{folder}/triton"}
        for what in ("first call", "first call, from the cache"):
            for text in run(FIRST_CALLS, device, *operations, environment=environment):
                name, value = text.split()
                rows.append({"what": what, "operation": name, "seconds": float(value)})
    return [row | {"most_seconds": TARGETS[str(row["what"])]} for row in rows]


def line(row: Mapping[str, Any]) -> str:
    """Format a measurement as a line of text."""
    return f"{row['what']:<28}{row.get('operation', ''):<20}{row['seconds']:>8.3f} s (at most {row['most_seconds']} s)"


def main() -> None:
    """Measure, print, and replace the measurements in the stored table."""
    parser = argparse.ArgumentParser(description="Time to import the library, and of the first call of each kernel.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the table")
    options = parser.parse_args()
    name = "speed_gpu" if options.device == "cuda" else "speed"
    path = options.out / f"{name}.json"
    if not path.exists():
        parser.error(f"there is no {path}; run benchmarks/ops/speed.py first")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU here")
    table = json.loads(path.read_text(encoding="utf-8"))
    rows = measure(options.device, 3)
    print("\n".join(line(row) for row in rows))
    given = ["--device", options.device]
    measured = {"startup": rows, "startup_command": command("ops.startup", given), "startup_on": facts(options.device)}
    store({**table, **measured}, options.out, name)

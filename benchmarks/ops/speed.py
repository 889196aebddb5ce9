"""Speed of binding and of the operations built on it, compared with physical limits, PyTorch and other libraries.

Every result is compared with the formulas of ``ghrr.ops.reference`` and with the other implementation before it is
timed. A wrong result is not timed, and the command ends with exit code 1. Run it on an idle machine::

    python -m benchmarks ops.speed
    python -m benchmarks ops.speed --device cuda

The table shows our time and, for each other implementation, its time divided by ours, as median (quartiles). Above 1,
ours is faster. For the limits (copy, FHRR) the ratio is the share of the limiting speed that ours reaches.
``ops/products.py`` and ``ops/peer_cases.py`` define the cases. ``ops/figures.py`` draws figures of the
stored results.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.measuring import Case, command, facts, run_cases, store
from benchmarks.common.paths import RESULTS
from benchmarks.ops import peer_cases as peers
from benchmarks.ops import products, startup
from ghrr import ops


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the cases of the table, each created when it is needed."""
    total, batch = options.total_dim, options.batch
    if options.device == "cuda":
        yield from products.on_gpu(total, batch, options.m)
    else:
        yield from products.on_cpu(total, batch, options.m)
        yield from peers.cases(quick=options.quick, numbers=2000 if options.quick else 1_800_000)
    powers = [4**n for n in range(7) if 4**n <= batch]
    dims = [10, 100] if options.quick else [10, 30, 100, 300, 1000, 3000, 10_000, 30_000]
    yield from products.curves(total, powers, dims, powers, options.device)


def missed(row: dict[str, Any]) -> list[str]:
    """Describe the targets that a result does not reach."""
    found = [
        f"{name} {row['ratios'][name]['median']:.3g}, target {least:.3g}"
        for name, least in row["targets"].items()
        if row["ratios"][name]["median"] < least
    ]
    most = row["most_seconds"]
    if most is not None and row["seconds"]["ours"]["median"] > most:
        found.append(f"{row['seconds']['ours']['median']:.3g} s, target at most {most:.3g} s")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, print and store the table; return 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description="Speed compared with physical limits, PyTorch and other libraries.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--total-dim", type=int, help="total dimension; default: 9000 on a CPU, 9216 on a GPU")
    parser.add_argument("--batch", type=int, help="size of large batches; default: 1024 on a CPU, 4096 on a GPU")
    parser.add_argument("--m", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small sizes, to test that it runs; ignore the times")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    on_gpu = options.device == "cuda"
    options.total_dim = options.total_dim or (9216 if on_gpu else 9000)
    options.batch = options.batch or (4096 if on_gpu else 1024)
    if options.repeats < 2 or options.batch < 2 or options.total_dim < 64:
        parser.error("--repeats and --batch must be at least 2, --total-dim at least 64")
    if on_gpu and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU here")
    environment = facts(options.device)  # first, because the benchmark itself raises the load
    print("case, our time, and the time of each other implementation divided by ours: median (quartiles)")
    rows = run_cases(cases(options), options.repeats, options.device)
    # Compiling the kernels of all operations takes seconds.
    starts = startup.measure(options.device, *((2, ["bind"]) if options.quick else (3, startup.OPERATIONS)))
    print("\n".join(startup.line(row) for row in starts))
    store(
        {
            "command": command("ops.speed", given),
            "device": options.device,
            "backend": ops.in_use()[options.device],
            **environment,
            "total_dim": options.total_dim,
            "repeats": options.repeats,
            "rows": rows,
            "startup": starts,
        },
        options.out,
        "speed_gpu" if on_gpu else "speed",
    )
    wrong = sum(not row["right"] for row in rows)
    missed_targets = list(itertools.chain.from_iterable(_named(row) for row in rows if row["right"]))
    missed_targets += [f"  {startup.line(row)}" for row in starts if row["seconds"] > row["most_seconds"]]
    print(f"\n{len(rows)} cases by {ops.in_use()[options.device]}: {wrong} wrong, {len(missed_targets)} targets missed")
    print("\n".join(missed_targets))
    return 1 if wrong else 0


def _named(row: dict[str, Any]) -> list[str]:
    return [f"  {row['group']}, {row['setting']}: {text}" for text in missed(row)]

"""Speed of binding and of what is built on it: one table, each number a ratio measured in one run.

Every case is checked before it is timed, against the formulas of ``ghrr.ops.reference`` and against the rival; where
the result is wrong there is no time, and the command ends with exit code 1. Run it on a machine that does nothing
else::

    python benchmarks/speed.py
    python benchmarks/speed.py --device cuda

The table shows our time, and for each other its time over ours, median (quartiles): more than 1 means that ours is
quicker, and for a limit (copy, FHRR) it is the share of the limit that is reached. ``benchmarks/products.py`` and
``benchmarks/peers.py`` say what is compared. ``benchmarks/figures.py`` draws the figures from the stored numbers.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import peers
import products
import startup
import torch
from measuring import RESULTS, Case, command, facts, run_cases, store

from ghrr import ops


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """What the table consists of, made one by one."""
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
    """What a row wanted and did not reach, in words."""
    found = [
        f"{name} {row['ratios'][name]['median']:.3g}, wanted {least:.3g}"
        for name, least in row["targets"].items()
        if row["ratios"][name]["median"] < least
    ]
    most = row["most_seconds"]
    if most is not None and row["seconds"]["ours"]["median"] > most:
        found.append(f"{row['seconds']['ours']['median']:.3g} s, wanted at most {most:.3g} s")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and time, print the table, write the numbers; gives 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description="Speed against physical limits, library calls and other libraries.")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--total-dim", type=int, help="9000 on a CPU, 9216 on a GPU")
    parser.add_argument("--batch", type=int, help="of the large cases: 1024 on a CPU, 4096 on a GPU")
    parser.add_argument("--m", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs: the times mean nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    on_gpu = options.device == "cuda"
    options.total_dim = options.total_dim or (9216 if on_gpu else 9000)
    options.batch = options.batch or (4096 if on_gpu else 1024)
    if options.repeats < 2 or options.batch < 2 or options.total_dim < 64:
        parser.error("--repeats and --batch must be at least 2, --total-dim 64")
    if on_gpu and not torch.cuda.is_available():
        parser.error("--device cuda: there is no GPU here")
    surroundings = facts(options.device)  # before we are the load ourselves
    print("case, our time, then each other's time over ours: median (quartiles)")
    rows = run_cases(cases(options), options.repeats, options.device)
    starts = startup.measure(options.device, 2 if options.quick else 3)
    print("\n".join(startup.line(row) for row in starts))
    store(
        {
            "command": command("speed", given),
            "device": options.device,
            "backend": ops.in_use()[options.device],
            **surroundings,
            "total_dim": options.total_dim,
            "repeats": options.repeats,
            "rows": rows,
            "startup": starts,
        },
        options.out,
        "speed_gpu" if on_gpu else "speed",
    )
    wrong = sum(not row["right"] for row in rows)
    short = list(itertools.chain.from_iterable(_named(row) for row in rows if row["right"]))
    short += [f"  {startup.line(row)}" for row in starts if row["seconds"] > row["most_seconds"]]
    print(f"\n{len(rows)} cases by {ops.in_use()[options.device]}: {wrong} wrong, {len(short)} short of what is wanted")
    print("\n".join(short))
    return 1 if wrong else 0


def _named(row: dict[str, Any]) -> list[str]:
    return [f"  {row['group']}, {row['setting']}: {text}" for text in missed(row)]


if __name__ == "__main__":
    sys.exit(main())

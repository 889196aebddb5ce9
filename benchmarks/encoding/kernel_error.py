"""Error of approximated kernels with random, orthogonal and quasi-random frequencies, at equal dimension.

The error is the root mean square of similarity minus kernel over random pairs and seeds, for each kernel and number of
features. It is divided by 1/√(2·dim·m), the error of independent frequencies where the kernel is near zero::

    python -m benchmarks encoding.kernel_error
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import ghrr
from benchmarks.common.measuring import command, store
from benchmarks.common.paths import RESULTS
from ghrr.encoding import FractionalPower

KERNELS = ("rbf", "matern-5/2", "matern-3/2", "matern-1/2", "laplace", "cauchy", "sinc")
ISOTROPIC = ("rbf", "matern-5/2", "matern-3/2", "matern-1/2")
SAMPLING = ("random", "orthogonal", "qmc")
FEATURE_COUNTS = (1, 2, 4, 8, 16)


def relative_error(kernel: str, sampling: str, n: int, *, dim: int, m: int, seeds: int) -> float:
    """Return the error over pairs at distances of about one bandwidth, in units of 1/√(2·dim·m)."""
    squares = []
    pairs = torch.randn(2, 200, n, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / math.sqrt(2 * n)
    for seed in range(seeds):
        space = ghrr.Space(dim, m, seed=seed, dtype=torch.complex128)
        encoder = FractionalPower(space, n, kernel=kernel, sampling=sampling)
        x, y = 1.5 * pairs
        error = ghrr.similarity(encoder(x), encoder(y)) - encoder.kernel(x, y)
        squares.append(error.square().mean())
    return float(torch.stack(squares).mean().sqrt()) * math.sqrt(2 * dim * m)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print the table, and store and return the results."""
    parser = argparse.ArgumentParser(description="Error of approximated kernels by sampling of the frequencies.")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--m", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    size = {"dim": options.dim, "m": options.m, "seeds": options.seeds}
    rows = [
        {"kernel": kernel, "features": n, **{kind: relative_error(kernel, kind, n, **size) for kind in kinds}}
        for kernel in KERNELS
        for n in FEATURE_COUNTS
        for kinds in [[kind for kind in SAMPLING if kind != "orthogonal" or kernel in ISOTROPIC]]
    ]
    print("root mean square error of the kernel, in units of 1/√(2·dim·m)")
    print(f"{'kernel':<12}{'features':>9}" + "".join(f"{kind:>12}" for kind in SAMPLING))
    for row in rows:
        cells = [f"{row[kind]:.3f}" if kind in row else "" for kind in SAMPLING]
        print(f"{row['kernel']:<12}{row['features']:>9}" + "".join(f"{cell:>12}" for cell in cells))
    report = {"command": command("encoding.kernel_error", given), **size, "results": rows}
    store(report, options.out, "kernel_error")
    return report

"""Time of encoding numbers, compared with the operations that every such encoder needs: a matrix product, sin and cos.

Encodes a batch of 10,000 × 32 features at total_dim 4096, for m = 1, 2 and 4. First the encoding is compared with its
formula; the benchmark stops if they differ. Then all functions are timed alternately in one process, and each ratio
compares two successive measurements. Run it on an idle machine::

    python -m benchmarks encoding.numbers

- product, sin, cos: the minimum for any encoder with this number of phases. The three results are new tensors.
- with output: the same, and writing one complex tensor of total_dim numbers per row, each phase m times. The numbers
  are in the order that is fastest to write, which is not the order of an encoding, and are not multiplied by rotations.
- torch alone: the encoding without numba kernels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import command, quartiles, store, time_alternately
from benchmarks.common.paths import RESULTS
from ghrr.encoding import FractionalPower

TARGET = 1.3


def plain_encoding(encoder: FractionalPower, x: Tensor) -> Tensor:
    """Encode by the formula Q_j diag(exp(i w_jk · x)), in double precision."""
    angles = torch.einsum("bn,jkn->bjk", x.double(), encoder.frequencies.double())
    return encoder.rotation.to(torch.complex128) @ torch.diag_embed(torch.exp(1j * angles))


def check(encoder: FractionalPower, x: Tensor) -> float:
    """Return the largest difference between encoding and formula for some rows; stop if it exceeds rounding errors."""
    ends = torch.cat([torch.arange(len(x))[:100], torch.arange(len(x))[-100:]])
    rows = x[ends]
    difference = float((encoder(x)[ends] - plain_encoding(encoder, rows)).abs().max())
    largest_angle = float(encoder.phases(rows).abs().max())
    bound = 8 * torch.finfo(x.dtype).eps * max(1.0, largest_angle)
    if not difference <= bound:
        raise SystemExit(f"the encoding differs from the formula by {difference:.2e}, expected at most {bound:.2e}")
    return difference


def timed_functions(encoder: FractionalPower, x: Tensor) -> dict[str, Callable[[], object]]:
    """Return the functions to time, by name."""
    space = encoder.space
    weights = encoder.frequencies.flatten(0, 1).mT.contiguous()

    def unavoidable() -> tuple[Tensor, Tensor]:
        angles = x @ weights
        return torch.cos(angles), torch.sin(angles)

    def with_output() -> Tensor:
        cos, sin = unavoidable()
        out = torch.empty((len(x), space.m, space.dim * space.m), dtype=space.dtype)
        for i in range(space.m):
            torch.complex(cos, sin, out=out[:, i])
        return out

    def torch_alone() -> Tensor:
        with ghrr.ops.backend("torch"):
            return cast(Tensor, encoder(x))

    return {
        "unavoidable": unavoidable,
        "with_output": with_output,
        "torch_alone": torch_alone,
        "encoding": lambda: encoder(x),
    }


def run(m: int, options: argparse.Namespace) -> dict[str, Any]:
    """Check and time one m."""
    space = ghrr.Space.from_total(options.total_dim, m, seed=0)
    encoder = FractionalPower(space, options.features)
    x = torch.randn(options.rows, options.features, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        difference = check(encoder, x)
        seconds = time_alternately(timed_functions(encoder, x), options.repeats)
    result: dict[str, Any] = {"m": m, "dim": space.dim, "phases": space.dim * m, "largest_difference": difference}
    result["seconds"] = {name: quartiles(values) for name, values in seconds.items()}
    for name in ("unavoidable", "with_output", "torch_alone"):
        pairs = zip(seconds["encoding"], seconds[name], strict=True)
        result[f"ratio_to_{name}"] = quartiles([ours / other for ours, other in pairs])
    return result


def table(results: list[dict[str, Any]]) -> str:
    """Format the results as a table."""
    lines = [
        "milliseconds, median (quartiles); ratio of successive measurements, median (quartiles)",
        f"{'m':>2}{'phases':>8}{'product, sin, cos':>20}{'with output':>20}{'torch alone':>20}{'encoding':>20}"
        f"{'ratio':>22}",
    ]
    for r in results:
        times = [{k: 1e3 * v for k, v in s.items()} for s in r["seconds"].values()]
        spans = [f"{t['median']:.0f} ({t['low']:.0f} to {t['high']:.0f})" for t in times]
        ratio = r["ratio_to_unavoidable"]
        cell = f"{ratio['median']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
        lines.append(f"{r['m']:>2}{r['phases']:>8}{''.join(f'{span:>20}' for span in spans)}{cell:>22}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print the table, and store and return the results."""
    parser = argparse.ArgumentParser(
        description="Time of encoding numbers, compared with a matrix product, sin and cos."
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--total-dim", type=int, default=4096)
    parser.add_argument("--m", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")
    results = [run(m, options) for m in options.m]
    print(table(results))
    report = {
        "command": command("encoding.numbers", given),
        "rows": options.rows,
        "features": options.features,
        "total_dim": options.total_dim,
        "repeats": options.repeats,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "target_ratio": TARGET,
        "results": results,
    }
    store(report, options.out, "encoding")
    return report

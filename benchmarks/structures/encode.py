"""Time of encoding many records in one batch, compared with encoding them one by one.

10,000 nested records of 20 values each, at total_dim 900, for m = 1, 2 and 3 and fields with 100 or 1000 different
values. One Record does both and has seen all paths and values before, so that no atoms are sampled during the
measurement. First the results of both are compared; the benchmark stops if they differ. Then both are timed
alternately, and each ratio compares two successive measurements. The batch is fast, so it is encoded several times in a
row.
The first of these calls allocates 72 MB, which can dominate its time on a virtual machine: it is reported separately.
Run it on an idle machine::

    python -m benchmarks structures.encode
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import command, quartiles, store
from benchmarks.common.paths import RESULTS
from ghrr.structures import CapacityWarning, Record

TARGET = 20
BATCH_CALLS = 9  # successive calls per measurement of the batch


def make_records(count: int, values: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return records of the same 20 paths: words, numbers, a list and two levels of nesting."""
    rng = random.Random(seed)  # noqa: S311 (nothing here is secret)

    def word() -> str:
        return f"word {rng.randrange(values)}"

    return [
        {
            **{f"field {n}": word() for n in range(8)},
            "numbers": {f"n{n}": rng.randrange(values) for n in range(4)},
            "more": {"deep": {f"key {n}": word() for n in range(4)}, "list": [word() for _ in range(4)]},
        }
        for _ in range(count)
    ]


def check(codec: Record, records: Sequence[Any]) -> float:
    """Return the largest difference between a batch and single records; stop if it exceeds rounding errors."""
    sample = records[:: max(1, len(records) // 50)]
    batched, single = codec.encode_many(sample), torch.stack([codec.encode(record) for record in sample])
    difference = float((batched - single).abs().max())
    bound = 20 * 20 * torch.finfo(batched.dtype).eps
    if not difference <= bound:
        raise SystemExit(f"a batch differs from single records by {difference:.2e}, expected at most {bound:.2e}")
    return difference


def run(m: int, values: int, options: argparse.Namespace) -> dict[str, Any]:
    """Check and time one m and one number of values."""
    space = ghrr.Space.from_total(options.total_dim, m, seed=0)
    codec = Record(space)
    records = make_records(options.records, values)
    codec.encode_many(records)

    def one_by_one() -> list[Tensor]:
        return [codec.encode(record) for record in records]

    difference = check(codec, records)
    single, first_batch, batched = [], [], []
    for _ in range(options.repeats):
        single.append(seconds_of(one_by_one))
        first_batch.append(seconds_of(lambda: codec.encode_many(records)))
        batched.append(statistics.median(seconds_of(lambda: codec.encode_many(records)) for _ in range(BATCH_CALLS)))
    return {
        "m": m,
        "values_per_field": values,
        "largest_difference": difference,
        "one_by_one_seconds": quartiles(single),
        "batched_seconds": quartiles(batched),
        "ratio": quartiles([slow / fast for slow, fast in zip(single, batched, strict=True)]),
        "ratio_of_first": quartiles([slow / fast for slow, fast in zip(single, first_batch, strict=True)]),
    }


def seconds_of(function: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as text."""
    lines = [
        "seconds for all records, median (quartiles); ratio of successive measurements, median (quartiles)",
        f"{'m':>2}{'values':>8}{'one by one':>24}{'batched':>24}{'ratio':>24}{'ratio, first call':>24}",
    ]
    for result in results:
        cells = [
            f"{span['median']:.3g} ({span['low']:.3g} to {span['high']:.3g})"
            for span in (result[name] for name in ("one_by_one_seconds", "batched_seconds", "ratio", "ratio_of_first"))
        ]
        lines.append(f"{result['m']:>2}{result['values_per_field']:>8}{''.join(f'{cell:>24}' for cell in cells)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print the table, and store and return the results."""
    warnings.simplefilter("ignore", CapacityWarning)  # some spaces are too small on purpose
    parser = argparse.ArgumentParser(description="Time of encoding records in one batch, compared with one by one.")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--values", type=int, nargs="+", default=[100, 1000], help="different values per field")
    parser.add_argument("--total-dim", type=int, default=900)
    parser.add_argument("--m", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.repeats < 2:
        parser.error("--repeats must be at least 2")
    results = [run(m, values, options) for m in options.m for values in options.values]
    print(table(results))
    report = {
        "command": command("structures.encode", given),
        "records": options.records,
        "leaves": 20,
        "total_dim": options.total_dim,
        "repeats": options.repeats,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "target_ratio": TARGET,
        "results": results,
    }
    store(report, options.out, "structures")
    return report

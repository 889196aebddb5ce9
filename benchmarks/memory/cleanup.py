"""Time and memory of ``ItemMemory.cleanup``, compared with bare matrix products, and the cost of narrow number types.

First the answers of both are compared; the benchmark stops if they differ. Then both are timed alternately in one
process, and each ratio compares two successive measurements. Run it on an idle machine::

    python -m benchmarks memory.cleanup

- cleanup: ``ItemMemory.cleanup`` of 10,000 queries among 100,000 items, total_dim 900, and its peak of extra memory.
- bare: the same products in the same chunks, written to preallocated memory, and ``topk``. Inputs are not checked, the
  order of equal scores is arbitrary, and labels are not looked up.
- growing: time per item if items are added one by one, at several sizes.
- storage: for each number type the bytes per item, the error of scores, the share of correct answers, and the time. The
  queries are bundles of so many items that float32 makes some errors too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import command, peak_extra_memory, store, time_alternately
from benchmarks.common.paths import RESULTS
from ghrr.memory import ItemMemory
from ghrr.memory.storage import DTYPES

TARGET_RATIO, TARGET_MEGABYTES = 1.2, 500


def bare(queries: Tensor, items: Tensor, k: int, *, rows: int = 4096, columns: int = 2048) -> tuple[Tensor, Tensor]:
    """Return the k largest dot products of each query and their indices, by chunked products and top-k only."""
    buffer = torch.empty(columns * rows)
    scores, indices = [], []
    for first in range(0, len(queries), columns):
        block = queries[first : first + columns]
        best, best_indices = block.new_empty(len(block), 0), torch.empty(len(block), 0, dtype=torch.int64)
        for start in range(0, len(items), rows):
            chunk = items[start : start + rows]
            out = buffer[: len(block) * len(chunk)].view(len(block), len(chunk))
            found = torch.mm(block, chunk.mT, out=out).topk(min(k, len(chunk)))
            merged = torch.cat([best, found.values], dim=1).topk(min(k, best.shape[1] + found.values.shape[1]))
            best = merged.values
            best_indices = torch.cat([best_indices, found.indices + start], dim=1).gather(1, merged.indices)
        scores.append(best)
        indices.append(best_indices)
    return torch.cat(scores), torch.cat(indices)


def as_rows(x: Tensor) -> Tensor:
    return torch.view_as_real(x).reshape(len(x), -1)


def compare_with_bare(space: ghrr.Space, options: argparse.Namespace) -> dict[str, Any]:
    """Compare the answers, the time and the memory of cleanup with the bare products."""
    generator = space.generator("items")
    items = torch.randn(options.items, *space.shape, dtype=space.dtype, generator=generator)
    queries = torch.randn(options.queries, *space.shape, dtype=space.dtype, generator=generator)
    memory = ItemMemory(space, map(str, range(options.items)), items)
    del items
    rows = memory.vectors(memory.labels)
    results = {}
    for k in options.k:
        extra = peak_extra_memory(lambda k=k: memory.cleanup(queries, k))  # type: ignore[misc]
        found = memory.cleanup(queries[:200], k)
        scores, indices = bare(as_rows(queries[:200]), as_rows(rows), k)
        labels_agree = [[str(index) for index in row] for row in indices.tolist()] == found.labels
        if not labels_agree or not torch.allclose(found.scores, scores / (space.m * space.dim), atol=1e-5):
            raise SystemExit(f"cleanup and the bare products give different answers for k = {k}")
        functions: dict[str, Callable[[], object]] = {
            "bare": lambda k=k: bare(as_rows(queries), as_rows(rows), k),  # type: ignore[misc]
            "cleanup": lambda k=k: memory.cleanup(queries, k),  # type: ignore[misc]
        }
        seconds = time_alternately(functions, options.repeats, warm_up=False)
        ratios = [ours / bare_time for ours, bare_time in zip(seconds["cleanup"], seconds["bare"], strict=True)]
        results[str(k)] = {
            "seconds": {name: statistics.median(values) for name, values in seconds.items()},
            "ratio": statistics.median(ratios),
            "ratio_least": min(ratios),
            "ratio_most": max(ratios),
            "peak_extra_megabytes": extra,
        }
    return results


def growing(space: ghrr.Space, options: argparse.Namespace) -> list[dict[str, float]]:
    """Return the time per item while the memory grows tenfold, for several sizes."""
    vector = space.identity()
    memory = ItemMemory(space)
    results = []
    size = 100
    while size <= options.items // 2:
        start, before = time.perf_counter(), len(memory)
        for i in range(before, size):
            memory.add(str(i), vector)
        seconds = time.perf_counter() - start
        results.append({"from": before, "to": size, "microseconds_per_item": 1e6 * seconds / (size - before)})
        size *= 10
    return results


def storage_loss(space: ghrr.Space, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare all number types on the same items and noisy queries."""
    count = options.items // 10
    labels = [str(i) for i in range(count)]
    generator = space.generator("storage")
    items = space.random(count, generator=generator)
    load = space.capacity(candidates=count, error=0.1)
    wanted = torch.randint(0, count, (options.queries // 5,), generator=generator)
    queries = items[wanted].clone()
    for _ in range(load - 1):
        queries += space.random(len(queries), generator=generator)
    exact = as_rows(items[:2000]).double()
    results = []
    for storage in DTYPES:
        memory = ItemMemory(space, labels, items, storage=storage)
        start = time.perf_counter()
        found = memory.cleanup(queries)
        seconds = time.perf_counter() - start
        correct = sum(row == [labels[i]] for row, i in zip(found.labels, wanted.tolist(), strict=True)) / len(wanted)
        error = exact[:200] @ (as_rows(memory.vectors(labels[:2000])).double() - exact).mT / (space.m * space.dim)
        results.append(
            {
                "storage": storage,
                "bytes_per_item": DTYPES[storage].itemsize * 2 * space.total_dim + (4 if storage == "int8" else 0),
                "score_error_over_noise": float(error.square().mean().sqrt()) / space.noise_std,
                "largest_score_error": float(error.abs().max()),
                "right": correct,
                "bundled": load,
                "seconds": seconds,
            }
        )
    return results


def table(report: dict[str, Any]) -> str:
    """Format the results as text."""
    lines = [f"{report['queries']} queries, {report['items']} items, total_dim {report['total_dim']}, float32"]
    for k, r in report["cleanup"].items():
        seconds = r["seconds"]
        extra = "unknown" if r["peak_extra_megabytes"] is None else f"{r['peak_extra_megabytes']:.0f} MB"
        lines.append(
            f"k = {k}: cleanup {seconds['cleanup']:.2f} s, bare {seconds['bare']:.2f} s, ratio {r['ratio']:.3f} "
            f"({r['ratio_least']:.3f} to {r['ratio_most']:.3f}), peak extra memory {extra}"
        )
    lines += [
        f"growing from {r['from']} to {r['to']} items: {r['microseconds_per_item']:.0f} µs per item"
        for r in report["growing"]
    ]
    lines.append(f"{'storage':<10}{'bytes':>7}{'error/noise':>13}{'largest error':>15}{'correct':>8}{'seconds':>9}")
    lines += [
        f"{r['storage']:<10}{r['bytes_per_item']:>7}{r['score_error_over_noise']:>13.1e}"
        f"{r['largest_score_error']:>15.1e}{r['right']:>8.3f}{r['seconds']:>9.2f}"
        for r in report["storage"]
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print the table, and store and return the results."""
    parser = argparse.ArgumentParser(
        description="Time and memory of ItemMemory.cleanup, and the cost of narrow number types."
    )
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--total-dim", type=int, default=900)
    parser.add_argument("--m", type=int, default=3)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if options.repeats < 1 or options.items < 1000 or options.queries < 10:
        parser.error("--repeats must be at least 1, --items at least 1000, --queries at least 10")
    space = ghrr.Space.from_total(options.total_dim, options.m, seed=0)
    report = {
        "command": command("memory.cleanup", given),
        "queries": options.queries,
        "items": options.items,
        "total_dim": space.total_dim,
        "m": space.m,
        "repeats": options.repeats,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "target_ratio": TARGET_RATIO,
        "target_megabytes": TARGET_MEGABYTES,
        "cleanup": compare_with_bare(space, options),
        "growing": growing(space, options),
        "storage": storage_loss(space, options),
    }
    print(table(report))
    store(report, options.out, "memory")
    return report

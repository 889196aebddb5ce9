"""Compare classifiers on tables, images, texts, series and graphs, with one tuning budget for all.

For every data set and method, ``--budget`` configurations are scored on a held-out part of the training data (three
folds below 1,000 samples; at most ``--tune-samples`` samples), then the best one is trained on all training data and
tested with five seeds: of the method, and of the split where the data come without one. Graphs are tested on their ten
folds. A task that exceeds ``--limit`` seconds is stored as such, and runs again with a higher
limit. ::

    python -m benchmarks learn.measure run --data FOLDER --out FOLDER     # measure; resumes from the journal in --out
    python -m benchmarks learn.measure collect JOURNAL...                 # write and draw the results from journals
    python -m benchmarks learn.measure pack --data FOLDER --out FOLDER    # copy all data into small files

To resume the stored run, unpack ``results/learning_journal.jsonl.gz`` as ``journal.jsonl`` into the folder ``--out``.
``benchmarks/learn/data.py`` describes how to get the data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sklearn
import torch

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.learn import report as learning_report
from benchmarks.learn import schedule
from benchmarks.learn.data import SOURCES, pack
from benchmarks.learn.methods import METHODS
from benchmarks.learn.tasks import Setting

QUICK = {"budget": 2, "seeds": 2, "total_dim": 64, "tune_samples": 1000}

JOURNAL = "learning_journal"
COLLECT = f"python -m benchmarks learn.measure collect results/benchmarks/{JOURNAL}.jsonl.gz"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    result = argparse.ArgumentParser(description="Compare classifiers with one tuning budget for all.")
    parts = result.add_subparsers(dest="part", required=True)
    run = parts.add_parser("run", help="measure; resumes from the journal in --out")
    run.add_argument("--data", type=Path, required=True, help="folder with the data, packed or as in the packages")
    run.add_argument("--out", type=Path, required=True, help="folder of the journal")
    run.add_argument("--sets", nargs="+", default=list(SOURCES), choices=list(SOURCES), metavar="NAME")
    run.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS), metavar="NAME")
    run.add_argument("--budget", type=int, default=30, help="configurations per method and data set (30)")
    run.add_argument("--seeds", type=int, default=5, help="seeds of the test (5)")
    run.add_argument("--total-dim", type=int, default=2048, help="complex numbers per class vector (2048)")
    run.add_argument("--tune-samples", type=int, default=10_000, help="most samples of a search (10000)")
    run.add_argument("--limit", type=float, default=300.0, help="most seconds of a task (300)")
    run.add_argument("--minutes", type=float, default=float("inf"), help="stop after so many minutes")
    run.add_argument("--jobs", type=int, default=1, help="processes on the CPU, one thread each (1)")
    run.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    run.add_argument("--gpu-jobs", type=int, default=3, help="processes that share the GPU (3)")
    run.add_argument("--shard", default="0/1", help="part of the data sets, as 0/2 and 1/2")
    run.add_argument("--retry", action="store_true", help="run tasks again that failed")
    run.add_argument("--quick", action="store_true", help=f"small sizes: {QUICK}")
    collect = parts.add_parser("collect", help="write and draw the results from journals")
    collect.add_argument("journals", type=Path, nargs="+")
    collect.add_argument("--out", type=Path, default=RESULTS)
    packing = parts.add_parser("pack", help="copy all data into small files")
    packing.add_argument("--data", type=Path, required=True)
    packing.add_argument("--out", type=Path, required=True)
    return result


def measure(options: argparse.Namespace) -> int:
    """Run all tasks that are not in the journal."""
    options.out.mkdir(parents=True, exist_ok=True)
    journal = schedule.Journal(options.out / "journal.jsonl", retry=options.retry, limit=options.limit)
    pairs = schedule.searches(options.sets, options.methods, options.data, budget=options.budget, seeds=options.seeds)
    devices = ["cuda"] * (options.gpu_jobs if options.device == "cuda" else 0) + ["cpu"] * options.jobs
    workers = [
        schedule.Worker(Setting(options.data, options.total_dim, options.tune_samples, device), options.limit)
        for device in devices
    ]
    part, parts = (int(number) for number in options.shard.split("/"))
    about = {"part": "about", "command": options.command, **facts(options.device)}
    store(about | {"options": _plain(options)}, options.out, f"about-{part}-of-{parts}")
    left = schedule.run(pairs, journal, workers, seconds=60 * options.minutes, shard=(part, parts))
    print(f"{len(journal.entries):,} tasks in the journal, {left:,} that can run now are left", flush=True)
    return 0


def _plain(options: argparse.Namespace) -> dict[str, Any]:
    names = ("budget", "seeds", "total_dim", "tune_samples", "limit", "device", "jobs", "gpu_jobs")
    return {name: getattr(options, name) for name in names}


def _versions() -> dict[str, str]:
    return {**facts()["versions"], "scikit-learn": sklearn.__version__}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the part that was asked for."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    options.command = command("learn.measure", given)
    if options.part == "pack":
        paths = [pack(name, options.data, options.out) for name in SOURCES]
        print(f"{sum(path.stat().st_size for path in paths) / 2**20:.1f} MiB in {len(paths)} files")
        return 0
    if options.part == "collect":
        from benchmarks.learn import figures as learning_figure  # noqa: PLC0415 (measuring needs no Matplotlib)

        report = {"command": COLLECT, "versions": _versions(), **learning_report.collect(options.journals)}
        store(report, options.out, "learning")
        learning_report.store_journal(learning_report.merge(options.journals), options.out / f"{JOURNAL}.jsonl.gz")
        learning_figure.draw(report, options.out / "learning_ranks.png")
        return 0
    if options.quick:
        for name, value in QUICK.items():
            setattr(options, name, value)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser().error("there is no GPU here")
    return measure(options)

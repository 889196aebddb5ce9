"""Measure time and memory of an index of generated records, and the speed of encoding with one and two processes.

Usage::

    python -m benchmarks search.speed index --records 1000000 --folder FOLDER
    python -m benchmarks search.speed workers --records 40000 --folder FOLDER

``index`` writes an index of records of ten fields to a folder, in batches; run it again after an interrupt, and it goes
on. The time covers ``add`` and ``save``, without the generation of records. Then it searches 100 damaged records,
and compares the time with the matrix product and the top-k of the same vectors in the same files.

``workers`` encodes the same number of records in each of one and of two processes of one thread, and compares the rate.
Run both on an idle machine. Each stores its rows in ``results/benchmarks/search_speed.json``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.measuring import command, facts, quartiles, store, time_alternately
from benchmarks.common.paths import RESULTS
from benchmarks.search.records import records
from ghrr.search import RecordIndex
from ghrr.search.calibration import PRIOR, damaged_examples
from ghrr.search.encoder import RecordEncoder
from ghrr.search.saving import read_encoder, write_encoder

BATCH = 20_000  # records between two saves
QUERIES = 100
CANDIDATES = 50  # the top-k: records that a search compares by their documents
CHUNK = 2_048  # rows of a matrix product; of the powers of two this is among the fastest
REPEATS = 5
Row = dict[str, Any]


# --------------------------------------------------------------------------------------------------------------- index


def build(folder: Path, count: int) -> Row:
    """Index records in a folder, or go on where an earlier run stopped; return time and peak memory."""
    notes = folder / "progress.json"
    done: Row = {"records": 0, "seconds": 0.0, "cpu_seconds": 0.0, "peak_memory_gb": 0.0}
    index = RecordIndex()
    if notes.exists():
        done, index = json.loads(notes.read_text()), RecordIndex.open(folder / "index")
    if len(index) != done["records"]:
        raise SystemExit(f"{notes}: {done['records']:,} records were timed, {len(index):,} indexed; use a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    for first in range(len(index), count, BATCH):
        batch = records(first, min(BATCH, count - first))
        start, cpu = time.perf_counter(), time.process_time()
        index.add(batch)
        index.save(folder / "index")
        done = {
            "records": len(index),
            "seconds": done["seconds"] + time.perf_counter() - start,
            "cpu_seconds": done["cpu_seconds"] + time.process_time() - cpu,
            "peak_memory_gb": max(done["peak_memory_gb"], peak_memory()),
        }
        notes.write_text(json.dumps(done))
        rate = done["records"] / done["seconds"]
        print(f"{done['records']:,} records, {rate:,.0f} per second, {done['peak_memory_gb']:.2f} GB", flush=True)
    return done


def peak_memory() -> float:
    """Return the peak of resident memory of this process in GB, mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def search(folder: Path, count: int) -> Row:
    """Compare the time of searching examples with the product and top-k of their vectors."""
    numbers = np.random.default_rng(0).choice(count, min(QUERIES, count), replace=False)
    wanted = [records(number // BATCH * BATCH, number % BATCH + 1)[-1] for number in numbers.tolist()]
    examples = damaged_examples(wanted, seed=1)
    start = time.perf_counter()
    index = RecordIndex.open(folder / "index")
    opened = time.perf_counter() - start
    first = [own[0].guess for own in index.search_many(examples)]
    peak = peak_memory()
    queries = torch.view_as_real(index._records.state.encoder.encode(examples)).flatten(1)
    files = list(stored_rows(folder / "index"))
    found = bare_search(queries, files)
    times = {
        clock: time_alternately(
            {
                "search": lambda: index.search_many(examples),
                "product and top-k": lambda: bare_search(queries, files),
            },
            REPEATS,
            warm_up=False,
            clock=function,
        )
        for clock, function in (("seconds", time.perf_counter), ("cpu_seconds", time.process_time))
    }
    ratios = {
        clock: quartiles([a / b for a, b in zip(own["search"], own["product and top-k"], strict=True)])
        for clock, own in times.items()
    }
    return {
        "queries": len(examples),
        "open_s": opened,
        "search_s": quartiles(times["seconds"]["search"]),
        "product_and_top_k_s": quartiles(times["seconds"]["product and top-k"]),
        "ratio": ratios["seconds"],
        "ratio_of_cpu_time": ratios["cpu_seconds"],
        "search_peak_memory_gb": peak,
        "found_first": float(np.mean([name == str(number) for name, number in zip(first, numbers, strict=True)])),
        "among_top_k": float(np.mean([number in own for own, number in zip(found.tolist(), numbers, strict=True)])),
    }


def stored_rows(index: Path) -> Iterator[tuple[Tensor, Tensor]]:
    """Map the rows of the files of an index, in the order in which records were added, and read their scales."""
    manifest = (index / "vectors" / "manifest.json").read_text().partition("\n")[2]
    for path in (index / "vectors" / entry["name"] for entry in json.loads(manifest)["entries"]):
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            table = json.loads(file.read(length))

        def read(name: str, dtype: str, path: Path = path, table: Any = table, start: int = 8 + length) -> Any:
            entry = table[name]
            return np.memmap(path, dtype, "c", start + entry["data_offsets"][0], tuple(entry["shape"]))

        yield torch.from_numpy(read("items", "i1")), torch.from_numpy(np.array(read("scales", "<f4")))


def bare_search(queries: Tensor, files: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the row numbers of the largest products with all rows, one row of them per query."""
    scores, numbers, first = [], [], 0
    for rows, scales in files:
        for start in range(0, len(rows), CHUNK):
            part = slice(start, start + CHUNK)
            products = (queries @ rows[part].float().T).mul_(scales[part])
            best = products.topk(min(CANDIDATES, products.shape[1]))
            scores.append(best.values)
            numbers.append(best.indices + first + start)
        first += len(rows)
    best = torch.cat(scores, dim=1).topk(min(CANDIDATES, first))
    return torch.cat(numbers, dim=1).gather(1, best.indices)


# ------------------------------------------------------------------------------------------------------------- workers


def encode_records(path: str, first: int, count: int, barrier: Any, results: Any) -> None:
    """Encode records in one thread after all processes are ready, and report the seconds."""
    torch.set_num_threads(1)
    encoder: RecordEncoder = read_encoder(Path(path))[0]
    documents = records(first, count)
    encoder.encode(documents[:1000])  # loads code and compiled kernels
    barrier.wait()
    start = time.perf_counter()
    for begin in range(0, count, 4096):
        encoder.encode(documents[begin : begin + 4096])
    results.put(time.perf_counter() - start)


def workers(path: Path, count: int) -> list[Row]:
    """Return the records per second of one and of two processes, measured in turn."""
    encoder = RecordEncoder(RecordIndex().space)
    encoder.fit(records(0, BATCH))
    write_encoder(path, encoder, PRIOR)
    context = multiprocessing.get_context("spawn")
    rows = []
    for repeat in range(REPEATS):
        for processes in (1, 2):
            barrier, results = context.Barrier(processes), context.Queue()
            started = [
                context.Process(target=encode_records, args=(str(path), BATCH * (1 + n), count, barrier, results))
                for n in range(processes)
            ]
            for process in started:
                process.start()
            seconds = max(results.get() for _ in started)
            for process in started:
                process.join()
            rows.append({"repeat": repeat, "processes": processes, "records_per_s": processes * count / seconds})
            print(rows[-1], flush=True)
    return rows


# ---------------------------------------------------------------------------------------------------------------- main


def main(given: Sequence[str] | None = None) -> None:
    """Run one measurement and store it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("index", "workers"))
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="for the index, or for the fields of the workers")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args(given)
    path = arguments.out / "search_speed.json"
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if arguments.part == "index":
        row = {**build(arguments.folder, arguments.records), **search(arguments.folder, arguments.records)}
        print(row, flush=True)
        kept = [other for other in report.get("index", {}).get("rows", []) if other["records"] != row["records"]]
        rows = sorted([*kept, row], key=lambda other: other["records"])
    else:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        rows = workers(arguments.folder / "fields.safetensors", arguments.records)
    options = ["--records", str(arguments.records), "--folder", "FOLDER"]
    report[arguments.part] = {"rows": rows, "command": command("search.speed", [arguments.part, *options]), **facts()}
    store(report, arguments.out, "search_speed")

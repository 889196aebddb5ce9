"""Time to add items to an ItemMemory, to open it and to search it, for each backend.

Each backend must give the answers of the torch backend; the benchmark stops if they differ. Milvus is
the embedded form, a server written in Python that runs in this process; a real server is faster. Run it on an idle
machine::

    python -m benchmarks memory.engines

- add: one ``ItemMemory.add`` of all items; ``add 1``: one more item.
- open: a new ``ItemMemory`` on the existing Milvus collection, which reads the labels.
- query: ``ItemMemory.cleanup`` of 100 queries; ``query 1``: of one query. Medians of several measurements.
- search: ``search`` of the Milvus client alone with the same queries, timed alternately with ``query``.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import ghrr
from benchmarks.common.measuring import Function, command, store, time_alternately
from benchmarks.common.paths import RESULTS
from ghrr.memory import ItemMemory

COLUMNS = ("add", "add 1", "open", "query", "query 1", "search")
TIMEOUT = 600.0


def seconds_of(function: Function) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def measure(space: ghrr.Space, count: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all backends with the same items and queries."""
    generator = space.generator("backends")
    items = torch.randn(count + 1, *space.shape, dtype=space.dtype, generator=generator)
    queries = items[: options.queries] + torch.randn(
        options.queries, *space.shape, dtype=space.dtype, generator=generator
    )
    labels = [str(i) for i in range(count + 1)]
    rows: list[dict[str, Any]] = []
    answers: list[Any] = []
    for name in ("torch", "faiss", "milvus"):
        with tempfile.TemporaryDirectory() as folder:
            where = {"uri": f"{folder}/items.db", "timeout": TIMEOUT} if name == "milvus" else {}
            memory = ItemMemory(space, backend=name, **where)  # type: ignore[arg-type]
            row: dict[str, Any] = {"items": count, "backend": name}
            row["add"] = seconds_of(lambda memory=memory: memory.add(labels[:-1], items[:-1]))  # type: ignore[misc]
            row["add 1"] = seconds_of(lambda memory=memory: memory.add(labels[-1], items[-1]))  # type: ignore[misc]
            row["items_per_second"] = count / row["add"]
            found = memory.cleanup(queries, options.k).labels
            answers = answers or found
            if found != answers:
                raise SystemExit(f"{name} gives other answers than torch")
            functions: dict[str, Function] = {
                "query": lambda memory=memory: memory.cleanup(queries, options.k),  # type: ignore[misc]
                "query 1": lambda memory=memory: memory.cleanup(queries[0], options.k),  # type: ignore[misc]
            }
            if name == "milvus":
                functions["search"] = bare_search(memory, queries, options.k)
                row["open"] = seconds_of(lambda where=where: ItemMemory(space, backend="milvus", **where))  # type: ignore[misc]
            timed = time_alternately(functions, options.repeats)
            row |= {what: statistics.median(seconds) for what, seconds in timed.items()}
            rows.append(row)
            print(line(row), flush=True)
            del memory, functions
            if where:  # stop the server now: it would write to the removed folder at exit
                importlib.import_module("milvus_lite.server_manager").server_manager_instance.release_all()
    return rows


def bare_search(memory: ItemMemory, queries: torch.Tensor, k: int) -> Function:
    """Return a search by the Milvus client alone, with as many results as ItemMemory requests."""
    backend: Any = memory._items.state.backend
    data = list(torch.view_as_real(queries).reshape(len(queries), -1).numpy())
    client, name = backend._connection.client, backend._name
    return lambda: client.search(name, data=data, limit=k + 1, output_fields=["id"], timeout=TIMEOUT)


def line(row: dict[str, Any]) -> str:
    """Format the times of one backend as a line of text."""
    cells = [f"{row[name]:.4g}" if name in row else "" for name in COLUMNS]
    return f"{row['items']:>8} {row['backend']:<8}" + "".join(f"{cell:>10}" for cell in cells)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark, print the table, and store and return the results."""
    parser = argparse.ArgumentParser(description="Time to add items and to search, for each backend of ItemMemory.")
    parser.add_argument("--items", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--total-dim", type=int, default=900)
    parser.add_argument("--m", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if min(options.repeats, options.queries, options.k) < 1 or min(options.items) < options.queries:
        parser.error("--repeats, --queries and --k must be at least 1, --items at least --queries")
    space = ghrr.Space.from_total(options.total_dim, options.m, seed=0)
    print(f"seconds; {options.queries} queries, k = {options.k}, total_dim {space.total_dim}")
    print(f"{'items':>8} {'backend':<8}" + "".join(f"{name:>10}" for name in COLUMNS))
    report = {
        "command": command("memory.engines", given),
        "queries": options.queries,
        "k": options.k,
        "total_dim": space.total_dim,
        "m": space.m,
        "repeats": options.repeats,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "seconds": [row for count in options.items for row in measure(space, count, options)],
    }
    store(report, options.out, "memory_backends")
    return report

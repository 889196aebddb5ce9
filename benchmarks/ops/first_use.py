"""Time of the first call of each public function that compiles kernels, with an empty cache and with a filled one.

Each call runs twice, each time in a new process: first with an empty folder for compiled kernels, then with the same
folder. Inputs are made with PyTorch alone, so that they compile nothing. The times are CPU times, which depend little
on other processes; on an idle machine they are the times that a user waits, since one thread compiles. A first use
should take at most a second longer than with a filled cache::

    python -m benchmarks ops.first_use
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.ops.startup import run

LIMIT = 1.0

SETUP = """
import sys, time, warnings
import torch, ghrr
from ghrr import encoding, learn, memory, models, nn, search, structures
with ghrr.backend("torch"):
    space = ghrr.Space(1000, 3, seed=0)
    x = space.random(8, generator=torch.Generator().manual_seed(0))
    bundle = x + x.roll(1, 0)
    torch.manual_seed(0)
    table = torch.randn(200, 8).numpy()
    classes = (table[:, 0] > 0).astype(int)
    document = {"name": "Ada", "born": {"city": "London", "year": 1815}}
    record = ghrr.Record(space)
    encoded = record.encode(document)
    items = ghrr.ItemMemory(space, ["a", "b", "c"])
    attention = nn.Attention(embed_dim=64, num_heads=2, max_len=64, is_causal=True)
    tokens = torch.randn(2, 64, 64)
    encoder = encoding.FractionalPower(space, n_features=1)
    bits = models.BSC(8192).random(50)
"""

# What a user writes, by name.
CALLS = {
    "Space.random": "space.random(8)",
    "Space.vectors": "space.vectors(['a', 'b'])",
    "bind": "ghrr.bind(x, x)",
    "bind, one with many": "ghrr.bind(x, x[0])",
    "unbind": "ghrr.unbind(x, x, side='left')",
    "bind_bundle": "ghrr.bind_bundle(x, x)",
    "multibind": "ghrr.multibind(x)",
    "similarity": "ghrr.similarity(x, x)",
    "unbind_similarity": "ghrr.unbind_similarity(x, x, x, side='left')",
    "power, whole": "ghrr.power(x, 5)",
    "power, real": "ghrr.power(x, 0.3)",
    "normalize(to='unitary')": "ghrr.normalize(bundle, to='unitary')",
    "FractionalPower": "encoder(torch.linspace(0, 1, 1000)[:, None])",
    "models.BSC": "models.BSC(8192).pairwise_similarity(bits, bits)",
    "ItemMemory.cleanup": "items.cleanup(x)",
    "Record.encode": "ghrr.Record(space).encode(document)",
    "Record.decode": "record.decode(encoded)",
    "HDClassifier.fit": "learn.HDClassifier().fit(table, classes)",
    "nn.Attention": "attention(tokens)",
    "RecordIndex.add": "search.RecordIndex().add([document | {'name': f'name {i}'} for i in range(50)])",
}

TIMED = """
warnings.simplefilter("ignore")
started, used = time.perf_counter(), time.process_time()
{call}
print(time.perf_counter() - started, time.process_time() - used)
"""


def measure(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the times of the first calls in two processes: with an empty folder for kernels, and with a filled one."""
    rows = []
    for name in names:
        code = SETUP + TIMED.format(call=CALLS[name])
        row: dict[str, Any] = {"call": name}
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("empty", "filled"):
                wall, used = map(float, run(code, environment={"NUMBA_CACHE_DIR": folder})[-1].split())
                row[cache] = {"seconds": wall, "cpu_seconds": used}
        rows.append(row)
        print(line(row), flush=True)
    return rows


def over(row: Mapping[str, Any]) -> float:
    """Return how much longer a call takes with an empty cache."""
    difference: float = row["empty"]["cpu_seconds"] - row["filled"]["cpu_seconds"]
    return difference


def line(row: Mapping[str, Any]) -> str:
    """Format a measurement as a line of text."""
    empty, filled = row["empty"], row["filled"]
    mark = f"  more than {LIMIT} s over" if over(row) > LIMIT else ""
    return (
        f"{row['call']:<26}{empty['cpu_seconds']:>7.2f} s{filled['cpu_seconds']:>7.2f} s"
        f"   (waited {empty['seconds']:.2f} s and {filled['seconds']:.2f} s){mark}"
    )


def table(path: Path = RESULTS / "first_use.json") -> tuple[list[str], list[list[str]]]:
    """Return head and rows of the table of stored results."""
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    cells = [
        [f"`{row['call']}`", *(f"{row[cache]['cpu_seconds']:.2f} s" for cache in ("empty", "filled"))] for row in rows
    ]
    return ["first call", "empty cache", "filled cache"], cells


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store the times; return 1 if a first use takes too long."""
    parser = argparse.ArgumentParser(description="Time of the first call of each function that compiles kernels.")
    parser.add_argument("--only", nargs="+", choices=list(CALLS), default=list(CALLS), help="calls; all by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    environment = facts()
    rows = measure(options.only)
    store({"command": command("ops.first_use", given), **environment, "rows": rows}, options.out, "first_use")
    slow = sum(over(row) > LIMIT for row in rows)
    print(f"\n{len(rows)} calls: {slow} take more than {LIMIT} s longer with an empty cache")
    return 1 if slow else 0

"""Tables of the concept pages: from theory, and from stored results of ``concepts.measure`` and ``ops.speed``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from benchmarks.common.paths import RESULTS
from ghrr import Space
from ghrr.capacity import first_true, recall_error
from ghrr.structures import HashTable, NGrams, Record, Sequence, Set, Tree

ERROR = 0.01
Table = tuple[list[str], list[list[str]]]


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def capacity() -> Table:
    """Pairs that a bundle holds, by total dimension and number of candidates."""
    candidates = (10, 100, 1000, 10_000, 100_000)
    rows = []
    for total in (300, 1000, 3000, 10_000, 30_000):
        space = Space(total, 1)
        rows.append([f"{total:,}", *(f"{space.capacity(candidates=count, error=ERROR):,}" for count in candidates)])
    return ["total dimension", *(f"{count:,} candidates" for count in candidates)], rows


def _shared_capacity(total: int, m: int, candidates: int) -> int:
    """Capacity with a shared rotation, with the mean of its crosstalk: E Σ|Q_jk|⁴ = 2m/(m + 1) per slot."""
    space = Space.from_total(total, m, rotation="shared")
    crosstalk = math.sqrt(2 * m / (m + 1) / (2 * space.dim)) / m
    return first_true(lambda n: recall_error(n, candidates, space.noise_std, crosstalk) > ERROR) - 1


def rotations() -> Table:
    """Noise and order of each kind of rotation, predicted and measured, and its capacity."""
    rows, total, candidates = [], 900, 1000
    for row in _stored("concepts")["rotations"]:
        rotation, m = row["rotation"], 2
        space = Space(250, m, rotation=rotation)
        unit = 1 / math.sqrt(2 * space.total_dim)
        swapped = {"varying": 1 / m**2, "fixed": 1 / m**2, "shared": 1 / m}[rotation]
        capacities = [
            _shared_capacity(total, m, candidates)
            if rotation == "shared"
            else Space.from_total(total, m, rotation=rotation).capacity(candidates=candidates, error=ERROR)
            for m in (2, 3, 4)
        ]
        rows.append(
            [
                rotation,
                f"{space.noise_std / unit:.2f} / {row['std'] / unit:.2f}",
                f"{swapped:.2f} / {row['swapped']['mean']:.2f} ± {row['swapped']['std']:.2f}",
                ", ".join(map(str, capacities)),
            ]
        )
    head = [
        "rotation",
        "noise × √(2Dm²)",
        "similarity of a * b and b * a",
        f"pairs, total dimension {total}, m = 2, 3, 4",
    ]
    return head, rows


def suggested() -> Table:
    """Smallest dim for typical structures, by m, and the memory of one hypervector."""
    tasks: dict[str, Callable[[int], Space]] = {
        "`Record`, 20 values of 1,000": lambda m: Record.suggest(20, values=1000, m=m),
        "`Record`, 100 values of 1,000": lambda m: Record.suggest(100, values=1000, m=m),
        "`Tree`, 50 nodes, 100 labels": lambda m: Tree.suggest(50, labels=100, m=m),
        "`Sequence`, 200 items of 1,000": lambda m: Sequence.suggest(200, names=1000, m=m),
        "`Set`, 100 members of 1,000": lambda m: Set.suggest(100, names=1000, m=m),
        "`NGrams`, 100 n-grams of 26 letters": lambda m: NGrams.suggest(100, names=26, m=m),
        "`HashTable`, 200 entries, 50 values": lambda m: HashTable.suggest(200, values=50, m=m),
    }
    rows = []
    for name, suggest in tasks.items():
        spaces = [suggest(m) for m in (1, 2, 3, 4)]
        kilobytes = max(space.total_dim for space in spaces) * 8 / 1000
        rows.append([name, *(f"{space.dim:,}" for space in spaces), f"{kilobytes:.0f} kB"])
    return ["task", *(f"dim for m = {m}" for m in (1, 2, 3, 4)), "memory"], rows


def cost() -> Table:
    """Time of binding relative to m = 1, at equal total dimension."""
    measured = {
        "H200, large batch": ("speed_gpu", "bind"),
        "2 CPU cores, large batch": ("speed", "bind, out of cache"),
        "2 CPU cores, batch 16 (in cache)": ("speed", "bind, in cache"),
    }
    sizes, rows = (1, 2, 3, 4, 6, 8), []
    for name, (file, group) in measured.items():
        times = {
            row["setting"]["m"]: row["seconds"]["ours"]["median"] / (row["setting"]["dim"] * row["setting"]["m"] ** 2)
            for row in _stored(file)["rows"]
            if row["group"] == group
        }
        rows.append([name, *(f"{times[m] / times[1]:.1f}" for m in sizes)])
    return ["time of `bind`, m = 1 is 1", *(f"m = {m}" for m in sizes)], rows

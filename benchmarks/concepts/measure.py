"""Measurements for the concept pages: order, noise, rotations, and trees of a given diagonality.

Every number comes from random hypervectors with a fixed seed and carries a standard error. The figures and tables of
docs/concepts compare them with theory; ``concepts/figures.py`` and ``documents.py`` make them from the stored numbers::

    python -m benchmarks concepts.measure            # two minutes on one core
    python -m benchmarks concepts.measure --quick    # seconds, few samples
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import ghrr
from benchmarks.common.measuring import command, store
from benchmarks.common.paths import RESULTS
from ghrr_lab.paper.theory.trees import PERMUTED, PLAIN, measure_trees

ORDER_TOTAL, NOISE_M = 3600, (1, 2, 3, 4)
NOISE_TOTALS = (144, 288, 576, 1152, 2304, 4608)
DIAGONALITIES = tuple(step / 10 for step in range(11))
TAIL_DIM, TAIL_M = 250, 2
TAILS = tuple(step / 4 for step in range(21))  # thresholds, in units of the noise of varying rotations
ROTATIONS = ("varying", "fixed", "shared")
TREE_TOTAL, TREE_DEPTH, TREE_M = 600, 6, (2, 3, 4, 5)

Row = dict[str, Any]


def mean_and_error(values: Tensor) -> Row:
    """Return the mean of independent values and its standard error."""
    return {"mean": values.double().mean().item(), "error": (values.double().std() / math.sqrt(len(values))).item()}


def std_and_error(values: Tensor) -> Row:
    """Return the root mean square of values of mean zero and its standard error."""
    squares = mean_and_error(values.double().square())
    std = math.sqrt(squares["mean"])
    return {"std": std, "error": squares["error"] / (2 * std)}


def order(pairs: int) -> list[Row]:
    """Measure the similarity of a * b and b * a, for Haar rotations and for given diagonalities."""
    cases: list[tuple[int, float | None]] = [(m, None) for m in range(1, 7)]
    cases += [(m, diagonality) for m in TREE_M for diagonality in DIAGONALITIES]
    rows = []
    for m, diagonality in cases:
        space = ghrr.Space.from_total(ORDER_TOTAL, m, diagonality=diagonality)
        a, b = space.random(2, pairs, generator=space.generator("order"))
        rows.append({"m": m, "diagonality": diagonality, **mean_and_error(ghrr.commutativity(a, b))})
    return rows


def noise(pairs: int) -> list[Row]:
    """Measure the standard deviation of the similarity of independent hypervectors."""
    rows = []
    for m in NOISE_M:
        for total in NOISE_TOTALS:
            space = ghrr.Space.from_total(total, m)
            a, b = space.random(2, pairs, generator=space.generator("noise"))
            rows.append({"m": m, "total_dim": space.total_dim, **std_and_error(ghrr.similarity(a, b))})
    return rows


def rotations(pairs: int) -> list[Row]:
    """Measure noise, tails and order of varying, fixed and shared rotations."""
    rows = []
    unit = ghrr.Space(TAIL_DIM, TAIL_M).noise_std
    thresholds = unit * torch.tensor(TAILS)
    for rotation in ROTATIONS:
        similarities, swapped = [], []
        for batch in range(math.ceil(pairs / 1000)):
            # A shared rotation belongs to the space: every batch has another seed, so that the mean is over rotations.
            space = ghrr.Space(TAIL_DIM, TAIL_M, rotation=rotation, seed=batch)
            a, b = space.random(2, 1000, generator=space.generator("tails"))
            similarities.append(ghrr.similarity(a, b))
            swapped.append(ghrr.commutativity(a[:100], b[:100]))
        values, commuting = torch.cat(similarities), torch.stack(swapped)
        beyond = (values.abs() >= thresholds[:, None]).sum(dim=1).tolist()
        rows.append(
            {
                "rotation": rotation,
                "pairs": len(values),
                **std_and_error(values),
                "beyond": dict(zip(map(str, TAILS), beyond, strict=True)),
                # Pairs of a batch may share rotations, so the error is computed from the means of independent batches.
                "swapped": {**mean_and_error(commuting.mean(dim=1)), "std": commuting.std().item()},
            }
        )
    return rows


def trees(count: int) -> list[Row]:
    """Measure how many values of a nested dictionary are read, by diagonality and with permutation."""
    cases: list[tuple[int, float | None, str]] = [(1, None, PLAIN), (1, None, PERMUTED)]
    cases += [(m, diagonality, PLAIN) for m in TREE_M for diagonality in DIAGONALITIES]
    rows = []
    for m, diagonality, kind in cases:
        space = ghrr.Space.from_total(TREE_TOTAL, m, diagonality=diagonality)
        generator = space.generator("trees")
        table = measure_trees(space, [kind], range(count), depth=TREE_DEPTH, generator=generator)
        accuracy = torch.tensor(table[table["depth"] == TREE_DEPTH]["accuracy"].to_numpy())
        rows.append({"m": m, "diagonality": diagonality, "kind": kind, **mean_and_error(accuracy)})
    return rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure everything and store it."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description="Measurements for the concept pages.")
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for concepts.json")
    options = parser.parse_args(given)
    share = 0.1 if options.quick else 1.0
    report = {
        "command": command("concepts.measure", given),
        "torch": torch.__version__,
        "order": order(pairs=math.ceil(100 * share)),
        "noise": noise(pairs=math.ceil(4000 * share)),
        "rotations": rotations(pairs=math.ceil(100_000 * share)),
        "trees": trees(count=math.ceil(24 * share)),
    }
    store(report, options.out, "concepts")
    return report

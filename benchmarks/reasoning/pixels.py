"""Measure how well drawn matrices of I-RAVEN are solved: perception is trained on our own drawings, rules are given.

Usage::

    python -m benchmarks reasoning.pixels --data FOLDER --seeds 0 1 2 3 4

Settings are chosen on the pictures of problems 800 to 819, the others are reported. Adds to
``results/benchmarks/reasoning_pixels.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.measuring import command, facts, store
from benchmarks.common.paths import RESULTS
from benchmarks.reasoning.data import load
from benchmarks.reasoning.measure import FEW, judged
from ghrr.reasoning import Entities, Matrices, Perception, Reasoner, read_raven, train_perception
from ghrr.reasoning.drawing import draw_panel
from ghrr.reasoning.raven import CONFIGURATIONS

NAME = "reasoning_pixels"
STEPS = 4000
FIRST = 800  # index of the first problem with pictures
COMPARED = 20  # problems with which drawings and settings are compared
Row = dict[str, Any]


def difference(folder: Path) -> list[Row]:
    """Return how far our drawings are from the pictures, in grey levels and shares of pixels."""
    rows = []
    for name in CONFIGURATIONS:
        problems = load(folder, name)[FIRST : FIRST + COMPARED]
        theirs = pictures(folder, name)[:COMPARED].numpy().astype(float)
        ours = np.stack([[draw_panel(panel) for panel in problem["panels"]] for problem in problems]).astype(float)
        apart = np.abs(ours - theirs)
        rows.append({"problem": name, "grey": float(apart.mean()), "share": float((apart > 32).mean())})
    return rows


def pictures(folder: Path, name: str) -> torch.Tensor:
    """Return the pictures of a configuration, ``(100, 16, 80, 80)``."""
    with np.load(folder / f"{name}.pixels.npz", allow_pickle=False) as file:
        return torch.from_numpy(file["images"])


def right_levels(found: Matrices, truth: Matrices) -> dict[str, float]:
    """Return the share of levels read rightly, by kind of attribute."""
    shares: dict[str, list[float]] = {}
    for name, attribute in truth.attributes.items():
        read = found.attributes[name]
        if isinstance(attribute, Entities) and isinstance(read, Entities):
            right = read.values.argmax(-1) == attribute.values.argmax(-1)
            shares.setdefault(name.rpartition("/")[2], []).append(float(right[attribute.presence > 0].float().mean()))
    return {kind: sum(values) / len(values) for kind, values in shares.items()}


def solve(folder: Path, network: Perception, seed: int, seconds: float) -> list[Row]:
    """Solve the pictures of all configurations with given rules and with rules learnt from the training part."""
    rows = []
    for name in CONFIGURATIONS:
        problems = load(folder, name)
        truth, targets = read_raven(problems[FIRST : FIRST + 100])
        found = network.read(pictures(folder, name), name)
        known, answers = read_raven([p for p in problems if p["split"] == "train"])
        order = torch.randperm(len(answers), generator=torch.Generator().manual_seed(seed))[:FEW]
        learnt = Reasoner(seed=seed).fit([known[order]], [answers[order]])
        for method, reasoner in (("given", Reasoner(seed=seed)), ("learnt", learnt)):
            for part, indices in (("compared", slice(0, COMPARED)), ("reported", slice(COMPARED, 100))):
                row = {"problem": name, "method": method, "seed": seed, "part": part, "train seconds": seconds}
                levels = right_levels(found[indices], truth[indices])
                rows.append(row | {"levels": levels} | judged(reasoner.solve(found[indices]), targets[indices]))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, solve and store, one seed after the other."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the files of I-RAVEN")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    options = parser.parse_args(given)
    torch.set_num_threads(1)
    path = RESULTS / f"{NAME}.json"
    for seed in options.seeds:
        start = time.process_time()
        network = train_perception(STEPS, seed=seed)
        rows = solve(options.data, network, seed, time.process_time() - start)
        for row in rows:
            print({key: value for key, value in row.items() if key != "bins"}, flush=True)
        report: Row = json.loads(path.read_text()) if path.exists() else {"rows": []}
        kept = [row for row in report["rows"] if row["seed"] != seed]
        by = command("reasoning.pixels", given, {"--data": "DATA"})
        new = {"rows": sorted(kept + rows, key=lambda row: row["seed"]), "by": by, "steps": STEPS, "facts": facts()}
        store(report | new | {"difference": difference(options.data)}, RESULTS, NAME)


if __name__ == "__main__":
    main()

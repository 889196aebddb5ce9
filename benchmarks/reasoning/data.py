"""Problems of the benchmarks of reasoning: the files, smoothing with another p, and rows generated at any range."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.reasoning import Matrices, Numbers

Problem = dict[str, Any]
CHANCE = 1 / 8


def load(folder: Path, name: str, split: str | None = None) -> list[Problem]:
    """Return the problems of a file; ``split`` is train, valid or test, or None for all."""
    with gzip.open(folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        problems = [json.loads(line) for line in file]
    return [problem for problem in problems if split is None or problem["split"] == split]


def smoothed(problems: list[Problem], least: float, seed: int) -> list[Problem]:
    """Smooth the true values of smoothed problems again: the weight of the true value is uniform on [least, 1].

    With ``least`` below one half the heaviest value is not always the true one.
    """
    rng = random.Random(seed)  # noqa: S311

    def smooth(panel: list[list[int]]) -> list[list[int]]:
        found = []
        for value, *_ in panel:
            centre = round(100 * rng.uniform(least, 1))
            side = round(rng.uniform(0, 100 - centre))
            sides = [side, 100 - centre - side]
            rng.shuffle(sides)
            found.append([value, sides[0], centre, sides[1]])
        return found

    return [
        problem | {key: [smooth(panel) for panel in problem[key]] for key in ("context", "answers")}
        for problem in problems
    ]


def generate(count: int, columns: int, size: int, confounders: int, seed: int) -> list[Problem]:
    """Generate problems like those of I-RAVEN-X, plain, from its documented rules; to choose settings with."""
    rng = random.Random(seed)  # noqa: S311
    return [_generate(columns, size, confounders, rng) for _ in range(count)]


def _generate(columns: int, size: int, confounders: int, rng: random.Random) -> Problem:
    ruled = [_generate_rows(columns, size, rng) for _ in range(3)]
    noise = [[[rng.randrange(size) for _ in range(columns)] for _ in range(3)] for _ in range(confounders)]
    matrix = [
        list(panel) for panel in zip(*([v for row in rows for v in row] for rows in (*ruled, *noise)), strict=True)
    ]
    right = matrix[-1]
    wrong = [rng.choice([v for panel in matrix for v in panel[:3] if v != right[i]]) for i in range(3)]
    answers = []
    for pattern in range(8):
        ruled_values = [wrong[i] if pattern >> i & 1 else right[i] for i in range(3)]
        answers.append(ruled_values + [rng.randrange(size) for _ in range(confounders)])
    order = rng.sample(range(8), 8)
    return {
        "n": columns,
        "range": size,
        "attributes": ["Type", "Size", "Color", *(f"Confounder{i}" for i in range(confounders))],
        "context": matrix[:-1],
        "answers": [answers[i] for i in order],
        "target": order.index(0),
    }


def _generate_rows(columns: int, size: int, rng: random.Random) -> list[list[int]]:
    kind = rng.choice(["constant", "progression", "arithmetic", "distribute"])
    if kind == "distribute":
        row, turn = rng.sample(range(size), columns), rng.choice([1, -1])
        return [[row[(j - turn * i) % columns] for j in range(columns)] for i in range(3)]
    step = 0 if kind == "constant" else rng.choice([-2, -1, 1, 2])
    sign = rng.choice([1, -1])
    rows: list[list[int]] = []
    while len(rows) < 3:
        if kind == "arithmetic":
            parts = [rng.randrange(size // columns + 1) for _ in range(columns - 1)]
            row = [*parts, sum(parts)] if sign > 0 else [sum(parts), *parts[1:], parts[0]]
        else:
            start = rng.randrange(size)
            row = [start + step * j for j in range(columns)]
        if all(0 <= v < size for v in row):
            rows.append(row)
    return rows


def read_raven_x(problems: list[Problem]) -> tuple[Matrices, Tensor]:
    """Return problems of I-RAVEN-X as matrices, and the indices of the right answers.

    A value is a number or, with uncertainty, ``[value, left, centre, right]`` with three weights in hundredths. All
    attributes are treated alike, including confounders and angles.
    """
    size = problems[0]["range"] + 1
    values = torch.tensor([[*problem["context"], *problem["answers"]] for problem in problems])
    if values.ndim == 3:
        weights = torch.ones(*values.shape, 1)
        values = values[..., None]
    else:
        weights = values[..., 1:] / 100
        values = (values[..., :1] + torch.tensor([-1, 0, 1])) % (size - 1)
    names = problems[0]["attributes"]
    attributes = {name.lower(): Numbers(values[:, :, i], weights[:, :, i], size) for i, name in enumerate(names)}
    columns = problems[0]["n"]
    matrices = Matrices(attributes, columns, (len(problems[0]["context"]) + 1) // columns)
    return matrices, torch.tensor([problem["target"] for problem in problems])

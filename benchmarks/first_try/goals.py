"""Tables with something to predict: KEEL sets, a set of scikit-learn, and generated tables with a known dependence."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .real import KEEL, keel_path, read_keel
from .tables import HALVES, Table, generated

GENERATED = range(100, 124)  # seeds of generated tables
_ROWS = 1_500
_NUMBERS = ("number", "money", "percent", "number string", "coordinate", "year", "rating")
_GROUPS = ("category", "flag", "many categories")
_NOISE = 0.3


@dataclass(frozen=True)
class Goal:
    """Rows with something to predict.

    Parameters
    ----------
    name, half
        Name, and ``"tuning"`` or ``"reported"``.
    is_real
        Whether nothing of it was generated.
    rows
        Columns by name, as lists; ``None`` for missing values.
    target
        What to predict: strings or integers for classes, floats for numbers.
    is_classes
        Whether the target is a class.
    """

    name: str
    half: str
    is_real: bool
    rows: dict[str, list[Any]]
    target: Any
    is_classes: bool


def goals(folder: Path) -> Iterator[Goal]:
    """Yield all goals; KEEL sets whose files are missing are left out."""
    for half in HALVES:
        for name in KEEL[half]:
            if keel_path(folder, name.partition(":")[0]).exists():
                yield _keel(folder, name, half)
    yield _diabetes()
    for seed in GENERATED:
        yield with_target(generated(seed, _ROWS), seed)


def _keel(folder: Path, name: str, half: str) -> Goal:
    base, _, place = name.partition(":")
    columns = read_keel(keel_path(folder, base))
    target = columns.pop(int(place) if place else -1)
    rows = {f"x{number}": column for number, column in enumerate(columns)}
    return Goal(name, half, True, rows, np.array(target, dtype=float if place else str), not place)


def _diabetes() -> Goal:
    from sklearn.datasets import load_diabetes  # noqa: PLC0415 (other measures need no scikit-learn)

    loaded = load_diabetes(scaled=False)
    rows = {name: loaded.data[:, n].tolist() for n, name in enumerate(loaded.feature_names)}
    return Goal("diabetes", "reported", True, rows, loaded.target.astype(float), False)


def with_target(table: Table, seed: int) -> Goal:
    """Return a generated table with a target that depends on up to four columns and on a product of two of them.

    The target has a share of noise of about 0.3 standard deviations. Every third goal is a regression, and the others
    have two to four classes of equal size.
    """
    rng = random.Random(f"goal {seed}")  # noqa: S311
    usable = [one for one in table.columns if one.truth in _NUMBERS + _GROUPS and one.missing < 0.5]
    parts = [_effect(table, one.name, one.truth, rng) for one in rng.sample(usable, min(4, len(usable)))]
    if len(parts) >= 2:
        parts.append([a * b for a, b in zip(parts[0], parts[1], strict=True)])
    total = [sum(values) for values in zip(*parts, strict=True)] if parts else [0.0] * len(table.raw)
    spread = statistics.pstdev(total) or 1.0
    target = np.array([value / spread + rng.gauss(0, _NOISE) for value in total])
    is_classes = seed % 3 != 0
    if is_classes:
        count = rng.randint(2, 4)
        target = np.searchsorted(np.quantile(target, np.arange(1, count) / count), target)
    documents = table.documents()
    names = [one.name for one in table.columns if one.truth != "set"]
    rows = {name: [one.get(name, None) if one.get(name, None) != "" else None for one in documents] for name in names}
    return Goal(f"{table.name} target", table.half, False, rows, target, is_classes)


def _effect(table: Table, name: str, truth: str, rng: random.Random) -> list[float]:
    values = [row.get(name) for row in table.raw]
    if truth in _GROUPS:
        effect_of = {value: rng.gauss(0, 1) for value in sorted({str(v) for v in values if v is not None})}
        return [0.0 if value is None else effect_of[str(value)] for value in values]
    present = [value for value in values if value is not None]
    logarithmic = min(present) > 0 and max(present) > 20 * min(present)
    scaled = [math.log(value) if logarithmic else float(value) for value in present]
    mean, spread = statistics.mean(scaled), statistics.pstdev(scaled) or 1.0
    weight = rng.choice((-1, 1)) * rng.uniform(0.5, 1.5)
    effects = iter([weight * (value - mean) / spread for value in scaled])
    return [0.0 if value is None else next(effects) for value in values]

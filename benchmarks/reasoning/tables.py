"""Tables of docs/results/reasoning.md, from the results of ``measure.py`` and ``pixels.py``."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.common.paths import RESULTS
from benchmarks.reasoning.measure import BINS, SMOOTHED
from ghrr.reasoning.raven import CONFIGURATIONS

Table = tuple[list[str], list[list[str]]]
Row = dict[str, Any]
SHORT = dict(
    zip(CONFIGURATIONS, ("centre", "2 × 2", "3 × 3", "left-right", "up-down", "in-out", "four in out"), strict=True)
)
FILES = {
    "x_3x3_r10": "3 × 3, range 10",
    "x_3x10_r100": "3 × 10, range 100",
    "x_3x10_r1000": "3 × 10, range 1,000",
    SMOOTHED: "with 10 confounders, p = .51",
    "harder": "with 10 confounders, p = .34",
}


@functools.cache
def stored(name: str = "reasoning") -> Any:
    """Read a stored result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def rows(part: str, **wanted: Any) -> list[Row]:
    """Return the stored rows of a part with these values."""
    return [row for row in stored().get(part, []) if all(row.get(key) == value for key, value in wanted.items())]


def share(found: Iterable[Row]) -> float:
    """Return the percentage of right answers, over all rows; NaN without rows."""
    found = list(found)
    total = sum(row["total"] for row in found)
    return 100 * sum(row["right"] for row in found) / total if total else float("nan")


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else "100" if value == 100 else f"{value:.1f}"


def _line(label: str, cells: Sequence[float]) -> list[str]:
    known = [cell for cell in cells if not math.isnan(cell)]
    mean = sum(known) / len(known) if len(known) == len(cells) else float("nan")
    return [label, *map(_percent, cells), _percent(mean)]


def attributes() -> Table:
    """Accuracy on the test parts of I-RAVEN with attributes given."""
    kinds: dict[str, Row] = {
        "given rules": {"method": "given", "m": 1},
        "rules learnt from 100 answers": {"method": "learnt", "from": 100},
        "rules learnt from 600 answers": {"method": "learnt", "from": 600},
        "before learning": {"method": "not learnt"},
        "exact inference, given rules": {"method": "exact"},
        "program of consistent rules": {"method": "program"},
    }
    found = [_line(label, [share(rows("raven", problem=c, **k)) for c in SHORT]) for label, k in kinds.items()]
    networks = ("MLP", "transformer", "answers alone")
    found += [_line(kind, [share(rows("networks", problem=c, method=kind)) for c in SHORT]) for kind in networks]
    return ["", *SHORT.values(), "mean"], found


def transferred() -> Table:
    """Accuracy on the test part of one configuration with rules learnt on another."""
    found = []
    for source, label in SHORT.items():
        cells = [share(rows("raven", problem=c, method="transferred", **{"from": source})) for c in SHORT]
        others = [cell for cell in cells if not math.isnan(cell)]
        mean = sum(others) / len(others) if others else float("nan")
        found.append(
            [label, *("" if c == source else _percent(x) for c, x in zip(SHORT, cells, strict=True)), _percent(mean)]
        )
    return ["learnt on", *SHORT.values(), "mean"], found


def long_rows() -> Table:
    """Accuracy on I-RAVEN-X, and milliseconds per problem."""
    found = []
    for name, label in FILES.items():
        given, learnt = (rows("x", problem=name, method=method) for method in ("given", "learnt"))
        times = [row["ms"] for row in given]
        cells = [
            _percent(share(x))
            for x in (given, learnt, *(rows("x", problem=name, method=m) for m in ("exact", "program")))
        ]
        confident = [confident_share(x) for x in (given, learnt)]
        found.append([label, *cells, *confident, f"{min(times):.1f}" if times else "–"])
    head = [
        "I-RAVEN-X",
        "given rules",
        "learnt from 100",
        "exact",
        "program",
        "confident, right (given)",
        "confident, right (learnt)",
        "ms",
    ]
    return head, found


def confident_share(found: Sequence[Row]) -> str:
    """Return which percentage of answers is confident, and which percentage of these is right."""
    if not found:
        return "–"
    right, count = (sum(row["bins"][-1][i] for row in found) for i in (0, 1))
    total = sum(row["total"] for row in found)
    return f"{100 * count / total:.1f}, {_percent(100 * right / count)}" if count else "0, –"


def confidence() -> Table:
    """Share of confident answers and how many of them are right, by configuration."""
    kinds = {"given rules": {"method": "given", "m": 1}, "learnt from 100 answers": {"method": "learnt", "from": 100}}
    found = [[label, *(confident_share(rows("raven", problem=c, **k)) for c in SHORT)] for label, k in kinds.items()]
    pictures = [confident_share(pixel_rows(c, "given")) for c in SHORT]
    return ["", *SHORT.values()], [*found, ["pictures, given rules", *pictures]]


def calibration() -> Table:
    """Right answers by their probability, pooled over all configurations."""
    ends = [f"{low:g} to {high:g}" for low, high in zip(BINS, (*BINS[1:], 1), strict=True)]
    kinds = {
        "given rules": rows("raven", method="given", m=1),
        "learnt from 100 answers": rows("raven", method="learnt", **{"from": 100}),
        "I-RAVEN-X, given rules": rows("x", method="given"),
        "pictures, given rules": [row for c in SHORT for row in pixel_rows(c, "given")],
    }
    found = []
    for label, every in kinds.items():
        bins = [[sum(row["bins"][k][i] for row in every) for i in (0, 1)] for k in range(len(BINS))]
        found.append([label, *(f"{right} of {count}" if count else "–" for right, count in bins)])
    return ["", *ends], found


def exactness() -> Table:
    """Total variation distance from exact inference over the same rules."""
    found = []
    for m in (1, 2, 3):
        every = [row["distance"] for row in rows("raven", method="given", m=m)]
        found.append(_distance("I-RAVEN, all configurations", f"{m}", "128", every))
    for name in ("x_3x10_r1000", SMOOTHED, "harder"):
        sizes = {(row["m"], row["max_dim"]): row for row in rows("x", problem=name, method="size")}
        for row in rows("x", problem=name, method="given", seed=0):
            sizes[1, 128] = row
        for (m, dim), row in sorted(sizes.items()):
            found.append(
                [
                    *_distance(FILES[name], f"{m}", f"{dim}", [row["distance"]]),
                    _percent(share([row])),
                    f"{row['ms']:.1f}",
                ]
            )
    found = [line if len(line) == 8 else [*line, "", ""] for line in found]
    return ["problems", "m", "numbers", "mean distance", "largest", "same answer, %", "right, %", "ms"], found


def _distance(label: str, m: str, dim: str, every: Sequence[Row]) -> list[str]:
    if not every:
        return [label, m, dim, "–", "–", "–"]
    mean = sum(row["mean"] for row in every) / len(every)
    same = 100 * sum(row["same"] for row in every) / len(every)
    return [label, m, dim, f"{mean:.1e}", f"{max(row['most'] for row in every):.1e}", _percent(same)]


def moves() -> Table:
    """Rows of moves of a triangle, by m."""
    return ["", "right, %"], [[f"m = {m}", _percent(share(rows("moves", m=m)))] for m in (1, 6)]


def pixel_rows(configuration: str, method: str, part: str = "reported") -> list[Row]:
    """Return the stored rows of pictures."""
    every = stored("reasoning_pixels")["rows"]
    return [r for r in every if (r["problem"], r["method"], r["part"]) == (configuration, method, part)]


def pixels() -> Table:
    """Accuracy on the pictures of problems 820 to 899."""
    names = {"given": "given rules", "learnt": "rules learnt from 100 answers"}
    found = [_line(label, [share(pixel_rows(c, method)) for c in SHORT]) for method, label in names.items()]
    for kind in ("type", "size", "color"):
        cells = [[100 * row["levels"][kind] for row in pixel_rows(c, "given")] for c in SHORT]
        found.append(_line(f"{kind} read rightly", [sum(x) / len(x) for x in cells]))
    apart = {row["problem"]: row for row in stored("reasoning_pixels")["difference"]}
    found.append(_line("pixels that differ from our drawing", [100 * apart[c]["share"] for c in SHORT]))
    return ["", *SHORT.values(), "mean"], found


def published() -> Table:
    """Published results on pictures."""
    return ["published, pictures", *SHORT.values(), "mean"], [
        ["SRAN", "78.2", "50.1", "42.4", "70.1", "70.3", "68.2", "46.3", "60.8"],
        ["PrAE", "90.5", "85.4", "45.6", "96.3", "97.4", "63.5", "60.7", "77.0"],
        ["NVSA", *[""] * 7, "88.1"],
        ["people (RAVEN)", *[""] * 7, "84.4"],
    ]


def undecidable() -> Table:
    """The two problems that cannot be decided."""
    found = [[row["problem"], row["method"], *(f"{p:.3f}" for p in row["highest"])] for row in stored()["undecidable"]]
    return ["problem", "rules", "highest probability", "second"], found


def picture_seeds() -> str:
    """Return the number of seeds of perception."""
    return str(len({row["seed"] for row in stored("reasoning_pixels")["rows"]}))


def milliseconds() -> str:
    """Return the largest time per problem of I-RAVEN."""
    return f"{max(row['ms'] for row in rows('raven') if 'ms' in row and row.get('m', 1) == 1):.1f}"


def worst_given() -> str:
    """Return the lowest accuracy with given rules."""
    return _percent(min(share(rows("raven", problem=c, method="given", m=1)) for c in SHORT))


def mean_learnt() -> str:
    """Return the mean accuracy with rules learnt from 100 answers."""
    return attributes()[1][1][-1]


def mean_pixels() -> str:
    """Return the mean accuracy on pictures."""
    return pixels()[1][0][-1]

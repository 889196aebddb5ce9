"""Tables of path attention from stored results."""

from __future__ import annotations

import json
import statistics
from typing import Any

from benchmarks.common.paths import RESULTS

Rows = tuple[list[str], list[list[str]]]
NAMES = {
    "path-sharp": "path on values, smoothed targets",
    "path": "path on values",
    "m-1": "path on values, m = 1",
    "rope": "rope",
    "4rope": "rope, four layers",
    "rope-gate": "rope and forgetting gate",
    "lstm": "LSTM",
    "householder": "PaTH",
}


def gate() -> Rows:
    """Return time, memory and precision of the forgetting gate."""
    rows = []
    for row in _stored("paths")["gate"]:
        for name in ("no gate", "folded", "bias"):
            megabytes, error = row["megabytes"][name], row["errors"].get(name)
            cells = [f"{row['n']:,}", name, f"{1e3 * row['seconds'][name]:.0f} ms"]
            cells.append("" if megabytes is None else f"{megabytes:.0f} MB")
            rows.append([*cells, "" if error is None else f"{error:.2g}"])
        rows.append([f"{row['n']:,}", "folded as one number", "", "", f"{row['errors']['one number']:.2g}"])
    return ["tokens", "gate", "time", "extra memory", "error in bfloat16"], rows


def norm(newton: str) -> str:
    """Return the deviation of R† R from the identity, ``"with"`` or ``"without"`` Newton steps."""
    mantissa, _, exponent = f"{_stored('paths')['norm'][newton]:.0e}".partition("e")
    return f"{mantissa} · 10⁻{str(-int(exponent)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def tracking(task: str) -> Rows:
    """Return the share of right tokens of each model: the mean over seeds, and the worst seed."""
    rows = [row for row in _stored("tracking")["rows"] if row["task"] == task]
    lengths = sorted({test["length"] for row in rows for test in row["tests"]})
    lines = []
    for name in dict.fromkeys(row["model"] for row in rows):
        seeds = [row for row in rows if row["model"] == name]
        found = [{test["length"]: 100 * test["tokens"] for test in row["tests"]} for row in seeds]
        cells = [_mean_and_worst([one[n] for one in found if n in one]) for n in lengths]
        lines.append([NAMES.get(name, name), str(len(seeds)), f"{seeds[0]['parameters']:,}", *cells])
    return ["model", "seeds", "parameters", *(f"{n:,}" for n in lengths)], lines


def settings(task: str) -> str:
    """Return how the models of a task were trained, in words."""
    rows = [row for row in _stored("tracking")["rows"] if row["task"] == task]
    parts = []
    for key, text in (("steps", "{} steps"), ("batch", "batch {}"), ("length", "at most {} tokens"), ("device", "{}")):
        values = sorted({str(row["settings"][key]) for row in rows})
        parts.append(text.format(" or ".join(values)))
    rates = ", ".join(
        f"{NAMES.get(name, name)} {rate:g}" for name, rate in {row["model"]: row["rate"] for row in rows}.items()
    )
    return f"{', '.join(parts)}; learning rates: {rates}"


def _mean_and_worst(values: list[float]) -> str:
    return f"{statistics.mean(values):.1f} ({min(values):.1f})" if values else ""


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))

"""Tables of docs/results/relations-chains.md, from the stored results of ``relations/chains.py``."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks.common.paths import RESULTS

LONG = range(4, 11)
LENGTHS = range(2, 11)
Table = tuple[list[str], list[list[str]]]
# Name in tables, model, method and m.
MODELS: dict[str, tuple[str, str, int | None]] = {
    "hypervectors, m = 8": ("hypervectors", "chart", 8),
    "m = 4": ("hypervectors", "chart", 4),
    "m = 2": ("hypervectors", "chart", 2),
    "m = 1": ("hypervectors", "chart", 1),
    "m = 8, chart of pairs only": ("hypervectors", "chart of pairs", 8),
    "m = 8, one product": ("hypervectors", "product", 8),
    "m = 4, one product": ("hypervectors", "product", 4),
    "m = 2, one product": ("hypervectors", "product", 2),
    "m = 1, one product": ("hypervectors", "product", 1),
    "m = 8, left to right": ("hypervectors", "left to right", 8),
    "counted pairs, chart": ("table", "chart of pairs", None),
    "counted chains, chart": ("table", "chart", None),
    "LSTM": ("LSTM", "alone", None),
    "LSTM, chart of pairs": ("LSTM", "chart of pairs", None),
    "LSTM, not tuned": ("LSTM, fixed", "alone", None),
    "LSTM, not tuned, chart of pairs": ("LSTM, fixed", "chart of pairs", None),
}


@functools.cache
def stored() -> dict[str, Any]:
    """Read the measurements."""
    report: dict[str, Any] = json.loads((RESULTS / "relations_chains.json").read_text(encoding="utf-8"))
    return report


def _row(folder: str, model: str, method: str, m: int | None, numbers: str | None) -> dict[str, Any]:
    key = (folder, model, method, m, numbers if model in ("hypervectors", "pairs added") else None)
    names = ("folder", "model", "method", "m", "numbers")
    found: dict[str, Any] = next(r for r in stored()["rows"] if tuple(r.get(name) for name in names) == key)
    return found


def counts(
    folder: str, model: str, method: str, kind: str, *, m: int | None = None, numbers: str = "real"
) -> dict[int, tuple[int, int]]:
    """Return correct answers and all, by length, over all seeds. Kinds: path, story, generated, generated, all."""
    found = _row(folder, model, method, m, numbers)[kind]
    return {int(length): (correct, total) for length, (correct, total) in found.items()}


def shares(folder: str, model: str, method: str, kind: str, *, m: int | None = None) -> dict[int, float]:
    """Return the share of correct answers by length."""
    return {length: correct / total for length, (correct, total) in counts(folder, model, method, kind, m=m).items()}


def _percent(correct: int, total: int) -> str:
    share = 100 * correct / total
    return "100" if correct == total else f"{min(share, 99.9):.1f}"


def _pooled(found: dict[int, tuple[int, int]], lengths: Iterable[int]) -> tuple[int, int]:
    return sum(found[length][0] for length in lengths), sum(found[length][1] for length in lengths)


def accuracy(folder: str, kind: str) -> Table:
    """Percentage of correct answers by length; the mean of 4 to 10 steps over lengths, and wrong answers of all."""
    rows = []
    for name, (model, method, m) in MODELS.items():
        found = counts(folder, model, method, kind, m=m)
        correct, total = _pooled(found, LONG)
        mean = sum(found[length][0] / found[length][1] for length in LONG) / len(LONG)
        cells = [_percent(*found[length]) for length in LENGTHS]
        rows.append(
            [name, *cells, f"{100 * mean:.2f}", f"{100 * correct / total:.2f}", f"{total - correct:,} of {total:,}"]
        )
    return ["", *map(str, LENGTHS), "mean 4–10", "pooled 4–10", "wrong, 4–10"], rows


def errors(folder: str) -> Table:
    """Wrong answers of all, by length, for the best model."""
    rows = []
    for kind, label in (("path", "shortest path"), ("story", "steps of the story")):
        found = counts(folder, "hypervectors", "chart", kind, m=8)
        rows.append([label, *(f"{total - correct} / {total}" for correct, total in (found[n] for n in LENGTHS))])
    return ["length of", *map(str, LENGTHS)], rows


def generated() -> Table:
    """Percentage of correct answers to generated chains."""
    rows = []
    for folder, label in (("train-2-3", "2–3"), ("train-2-3-4", "2–4")):
        for name, (model, method, m) in MODELS.items():
            if model != "hypervectors" or method in ("chart", "product"):
                found = counts(folder, model, method, "generated", m=m)
                rows.append([f"{name}, trained on {label}", *(_percent(*found[length]) for length in found)])
        found = counts(folder, "hypervectors", "chart", "generated, all", m=8)
        row = [f"m = 8, trained on {label}, contradictory chains included"]
        rows.append([*row, *(_percent(*found[length]) for length in found)])
        if folder == "train-2-3":
            found = counts(folder, "pairs added", "chart", "generated", m=8)
            row = [f"m = 8, trained on {label} and two pairs"]
            rows.append([*row, *(_percent(*found[length]) for length in found)])
    return ["steps", *map(str, found)], rows


def lstm_tuning() -> Table:
    """Percentage of correct answers to held-out training chains, by learning rate, for 15, 30 and 60 epochs."""
    found = {
        (folder, row["rate"], row["epochs"]): row
        for folder, rows in stored()["settings"]["lstm"].items()
        for row in rows
    }
    columns = [(folder, method) for folder in ("train-2-3", "train-2-3-4") for method in ("alone", "chart of pairs")]
    epochs = sorted({number for _, _, number in found})
    rows = [
        [
            f"{rate:g}",
            *(
                " / ".join(f"{100 * found[folder, rate, number][method]:.1f}" for number in epochs)
                for folder, method in columns
            ),
        ]
        for rate in sorted({rate for _, rate, _ in found})
    ]
    return ["learning rate", "2–3, alone", "2–3, chart of pairs", "2–4, alone", "2–4, chart of pairs"], rows


def lstm_parameters() -> str:
    """Return the number of parameters of the LSTM."""
    return f"{_row('train-2-3', 'LSTM', 'alone', None, None)['parameters']:,}"


def held_out() -> Table:
    """Pairs of relations that were left out of training."""
    rows = []
    for row in stored()["rows"]:
        if row["model"] == "held out":
            correct, total = row["pairs"]["2"]
            left_out = "all chains that contain the pair" if row["strict"] else "the two-step chains of the pair"
            name = row["folder"].removeprefix("train-")
            rows.append([name, left_out, f"{correct} of {total}", _percent(correct, total)])
    return ["trained on", "left out", "correct", "%"], rows


def complex_slots() -> Table:
    """Real and complex slots with 512 reals."""
    rows = []
    for numbers, m in (("real", 1), ("complex", 1), ("real", 4), ("complex", 4)):
        cells = []
        for folder in ("train-2-3", "train-2-3-4"):
            for method in ("chart", "product"):
                found = counts(folder, "hypervectors", method, "path", m=m, numbers=numbers)
                correct, total = _pooled(found, LONG)
                cells.append(f"{100 * correct / total:.2f}")
        rows.append([f"{numbers}, m = {m}", *cells])
    return ["slots", "2–3, chart", "2–3, product", "2–4, chart", "2–4, product"], rows


def seconds() -> Table:
    """Seconds of training."""
    found = {(row["folder"], row["m"]): row for row in stored()["seconds"]}
    rows = [
        [
            label,
            *(f"{found[folder, m]['vectors']:.1f} / {found[folder, m]['with calibration']:.1f}" for m in (1, 2, 4, 8)),
        ]
        for folder, label in (("train-2-3", "2–3 steps"), ("train-2-3-4", "2–4 steps"))
    ]
    return ["trained on", *(f"m = {m}" for m in (1, 2, 4, 8))], rows


def calibration() -> Table:
    """Answers to test chains of 4 and more steps by their probability, m = 8."""
    return _by_probability("calibration", lambda correct, count, _: f"{correct:.0f} of {count:.0f}" if count else "–")


def unnamed() -> Table:
    """Pairs of steps without a name by the probability of their answer, m = 8."""
    return _by_probability("unnamed", lambda count: f"{count:.0f}" if count else "–")


def _by_probability(kind: str, cell: Callable[..., str]) -> Table:
    bins = ("0.00", "0.50", "0.80", "0.90", "0.95", "0.99")
    rows = []
    for folder, label in (("train-2-3", "2–3"), ("train-2-3-4", "2–4")):
        found = _row(folder, "hypervectors", "chart", 8, "real")[kind]
        rows.append([label, *(cell(*found[low]) for low in bins)])
    ends = (*(f"{float(high):g}" for high in bins[1:]), "1")
    return ["trained on", *(f"{float(low):g} to {high}" for low, high in zip(bins, ends, strict=True))], rows


def value(folder: str, method: str, m: int, kind: str = "path", lengths: Iterable[int] = LONG) -> str:
    """Return the pooled percentage of correct answers."""
    correct, total = _pooled(counts(folder, "hypervectors", method, kind, m=m), lengths)
    return f"{100 * correct / total:.1f} %"

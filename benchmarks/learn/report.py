"""Results of ``benchmarks/learn/measure.py`` from its journals: one row per data set and method, ranks and tests.

Every pair of a data set and a method that the benchmark knows has a row. ``status`` is one of:

``complete``
    All seeds or folds are there.
``other configuration``
    Likewise, but another configuration was tested than the best of the search.
``incomplete``
    Some seeds or folds are missing, or only the search was run.
``time limit``
    A test, or three configurations of the search, exceeded the time limit.
``failed``
    A test ended with an error.
``not run``
    The journals have nothing about it.

Only complete rows take part in ranks and tests.
"""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.learn import ranks
from benchmarks.learn.data import SOURCES, n_splits
from benchmarks.learn.methods import METHODS
from benchmarks.learn.schedule import SLOW, best_config, read_journal
from benchmarks.learn.search_space import Method
from benchmarks.learn.tables import ORDER, OURS, WITH_ALL, WITH_BASELINES, WITH_TORCH_HD
from ghrr.files import atomic_write

SEEDS = 5
Entries = dict[tuple[str, str, str, int], dict[str, Any]]
Row = dict[str, Any]


def merge(journals: Sequence[Path]) -> Entries:
    """Return the entries of journals; later ones replace earlier ones."""
    entries: Entries = {}
    for path in journals:
        for entry in read_journal(path):
            data, method = entry["data"], entry["method"]
            if data not in SOURCES or method not in METHODS:
                raise ValueError(f"merge: {path.name} has unknown names, got {data!r} and {method!r}")
            entries[data, method, entry["stage"], entry["index"]] = entry
    return entries


def store_journal(entries: Entries, path: Path) -> None:
    """Write entries as a compressed journal, the same bytes for the same entries."""
    lines = "".join(json.dumps(entry) + "\n" for entry in entries.values())
    with atomic_write(path) as temporary:
        temporary.write_bytes(gzip.compress(lines.encode(), mtime=0))


def collect(journals: Sequence[Path]) -> dict[str, Any]:
    """Return the results of journals: rows, ranks and tests."""
    entries = merge(journals)
    rows = [
        make_row(data, method, entries)
        for data, (kind, _) in SOURCES.items()
        for method in METHODS.values()
        if kind in method.kinds and data in (method.sets or SOURCES)
    ]
    return {"rows": rows, **analyse(rows)}


def make_row(data: str, method: Method, entries: Entries) -> Row:
    """Return the row of a data set and a method."""
    tried = _entries_of(entries, data, method.tuned_by or method.name, "tune")
    tests = _entries_of(entries, data, method.name, "test")
    right = [test for test in tests if test["status"] == "ok"]
    best = best_config(tried) if tried else None
    config = right[0]["config"] if right else best
    if any(test["config"] != config for test in right):
        raise ValueError(f"make_row: {data}, {method.name}: seeds have different configurations; measure them again")
    wanted = expected_tests(data, method)
    accuracies = [test["accuracy"] for test in right]
    return {
        "data": data,
        "kind": SOURCES[data][0],
        "method": method.name,
        "family": method.family,
        "status": _status([] if method.tuned_by else tried, tests, wanted, best),
        "tried": 0 if method.tuned_by else len(tried),
        "tuned_by": method.tuned_by,
        "config": config,
        "expected": wanted,
        "seeds": [test["index"] for test in right],
        "accuracies": accuracies,
        "mean": statistics.fmean(accuracies) if accuracies else None,
        "std": statistics.stdev(accuracies) if len(accuracies) > 1 else None,
        "seconds": _seconds(right),
        "tested": right[0]["tested"] if right else None,
        "trained": right[0]["trained"] if right else None,
        "class_bytes": right[0]["class_bytes"] if right else None,
        "errors": sorted({test["status"] for test in tests} - {"ok", "time limit"}),
        "limit_s": next((test["limit_s"] for test in [*tests, *tried] if test["status"] == "time limit"), None),
    }


def _entries_of(entries: Entries, data: str, method: str, stage: str) -> list[dict[str, Any]]:
    chosen = [entry for key, entry in entries.items() if key[:3] == (data, method, stage)]
    return sorted(chosen, key=lambda entry: entry["index"])


def expected_tests(data: str, method: Method) -> int:
    """Return the number of seeds or folds of a test."""
    splits = n_splits(data)
    if splits > 1:
        return splits
    return 1 if splits == 1 and method.deterministic else SEEDS


def _status(
    tried: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]], wanted: int, best: dict[str, Any] | None
) -> str:
    states = [test["status"] for test in tests]
    if states.count("ok") >= wanted:
        return "complete" if best is None or tests[0]["config"] == best else "other configuration"
    slow = [entry for entry in tried if entry["status"] == "time limit"]
    if "time limit" in states or len(slow) >= SLOW:
        return "time limit"
    if any(state != "ok" for state in states):
        return "failed"
    return "incomplete" if tried or tests else "not run"


def _seconds(tests: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the median seconds of fit and predict by device."""
    found = {}
    for device in sorted({test["device"] for test in tests}):
        own = [test for test in tests if test["device"] == device]
        found[device] = {name: statistics.median(test[name] for test in own) for name in ("fit_s", "predict_s")}
    return found


# ----------------------------------------------------------------------------------------------------- ranks and tests


def analyse(rows: Sequence[Row]) -> dict[str, Any]:
    """Return ranks, tests over data sets and tests over seeds of complete rows."""
    complete = [row for row in rows if row["status"] == "complete"]
    accuracies: dict[str, dict[str, float]] = {}
    for row in complete:
        accuracies.setdefault(row["data"], {})[row["method"]] = row["mean"]
    families = {method.name: method.family for method in METHODS.values()}
    tables = [name for name, method in METHODS.items() if "table" in method.kinds]
    theirs = [name for name in tables if families[name] == "torch-hd"]
    own = [name for name in tables if families[name] == "ghrr"]
    usual = [name for name in tables if families[name] == "baseline"]
    compared = {
        WITH_TORCH_HD: [OURS, *theirs],
        "all of ours and torch-hd": [*own, *theirs],
        WITH_ALL: [OURS, *theirs, *usual],
        WITH_BASELINES: [OURS, *usual],
    }
    every = [name for name, family in families.items() if family == "torch-hd"]
    found = [ranks.wilcoxon(accuracies, OURS, name) for name in every]
    return {
        "ranks": {title: ranks.compare(accuracies, methods) for title, methods in compared.items()},
        "wilcoxon": [test for test in found if test is not None],
        "paired": paired_tests(complete),
        "order": order_tests(complete),
    }


def paired_tests(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the paired test of ``HD ridge`` against every torch-hd classifier on every data set."""
    ours = {row["data"]: row for row in rows if row["method"] == OURS}
    tests = [
        {
            "data": row["data"],
            "method": row["method"],
            "tested": row["tested"],
            **ranks.paired_test(ours[row["data"]]["accuracies"], row["accuracies"]),
        }
        for row in rows
        if row["family"] == "torch-hd" and row["data"] in ours
    ]
    corrected = ranks.holm([test["p"] for test in tests])
    return [test | {"p_holm": p} for test, p in zip(tests, corrected, strict=True)]


def order_tests(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the paired tests of m = 2, 3, 4 against both encodings with m = 1, on every data set."""
    found = {(row["data"], row["method"]): row["accuracies"] for row in rows}
    return [
        {"data": data, "method": method, "other": other, **ranks.paired_test(found[data, method], found[data, other])}
        for data in dict.fromkeys(row["data"] for row in rows)
        for method in ORDER[2:]
        for other in ORDER[:2]
        if (data, method) in found and (data, other) in found
    ]

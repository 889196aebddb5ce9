"""Tables of docs/results/search.md, from the results of ``measure.py``, ``peers.py`` and ``speed.py``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.common.paths import RESULTS

_UNLABELLED = "best TF-IDF, same pairs as with labels"
_PEERS = {"splink": "splink", "pyjedai": "pyJedAI"}
_METHODS = ("vectors", "vectors and documents", "vectors, 300 labels", "vectors and documents, 300 labels")
_SETS = {
    "abt-buy": "Abt-Buy",
    "amazon-google": "Amazon-Google",
    "dblp-acm": "DBLP-ACM",
    "imdb-tmdb": "IMDB-TMDB",
    "walmart-amazon": "Walmart-Amazon",
}
Table = tuple[list[str], list[list[str]]]


def _stored(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def _cell(rows: Sequence[dict[str, Any]], *names: str) -> str:
    """Return the mean over seeds of some numbers, with the standard deviation of the first."""
    values = [[row[name] for row in rows] for name in names]
    spread = f" ± {statistics.stdev(values[0]):.3f}" if len(rows) > 1 else ""
    return " / ".join(f"{statistics.mean(column):.3f}" for column in values) + spread


def linkage() -> Table:
    """Recall at 1 and at 10 of every linkage set and method, without labels and with 300 labels."""
    report, peers = _stored("search"), _stored("search_peers")
    rows = []
    baselines = list(dict.fromkeys(r["method"] for r in report["linkage-abt-buy"] if r["method"].startswith("TF-IDF")))

    def own(method: str) -> list[str]:
        chosen = [[row for row in report[f"linkage-{name}"] if row["method"] == method] for name in _SETS]
        return [method, *(_cell(one, "recall@1", "recall@10") for one in chosen)]

    for package, title in _PEERS.items():
        found = {row["set"]: [row] for row in peers[package]["rows"]}
        cells = (_cell(found[name], "recall@1", "recall@10") if name in found else "not run" for name in _SETS)
        rows.append([title, *cells])
    rows = [*map(own, baselines), *rows, *map(own, (*_METHODS[:2], _UNLABELLED, *_METHODS[2:]))]
    return ["method", *_SETS.values()], rows


def first_recalls() -> dict[str, dict[str, float]]:
    """Return recall at 1 by set, of the best TF-IDF, and of vectors and documents without and with labels."""
    found = {}
    for name, title in _SETS.items():
        rows = _stored("search")[f"linkage-{name}"]
        exact = max(row["recall@1"] for row in rows if row["method"].startswith("TF-IDF"))
        own = {m: statistics.mean(r["recall@1"] for r in rows if r["method"] == m) for m in _METHODS[1::2]}
        found[title] = {"best exact TF-IDF": exact, **own}
    return found


def recalls_by_size() -> dict[tuple[int, str], list[tuple[int, float]]]:
    """Return bytes per record and recall at 1, by m and method."""
    found: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for row in _stored("search")["sizes"]:
        found.setdefault((row["m"], row["method"]), []).append((row["bytes"], row["recall@1"]))
    return found


def calibration() -> Table:
    """Mean probability of the first hit, and how often it is correct, if every second partner is missing."""
    rows = []
    for row in _stored("search")["calibration"]:
        numbers = ("mean_probability", "right", "brier", "brier_of_base_rate")
        rows.append([_SETS[row["set"]], row["method"], *(f"{row[name]:.3f}" for name in numbers)])
    return ["set", "method", "mean probability", "correct", "Brier score", "Brier score of the base rate"], rows


def febrl() -> Table:
    """Pairs of duplicates in FEBRL 1 to 3."""
    ours, peers = _stored("search"), _stored("search_peers")["recordlinkage"]["rows"]
    rows = []
    for number in ("1", "2", "3"):
        for row in [*ours[f"febrl-{number}"], *(row for row in peers if row["set"] == f"FEBRL{number}")]:
            scores = (f"{row[name]:.4f}" for name in ("precision", "recall", "f1"))
            rows.append([row["set"], row["method"], *scores])
    return ["set", "method", "precision", "recall", "F1"], rows


def febrl_links() -> str:
    """Return the share of records of FEBRL4 whose partner is first, at 256 bytes per record."""
    shares = [row["recall@1"] for row in _stored("search")["febrl-links"]]
    return f"{100 * min(shares):.2f} %"


def orders() -> Table:
    """Recall where paths share their keys in another order."""
    rows = _stored("search")["orders"]
    sizes = sorted({row["m"] for row in rows})
    return ["m", "recall@1"], [[str(m), _cell([row for row in rows if row["m"] == m], "recall@1")] for m in sizes]


def countries() -> Table:
    """Recall of damaged examples among the countries of the world."""
    rows = _stored("search")["countries"]
    kinds = list(dict.fromkeys(row["examples"] for row in rows))
    return ["examples", "recall@1"], [[k, _cell([r for r in rows if r["examples"] == k], "recall@1")] for k in kinds]


def speed() -> Table:
    """Time and memory of an index of generated records."""
    rows = []
    for row in _stored("search_speed")["index"]["rows"]:
        numbers = [
            f"{row['records']:,}",
            f"{row['seconds']:,.0f}",
            f"{row['cpu_seconds']:,.0f}",
            f"{max(row['peak_memory_gb'], row['search_peak_memory_gb']):.1f}",
            f"{row['search_s']['median']:.1f}",
            f"{row['ratio']['median']:.2f}",
            f"{row['ratio_of_cpu_time']['median']:.2f}",
        ]
        rows.append(numbers)
    head = ["records", "indexed in (s)", "processor seconds", "peak memory (GB)", "100 queries (s)"]
    return [*head, "relative to product and top-k", "the same, processor time"], rows


def workers() -> Table:
    """Records encoded per second by one and by two processes."""
    stored = _stored("search_speed")["workers"]["rows"]
    rates = {n: [row["records_per_s"] for row in stored if row["processes"] == n] for n in (1, 2)}
    ratio = statistics.median(two / one for one, two in zip(rates[1], rates[2], strict=True))
    rows = [[str(n), f"{statistics.median(own):,.0f}", f"{1 if n == 1 else ratio:.2f}"] for n, own in rates.items()]
    return ["processes", "records per second", "relative to one"], rows


def speed_load() -> str:
    """Return how busy the machine was: processes that were running or waiting, for each measurement."""
    report = _stored("search_speed")
    return f"{report['index']['machine']['load']:.1f} and {report['workers']['machine']['load']:.1f}"


def sizes() -> Table:
    """Recall, build and query time of Abt-Buy against total dimension."""
    rows = _stored("search")["sizes"]
    found = []
    for total in sorted({row["total_dim"] for row in rows}):
        for m in sorted({row["m"] for row in rows}):
            own = {row["method"]: row for row in rows if (row["total_dim"], row["m"]) == (total, m)}
            vectors, both = own["vectors"], own["vectors and documents"]
            times = [f"{vectors['build_s']:.1f}", f"{vectors['ms_per_example']:.1f}", f"{both['ms_per_example']:.1f}"]
            recalls = [f"{vectors['recall@1']:.3f}", f"{both['recall@1']:.3f}"]
            found.append([str(total), str(m), str(vectors["bytes"]), *recalls, *times])
    head = ["total dimension", "m", "bytes per record", "recall@1, vectors", "with documents"]
    return [*head, "build (s)", "ms per query, vectors", "with documents"], found

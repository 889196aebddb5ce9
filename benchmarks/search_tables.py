"""Tables of docs/results/search.md, from the stored results of ``search.py`` and ``search_peers.py``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_RESULTS = Path(__file__).parent / "results"
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
    report: dict[str, Any] = json.loads((_RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return report


def _cell(rows: Sequence[dict[str, Any]], *names: str) -> str:
    """Return the mean over seeds of some numbers, with the standard deviation of the first."""
    values = [[row[name] for row in rows] for name in names]
    spread = f" ± {statistics.stdev(values[0]):.3f}" if len(rows) > 1 else ""
    return " / ".join(f"{statistics.mean(column):.3f}" for column in values) + spread


def linkage() -> Table:
    """Recall at 1 and at 10 of every linkage set and method."""
    report = _stored("search")
    rows = []
    baselines = list(dict.fromkeys(r["method"] for r in report["linkage-abt-buy"] if r["method"].startswith("TF-IDF")))
    for method in (*baselines, *_METHODS):
        chosen = [[row for row in report[f"linkage-{name}"] if row["method"] == method] for name in _SETS]
        rows.append([method, *(_cell(own, "recall@1", "recall@10") for own in chosen)])
    return ["method", *_SETS.values()], rows


def first_recalls() -> dict[str, dict[str, float]]:
    """Return recall at 1 by set: that of the best TF-IDF, of vectors, and of vectors and documents."""
    found = {}
    for name, title in _SETS.items():
        rows = _stored("search")[f"linkage-{name}"]
        exact = max(row["recall@1"] for row in rows if row["method"].startswith("TF-IDF"))
        own = {m: statistics.mean(r["recall@1"] for r in rows if r["method"] == m) for m in _METHODS[:2]}
        found[title] = {"best exact TF-IDF": exact, **own}
    return found


def recalls_by_size() -> dict[tuple[int, str], list[tuple[int, float]]]:
    """Return bytes per record and recall at 1, by m and method."""
    found: dict[tuple[int, str], list[tuple[int, float]]] = {}
    for row in _stored("search")["sizes"]:
        found.setdefault((row["m"], row["method"]), []).append((row["bytes"], row["recall@1"]))
    return found


def calibration() -> Table:
    """Mean probability of the first hit, and how often it is right, if every second partner is missing."""
    rows = []
    for row in _stored("search")["calibration"]:
        numbers = ("mean_probability", "right", "brier", "brier_of_base_rate")
        rows.append([_SETS[row["set"]], row["method"], *(f"{row[name]:.3f}" for name in numbers)])
    return ["set", "method", "mean probability", "right", "Brier score", "Brier score of the base rate"], rows


def febrl() -> Table:
    """Pairs of duplicates in FEBRL 1 to 3."""
    ours, peers = _stored("search"), _stored("search_peers")["rows"]
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
    for row in _stored("search")["speed"]:
        rate, ratio = f"{row['records_per_s']:,.0f}", row["search_s"] / row["product_and_top_k_s"]
        times = [
            f"{row['build_s']:.0f}",
            rate,
            f"{row['peak_memory_gb']:.1f}",
            f"{row['search_s']:.1f}",
            f"{ratio:.2f}",
        ]
        rows.append([f"{row['records']:,}", *times])
    head = ["records", "indexed in (s)", "records per second", "peak memory (GB)", "100 queries (s)"]
    return [*head, "relative to product and top-k"], rows


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

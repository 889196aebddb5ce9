"""Tables of the stored relation models, for docs/results/relations.md."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_RUNS = _ROOT / "results" / "relations"
_TIMES = _ROOT / "benchmarks" / "results"
_GRAPHS = ("WN18RR", "FB15k-237", "kinships")
_METRICS = {"mrr": "MRR", "hits_at_1": "hits@1", "hits_at_3": "hits@3", "hits_at_10": "hits@10"}


def _runs(graph: str) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """Return the finished runs of a graph by m and dim."""
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for path in sorted(_RUNS.glob(f"{graph}-m*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if run["finished"]:
            groups.setdefault((run["config"]["m"], run["config"]["dim"]), []).append(run)
    return dict(sorted(groups.items()))


def metrics() -> tuple[list[str], list[list[str]]]:
    """Test metrics of every graph and m: mean ± standard deviation over seeds."""
    rows = []
    for graph in _GRAPHS:
        for (m, dim), runs in _runs(graph).items():
            cells = [_mean([run["test"][name] for run in runs]) for name in _METRICS]
            size = f"{runs[0]['params'] / 1e6:.2f} M"
            rows.append([graph, str(m), str(dim), size, *cells, str(len(runs))])
    return ["graph", "m", "dim", "parameters", *_METRICS.values(), "seeds"], rows


def _mean(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def settings() -> tuple[list[str], list[list[str]]]:
    """Settings, early stopping and calibration of the runs."""
    rows = []
    for graph in _GRAPHS:
        for (m, _), runs in _runs(graph).items():
            config, calibration = runs[0]["config"], [run["calibration"] for run in runs]
            rows.append(
                [
                    graph,
                    str(m),
                    f"{config['regularizer']} {config['regularizer_weight']:g}",
                    ", ".join(str(run["best_epoch"]) for run in runs),
                    f"{statistics.mean(c['mean_confidence'] for c in calibration):.3f}",
                    f"{statistics.mean(c['accuracy'] for c in calibration):.3f}",
                ]
            )
    return ["graph", "m", "regulariser", "best epochs", "mean confidence", "accuracy"], rows


def tuning() -> tuple[list[str], list[list[str]]]:
    """Validation MRR of every weight of the regulariser that was tried, one seed."""
    runs = json.loads((_RUNS / "tuning" / "kinships.json").read_text(encoding="utf-8"))["runs"]
    found = {(run["m"], run["regularizer_weight"]): f"{run['valid']['mrr']:.3f}" for run in runs}
    weights = sorted({weight for _, weight in found})
    rows = [[str(m), *(found.get((m, weight), "") for weight in weights)] for m in sorted({m for m, _ in found})]
    return ["m", *(f"weight {weight:g}" for weight in weights)], rows


def times() -> tuple[list[str], list[list[str]]]:
    """Time of an epoch relative to m = 1, at equal parameters."""
    rows = []
    for path in sorted(_TIMES.glob("relations_time_*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        machine = report["machine"].get("gpu", f"{report['machine']['threads']} CPU threads")
        for row in report["rows"]:
            ratio = row["ratio_to_first"]
            cells = [f"{row['seconds_per_epoch']['median']:.3g} s", f"{ratio['median']:.2f}"]
            rows.append([report["graph"], machine, str(row["m"]), str(row["dim"]), *cells])
    return ["graph", "machine", "m", "dim", "time of an epoch", "relative to m = 1"], rows

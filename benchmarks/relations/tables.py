"""Tables of the stored relation models, for docs/results/relations.md."""

from __future__ import annotations

import json
import statistics
from typing import Any

from benchmarks.common.paths import ROOT

_RUNS = ROOT / "results" / "relations"
_TIMES = ROOT / "results" / "benchmarks"
_USUAL_BATCH = {"WN18RR": 1000, "FB15k-237": 1000, "kinships": 500}
_GRAPHS = tuple(_USUAL_BATCH)
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


def precise_mean(graph: str, m: int, metric: str) -> str:
    """Mean test metric over seeds with four digits, and its standard deviation."""
    values = [run["test"][metric] for (own, _), runs in _runs(graph).items() if own == m for run in runs]
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def unseen() -> tuple[list[str], list[list[str]]]:
    """Test metrics with and without the frequencies of tails, which answer questions about unseen entities."""
    rows = []
    for graph in _GRAPHS:
        for (m, _), runs in _runs(graph).items():
            if runs[0].get("unseen_triples", {}).get("test"):
                pairs = [[run["vectors_alone"]["test"] for run in runs], [run["test"] for run in runs]]
                cells = [_mean([found[name] for found in part]) for name in ("mrr", "hits_at_10") for part in pairs]
                rows.append([graph, str(runs[0]["unseen_triples"]["test"]), str(m), *cells])
    both = ["{}, vectors alone", "{} with frequencies"]
    return ["graph", "triples", "m", *(text.format(name) for name in ("MRR", "hits@10") for text in both)], rows


def length_penalties() -> tuple[list[str], list[list[str]]]:
    """Test metrics with other length penalties than in training, and with the best one by the validation MRR."""
    rows = []
    for (m, _), runs in _runs("WN18RR").items():
        tried = [{entry["length_penalty"]: entry for entry in run["length_penalties"]} for run in runs]
        best = [max(entries.values(), key=lambda entry: entry["valid"]["mrr"]) for entries in tried]
        chosen = {f"{penalty:g}": [entries[penalty] for entries in tried] for penalty in (0, 0.1, 0.2, 0.3)}
        for name, entries in {**chosen, "best of each seed": best}.items():
            cells = [_mean([entry[split]["mrr"] for entry in entries]) for split in ("valid", "test")]
            rows.append([str(m), name, *cells, _mean([entry["test"]["hits_at_10"] for entry in entries])])
    return ["m", "length penalty", "validation MRR", "test MRR", "test hits@10"], rows


def settings() -> tuple[list[str], list[list[str]]]:
    """Settings, early stopping and calibration of the runs; early runs were calibrated by a temperature alone: –."""
    rows = []
    for graph in _GRAPHS:
        for (m, _), runs in _runs(graph).items():
            calibration = [run["calibration"] for run in runs if "background" in run["calibration"]]
            rows.append(
                [
                    graph,
                    str(m),
                    _setting(graph, runs[0]["config"]),
                    ", ".join(str(run["best_epoch"]) for run in runs),
                    *(
                        f"{statistics.mean(c[name] for c in calibration):.3f}" if calibration else "–"
                        for name in ("mean_confidence", "accuracy")
                    ),
                ]
            )
    return ["graph", "m", "setting", "best epochs", "mean confidence", "accuracy"], rows


def _setting(graph: str, config: dict[str, Any]) -> str:
    """Describe the regulariser, and the settings that differ from most runs. Older runs lack some of them."""
    parts = [f"{config['regularizer']} {config['regularizer_weight']:g}"]
    if config.get("product_weight", 1.0) != 1.0:
        parts.append(f"products × {config['product_weight']:g}")
    if config.get("relation_weight"):
        parts.append(f"relations × {config['relation_weight']:g}")
    if config.get("frequency_share"):
        parts.append(f"frequency {config['frequency_share']:g}")
    if config.get("length_penalty"):
        parts.append(f"length {config['length_penalty']:g}")
    if config.get("average_epochs", 1) > 1:
        parts.append(f"average {config['average_epochs']}")
    if config.get("relation_form", "relaxed") != "relaxed":
        parts.append(f"{config['relation_form']} relations")
    if config.get("learning_rate", 0.1) != 0.1:
        parts.append(f"learning rate {config['learning_rate']:g}")
    if config.get("batch", _USUAL_BATCH[graph]) != _USUAL_BATCH[graph]:
        parts.append(f"batch {config['batch']}")
    numbers = config.get("dim", 1) * config["m"] ** 2
    if numbers > 1000:
        parts.append(f"{numbers:,} numbers")
    return ", ".join(parts)


def tuning() -> tuple[list[str], list[list[str]]]:
    """Validation MRR of every setting that was tried, one seed; – where it was not tried for an m."""
    rows = []
    stored = {graph: json.loads((_RUNS / "tuning" / f"{graph}.json").read_text("utf-8"))["runs"] for graph in _GRAPHS}
    sizes = sorted({run["config"]["m"] for runs in stored.values() for run in runs})
    for graph, runs in stored.items():
        found: dict[tuple[str, int], dict[int, str]] = {}
        for run in runs:
            config = run["config"]
            found.setdefault((_setting(graph, config), config["epochs"]), {})[config["m"]] = (
                f"{run['valid']['mrr']:.3f}"
            )
        for (setting, epochs), scores in found.items():
            rows.append([graph, setting, str(epochs), *(scores.get(m, "–") for m in sizes)])
    return ["graph", "setting", "epochs", *(f"m = {m}" for m in sizes)], rows


def seconds_per_epoch() -> str:
    """Time of an epoch of WN18RR with m = 10, in a run that had the GPU to itself."""
    runs = json.loads((_RUNS / "tuning" / "WN18RR.json").read_text("utf-8"))["runs"]
    return f"{next(run['seconds_per_epoch'] for run in runs if 'seconds_per_epoch' in run):.2f} s"


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

"""Table of the speed of relation models against PyKEEN, from the stored results of ``relations/peers.py``."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.common.paths import RESULTS


def stored() -> list[dict[str, Any]]:
    """Read the measurements of all graphs, the smallest graph first."""
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("relations_peers_*.json")]
    return sorted(reports, key=lambda report: int(report["entities"]))


def speed() -> tuple[list[str], list[list[str]]]:
    """Return the time of a step and of an epoch of PyKEEN's ComplEx, divided by ours."""
    rows = []
    for report in stored():
        *ours, theirs = report["rows"]
        sizes = f"{report['graph']}, {report['triples']:,} triples, {report['entities']:,} entities"
        for row in ours:
            step, epoch = row["step_ratio"], row["epoch_ratio"]
            ratio = f"{step['median']:.1f} ({step['low']:.1f} to {step['high']:.1f})"
            steps = f"{row['steps']} / {theirs['steps']}"
            cells = [f"{report['total']:,}", str(report["machine"]["threads"]), row["model"].removeprefix("m = ")]
            rows.append([sizes, *cells, ratio, steps, f"{epoch['median']:.1f}"])
    head = ["graph", "complex numbers", "threads", "m", "a step", "steps of an epoch, ours / PyKEEN", "an epoch"]
    return head, rows

"""Tables of the campaigns of attacks: what was tried and what was found, summed over the stored runs of `make fuzz`."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from benchmarks.common.paths import RESULTS

_STORED = RESULTS / "faults.json"
_KINDS = ("silently wrong", "lost", "hang", "raw error")
_ATTACKS = {
    "files": "damaged, crafted, missing and exchanged files of every format",
    "calls": "calls with hostile arguments",
    "documents": "strange keys and values in an index",
    "commands": "odd arguments and files, `--force`, closed output",
    "kills": "`kill -9` of processes that write, then resume",
    "lines": "Ctrl-C at a random line of a call that changes an index",
    "threads": "readers beside a writer",
    "processes": "several processes that change one folder",
    "engines": "stores of vectors that are moved, emptied, damaged or exchanged",
}


def _runs() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(_STORED.read_text())["runs"] if _STORED.exists() else []
    return runs


def campaigns() -> tuple[list[str], list[list[str]]]:
    """Return tries, kills and faults of each campaign."""
    sums: dict[str, Counter[str]] = {name: Counter() for name in _ATTACKS}
    for run in _runs():
        for name, counts in run["campaigns"].items():
            own = sums.setdefault(name, Counter())
            own.update(tries=counts["tries"], kills=counts["kills"])
            own.update(fault["kind"] for fault in counts["faults"])
    rows = [[f"{name}: {_ATTACKS.get(name, '')}", *_shown(own)] for name, own in sums.items()]
    total: Counter[str] = sum(sums.values(), Counter())
    return ["campaign", "tries", "kills", *_KINDS], [*rows, ["**all**", *_shown(total)]]


def _shown(counts: Counter[str]) -> list[str]:
    return [f"{counts[name]:,}" for name in ("tries", "kills", *_KINDS)]


def seeds() -> str:
    """Return the number of runs that the table adds up."""
    return str(len(_runs()))

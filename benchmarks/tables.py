"""Write the tables of the documents from stored results.

A table stands between two markers in a Markdown file under docs/::

    <!-- table: calibration -->
    ...
    <!-- end of table -->

This command replaces what is between them; a test checks that nothing changes::

    python benchmarks/tables.py
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
_BLOCK = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def stored(name: str) -> Any:
    """Read a stored result."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def calibration() -> str:
    """Confident answers of every structure: how many, and how many of them are right."""
    rows = [row for row in stored("calibration")["rows"] if row["permute"] == "default"]
    names = list(dict.fromkeys(row["structure"] for row in rows))
    cells = {(row["structure"], row["m"]): f"{row['right']:,} of {row['confident']:,}" for row in rows}
    return table(
        ["structure", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [[f"`{name}`", *(cells[name, m] for m in (1, 2, 3, 4))] for name in names],
    )


def calibration_permute() -> str:
    """Share of what is there that is answered with confidence, without and with shifts."""
    rows = stored("calibration")["rows"]
    names = [name for name in dict.fromkeys(row["structure"] for row in rows) if name not in ("Sequence", "Stack")]
    shares = {
        (row["structure"], row["m"], (row["m"] == 1) if row["permute"] == "default" else row["permute"]): (
            f"{row['answered']:.0%}"
        )
        for row in rows
    }
    return table(
        ["structure", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [
            [f"`{name}`", *(f"{shares[name, m, False]} / {shares[name, m, True]}" for m in (1, 2, 3, 4))]
            for name in names
        ],
    )


def peer_operations() -> str:
    """Our time over torch-hd's for every operation, in 0.1 and now."""
    cells: dict[tuple[str, int], list[str]] = {}
    for name in ("peer_operations_before", "peer_operations"):
        for row in stored(name)["rows"]:
            setting = dict(row["setting"])
            m = setting.pop("m")
            what = row["operation"] + ("" if setting.get("batch", 1) == 1 else f", batch {setting['batch']}")
            cells.setdefault((what, m), []).append(f"{row['ratio']['median']:.2g}" if row["right"] else "wrong")
    names = list(dict.fromkeys(what for what, _ in cells))
    return table(
        ["operation", *(f"m = {m}" for m in (1, 2, 3, 4))],
        [[what, *(" → ".join(cells[what, m]) for m in (1, 2, 3, 4))] for what in names],
    )


def memory_backends() -> str:
    """Seconds to add and to search items, with the exact search, faiss and Milvus."""
    rows = stored("memory_backends")["seconds"]
    return table(
        ["items", "backend", "add all", "100 queries", "1 query"],
        [
            [f"{row['items']:,}", row["backend"], *(_seconds(row[key]) for key in ("add", "query", "query 1"))]
            for row in rows
        ],
    )


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


TABLES: dict[str, Callable[[], str]] = {
    "peer-operations": peer_operations,
    "memory-backends": memory_backends,
    "calibration": calibration,
    "calibration-permute": calibration_permute,
}


def render(text: str) -> str:
    """Return a document with all its tables made anew."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match['name']]()}\n\n{match[3]}"

    return _BLOCK.sub(block, text)


def documents() -> list[Path]:
    """All Markdown files that may hold tables."""
    return sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def main() -> int:
    """Write all documents whose tables changed."""
    for path in documents():
        text = path.read_text()
        new = render(text)
        if new != text:
            path.write_text(new)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

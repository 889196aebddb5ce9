"""Journal of measurements: one JSON line for each table and measure, so that a run that stops can go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Lines of a file, by table and measure.

    Parameters
    ----------
    path
        File. An unfinished last line, of a run that was killed, is left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: dict[tuple[str, str], dict[str, Any]] = {}
        if path.exists():
            lines = path.read_text(encoding="utf-8").split("\n")
            for line in lines[:-1]:
                entry = json.loads(line)
                self.entries[entry["table"], entry["measure"]] = entry
            if lines[-1]:
                path.write_text("\n".join([*lines[:-1], ""]), encoding="utf-8")

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self.entries

    def add(self, entry: dict[str, Any]) -> None:
        """Append an entry."""
        self.entries[entry["table"], entry["measure"]] = entry
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

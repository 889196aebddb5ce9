"""Finished trials on disk: one file for each experiment, a line for each trial, written as soon as it is done.

The first line says what the trials are of: experiment, settings, seed, version. Each other line carries a checksum. A
line cut short by a kill is not counted and its trial runs again; all lines before it count.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

import ghrr
from ghrr.files import check_fields, open_to_append, parse_json, read_bytes
from ghrr.paper.experiment import Experiment, Settings

FORMAT = 1
_MAX_BYTES = 1 << 30
_HEADER = {"format": int, "experiment": str, "ghrr": str, "code": str, "inputs": str, "seed": int, "settings": dict}
_TRIAL = {"trial": int, "seconds": float, "columns": dict}


@dataclass(frozen=True)
class Trial:
    """A finished trial: its number, its table and the seconds it took."""

    number: int
    table: pd.DataFrame
    seconds: float


class Journal:
    """The finished trials of one experiment at one size and seed."""

    def __init__(self, path: Path, experiment: Experiment, settings: Settings, seed: int) -> None:
        self.path = path
        self._header = {
            "format": FORMAT,
            "experiment": experiment.name,
            "ghrr": ghrr.__version__,
            "code": code_of(experiment),
            "inputs": experiment.inputs(settings),
            "seed": seed,
            "settings": json.loads(json.dumps(dict(settings))),
        }

    def open(self) -> str:
        """Make the file ready for :meth:`append`; gives a sentence where something there could not be used, or ``""``.

        A file of another version or of other settings is set aside under another name, never deleted. A last line
        that was cut short is removed. Raises ``OSError`` for a link, a FIFO or a device.
        """
        if not os.path.lexists(self.path):
            self._write_header()
            return ""
        with open_to_append(self.path, "Journal") as file:  # raises for what is not a regular file
            lines = self._lines()
            reason = self._why_foreign(lines)
            whole = sum(len(line) for line in lines if line.endswith(b"\n"))
            is_cut = not reason and whole < file.seek(0, os.SEEK_END)
            if is_cut:
                file.truncate(whole)
        if reason:
            aside = self._free_name()
            os.replace(self.path, aside)
            self._write_header()
            return f"{self.path.name} {reason}; it is now {aside.name}, and its trials run anew"
        return f"{self.path.name} ended in the middle of a trial, which runs again" if is_cut else ""

    def trials(self) -> dict[int, Trial]:
        """The finished trials by number; lines that are damaged are left out."""
        found: dict[int, Trial] = {}
        lines = self._lines()
        if self._why_foreign(lines):
            return found
        for line in lines[1:]:
            record = _unsealed(line, _TRIAL)
            if record is not None and _is_table(record["columns"]):
                found[record["trial"]] = Trial(record["trial"], pd.DataFrame(record["columns"]), record["seconds"])
        return found

    def append(self, trial: Trial) -> None:
        """Add a finished trial; when this returns it is on the disk."""
        with open_to_append(self.path, "Journal") as file:
            file.write(_sealed({"trial": trial.number, "seconds": trial.seconds, "columns": as_columns(trial.table)}))
            file.flush()
            os.fsync(file.fileno())

    def _lines(self) -> list[bytes]:
        return read_bytes(self.path, "Journal", limit=_MAX_BYTES).splitlines(keepends=True)

    def _write_header(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "xb") as file:
            file.write(_sealed(self._header))

    def _why_foreign(self, lines: list[bytes]) -> str:
        header = _unsealed(lines[0], _HEADER) if lines else None
        if header is None:
            return "is not readable"
        if header == self._header:
            return ""
        for key, what in (("format", "format"), ("ghrr", "version of ghrr"), ("code", "version of this experiment")):
            if header.get(key) != self._header[key]:
                return f"was written by another {what} ({header.get(key)}, this is {self._header[key]})"
        if header.get("inputs") != self._header["inputs"]:
            return "was made from other input files"
        return "belongs to other settings"

    def _free_name(self) -> Path:
        for n in range(1, 10_000):
            candidate = self.path.with_suffix(f".aside-{n}.jsonl")
            if not candidate.exists():
                return candidate
        raise FileExistsError(f"there are 10,000 files set aside beside {self.path}: remove some")


def as_columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """A table as plain lists, so that it is the same whether it was computed now or read from disk."""
    return {str(name): column.tolist() for name, column in table.items()}


def code_of(experiment: Experiment) -> str:
    """A short hash of what an experiment computes with: its source, the modules of ``ghrr.paper`` that it uses, but for
    looks, and all of the library below.
    """
    module = sys.modules[experiment.run_trial.__module__]
    values = vars(module).values()
    names = {module.__name__} | {str(getattr(value, "__module__", "")) for value in values}
    names |= {value.__name__ for value in values if isinstance(value, ModuleType)}
    looks = {"ghrr.paper.style", "ghrr.paper.experiment"}
    used = sorted(name for name in names - looks if name.startswith("ghrr.paper."))
    source = b"".join(Path(sys.modules[name].__file__ or "").read_bytes() for name in used)
    return hashlib.sha256(source + _library()).hexdigest()[:12]


# No experiment uses these; what of ghrr.paper one uses is counted with it.
_UNUSED = {"cli", "lm", "memory", "nn", "paper", "structures"}


@functools.cache
def _library() -> bytes:
    package = Path(ghrr.__file__).parent
    paths = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in _UNUSED)
    return b"".join(path.read_bytes() for path in paths)


def _sealed(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _is_table(columns: dict[str, Any]) -> bool:
    """Whether all columns are lists of one length."""
    return all(isinstance(column, list) for column in columns.values()) and len(set(map(len, columns.values()))) <= 1


def _unsealed(line: bytes, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object in a line; None for a line that is damaged or lacks one of these fields."""
    if not line.endswith(b"\n") or line[8:9] != b" ":
        return None
    if line[:8] != f"{zlib.crc32(line[9:-1]):08x}".encode():
        return None
    try:
        return check_fields("Journal", parse_json(line[9:], "Journal"), fields)
    except ValueError:
        return None

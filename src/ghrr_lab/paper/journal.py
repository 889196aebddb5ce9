"""Store finished trials: one file per experiment, size and seed, one line per trial.

The first line is a header with experiment, settings, seed and version. Each line has a checksum. A trial is appended
when it is finished, so an interrupted run loses only the trials it was computing.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import ghrr
from ghrr.checks import names_errors
from ghrr.files import check_fields, open_to_append, parse_json, read_bytes
from ghrr_lab.paper.experiment import Experiment, Settings
from ghrr_lab.paper.source_code import source_hash

FORMAT = 1
_MAX_BYTES = 1 << 30
_HEADER = {"format": int, "experiment": str, "ghrr": str, "code": str, "inputs": str, "seed": int, "settings": dict}
_TRIAL = {"trial": int, "seconds": float, "columns": dict}


@dataclass(frozen=True)
class Trial:
    """A finished trial: its number, its table, and the seconds it took."""

    number: int
    table: pd.DataFrame
    seconds: float


@names_errors
class Journal:
    """The file of finished trials of one experiment at one size and seed."""

    def __init__(self, path: Path, experiment: Experiment, settings: Settings, seed: int) -> None:
        self.path = path
        self._header = {
            "format": FORMAT,
            "experiment": experiment.name,
            "ghrr": ghrr.__version__,
            "code": source_hash(experiment.name),
            "inputs": experiment.inputs(settings),
            "seed": seed,
            "settings": json.loads(json.dumps(dict(settings))),
        }

    def open(self) -> str:
        """Prepare the file for :meth:`append`, and return a notice for the user, or ``""``.

        A file with another header, for example from another version, is renamed, never deleted. An incomplete last line
        is removed. Raises ``OSError`` if the path is not a regular file.
        """
        if not os.path.lexists(self.path):
            self._write_header()
            return ""
        with open_to_append(self.path) as file:
            lines = self._read_lines()
            mismatch = self._describe_mismatch(lines)
            complete_bytes = sum(len(line) for line in lines if line.endswith(b"\n"))
            is_truncated = not mismatch and complete_bytes < file.seek(0, os.SEEK_END)
            if is_truncated:
                file.truncate(complete_bytes)
        if mismatch:
            backup = self._unused_backup_path()
            os.replace(self.path, backup)
            self._write_header()
            return f"{self.path.name} {mismatch}; it was renamed to {backup.name}, and its trials are computed again"
        return f"{self.path.name} ends with an incomplete trial, which is computed again" if is_truncated else ""

    def trials(self) -> dict[int, Trial]:
        """Return the finished trials by number. Damaged lines are skipped."""
        found: dict[int, Trial] = {}
        lines = self._read_lines()
        if self._describe_mismatch(lines):
            return found
        for line in lines[1:]:
            record = _parse_line(line, _TRIAL)
            if record is not None and _is_table(record["columns"]):
                with suppress(UnicodeEncodeError):  # by someone else: pandas writes no such text
                    found[record["trial"]] = Trial(record["trial"], pd.DataFrame(record["columns"]), record["seconds"])
        return found

    def append(self, trial: Trial) -> None:
        """Append a finished trial and flush it to disk."""
        with open_to_append(self.path) as file:
            file.write(
                _format_line({"trial": trial.number, "seconds": trial.seconds, "columns": as_columns(trial.table)})
            )
            file.flush()
            os.fsync(file.fileno())

    def _read_lines(self) -> list[bytes]:
        return read_bytes(self.path, limit=_MAX_BYTES).splitlines(keepends=True)

    def _write_header(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "xb") as file:
            file.write(_format_line(self._header))

    def _describe_mismatch(self, lines: list[bytes]) -> str:
        """Say how the stored header differs from the expected one; ``""`` if they are equal."""
        header = _parse_line(lines[0], _HEADER) if lines else None
        if header is None:
            return "is not readable"
        if header == self._header:
            return ""
        for key, what in (("format", "format"), ("ghrr", "version of ghrr"), ("code", "version of this experiment")):
            if header.get(key) != self._header[key]:
                return f"was written by another {what} (got {header.get(key)}, expected {self._header[key]})"
        if header.get("inputs") != self._header["inputs"]:
            return "was computed from other input files"
        return "was computed with other settings"

    def _unused_backup_path(self) -> Path:
        for n in range(1, 10_000):
            candidate = self.path.with_suffix(f".aside-{n}.jsonl")
            if not candidate.exists():
                return candidate
        raise FileExistsError(f"10,000 backup files exist beside {self.path}; remove some")


def as_columns(table: pd.DataFrame) -> dict[str, list[Any]]:
    """Convert a table to plain lists, so that it is identical whether it was just computed or read from disk."""
    return {str(name): column.tolist() for name, column in table.items()}


def _format_line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False)
    return f"{zlib.crc32(text.encode()):08x} {text}\n".encode()


def _parse_line(line: bytes, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object in a line, or None if the line is damaged or lacks one of the fields."""
    if not line.endswith(b"\n") or line[8:9] != b" ":
        return None
    if line[:8] != f"{zlib.crc32(line[9:-1]):08x}".encode():
        return None
    try:
        return check_fields("Journal", parse_json(line[9:], "Journal"), fields)
    except ValueError:
        return None


def _is_table(columns: dict[str, Any]) -> bool:
    """Whether all columns are lists of one length."""
    return all(isinstance(column, list) for column in columns.values()) and len(set(map(len, columns.values()))) <= 1

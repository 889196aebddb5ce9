"""Documents: the stored records of an index, in memory or in a SQLite file that is read on demand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from ghrr._checks import describe
from ghrr.files import check_inside, check_regular, parse_json
from ghrr.search.paths import is_missing

NAME = "documents.sqlite"
_VARIABLES = 500  # labels per query
_TIMEOUT = 30.0  # seconds to wait for a writer


class DocumentStore:
    """Documents by label. New ones are in memory until :meth:`write`."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self._new: dict[str, str] = {}

    def add(self, labels: Iterable[str], texts: Iterable[str]) -> None:
        """Add documents in the form of JSON text."""
        self._new.update(zip(labels, texts, strict=True))

    def discard(self, labels: Iterable[str]) -> None:
        """Forget new documents; those in the file are removed by :meth:`write`."""
        for label in labels:
            self._new.pop(label, None)

    def get(self, labels: Sequence[str]) -> list[Any]:
        """Return the documents of labels, in their order."""
        texts = {label: self._new[label] for label in labels if label in self._new}
        missing = [label for label in dict.fromkeys(labels) if label not in texts]
        if missing and self.folder is not None:
            with self._connection(self.folder, write=False) as connection:
                for start in range(0, len(missing), _VARIABLES):
                    part = missing[start : start + _VARIABLES]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT label, body FROM documents WHERE label IN ({marks})"  # noqa: S608
                    texts.update(connection.execute(query, part))
        lost = next((label for label in labels if label not in texts), None)
        if lost is not None:
            raise ValueError(
                f"RecordIndex: the document of {lost.partition(':')[2]!r} is missing from {NAME}; the folder was "
                f"changed by another program; index the documents again"
            )
        return [parse_json(texts[label], f"RecordIndex({NAME})") for label in labels]

    def labels(self) -> set[str]:
        """Return the labels of the documents in the file."""
        assert self.folder is not None
        with self._connection(self.folder, write=False) as connection:
            return {label for (label,) in connection.execute("SELECT label FROM documents")}

    def write(self, folder: Path, keep: Iterable[str]) -> None:
        """Write new documents to a folder. Documents of other labels than ``keep`` are removed by :meth:`clean`."""
        if self.folder is not None and self.folder != folder:
            self._new = {label: json.dumps(doc) for label, doc in zip(keep, self.get(list(keep)), strict=True)}
        with self._connection(folder, write=True) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS documents (label TEXT PRIMARY KEY, body TEXT NOT NULL)")
            connection.executemany("INSERT OR REPLACE INTO documents VALUES (?, ?)", self._new.items())

    def clean(self, folder: Path, removed: Iterable[str]) -> None:
        """Remove documents that are no longer in the index; new ones are now in the file."""
        with self._connection(folder, write=True) as connection:
            connection.executemany("DELETE FROM documents WHERE label = ?", ((label,) for label in removed))
        self.folder, self._new = folder, {}

    @contextmanager
    def _connection(self, folder: Path, *, write: bool) -> Iterator[sqlite3.Connection]:
        path = folder / NAME
        check_inside(path, "RecordIndex")
        if not write:
            check_regular(path, "RecordIndex")
        mode = "rwc" if write else "ro"
        try:
            uri = f"{path.absolute().as_uri()}?mode={mode}"
            with closing(sqlite3.connect(uri, uri=True, timeout=_TIMEOUT)) as connection, connection:
                yield connection
        except sqlite3.Error as error:
            raise OSError(
                f"RecordIndex({str(path)!r}): {error}; check the disk, its free space and the permissions"
            ) from error


def as_json(documents: Sequence[Mapping[str, Any]], operation: str) -> list[str]:
    """Return documents as JSON; NaN becomes null, and dates become text. Raise TypeError for other values."""
    return [_as_json(document, f"{operation}: document {row}") for row, document in enumerate(documents)]


def _as_json(document: Mapping[str, Any], where: str) -> str:
    try:
        try:
            return json.dumps(document, allow_nan=False, default=_default)
        except ValueError:  # NaN, or an object that contains itself
            return json.dumps(_without_nan(document), default=_default)
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply, or contains itself; flatten it first") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where} must be JSON: {error}; convert its values first") from None


def _default(value: Any) -> Any:
    if is_missing(value):
        return None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot store {describe(value)}")


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(child) for child in value]
    is_bad = isinstance(value, float) and (value != value or value in (float("inf"), float("-inf")))  # noqa: PLR0124
    return None if is_bad else value

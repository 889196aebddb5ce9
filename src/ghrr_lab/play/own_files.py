"""Files of a user as documents or as a table. They are read by the readers of ``ghrr index`` and ``ghrr learn``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from ghrr.checks import short_repr
from ghrr.learn import read_table
from ghrr.search import read_documents

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")


def file_name(file: str) -> str:
    """Return the name of a file whose text follows in the next lines."""
    return file.partition("\n")[0]


def documents_of(file: str, *, max_rows: int) -> list[dict[str, Any]]:
    r"""Return the rows of a file as documents; raise ``ValueError`` if it is broken, empty or too long.

    Examples
    --------
    >>> from ghrr_lab.play.own_files import documents_of
    >>> documents_of("people.csv\nname,age\nAda,36\n", max_rows=10)
    [{'name': 'Ada', 'age': 36}]
    """
    with _as_path(file) as path:
        found = list(islice(read_documents(path), max_rows + 1))
    _check_rows(file, len(found), max_rows)
    return found


def table_of(file: str, *, max_rows: int, max_columns: int) -> Any:
    r"""Return a file as a pandas table; nested fields have names such as ``home.city``, and lists are left out.

    Examples
    --------
    >>> from ghrr_lab.play.own_files import table_of
    >>> table_of('people.jsonl\n{"name": "Ada", "home": {"city": "London"}, "tags": []}', max_rows=9, max_columns=9)
      name home.city
    0  Ada    London
    """
    with _as_path(file) as path:
        table = read_table(path)
    _check_rows(file, len(table), max_rows)
    if not 2 <= table.shape[1] <= max_columns:
        raise ValueError(
            f"play: {short_repr(file_name(file))} has {table.shape[1]:,} columns without lists, expected 2 to "
            f"{max_columns}: one to predict and others to learn from"
        )
    return table


def _check_rows(file: str, count: int, most: int) -> None:
    if not 1 <= count <= most:
        got = "no rows" if not count else f"more than {most:,} rows"
        raise ValueError(f"play: {short_repr(file_name(file))} has {got}, expected 1 to {most:,}; drop another file")


@contextmanager
def _as_path(file: str) -> Iterator[Path]:
    """Write the text of a file to a temporary one; errors name the file of the user instead."""
    name, _, text = file.partition("\n")
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"play: the name of the file must end in {', '.join(SUFFIXES)}, got {short_repr(name)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            yield path
        except ValueError as error:
            raise ValueError(f"play: {str(error).replace(str(path), name[:100])}") from None

"""JSON documents in files: one per line, or a list; and the formats of files with documents or tables."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ghrr.checks import value_error
from ghrr.files.filesystem import PathLike
from ghrr.files.json_files import parse_json

LINES = (".jsonl", ".ndjson")
SUFFIXES = (*LINES, ".json", ".csv", ".tsv", ".parquet")
MAX_LINE = 16 << 20  # bytes of one document


def refuse_line(message: str) -> None:
    """Raise ValueError: what readers do with a line that is broken, if the caller does not skip it."""
    raise ValueError(message)


def check_suffix(path: PathLike) -> str:
    """Return the suffix of a file with documents or a table, in lower case; raise for another one."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise value_error(
            f"the suffix is {suffix!r}, expected one of {', '.join(SUFFIXES)}; rename or convert the file", path=path
        )
    return suffix


def read_json_lines(
    file: IO[bytes], name: str, *, strict: bool = False, broken: Callable[[str], None] = refuse_line
) -> Iterator[tuple[int, Any]]:
    r"""Yield the values of a JSON lines file with the numbers of their lines, which start at 1.

    Parameters
    ----------
    file, name
        Lines, and the name of the file for messages.
    strict
        Refuse NaN and infinity.
    broken
        Called with a message for each line that is not JSON, or too long.

    Examples
    --------
    >>> import io
    >>> from ghrr.files import read_json_lines
    >>> list(read_json_lines(io.BytesIO(b'{"a": 1}\n\n[2]\n'), "x.jsonl"))
    [(1, {'a': 1}), (3, [2])]
    """
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            broken(f"{name}, line {number}: the line has more than {MAX_LINE:,} bytes; split the document")
        elif line.strip():
            try:
                value = parse_json(line, f"{name}, line {number}", strict=strict)
            except ValueError as error:
                broken(f"{error}; repair or remove the line")
            else:
                yield number, value


def read_objects(
    file: IO[bytes], name: str, *, lines: bool, broken: Callable[[str], None] = refuse_line
) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines file, or of a JSON file with a list; others are reported as broken."""
    unit = "line" if lines else "element"
    values: Iterable[tuple[int, Any]] = (
        read_json_lines(file, name, broken=broken) if lines else enumerate(_read_list(file, name))
    )
    for number, value in values:
        if isinstance(value, dict):
            yield value
        else:
            broken(
                f"{name}, {unit} {number}: expected a JSON object, got {type(value).__name__}; put it into an object"
            )


def _read_list(file: IO[bytes], name: str) -> list[Any]:
    try:
        found = parse_json(file.read().removeprefix(codecs.BOM_UTF8), name)
    except ValueError as error:
        raise ValueError(f"{error}; one object per line needs the suffix .jsonl") from None
    if not isinstance(found, list):
        raise ValueError(f"{name}: expected a list of objects, got {type(found).__name__}; put it into a list")
    return found

"""Tables: read documents from JSON lines, CSV, TSV and Parquet files, or from standard input."""

from __future__ import annotations

import codecs
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from ghrr._checks import check_choice, install_hint
from ghrr.files import PathLike, check_regular, parse_json

STREAM = "-"
SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
MAX_LINE = 16 << 20  # bytes of one document
T = TypeVar("T")


def read_documents(
    source: PathLike, *, on_error: str = "stop", report: Callable[[str], None] | None = None
) -> Iterator[dict[str, Any]]:
    r"""Yield the documents of a file, one at a time.

    A JSON lines file has one object per line, a JSON file a list of objects. Rows of CSV and TSV files become flat
    documents of strings, whose kinds :class:`ghrr.search.RecordIndex` infers; Parquet files may be nested.

    Parameters
    ----------
    source
        File with the suffix .jsonl, .ndjson, .json, .csv, .tsv or .parquet; ``"-"`` reads JSON lines from standard
        input.
    on_error
        What to do with a line that is not a document: ``"stop"`` raises, ``"skip"`` goes on.
    report
        Called with a message for each line that is skipped.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        A line is broken, with file and line number; or the file has another format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ghrr.search.tables import read_documents
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = path.write_text("name,age\nAda,36\nAlan,\n")
    >>> list(read_documents(path))
    [{'name': 'Ada', 'age': '36'}, {'name': 'Alan', 'age': ''}]
    """
    check_choice("read_documents", "on_error", on_error, ("stop", "skip"))
    skip = report or (lambda message: None)
    broken = skip if on_error == "skip" else _stop
    if str(source) == STREAM:
        yield from _json_lines(sys.stdin.buffer, "<stdin>", broken)
        return
    path = Path(source)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"read_documents({str(path)!r}): the suffix is {suffix!r}, expected one of {', '.join(SUFFIXES)}; rename "
            f"or convert the file"
        )
    check_regular(path, "read_documents")
    if suffix == ".parquet":
        yield from _parquet(path)
        return
    with open(path, "rb") as file:
        if suffix in (".jsonl", ".ndjson"):
            yield from _json_lines(file, str(path), broken)
        elif suffix == ".json":
            yield from _json_list(file, str(path), broken)
        else:
            yield from _csv(file, str(path), "," if suffix == ".csv" else "\t", broken)


def _stop(message: str) -> None:
    raise ValueError(message)


def _json_lines(lines: IO[bytes], name: str, broken: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    number = 0
    while line := lines.readline(MAX_LINE + 1):
        number += 1
        line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        where = f"{name}, line {number}"
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = lines.readline(MAX_LINE)
            broken(f"{where}: the line has more than {MAX_LINE:,} bytes; split the document")
        elif line.strip():
            yield from _checked(line, where, broken)


def _checked(text: bytes, where: str, broken: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    try:
        document = parse_json(text, where)
    except ValueError as error:
        broken(f"{error}; repair the line, or skip broken lines")
        return
    if isinstance(document, dict):
        yield document
    else:
        broken(f"{where}: expected a JSON object, got {type(document).__name__}; put it into an object")


def _json_list(file: IO[bytes], name: str, broken: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    try:
        found = json.loads(file.read().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{name}: not valid JSON ({error!s:.200}); one object per line needs the suffix .jsonl"
        ) from None
    if not isinstance(found, list):
        raise ValueError(f"{name}: expected a list of objects, got {type(found).__name__}; put it into a list")
    for number, document in enumerate(found):
        if isinstance(document, dict):
            yield document
        else:
            broken(f"{name}, element {number}: expected a JSON object, got {type(document).__name__}")


def _csv(file: IO[bytes], name: str, separator: str, broken: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    reader = csv.reader(_decoded(file, name, broken), delimiter=separator)
    rows = _rows(reader, name, broken)
    header = next(rows, None)
    if not header:
        raise ValueError(f"{name}: the file is empty, expected a header and rows")
    if len(set(header)) < len(header):
        raise ValueError(f"{name}: two columns have the same name; rename one of {', '.join(header)}")
    for row in rows:
        if len(row) == len(header):
            yield dict(zip(header, row, strict=True))
        elif row:
            broken(f"{name}, line {reader.line_num}: expected {len(header)} values, got {len(row)}")


def _decoded(file: IO[bytes], name: str, broken: Callable[[str], None]) -> Iterator[str]:
    for number, line in enumerate(file):
        try:
            yield line.decode("utf-8-sig" if number == 0 else "utf-8")
        except UnicodeDecodeError as error:
            broken(f"{name}, line {number + 1}: {line[error.start : error.end]!r} is not UTF-8; convert the file first")


def _rows(reader: Any, name: str, broken: Callable[[str], None]) -> Iterator[list[str]]:
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # for example a value that is too long
            broken(f"{name}, line {reader.line_num}: {error}")


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa  # noqa: PLC0415 (an optional package)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"read_documents: Parquet needs pyarrow; {install_hint('search')}") from error
    try:
        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None


def id_of_document(document: dict[str, Any], identifier: str, row: int) -> str:
    """Return the id that a field of a document holds; raise ValueError if it is missing."""
    value = document.get(identifier)
    if value is None or value == "":
        raise ValueError(f"row {row + 1} has no id in the field {identifier!r}; add it, or use row numbers as ids")
    return str(value)


def batches(documents: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of up to ``size`` documents."""
    batch: list[T] = []
    for document in documents:
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch

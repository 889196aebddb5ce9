"""Tables: read documents from JSON lines, CSV, TSV and Parquet files, or from standard input."""

from __future__ import annotations

import codecs
import io
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from ghrr.checks import check_choice, install_hint, named, names_errors
from ghrr.encoding.column_kinds import infer_kind
from ghrr.files import (
    LINES,
    USUAL_SEPARATORS,
    PathLike,
    check_regular,
    check_suffix,
    open_delimited,
    read_objects,
    refuse_line,
)

STREAM = "-"
_SAMPLE_ROWS = 2_000  # that tell which columns of a CSV file have numbers
_LONGEST = 20  # letters of a number
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*)")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d{1,2})?")
T = TypeVar("T")


@names_errors
def read_documents(
    source: PathLike, *, on_error: str = "stop", report: Callable[[str], None] | None = None
) -> Iterator[dict[str, Any]]:
    r"""Yield the documents of a file, one at a time.

    A JSON lines file has one object per line, a JSON file a list of objects; Parquet files may be nested. Rows of CSV
    and TSV files become flat documents. Their columns may be separated by commas, semicolons, tabs or vertical bars.
    Values are numbers in columns of numbers, and strings in others, such as zip codes, dates and prices with
    a currency.

    Parameters
    ----------
    source
        File with the suffix .jsonl, .ndjson, .json, .csv, .tsv or .parquet; ``"-"`` reads JSON lines or a
        CSV table from standard input.
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
    >>> _ = path.write_text("name;zip;age\nAda;01067;36\nAlan;10115;\n")
    >>> list(read_documents(path))
    [{'name': 'Ada', 'zip': '01067', 'age': 36}, {'name': 'Alan', 'zip': '10115', 'age': ''}]
    """
    check_choice("on_error", on_error, ("stop", "skip"))
    skip = report or (lambda message: None)
    broken = skip if on_error == "skip" else refuse_line
    if str(source) == STREAM:
        stream = _peekable(sys.stdin.buffer)
        start = stream.peek(1).removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        yield from _read(stream, "<stdin>", ".jsonl" if start in (b"", b"{", b"[") else ".csv", broken)
        return
    path, suffix = Path(source), check_suffix(source)
    check_regular(path)
    if suffix == ".parquet":
        yield from _parquet(path)
        return
    with open(path, "rb") as file:
        yield from _read(file, str(path), suffix, broken)


def _peekable(stream: Any) -> io.BufferedReader:
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _read(file: IO[bytes], name: str, suffix: str, broken: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    if suffix not in USUAL_SEPARATORS:
        yield from read_objects(file, name, lines=suffix in LINES, broken=broken)
        return
    table = open_delimited(file, name, usual=USUAL_SEPARATORS[suffix], broken=broken)
    yield from _with_numbers(dict(zip(table.header, row, strict=True)) for row in table.rows)


def _with_numbers(documents: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield documents of strings with numbers in the columns that are of the kind ``"number"`` in the first rows."""
    first = list(itertools.islice(documents, _SAMPLE_ROWS))
    columns = {name: [row[name] for row in first if row[name].strip()] for name in (first[0] if first else ())}
    numbers = [name for name, values in columns.items() if infer_kind(name, values).kind == "number"]
    for document in itertools.chain(first, documents):
        yield document | {name: _number(document[name]) for name in numbers}


def _number(text: str) -> Any:
    """Return a number that is written as in JSON, and any other text as it is."""
    if len(text) > _LONGEST:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa  # noqa: PLC0415 (an optional package)
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(named(f"Parquet needs pyarrow; {install_hint('search')}")) from error
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
    rest = iter(documents)
    while batch := list(itertools.islice(rest, size)):
        yield batch

"""Tables of text with a delimiter, such as CSV files: one reader for documents and for tables."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import IO, Any

from ghrr.files.json_lines import refuse_line

USUAL_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE_LINES = 20  # with which find_separator decides
# The byte order mark of UTF-32 begins with the one of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class DelimitedTable:
    """A table of text. ``rows`` are read one at a time, and have as many values as the header."""

    separator: str
    header: list[str]
    rows: Iterator[list[str]]


def open_delimited(
    file: IO[bytes], name: str, *, usual: str = ",", broken: Callable[[str], None] = refuse_line
) -> DelimitedTable:
    r"""Read the header of a table of text in UTF-8, whose separator is found in its first lines, and prepare its rows.

    Parameters
    ----------
    file, name
        The table, and the name of the file for messages.
    usual
        Separator of a table with one column.
    broken
        Called with a message for each row that is longer or shorter than the header, not UTF-8, or cannot be read.

    Raises
    ------
    ValueError
        The file is empty, or its header cannot be read or has a name twice.

    Examples
    --------
    >>> import io
    >>> from ghrr.files import open_delimited
    >>> table = open_delimited(io.BytesIO(b"name;price\ntea;1,20\n"), "prices.csv")
    >>> table.header, list(table.rows)
    (['name', 'price'], [['tea', '1,20']])
    """
    lines = _decoded(file)
    first = list(islice(lines, _SAMPLE_LINES))
    separator = find_separator(first, usual=usual)
    reader = csv.reader(chain(first, lines), delimiter=separator)
    try:
        header = next((row for row in reader if len(row) > 1 or "".join(row).strip()), None)
    except csv.Error as error:
        raise ValueError(f"{name}: the header cannot be read ({error}); check that quotes are closed") from None
    if header is None:
        raise ValueError(f"{name}: the file is empty, expected a header and rows")
    if wrong := _encoding_error(header):
        raise ValueError(f"{name}, line {reader.line_num}: {wrong}")
    check_header(header, name)
    return DelimitedTable(separator, header, _rows(reader, len(header), name, broken))


def check_header(names: Iterable[str], where: str) -> None:
    """Raise ValueError if two columns have the same name."""
    repeated = [column for column, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{where}: the column {repeated[0]!r} occurs more than once, expected different names; rename it"
        )


def _decoded(file: IO[bytes]) -> Iterator[str]:
    """Yield lines, which may end as on any system; bytes that are not UTF-8 become surrogates."""
    encoding = "utf-8-sig"
    for line in file:
        yield from io.StringIO(line.decode(encoding, "surrogateescape"), newline="")
        encoding = "utf-8"


def _rows(reader: Any, width: int, name: str, broken: Callable[[str], None]) -> Iterator[list[str]]:
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # for example a value that is too long
            broken(f"{name}, line {reader.line_num}: {error}")
            continue
        where = f"{name}, line {reader.line_num}"
        if wrong := _encoding_error(row):
            broken(f"{where}: {wrong}")
        elif len(row) == width:
            yield row
        elif row:
            values = "1 value" if len(row) == 1 else f"{len(row)} values"
            broken(f"{where}: the row has {values}, expected {width} as in the header; add or quote values")


def _encoding_error(row: Sequence[str]) -> str:
    """Return a message if a row has bytes that are not UTF-8, which were decoded as surrogates."""
    text = "".join(row)
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        content = text.encode(errors="surrogateescape")
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
        wrong = text[error.start : error.end].encode(errors="surrogateescape")
        found = f"the file is {encoding.upper()}, not UTF-8" if encoding else f"{wrong!r} is not UTF-8"
        return f"{found}; convert the file, for example with iconv -f {encoding or 'latin1'} -t utf-8"
    return ""


def find_separator(lines: Sequence[str], *, usual: str = ",") -> str:
    r"""Return the character between the columns of a table: a comma, semicolon, tab or vertical bar.

    It divides the header, and most rows, into the same number of columns. If several do, the usual one is returned, or
    else the one with the most columns.

    Parameters
    ----------
    lines
        First lines of a file.
    usual
        Character for a table with one column.

    Examples
    --------
    >>> from ghrr.files import find_separator
    >>> find_separator(["name;price", "tea;1,20", "coffee;2,50"])
    ';'
    >>> find_separator(["name", "tea"])
    ','
    """

    def evenness(separator: str) -> tuple[float, bool, int]:
        try:
            rows = [row for row in csv.reader(lines, delimiter=separator) if row]
        except csv.Error:
            return 0.0, False, 0
        columns = len(rows[0]) if rows else 0
        if columns < 2:
            return 0.0, False, 0
        return sum(len(row) == columns for row in rows) / len(rows), separator == usual, columns

    best = max(_SEPARATORS, key=evenness)
    return best if evenness(best)[0] else usual

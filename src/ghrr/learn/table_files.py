"""Tables in files: read CSV, TSV and Parquet, and write CSV."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import IO, Any

import pandas as pd

from ghrr._checks import install_hint
from ghrr.files import PathLike, atomic_write, read_bytes

SEPARATORS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (*SEPARATORS, ".parquet")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_MISSING = ["", "nan", "NaN"]  # pandas would also take None, NA and null as missing, which can be names
_REPEATED = re.compile(r"Multiple matches for FieldRef\.Name\((.*)\) in ")  # pyarrow's message for equal names
# The mark of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_table(source: PathLike | IO[bytes], *, texts: Collection[str] = ()) -> pd.DataFrame:
    r"""Read a table from a CSV, TSV or Parquet file, or a CSV table from a stream.

    Columns of strings in the form ``2024-12-31``, with or without a time, become dates. In CSV and TSV files, empty
    cells and ``NaN`` are missing values; ``None``, ``NA`` and ``null`` are strings.

    Parameters
    ----------
    source
        File with the suffix ``.csv``, ``.tsv`` or ``.parquet``, or a stream of bytes.
    texts
        Columns whose values are strings even if all of them look like numbers.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The file is empty, has no rows, is not UTF-8, has columns of the same name, or cannot be parsed.

    Examples
    --------
    >>> import io
    >>> from ghrr.learn.table_files import read_table
    >>> table = read_table(io.BytesIO(b"age,zip\n31,0100\n,0200\n"), texts=["zip"])
    >>> table["age"].tolist(), table["zip"].tolist()
    ([31.0, nan], ['0100', '0200'])
    """
    name, suffix = "<stream>", ".csv"
    if isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
        name, suffix = str(source), Path(source).suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(
                f"read_table({name!r}): the suffix is {suffix!r}, expected one of {', '.join(SUFFIXES)}; rename or "
                f"convert the file"
            )
        content = read_bytes(source, "read_table")
    else:
        content = source.read()
    where = f"read_table({name!r})"
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise ValueError(f"{where}: the file is empty, expected a header and rows")
    table = (
        _parse_parquet(content, where) if suffix == ".parquet" else _parse(content, SEPARATORS[suffix], texts, where)
    )
    if not len(table):
        raise ValueError(f"{where}: there is a header but no row, expected at least one row")
    for column in table.columns:
        if pd.api.types.infer_dtype(table[column], skipna=True) == "string" and column not in texts:
            table[column] = _as_dates(table[column])
    return table


def _parse(content: bytes, separator: str, texts: Collection[str], where: str) -> pd.DataFrame:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = next((name for mark, name in _BYTE_ORDER_MARKS.items() if content.startswith(mark)), None)
        found = f"the file is {encoding.upper()}, not UTF-8" if encoding else f"byte {error.start:,} is not UTF-8"
        raise ValueError(
            f"{where}: {found}; convert the file, for example with iconv -f {encoding or 'latin1'} -t utf-8"
        ) from None
    try:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise ValueError(f"{where}: the header cannot be read ({error}); check that quotes are closed") from None
    other = next((mark for mark in ";\t|" if len(header) == 1 and mark in header[0]), None)
    if other is not None:
        raise ValueError(
            f"{where}: the header is one column, {header[0]!r:.80}, expected {separator!r} between columns, not "
            f"{other!r}; convert the file"
        )
    _check_names(header, where)
    types: Any = {column: str for column in texts if column in header}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # Without index_col, pandas would take the first of too many values of a row as its label.
            return pd.read_csv(
                io.StringIO(text),
                sep=separator,
                dtype=types,
                index_col=False,
                low_memory=False,
                keep_default_na=False,
                na_values=_MISSING,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{where}: not a table with {separator!r} between values: {error}".rstrip()) from None


def _check_names(names: Iterable[str], where: str) -> None:
    """Raise if two columns have the same name."""
    repeated = [column for column, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(
            f"{where}: the column {repeated[0]!r} occurs more than once, expected different names; rename it"
        )


def _parse_parquet(content: bytes, where: str) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise ImportError(f"{where}: Parquet needs pyarrow, which is not installed; {install_hint('learn')}") from None
    except (OSError, ValueError) as error:
        repeated = _REPEATED.match(str(error))
        if repeated:
            _check_names([repeated[1]] * 2, where)
        raise ValueError(f"{where}: not a Parquet file: {str(error).splitlines()[0]}") from None
    named = [name for name in frame.index.names if name is not None]  # also columns, for other readers
    return (frame.reset_index(named) if named else frame).rename(columns=str)


def _as_dates(column: Any) -> Any:
    """Return a column of strings as dates if all of its values are dates."""
    values = column.dropna()
    if not values.str.fullmatch(DATE).all():
        return column
    try:
        return pd.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, OverflowError):
        return column


def write_csv(path: PathLike, table: pd.DataFrame) -> None:
    """Write a table to a CSV file, completely or not at all."""
    with atomic_write(path) as temporary:
        table.to_csv(temporary, index=False)

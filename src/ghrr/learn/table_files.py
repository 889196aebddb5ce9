"""Tables in files: read CSV, TSV, JSON and Parquet, and write CSV."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Collection, Iterable
from typing import IO, Any

import pandas as pd

from ghrr.checks import install_hint, names_errors
from ghrr.files import (
    LINES,
    USUAL_SEPARATORS,
    PathLike,
    atomic_write,
    check_header,
    check_suffix,
    open_delimited,
    read_bytes,
    read_objects,
)

DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
_MISSING = ["", "nan", "NaN"]  # pandas would also take None, NA and null as missing, which can be names
_REPEATED = re.compile(r"Multiple matches for FieldRef\.Name\((.*)\) in ")  # pyarrow's message for equal names
_LEADING_ZERO = re.compile(rb"[\s,;|\"]0\d")


@names_errors
def read_table(source: PathLike | IO[bytes], *, texts: Collection[str] | None = None) -> pd.DataFrame:
    r"""Read a table from a CSV, TSV, JSON or Parquet file, or a CSV table from a stream.

    The columns of a text may be separated by commas, semicolons, tabs or vertical bars. Columns of strings in the form
    ``2024-12-31``, with or without a time, become dates. In CSV and TSV files, empty cells and ``NaN`` are missing
    values; ``None``, ``NA`` and ``null`` are strings. A nested field of JSON documents is a column such as
    ``home.city``; their lists are left out.

    Parameters
    ----------
    source
        File with the suffix .csv, .tsv, .jsonl, .ndjson, .json or .parquet, or a stream of bytes.
    texts
        Columns of a text whose values are strings even if all of them look like numbers. By default columns of whole
        numbers of which some have leading zeros.

    Raises
    ------
    OSError
        There is no such file.
    ValueError
        The file is empty, has no rows, is not UTF-8, has columns of the same name, or cannot be parsed.

    Examples
    --------
    >>> import io
    >>> from ghrr.learn import read_table
    >>> table = read_table(io.BytesIO(b"age,zip\n31,01067\n,10115\n"))
    >>> table["age"].tolist(), table["zip"].tolist()
    ([31.0, nan], ['01067', '10115'])
    """
    name, suffix = "<stream>", ".csv"
    if hasattr(source, "read"):
        content = source.read()
    else:
        name, suffix = str(source), check_suffix(source)
        content = read_bytes(source)
    if suffix == ".parquet":
        table = _parse_parquet(content, name)
    elif suffix in USUAL_SEPARATORS:
        table = _parse_delimited(content, name, USUAL_SEPARATORS[suffix], texts)
    else:
        table = _table_of_documents(read_objects(io.BytesIO(content), name, lines=suffix in LINES))
    if not len(table):
        raise ValueError(f"{name}: the table has no rows, expected at least one")
    for column in table.columns:
        if pd.api.types.infer_dtype(table[column], skipna=True) == "string" and column not in (texts or ()):
            table[column] = _as_dates(table[column])
    return table


def _table_of_documents(documents: Iterable[dict[str, Any]]) -> pd.DataFrame:
    table = pd.json_normalize(list(documents))
    lists = [name for name in table.columns if table[name].map(lambda value: isinstance(value, list)).any()]
    return table.drop(columns=lists)


def _parse_delimited(content: bytes, name: str, usual: str, texts: Collection[str] | None) -> pd.DataFrame:
    found = open_delimited(io.BytesIO(content), name, usual=usual)
    try:
        deque(found.rows, maxlen=0)  # raises for a row that is longer or shorter than the header
    except ValueError as error:
        if not isinstance(error.__context__, csv.Error):  # a value that is too long for csv, but not for pandas
            raise

    def parse(dtype: Any) -> pd.DataFrame:
        return pd.read_csv(
            io.BytesIO(content),
            sep=found.separator,
            encoding="utf-8-sig",
            dtype=dtype,
            low_memory=False,
            keep_default_na=False,
            na_values=_MISSING,
        )

    try:
        if texts is None:
            texts = _codes(parse(str)) if _LEADING_ZERO.search(content) else ()
        return parse(dict.fromkeys(texts, str))
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: not a table with {found.separator!r} between values: {error}".rstrip()) from None


def _codes(table: pd.DataFrame) -> list[str]:
    """Return the columns of whole numbers of which some have leading zeros, as in zip codes."""
    columns = {name: table[name].dropna().str.strip() for name in table.columns}
    return [name for name, values in columns.items() if values.str.isdigit().all() and values.str.match(r"0\d").any()]


def _parse_parquet(content: bytes, name: str) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise ImportError(f"{name}: Parquet needs pyarrow, which is not installed; {install_hint('learn')}") from None
    except (OSError, ValueError) as error:
        repeated = _REPEATED.match(str(error))
        if repeated:
            check_header([repeated[1]] * 2, name)
        raise ValueError(f"{name}: not a Parquet file: {str(error).splitlines()[0]}") from None
    named = [level for level in frame.index.names if level is not None]  # also columns, for other readers
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

"""Columns of a pandas table (Series): their kinds, and their values as numbers, codes of categories and texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

from ghrr.checks import type_error, value_error
from ghrr.encoding import column_kinds
from ghrr.encoding.column_kinds import Guess, as_text
from ghrr.encoding.column_values import Notation, parse_boolean, parse_date, parse_number

KINDS = tuple(kind for kind in column_kinds.KINDS if kind not in ("point", "embedding"))
NUMERIC = ("number", "boolean", "date")  # kinds that are encoded as numbers
TEXTUAL = ("text", "set", "sequence")  # kinds that are encoded as text
_FEWEST_IDENTIFIERS = 20
_DAY = np.timedelta64(1, "D")


def guess_kind(column: Any) -> Guess:
    """Infer the kind of a column as :func:`ghrr.encoding.column_kinds.infer_kind` does, with these differences:

    - Identifiers, such as order numbers and codes of which no two are equal, are ``"ignore"``: nothing follows from
      them for other rows. Fewer than 20 numbers, and decimal numbers without missing values, are never identifiers.
    - The pandas dtype ``category`` is a category.
    - A column without any value counts as numbers.

    Raises
    ------
    TypeError
        There are values such as dicts, which no kind has.
    ValueError
        The values are points or embeddings, which need a column for each number.

    Examples
    --------
    >>> import pandas as pd
    >>> from ghrr.learn.table_columns import guess_kind
    >>> columns = ([1, None], ["a", "b", "a"], [True, False], ["$1,200", "$85"], range(100, 140))
    >>> [guess_kind(pd.Series(values)).kind for values in columns]
    ['number', 'category', 'boolean', 'number', 'ignore']
    """
    import pandas as pd  # noqa: PLC0415 (only tables need it)

    if isinstance(column.dtype, pd.CategoricalDtype):
        return Guess("category")
    values = _plain_values(column)
    if not values:
        return Guess("number")
    guess = column_kinds.infer_kind(str(column.name), values)
    if guess.kind not in KINDS:
        raise value_error(
            f"column {column.name!r} has lists of numbers, expected one value in each row; make a "
            f"column of each number, or leave the column out"
        )
    # pandas makes decimal numbers of whole ones if values are missing.
    is_decimal = column.dtype.kind == "f" and len(values) == len(column)
    are_few = len(values) < _FEWEST_IDENTIFIERS and not any(isinstance(value, str) for value in values)
    if guess.is_identifier and (is_decimal or are_few):
        return Guess("number", guess.notation, "" if is_decimal else guess.doubt)
    if guess.is_identifier:
        return Guess("ignore", guess.notation, "values that look like identifiers", is_identifier=True)
    return guess


def _plain_values(column: Any) -> list[Any]:
    """Return the values that are not missing, as objects of Python; infinite numbers count as missing."""
    values = column.dropna()
    if values.dtype.kind == "f":
        values = values[np.isfinite(values)]
    if values.dtype.kind != "O":
        return [value for value in values.tolist() if not is_blank(value)]
    plain = list(map(_plain, values))
    wrong = [value for value in plain if not isinstance(value, Hashable | list | set)]
    _refuse(column, wrong)
    return [value for value in plain if not is_blank(value)]


def _plain(value: Any) -> Any:
    """Return a value of NumPy as one of Python, and a period of pandas as its first moment."""
    if hasattr(value, "to_timestamp"):
        return value.to_timestamp()
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _refuse(column: Any, values: Sequence[Any]) -> None:
    if values:
        types = ", ".join(sorted({type(value).__name__ for value in values}))
        raise type_error(
            f"the input argument must be uniformly strings or numbers, got {types} in column {column.name!r}"
        )


def is_blank(value: Any) -> bool:
    """Return whether a value is text without a visible character, which counts as missing."""
    return isinstance(value, str) and not value.strip()


def read_numbers(column: Any, kind: str, notation: Notation | None = None) -> tuple[NDArray[np.float64], list[Any]]:
    """Return the values of a column as numbers, NaN for missing ones, and those that cannot be read as this kind.

    Dates are in days, and booleans are 0 and 1. A value that cannot be read is NaN too.
    """
    import pandas as pd  # noqa: PLC0415 (only tables need it)

    notation = notation or Notation()
    if kind == "date" and column.dtype.kind == "M":
        # The unit of Timestamp(0) is a nanosecond, which cannot count to the year 9999.
        column = (pd.to_datetime(column, utc=True) - pd.Timestamp("1970-01-01", tz="UTC")) / _DAY
    elif kind == "date" and column.dtype.kind == "m":
        column = column / _DAY
    elif kind == "date" or column.dtype.kind not in "biuf":
        return _parse_all(column, kind, notation)
    numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    assert_all_finite(numbers, allow_nan=True, estimator_name="TableFeatures", input_name="X")
    return numbers, []


def _parse_all(column: Any, kind: str, notation: Notation) -> tuple[NDArray[np.float64], list[Any]]:
    numbers, unread = np.full(len(column), np.nan), []
    values = column.tolist()
    for row in np.flatnonzero(column.notna()):
        value = _plain(values[row])
        number: float | None = parse_boolean(value) if kind == "boolean" else None
        if kind == "date":
            number = parse_date(value, notation)
        elif number is None:  # a boolean column can have other numbers in rows to predict
            number = parse_number(value, notation)
        if number is not None:
            numbers[row] = number
        elif not is_blank(value):
            unread.append(value)
    return numbers, unread


def read_texts(column: Any) -> list[str]:
    """Return the values of a column as strings; missing values are empty, and the elements of a list are joined."""
    texts = []
    for value, is_present in zip(column.astype(object), column.notna(), strict=True):
        elements = value if isinstance(value, list | tuple | set | frozenset | np.ndarray) else [value]
        texts.append(" ".join(map(as_text, elements)) if is_present else "")
    return texts


def find_categories(column: Any) -> list[Any]:
    """Return the different values of a column in sorted order; those that a ``category`` dtype declares, if any."""
    if hasattr(column, "cat"):
        return list(column.cat.categories)
    values = column.dropna()
    _refuse(column, [value for value in values.astype(object) if not isinstance(value, Hashable)])
    categories = [value for value in values.unique().tolist() if not is_blank(value)]
    return sorted(categories, key=lambda value: (type(value).__name__, value))


def category_codes(column: Any, categories: Sequence[Any], *, ignore_unknown: bool) -> NDArray[np.int64]:
    """Return the index of each value among the categories; -1 for missing values and unknown ones.

    Raises
    ------
    ValueError
        There are unknown categories, and they are not ignored.
    """
    import pandas as pd  # noqa: PLC0415 (only tables need it)

    values = column.astype(object)
    codes = pd.Index(categories, dtype=object, tupleize_cols=False).get_indexer(values)
    unknown = (codes < 0) & column.notna().to_numpy() & ~values.map(is_blank).to_numpy(dtype=bool)
    if unknown.any() and not ignore_unknown:
        found = sorted({repr(value) for value in values[unknown]})
        raise ValueError(
            f"Found unknown categories [{', '.join(found[:10])}] in column {column.name!r} during transform; set "
            f'handle_unknown="ignore" to treat them as missing'
        )
    return codes.astype(np.int64)

"""Columns of a pandas table (Series): their kinds, and their values as numbers, codes of categories and texts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite

KINDS = ("number", "category", "date", "text", "ignore")
_MOST_CATEGORIES = 100  # a column with more strings, most of them different, is text
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_DATES = ("datetime64", "datetime", "date", "timedelta64", "timedelta")


def infer_kind(column: Any) -> str:
    """Return the kind of a column: ``"number"``, ``"date"``, ``"category"`` or ``"text"``.

    Numbers are numbers, also in a column of objects. Dates, with or without a time, and durations are dates. Strings
    are text if there are more than 100 different ones and more than half of the values differ. All else is a category:
    other strings, booleans, the pandas dtype ``category``, and objects such as times without a date, periods and bytes.
    A column without any value counts as numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from ghrr.learn.table_columns import infer_kind
    >>> [infer_kind(pd.Series(values)) for values in ([1, None], ["a", "b"], [True, False])]
    ['number', 'category', 'category']
    """
    import pandas as pd  # noqa: PLC0415 (only tables need it)

    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    values = column.dropna()
    inferred = pd.api.types.infer_dtype(values, skipna=True)
    if not len(values) or inferred in _NUMBERS:
        return "number"
    if inferred in _DATES:
        return "date"
    if inferred == "string" and values.nunique() > max(_MOST_CATEGORIES, len(values) // 2):
        return "text"
    return "category"


def read_numbers(column: Any, kind: str) -> NDArray[np.float64]:
    """Return the values of a column of numbers or dates; dates in days, missing values as NaN."""
    import pandas as pd  # noqa: PLC0415 (only tables need it)

    if kind == "date":
        day = pd.Timedelta(days=1)
        if pd.api.types.infer_dtype(column, skipna=True).startswith("timedelta"):
            column = pd.to_timedelta(column) / day
        else:
            # The unit of Timestamp(0) is a nanosecond, which cannot count to the year 9999.
            column = (pd.to_datetime(column, utc=True) - pd.Timestamp("1970-01-01", tz="UTC")) / day
    numbers: NDArray[np.float64] = column.to_numpy(dtype=np.float64, na_value=np.nan)
    assert_all_finite(numbers, allow_nan=True, estimator_name="TableFeatures", input_name="X")
    return numbers


def read_texts(column: Any) -> list[str]:
    """Return the values of a column as strings; missing values are empty."""
    texts: list[str] = column.astype(object).where(column.notna(), "").astype(str).tolist()
    return texts


def find_categories(column: Any) -> list[Any]:
    """Return the different values of a column in sorted order; those that a ``category`` dtype declares, if any."""
    if hasattr(column, "cat"):
        return list(column.cat.categories)
    values = column.dropna()
    wrong = sorted({type(value).__name__ for value in values.astype(object) if not isinstance(value, Hashable)})
    if wrong:
        raise TypeError(
            f"TableFeatures: the input argument must be uniformly strings or numbers, got {', '.join(wrong)} in column "
            f"{column.name!r}"
        )
    categories = values.unique().tolist()
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
    unknown = (codes < 0) & column.notna().to_numpy()
    if unknown.any() and not ignore_unknown:
        found = sorted({repr(value) for value in values[unknown]})
        raise ValueError(
            f"Found unknown categories [{', '.join(found[:10])}] in column {column.name!r} during transform; set "
            f'handle_unknown="ignore" to treat them as missing'
        )
    return codes.astype(np.int64)

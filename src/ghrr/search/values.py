"""Values: what counts as missing, what JSON stores of a value, and the text by which a value is compared."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

SCALARS = frozenset({str, int, float, bool})
_MISSING = ("NAType", "NaTType")  # of pandas
_BLANKS = "".join(chr(point) for point in range(0x3001) if point < ord(" ") or chr(point).isspace())
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Numbers of more than double precision have no plain form, and times finer than microseconds would become integers.
_PLAIN_TYPES: dict[str, type | str] = {"f": np.float64, "c": np.complex128, "M": "datetime64[us]"}
_EXACT = 2.0**53  # up to here a whole float has the digits of an integer


@dataclass(frozen=True)
class Range:
    """Interval of numbers, or of dates, with its ends. None is an open end.

    In an example all values inside agree fully, and near ones outside agree in part. In ``must`` and ``must_not`` it
    is exact.

    Examples
    --------
    >>> from ghrr.search import Range
    >>> {"name": "turntable", "price": Range(50, 100)}
    {'name': 'turntable', 'price': Range(low=50, high=100)}
    """

    low: Any
    high: Any


@dataclass(frozen=True)
class Contains:
    """Condition of ``must`` and ``must_not`` that a value contains a text, without regard to case.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.search import Contains
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada Lovelace"}, {"name": "Alan Turing"}])
    >>> [hit.document["name"] for hit in index.search({"name": "a"}, must={"name": Contains("love")})]
    ['Ada Lovelace']
    """

    text: str


def plain(value: Any) -> Any:
    """Return a value as JSON stores it: numbers and arrays of NumPy, dates and missing values of pandas become plain.

    Examples
    --------
    >>> import datetime, numpy as np
    >>> from ghrr.search.values import plain
    >>> [plain(value) for value in (np.float32(1.5), datetime.date(2024, 2, 1), np.datetime64("NaT"), "text")]
    [1.5, '2024-02-01', None, 'text']
    """
    if type(value) in SCALARS or value is None:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if type(value).__name__ in _MISSING:
        return None
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "tolist"):
        if isinstance(value, np.ndarray | np.generic):
            value = value.astype(_PLAIN_TYPES.get(value.dtype.kind, value.dtype))
        try:
            return plain(value.tolist())
        except (RuntimeError, TypeError):  # a tensor without data, which no caller can store
            return value
    return value


def is_missing(value: Any) -> bool:
    """Whether a plain value counts as missing: None, NaN, infinity, and text without a visible character.

    Examples
    --------
    >>> from ghrr.search.values import is_missing
    >>> [is_missing(value) for value in (None, float("nan"), "", " ", 0, False, "0")]
    [True, True, True, True, False, False, False]
    """
    if isinstance(value, str):
        return not value.strip(_BLANKS)
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def normalize(text: str) -> str:
    r"""Return text in the composed form of Unicode (NFC): texts that look the same become equal.

    Examples
    --------
    >>> from ghrr.search.values import normalize
    >>> len("Go\u0308del"), len(normalize("Go\u0308del"))
    (6, 5)
    """
    if text.isascii():
        return text
    if _SURROGATES.search(text):  # JSON joins two halves of a character
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return unicodedata.normalize("NFC", text)


def as_text(value: Any) -> str:
    """Return the text of a value, normalized and without blanks at its start. Equal numbers have the same text.

    Examples
    --------
    >>> from ghrr.search.values import as_text
    >>> [as_text(value) for value in (5.0, -0.0, True, " A-77", [1, "a"])]
    ['5', '0', 'True', 'A-77', '1 a']
    """
    if isinstance(value, list | tuple):
        return " ".join(map(as_text, value))
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    try:
        return normalize(str(value)).lstrip(_BLANKS)
    except ValueError:  # an integer of more digits than Python converts
        return hex(value)


def fold(value: Any) -> str:
    r"""Return the text of a value without differences of case and of blanks around it.

    Examples
    --------
    >>> from ghrr.search.values import fold
    >>> fold(" Go\u0308del ") == fold("GÖDEL")
    True
    """
    return normalize(as_text(value).strip(_BLANKS).casefold())

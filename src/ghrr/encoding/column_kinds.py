"""Kinds of columns: what the values of a column of a table or of a field of documents are, found in the values.

:func:`infer_kind` is the one place that decides. ``ghrr.search`` and ``ghrr.learn`` use it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ghrr.encoding.column_values import Notation, are_booleans, find_notation, parse_date, parse_number

KINDS = ("text", "category", "boolean", "set", "sequence", "number", "date", "point", "embedding", "ignore")
_SAMPLE = 2_000  # values that are looked at
_CYCLES = 2 * 3 * 5 * 7  # a sample has values of all last digits, months and weekdays
_MOST = 0.95  # share of the values that have to be of a kind
_DOUBTFUL = 0.8  # from this share on, the guess is doubtful
_MOST_CATEGORIES = 64
_MOST_OF_CATEGORIES = 0.9  # share of the values, since others may have typing errors
_MOST_ROUNDED = 0.9  # share of large whole numbers that end in 0; identifiers rarely have this many
_SHORT = 24  # mean letters of a category
_FEWEST_CODES = 20  # values that show that a column is written in one pattern
_FAR = 3.0  # times as far as the lowest or highest few numbers are expected to reach
_FEWEST_IN_ORDER = 20  # whole numbers that show that they number the rows
_POINTS = frozenset({"latlng", "latlon", "lonlat", "coordinates", "location", "geo", "position", "point"})
_CODE_NAME = re.compile(
    r"\b(ids?|key|uuid|guid|code|ref|reference|zip|zipcode|postcode|postal|plz|phone|telephone|tel|mobile|fax|ean|upc|isbn|"
    r"issn|sku|ssn|iban|vat|passport|account|barcode|serial)\b"
)
_PLACE_NAME = re.compile(r"\b(zip|zipcode|postcode|postal|plz)\b")  # codes that many rows can share
_QUANTITY_NAME = re.compile(
    r"\b(price|cost|amount|total|sum|salary|income|revenue|sales|profit|budget|population|count|quantity|qty|size|weight|"
    r"height|width|length|area|distance|age|score|rate|temperature|pressure|votes|employees|visitors|rank|level|"
    r"time|day|days|week|month|year|born|hour|minute|second|step|period)\b"
)
_NAMES = {"code": _CODE_NAME, "quantity": _QUANTITY_NAME}


@dataclass(frozen=True)
class Guess:
    """The kind of a column.

    Parameters
    ----------
    kind
        One of ``KINDS``.
    notation
        How the column writes numbers and dates.
    doubt
        Why the kind may be wrong; empty if there is no doubt.
    is_identifier
        Whether each value is another one and only identifies its row, as order numbers and serial numbers do.
    """

    kind: str
    notation: Notation = field(default_factory=Notation)
    doubt: str = ""
    is_identifier: bool = False


def infer_kind(name: str, values: Sequence[Any]) -> Guess:
    """Infer the kind of a column from its values, without missing ones, and from its name where they do not decide.

    - Numbers and dates may be written as text, with currencies, percent signs and the usual forms of dates.
    - Whole numbers that identify something are text: they have leading zeros, number the rows, or are different and
      spread evenly over all numbers of as many digits.
    - Two values such as 0 and 1 or yes and no are ``"boolean"``.
    - Strings that repeat are a category if they are short and few; others are text.

    Examples
    --------
    >>> from ghrr.encoding.column_kinds import infer_kind
    >>> columns = (["$1,200", "$85"], ["00123", "17"], ["3 May 2021"], [[1, 2]], ["yes", "no", "yes"])
    >>> [infer_kind("x", values).kind for values in columns]
    ['number', 'text', 'date', 'set', 'boolean']
    """
    step = max(1, len(values) // _SAMPLE)
    while math.gcd(step, _CYCLES) > 1:
        step += 1
    values = values[::step]
    lists = [value for value in values if isinstance(value, list | tuple | set | frozenset)]
    if lists:
        return Guess(_kind_of_lists(name, lists) if 2 * len(lists) > len(values) else "set")
    if not values:
        return Guess("text", doubt="no values")
    texts = [as_text(value) for value in values]
    if all(isinstance(value, bool) for value in values) or are_booleans(texts):
        return Guess("boolean")
    if any(isinstance(value, bool) for value in values):
        return Guess("text", doubt="booleans among other values")
    notation = find_notation(values)
    if (dates := _fraction_true(parse_date(value, notation) is not None for value in values)) >= _MOST:
        return Guess("date", notation, notation.doubt)
    if (numbers := _fraction_true(parse_number(value, notation) is not None for value in values)) >= _MOST:
        return _numbers_or_codes(name, values, texts, notation, step)
    doubt = ""
    if max(dates, numbers) >= _DOUBTFUL:
        doubt = f"{max(dates, numbers):.0%} of the values are {'dates' if dates > numbers else 'numbers'}"
    if _is_category(texts):
        return Guess("category", notation, doubt)
    return Guess("text", notation, doubt, is_identifier=_are_codes(texts) and not _PLACE_NAME.search(_words(name)))


def _words(name: str) -> str:
    """Return the words of a name such as ``orderNumber`` or ``ORDER_NUMBER``, in lower case."""
    return re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())


def as_text(value: Any) -> str:
    """Return a value as text; a whole number is written without a fraction, as 12.0 in a column with missing values."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value).strip()


def _fraction_true(tests: Any) -> float:
    found = list(tests)
    return float(sum(found)) / max(1, len(found))


def _is_category(texts: Sequence[str]) -> bool:
    """Whether strings are short and a few that repeat make up nearly all: ten of each, or fewer in small tables."""
    counts = np.sort(list(Counter(text.casefold() for text in texts).values()))[::-1]
    needed = 1 + int(np.searchsorted(np.cumsum(counts), _MOST_OF_CATEGORIES * len(texts)))
    most = max(len(texts) / 10, min(12, len(texts) / 4), min(4, 2 / 3 * len(texts)))
    return needed <= min(_MOST_CATEGORIES, most) and sum(map(len, texts)) < _SHORT * len(texts)


def _are_codes(texts: Sequence[str]) -> bool:
    """Whether strings are different codes: of the same length, with digits, and with the same marks between them."""
    if len(texts) < _FEWEST_CODES or len(set(texts)) < len(texts):
        return False
    patterns = Counter(re.sub(r"[^\W_]", "0", text) for text in texts if re.search(r"\d", text))
    pattern, count = patterns.most_common(1)[0] if patterns else ("", 0)
    return count >= _MOST * len(texts) and pattern.count("0") >= 5 and not re.search(r"[\s:]", pattern)


def _kind_of_lists(name: str, lists: Sequence[Any]) -> str:
    lengths = {len(value) for value in lists}
    numeric = all(isinstance(x, int | float) and not isinstance(x, bool) for value in lists for x in value)
    if numeric and lengths == {2} and (isinstance(lists[0], tuple) or name.lower() in _POINTS):
        return "point"
    return "embedding" if numeric and len(lengths) == 1 and min(lengths) >= 8 else "set"


def _numbers_or_codes(name: str, values: Sequence[Any], texts: Sequence[str], notation: Notation, step: int) -> Guess:
    """Tell numbers that measure or count from whole numbers that identify; every ``step``-th value is given."""
    words = _words(name)
    heads = {kind: [found.end() for found in rule.finditer(words)] for kind, rule in _NAMES.items()}
    is_named_code = max(heads["code"], default=0) > max(heads["quantity"], default=0)  # the later word says more
    is_named_quantity = bool(heads["quantity"]) and not is_named_code
    if is_named_code and _fraction_true((parse_number(value, notation) or 0.5) % 1 == 0 for value in values) < _MOST:
        return Guess("number", notation, notation.doubt)
    if not all(text.isdigit() for text in texts):
        return Guess("text" if is_named_code else "number", notation, notation.doubt)
    if any(len(text) > 1 and text[0] == "0" for text in texts):
        return Guess("text", notation)
    is_rounded = len(texts[0]) >= 5 and _fraction_true(text[-1] == "0" for text in texts) > _MOST_ROUNDED
    has_gaps = is_named_quantity or is_rounded or len(set(texts)) < _MOST * len(texts) or len(texts) < 3
    looks_like_identifiers = not has_gaps and (_number_the_rows(texts, step) or _is_even(texts))
    if is_named_code:
        return Guess("text", notation, is_identifier=looks_like_identifiers and not _PLACE_NAME.search(words))
    if has_gaps:
        same = len({len(text) for text in texts}) == 1 and len(texts[0]) >= 5
        is_code = same and all(isinstance(value, str) for value in values) and not is_named_quantity
        return Guess("text" if is_code and _is_even(texts) else "number", notation)
    if looks_like_identifiers:
        return Guess("text", notation, "numbers that look like identifiers", is_identifier=True)
    return Guess("number", notation)


def _number_the_rows(texts: Sequence[str], step: int) -> bool:
    """Whether whole numbers are given out in order: with few or even gaps, except for a few copies and errors."""
    different = np.unique([float(text) for text in texts])
    if len(different) < len(texts) and np.median(different) < 10_000:  # years and counts repeat too
        return False
    numbers = _without_extremes(different)
    if len(numbers) < _FEWEST_IN_ORDER:
        return False
    gaps = np.ptp(numbers) / (len(numbers) * step)
    return bool(gaps < 1.5 or (gaps < 100 and numbers[0] >= 10_000 and _distance_from_even(numbers) < 0.2))


def _without_extremes(ascending: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return numbers without the lowest and the highest few, if these are far from the others, as errors are."""
    few = int((1 - _MOST) / 2 * len(ascending))
    inner = ascending[few : len(ascending) - few]
    far = np.ptp(inner) * few / max(1, len(inner)) * _FAR
    return np.asarray(ascending[(ascending >= inner[0] - far) & (ascending <= inner[-1] + far)])


def _is_even(texts: Sequence[str]) -> bool:
    """Whether most whole numbers have the same number of digits, five or more, and are spread evenly over all those."""
    digits, count = Counter(map(len, texts)).most_common(1)[0]
    if digits < 5 or count < _MOST * len(texts):
        return False
    numbers = np.sort([float(text) for text in texts if len(text) == digits])
    ends = np.array([10.0 ** (digits - 1), 10.0**digits])
    return len(texts) < 20 or _distance_from_even(numbers, *ends) < 0.1 + 1 / np.sqrt(len(texts))


def _distance_from_even(ascending: NDArray[np.float64], low: float | None = None, high: float | None = None) -> float:
    """Return the largest difference between the shares of numbers and the shares in a uniform distribution."""
    low, high = ascending[0] if low is None else low, ascending[-1] if high is None else high
    expected = (np.arange(len(ascending)) + 0.5) / len(ascending)
    distances = np.abs((ascending - low) / max(high - low, 1e-12) - expected)
    return float(distances.max())

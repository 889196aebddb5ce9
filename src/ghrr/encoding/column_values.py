"""Numbers and dates as people write them: ``"$1,299.00"``, ``"12,5 %"``, ``"3 May 2021"``, ``"03.05.21"``.

What ``"1,250"`` or ``"03/05/2021"`` means depends on the other values of the column. A :class:`Notation` says it;
:func:`find_notation` finds it in the values.
"""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_SIGNS = "$€£¥₹₩₽₺₫฿₴₪"
_CODES = "usd|eur|gbp|jpy|cny|chf|sek|nok|dkk|pln|czk|huf|inr|krw|brl|cad|aud|nzd|mxn|zar|try|rub|kr|rs|zł"
_UNIT = rf"(?:[{_SIGNS}]|(?:us|a|c|nz|hk|r)\$|\b(?:{_CODES})\b\.?)"
_DIGITS = (
    r"\d{1,3}(?P<mark>[,.'’_ \u00a0\u202f])\d{3}(?:(?P=mark)\d{3})*(?:(?!(?P=mark))[.,]\d+)?|"
    r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?|\d+[.,]?\d*|[.,]\d+"
)
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+−](?=[^-+−]*$))?\s*{_UNIT}?\s*(?P<inner>[-+−](?=[^-+−]*$))?\s*"
    rf"(?P<digits>{_DIGITS})\s*(?:{_UNIT}|%|percent)?(?P<close>\))?",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SPACES = re.compile(r"[ \u00a0\u202f'’_]")
_GROUPED = {mark: re.compile(rf"\d{{1,3}}(?:\{mark}\d{{3}})+") for mark in ",."}

_MONTHS = dict.fromkeys(("jan", "january"), 1) | dict.fromkeys(("feb", "february"), 2)
_MONTHS |= dict.fromkeys(("mar", "march"), 3) | dict.fromkeys(("apr", "april"), 4) | {"may": 5}
_MONTHS |= dict.fromkeys(("jun", "june"), 6) | dict.fromkeys(("jul", "july"), 7)
_MONTHS |= dict.fromkeys(("aug", "august"), 8) | dict.fromkeys(("sep", "sept", "september"), 9)
_MONTHS |= dict.fromkeys(("oct", "october"), 10) | dict.fromkeys(("nov", "november"), 11)
_MONTHS |= dict.fromkeys(("dec", "december"), 12)
_CLOCK = (
    r"(?:(?:,|T|\s)\s*(?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?\s*(?:am|pm)?)"
    r"\s*(?P<zone>Z|UTC|[-+]\d{2}:?\d{2})?)?"
)
_YEAR_FIRST = re.compile(
    rf"(?P<y>\d{{4}})(?P<mark>[-/.])(?P<m>\d{{1,2}})(?P=mark)(?P<d>\d{{1,2}}){_CLOCK}", re.IGNORECASE
)
_YEAR_LAST = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?P=mark)(?P<y>\d{{4}}|\d{{2}}){_CLOCK}", re.IGNORECASE
)
_DAY_NAMED = re.compile(
    rf"(?:[a-z]{{3,9}}\.?,?\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\.?[-\s]+(?P<name>[a-z]{{3,9}})\.?,?[-\s]+(?P<y>\d{{4}}){_CLOCK}",
    re.IGNORECASE,
)
_NAMED_DAY = re.compile(
    rf"(?:[a-z]{{3,9}}\.?,?\s+)?(?P<name>[a-z]{{3,9}})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}}){_CLOCK}",
    re.IGNORECASE,
)
_YEAR_MONTH = re.compile(r"(?P<y>1[5-9]\d{2}|2[01]\d{2})[-/](?P<m>0[1-9]|1[0-2])")
_NAMED_MONTH = re.compile(r"(?P<name>[a-z]{3,9})\.?,?[-\s]+(?P<y>\d{4})", re.IGNORECASE)
_COMPACT = re.compile(r"(?P<y>1[89]\d{2}|20\d{2})(?P<m>0[1-9]|1[0-2])(?P<d>0[1-9]|[12]\d|3[01])")
_YES = {"0": "1", "no": "yes", "n": "y", "false": "true", "f": "t", "off": "on", "nein": "ja"}  # by the word for False
_CENTURY = 30  # two digits up to this are of the years 2000 to 2030, others of 1931 to 1999
_SECONDS = 86_400
_LONGEST = 64  # letters of a number or a date; longer texts are not tried


@dataclass(frozen=True)
class Notation:
    """How a column writes its numbers and dates.

    Parameters
    ----------
    decimal
        The decimal mark of numbers: ``"."`` or ``","``.
    day_first
        Whether ``"03/05/2021"`` is the 3rd of May.
    compact
        Whether eight digits are a date, as in ``"20210503"``.
    doubt
        What the values do not decide, for a warning; empty if they decide everything.
    """

    decimal: str = "."
    day_first: bool = False
    compact: bool = False
    doubt: str = ""


def find_notation(values: Iterable[Any]) -> Notation:
    """Find the notation of a column in its values.

    Examples
    --------
    >>> from ghrr.encoding.column_values import find_notation
    >>> find_notation(["1.250,00 €", "12,50 €"]).decimal
    ','
    >>> find_notation(["03/05/2021", "23/05/2021"]).day_first
    True
    >>> find_notation(["03/05/2021"]).doubt
    'day or month first'
    """
    commas: Counter[bool] = Counter()  # whether a comma is the decimal mark
    days: Counter[bool] = Counter()  # whether the day comes before the month
    open_numbers = open_dates = compact = total = 0
    for value in values:
        total += 1
        if not isinstance(value, str | int) or isinstance(value, bool):
            continue
        text = str(value).strip() if isinstance(value, str) or abs(value) < 10**8 else ""
        if len(text) > _LONGEST:
            continue
        compact += _COMPACT.fullmatch(text) is not None
        if date := _YEAR_LAST.fullmatch(text):
            first, second = int(date["a"]), int(date["b"])
            if max(first, second) > 12:
                days[first > 12] += 1
            elif date["mark"] == ".":
                days[True] += 1
            elif first != second:
                open_dates += 1
        elif isinstance(value, str) and (number := _NUMBER.fullmatch(text)):
            is_comma = _is_decimal_comma(number["digits"])
            if is_comma is None:
                open_numbers += bool({",", "."} & set(number["digits"]))
            else:
                commas[is_comma] += 1
    doubt = ""
    if open_dates and not days:
        doubt = "day or month first"
    elif open_numbers and not commas:
        doubt = "a decimal comma or a thousands separator"
    return Notation(
        "," if commas[True] > commas[False] else ".", days[True] > days[False], 0.95 * total < compact, doubt
    )


def _is_decimal_comma(digits: str) -> bool | None:
    """Whether a number has a decimal comma; None if it could be a separator of thousands, or if there is no mark."""
    last = max(digits.rfind(","), digits.rfind("."))
    if last < 0:
        return None
    mark, other = digits[last], "." if digits[last] == "," else ","
    if other in digits:
        return mark == ","
    if digits.count(mark) > 1:  # several: they separate thousands
        return mark == "."
    return None if _GROUPED[mark].fullmatch(digits) else mark == ","


def parse_number(value: Any, notation: Notation | None = None) -> float | None:
    """Return a number, or None if the value is not a finite one.

    Strings may have a currency, a percent sign, separators of thousands and spaces. ``"12.5 %"`` is 12.5.

    Examples
    --------
    >>> from ghrr.encoding.column_values import Notation, parse_number
    >>> [parse_number(text) for text in ("$1,299.50", "12.5 %", "-3e4", "(250)", "USD 7", "A-77")]
    [1299.5, 12.5, -30000.0, -250.0, 7.0, None]
    >>> parse_number("1.250", Notation(decimal=","))
    1250.0
    """
    if isinstance(value, int | float | Decimal):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    if not isinstance(value, str):
        return None
    decimal = "." if notation is None else notation.decimal
    text = value.strip()
    if len(text) > _LONGEST:
        return None
    if _PLAIN.fullmatch(text) and (decimal == "." or "." not in text):
        return _finite(text)
    found = _NUMBER.fullmatch(text)
    if found is None or (found["open"] is None) != (found["close"] is None):
        return None
    digits = _SPACES.sub("", found["digits"])
    certain = _is_decimal_comma(digits)
    if certain is not None:
        decimal = "," if certain else "."
    digits = digits.replace("." if decimal == "," else ",", "").replace(",", ".")
    found_number = _finite(digits)
    if found_number is None:
        return None
    signs = (found["sign"] or "") + (found["inner"] or "")
    return -found_number if found["open"] or signs in ("-", "−") else found_number


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def parse_boolean(value: Any) -> bool | None:
    """Return True or False for a value such as ``1``, ``"yes"`` or ``"False"``; None for others.

    Examples
    --------
    >>> from ghrr.encoding.column_values import parse_boolean
    >>> [parse_boolean(value) for value in (1, 0.0, "Yes", "n", "FALSE", 2, "maybe")]
    [True, False, True, False, False, None, None]
    """
    if isinstance(value, str):
        text = value.strip().casefold()
        return False if text in _YES else True if text in _YES.values() else None
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def are_booleans(texts: Iterable[str]) -> bool:
    """Return whether texts are the two words for False and True of one pair, such as no and yes."""
    distinct = {text.casefold() for text in texts}
    return len(distinct) == 2 and any(_YES.get(text) in distinct for text in distinct)


def parse_date(value: Any, notation: Notation | None = None) -> float | None:
    """Return a date, with or without a time, as days since 1970, and a duration in days; None for other values.

    Times without a zone are in UTC. A month without a day is its first day.

    Examples
    --------
    >>> from ghrr.encoding.column_values import Notation, parse_date
    >>> [parse_date(text) for text in ("1970-01-03", "3 January 1970", "Jan 3, 1970", "1/3/1970", "1970-01-02T12:00")]
    [2.0, 2.0, 2.0, 2.0, 1.5]
    >>> parse_date("3/1/1970", Notation(day_first=True))
    2.0
    """
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=value.tzinfo or datetime.UTC).timestamp() / _SECONDS
    if isinstance(value, datetime.date):
        return float(value.toordinal() - _EPOCH)
    if isinstance(value, datetime.timedelta):
        return value / datetime.timedelta(days=1)
    notation = notation or Notation()
    if isinstance(value, int) and not isinstance(value, bool) and notation.compact:
        value = str(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    if not 6 <= len(text) <= _LONGEST or not text[0].isalnum() or not any(letter.isdigit() for letter in text):
        return None
    if found := _YEAR_FIRST.fullmatch(text):
        parts = int(found["y"]), int(found["m"]), int(found["d"])
    elif found := _YEAR_LAST.fullmatch(text):
        first, second = int(found["a"]), int(found["b"])
        is_day_first = first > 12 or (second <= 12 and (notation.day_first or found["mark"] == "."))
        parts = _full_year(found["y"]), *((second, first) if is_day_first else (first, second))
    elif found := _DAY_NAMED.fullmatch(text) or _NAMED_DAY.fullmatch(text) or _NAMED_MONTH.fullmatch(text):
        month = _MONTHS.get(found["name"].lower())
        if month is None:
            return None
        parts = int(found["y"]), month, int(found.groupdict().get("d", 1))
    elif found := _YEAR_MONTH.fullmatch(text) or (_COMPACT.fullmatch(text) if notation.compact else None):
        parts = int(found["y"]), int(found["m"]), int(found.groupdict().get("d", 1))
    else:
        return None
    days = _days(*parts)
    time = found.groupdict()
    clock = _clock(time.get("clock"), time.get("zone"))
    return None if days is None or clock is None else days + clock


_EPOCH = datetime.date(1970, 1, 1).toordinal()


def _full_year(text: str) -> int:
    year = int(text)
    if len(text) > 2:
        return year
    return 2000 + year if year <= _CENTURY else 1900 + year


def _days(year: int, month: int, day: int) -> float | None:
    try:
        return float(datetime.date(year, month, day).toordinal() - _EPOCH)
    except ValueError:
        return None


def _clock(text: str | None, zone: str | None) -> float | None:
    """Return a time of day in days, less the offset of its zone; None if it is impossible."""
    if not text:
        return 0.0
    lower = text.lower()
    numbers = [float(part.replace(",", ".")) for part in lower.rstrip("amp ").split(":")]
    hours, minutes, seconds = (*numbers, 0.0)[:3]
    if lower.endswith("m"):
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + (12 if lower.endswith("pm") else 0)
    if hours > 24 or minutes >= 60 or seconds >= 61:
        return None
    offset = 0.0
    if zone and zone[0] in "+-":
        offset = (1 if zone[0] == "+" else -1) * (60 * int(zone[1:3]) + int(zone[-2:]))
    return (3600 * hours + 60 * (minutes - offset) + seconds) / _SECONDS

"""Columns of generated tables: what their values are, how they are written, and the errors that people make in them."""

from __future__ import annotations

import calendar
import datetime
import random
import string
from dataclasses import dataclass
from typing import Any

MISSING = object()
_MONTHS = tuple(calendar.month_name)[1:]
Raw = Any


@dataclass(frozen=True)
class Column:
    """A column.

    Parameters
    ----------
    name
        Key in the documents.
    truth
        What the values are: one of ``kinds.TRUTHS``.
    style
        How they are written: one of ``STYLES[truth]``. Empty: as they are.
    missing
        Share of rows without a value.
    is_key
        Whether the value belongs to the row and not to what it describes: a copy has another one.
    """

    name: str
    truth: str
    style: str = ""
    missing: float = 0.0
    is_key: bool = False


STYLES: dict[str, tuple[str, ...]] = {
    "number string": ("{}", "{:,}"),
    "money": ("${:,.2f}", "£{:,.0f}", "USD {:.2f}", "{:,.2f} €"),
    "percent": ("{:.1f}%", "{:.1f} %", "{:.0f} %"),
    "date": ("iso", "dmy.", "dmy/", "mdy/", "long", "short", "ymd/", "time", "object"),
    "year": ("number", "string"),
    "flag": ("0/1", "bool", "yes/no", "Y/N", "0/1 string", "true/false"),
    "rating": ("number", "string"),
}


def write(truth: str, style: str, raw: Raw) -> Any:
    """Return a value as its column writes it."""
    if not style:
        return raw
    if truth == "date":
        return _write_date(style, raw)
    if truth == "flag":
        no, yes = {
            "0/1": (0, 1),
            "bool": (False, True),
            "yes/no": ("no", "yes"),
            "Y/N": ("N", "Y"),
            "0/1 string": ("0", "1"),
            "true/false": ("false", "true"),
        }[style]
        return yes if raw else no
    if truth in ("year", "rating"):
        return raw if style == "number" else str(raw)
    text = style.format(raw).strip()
    if style.endswith("€"):
        text = text.translate(str.maketrans(",.", ".,"))
    return text


def _write_date(style: str, raw: datetime.date) -> Any:
    day, month, year = raw.day, raw.month, raw.year
    return {
        "iso": raw.isoformat(),
        "dmy.": f"{day:02d}.{month:02d}.{year}",
        "dmy/": f"{day:02d}/{month:02d}/{year}",
        "mdy/": f"{month:02d}/{day:02d}/{year}",
        "ymd/": f"{year}/{month:02d}/{day:02d}",
        "long": f"{day} {_MONTHS[month - 1]} {year}",
        "short": f"{_MONTHS[month - 1][:3]} {day}, {year}",
        "time": f"{raw.isoformat()}T{(day * 7) % 24:02d}:{(month * 5) % 60:02d}:00",
        "object": raw,
    }[style]


# --------------------------------------------------------------------------------------------------------------- errors


def damage(column: Column, raw: Raw, rng: random.Random) -> Any:
    """Return a value with one error: a typing error, 5 % off, another format, or missing (``MISSING``).

    An error of a value that has no other form, such as a flag, is that it is missing.
    """
    if rng.random() < 0.15:
        return MISSING
    truth, style = column.truth, column.style
    if truth == "date" and style:
        return _damaged_date(style, raw, rng)
    if truth in ("money", "percent", "number string") and style:
        others = [one for one in STYLES[truth] if one != style]
        if rng.random() < 0.5:
            return write(truth, rng.choice(others), raw)
        return write(truth, style, near(raw, rng))
    if truth == "year" and style:
        return write(truth, style, raw + rng.choice((-1, 1)))
    if truth in ("flag", "rating") or isinstance(raw, bool):
        return MISSING
    if isinstance(raw, list):
        return [one for one in raw if one != rng.choice(raw)] or MISSING
    if isinstance(raw, int | float):
        return int(_typo(str(raw), rng, string.digits)) if truth == "id" else near(raw, rng)
    if isinstance(raw, str):
        return _damaged_text(truth, raw, rng)
    return MISSING


def near(raw: float, rng: random.Random) -> float:
    """Return a number that is up to 5 % off, or one unit of its last digit; never the same one."""
    changed = raw * (1 + rng.choice((-1, 1)) * rng.uniform(0.01, 0.05))
    if isinstance(raw, int):
        rounded = round(changed)
        return rounded if rounded != raw else raw + rng.choice((-1, 1))
    digits = len(str(raw).partition(".")[2])
    shorter = round(changed, digits)
    return shorter if shorter != raw else round(raw + rng.choice((-1, 1)) * 10.0**-digits, digits)


def _damaged_date(style: str, raw: datetime.date, rng: random.Random) -> Any:
    error = rng.randrange(3)
    if error == 0:  # the order of day and month stays, so that the date can be read
        swapped = {"mdy/": ("short", "iso"), "object": ("iso", "long")}
        return _write_date(
            rng.choice(swapped.get(style, [one for one in ("iso", "dmy/", "long") if one != style])), raw
        )
    if error == 1:
        return _write_date(style, raw + datetime.timedelta(days=rng.choice((-2, -1, 1, 2))))
    year = raw.year + rng.choice((-1, 1, 10))
    return _write_date(style, raw.replace(year=year, day=min(raw.day, 28)))


def _damaged_text(truth: str, raw: str, rng: random.Random) -> str:
    words = raw.split()
    if truth in ("code", "zip", "phone") or raw.isdigit():
        plain = "".join(one for one in raw if one.isalnum())
        if plain != raw and rng.random() < 0.4:
            return plain
        return _typo(raw, rng, string.digits)
    error = rng.randrange(6)
    if error == 0 and raw.lower() != raw:
        return raw.lower() if rng.random() < 0.5 else raw.upper()
    if error == 1 and truth == "name" and len(words) == 2:
        return rng.choice((f"{words[1]}, {words[0]}", f"{words[0][0]}. {words[1]}"))
    if error == 2 and len(words) > 2:
        gone = rng.randrange(len(words))
        return " ".join(words[:gone] + words[gone + 1 :])
    return _typo(raw, rng, string.ascii_lowercase)


def _typo(text: str, rng: random.Random, letters: str) -> str:
    """Return a text with a letter left out, added, replaced, or two of them swapped; never the same text."""
    for _ in range(20):
        at = rng.randrange(len(text))
        new = rng.choice(letters)
        changed = rng.choice(
            (
                text[:at] + text[at + 1 :],
                text[:at] + new + text[at:],
                text[:at] + new + text[at + 1 :],
                text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :],
            )
        )
        if changed.strip() and changed != text:
            return changed
    return text + letters[0]

"""Generated records of ten fields: texts, a category, a number, a date, a point and a list, two of them nested."""

from __future__ import annotations

import itertools
import random
from typing import Any

_SYLLABLES = [a + b for a in "bcdfghklmnprstvwz" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "or", "us")]
_JOBS = 40


def _words(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)  # noqa: S311
    return ["".join(rng.choices(_SYLLABLES, k=rng.choice((1, 2, 2, 3, 3, 4)))) for _ in range(count)]


_WORDS, _NAMES, _CITIES, _TAGS = _words(20_000, 1), _words(5_000, 2), _words(2_000, 3), _words(300, 4)
# Words of a text are about as unequally frequent as in English.
_FREQUENCIES = list(itertools.accumulate(1 / (10 + rank) for rank in range(len(_WORDS))))


def records(first: int, count: int) -> list[dict[str, Any]]:
    """Return the records from number ``first`` on; a record depends on its number and the first alone."""
    rng = random.Random(first)  # noqa: S311
    return [_record(rng) for _ in range(count)]


def _record(rng: random.Random) -> dict[str, Any]:
    given, family = rng.choices(_NAMES, k=2)
    city = rng.randrange(len(_CITIES))
    return {
        "name": f"{given} {family}".title(),
        "about": " ".join(rng.choices(_WORDS, cum_weights=_FREQUENCIES, k=rng.randrange(6, 15))),
        "job": f"job {rng.randrange(_JOBS)}",
        "income": round(rng.lognormvariate(10, 1)),
        "joined": f"{rng.randrange(1990, 2025)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
        "address": {
            "street": f"{rng.randrange(1, 200)} {rng.choice(_NAMES)} road",
            "city": _CITIES[city],
            "location": {"lat": (7 * city) % 120 - 60 + rng.random(), "lon": (13 * city) % 360 - 180 + rng.random()},
        },
        "tags": rng.sample(_TAGS, rng.randrange(1, 5)),
        "phone": f"0{rng.randrange(10**9):09d}",
    }

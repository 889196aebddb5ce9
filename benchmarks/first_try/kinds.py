"""What the values of a column are, and which kinds of ``ghrr`` are correct for it. All judgements are in this file.

``TRUTHS`` are the words in which generators say what they made. ``ACCEPTED`` has the kinds that count as correct: those
of today (``search``: text, category, boolean, set, sequence, number, date, point, embedding, ignore; ``learn``: number,
category, date, text, ignore) and more special names that a shared list of kinds may get.
"""

from __future__ import annotations

_CODE = frozenset({"text", "code", "id", "identifier"})
_NUMBER = frozenset({"number", "integer", "float", "quantity", "amount"})
_WORDS = frozenset({"text", "name"})
_CATEGORY = frozenset({"category", "categories", "choice"})
_FLAG = frozenset({"boolean", "flag"}) | _CATEGORY
_NOTHING = frozenset({"constant", "ignore"})

ACCEPTED: dict[str, frozenset[str]] = {
    "number": _NUMBER,
    "number string": _NUMBER,
    "money": _NUMBER | {"money"},
    "percent": _NUMBER | {"percent", "percentage"},
    "coordinate": _NUMBER | {"latitude", "longitude", "point"},
    "year": _NUMBER | {"year", "date"},
    "date": frozenset({"date", "time", "datetime"}),
    "code": _CODE,
    "id": _CODE,
    "phone": _CODE | {"phone"},
    "zip": _CODE | _CATEGORY | {"zip", "postcode"},
    "email": _CODE | _WORDS | {"email"},
    "flag": _FLAG,
    "rating": _NUMBER | _CATEGORY,
    "integer": _NUMBER | _FLAG | {"year"},  # of a real table that does not say what it counts
    "category": _CATEGORY,
    "few categories": _CATEGORY | _WORDS,  # too few values to tell a category from a name
    "many categories": _CATEGORY | _WORDS,
    "name": _WORDS,
    "text": _WORDS,
    "set": frozenset({"set", "sequence"}),
    "unclear": frozenset(),  # not counted: people would disagree
    "constant text": _NOTHING | _CATEGORY | _WORDS,
    "constant number": _NOTHING | _CATEGORY | _NUMBER,
}
TRUTHS = tuple(ACCEPTED)
NOT_COUNTED = "unclear"

# To a linear model a column of 0 and 1 is the same as two categories, and an identifier is better left out.
_LEARNING: dict[str, frozenset[str]] = {
    "flag": _NUMBER,
    "code": _NOTHING,
    "id": _NOTHING,
    "phone": _NOTHING,
    "email": _NOTHING,
    "set": _CATEGORY | _WORDS,
}

# The kind by hand of `search` that suits a column best, for the contestant with hand-set kinds.
BY_HAND: dict[str, str] = {
    **dict.fromkeys(TRUTHS, "text"),
    **dict.fromkeys(("number", "number string", "coordinate", "year", "rating", "integer"), "number"),
    "date": "date",
    "flag": "category",
    "category": "category",
    "few categories": "category",
    "set": "set",
    "constant text": "ignore",
    "constant number": "ignore",
}
IDENTIFYING = ("name", "text", "code", "id", "phone", "email")


def is_correct(truth: str, kind: str, room: str) -> bool:
    """Whether a kind suits a column; ``room`` is ``"search"`` or ``"learn"``."""
    return kind in ACCEPTED[truth] or (room == "learn" and kind in _LEARNING.get(truth, ()))

"""Values of a record: JSON values as names in a vocabulary and back, and JSON text read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ghrr import files

_WORDS = {"null": None, "true": True, "false": False}
_MOST_BITS = 4096


def is_number(value: object) -> bool:
    """Return whether this is a number: True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_of(value: Any, where: Callable[[], str]) -> str:
    """Return the name of a JSON value, with its kind, so that 1, "1" and True have different names.

    1 and 1.0 are one number, as in JSON (below 10²¹, from where on floats are written with exponents). ``where`` gives
    the path for errors.
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return "string:" + value  # joined, not formatted: an enum would show its name
    if is_number(value):
        return f"number:{_plain_number(value, where)!r}"
    return "object" if isinstance(value, dict) else "array"


def _plain_number(value: float, where: Callable[[], str]) -> float:
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise ValueError(
                f"Record: {where()}: a whole number of {value.bit_length()} bits; the most is {_MOST_BITS}"
            )
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"Record: {where()}: {value!r} is not a number of JSON; NaN and infinity cannot be encoded")
    return int(value) if value.is_integer() and abs(value) < 1e21 else float(value)


def label_of(name: str) -> Any:
    """Return the value that a name stands for; hypervectors that were given are called by their label."""
    try:
        return value_of(name)
    except ValueError:
        return name


def value_of(name: str) -> Any:
    """Return the JSON value of a name that :func:`name_of` gave."""
    kind, colon, text = name.partition(":")
    if kind == "string" and colon:
        return text
    if kind == "number" and colon:
        return float(text) if set(text) & set(".en") else int(text)
    if name in _WORDS:
        return _WORDS[name]
    if name in {"object", "array"}:
        return {} if name == "object" else []
    raise ValueError(f"{name!r} is not the name of a JSON value")


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text strictly: a key that occurs twice, NaN and infinity are errors.

    Examples
    --------
    >>> from ghrr.structures import parse_json
    >>> parse_json('{"name": "Ada", "name": "Grace"}')
    Traceback (most recent call last):
    ...
    ValueError: parse_json: not valid JSON (an object has the key 'name' more than once)
    """
    return files.parse_json(text, "parse_json", strict=True)

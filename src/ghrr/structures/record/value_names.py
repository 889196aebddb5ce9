"""Names of JSON values in the vocabulary, and strict parsing of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ghrr import files

_CONSTANTS = {"null": None, "true": True, "false": False}
_MAX_BITS = 4096


def name_of(value: Any, where: Callable[[], str]) -> str:
    """Return the name of a JSON value, which includes its type: 1, "1" and True have different names.

    1 and 1.0 are the same number, as in JSON (below 10²¹, from which on floats are written with exponents). ``where``
    returns the path for error messages.
    """
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return "string:" + value  # joined, because formatting an enum would give the name of its member
    if isinstance(value, (int, float)):
        return f"number:{_plain_number(value, where)!r}"
    return "object" if isinstance(value, dict) else "array"


def _plain_number(value: float, where: Callable[[], str]) -> float:
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise ValueError(
                f"Record: {where()}: integers can have at most {_MAX_BITS} bits, got one of {value.bit_length()}"
            )
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"Record: {where()}: numbers must be finite as in JSON, got {value!r}")
    return int(value) if value.is_integer() and abs(value) < 1e21 else float(value)


def label_of(name: str) -> Any:
    """Return the value of a name; the name itself for a given hypervector."""
    try:
        return value_of(name)
    except ValueError:
        return name


def value_of(name: str) -> Any:
    """Return the JSON value of a name from :func:`name_of`."""
    kind, colon, text = name.partition(":")
    if kind == "string" and colon:
        return text
    if kind == "number" and colon:
        return float(text) if set(text) & set(".en") else int(text)
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name in {"object", "array"}:
        return {} if name == "object" else []
    raise ValueError(f"{name!r} is not the name of a JSON value")


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text strictly: duplicate keys, NaN and infinity are errors.

    Examples
    --------
    >>> from ghrr.structures import parse_json
    >>> parse_json('{"name": "Ada", "name": "Grace"}')
    Traceback (most recent call last):
    ...
    ValueError: parse_json: not valid JSON (an object has the key 'name' more than once)
    """
    return files.parse_json(text, "parse_json", strict=True)

"""The leaves of a record: JSON values as names of atoms and back, numbers on a scale, and JSON text read strictly."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ghrr._checks import check_real

_WORDS = {"null": None, "true": True, "false": False}
_MOST_BITS = 4096
_MOST_POINTS = 1 << 18  # on a scale: reading tries them all


@dataclass(frozen=True)
class Scale:
    """How a record encodes numbers by fractional power instead of as atoms: near numbers are then similar.

    Parameters
    ----------
    low, high
        All numbers must lie between these.
    bandwidth
        The distance at which similarity falls. There may be at most 131,071 of it between low and high.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record, Scale
    >>> codec = Record(ghrr.Space(dim=500, m=3), numbers=Scale(1000, 2000, bandwidth=5))
    >>> codec.query(codec.encode({"name": "Ada", "born": 1815}), "born")
    Match(1814.99 ± 0.055, score=1.015, margin=1.015, confident=True)
    """

    low: float
    high: float
    bandwidth: float

    @property
    def points(self) -> int:
        """How many numbers on the scale can be told apart: so many candidates it is worth."""
        return math.ceil(2 * (self.high - self.low) / self.bandwidth) + 1

    def __post_init__(self) -> None:
        check_real("Scale", "low", self.low, low=-math.inf, high=math.inf, open_ends=True)
        check_real("Scale", "high", self.high, low=self.low, high=math.inf, open_ends=True)
        check_real("Scale", "bandwidth", self.bandwidth, low=0.0, high=math.inf, open_ends=True)
        points = 2 * (self.high - self.low) / self.bandwidth + 1
        if points > _MOST_POINTS:
            raise ValueError(
                f"Scale: {self!r} has {points:.3g} points that can be told apart, too many to try when reading; there "
                f"may be {_MOST_POINTS}: give a bandwidth of at least "
                f"{2 * (self.high - self.low) / (_MOST_POINTS - 1):.3g}, or a smaller range"
            )


def is_number(value: object) -> bool:
    """Whether this is a number: True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def name_of(value: Any, where: Callable[[], str]) -> str:
    """The name of a leaf's atom: one for each value, with its kind, so that 1, "1" and True stay apart.

    1 and 1.0 are one number, as in JSON (below 10²¹, from where on floats are written with exponents). ``where`` says
    in errors which leaf it is.
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


def value_of(name: str) -> Any:
    """The value of a leaf from the name of its atom."""
    kind, colon, text = name.partition(":")
    if kind == "string" and colon:
        return text
    if kind == "number" and colon:
        return float(text) if set(text) & set(".en") else int(text)
    if name in _WORDS:
        return _WORDS[name]
    if name in {"object", "array"}:
        return {} if name == "object" else []
    raise ValueError(f"{name!r} is not the name of a leaf")


def parse_json(text: str | bytes) -> Any:
    """A JSON text as Python objects, strictly: a key that occurs twice, NaN and infinity are errors.

    Examples
    --------
    >>> from ghrr.structures import parse_json
    >>> parse_json('{"name": "Ada", "name": "Grace"}')
    Traceback (most recent call last):
    ...
    ValueError: parse_json: the key 'name' occurs twice in one object; which one is meant cannot be told
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"parse_json: not a JSON text: {error}") from error
    except RecursionError:
        raise ValueError("parse_json: the text is nested too deeply") from None


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(
                f"parse_json: the key {key!r} occurs twice in one object; which one is meant cannot be told"
            )
        found[key] = value
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"parse_json: {word} is not a number of JSON")

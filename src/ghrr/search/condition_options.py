"""Conditions of ``ghrr search``: ``price=30..40``, ``name~ada`` and JSON, as parts of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ghrr._old_files import parse_json
from ghrr.search.values import Contains, Range

FORMS = "FIELD=VALUE, FIELD=LOW..HIGH (one end may be left out), FIELD~TEXT (contains), FIELD= (missing), or JSON"


def read_object(text: str, where: str) -> dict[str, Any]:
    """Return a JSON object."""
    value = parse_json(text, where)
    if not isinstance(value, dict):
        raise ValueError(f'{where} must be a JSON object such as \'{{"city": "London"}}\', got {text!r:.80}')
    return value


def read_conditions(texts: Sequence[str] | None, where: str, paths: Mapping[str, tuple[str, ...]]) -> Any:
    """Return conditions as a part of a document; several values of a field are a list, of which one has to hold.

    ``paths`` has the path of each field by its name.

    Examples
    --------
    >>> from ghrr.search.condition_options import read_conditions
    >>> read_conditions(["price=30..", "born.city=York", "born.city=Bath"], "--must", {})
    {'price': Range(low='30', high=None), 'born': {'city': ['York', 'Bath']}}
    """
    made: dict[str, Any] = {}
    for text in texts or ():
        if text.lstrip().startswith("{"):
            _merge(made, read_object(text, where))
            continue
        places = [place for place in map(text.find, "=~") if place > 0]
        if not places:
            raise ValueError(f"{where} must be {FORMS}, got {text!r:.80}")
        name, value = text[: min(places)], text[min(places) + 1 :]
        part = _condition(value, contains=text[min(places)] == "~")
        for key in reversed(paths.get(name) or tuple(name.split("."))):
            part = {key: part}
        _merge(made, part)
    return made or None


def _condition(value: str, *, contains: bool) -> Any:
    if contains:
        return Contains(value)
    low, dots, high = value.partition("..")
    if dots:
        return Range(low or None, high or None)
    return value or None


def _merge(made: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Add a part to a document; values of the same field become a list."""
    for key, value in part.items():
        before = made.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            _merge(before, value)
        elif key in made:
            lists = [one if isinstance(one, list) else [one] for one in (before, value)]
            made[key] = lists[0] + lists[1]
        else:
            made[key] = value

"""Small sets of messy nested records for the tab Search: missing fields, typing errors, other spellings.

The records are generated, the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

Document = dict[str, Any]
COUNT = 300

_BRANDS = ("Sony", "Bose", "Canon", "Philips", "Yamaha", "Panasonic")
_THINGS = ("turntable", "speakers", "camera", "headphones", "receiver", "television")
_COLOURS = ("black", "silver", "white")
_CITIES = ("London", "Leeds", "York", "Bath", "Dover", "Oxford")
_FIRST_NAMES = ("Ada", "Alan", "Grace", "Kurt", "Emmy", "Sofia", "Henri", "Mary", "Carl", "Hedy")
_LAST_NAMES = ("Lovelace", "Turing", "Hopper", "Goedel", "Noether", "Kovalevskaya", "Poincare", "Somerville", "Gauss")
_STREETS = ("Mill Lane", "High Street", "Station Road", "Church Row", "Green Park")


@dataclass(frozen=True)
class RecordSet:
    """Records of one form, and texts to start with: an example, conditions, and weights of fields, as JSON."""

    make: Callable[[random.Random], Document]
    texts: Mapping[str, str]


def _product(rng: random.Random) -> Document:
    brand, thing = rng.choice(_BRANDS), rng.choice(_THINGS)
    name = f"{brand} {thing} {rng.choice('XDKR')}{rng.choice('SLT')}-{rng.randrange(100, 1000)}"
    return {
        "name": _messy(rng, name),
        "price": round(rng.uniform(30, 600), 2),
        "details": {"colour": rng.choice(_COLOURS), "weight": round(rng.uniform(0.5, 30), 1)},
        "shop": {"city": _messy(rng, rng.choice(_CITIES))},
    }


def _person(rng: random.Random) -> Document:
    first, last = rng.choice(_FIRST_NAMES), rng.choice(_LAST_NAMES)
    return {
        "name": {"first": first[0] + "." if rng.random() < 0.2 else first, "last": _messy(rng, last)},
        "born": f"{rng.randrange(1940, 2005)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}",
        "home": {"street": f"{rng.randrange(1, 100)} {_messy(rng, rng.choice(_STREETS))}", "city": rng.choice(_CITIES)},
        "languages": rng.sample(["English", "French", "German", "Polish", "Welsh"], rng.randrange(1, 4)),
    }


def _contract(rng: random.Random) -> Document:
    def city() -> Document:
        name = rng.choice(_CITIES)
        return {"city": name.upper() if rng.random() < 0.2 else name}

    return {
        "buyer": {"agent": city(), "bank": city()},
        "agent": {"buyer": city(), "bank": city()},
        "bank": {"buyer": city(), "agent": city()},
    }


def _messy(rng: random.Random, text: str) -> str:
    """Return some texts in lower case, some without hyphens, and some with a letter less."""
    kind = rng.random()
    if kind < 0.15:
        return text.lower()
    if kind < 0.3:
        return text.replace("-", "")
    if kind < 0.45:
        at = rng.randrange(1, len(text))
        return text[:at] + text[at + 1 :]
    return text


def _without_some(rng: random.Random, node: Any, share: float) -> Any:
    """Return a document without some of its values; the first one is kept."""
    if not isinstance(node, dict):
        return node
    kept = [key for place, key in enumerate(node) if place == 0 or isinstance(node[key], dict) or rng.random() >= share]
    return {key: _without_some(rng, node[key], share) for key in kept}


SETS = {
    "products": RecordSet(
        _product,
        {
            "example": '{"name": "sony camera xs376",\n "price": 240,\n "shop": {"city": "Londn"}}',
            "must": "",
            "must_not": '{"shop": {"city": "York"}}',
            "weights": '{"price": 2}',
        },
    ),
    "people": RecordSet(
        _person,
        {
            "example": '{"name": {"first": "Kurt", "last": "Lovelase"},\n'
            ' "home": {"street": "high street", "city": "leeds"}}',
            "must": "",
            "must_not": '{"languages": ["German"]}',
            "weights": '{"name.last": 2}',
        },
    ),
    "contracts": RecordSet(
        _contract,
        {
            "example": '{"buyer": {"agent": {"city": "Leeds"}},\n "agent": {"buyer": {"city": "York"}}}',
            "must": "",
            "must_not": '{"bank": {"agent": {"city": "Bath"}}}',
            "weights": '{"buyer.agent.city": 2}',
        },
    ),
}


@cache
def records(name: str) -> tuple[Document, ...]:
    """Return the records of a set."""
    rng = random.Random(name)  # noqa: S311 (not for secrets)
    return tuple(_without_some(rng, SETS[name].make(rng), 0.2) for _ in range(COUNT))

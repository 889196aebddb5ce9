"""Strange documents: values of any type under any key, and what an index does not find of them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

import ghrr
from ghrr.search import RecordIndex
from ghrr.search.paths import Path, columns

KEYS = ("a", "b", "a.b", "*", "\\*", "", "e\u0301", "é", "lat", "x\x1fy", "\u200b", "\ud800", "a\\.b")
SCALARS: tuple[Any, ...] = (
    *(0, -0.0, 1, -1, 5, 5.0, True, False, 10**400, -(10**300), 1e308, -1e308, 5e-324, 2**53 + 1, 0.5, None),
    *("A-77", "0", "007", "1e5", "nan", "2024-01-01", "2024-13-45", "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"),
    *("\u200b", "\ufeffx", "go\u0308del", "gödel", "ß", "İ", "\ud800", "\ud800\udc00", "-", "!?", "日本", "कि", "x\0y"),
    *("\x01", "\x7f", "\u3000x", " " * 21_000 + "q", "True", "None", "1_000", "٣", "", " "),
    *(np.float32(1.5), np.float32("nan"), float("inf"), np.int64(7), np.bool_(True), np.str_("text")),
    *(np.datetime64("2020-02-02"), np.datetime64("2020-02-02T01:02:03.123456789", "ns"), np.datetime64("NaT")),
    *(datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.UTC), datetime.time(5, 6)),
    *(Decimal("1.10"), Decimal("NaN")),
)  # fmt: skip
USUAL: tuple[Callable[[random.Random], Any], ...] = (  # values of a field whose kind is inferred
    lambda rng: 10 ** rng.uniform(-3, 5),
    lambda rng: rng.choice([0, 10 ** rng.uniform(0, 6)]),
    lambda rng: f"20{rng.randrange(10, 25)}-0{rng.randrange(1, 10)}-11",
    lambda rng: f"word{rng.randrange(99)} x{rng.randrange(9)}",
    lambda rng: rng.choice("abc"),
    lambda rng: rng.random() < 0.5,
    lambda rng: {"lat": rng.uniform(-80, 80), "lon": rng.uniform(-180, 180)},
    lambda rng: [rng.gauss(0, 1) for _ in range(8)],
    lambda rng: rng.sample("abcdef", 2),
)


def strange_value(rng: random.Random, depth: int = 0) -> Any:
    """Return a value of any type that documents may have."""
    if rng.random() < 0.65 or depth > 3:
        return rng.choice(SCALARS)
    return rng.choice(
        [
            lambda: [rng.choice(SCALARS) for _ in range(rng.randrange(4))],
            lambda: {"lat": rng.choice([3, 91, np.float32(2), "3", True, 10**400]), "lon": rng.choice([4.5, 400])},
            lambda: [rng.choice([0.0, 1e200, -1e-200]) * rng.random() for _ in range(rng.choice([8, 9]))],
            lambda: np.array([rng.choice([1.0, np.nan, 3.0]) for _ in range(8)]),
            lambda: (rng.uniform(-90, 90), rng.uniform(-180, 180)),
            lambda: [strange_value(rng, depth + 1) for _ in range(rng.randrange(3))],
            lambda: {rng.choice(KEYS): strange_value(rng, depth + 1) for _ in range(rng.randrange(3))},
        ]
    )()


def strange_index(seed: int, *, usual: int = 8, strange: int = 4) -> tuple[RecordIndex, list[dict[str, Any]]]:
    """Return an index of usual documents, to which strange ones were added later, and all documents."""
    rng = random.Random(seed)
    kinds = {key: rng.choice(USUAL) for key in rng.sample(KEYS, 3)}
    documents = [{key: make(rng) for key, make in kinds.items() if rng.random() < 0.9} for _ in range(usual)]
    others = [{rng.choice(KEYS): strange_value(rng) for _ in range(3)} for _ in range(strange)]
    index = RecordIndex(ghrr.Space(dim=32, m=1, seed=0), whole=bool(seed % 2))
    index.add(documents)
    index.add(others)
    return index, documents + others


def not_found(index: RecordIndex, documents: list[dict[str, Any]], first: int) -> tuple[int, list[str]]:
    """Search for each value of the documents from ``first`` on; return how many values there are, and all faults."""
    names = [field.name for field in index.fields]
    name_of = {field.path: field.name for field in index.fields}
    faults = [] if len(set(names)) == len(names) else [f"names are not unique: {names}"]
    count = 0
    for identifier, document in list(zip(index.ids, documents, strict=True))[first:]:
        for path, column in columns([document]).items():
            count += 1
            example, name = _at(path, column.values[0]), name_of[path]
            where = f"{name!r} of {identifier}, {column.values[0]!r:.80}"
            hits = index.search(example, len(documents), candidates=len(documents))
            own = next((hit for hit in hits if hit.guess == identifier), None)
            if own is None or abs(own.fields[name] - 1) > 1e-6:
                faults.append(f"not found: {where}")
            elif "*" not in names and (own.score < hits[0].score or hits[0].score != index.search(example)[0].score):
                faults.append(f"not the best: {where}")
            found = {hit.guess for hit in index.search(example, len(documents), must=example)}
            if identifier not in found:
                faults.append(f"must excludes it: {where}")
            if identifier in {hit.guess for hit in index.search(example, len(documents), must_not=example)}:
                faults.append(f"must_not includes it: {where}")
            if index.explain(identifier, example, weights={name: 2}).fields[name] != 1:
                faults.append(f"explain differs: {where}")
    return count, faults


def _at(path: Path, value: Any) -> dict[str, Any]:
    """Return a document with one value."""
    value = _as_document(value)
    for key in reversed(path):
        value = {key: value}
    found: dict[str, Any] = value
    return found


def _as_document(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_document(element) for element in value]
    return {"lat": value[0], "lon": value[1]} if isinstance(value, tuple) else value

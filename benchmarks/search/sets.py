"""Read the linkage sets, and score answers on them. Imports nothing of ghrr, so that other packages can use it."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

SEPARATORS = {"abt-buy": "|", "amazon-google": "#", "dblp-acm": "%", "imdb-tmdb": "|", "walmart-amazon": "|"}
Documents = list[dict[str, str]]


def read_table(path: Path, separator: str) -> tuple[list[str], Documents]:
    """Return ids and documents of one side; the last part of a URI names a column."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=separator))
    ids = [row.pop("id") for row in rows]
    return ids, [{key.rsplit("/", 1)[-1]: value for key, value in row.items() if value} for row in rows]


def read_linkage(folder: Path, name: str) -> tuple[Documents, list[str], Documents, list[str]]:
    """Return the records, their ids, the examples and the right id of each."""
    left_ids, left = read_table(folder / name / "left.csv.gz", SEPARATORS[name])
    right_ids, right = read_table(folder / name / "right.csv.gz", SEPARATORS[name])
    with gzip.open(folder / name / "matches.csv.gz", "rt", encoding="utf-8", newline="") as file:
        pairs = [(row["D1"], row["D2"]) for row in csv.DictReader(file, delimiter=SEPARATORS[name])]
    place = {one: row for row, one in enumerate(left_ids)}
    return right, right_ids, [left[place[one]] for one, _ in pairs], [other for _, other in pairs]


def recall(found: Sequence[Sequence[str]], right: Sequence[str]) -> dict[str, float]:
    """Return the share of examples whose record is first, and among the first ten."""
    pairs = list(zip(found, right, strict=True))
    first = sum(bool(names) and names[0] == one for names, one in pairs)
    ten = sum(one in names[:10] for names, one in pairs)
    return {"recall@1": first / len(pairs), "recall@10": ten / len(pairs)}

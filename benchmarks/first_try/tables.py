"""Tables of the benchmark: generated ones with known truth, and real ones.

Half ``"tuning"`` may be looked at while defaults are chosen. The half ``"reported"`` is on the page. Generated tables
with an even seed are in the first half, those with an odd seed in the second; real tables are assigned by name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import generate
from .columns import MISSING, Column, damage, write
from .kinds import IDENTIFYING, NOT_COUNTED

SEEDS = range(208)
HALVES = ("tuning", "reported")
_DROPPED = 0.3  # share of values that a damaged example lacks
_DAMAGED = 0.6  # share of the others that have an error
_COPIES = 0.05  # share of rows that have a copy
_FEWEST_FIELDS = 3  # of an example that has no identifying value
_FEWEST = 5  # values of a column whose kind counts
Document = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A table, with the truth of its columns.

    Parameters
    ----------
    name, half
        Name, and ``"tuning"`` or ``"reported"``.
    columns
        Columns.
    raw
        Values of each row by name of a column, before they are written in the style of the column.
    missing
        How a missing value is written: ``"absent"``, ``"none"`` or ``"empty"``.
    pairs
        Rows that are known to describe the same thing, the smaller first, of a table that came with them.
    examples
        Documents that came with the table, and the row that each describes.
    """

    name: str
    half: str
    columns: tuple[Column, ...]
    raw: list[Document]
    missing: str = "absent"
    pairs: set[tuple[int, int]] | None = None
    examples: tuple[list[Document], list[int]] | None = None

    def documents(self) -> list[Document]:
        """Return the rows as a stranger has them."""
        return [self.written(row) for row in self.raw]

    def written(self, row: Document) -> Document:
        """Return one row as a stranger has it."""
        filler = {"absent": MISSING, "none": None, "empty": ""}[self.missing]
        values = {
            one.name: write(one.truth, one.style, row[one.name]) if one.name in row else filler for one in self.columns
        }
        return {name: value for name, value in values.items() if value is not MISSING}

    @property
    def identifying(self) -> list[str]:
        """Names of columns that are mostly filled and tell what a row describes."""
        good = [one for one in self.columns if one.truth in IDENTIFYING and one.missing < 0.5 and not one.is_key]
        return [one.name for one in good]


def generated(seed: int, size: int | None = None) -> Table:
    """Return a generated table, with at most ``size`` rows."""
    columns, rows, domain = generate.table(seed, size)
    values: dict[str, list[Any]] = {one.name: [row[one.name] for row in rows if one.name in row] for one in columns}
    columns = [replace(one, truth=_as_seen(one.truth, values[one.name])) for one in columns if values[one.name]]
    missing = ("absent", "none", "empty")[seed // 2 % 3]
    return Table(f"{domain}-{seed}", HALVES[seed % 2], tuple(columns), rows, missing)


def _as_seen(truth: str, values: Sequence[Any]) -> str:
    """Return the truth of a column that has few values: nobody can tell what they are, or whether they repeat."""
    distinct = len(set(map(str, values)))
    if len(values) < _FEWEST or (distinct == 1 and not truth.startswith("constant")):
        return NOT_COUNTED
    if truth == "category" and 3 * distinct > len(values):
        return "few categories"
    return truth


def damaged(table: Table, count: int, seed: int = 0) -> tuple[list[Document], list[int]]:
    """Return damaged documents of some rows, and the rows: values dropped, 5 % off, misspelt or in another format."""
    rng = random.Random(f"{table.name} {seed}")  # noqa: S311
    if table.examples is not None:
        chosen = rng.sample(range(len(table.examples[0])), min(count, len(table.examples[0])))
        return [table.examples[0][row] for row in chosen], [table.examples[1][row] for row in chosen]
    rows = rng.sample(range(len(table.raw)), min(count, len(table.raw)))
    found, right = [], []
    for row in rows:
        raw, example = table.raw[row], {}
        for column in table.columns:
            if column.name not in raw or column.is_key or rng.random() < _DROPPED:
                continue
            value = write(column.truth, column.style, raw[column.name])
            if rng.random() < _DAMAGED:
                value = damage(column, raw[column.name], rng)
            if value is not MISSING:
                example[column.name] = value
        if len(example) >= _FEWEST_FIELDS or any(name in example for name in table.identifying):
            found.append(example)
            right.append(row)
    return found, right


def with_copies(table: Table, seed: int = 0) -> tuple[list[Document], set[tuple[int, int]]]:
    """Return the documents and copies of 5 % of them with one to three errors, shuffled, and the pairs of copies.

    The key of a row is never an error: the copy has one of its own. A table that came with pairs stays as it is.
    """
    if table.pairs is not None:
        return table.documents(), table.pairs
    rng = random.Random(f"{table.name} copies {seed}")  # noqa: S311
    usable = [row for row, raw in enumerate(table.raw) if any(name in raw for name in table.identifying)]
    sources = rng.sample(usable, min(len(usable), max(2, round(_COPIES * len(table.raw)))))
    documents = table.documents()
    kept: dict[int, int] = {}
    for source in sources:
        copied = dict(documents[source])
        raw = table.raw[source]
        present = [one for one in table.columns if one.name in raw and not one.is_key]
        for column in rng.sample(present, min(rng.randint(1, 3), max(1, len(present) - 1))):
            value = damage(column, raw[column.name], rng)
            if value is MISSING:
                copied.pop(column.name)
            else:
                copied[column.name] = value
        for column in table.columns:
            if column.is_key:
                copied[column.name] = _new_key(raw[column.name], len(documents), rng)
        kept[len(documents)] = source
        documents.append(copied)
    order = list(range(len(documents)))
    rng.shuffle(order)
    place = {row: at for at, row in enumerate(order)}
    pairs = {(min(place[a], place[b]), max(place[a], place[b])) for a, b in kept.items()}
    return [documents[row] for row in order], pairs


def _new_key(raw: Any, count: int, rng: random.Random) -> Any:
    return count + 1 if isinstance(raw, int) else f"{rng.getrandbits(32):08x}{raw[8:]}"


def can_search(table: Table) -> bool:
    """Whether rows can be told apart from damaged examples: some column says what a row is."""
    return len(table.raw) >= 20 and len(table.identifying) >= 1 and len(table.columns) >= 3


def can_have_copies(table: Table) -> bool:
    """Whether copies can be told from other rows: at least two columns say what a row is."""
    return len(table.raw) >= 20 and len(table.identifying) >= 2 and len(table.columns) >= 4


def counts_of_truths(tables: Sequence[Table]) -> Counter[str]:
    """Return how many columns there are of each truth."""
    return Counter(column.truth for table in tables for column in table.columns)

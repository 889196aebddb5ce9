"""Journal of a Milvus collection: a record of which rows are items, which makes changes atomic.

Milvus has no transactions: a single request is atomic, a sequence of requests is not. The record is therefore one row
in a small collection of its own, and every change of the items takes effect with one write of that row:

- **add** reserves ids (they become ``unfinished``), inserts the rows, and then takes the ids off that list. If it stops
  in between, the inserted rows are not items: readers ignore them, and the next add deletes them.
- **remove** writes the ids as ``removed`` and then deletes the rows. If it stops in between, the next operation deletes
  the rest.

Ids are never reused. A request that timed out may still reach the server later; its rows stay unfinished. ``version``
grows with every change, so one read by primary key (2 ms) shows whether another program changed the items. The number
of rows does not show this: an add and a remove leave it unchanged, counting with a filter reads every row, and
``get_collection_stats`` of a server ignores deletions and rows that are not flushed yet.

Milvus cannot compare a record with its previous value when writing it, so only one program may write at a time. A
second writer is detected, except in the moment between the last check and the write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import value_error
from ghrr.memory.backends.milvus_connection import Connection

Ranges = tuple[tuple[int, int], ...]

_HEAD = 0  # primary key of the record
_RANGES_PER_ROW = 1_500  # at most 63,000 characters; Milvus allows 65,535


@dataclass(frozen=True)
class Record:
    """State of a collection.

    Attributes
    ----------
    version
        Grows with every change of the items.
    count
        Number of items.
    next_id
        Next free id. No row ever had this id or a larger one.
    unfinished
        Ranges of ids ``(first, end)`` that an add reserved but did not finish.
    removed
        Ranges of ids that were removed, but whose rows may still exist.
    """

    version: int = 0
    count: int = 0
    next_id: int = 0
    unfinished: Ranges = ()
    removed: Ranges = ()


def as_ranges(ids: Tensor) -> Ranges:
    """Return ascending ids as ranges ``(first, end)``."""
    starts = torch.ones(len(ids), dtype=torch.bool)
    starts[1:] = ids.diff() != 1
    first = starts.nonzero()[:, 0]
    last = torch.cat([first[1:], torch.tensor([len(ids)])]) - 1
    return tuple(zip(ids[first].tolist(), (ids[last] + 1).tolist(), strict=True))


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the same ids in as few ranges as possible."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return tuple(merged)


def in_ranges(ids: Tensor, ranges: Ranges) -> Tensor:
    """Return a mask of the ids that are in one of the ranges."""
    inside = torch.zeros(ids.shape, dtype=torch.bool)
    for first, end in ranges:
        inside |= (ids >= first) & (ids < end)
    return inside


class Journal:
    """Reader and writer of the :class:`Record` of a collection.

    Parameters
    ----------
    connection
        Connection to the server.
    name
        Name of the journal's own collection.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self.name = connection, name

    def create(self) -> None:
        """Create the collection of the journal, without a record. Milvus requires a vector field; it is unused."""
        self._connection.create_collection(self.name, text=("text", 65_535), vector=("unused", 2))

    def read(self) -> Record | None:
        """Return the current record, or None if there is none."""
        found = self._texts([_HEAD])
        if not found:
            return None
        try:
            fields = json.loads(found[0])
            more = fields.pop("more_removed")
            pieces = self._texts(more) if more else []
            fields["removed"] += [pair for piece in pieces for pair in json.loads(piece)]
            if len(pieces) != len(more):
                raise ValueError(f"{len(more) - len(pieces)} of its rows are missing")
            return _checked(fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise value_error(
                f"the journal {self.name!r} in Milvus at {self._connection.address!r} is damaged "
                f"({error}); drop this collection to rebuild the journal from the rows"
            ) from error

    def _texts(self, ids: list[int]) -> list[str]:
        rows = self._connection.request("get", self.name, ids=ids, output_fields=["id", "text"])
        return [row["text"] for row in rows]

    def write(self, record: Record) -> None:
        """Replace the record. If this raises, the old record stays."""
        inline, rest = record.removed[:_RANGES_PER_ROW], record.removed[_RANGES_PER_ROW:]
        pieces = [rest[i : i + _RANGES_PER_ROW] for i in range(0, len(rest), _RANGES_PER_ROW)]
        keys = [1 + secrets.randbits(61) for _ in pieces]  # new keys, since the old record may still need its pieces
        if pieces:
            self._write_rows("insert", {key: json.dumps(piece) for key, piece in zip(keys, pieces, strict=True)})
        head = asdict(record) | {"removed": inline, "more_removed": keys}
        self._write_rows("upsert", {_HEAD: json.dumps(head)})

    def _write_rows(self, method: str, texts: dict[int, str]) -> None:
        rows = [{"id": key, "text": text, "unused": [0.0, 0.0]} for key, text in texts.items()]
        self._connection.request(method, self.name, rows)


def _checked(fields: dict[str, Any]) -> Record:
    """Return the stored record; raise ValueError for values that cannot occur."""
    lists = {name: tuple((first, end) for first, end in fields[name]) for name in ("unfinished", "removed")}
    record = Record(**fields | lists)
    numbers = [record.version, record.count, record.next_id]
    numbers += [number for ranges in lists.values() for pair in ranges for number in pair]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or record.count > record.next_id:
        raise ValueError("its counts and ids contradict each other or are out of range")
    return record

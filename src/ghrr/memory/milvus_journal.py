"""Journal of a Milvus collection: one record that says which rows are items, so that changes are all or none.

Milvus has no transactions: a request is atomic, a sequence of requests is not. So the record of a collection is a row
of its own, in a small collection beside it, and every change of the items takes effect with one write of that row:

- **add** reserves ids (they become ``unfinished``), inserts the rows, and then takes the ids off that list. An add that
  stops in between leaves rows that are not items: every reader ignores them, and the next add deletes them.
- **remove** writes the ids as ``removed`` and then deletes the rows. If it stops in between, the next operation deletes
  the rest.

Ids are never used twice. A request that timed out may still arrive at the server later; its rows stay unfinished.
``version`` grows with every change, so one read by primary key (2 ms) tells a program whether another has changed the
items. The number of rows does not: an add and a remove leave it as it was, counting with a filter reads every row, and
``get_collection_stats`` of a server ignores deletions and rows that are not flushed yet. (That of the embedded form is
right, but goes through all primary keys.)

Writes of the record are not compared with what was there before, which Milvus cannot do; so one program may write at a
time. A second one is noticed, except in the moment between the last check and the write.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr.memory.milvus_connection import Connection

Ranges = tuple[tuple[int, int], ...]

_HEAD = 0  # primary key of the record
_RANGES_PER_ROW = 1_500  # 63,000 characters at most, of the 65,535 that a text of Milvus may have


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
        No row has had this id or a larger one.
    unfinished
        Ranges of ids ``(first, end)`` that were reserved by an add which did not finish, or has not yet.
    removed
        Ranges of ids that were removed and whose rows may not be deleted yet.
    """

    version: int = 0
    count: int = 0
    next_id: int = 0
    unfinished: Ranges = ()
    removed: Ranges = ()


def as_ranges(ids: Tensor) -> Ranges:
    """Ascending ids as ranges ``(first, end)``."""
    starts = torch.ones(len(ids), dtype=torch.bool)
    starts[1:] = ids.diff() != 1
    first = starts.nonzero()[:, 0]
    last = torch.cat([first[1:], torch.tensor([len(ids)])]) - 1
    return tuple(zip(ids[first].tolist(), (ids[last] + 1).tolist(), strict=True))


def merge(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same ids in as few ranges as possible."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return tuple(merged)


def in_ranges(ids: Tensor, ranges: Ranges) -> Tensor:
    """Which ids lie in one of the ranges."""
    inside = torch.zeros(ids.shape, dtype=torch.bool)
    for first, end in ranges:
        inside |= (ids >= first) & (ids < end)
    return inside


class Journal:
    """Reads and writes the :class:`Record` of a collection.

    Parameters
    ----------
    connection
        To the server.
    name
        Of the journal's own collection.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self.name = connection, name

    def create(self) -> None:
        """Create the collection of the journal, without a record. Milvus demands a vector; it has no meaning."""
        kinds, client = self._connection.milvus.DataType, self._connection.client
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("text", kinds.VARCHAR, max_length=65_535)
        schema.add_field("unused", kinds.FLOAT_VECTOR, dim=2)
        index = client.prepare_index_params()
        index.add_index("unused", index_type="FLAT", metric_type="IP")
        self._connection.request(
            "ItemMemory",
            "create_collection",
            self.name,
            schema=schema,
            index_params=index,
            consistency_level="Strong",
        )

    def read(self, operation: str) -> Record | None:
        """The record as it is now; None if there is none."""
        found = self._texts(operation, [_HEAD])
        if not found:
            return None
        try:
            fields = json.loads(found[0])
            more = fields.pop("more_removed")
            pieces = self._texts(operation, more) if more else []
            fields["removed"] += [pair for piece in pieces for pair in json.loads(piece)]
            if len(pieces) != len(more):
                raise ValueError(f"{len(more) - len(pieces)} of its rows are missing")
            return _checked(fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{operation}: the journal {self.name!r} in Milvus at {self._connection.address!r} is damaged "
                f"({error}); drop this collection to rebuild the journal from the rows"
            ) from error

    def _texts(self, operation: str, ids: list[int]) -> list[str]:
        rows = self._connection.request(operation, "get", self.name, ids=ids, output_fields=["id", "text"])
        return [row["text"] for row in rows]

    def write(self, operation: str, record: Record) -> None:
        """Replace the record: completely, or with an error not at all."""
        inline, rest = record.removed[:_RANGES_PER_ROW], record.removed[_RANGES_PER_ROW:]
        pieces = [rest[i : i + _RANGES_PER_ROW] for i in range(0, len(rest), _RANGES_PER_ROW)]
        keys = [1 + secrets.randbits(61) for _ in pieces]  # new ones: the old record may still need its pieces
        if pieces:
            self._put(operation, "insert", {key: json.dumps(piece) for key, piece in zip(keys, pieces, strict=True)})
        head = asdict(record) | {"removed": inline, "more_removed": keys}
        self._put(operation, "upsert", {_HEAD: json.dumps(head)})

    def _put(self, operation: str, method: str, texts: dict[int, str]) -> None:
        rows = [{"id": key, "text": text, "unused": [0.0, 0.0]} for key, text in texts.items()]
        self._connection.request(operation, method, self.name, rows)


def _checked(fields: dict[str, Any]) -> Record:
    """The record that was read, if it makes sense."""
    lists = {name: tuple((first, end) for first, end in fields[name]) for name in ("unfinished", "removed")}
    record = Record(**fields | lists)
    numbers = [record.version, record.count, record.next_id]
    numbers += [number for ranges in lists.values() for pair in ranges for number in pair]
    if not all(type(number) is int and 0 <= number < 1 << 62 for number in numbers) or record.count > record.next_id:
        raise ValueError("its numbers are impossible")
    return record

"""Milvus backend: search in an embedded file, on a server or on a cluster, depending on the URI."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import describe, named, names_errors, type_error, value_error
from ghrr.files import space_header
from ghrr.memory.backends.bounds import Bound, Columns
from ghrr.memory.backends.milvus_connection import FLAT, HNSW, Connection
from ghrr.memory.backends.milvus_journal import Journal, Ranges, Record, as_ranges, in_ranges, merge
from ghrr.memory.search import break_ties
from ghrr.memory.storage import Stored, chunks
from ghrr.space import Space

_MAX_RESULTS = 16_384  # rows that Milvus returns at most per request
TIMEOUT = 60.0  # seconds
_MAX_WIDTH = 32_768
_MAX_LABEL_BYTES = 65_535
_NUMBERS_PER_REQUEST = 1 << 22  # 16 MiB: servers refuse much larger messages
_MAX_EF = 32_768  # rows that a search of an HNSW index considers at most
_NUMBERS_IN_LOG = 1 << 20  # flush the embedded form after this many numbers, since every search converts its log


@names_errors
class MilvusBackend:
    """Milvus collection with a flat index of inner products, which compares a query with every row.

    The collection stays when the program ends; a memory with the same space, URI and collection name finds its items
    again. Several programs may read a collection while one writes. A program that finds a change by another program
    raises RuntimeError. An add or remove that fails, for example because the server stops, changes nothing: a second
    collection, named with the suffix ``_journal``, records which rows are items (see
    ``ghrr.memory.backends.milvus_journal``). A collection of version 0.1 has no journal and gets one when it is
    opened.

    Rows are float32. Queries from a GPU are copied to the CPU. Use it as
    ``ItemMemory(space, backend="milvus", uri=...)``; it needs the extra ``index``.

    Parameters
    ----------
    uri
        A path such as ``"items.db"`` for the embedded form (milvus-lite), or ``"http://host:19530"`` for a server.
    space
        Space of the items. A collection holds items of one space.
    collection
        Name of the collection.
    timeout
        Seconds to wait for the response to a request; at most 10 for a connection. Do not set it too low: the embedded
        form pauses about every 128 MB to write its rows to a file.
    approximate
        Use an HNSW index, which is faster for many items and misses some: see :meth:`ghrr.ItemMemory.recall`. Exact and
        approximate collections of the same name are different collections.
    create
        Create a collection that does not exist; otherwise raise FileNotFoundError.

    Examples
    --------
    >>> import ghrr, pathlib, tempfile
    >>> from ghrr.memory import MilvusBackend
    >>> space = ghrr.Space(dim=20, m=2, seed=0)
    >>> uri = str(pathlib.Path(tempfile.mkdtemp()) / "items.db")
    >>> memory = ghrr.ItemMemory(space, ["a", "b"], backend=MilvusBackend(uri, space, collection="letters"))
    >>> memory.cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    name = "milvus"
    storage = "float32"
    can_filter = True

    def __init__(
        self,
        uri: str,
        space: Space,
        *,
        collection: str = "items",
        timeout: float = TIMEOUT,
        approximate: bool = False,
        create: bool = True,
    ) -> None:
        if not isinstance(collection, str) or not re.fullmatch(r"[A-Za-z_]\w{0,199}", collection, re.ASCII):
            raise value_error(f"collection must consist of letters, digits and _, got {describe(collection)}")
        self.width = 2 * space.total_dim
        if self.width > _MAX_WIDTH:
            raise value_error(
                f"Milvus stores at most {_MAX_WIDTH} numbers per row, got {self.width} for {space}; "
                f'use a smaller space or backend="torch"'
            )
        if not create and isinstance(uri, str) and "://" not in uri and not Path(uri).exists():
            raise FileNotFoundError(named(f"there is no file {uri!r}; check the path"))
        self._connection = Connection(uri, timeout)
        self.uri, self.collection, self.approximate = self._connection.address, collection, approximate
        collection = f"{collection}_approximate" if approximate else collection
        self._name = f"{collection}_{_digest(space)}"
        self._journal = Journal(self._connection, f"{self._name}_journal")
        self._deleted: set[tuple[int, int]] = set()  # ranges of ids whose rows this object deleted
        self._rows_in_log = 0
        self._record = self._open(collection, space, create=create)
        self.first_id = self._record.next_id

    def __getstate__(self) -> NoReturn:
        raise type_error(
            "a memory in Milvus cannot be copied or pickled, since both copies would change one "
            "collection; create another ItemMemory with the same space and URI"
        )

    def _open(self, collection: str, space: Space, *, create: bool) -> Record:
        """Find or create the collection and its journal; return its record."""
        names = self._connection.request("list_collections")
        others = [n for n in names if re.fullmatch(rf"{collection}_[0-9a-f]{{16}}", n) and n != self._name]
        if others:
            raise value_error(
                f"the collection {collection!r} in Milvus at {self._connection.address!r} must hold items "
                f"of {space}, got another space; use another collection name"
            )
        if self._name not in names and not create:
            raise FileNotFoundError(
                named(
                    f"there is no collection {self._name!r} in Milvus at {self._connection.address!r}; "
                    f"check the address"
                )
            )
        if self._name not in names:
            text, vector = ("label", _MAX_LABEL_BYTES), ("row", self.width)
            index = HNSW if self.approximate else FLAT
            self._connection.create_collection(self._name, text=text, vector=vector, index=index, columns=True)
        if self._journal.name not in names:
            self._journal.create()
        for name in (self._name, self._journal.name):
            self._connection.request("load_collection", name)
        record = self._journal.read()
        if record is None:  # a new collection, or one of version 0.1
            found = self._read_labels(self._all_pages()) if self._name in names else {}
            record = Record(count=len(found), next_id=max(found, default=-1) + 1)
            self._journal.write(record)
        return record

    def __len__(self) -> int:
        return self._record.count

    def _current(self) -> Record:
        """Return the current record after deleting rows of removed items; raise if another program changed it."""
        record = self._journal.read()
        if record is None or record.version != self._record.version:
            raise RuntimeError(
                named(
                    f"the collection in Milvus at {self._connection.address!r} changed: another program "
                    f"wrote to it, or the server did not confirm the last change; create the ItemMemory again"
                )
            )
        self._delete(record.removed)
        return replace(record, removed=())

    def _delete(self, ranges: Ranges) -> None:
        """Delete the rows in these ranges, once."""
        ids = [number for first, end in set(ranges) - self._deleted for number in range(first, end)]
        for chunk in chunks(len(ids), _MAX_RESULTS):
            self._connection.request("delete", self._name, ids=ids[chunk])
        self._deleted.update(ranges)

    def existing(self) -> dict[str, int]:
        record = self._current()
        is_dense = record.next_id <= 4 * record.count + _MAX_RESULTS
        found = self._read_labels(self._pages_by_id(record.next_id) if is_dense else self._all_pages())
        ids = torch.tensor(sorted(found), dtype=torch.int64)
        items = ids[(ids < record.next_id) & ~in_ranges(ids, record.unfinished)]
        labels = {found[number]: number for number in items.tolist()}
        if len(labels) != record.count:
            self._current()  # raises if another program changed the items while they were read
            self._refuse(f"{len(labels)} different labels for {record.count} items")
        return labels

    def _read_labels(self, pages: Iterable[list[dict[str, Any]]]) -> dict[int, str]:
        """Return labels by id; raise ValueError for rows that are not valid."""
        found: dict[int, str] = {}
        for page in pages:
            for row in page:
                number, label = row["id"], row["label"]
                if not isinstance(label, str) or number in found or number < 0:
                    self._refuse(f"a row has the id {describe(number)} and the label {describe(label)}")
                found[number] = label
        return found

    def _refuse(self, reason: str) -> None:
        raise value_error(
            f"the collection {self._name!r} in Milvus at {self._connection.address!r} was not written by "
            f"ghrr, or another program changed it ({reason}); use another collection"
        )

    def _pages_by_id(self, end: int) -> Iterator[list[dict[str, Any]]]:
        """Yield ids and labels of the rows below an id, by primary key, which does not read the other rows."""
        for chunk in chunks(end, _MAX_RESULTS):
            yield self._query(list(range(chunk.start, chunk.stop)), "label")

    def _all_pages(self) -> Iterator[list[dict[str, Any]]]:
        """Yield ids and labels of all rows, for ids that are sparse or unknown."""
        pages = self._connection.request(
            "query_iterator", self._name, batch_size=_MAX_RESULTS, output_fields=["id", "label"]
        )
        try:
            while page := self._connection.attempt(pages.next):
                yield page
        finally:
            pages.close()

    def _query(self, ids: list[int], column: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._connection.request("get", self._name, ids=ids, output_fields=["id", column])
        return rows

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored, columns: Columns | None = None) -> None:
        for label in labels:
            if len(label.encode()) > _MAX_LABEL_BYTES:
                raise value_error(f"labels in Milvus must have at most {_MAX_LABEL_BYTES} bytes, got {label!r:.40}")
        before = self._current()
        first, end = int(ids[0]), int(ids[-1]) + 1
        if first < before.next_id:
            raise RuntimeError(
                named(
                    "another program added items to this collection, or was interrupted while it did; "
                    "create the ItemMemory again"
                )
            )
        self._delete(before.unfinished)  # rows of adds that failed
        reserved = replace(before, next_id=end, unfinished=merge([*before.unfinished, (first, end)]))
        self._journal.write(reserved)
        try:
            self._insert(ids, labels, stored.numbers.cpu().numpy(), columns or {})
            if self._journal.read() != reserved:
                raise RuntimeError(
                    named(
                        "another program changed the collection at the same time; nothing was added. Create "
                        "the ItemMemory again"
                    )
                )
        except BaseException:
            self._discard((first, end))
            raise
        after = replace(before, version=before.version + 1, count=before.count + len(ids), next_id=end)
        self._commit(reserved, after)

    def _insert(self, ids: Tensor, labels: Sequence[str], rows: Any, columns: Columns) -> None:
        for chunk in self._chunks(len(ids)):
            parts = zip(ids[chunk].tolist(), labels[chunk], rows[chunk], strict=True)
            data = [{"id": number, "label": label, "row": row} for number, label, row in parts]
            for name, numbers in columns.items():
                for row, value in zip(data, numbers[chunk].tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 (not NaN)
                        row[name] = value
            self._connection.request("insert", self._name, data)
        self._rows_in_log += len(ids)
        if self._connection.embedded and self._rows_in_log * self.width >= _NUMBERS_IN_LOG:
            self._connection.request("flush", self._name)
            self._rows_in_log = 0

    def _discard(self, reserved: tuple[int, int]) -> None:
        """Delete the rows of an add that failed. If this fails too, the next add deletes them; they are no items."""
        with suppress(ConnectionError):
            self._delete((reserved,))

    def _commit(self, before: Record, after: Record) -> None:
        """Write the record that makes a change effective; after an error, find out whether it was written."""
        try:
            self._journal.write(after)
        except ConnectionError:
            if self._journal.read() != after:
                raise
        except BaseException:  # after an interrupt, undo the change
            with suppress(ConnectionError):
                if self._journal.read() == after:
                    undone = replace(before, version=after.version + 1)
                    self._journal.write(undone)
                    self._record = undone
            raise
        self._record = after

    def _chunks(self, count: int) -> Iterator[slice]:
        return chunks(count, min(_MAX_RESULTS, max(1, _NUMBERS_PER_REQUEST // self.width)))

    def remove(self, ids: Tensor) -> None:
        before = self._current()
        after = replace(before, version=before.version + 1, count=before.count - len(ids), removed=as_ranges(ids))
        self._commit(before, after)
        try:
            self._delete(after.removed)
            self._journal.write(replace(after, removed=()))
            self._deleted.difference_update(after.removed)
        except ConnectionError:
            pass  # the items are removed; the next operation deletes their rows
        except BaseException:
            self._record = before  # the caller does not know that they are removed; the next operation raises
            raise

    def stored(self, ids: Tensor) -> Stored:
        rows = np.full((len(ids), self.width), np.nan, dtype=np.float32)
        for chunk in self._chunks(len(ids)):
            wanted = ids[chunk].tolist()
            indices = dict(zip(wanted, range(chunk.start, chunk.stop), strict=True))
            for row in self._query(wanted, "row"):
                rows[indices[row["id"]]] = row["row"]
        numbers = torch.from_numpy(rows)
        bad = (~torch.isfinite(numbers).all(dim=1)).nonzero()[:, 0]
        if len(bad):
            raise value_error(
                f"another program changed the collection in Milvus at {self._connection.address!r}: the "
                f"rows of {len(bad)} items are missing or not finite, the first has the id {int(ids[bad[0]])}; create "
                f"the ItemMemory again, without these items"
            )
        return Stored(numbers)

    def search(self, queries: Tensor, k: int, where: Sequence[Bound] = ()) -> tuple[Tensor, Tensor]:
        if k > _MAX_RESULTS:
            raise value_error(f"k must be at most {_MAX_RESULTS} with Milvus, got {k}")
        record = self._current()

        def search(queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
            if not where:
                scores, ids = self._search(queries, width)
                if not ((ids >= record.next_id) | in_ranges(ids, record.unfinished)).any():
                    return scores, ids
            # Rows of an unfinished add are among the results: search again with a filter, which is slower.
            return self._search(queries, width, filter=_expression(record, where))

        count = min(self._count(record, where) if where else record.count, _MAX_RESULTS)
        return break_ties(search, queries.float().cpu(), k, count)

    def _count(self, record: Record, where: Sequence[Bound]) -> int:
        """Return the number of items within bounds."""
        condition = _expression(record, where)
        rows = self._connection.request("query", self._name, filter=condition, output_fields=["count(*)"])
        return int(rows[0]["count(*)"])

    def _search(self, queries: Tensor, width: int, filter: str = "") -> tuple[Tensor, Tensor]:
        scores = np.empty((len(queries), width), dtype=np.float32)
        ids = np.empty((len(queries), width), dtype=np.int64)
        for chunk in self._chunks(len(queries)):
            hits = self._hits(queries[chunk], width, filter, ef=max(64, 2 * width))
            if self.approximate and any(len(row) < width for row in hits):  # a graph may reach too few rows
                hits = self._hits(queries[chunk], width, filter, ef=_MAX_EF)
            for index, row in zip(range(chunk.start, chunk.stop), hits, strict=True):
                if len(row) != width:
                    raise RuntimeError(
                        named(
                            f"expected {width} results from Milvus at {self._connection.address!r}, got "
                            f"{len(row)}: another program changed the collection; create the ItemMemory again"
                        )
                    )
                scores[index] = [hit["distance"] for hit in row]
                ids[index] = [hit["id"] for hit in row]
        if not np.isfinite(scores).all():
            raise value_error(
                f"scores must be finite, got NaN or infinity for the row of id "
                f"{ids[~np.isfinite(scores)][0]} in Milvus at {self._connection.address!r}; remove that item"
            )
        return torch.from_numpy(scores), torch.from_numpy(ids)

    def _hits(self, queries: Tensor, width: int, filter: str, *, ef: int) -> Any:
        return self._connection.request(
            "search",
            self._name,
            data=list(queries.numpy()),
            filter=filter,
            limit=width,
            output_fields=["id"],
            anns_field="row",
            search_params={"params": {"ef": ef}} if self.approximate else None,
        )


def _expression(record: Record, where: Sequence[Bound]) -> str:
    """Return the condition that a row is an item within bounds. It contains only checked names and numbers."""
    parts = [f"id < {record.next_id}", *(f"(id < {first} or id >= {end})" for first, end in record.unfinished)]
    for name, low, high, is_inside, or_missing in where:
        # A comparison with a field that a row lacks is not true.
        part = f"{name} >= {low!r} and {name} <= {high!r}" if is_inside else f"{name} < {low!r} or {name} > {high!r}"
        parts.append(f'(not (exists $meta["{name}"]) or ({part}))' if is_inside == or_missing else f"({part})")
    return " and ".join(parts)


def _digest(space: Space) -> str:
    """Return a short digest that identifies a space."""
    stored, _ = space_header(space)
    if space.atom_version == 1:
        del stored["atom_version"]  # collections of ghrr 0.1 were named without it
    if isinstance(space.rotation, Tensor):
        stored["rotation"] = hashlib.sha256(torch.view_as_real(space.rotation).numpy().tobytes()).hexdigest()
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]

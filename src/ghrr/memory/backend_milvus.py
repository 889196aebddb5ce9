"""Milvus as a backend: an embedded file, a server or a cluster, by the URI alone. Its flat index is exact."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.files import _describe_space
from ghrr.memory.milvus_connection import Connection
from ghrr.memory.milvus_journal import Journal, Ranges, Record, as_ranges, in_ranges, merge
from ghrr.memory.search import settle_ties
from ghrr.memory.storage import Stored, steps
from ghrr.space import Space

_MOST_ANSWERS = 16_384  # Milvus gives no more rows at a time
TIMEOUT = 60.0  # seconds
_WIDEST = 32_768
_LONGEST_LABEL = 65_535
_NUMBERS_AT_A_TIME = 1 << 22  # 16 MiB: servers refuse messages that are much larger
_NUMBERS_IN_LOG = 1 << 20  # numbers in the log of the embedded form before a flush; every search converts the log again


class MilvusBackend:
    """A collection of Milvus with a flat index of inner products.

    What is in the collection stays there when the program ends; a memory made with the same space, URI and name finds
    it again. Several programs may read a collection while one writes; a program that finds it changed by another says
    so. An add or a remove that fails, even because the server goes away in the middle, changes nothing: a second
    collection, with ``_journal`` behind its name, records which rows are items (see
    :mod:`ghrr.memory.milvus_journal`). A collection without a journal, made by version 0.1, gets one when it is opened.

    Parameters
    ----------
    uri
        A path such as ``"items.db"`` for the embedded form (milvus-lite), ``"http://host:19530"`` for a server.
    space
        Of which hypervectors are kept. A collection of one name is of one space.
    collection
        Its name.
    timeout
        Seconds to wait for the answer to a request, and 10 at most for a connection. The embedded form answers late
        now and then: about every 128 MB it writes its rows to a file.
    """

    storage = "float32"

    def __init__(self, uri: str, space: Space, *, collection: str = "items", timeout: float = TIMEOUT) -> None:
        if not isinstance(collection, str) or not re.fullmatch(r"[A-Za-z_]\w{0,199}", collection, re.ASCII):
            raise ValueError(
                f"MilvusBackend: collection must be a name of letters, digits and _, got {describe(collection)}"
            )
        self.width = 2 * space.total_dim
        if self.width > _WIDEST:
            raise ValueError(
                f"MilvusBackend: Milvus keeps rows of at most {_WIDEST} numbers, but {space} has total_dim "
                f'{space.total_dim}, which makes {self.width}; choose a smaller space, or backend="torch"'
            )
        self._connection = Connection(uri, timeout)
        self._name = f"{collection}_{_digest(space)}"
        self._journal = Journal(self._connection, f"{self._name}_journal")
        self._deleted: set[tuple[int, int]] = (
            set()
        )  # ranges of ids that are not items, whose rows were deleted from here
        self._rows_in_log = 0
        self._record = self._open(collection, space)
        self.first_id = self._record.next_id

    def _open(self, collection: str, space: Space) -> Record:
        """Find or create the collection and its journal."""
        operation = "ItemMemory"
        names = self._connection.request(operation, "list_collections")
        others = [n for n in names if re.fullmatch(rf"{collection}_[0-9a-f]{{16}}", n) and n != self._name]
        if others:
            raise ValueError(
                f"ItemMemory: the collection {collection!r} in Milvus at {self._connection.address!r} holds items of "
                f"another space than {space}; choose another name for the collection"
            )
        if self._name not in names:
            self._create()
        if self._journal.name not in names:
            self._journal.create()
        for name in (self._name, self._journal.name):
            self._connection.request(operation, "load_collection", name)
        record = self._journal.read(operation)
        if record is None:  # a new collection, or one that version 0.1 made
            found = self._read_labels(self._all_pages()) if self._name in names else {}
            record = Record(count=len(found), next_id=max(found, default=-1) + 1)
            self._journal.write(operation, record)
        return record

    def _create(self) -> None:
        kinds, client = self._connection.milvus.DataType, self._connection.client
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("label", kinds.VARCHAR, max_length=_LONGEST_LABEL)
        schema.add_field("row", kinds.FLOAT_VECTOR, dim=self.width)
        index = client.prepare_index_params()
        index.add_index("row", index_type="FLAT", metric_type="IP")
        self._connection.request(
            "ItemMemory",
            "create_collection",
            self._name,
            schema=schema,
            index_params=index,
            consistency_level="Strong",  # what was added is found
        )

    def __len__(self) -> int:
        return self._record.count

    def _current(self, operation: str) -> Record:
        """The record as it is now, after deleting the rows of removed items; raises if another program changed it."""
        record = self._journal.read(operation)
        if record is None or record.version != self._record.version:
            raise RuntimeError(
                f"{operation}: the collection in Milvus at {self._connection.address!r} is not the one this memory "
                f"knows: another program changed it, or the server did not confirm the last change of this memory. "
                f"Make the ItemMemory again"
            )
        self._delete(operation, record.removed)
        return replace(record, removed=())

    def _delete(self, operation: str, ranges: Ranges) -> None:
        """Delete the rows in these ranges, once."""
        ids = [number for first, end in set(ranges) - self._deleted for number in range(first, end)]
        for some in steps(len(ids), _MOST_ANSWERS):
            self._connection.request(operation, "delete", self._name, ids=ids[some])
        self._deleted.update(ranges)

    def existing(self) -> dict[str, int]:
        operation = "ItemMemory"
        record = self._current(operation)
        dense = record.next_id <= 4 * record.count + _MOST_ANSWERS
        found = self._read_labels(self._pages_by_id(record.next_id) if dense else self._all_pages())
        ids = torch.tensor(sorted(found), dtype=torch.int64)
        items = ids[(ids < record.next_id) & ~in_ranges(ids, record.unfinished)]
        labels = {found[number]: number for number in items.tolist()}
        if len(labels) != record.count:
            self._current(operation)  # says so if another program changed the items while they were read
            self._refuse(f"it has {len(labels)} different labels for {record.count} items")
        return labels

    def _read_labels(self, pages: Iterable[list[dict[str, Any]]]) -> dict[int, str]:
        """Labels by id, after checking what the rows say."""
        found: dict[int, str] = {}
        for page in pages:
            for row in page:
                number, label = row["id"], row["label"]
                if not isinstance(label, str) or number in found or number < 0:
                    self._refuse(f"a row has the id {describe(number)} and the label {describe(label)}")
                found[number] = label
        return found

    def _refuse(self, reason: str) -> None:
        raise ValueError(
            f"ItemMemory: the collection {self._name!r} in Milvus at {self._connection.address!r} was not written by "
            f"this library, or was changed by another program ({reason}); choose another collection"
        )

    def _pages_by_id(self, end: int) -> Iterator[list[dict[str, Any]]]:
        """Ids and labels of the rows up to an id, found by primary key, which does not read the other rows."""
        for some in steps(end, _MOST_ANSWERS):
            yield self._query("ItemMemory", list(range(some.start, some.stop)), "label")

    def _all_pages(self) -> Iterator[list[dict[str, Any]]]:
        """Ids and labels of all rows, for ids that are far apart or unknown."""
        pages = self._connection.request(
            "ItemMemory", "query_iterator", self._name, batch_size=_MOST_ANSWERS, output_fields=["id", "label"]
        )
        try:
            while page := self._connection.attempt("ItemMemory", pages.next):
                yield page
        finally:
            pages.close()

    def _query(self, operation: str, ids: list[int], column: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._connection.request(
            operation, "get", self._name, ids=ids, output_fields=["id", column]
        )
        return rows

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        operation = "ItemMemory.add"
        for label in labels:
            if len(label.encode()) > _LONGEST_LABEL:
                raise ValueError(
                    f"{operation}: Milvus keeps labels of {_LONGEST_LABEL} bytes at most, got {label!r:.40}"
                )
        before = self._current(operation)
        first, end = int(ids[0]), int(ids[-1]) + 1
        if first < before.next_id:
            raise RuntimeError(
                f"{operation}: the ids from {first} to {before.next_id - 1} were used meanwhile: another program adds "
                f"items to this collection, or was interrupted while it did. Make the ItemMemory again"
            )
        self._delete(operation, before.unfinished)  # what earlier adds left behind
        reserved = replace(before, next_id=end, unfinished=merge([*before.unfinished, (first, end)]))
        self._journal.write(operation, reserved)
        try:
            self._insert(operation, ids, labels, stored.numbers.cpu().numpy())
            if self._journal.read(operation) != reserved:
                raise RuntimeError(
                    f"{operation}: another program changed the collection while items were added, and one at a time "
                    f"may; nothing was added. Make the ItemMemory again"
                )
        except BaseException:
            self._discard(operation, (first, end))
            raise
        after = replace(before, version=before.version + 1, count=before.count + len(ids), next_id=end)
        self._commit(operation, reserved, after)

    def _insert(self, operation: str, ids: Tensor, labels: Sequence[str], rows: Any) -> None:
        for some in self._steps(len(ids)):
            columns = zip(ids[some].tolist(), labels[some], rows[some], strict=True)
            data = [{"id": number, "label": label, "row": row} for number, label, row in columns]
            self._connection.request(operation, "insert", self._name, data)
        self._rows_in_log += len(ids)
        if self._connection.embedded and self._rows_in_log * self.width >= _NUMBERS_IN_LOG:
            self._connection.request(operation, "flush", self._name)
            self._rows_in_log = 0

    def _discard(self, operation: str, reserved: tuple[int, int]) -> None:
        """Delete the rows of an add that failed. If that fails too they are not items either: the next add tries it."""
        with suppress(ConnectionError):
            self._delete(operation, (reserved,))

    def _commit(self, operation: str, before: Record, after: Record) -> None:
        """Write the record with which a change takes effect; on an error find out whether it did."""
        try:
            self._journal.write(operation, after)
        except ConnectionError:
            if self._journal.read(operation) != after:
                raise
        except BaseException:  # an interrupt, after which nothing may have changed
            with suppress(ConnectionError):
                if self._journal.read(operation) == after:
                    undone = replace(before, version=after.version + 1)
                    self._journal.write(operation, undone)
                    self._record = undone
            raise
        self._record = after

    def _steps(self, count: int) -> Iterator[slice]:
        return steps(count, min(_MOST_ANSWERS, max(1, _NUMBERS_AT_A_TIME // self.width)))

    def remove(self, ids: Tensor) -> None:
        operation = "ItemMemory.remove"
        before = self._current(operation)
        after = replace(before, version=before.version + 1, count=before.count - len(ids), removed=as_ranges(ids))
        self._commit(operation, before, after)
        try:
            self._delete(operation, after.removed)
            self._journal.write(operation, replace(after, removed=()))
            self._deleted.difference_update(after.removed)
        except ConnectionError:
            pass  # the items are removed; the next operation deletes their rows
        except BaseException:
            self._record = before  # the caller does not know that they are: the next operation will say so
            raise

    def stored(self, ids: Tensor) -> Stored:
        operation = "ItemMemory.vectors"
        rows = np.full((len(ids), self.width), np.nan, dtype=np.float32)
        for some in self._steps(len(ids)):
            wanted = ids[some].tolist()
            places = dict(zip(wanted, range(some.start, some.stop), strict=True))
            for row in self._query(operation, wanted, "row"):
                rows[places[row["id"]]] = row["row"]
        numbers = torch.from_numpy(rows)
        bad = (~torch.isfinite(numbers).all(dim=1)).nonzero()[:, 0]
        if len(bad):
            raise ValueError(
                f"{operation}: the rows of {len(bad)} items in Milvus at {self._connection.address!r} are missing or "
                f"hold NaN or infinity, the first has the id {int(ids[bad[0]])}: another program changed the "
                f"collection. Make the ItemMemory again, without these items"
            )
        return Stored(numbers)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        operation = "ItemMemory.cleanup"
        if k > _MOST_ANSWERS:
            raise ValueError(f"{operation}: Milvus gives {_MOST_ANSWERS} answers to a query at most, got k = {k}")
        record = self._current(operation)

        def search(queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
            scores, ids = self._search(operation, queries, width)
            if ((ids >= record.next_id) | in_ranges(ids, record.unfinished)).any():
                # Rows of an add that failed or is under way are among the best: search without them, which is slower.
                outside = "".join(f" and (id < {first} or id >= {end})" for first, end in record.unfinished)
                scores, ids = self._search(operation, queries, width, filter=f"id < {record.next_id}{outside}")
            return scores, ids

        return settle_ties(search, queries.float().cpu(), k, min(record.count, _MOST_ANSWERS))

    def _search(self, operation: str, queries: Tensor, width: int, filter: str = "") -> tuple[Tensor, Tensor]:
        scores = np.empty((len(queries), width), dtype=np.float32)
        ids = np.empty((len(queries), width), dtype=np.int64)
        for some in self._steps(len(queries)):
            hits = self._connection.request(
                operation,
                "search",
                self._name,
                data=list(queries[some].numpy()),
                filter=filter,
                limit=width,
                output_fields=["id"],
                anns_field="row",
            )
            for place, row in zip(range(some.start, some.stop), hits, strict=True):
                if len(row) != width:
                    raise RuntimeError(
                        f"{operation}: Milvus at {self._connection.address!r} gave {len(row)} answers of {width}: "
                        f"another program changes the collection. Make the ItemMemory again"
                    )
                scores[place] = [hit["distance"] for hit in row]
                ids[place] = [hit["id"] for hit in row]
        if not np.isfinite(scores).all():
            raise ValueError(
                f"{operation}: the row of id {ids[~np.isfinite(scores)][0]} in Milvus at {self._connection.address!r} "
                f"gives a score that is not finite: it holds NaN or infinity. Remove that item"
            )
        return torch.from_numpy(scores), torch.from_numpy(ids)


def _digest(space: Space) -> str:
    """What tells one space from another, short enough for a name."""
    stored = _describe_space(space)
    if isinstance(space.rotation, Tensor):
        stored["rotation"] = hashlib.sha256(torch.view_as_real(space.rotation).numpy().tobytes()).hexdigest()
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]

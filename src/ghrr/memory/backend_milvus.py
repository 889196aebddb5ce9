"""Milvus as a backend: an embedded file, a server or a cluster, by the URI alone. Its flat index is exact."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.files import _describe_space
from ghrr.memory.backend import import_extra
from ghrr.memory.search import settle_ties
from ghrr.memory.storage import Stored, steps
from ghrr.space import Space

_MOST_ANSWERS = 16_384  # Milvus gives no more rows at a time
_WIDEST = 32_768
_LONGEST_LABEL = 65_535
_NUMBERS_AT_A_TIME = 1 << 22  # 16 MiB: servers refuse messages that are much larger

T = TypeVar("T")


class MilvusBackend:
    """A collection of Milvus with a flat index of inner products.

    What is in the collection stays there when the program ends; a memory made with the same space, URI and name finds
    it again. Several programs may read a collection; one that finds it changed by another says so.

    Parameters
    ----------
    uri
        A path such as ``"items.db"`` for the embedded form (milvus-lite), ``"http://host:19530"`` for a server.
    space
        Of which hypervectors are kept. A collection of one name is of one space.
    collection
        Its name.
    timeout
        Seconds to wait for an answer before the server counts as away.
    """

    storage = "float32"

    def __init__(self, uri: str, space: Space, *, collection: str = "items", timeout: float = 10.0) -> None:
        if not isinstance(uri, str) or not uri:
            raise TypeError(
                f'ItemMemory: backend="milvus" needs uri, a path such as "items.db" or an address such as '
                f'"http://localhost:19530"; got {describe(uri)}'
            )
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
        self.uri, self._timeout = uri, timeout
        self._milvus = import_extra("pymilvus")
        self._client: Any = self._ask(lambda: self._milvus.MilvusClient(uri, timeout=timeout))
        self._name = f"{collection}_{_digest(space)}"
        self._ask(lambda: self._open(collection, space))
        self._known = len(self)

    def _ask(self, request: Callable[[], T]) -> T:
        """Do a request; where Milvus does not answer or refuses, say so."""
        try:
            return request()
        except self._milvus.MilvusException as error:
            raise ConnectionError(
                f"ItemMemory: Milvus at {self.uri!r} did not do what was asked ({error.message:.300}); is it running, "
                f"and is the address right?"
            ) from error

    def _open(self, collection: str, space: Space) -> None:
        names = self._client.list_collections(timeout=self._timeout)
        others = [n for n in names if re.fullmatch(rf"{collection}_[0-9a-f]{{16}}", n) and n != self._name]
        if others:
            raise ValueError(
                f"ItemMemory: the collection {collection!r} in Milvus at {self.uri!r} holds items of another space "
                f"than {space}; choose another name for the collection"
            )
        if self._name not in names:
            kinds = self._milvus.DataType
            schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("id", kinds.INT64, is_primary=True)
            schema.add_field("label", kinds.VARCHAR, max_length=_LONGEST_LABEL)
            schema.add_field("row", kinds.FLOAT_VECTOR, dim=self.width)
            index = self._client.prepare_index_params()
            index.add_index("row", index_type="FLAT", metric_type="IP")
            self._client.create_collection(
                self._name,
                schema=schema,
                index_params=index,
                consistency_level="Strong",  # what was added is found
                timeout=self._timeout,
            )
        self._client.load_collection(self._name, timeout=self._timeout)

    def __len__(self) -> int:
        found = self._ask(
            lambda: self._client.query(self._name, filter="id >= 0", output_fields=["count(*)"], timeout=self._timeout)
        )
        return int(found[0]["count(*)"])

    def _check_unchanged(self) -> None:
        """Raise if another program added or removed rows: ids and labels here would no longer fit."""
        there = len(self)
        if there != self._known:
            raise RuntimeError(
                f"ItemMemory: the collection in Milvus at {self.uri!r} has {there} items, this memory knows of "
                f"{self._known}: another program changed it, or adding was interrupted. Make the ItemMemory again"
            )

    def existing(self) -> dict[str, int]:
        found: dict[str, int] = {}
        total, first = len(self), 0
        while len(found) < total:
            inside = f"id >= {first} and id < {first + _MOST_ANSWERS}"
            rows = self._query(inside, "label")
            found |= {row["label"]: row["id"] for row in sorted(rows, key=lambda row: row["id"])}
            first += _MOST_ANSWERS
        return found

    def _query(self, inside: str, column: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._ask(
            lambda: self._client.query(self._name, filter=inside, output_fields=["id", column], timeout=self._timeout)
        )
        return rows

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        for label in labels:
            if len(label.encode()) > _LONGEST_LABEL:
                raise ValueError(
                    f"ItemMemory.add: Milvus keeps labels of {_LONGEST_LABEL} bytes at most, got {label!r:.40}"
                )
        self._check_unchanged()
        rows = stored.numbers.cpu().numpy()
        for some in self._steps(len(ids)):
            columns = zip(ids[some].tolist(), labels[some], rows[some], strict=True)
            data = [{"id": number, "label": label, "row": row} for number, label, row in columns]
            self._ask(lambda data=data: self._client.insert(self._name, data, timeout=self._timeout))  # type: ignore[misc]
        self._known += len(ids)

    def _steps(self, count: int) -> Any:
        return steps(count, min(_MOST_ANSWERS, max(1, _NUMBERS_AT_A_TIME // self.width)))

    def remove(self, ids: Tensor) -> None:
        self._check_unchanged()
        for some in steps(len(ids), _MOST_ANSWERS):
            given = ids[some].tolist()
            self._ask(lambda given=given: self._client.delete(self._name, ids=given, timeout=self._timeout))  # type: ignore[misc]
        self._known -= len(ids)

    def stored(self, ids: Tensor) -> Stored:
        rows: dict[int, list[float]] = {}
        for some in self._steps(len(ids)):
            found = self._query(f"id in {ids[some].tolist()}", "row")
            rows |= {row["id"]: row["row"] for row in found}
        return Stored(torch.tensor([rows[number] for number in ids.tolist()]).reshape(len(ids), self.width))

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        if k > _MOST_ANSWERS:
            raise ValueError(
                f"ItemMemory.cleanup: Milvus gives {_MOST_ANSWERS} answers to a query at most, got k = {k}"
            )
        self._check_unchanged()
        return settle_ties(self._search, queries.float().cpu(), k, min(self._known, _MOST_ANSWERS))

    def _search(self, queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
        scores, ids = [], []
        for some in self._steps(len(queries)):
            data = list(queries[some].numpy())
            hits = self._ask(
                lambda data=data: self._client.search(  # type: ignore[misc]
                    self._name, data=data, limit=width, output_fields=["id"], anns_field="row", timeout=self._timeout
                )
            )
            scores += [[hit["distance"] for hit in row] for row in hits]
            ids += [[hit["id"] for hit in row] for row in hits]
        shape = (len(queries), width)
        return torch.tensor(scores).reshape(shape), torch.tensor(ids, dtype=torch.int64).reshape(shape)


def _digest(space: Space) -> str:
    """What tells one space from another, short enough for a name."""
    stored = _describe_space(space)
    if isinstance(space.rotation, Tensor):
        stored["rotation"] = hashlib.sha256(torch.view_as_real(space.rotation).numpy().tobytes()).hexdigest()
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]

"""LanceDB backend: vectors in a LanceDB table, searched without an index, so exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import install_hint
from ghrr.memory.search import break_ties
from ghrr.memory.storage import Stored

_TABLE = "records"


class LanceBackend:
    """Rows in a LanceDB table with an id and a fixed-size list of float32 each.

    Use it as ``RecordIndex(backend="lancedb", uri="folder")``; it needs the extra ``search``. The search compares a
    query with every row.

    Parameters
    ----------
    width
        Real numbers per row.
    uri
        Folder of the database, without a table named ``records``.

    Examples
    --------
    >>> import ghrr, tempfile
    >>> from ghrr.search.lance_backend import LanceBackend
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> memory = ghrr.ItemMemory(space, ["a", "b"], backend=LanceBackend(2 * space.total_dim, tempfile.mkdtemp()))
    >>> memory.cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    storage = "float32"
    first_id = 0

    def __init__(self, width: int, uri: str) -> None:
        try:
            import lancedb  # noqa: PLC0415 (an optional package)
            import pyarrow as pa  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(f"LanceBackend: needs lancedb and pyarrow; {install_hint('search')}") from error
        self.width = width
        self._pa = pa
        connection = lancedb.connect(uri)
        self._schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), width))])
        if _TABLE in connection.list_tables().tables:
            raise ValueError(f"LanceBackend({uri!r}): the database already has a table {_TABLE!r}; choose a new folder")
        self._table = connection.create_table(_TABLE, schema=self._schema)

    def __len__(self) -> int:
        return int(self._table.count_rows())

    def existing(self) -> dict[str, int]:
        return {}

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored) -> None:
        numbers = self._pa.array(stored.numbers.float().cpu().numpy().ravel())
        vectors = self._pa.FixedSizeListArray.from_arrays(numbers, self.width)
        self._table.add(self._pa.table([self._pa.array(ids.numpy()), vectors], schema=self._schema))

    def remove(self, ids: Tensor) -> None:
        self._table.delete(f"id IN ({', '.join(map(str, ids.tolist()))})")

    def stored(self, ids: Tensor) -> Stored:
        condition = f"id IN ({', '.join(map(str, ids.tolist()))})"
        found = self._table.search().where(condition).limit(len(ids)).to_arrow().combine_chunks()
        rows = self._rows(found["vector"])
        order = np.argsort(found["id"].to_numpy())
        return Stored(torch.from_numpy(rows[order]))

    def _rows(self, column: Any) -> Any:
        return column.combine_chunks().flatten().to_numpy().reshape(-1, self.width).astype(np.float32)

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return break_ties(self._search, queries.float().cpu().contiguous(), k, len(self))

    def _search(self, queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
        scores, ids = [], []
        for query in queries.numpy():
            search: Any = self._table.search(query)
            found = search.distance_type("dot").limit(width).select(["id", "_distance"]).to_arrow()
            scores.append(1 - found["_distance"].to_numpy())  # LanceDB returns 1 - a·b
            ids.append(found["id"].to_numpy())
        return torch.from_numpy(np.stack(scores)), torch.from_numpy(np.stack(ids).astype(np.int64))

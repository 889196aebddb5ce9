"""LanceDB backend: vectors in a LanceDB table, searched without an index, so exactly, unless you ask for one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.checks import install_hint, named, names_errors, value_error
from ghrr.memory import Bound
from ghrr.memory.backends import Columns
from ghrr.memory.search import break_ties
from ghrr.memory.storage import Stored, chunks

_TABLE = "records"
_IDS = 4096  # in a condition


@names_errors
class LanceBackend:
    """Rows in a LanceDB table with an id, a label and a fixed-size list of float32 each.

    Use it as ``RecordIndex(backend="lancedb", uri="folder")``; it needs the extra ``search``. The search compares a
    query with every row. The table stays when the program ends.

    Parameters
    ----------
    width
        Real numbers per row.
    uri
        Folder of the database, or an address that LanceDB understands.
    approximate
        Build an HNSW index before the first search after a change. It is faster for many items and misses some: see
        :meth:`ghrr.ItemMemory.recall`.
    create
        Create a folder or a table that does not exist; otherwise raise FileNotFoundError.

    Examples
    --------
    >>> import ghrr, tempfile
    >>> from ghrr.search.lance_backend import LanceBackend
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> memory = ghrr.ItemMemory(space, ["a", "b"], backend=LanceBackend(2 * space.total_dim, tempfile.mkdtemp()))
    >>> memory.cleanup(space.vectors(["b"])).labels
    [['b']]
    """

    name = "lancedb"
    storage = "float32"
    can_filter = True

    def __init__(self, width: int, uri: str, *, approximate: bool = False, create: bool = True) -> None:
        try:
            import lancedb  # noqa: PLC0415 (an optional package)
            import pyarrow as pa  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(named(f"needs lancedb and pyarrow; {install_hint('search')}")) from error
        self.width = width
        self.uri, self.approximate = uri, approximate
        self._is_indexed = False
        self._pa = pa
        vector = ("vector", pa.list_(pa.float32(), width))
        if not create and "://" not in uri and not Path(uri).is_dir():
            raise FileNotFoundError(named(f"there is no folder {uri!r}; check the path"))
        with self._named_errors():
            connection = lancedb.connect(uri)
            names = connection.list_tables().tables
            self._table: Any = connection.open_table(_TABLE) if _TABLE in names else None
        if self._table is None and not create:
            raise FileNotFoundError(named(f"there is no table {_TABLE!r}; check the path", path=uri))
        if self._table is not None:
            found = self._table.schema
            if "label" not in found.names or "vector" not in found.names or found.field("vector").type != vector[1]:
                raise value_error(
                    f"the table {_TABLE!r} must hold labels and vectors of {width} numbers, got the columns "
                    f"{', '.join(found.names[:5])}; choose another folder",
                    path=uri,
                )
        else:
            schema = pa.schema([("id", pa.int64()), ("label", pa.string()), vector])
            with self._named_errors():
                self._table = connection.create_table(_TABLE, schema=schema)
        # Not simply the next id: two programs that write at the same time would use the same ones.
        self.first_id = max(self.existing().values(), default=-1) + 1 + secrets.randbelow(1 << 40)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:  # of a full disk, missing, cut or damaged files
            raise OSError(
                named(
                    f"LanceDB at {self.uri!r} failed ({error!s:.200}); check the folder, its permissions and "
                    f"the free space"
                )
            ) from error

    def __len__(self) -> int:
        with self._named_errors():
            return int(self._table.count_rows())

    def existing(self) -> dict[str, int]:
        count = len(self) or 1
        with self._named_errors():
            found = self._table.search().select(["id", "label"]).limit(count).to_arrow().sort_by("id")
        return dict(zip(found["label"].to_pylist(), found["id"].to_pylist(), strict=True))

    def add(self, ids: Tensor, labels: Sequence[str], stored: Stored, columns: Columns | None = None) -> None:
        columns = columns or {}
        with self._named_errors():
            self._check_exists()
            pa = self._pa
            new = [name for name in columns if name not in self._table.schema.names]
            if new:
                self._table.add_columns(dict.fromkeys(new, "CAST(NULL AS DOUBLE)"))
            numbers = pa.array(stored.numbers.float().cpu().numpy().ravel())
            arrays = {
                "id": pa.array(ids.numpy()),
                "label": pa.array(labels, pa.string()),
                "vector": pa.FixedSizeListArray.from_arrays(numbers, self.width),
                **{name: pa.array(values, pa.float64(), from_pandas=True) for name, values in columns.items()},
            }
            empty = pa.nulls(len(ids), pa.float64())
            schema = self._table.schema
            self._table.add(pa.table([arrays.get(name, empty) for name in schema.names], schema=schema))
        self._is_indexed = False

    def _check_exists(self) -> None:
        """Raise FileNotFoundError if the table was moved away; LanceDB would write the new rows in its place."""
        path = Path(self.uri) / f"{_TABLE}.lance"
        if "://" not in self.uri and not path.is_dir():
            raise FileNotFoundError(f"the table {str(path)!r} is no longer there")

    def remove(self, ids: Tensor) -> None:
        with self._named_errors():
            for part in chunks(len(ids), _IDS):
                self._table.delete(_is_one_of(ids[part]))
        self._is_indexed = False

    def stored(self, ids: Tensor) -> Stored:
        with self._named_errors():
            found = self._table.search().where(_is_one_of(ids)).limit(len(ids)).to_arrow().combine_chunks()
        rows = found["vector"].combine_chunks().flatten().to_numpy().reshape(-1, self.width).astype(np.float32)
        order = np.argsort(found["id"].to_numpy())
        return Stored(torch.from_numpy(rows[order]))

    def search(self, queries: Tensor, k: int, where: Sequence[Bound] = ()) -> tuple[Tensor, Tensor]:
        with self._named_errors():
            return self._search(queries, k, where)

    def _search(self, queries: Tensor, k: int, where: Sequence[Bound]) -> tuple[Tensor, Tensor]:
        if self.approximate and not self._is_indexed:
            from lancedb.index import HnswSq  # noqa: PLC0415

            self._table.create_index("vector", config=HnswSq(distance_type="dot", num_partitions=1))
            self._is_indexed = True

        def search(queries: Tensor, width: int) -> tuple[Tensor, Tensor]:
            found = [self._nearest(query, width, where) for query in queries.numpy()]
            scores = np.stack([1 - one["_distance"].to_numpy() for one in found])  # LanceDB returns 1 - a·b
            ids = np.stack([one["id"].to_numpy() for one in found]).astype(np.int64)
            return torch.from_numpy(scores), torch.from_numpy(ids)

        count = int(self._table.count_rows(_expression(where) if where else None))
        return break_ties(search, queries.float().cpu().contiguous(), k, count)

    def _nearest(self, query: Any, width: int, where: Sequence[Bound]) -> Any:
        search: Any = self._table.search(query)
        search = search.distance_type("dot").limit(width).select(["id", "_distance"])
        if where:
            search = search.where(_expression(where))
        if self.approximate:
            found = search.ef(max(64, 2 * width)).to_arrow()
            if len(found) == width:
                return found
        return search.bypass_vector_index().to_arrow()  # exact


def _is_one_of(ids: Tensor) -> str:
    return f"id IN ({', '.join(map(str, ids.tolist()))})"


def _expression(where: Sequence[Bound]) -> str:
    """Return the condition that a row is within bounds. It contains only checked names and numbers."""
    parts = []
    for column, low, high, is_inside, or_missing in where:
        name = f"`{column}`"  # without quotes, LanceDB ignores case
        # A comparison with NULL is not true.
        part = f"{name} >= {low!r} AND {name} <= {high!r}" if is_inside else f"{name} < {low!r} OR {name} > {high!r}"
        parts.append(f"({name} IS NULL OR ({part}))" if is_inside == or_missing else f"({part})")
    return " AND ".join(parts)

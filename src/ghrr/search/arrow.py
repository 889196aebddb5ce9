"""Arrow: encode tables, with one vector per row whose dot product is the similarity of two rows.

Tables of pyarrow, pandas and polars are accepted. The result is a pyarrow table with a column of fixed-size lists of
float32, which Parquet, Lance, LanceDB and Milvus understand. The metadata of its schema has the space and the fields.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import describe, install_hint, named, names_errors, type_error, value_error
from ghrr.files import PathLike, atomic_write
from ghrr.search.encoder import RecordEncoder
from ghrr.search.index import RecordIndex

VECTOR = "vector"
_SUFFIXES = (".parquet", ".lance")


def as_table(data: Any) -> Any:
    """Return a pyarrow table from a table or record batch of pyarrow, pandas or polars.

    Examples
    --------
    >>> import pandas as pd
    >>> from ghrr.search.arrow import as_table
    >>> as_table(pd.DataFrame({"name": ["Ada", None]})).to_pylist()
    [{'name': 'Ada'}, {'name': None}]
    """
    pa = pyarrow()
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if type(data).__module__.startswith("pandas."):
        return pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise type_error(
        f"needs a table of pyarrow, pandas or polars, got {describe(data)}; for documents use pyarrow.Table.from_pylist"
    )


def as_rows(encoder: RecordEncoder, vectors: Tensor) -> Tensor:
    """Return hypervectors as real rows, ``(n, 2 * dim * m * m)``, whose dot product is the similarity."""
    space = encoder.space
    return torch.view_as_real(vectors).flatten(1).float() / math.sqrt(space.m * space.dim)


def as_vectors(encoder: RecordEncoder, rows: Tensor) -> Tensor:
    """Return the hypervectors of real rows, the inverse of :func:`as_rows`."""
    space = encoder.space
    scaled = rows * math.sqrt(space.m * space.dim)
    return torch.view_as_complex(scaled.view(-1, *space.shape, 2)).to(space.dtype)


def vector_column(rows: Tensor) -> Any:
    """Return real rows as a column of fixed-size lists of float32."""
    pa = pyarrow()
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.numpy().ravel()), rows.shape[1])


@names_errors
def encode_table(index: RecordIndex | RecordEncoder, data: Any, *, column: str = VECTOR) -> Any:
    """Add a column of vectors to a table.

    Parameters
    ----------
    index
        Index whose fields and weights encode the rows.
    data
        Table or record batch of pyarrow, pandas or polars. Its columns are the fields; structs are nested objects.
    column
        Name of the new column.

    Returns
    -------
    pyarrow.Table
        The table and the column, fixed-size lists of float32. The metadata ``ghrr`` holds the space and the fields.

    Examples
    --------
    >>> import ghrr, pyarrow as pa
    >>> index = ghrr.search.RecordIndex()
    >>> table = pa.table({"name": ["Ada", "Alan"], "born": [1815, 1912]})
    >>> index.add(table.to_pylist())
    >>> encoded = ghrr.search.encode_table(index, table)
    >>> encoded.schema.field("vector").type
    FixedSizeListType(fixed_size_list<item: float>[2048])
    """
    pa = pyarrow()
    encoder = index if isinstance(index, RecordEncoder) else index._records.state.encoder
    table = as_table(data)
    if column in table.column_names:
        raise value_error(f"the table already has a column {column!r}; give another name as column=")
    vectors = vector_column(as_rows(encoder, encoder.encode(table.to_pylist())))
    encoded = table.append_column(pa.field(column, vectors.type), vectors)
    return encoded.replace_schema_metadata({**(encoded.schema.metadata or {}), b"ghrr": _metadata(encoder, column)})


def _metadata(encoder: RecordEncoder, column: str) -> bytes:
    space = encoder.space
    fields = [{"name": one.name, "kind": one.kind, "weight": one.weight} for one in encoder.fields]
    settings = {"dim": space.dim, "m": space.m, "seed": space.seed}
    return json.dumps({"column": column, "space": settings, "fields": fields}).encode()


@names_errors
def write_table(path: PathLike, table: Any) -> None:
    """Write an encoded table to a Parquet file or a Lance dataset, completely or not at all.

    Parameters
    ----------
    path
        ``*.parquet``, or ``*.lance``, which must not exist.
    table
        As from :func:`encode_table`.

    Examples
    --------
    >>> import ghrr, pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada"}])
    >>> path = f"{tempfile.mkdtemp()}/people.parquet"
    >>> ghrr.search.write_table(path, ghrr.search.encode_table(index, pa.table({"name": ["Ada"]})))
    >>> pq.read_schema(path).names
    ['name', 'vector']
    """
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        raise value_error(f"the suffix is {suffix!r}, expected one of {', '.join(_SUFFIXES)}; rename the output")
    if suffix == ".lance":
        try:
            import lance  # noqa: PLC0415 (an optional package)
        except ImportError as error:
            raise ImportError(named(f"Lance needs pylance; {install_hint('search')}")) from error
        if Path(path).exists():
            raise FileExistsError(named("it already exists; choose another name, or remove it", path=path))
        partial = Path(path).with_name(partial_name(path, secrets.token_hex(4)))
        try:
            lance.write_dataset(table, str(partial), mode="create")
            os.rename(partial, path)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return
    import pyarrow.parquet as pq  # noqa: PLC0415

    with atomic_write(path) as temporary:
        pq.write_table(table, temporary)


def partial_name(path: PathLike, token: str) -> str:
    """Return the name of a Lance dataset that is being written."""
    return f".{Path(path).name}.{token}.partial"


def pyarrow() -> Any:
    """Import pyarrow, or say how to install it."""
    try:
        import pyarrow as pa  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(named(f"needs pyarrow; {install_hint('search')}")) from error
    return pa

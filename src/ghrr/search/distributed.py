"""Encode tables with several processes or machines: one shard per file, on dask.

The fields of an index say how to encode: save the index, and give its folder, which all machines must be able to read.
The shards are Parquet files or Lance datasets with a column of vectors, as from :func:`ghrr.search.encode_table`. Any
engine for inner products can search them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ghrr._checks import check_choice
from ghrr.files import PathLike
from ghrr.search.arrow import encode_table, write_table
from ghrr.search.saving import NAME, read_encoder
from ghrr.search.tables import read_documents

_RETRIES = 3  # times that a shard is given to another worker after one was lost


class TableEncoder:
    """Function from tables to tables with a column of vectors; it reads the fields of an index once.

    Use one in each process, for example in an actor of a cluster.

    Parameters
    ----------
    index
        Folder of a saved index.

    Examples
    --------
    >>> import ghrr, pyarrow as pa, tempfile
    >>> from ghrr.search.distributed import TableEncoder
    >>> folder = tempfile.mkdtemp()
    >>> index = ghrr.search.RecordIndex()
    >>> index.add([{"name": "Ada"}, {"name": "Alan"}])
    >>> index.save(folder)
    >>> TableEncoder(folder)(pa.table({"name": ["Grace"]})).column_names
    ['name', 'vector']
    """

    def __init__(self, index: PathLike) -> None:
        self._encoder = read_encoder(Path(index) / NAME)[0]

    def __call__(self, table: Any) -> Any:
        return encode_table(self._encoder, table)


def encode_shard(index: str, source: str, out: str) -> str:
    """Encode the documents of one file and write them as one shard; a shard that exists is kept."""
    import pyarrow as pa  # noqa: PLC0415 (an optional package)

    if not Path(out).exists():
        write_table(out, TableEncoder(index)(pa.Table.from_pylist(list(read_documents(source)))))
    return out


def encode_with_dask(
    client: Any, index: PathLike, sources: Sequence[PathLike], out: PathLike, *, form: str = "parquet"
) -> list[str]:
    """Encode files on a dask cluster, one shard per file.

    If a worker is lost, another one encodes its shards. Run it again after an error or an interrupt: finished shards
    are kept.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    index
        Folder of a saved index, which all workers can read.
    sources
        Files, as for :func:`ghrr.search.read_documents`.
    out
        Folder for the shards.
    form
        ``"parquet"`` or ``"lance"``.

    Returns
    -------
    list of str
        The shards, in the order of the sources.
    """
    check_choice("encode_with_dask", "form", form, ("parquet", "lance"))
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    names = [str(folder / f"{number:05d}-{Path(source).stem}.{form}") for number, source in enumerate(sources)]
    futures = [
        client.submit(encode_shard, str(index), str(source), name, retries=_RETRIES, pure=False)
        for source, name in zip(sources, names, strict=True)
    ]
    shards: list[str] = client.gather(futures)
    return shards

"""Encode tables with several processes or machines: one shard per file, on Ray or dask.

The fields of an index say how to encode: save the index, and give its folder, which all machines must be able to read.
A shard is a Parquet file or a Lance dataset with the columns

- ``id``: text, the number of the file and of the row in it, such as ``"3-17"``, or a field of the document,
- ``document``: the document as JSON, so that all shards have the same columns,
- ``vector``: a fixed-size list of float32. The dot product of two vectors is the similarity.

Any engine for inner products can search them. :func:`index_shards` makes an index of them without encoding again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ghrr.checks import check_choice, check_integer, install_hint, named, names_errors
from ghrr.files import PathLike, parse_json
from ghrr.memory import Backend
from ghrr.search.arrow import (
    VECTOR,
    as_rows,
    as_vectors,
    encode_table,
    partial_name,
    pyarrow,
    vector_column,
    write_table,
)
from ghrr.search.documents import as_json
from ghrr.search.folder import open_fields
from ghrr.search.index import RecordIndex
from ghrr.search.tables import id_of_document, read_documents

_RETRIES = 3  # times that a shard is given to another worker after one was lost
_FORMS = ("parquet", "lance")
_ROWS = 4096  # read from a shard at a time


@names_errors
class TableEncoder:
    """Callable that adds a column of vectors to a table; it reads the fields of an index once.

    Use it in an actor of a cluster, for example with Ray Data:
    ``dataset.map_batches(TableEncoder, fn_constructor_args=[folder], batch_format="pyarrow")``.

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
        self._encoder = open_fields(index)[0]

    def __call__(self, table: Any) -> Any:
        return encode_table(self._encoder, table)


@names_errors
class ShardEncoder:
    """Function that encodes a file and writes it as one shard; it reads the fields of an index once.

    A shard that exists is kept. A shard appears when it is complete, also if the process is killed.

    Parameters
    ----------
    index
        Folder of a saved index.
    identifier
        Field of the documents that holds the id.
    """

    def __init__(self, index: PathLike, identifier: str | None = None) -> None:
        self._encoder = open_fields(index)[0]
        self._identifier = identifier

    def write(self, source: str, shard: str) -> str:
        """Encode the documents of ``source`` and write them to ``shard``."""
        if Path(shard).exists():
            return shard
        pa = pyarrow()
        documents = list(read_documents(source))
        number = Path(shard).name.partition("-")[0]
        ids = [
            f"{int(number)}-{row}" if self._identifier is None else id_of_document(document, self._identifier, row)
            for row, document in enumerate(documents)
        ]
        texts = as_json(documents, source)
        vectors = vector_column(as_rows(self._encoder, self._encoder.encode(documents)))
        columns = {"id": pa.array(ids, pa.string()), "document": pa.array(texts, pa.string()), VECTOR: vectors}
        write_table(shard, pa.table(columns))
        return shard

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Write the shards of a batch of Ray Data."""
        pairs = zip(batch["source"], batch["shard"], strict=True)
        return {"shard": np.array([self.write(str(source), str(shard)) for source, shard in pairs])}


def _encode_shard(index: str, identifier: str | None, source: str, shard: str) -> str:
    return ShardEncoder(index, identifier).write(source, shard)


def _shards(sources: Sequence[PathLike], out: PathLike, form: str) -> list[tuple[str, str]]:
    """Return each source with the name of its shard."""
    check_choice("form", form, _FORMS)
    folder = Path(out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return [
        (str(Path(source).resolve()), str(folder / f"{number:05d}-{Path(source).stem}.{form}"))
        for number, source in enumerate(sources)
    ]


def _remove_partial(shards: Sequence[str]) -> None:
    """Remove the unfinished files of killed workers."""
    for shard in shards:
        for left in Path(shard).parent.glob(partial_name(shard, "*")):
            shutil.rmtree(left, ignore_errors=True)


@names_errors
def encode_with_dask(
    client: Any,
    index: PathLike,
    sources: Sequence[PathLike],
    out: PathLike,
    *,
    form: str = "parquet",
    identifier: str | None = None,
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
    identifier
        Field of the documents that holds the id.

    Returns
    -------
    list of str
        The shards, in the order of the sources.
    """
    pairs = _shards(sources, out, form)
    folder = str(Path(index).resolve())
    futures = [
        client.submit(_encode_shard, folder, identifier, source, shard, retries=_RETRIES, pure=False)
        for source, shard in pairs
    ]
    shards: list[str] = client.gather(futures)
    _remove_partial(shards)
    return shards


@names_errors
def encode_with_ray(
    index: PathLike,
    sources: Sequence[PathLike],
    out: PathLike,
    *,
    form: str = "parquet",
    identifier: str | None = None,
    workers: int = 2,
) -> list[str]:
    """Encode files on a Ray cluster with Ray Data, one shard per file.

    Each worker is an actor of one CPU. If one is lost, Ray starts another, which encodes its shards. Run it again
    after an error or an interrupt: finished shards are kept. Call ``ray.init(address)`` first; otherwise Ray starts a
    cluster on this machine.

    Parameters
    ----------
    index, sources, out, form, identifier
        As in :func:`encode_with_dask`.
    workers
        Maximum number of actors; fewer start if the cluster has fewer CPUs.

    Returns
    -------
    list of str
        The shards, in the order of the sources.
    """
    workers = check_integer("workers", workers, least=1)
    try:
        import ray.data  # noqa: PLC0415 (an optional package)
    except ImportError as error:
        raise ImportError(named(f"needs ray; {install_hint('ray')}")) from error
    pairs = _shards(sources, out, form)
    missing = [{"source": source, "shard": shard} for source, shard in pairs if not Path(shard).exists()]
    if missing:
        data = ray.data.from_items(missing, override_num_blocks=len(missing))  # one task per shard
        encoded = data.map_batches(
            ShardEncoder,
            fn_constructor_args=[str(Path(index).resolve()), identifier],
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(workers, len(missing))),
            num_cpus=1,
        )
        encoded.materialize()
    shards = [shard for _, shard in pairs]
    _remove_partial(shards)
    return shards


@names_errors
def index_shards(
    index: PathLike,
    shards: Sequence[PathLike],
    *,
    backend: str | Backend = "torch",
    uri: str | None = None,
    approximate: bool = False,
) -> RecordIndex:
    """Return an index of the records in shards, without encoding them again.

    Parameters
    ----------
    index
        Folder of the index whose fields encoded the shards. Its own records are not part of the result.
    shards
        Files of :func:`encode_with_dask` or :func:`encode_with_ray`.
    backend, uri, approximate
        Engine, as in :class:`ghrr.search.RecordIndex`.

    Examples
    --------
    >>> import ghrr, json, pathlib, tempfile
    >>> from ghrr.search.distributed import ShardEncoder, index_shards
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> sample = ghrr.search.RecordIndex()
    >>> sample.add([{"name": "Ada"}, {"name": "Alan"}])
    >>> sample.save(folder / "sample.idx")
    >>> _ = (folder / "people.jsonl").write_text('{"name": "Grace Hopper"}')
    >>> shard = ShardEncoder(folder / "sample.idx").write(str(folder / "people.jsonl"), str(folder / "0-x.parquet"))
    >>> index_shards(folder / "sample.idx", [shard]).search({"name": "grace"})[0].guess
    '0-0'
    """
    encoder, calibration = open_fields(index)
    made = RecordIndex(encoder.space, whole=encoder.whole, backend=backend, uri=uri, approximate=approximate)
    records = made._records
    records.publish(replace(records.state, encoder=encoder, calibration=calibration))
    for shard in shards:
        for batch in _batches(shard):
            documents = [parse_json(text, str(shard)) for text in batch["document"].to_pylist()]
            numbers = batch[VECTOR].flatten().to_numpy().reshape(len(documents), -1)
            vectors = as_vectors(encoder, torch.from_numpy(numbers.copy()))
            records.add(documents, batch["id"].to_pylist(), vectors)
    return made


def _batches(shard: PathLike) -> Any:
    if str(shard).endswith(".lance"):
        import lance  # noqa: PLC0415

        return lance.dataset(str(shard)).to_batches(batch_size=_ROWS)
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq.ParquetFile(shard).iter_batches(_ROWS)

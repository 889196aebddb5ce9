"""Arrow: vectors in tables whose dot product is the similarity; Parquet and Lance files; pandas and polars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ghrr
from ghrr.search import RecordIndex, encode_table, write_table
from ghrr.search.arrow import as_table

ROWS: list[dict[str, Any]] = [
    {"name": "Ada", "born": {"year": 1815}},
    {"name": "Alan", "born": {"year": 1912}},
    {"name": None, "born": None},
]


@pytest.fixture(scope="module")
def index() -> RecordIndex:
    records = RecordIndex()
    records.add(ROWS[:2])
    return records


def vectors_of(table: Any) -> Any:
    column = table["vector"].combine_chunks()
    return column.flatten().to_numpy().reshape(len(column), -1)


def test_dot_product_of_vectors_is_similarity(index: RecordIndex) -> None:
    table = encode_table(index, pa.Table.from_pylist(ROWS))
    rows = vectors_of(table)
    expected = ghrr.pairwise_similarity(
        index._records.state.encoder.encode(ROWS), index._records.state.encoder.encode(ROWS)
    )
    np.testing.assert_allclose(rows @ rows.T, expected.numpy(), atol=1e-5)
    assert pa.types.is_fixed_size_list(table.schema.field("vector").type)


def test_metadata_describes_space_and_fields(index: RecordIndex) -> None:
    stored = json.loads(encode_table(index, pa.Table.from_pylist(ROWS)).schema.metadata[b"ghrr"])
    assert stored["space"] == {"dim": 256, "m": 2, "seed": 0}
    assert [field["name"] for field in stored["fields"]] == ["name", "born.year"]


def test_batches_pandas_and_polars_give_the_same_vectors(index: RecordIndex) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    flat = [{"name": "Ada"}, {"name": "Alan"}]
    expected = vectors_of(encode_table(index, pa.Table.from_pylist(flat)))
    for data in (pa.RecordBatch.from_pylist(flat), pd.DataFrame(flat), pl.DataFrame(flat)):
        np.testing.assert_array_equal(vectors_of(encode_table(index, data)), expected)


@pytest.mark.parametrize("suffix", ["parquet", "lance"])
def test_files_keep_vectors_and_metadata(index: RecordIndex, tmp_path: Path, suffix: str) -> None:
    lance = pytest.importorskip("lance") if suffix == "lance" else None
    table = encode_table(index, pa.Table.from_pylist(ROWS))
    path = tmp_path / f"people.{suffix}"
    write_table(path, table)
    back = pq.read_table(path) if lance is None else lance.dataset(str(path)).to_table()
    np.testing.assert_array_equal(vectors_of(back), vectors_of(table))
    assert pa.types.is_fixed_size_list(back.schema.field("vector").type)


def test_wrong_tables_are_named(index: RecordIndex, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="needs a table"):
        as_table([{"name": "Ada"}])
    with pytest.raises(ValueError, match="already has a column 'vector'"):
        encode_table(index, pa.table({"vector": ["x"]}))
    with pytest.raises(ValueError, match="suffix"):
        write_table(tmp_path / "x.txt", pa.table({"a": [1]}))

"""Reading tables: missing values, encodings, and names of columns."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ghrr.learn import read_table


def test_only_empty_cells_and_nan_are_missing() -> None:
    table = read_table(io.BytesIO(b"name,number\nNone,1\nNA,nan\nnull,NaN\nnan,\n"))
    assert table["name"].fillna("missing").tolist() == ["None", "NA", "null", "missing"]
    assert table["number"].isna().tolist() == [False, True, True, True]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_byte_order_mark_names_the_encoding(encoding: str) -> None:
    with pytest.raises(ValueError, match=f"is {encoding.upper()}, not UTF-8; convert .* iconv -f {encoding} -t utf-8"):
        read_table(io.BytesIO("age,sick\n1,a\n".encode(encoding)))
    assert list(read_table(io.BytesIO("age,sick\n1,a\n".encode("utf-8-sig")))) == ["age", "sick"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf", "the file is empty"),
        (b'"age,sick\n' + b"1,a\n" * 50_000, "the header cannot be read .*; check that quotes are closed"),
    ],
)
def test_files_without_a_header_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_table(io.BytesIO(content))


def test_repeated_column_of_parquet_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table([[1, 2], [3, 4]], names=["x", "x"]), path)
    with pytest.raises(ValueError, match="the column 'x' occurs more than once, expected different names; rename it"):
        read_table(path)
    pq.write_table(pa.table([[1, 2], [3, 4]], names=["x", "y"]), path)
    pd.testing.assert_frame_equal(read_table(path), pd.DataFrame({"x": [1, 2], "y": [3, 4]}))


def test_named_index_of_parquet_is_a_column(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": [7, 8, 3], "x": [1, 2, 3]})
    table.set_index("id").to_parquet(tmp_path / "x.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "x.parquet"), table)
    table.set_index(pd.Index([5, 6, 9])).to_parquet(tmp_path / "y.parquet")  # negative control: an index without a name
    assert list(read_table(tmp_path / "y.parquet")) == ["id", "x"]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(newline: str) -> None:
    table = read_table(io.BytesIO(newline.join(["age,name", '31,"a', 'b"', "32,c"]).encode()))
    assert table["age"].tolist() == [31, 32]
    assert table["name"].str.split().tolist() == [["a", "b"], ["c"]]


def test_codes_keep_their_leading_zeros() -> None:
    content = b"zip,price,share,month,mixed\n01067,007,0.5,01,01\n10115,1.5,00.25,12,x\n,nan,1,,\n"
    table = read_table(io.BytesIO(content))
    assert table["zip"].fillna("").tolist() == ["01067", "10115", ""]
    assert table["month"].fillna("").tolist() == ["01", "12", ""]
    assert table["price"].tolist()[:2] == [7, 1.5]  # negative controls: these are not whole numbers
    assert table["share"].tolist() == [0.5, 0.25, 1]
    assert read_table(io.BytesIO(content), texts=[])["zip"].tolist()[:2] == [1067, 10115]  # as a saved model asks


def test_long_values_are_read() -> None:
    long = "x" * 200_000  # longer than the csv module reads
    assert read_table(io.BytesIO(f"name,age\n{long},1\n".encode()))["name"].tolist() == [long]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_documents_are_a_table(tmp_path: Path, name: str) -> None:
    rows = ['{"age": 31, "home": {"city": "Rome"}, "tags": [1]}', '{"age": 40, "day": "2024-05-01"}']
    (tmp_path / name).write_text("\n".join(rows) if name == "x.jsonl" else f"[{','.join(rows)}]")
    table = read_table(tmp_path / name)
    assert table[["age", "home.city"]].fillna("").to_numpy().tolist() == [[31, "Rome"], [40, ""]]
    assert table["day"].max() == pd.Timestamp("2024-05-01", tz="UTC")
    assert "tags" not in table

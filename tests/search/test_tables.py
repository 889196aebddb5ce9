"""Documents in files: formats, broken lines, and what is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ghrr.search import read_documents

ROWS = [{"name": "Ada", "age": "36"}, {"name": "Alan", "age": "41"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", '{"name": "Ada", "age": "36"}\n\n{"name": "Alan", "age": "41"}\n'),
        ("x.json", '[{"name": "Ada", "age": "36"}, {"name": "Alan", "age": "41"}]'),
        ("x.csv", "\ufeffname,age\nAda,36\nAlan,41\n"),
        ("x.tsv", "name\tage\nAda\t36\nAlan\t41\n"),
    ],
)
def test_text_formats_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert list(read_documents(tmp_path / name)) == ROWS


def test_parquet_is_read(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "x.parquet")
    assert list(read_documents(tmp_path / "x.parquet")) == ROWS
    (tmp_path / "y.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(ValueError, match="not a Parquet file"):
        list(read_documents(tmp_path / "y.parquet"))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"a": 1}\n{"a": \n', "line 2: not valid JSON"),
        ("x.jsonl", '{"a": 1}\n[1]\n', "line 2: expected a JSON object"),
        ("x.csv", "a,b\n1,2\n1\n", "line 3: expected 2 values, got 1"),
        ("x.csv", "a,b\n1,2\n1," + "x" * 200_000 + "\n", "line 3: field larger than field limit"),
        ("x.csv", "a,b\n1,2\n1,\udcfc\n", "line 3: b'\\xfc' is not UTF-8"),
        ("x.jsonl", '\ufeff{"a": 1}\n{"a": "\udcfc"}\n', "line 2: not valid JSON"),
        ("x.json", '[{"a": 1}, 5]', "element 1: expected a JSON object"),
    ],
)
def test_broken_lines_stop_or_are_skipped_as_asked(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=re.escape(message)):
        list(read_documents(tmp_path / name))
    reports: list[str] = []
    assert len(list(read_documents(tmp_path / name, on_error="skip", report=reports.append))) == 1
    assert len(reports) == 1
    assert message in reports[0]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", b"", "suffix is '.txt'"),
        ("x.csv", b"", "the file is empty"),
        ("x.csv", b"a,a\n1,2\n", "same name"),
        ("x.csv", b"a\n\xff\n", "not UTF-8"),
        ("x.json", b'{"a": 1}', "expected a list"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_documents(tmp_path / name))


def test_giant_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.search.tables.MAX_LINE", 100)
    (tmp_path / "x.jsonl").write_text('{"a": "' + "x" * 500 + '"}\n{"a": 1}\n')
    with pytest.raises(ValueError, match="line 1: the line has more than 100 bytes"):
        list(read_documents(tmp_path / "x.jsonl"))
    assert list(read_documents(tmp_path / "x.jsonl", on_error="skip")) == [{"a": 1}]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.jsonl"):
        list(read_documents(tmp_path / "no.jsonl"))

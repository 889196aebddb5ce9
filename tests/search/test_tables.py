"""Documents in files: formats, broken lines, and what is reported."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ghrr.search import read_documents

ROWS = [{"name": "Ada", "age": 36}, {"name": "Alan", "age": 41}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", '{"name": "Ada", "age": 36}\n\n{"name": "Alan", "age": 41}\n'),
        ("x.json", '[{"name": "Ada", "age": 36}, {"name": "Alan", "age": 41}]'),
        ("x.csv", "\ufeffname,age\nAda,36\nAlan,41\n"),
        ("x.tsv", "name\tage\nAda\t36\nAlan\t41\n"),
        ("semicolons.csv", "name;age\nAda;36\nAlan;41\n"),
        ("tabs.csv", "name\tage\nAda\t36\nAlan\t41\n"),
        ("bars.csv", "name|age\nAda|36\nAlan|41\n"),
        ("old_mac.csv", "\r\rname,age\rAda,36\rAlan,41\r"),
        ("marked.json", '\ufeff[{"name": "Ada", "age": 36}, {"name": "Alan", "age": 41}]'),
    ],
)
def test_text_formats_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert list(read_documents(tmp_path / name)) == ROWS


def test_only_columns_of_numbers_have_numbers(tmp_path: Path) -> None:
    header = "price;zip;code;title;size;mixed\n"
    rows = "1.5;01067;a1;1984;10;7\n-2e3;10115;b2;Emma;;8\n007;10115;c3;It;12345678901234567890123;none\n"
    (tmp_path / "x.csv").write_text(header + rows)
    columns = {name: [row[name] for row in read_documents(tmp_path / "x.csv")] for name in header.strip().split(";")}
    assert columns == {
        "price": [1.5, -2e3, "007"],  # 7 would be another text
        "zip": ["01067", "10115", "10115"],
        "code": ["a1", "b2", "c3"],
        "title": ["1984", "Emma", "It"],
        "size": [10, "", "12345678901234567890123"],
        "mixed": ["7", "8", "none"],
    }


def test_standard_input_is_a_csv_table_or_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ('\ufeff\n {"name": "Ada", "age": 36}\n', "\ufeffname;age\nAda;36\n"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert list(read_documents("-")) == ROWS[:1]


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
        ("x.csv", "a,b\n1,2\n1\n", "line 3: the row has 1 value, expected 2"),
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
        ("x.csv", b"a,a\n1,2\n", "the column 'a' occurs more than once, expected different names; rename it"),
        ("x.csv", b"a\n\xff\n", "not UTF-8"),
        ("x.json", b'{"a": 1}', "expected a list"),
        ("x.json", b'[{"a": 1, "a": 2}]', "the key 'a' more than once"),
        ("x.csv", b'"a,b\n' + b"1,2\n" * 50_000, "header cannot be read .*; check that quotes are closed"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_documents(tmp_path / name))


def test_lines_are_counted_after_one_that_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n\xfc,1\n2\n3,4\n")
    reports: list[str] = []
    assert list(read_documents(tmp_path / "x.csv", on_error="skip", report=reports.append)) == [{"a": 3, "b": 4}]
    assert [re.findall(r"line \d", report) for report in reports] == [["line 2"], ["line 3"]]


def test_giant_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.files.json_lines.MAX_LINE", 100)
    (tmp_path / "x.jsonl").write_text('{"a": "' + "x" * 500 + '"}\n{"a": 1}\n')
    with pytest.raises(ValueError, match="line 1: the line has more than 100 bytes"):
        list(read_documents(tmp_path / "x.jsonl"))
    assert list(read_documents(tmp_path / "x.jsonl", on_error="skip")) == [{"a": 1}]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.jsonl"):
        list(read_documents(tmp_path / "no.jsonl"))

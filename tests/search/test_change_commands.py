"""ghrr add and remove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ghrr.search import RecordIndex
from tests.cli.common import invoke

TABLE = "key;name;age;zip\na;Ada Lovelace;36;01067\nb;Alan Turing;41;10115\nc;Grace Hopper;85;20095\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(TABLE)
    result = invoke("index", str(tmp_path / "people.csv"), "-o", str(tmp_path / "people.idx"), "--id", "key")
    assert result.exit_code == 0, result.output
    return tmp_path / "people.idx"


def test_documents_are_added_from_a_file_and_from_standard_input(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_text('{"key": "d", "name": "Emmy Noether"}\n')
    added = invoke("add", str(folder), str(tmp_path / "more.jsonl"), "--id", "key")
    assert added.exit_code == 0, added.output
    assert "1 record added; 4 records in" in " ".join(added.output.split())
    invoke("add", str(folder), "-", stdin="name,age\nKurt,71\n")
    records = RecordIndex.open(folder)
    assert records.ids == ["a", "b", "c", "d", "4"]
    assert records["4"] == {"name": "Kurt", "age": 71}
    assert records.search({"name": "emmy noether"}, 1)[0].guess == "d"


def test_hits_have_the_numbers_of_a_csv_file(folder: Path) -> None:
    hit = json.loads(invoke("search", str(folder), '{"name": "ada"}', "-k", "1", "--json").output)
    assert hit["document"] == {"key": "a", "name": "Ada Lovelace", "age": 36, "zip": "01067"}


@pytest.mark.parametrize("name", ["remove", "delete"])
def test_records_are_removed_by_id(folder: Path, name: str) -> None:
    removed = invoke(name, str(folder), "a", "c")
    assert removed.exit_code == 0, removed.output
    assert RecordIndex.open(folder).ids == ["b"]


def test_ids_to_remove_are_read_from_standard_input(folder: Path) -> None:
    removed = invoke("remove", str(folder), "-", stdin="a\n\nb\n")
    assert "2 records removed; 1 record in" in " ".join(removed.output.split())
    assert RecordIndex.open(folder).ids == ["c"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["add", "{folder}", "{table}", "--id", "key"], "ids must be new"),
        (["add", "{folder}", "{table}", "--id", "name"], "row 2 has no id in the field 'name'"),
        (["add", "{folder}", "{folder}.csv"], "no such file"),
        (["add", "{folder}x", "{table}"], "has no index"),
        (["remove", "{folder}", "a", "zz"], "there is no record 'zz'"),
        (["remove", "{folder}x", "a"], "has no index"),
    ],
)
def test_a_change_that_fails_changes_nothing(folder: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    table = tmp_path / "more.csv"
    table.write_text("key,name\nx,Kurt\na,\n")
    result = invoke(*(text.format(folder=folder, table=table) for text in arguments))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert RecordIndex.open(folder).ids == ["a", "b", "c"]


def test_an_unfinished_index_is_not_changed(folder: Path) -> None:
    (folder / "incomplete.json").write_text("{}")
    for arguments in (["add", str(folder), "-"], ["remove", str(folder), "a"]):
        result = invoke(*arguments)
        assert result.exit_code == 2
        assert "is not finished; repeat the `ghrr index` command" in " ".join(result.output.split())

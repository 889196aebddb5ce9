"""ghrr index, search and dedupe."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ghrr import cli
from ghrr.files import lock_folder
from ghrr.search import RecordIndex
from ghrr.search.saving import VERSION
from tests.cli.common import invoke
from tests.processes import start, wait_until
from tests.search.common import full_disk

PEOPLE = [
    {"name": "Ada Lovelace", "city": "London", "age": 36},
    {"name": "Alan Turing", "city": "London", "age": 41},
    {"name": "Grace Hopper", "city": "New York", "age": 85},
    {"name": "Grace Hoper", "city": "New York", "age": 85},
]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    path = tmp_path / "people.jsonl"
    path.write_text("".join(json.dumps(person) + "\n" for person in PEOPLE))
    return path


@pytest.fixture
def folder(people: Path, tmp_path: Path) -> Path:
    result = invoke("index", str(people), "-o", str(tmp_path / "people.idx"))
    assert result.exit_code == 0, result.output
    assert "4 records" in result.output
    assert "number" in result.output
    return tmp_path / "people.idx"


def test_search_prints_hits_as_table_and_as_json(folder: Path) -> None:
    table = invoke("search", str(folder), '{"name": "ada lovelase"}', "-k", "1")
    assert table.exit_code == 0
    assert "Ada" in table.output
    lines = invoke("search", str(folder), '{"city": "London", "age": 40}', "--json").output.splitlines()
    first = json.loads(lines[0])
    assert first["document"] in PEOPLE[:2]
    assert set(first) == {"id", "score", "probability", "fields", "document"}


def test_search_without_hit_exits_with_1(folder: Path) -> None:
    result = invoke("search", str(folder), '{"name": "zzz"}', "--threshold", "0.9")
    assert result.exit_code == 1
    assert "Nothing found" in result.output


def test_search_reads_examples_from_stdin(folder: Path) -> None:
    text = '{"name": "Alan"}\n{"name": "Ada"}\n'
    result = CliRunner().invoke(cli.app, ["search", str(folder), "-", "-k", "1", "--json"], input=text)
    assert [json.loads(line)["document"]["name"] for line in result.output.splitlines()] == [
        "Alan Turing",
        "Ada Lovelace",
    ]


def test_conditions_are_applied(folder: Path) -> None:
    result = invoke("search", str(folder), '{"age": 80}', "--must-not", '{"city": "New York"}', "--json")
    assert {json.loads(line)["document"]["city"] for line in result.output.splitlines()} == {"London"}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--must", "city=london"], {"Ada Lovelace", "Alan Turing"}),
        (["--must", "age=36"], {"Ada Lovelace"}),
        (["--must", "age=36", "--must", "age=85"], {"Ada Lovelace", "Grace Hopper", "Grace Hoper"}),
        (["--must", "age=40..90"], {"Alan Turing", "Grace Hopper", "Grace Hoper"}),
        (["--must", "age=..41", "--must", "city=London"], {"Ada Lovelace", "Alan Turing"}),
        (["--must-not", "age=50.."], {"Ada Lovelace", "Alan Turing"}),
        (["--must", "name~LACE"], {"Ada Lovelace"}),
        (["--must", "name~a", "--must", '{"city": ["Rome", "New York"]}'], {"Grace Hopper", "Grace Hoper"}),
        (["--must", "age="], set()),
        (["--near", "name=Alan Turin"], {"Alan Turing"}),
    ],
)
def test_conditions_have_short_forms(folder: Path, arguments: list[str], names: set[str]) -> None:
    result = invoke("search", str(folder), '{"*": "a"}', "--json", *arguments)
    found = {json.loads(line)["document"]["name"] for line in result.output.splitlines() if line.startswith("{")}
    assert found == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "{folder}", '{"name": "Ada"}', "--must", "city"], "--must must be FIELD=VALUE"),
        (["search", "{folder}", '{"name": "Ada"}', "--must", "city=a..b"], "must be a number or a date"),
        (["search", "{folder}", '{"name": "Ada"}', "--near", "nowhere=1"], "near: there is no field 'nowhere'"),
        (["search", "{folder}", '{"name": '], "not valid JSON"),
        (["search", "{folder}", "[1]"], "must be a JSON object"),
        (["search", "{folder}", '{"other": 1}'], "has no value in a field"),
        (["search", "{folder}/none", "{}"], "has no index"),
        (["index", "{people}", "-o", "{folder}"], "already exists"),
        (["index", "{people}.txt", "-o", "{folder}2"], "suffix"),
        (["index", "{people}", "-o", "{folder}2", "--id", "key"], "has no id"),
        (["index", "{people}", "-o", "{folder}2", "--kind", "name"], "FIELD=KIND"),
        (["index", "{people}", "-o", "{folder}2", "--kind", "name=words"], "kind of field 'name'"),
        (["dedupe", "{people}", "--threshold", "0.5", "--rate", "0.5"], "threshold or rate"),
        (["dedupe", "{people}", "--id", "city"], "row 2 has the id 'London' of an earlier row"),
        (["index", "{people}", "-o", "{folder}2", "--id", "city"], "row 2 has the id 'London' of an earlier row"),
        (["index", "{people}", "-o", "{folder}2", "--approximate"], "needs another engine"),
        (["index", "{people}", "-o", "{folder}2", "--backend", "sql"], "backend (or an object) must be one of"),
        (["index", "{people}", "-o", "{folder}2", "--backend", "lancedb"], "needs a folder"),
        (["search", "{folder}", '{"age": 1}', "--must", '{"nowhere": 1}'], "no field 'nowhere'"),
    ],
)
def test_mistakes_are_explained(folder: Path, people: Path, arguments: list[str], message: str) -> None:
    result = invoke(
        *(text.format(folder=folder, people=people) if "{f" in text or "{p" in text else text for text in arguments)
    )
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_broken_lines_can_be_skipped(people: Path, tmp_path: Path) -> None:
    people.write_text(people.read_text() + "{broken\n")
    stopped = invoke("index", str(people), "-o", str(tmp_path / "a"))
    assert stopped.exit_code == 2
    assert "line 5" in stopped.output
    skipped = invoke("index", str(people), "-o", str(tmp_path / "b"), "--skip-errors")
    assert skipped.exit_code == 0
    assert "line 5" in skipped.output
    assert len(RecordIndex.open(tmp_path / "b")) == 4


def test_repeated_ids_are_found_across_batches_and_can_be_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ghrr.search.index_folder.BATCH", 2)
    source = tmp_path / "people.csv"
    source.write_text("key,name\na,Ada\nb,Alan\nc,Grace\na,Kurt\n,Emmy\nd,John\n")
    stopped = invoke("index", str(source), "-o", str(tmp_path / "x"), "--id", "key")
    assert stopped.exit_code == 2
    assert "row 4 has the id 'a' of an earlier row" in " ".join(stopped.output.split())
    skipped = invoke("index", str(source), "-o", str(tmp_path / "y"), "--id", "key", "--skip-errors")
    assert skipped.exit_code == 0, skipped.output
    records = RecordIndex.open(tmp_path / "y")
    assert records.ids == ["a", "b", "c", "d"]
    assert records["a"]["name"] == "Ada"


def test_documents_are_read_from_stdin(tmp_path: Path) -> None:
    text = "".join(json.dumps(person) + "\n" for person in PEOPLE)
    made = CliRunner().invoke(cli.app, ["index", "-", "-o", str(tmp_path / "x")], input=text)
    assert made.exit_code == 0, made.output
    assert len(RecordIndex.open(tmp_path / "x")) == 4
    found = CliRunner().invoke(cli.app, ["dedupe", "-", "--threshold", "0.6", "--json"], input=text)
    assert [json.loads(line)["second"] for line in found.stdout.splitlines() if line.startswith("{")] == ["3"]
    assert CliRunner().invoke(cli.app, ["index", "-", "-o", str(tmp_path / "y")], input="").exit_code == 2


def test_approximate_index_shows_its_recall(people: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    made = invoke("index", str(people), "-o", str(tmp_path / "x"), "--backend", "faiss", "--approximate")
    assert made.exit_code == 0, made.output
    assert "100.0% of the ten best" in " ".join(made.output.split())
    assert "recall@10 1.000" in repr(RecordIndex.open(tmp_path / "x"))
    found = invoke("search", str(tmp_path / "x"), '{"name": "alan"}', "--json")
    assert json.loads(found.output.splitlines()[0])["id"] == "1"


def test_server_that_is_away_is_named(people: Path, tmp_path: Path) -> None:
    pytest.importorskip("pymilvus")
    uri = "http://root:secret@127.0.0.1:1"
    result = invoke("index", str(people), "-o", str(tmp_path / "x"), "--backend", "milvus", "--uri", uri)
    assert result.exit_code == 2
    assert "the Milvus server at 'http://***@127.0.0.1:1' failed" in " ".join(result.output.split())
    assert "secret" not in result.output
    assert not (tmp_path / "x").exists()  # the command can be repeated, also with another address


def test_full_disk_is_reported_and_the_command_goes_on_later(tmp_path: Path) -> None:
    source, out = tmp_path / "many.jsonl", tmp_path / "many.idx"
    source.write_text("".join(json.dumps({"name": f"person {i}"}) + "\n" for i in range(300)))
    with full_disk(100_000):
        result = invoke("index", str(source), "-o", str(out))
    assert result.exit_code == 2
    assert "Error:" in result.output
    assert str(out) in "".join(result.output.split())
    result = invoke("index", str(source), "-o", str(out))
    assert result.exit_code == 0, result.output
    assert RecordIndex.open(out).ids == [str(i) for i in range(300)]


def test_folder_that_another_process_writes_is_reported(people: Path, tmp_path: Path) -> None:
    out, good = tmp_path / "people.idx", people.read_text()
    people.write_text(good + "{broken\n")
    assert invoke("index", str(people), "-o", str(out)).exit_code == 2
    people.write_text(good)
    with lock_folder(out):
        result = invoke("index", str(people), "-o", str(out))
    assert result.exit_code == 2
    assert f"process {os.getpid()}" in " ".join(result.output.split())
    assert invoke("index", str(people), "-o", str(out)).exit_code == 0


def test_index_of_another_version_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.search.saving.VERSION", VERSION + 1)
    records = RecordIndex.open(folder)
    records.add([{"another field": 1}])  # so that the fields are written again
    records.save()
    monkeypatch.undo()
    result = invoke("search", str(folder), '{"name": "Ada"}')
    assert result.exit_code == 2
    assert f"version {VERSION + 1}" in " ".join(result.output.split())


def test_dedupe_writes_pairs(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.csv"
    result = invoke("dedupe", str(people), "-o", str(out), "--threshold", "0.6")
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert [(row["first"], row["second"], row["group"]) for row in rows] == [("2", "3", "0")]
    assert invoke("dedupe", str(people), "--threshold", "1").exit_code == 1


def test_force_removes_only_an_index(people: Path, folder: Path, tmp_path: Path) -> None:
    assert invoke("index", str(people), "-o", str(folder), "--force").exit_code == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("keep")
    assert invoke("index", str(people), "-o", str(other), "--force").exit_code == 2
    assert (other / "thesis.txt").read_text() == "keep"


SLOW_SOURCE = """
import sys
import ghrr.search.tables as tables
import ghrr.search.index_folder as index_folder
from ghrr.cli import app
index_folder.BATCH = 100
read = tables.read_documents
def slow(*arguments, **settings):
    for number, document in enumerate(read(*arguments, **settings)):
        if number == 250:
            print("waiting", flush=True)
            input()
        yield document
tables.read_documents = slow
app(sys.argv[1:])
"""


@pytest.mark.slow
def test_index_goes_on_after_an_interrupt(tmp_path: Path) -> None:
    source, out = tmp_path / "many.jsonl", tmp_path / "many.idx"
    source.write_text("".join(json.dumps({"name": f"person {i}"}) + "\n" for i in range(300)))
    command = [sys.executable, "-c", SLOW_SOURCE, "index", str(source), "-o", str(out)]
    import subprocess

    process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "waiting"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode != 0
    assert "200 records are saved" in errors
    assert len(RecordIndex.open(out)) == 200
    result = invoke("index", str(source), "-o", str(out))
    assert result.exit_code == 0, result.output
    assert "Going on after 200 records" in result.output
    assert RecordIndex.open(out).ids == [str(i) for i in range(300)]
    wait_until(lambda: process.poll() is not None)

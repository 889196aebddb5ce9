"""``ghrr encode``, ``query`` and ``decode``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ghrr
from ghrr.structures import Record
from ghrr.structures import commands as records
from tests.cli.common import invoke

ADA = {
    "name": "Ada",
    "born": {"year": 1815, "city": "London"},
    "tags": ["poet", "countess"],
    "a.b": {"1": True},
    "nothing": None,
}


@pytest.fixture
def ada(tmp_path: Path) -> Path:
    source, out = tmp_path / "ada.json", tmp_path / "ada.safetensors"
    source.write_text(json.dumps(ADA))
    assert invoke("encode", str(source), "-o", str(out)).exit_code == 0
    return out


@pytest.fixture
def people(tmp_path: Path) -> Path:
    source, out = tmp_path / "people.jsonl", tmp_path / "people.safetensors"
    lines = [{"id": f"p{i}", "age": 20 + i, "born": {"city": ["Rome", "Paris"][i % 2]}} for i in range(5)]
    source.write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    result = invoke("encode", str(source), "-o", str(out), "--label", "id", "--numbers", "0,100,3")
    assert result.exit_code == 0, result.output
    assert "5 records of Space(" in result.output
    return out


def answers_of(*arguments: str) -> list[dict[str, Any]]:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_decode_returns_the_encoded_document(ada: Path) -> None:
    [found] = answers_of("decode", str(ada))
    assert found["value"] == ADA
    assert found["unexplained"] < 0.5
    assert all(leaf["confident"] for leaf in found["leaves"])
    assert ["born", "city"] in [leaf["path"] for leaf in found["leaves"]]
    table = invoke("decode", str(ada)).output
    assert "born.city" in table
    assert '"London"' in table


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("born.city", "London"),
        ("tags.1", "countess"),
        ("tags[1]", "countess"),
        ('["a.b", "1"]', True),
        ("a.b.1", True),
        ("nothing", None),
    ],
)
def test_query_returns_the_value_at_a_path(ada: Path, path: str, answer: object) -> None:
    [found] = answers_of("query", str(ada), path)
    assert (found["answer"], found["confident"], found["unknown"]) == (answer, True, False)


@pytest.mark.parametrize("path", ["city.born", "born.town", "tags.7"])
def test_query_of_an_absent_path_is_unknown(ada: Path, path: str) -> None:
    [found] = answers_of("query", str(ada), path)
    assert (found["answer"], found["confident"], found["unknown"]) == (None, False, True)
    assert "no value" in invoke("query", str(ada), path).output


def test_an_uncertain_value_is_not_reported_as_absent(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text(json.dumps({f"key {i}": f"value {i}" for i in range(40)}))
    invoke("encode", str(source), "-o", str(tmp_path / "x"), "--dim", "12")
    lines = [invoke("query", str(tmp_path / "x"), f"key {i}").output for i in range(40)]
    assert any("not certain" in line for line in lines)
    assert not any("no value" in line for line in lines)


def test_an_ambiguous_path_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text('{"a.b": 1, "a": {"b": 2}}')
    invoke("encode", str(source), "-o", str(tmp_path / "x"))
    assert 'is ambiguous; use ["a.b"] or ["a", "b"]' in fails("query", str(tmp_path / "x"), "a.b")


def test_infinite_errors_are_null_in_json(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text('{"x": 0, "y": 100, "z": 0}')
    invoke("encode", str(source), "-o", str(tmp_path / "x"), "--numbers", "0,100,5")
    result = invoke("decode", str(tmp_path / "x"), "--json")
    leaves = json.loads(result.output, parse_constant=pytest.fail)["leaves"]
    assert None in [leaf["error"] for leaf in leaves]  # infinite at the end of a scale


def test_query_returns_a_dict_at_a_path(ada: Path) -> None:
    [found] = answers_of("query", str(ada), "born")
    assert found["value"] == ADA["born"]
    assert '{"year": 1815, "city": "London"}' in invoke("query", str(ada), "born").output


def test_json_lines_become_an_item_memory(people: Path) -> None:
    assert [found["answer"] for found in answers_of("query", str(people), "born.city")] == ["Rome", "Paris"] * 2 + [
        "Rome"
    ]
    [found] = answers_of("query", str(people), "age", "--record", "p3")
    assert abs(found["answer"] - 23) < 5 * found["error"]
    memory = ghrr.ItemMemory.load(people)
    assert memory.labels == [f"p{i}" for i in range(5)]
    assert memory.about is not None
    codec = Record.from_state(memory.space, memory.about)
    [match] = memory.match(codec.encode_many([{"id": "p2", "age": 22, "born": {"city": "Rome"}}]))  # type: ignore[misc]
    assert match.label == "p2"


def test_space_is_given_or_chosen_by_record_size(tmp_path: Path) -> None:
    source = tmp_path / "x.json"
    source.write_text('{"a": 1}')
    invoke("encode", str(source), "-o", str(tmp_path / "x"), "--dim", "300", "--m", "2", "--seed", "5")
    assert ghrr.ItemMemory.open(tmp_path / "x").space == ghrr.Space(dim=300, m=2, seed=5)
    large = tmp_path / "large.json"
    large.write_text(json.dumps({f"key {i}": f"value {i}" for i in range(200)}))
    invoke("encode", str(large), "-o", str(tmp_path / "y"))
    [found] = answers_of("decode", str(tmp_path / "y"))
    assert found["value"] == json.loads(large.read_text())


def array_of_people(folder: Path, count: int) -> Path:
    source = folder / "people list.json"
    source.write_text(json.dumps([{f"field {n}": f"value {n} {i}" for n in range(13)} for i in range(count)]))
    return source


def test_an_array_of_objects_gives_a_hint_to_json_lines(tmp_path: Path) -> None:
    source = array_of_people(tmp_path, 2)
    result = invoke("encode", str(source), "-o", str(tmp_path / "x"))
    assert result.exit_code == 0
    assert f"jq -c '.[]' '{source}'" in " ".join(result.output.split())
    lines = tmp_path / "people.jsonl"
    lines.write_text("\n".join(json.dumps(item) for item in json.loads(source.read_text())))
    assert "jq" not in invoke("encode", str(lines), "-o", str(tmp_path / "y")).output  # negative control


def test_chosen_space_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.structures.commands._MAX_TOTAL_DIM", 900)
    result = invoke("encode", str(array_of_people(tmp_path, 20)), "-o", str(tmp_path / "x"))
    assert result.exit_code == 0
    assert ghrr.ItemMemory.open(tmp_path / "x").space.total_dim == 900
    assert "260 values is above the capacity" in " ".join(result.output.split())


def test_encode_refuses_data_that_does_not_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ghrr.structures.commands._memory_limit", lambda: 1 << 30)
    source = array_of_people(tmp_path, 20)
    message = fails("encode", str(source), "-o", str(tmp_path / "x"), "--dim", "1000000")
    assert "need about" in message
    assert "GiB of memory, expected at most 1.0 GiB" in message
    assert "jq -c" in message
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("limit", "expected"), [("1073741824\n", 3 << 28), ("max\n", None)])
def test_memory_limit_respects_the_control_group(
    limit: str, expected: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ghrr.structures.commands._CGROUP_LIMITS", ())
    of_machine = records._memory_limit()
    (tmp_path / "memory.max").write_text(limit)
    monkeypatch.setattr(
        "ghrr.structures.commands._CGROUP_LIMITS", (str(tmp_path / "memory.max"), str(tmp_path / "none"))
    )
    assert records._memory_limit() == (of_machine if expected is None else min(of_machine, expected))


def test_decode_reads_a_file_of_version_0_1(tmp_path: Path) -> None:
    space = ghrr.Space(300, 3)
    state = {"format": "ghrr-record", "version": 1, "numbers": None, "level": 0.99, "paths": [["name"], ["tags", 0]]}
    keys = space.vectors(["key:name", "key:tags", "place:0"], namespace="record key")
    ada, poet = space.vectors(["string:Ada", "string:poet"], namespace="record value")
    memory = ghrr.ItemMemory(space)
    memory.add(["a"], (keys[0] @ ada + keys[1] @ keys[2] @ poet)[None])
    memory.save(tmp_path / "old", about={**state, "values": ["string:Ada", "string:poet"]})
    [found] = answers_of("decode", str(tmp_path / "old"))
    assert found["value"] == {"name": "Ada", "tags": ["poet"]}


def fails(*arguments: str, stdin: str | None = None) -> str:
    result = invoke(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_existing_file_is_kept_without_force(ada: Path) -> None:
    before = ada.read_bytes()
    source = ada.with_suffix(".json")
    assert "already exists; choose another file, or overwrite it with --force" in fails(
        "encode", str(source), "-o", str(ada)
    )
    assert ada.read_bytes() == before
    assert invoke("encode", str(source), "-o", str(ada), "--force", "--seed", "1").exit_code == 0
    assert ada.read_bytes() != before


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", '{"a": 1, "a": 2}', "the key 'a' more than once"),
        ("x.json", '{"a": NaN}', "NaN is not a JSON number"),
        ("x.json", "{", "not valid JSON"),
        ("x.jsonl", '{"a": 1}\n{"a"\n', "x.jsonl, line 2: not valid JSON"),
        ("x.jsonl", '{"a": 1}\n', "line 1: the label must be a string or an integer with the key 'id', got"),
        ("x.jsonl", '{"id": 1}\n{"id": 1}\n', "1"),
        ("x.json", "[" * 100_000, "nested too deeply"),
        ("x.jsonl", "\n", "contains no record"),
    ],
)
def test_bad_documents_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    assert message in fails("encode", str(tmp_path / name), "-o", str(out), "--label", "id")
    assert not out.exists()


def test_bad_queries_are_refused(ada: Path, people: Path, tmp_path: Path) -> None:
    assert "no such file" in fails("query", str(tmp_path / "none"), "a")
    assert "not a readable safetensors file" in fails("decode", str(ada.with_suffix(".json")))
    assert "no record has the label 'p9'; the 5 labels start with p0, p1" in fails(
        "query", str(people), "age", "--record", "p9"
    )
    assert "must be a list of keys and list indices" in fails("query", str(ada), "[1.5]")
    assert "the path [bad is not a JSON list" in fails("query", str(ada), "[bad")
    assert "does not exist; create it first" in fails(
        "encode", str(ada.with_suffix(".json")), "-o", str(tmp_path / "no" / "x")
    )
    assert "needs three numbers, LOW,HIGH,BANDWIDTH" in fails(
        "encode", str(ada.with_suffix(".json")), "-o", str(tmp_path / "n"), "--numbers", "1,2"
    )
    ghrr.ItemMemory(ghrr.Space(dim=10, m=2), ["a"]).save(tmp_path / "items")
    assert "hypervectors without a vocabulary" in fails("query", str(tmp_path / "items"), "a")
    content = people.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2] ^= 1
    people.write_bytes(changed)
    assert "damaged or changed" in fails("query", str(people), "age")
    people.write_bytes(content[:-10])
    assert "truncated" in fails("query", str(people), "age")


UNSAFE = "[/x]\x1b[31m\x9b2J\u202e\u2066"


@pytest.mark.parametrize(
    ("unsafe", "shown"),
    [("[/x]", "[/x]"), ("\x1b[2J", r"\x1b[2J"), ("\x9b2J", r"\x9b2J"), ("\u202e\u2066", r"\u202e\u2066")],
)
def test_labels_keys_and_values_cannot_control_the_terminal(tmp_path: Path, unsafe: str, shown: str) -> None:
    name = unsafe.replace("/", "")  # which no file can have in its name
    source, out = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.safetensors"
    source.write_text(json.dumps({"id": f"l{unsafe}", f"k{unsafe}": {"a": f"v{unsafe}"}}) + "\n")
    encoded = invoke("encode", str(source), "-o", str(out), "--label", "id")
    key = json.dumps([f"k{unsafe}"])
    decoded, answered = invoke("decode", str(out)), invoke("query", str(out), key)
    refused = [invoke("query", str(out), key, "--record", unsafe), invoke("encode", str(source), "-o", str(out))]
    results = (encoded, decoded, answered, *refused)
    assert [result.exit_code for result in results] == [0, 0, 0, 2, 2]
    for result in results:
        assert not set("\x1b\x9b\u202e\u2066") & set(result.output)
    assert f"l{shown}" in decoded.output
    assert f"k{shown}.a" in decoded.output
    assert f"l{shown}" in answered.output


def test_json_output_has_unescaped_labels(tmp_path: Path) -> None:
    source, out = tmp_path / "a.jsonl", tmp_path / "a.safetensors"
    source.write_text(json.dumps({"id": UNSAFE, UNSAFE: UNSAFE}) + "\n")
    assert invoke("encode", str(source), "-o", str(out), "--label", "id").exit_code == 0
    result = invoke("decode", str(out), "--json")
    assert result.output.strip().isascii()
    assert "\x1b" not in result.output
    assert json.loads(result.output)["record"] == UNSAFE
    assert json.loads(result.output)["value"] == {"id": UNSAFE, UNSAFE: UNSAFE}


@pytest.mark.parametrize("text", ['{"born": {"city": "London"}}', '{\n"born":\n{"city": "London"}}\n'])
def test_records_go_through_standard_input_and_output(text: str) -> None:
    encoded = invoke("encode", "-", "-o", "-", stdin=text)
    assert encoded.exit_code == 0, encoded.stderr
    [line] = invoke("query", "-", "born.city", "--json", stdin=encoded.stdout_bytes).stdout.splitlines()
    assert json.loads(line)["answer"] == "London"
    [line] = invoke("decode", "-", "--json", stdin=encoded.stdout_bytes).stdout.splitlines()
    assert json.loads(line)["value"] == {"born": {"city": "London"}}


def test_json_lines_on_standard_input_are_records(tmp_path: Path) -> None:
    invoke("encode", "-", "-o", str(tmp_path / "x"), stdin='{"age": 1}\n{"age": 2}\n')
    assert [found["answer"] for found in answers_of("query", str(tmp_path / "x"), "age")] == [1, 2]


def test_a_fault_in_standard_input_is_named(tmp_path: Path) -> None:
    assert "<stdin>.jsonl, line 2: " in fails("encode", "-", "-o", str(tmp_path / "x"), stdin='{"a": 1}\n{"a":\n')
    assert "'<stdin>'): not a readable safetensors file" in fails("decode", "-", stdin="x")

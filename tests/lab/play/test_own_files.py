"""Files of a user in the tabs Search and Learn, without a server."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sklearn.datasets import load_diabetes, load_iris

from ghrr_lab.play import own_table, search
from ghrr_lab.play.app import make_tabs, show
from ghrr_lab.play.tab import File, Tab, View

TABS: dict[str, Tab] = {tab.name: tab for tab in make_tabs()}
FILES = {"search": "documents", "learn": "table"}
both_tabs = pytest.mark.parametrize("name", FILES)
PEOPLE = "people.jsonl\n" + "\n".join(
    f'{{"name": "{name} {number}", "home": {{"city": "{city}"}}, "kind": "{city[0]}", "tags": ["x"]}}'
    for number, (name, city) in enumerate([("Ada", "Rome"), ("Kurt", "Oslo"), ("Emmy", "日本")] * 8)
)


def open_file(name: str, file: Any, **values: Any) -> View:
    return show(TABS[name], {**TABS[name].defaults, FILES[name]: file, **values})


def as_csv(table: Any, name: str = "data.csv") -> str:
    return f"{name}\n{table.to_csv(index=False)}"


def description(view: View) -> str:
    found = re.search('aria-label="([^"]*)"', view.picture)
    assert found is not None, view.picture
    return found[1]


def test_records_of_a_file_are_found_by_an_example() -> None:
    view = open_file("search", PEOPLE, example='{"name": "emmi 5", "home": {"city": "日本"}}')
    assert description(view).startswith("Scores of the best 5 of 24 records for dim 64, m 2: record 5 ")
    assert view.updates["records"] == {"visible": False}
    assert "index.add(read_documents('people.jsonl'))" in view.code


def test_a_new_file_brings_an_example_from_its_first_record() -> None:
    view = open_file("search", PEOPLE)
    example = '{"name": "Ada 0", "home": {"city": "Rome"}, "kind": "R"}'
    assert view.updates["example"] == {"value": example}
    assert "record 0 1.00" in description(view)
    without = show(TABS["search"], TABS["search"].defaults)
    assert without.updates == {"records": {"visible": True}}


def test_classes_of_a_table_are_learned_and_the_last_column_is_suggested() -> None:
    iris = load_iris(as_frame=True).frame
    view = open_file("learn", as_csv(iris))
    assert view.updates["target"] == {"choices": list(iris.columns), "value": "target", "visible": True}
    assert view.updates["drawing"] == {"visible": False}
    right, count = map(int, re.findall(r"(\d+) of (\d+) held-out rows are correct", description(view))[0])
    assert right / count > 0.9
    shuffled = iris.assign(target=iris["target"].sample(frac=1, random_state=0).to_numpy())
    right, count = map(
        int, re.findall(r"(\d+) of (\d+) held-out", description(open_file("learn", as_csv(shuffled))))[0]
    )
    assert right / count < 0.6  # negative control


def test_numbers_of_a_table_are_learned() -> None:
    view = open_file("learn", as_csv(load_diabetes(as_frame=True).frame))
    assert "Predictions of the column target" in description(view)
    [score] = re.findall(r"R² is (-?[\d.]+) on 111 held-out rows", description(view))
    assert 0.3 < float(score) < 1


def test_column_to_predict_is_chosen_and_one_of_an_old_file_is_replaced() -> None:
    assert "Predictions of the column name" not in description(open_file("learn", PEOPLE, target="name 2"))
    view = open_file("learn", PEOPLE, target="kind")
    assert "Predictions of the column kind" in description(view)
    assert view.updates["target"]["choices"] == ["name", "kind", "home.city"]  # without the list


@both_tabs
@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("notes.txt\nhello", "must end in .csv, .tsv, .jsonl, .ndjson, .json, got &#x27;notes.txt&#x27;"),
        ("a.csv\n", "a.csv: the file is empty"),
        ("a.csv\na,a\n1,2", "name"),
        ("a.json\n{", "a.json: not valid JSON"),
        ('a.jsonl\n{"a": 1}\n[1]', "a.jsonl, line 2: expected a JSON object, got list"),
        ("a.jsonl\n", "has no rows, expected "),
        ("a.csv\na,b\n" + "1,2\n" * 2001, "has more than 2,000 rows, expected 1 to 2,000"),
        ("a.csv\n" + "x" * 1_000_000, "the file must have at most 1,000,000 bytes, got 1,000,006; keep fewer"),
        ("a.csv\na,b\n\ud800,1", "is not UTF-8"),
        ("../../<b>.csv\n", "&lt;b&gt;.csv: the file is empty"),
        (None, "must be the name and the text of a file, got NoneType None"),
        ({"path": "/etc/passwd"}, "must be the name and the text of a file, got dict"),
    ],
)
def test_unusable_file_is_named_without_the_paths_of_the_server(name: str, file: Any, message: str) -> None:
    view = open_file(name, file)
    assert 'role="alert">play: ' in view.picture
    assert message in view.picture
    assert "/tmp" not in view.picture
    assert view.code == ""
    if name == "learn":
        assert view.updates == {"target": {"choices": []}}  # of the old file


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("a.csv\na\n1\n2", "has 1 columns without lists, expected 2 to 60"),
        ('a.jsonl\n{"a": [1], "b": 2}', "has 1 columns without lists"),
        ("a.csv\n" + ",".join(map(str, range(61))) + "\n" + ",".join("1" * 61), "has 61 columns"),
        ("a.csv\na,b\n" + "1,x\n1,y\n" * 3, "has 6 rows with a value of &#x27;b&#x27;, expected at least 8"),
        ("a.csv\na,b\n" + "1,x\n" * 9, "has only one class"),
    ],
)
def test_table_from_which_nothing_can_be_learned_is_named(file: str, message: str) -> None:
    assert message in open_file("learn", file).picture


@both_tabs
def test_names_and_values_of_a_file_are_escaped(name: str) -> None:
    rows = "".join(f"<img src=x>{n % 2},$x^${n},{n % 3}\n" for n in range(24))
    view = open_file(name, f"<script>.csv\n<b>a</b>,$\\frac{{$,日本\n{rows}")
    assert description(view)
    assert not re.search("<(img|script|b>a)", view.picture)


def test_limits_are_those_of_the_controls() -> None:
    files = {tab.name: control for tab in TABS.values() for control in tab.controls if isinstance(control, File)}
    assert files.keys() == set(FILES)
    assert files["search"].max_rows == search.MAX_ROWS
    assert files["learn"].max_rows == own_table.MAX_ROWS
    for name, file in files.items():
        assert set(file.resets) < set(TABS[name].defaults)
        assert TABS[name].failure.values[file.name] == ""

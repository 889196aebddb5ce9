"""``ghrr learn`` and ``ghrr predict``: reports, predictions, and what is said about wrong input."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr import learn
from ghrr.learn import HDClassifier, KernelFeatures
from ghrr.learn.auto_encoder import table_encoder
from tests.cli.common import invoke

SMALL = ("--dim", "100", "--folds", "3")


def messy_table(rows: int = 90) -> pd.DataFrame:
    """A table in which the age and the city decide on ``sick``, with gaps."""
    draw = np.random.default_rng(0)
    age, city = draw.integers(20, 80, rows).astype(float), draw.choice(["Rome", "Oslo"], rows)
    sick = np.where((age > 50) == (city == "Rome"), "yes", "no")
    age[::10] = np.nan
    note = np.where(sick == "yes", "coughs at night", "feels well")
    zips = draw.integers(100, 999, rows).astype(str)
    zips[0] = "x1"
    columns = {"age": age, "city": city, "zip": zips, "note": note, "day": ["2024-05-01"] * rows, "sick": sick}
    return pd.DataFrame(columns)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.csv"
    messy_table().to_csv(path, index=False)
    return path


@pytest.fixture
def model(data: Path) -> Path:
    path = data.with_name("model.safetensors")
    result = invoke("learn", str(data), "--target", "sick", "-o", str(path), "--text", "note", *SMALL)
    assert result.exit_code == 0, result.output
    return path


def report_of(data: Path, *arguments: str) -> dict[str, Any]:
    out = data.with_name("other.safetensors")
    result = invoke("learn", str(data), "-o", str(out), "--json", "--force", *SMALL, *arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def fails(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


# ------------------------------------------------------------------------------------------------------------ learning


def test_report_shows_kinds_scores_baseline_and_classes(data: Path) -> None:
    result = invoke("learn", str(data), "--target", "sick", "-o", str(data.with_name("m")), "--text", "note", *SMALL)
    words = " ".join(result.output.split())
    assert "Classification of 90 rows" in words
    assert "age number 10.0%" in words
    assert "city category 0.0%" in words
    assert "note text" in words
    assert "day date" in words
    assert "balanced accuracy 1 0 0.5" in words
    assert "baseline: most frequent class" in words
    count = int((messy_table()["sick"] == "yes").sum())
    assert f"yes 1.000 1.000 1.000 {count}" in words


def test_json_report_equals_scores_of_scikit_learn(data: Path) -> None:
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    table = messy_table()
    X, y = table[["age", "city"]], table["sick"].to_numpy(dtype=object)
    report = report_of(data, "--target", "sick", "--drop", "note", "--drop", "zip", "--drop", "day")
    assert (report["task"], report["rows"], report["columns"]) == (
        "classification",
        90,
        {"age": "number", "city": "category"},
    )
    encoder = table_encoder(100, random_state=0)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    for place, scoring in enumerate(["accuracy", "balanced_accuracy", "f1_macro", "neg_log_loss"]):
        expected = cross_val_score(HDClassifier(encoder, random_state=0), X, y, cv=folds, scoring=scoring)
        score = report["scores"][place]
        assert score["mean"] == pytest.approx(abs(expected.mean()), rel=1e-6)
        assert score["std"] == pytest.approx(expected.std(ddof=1), rel=1e-6)
    assert report["scores"][0]["baseline"] == pytest.approx(max(np.mean(y == "yes"), np.mean(y == "no")), abs=0.02)
    assert report["scores"][0]["mean"] > 0.7
    assert report_of(data, "--target", "sick", "--seed", "1")["scores"] != report["scores"]


def test_task_follows_the_target_and_can_be_chosen(data: Path) -> None:
    report = report_of(data, "--target", "age", "--drop", "zip")
    assert report["task"] == "regression"
    assert [score["name"] for score in report["scores"]] == ["R²", "mean absolute error", "root mean squared error"]
    assert report["notes"] == ["9 rows without a value of age are left out"]
    table = messy_table()
    table["grade"] = np.arange(90) % 3
    table.to_csv(data, index=False)
    assert report_of(data, "--target", "grade")["task"] == "classification"
    assert report_of(data, "--target", "grade", "--task", "regression")["task"] == "regression"


@pytest.mark.parametrize("training", ["centroid", "online"])
def test_training_is_passed_to_the_classifier(training: str, data: Path) -> None:
    report_of(data, "--target", "sick", "--training", training)
    assert learn.load(data.with_name("other.safetensors")).training == training


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_all_formats_give_the_same_report(suffix: str, data: Path) -> None:
    table, other = messy_table(), data.with_suffix(suffix)
    table["day"] = pd.to_datetime(table["day"])
    table.to_csv(other, sep="\t", index=False) if suffix == ".tsv" else table.to_parquet(other)
    assert report_of(other, "--target", "sick")["scores"] == report_of(data, "--target", "sick")["scores"]


def test_column_without_values_is_ignored_with_a_note(data: Path) -> None:
    table = messy_table().assign(nothing=np.nan)
    table.to_csv(data, index=False)
    report = report_of(data, "--target", "sick", "--drop", "zip")
    assert report["columns"]["nothing"] == "ignore"
    assert report["notes"] == ["the column nothing has no values and is ignored"]


@pytest.mark.parametrize("name", ["None", "NA", "null"])
def test_class_with_the_name_of_a_missing_value_is_learned(name: str, data: Path) -> None:
    table = messy_table().replace({"sick": {"yes": name}})
    table.to_csv(data, index=False)
    classes = report_of(data, "--target", "sick")["classes"]
    assert {score["label"]: score["count"] for score in classes} == table["sick"].value_counts().to_dict()
    table.loc[0, "sick"] = "NaN"  # negative control: this is a missing value
    table.to_csv(data, index=False)
    assert report_of(data, "--target", "sick")["rows"] == 89


def test_values_that_are_not_numbers_or_dates_are_reported(data: Path) -> None:
    table = messy_table().drop(columns="zip").astype({"age": object})
    table.loc[[1, 2], "age"] = "NA"
    table.loc[0, "day"] = "monday"
    table.to_csv(data, index=False)
    result = invoke("learn", str(data), "--target", "sick", "-o", str(data.with_name("m")), *SMALL)
    assert result.exit_code == 0, result.output
    assert [line for line in result.stderr.splitlines() if line] == [
        "Warning: the column 'age' has the kind number, but 2 of its 81 values are not numbers, such as 'NA'; "
        "correct them, or leave them empty if they are unknown",
        "Warning: the column 'day' has the kind date, but 1 of its 90 values is not a date: 'monday'; "
        "correct it, or leave it empty if it is unknown",
    ]
    table.loc[[1, 2], "age"] = table.loc[0, "day"] = None  # negative control
    table.to_csv(data, index=False)
    assert report_of(data, "--target", "sick")["notes"] == []


def test_unnamed_column_is_reported_with_the_option_that_drops_it(data: Path) -> None:
    messy_table().drop(columns="zip").to_csv(data)
    notes = report_of(data, "--target", "sick")["notes"]
    assert notes == ["the column 'Unnamed: 0' has the kind ignore (values that look like identifiers)"]
    messy_table().drop(columns="zip").rename(columns={"age": ""}).to_csv(data, index=False)
    (note,) = report_of(data, "--target", "sick")["notes"]
    assert "--drop 'Unnamed: 0'" in note
    assert report_of(data, "--target", "sick", "--drop", "Unnamed: 0")["notes"] == []


# ---------------------------------------------------------------------------------------------------------- predicting


def predictions_of(model: Path, table: pd.DataFrame) -> pd.DataFrame:
    new = model.with_name("new.csv")
    table.to_csv(new, index=False)
    result = invoke("predict", str(model), str(new), "-o", str(model.with_name("p.csv")), "--force")
    assert result.exit_code == 0, result.output
    return pd.read_csv(model.with_name("p.csv"))


def test_predictions_have_probabilities_that_add_up(model: Path) -> None:
    table = messy_table()
    found = predictions_of(model, table.drop(columns="sick"))
    assert list(found) == ["prediction", "probability no", "probability yes"]
    assert (found["prediction"] == table["sick"]).all()
    np.testing.assert_allclose(found["probability no"] + found["probability yes"], 1, atol=2e-6)


def test_column_order_and_extra_columns_do_not_matter(model: Path) -> None:
    table = messy_table()
    expected = predictions_of(model, table.drop(columns="sick"))
    changed = table[table.columns[::-1]].assign(id=range(90))
    assert predictions_of(model, changed).equals(expected)
    result = invoke("predict", str(model), str(model.with_name("new.csv")))
    assert "these columns are not used by the model: sick, id" in result.stderr
    assert pd.read_csv(io.StringIO(result.stdout)).equals(expected)


def test_category_that_looks_like_a_number_is_read_as_it_was_learned(model: Path) -> None:
    table = messy_table().iloc[1:]  # without the one zip that is not a number
    found = predictions_of(model, table.drop(columns="sick"))
    assert found.equals(predictions_of(model, messy_table().drop(columns="sick")).iloc[1:].reset_index(drop=True))


def test_unknown_categories_and_missing_values_are_predicted(model: Path) -> None:
    row = pd.DataFrame({"age": [None], "city": ["Lima"], "zip": [None], "note": ["coughs"], "day": [None]})
    assert predictions_of(model, row)["prediction"].tolist() == ["yes"]


def test_rows_with_unknown_categories_are_counted(model: Path, data: Path) -> None:
    table = messy_table().drop(columns="sick")
    table.to_csv(data, index=False)
    assert invoke("predict", str(model), str(data)).stderr == ""
    table.loc[:2, "city"] = "Lima"
    table.loc[5, "city"] = np.nan  # missing is not unknown
    table.loc[4, "zip"] = "x2"  # a text
    table.to_csv(data, index=False)
    assert invoke("predict", str(model), str(data)).stderr.splitlines() == [
        "Warning: 3 rows have unknown values in 'city', such as 'Lima'; treated as missing"
    ]


def test_warnings_about_unknown_categories_are_at_most_ten(data: Path) -> None:
    names = [f"c{i}" for i in range(12)]
    table = pd.DataFrame({name: ["a", "b"] * 10 for name in [*names, "y"]})
    table.to_csv(data, index=False)
    report_of(data, "--target", "y")
    table[:1].replace("a", "c").to_csv(data, index=False)
    warnings = invoke("predict", str(data.with_name("other.safetensors")), str(data)).stderr.splitlines()
    assert len(warnings) == 1 + 10 + 1  # the first names the column that the model does not use
    assert warnings[-1] == "Warning: 2 more columns have unknown values"


def test_predict_reads_standard_input_and_writes_standard_output(model: Path, data: Path) -> None:
    result = invoke("predict", str(model), "-", stdin=data.read_bytes())
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("prediction,probability no,probability yes\n")
    assert len(result.stdout.splitlines()) == 91


def test_learn_reads_standard_input(data: Path, tmp_path: Path) -> None:
    text = data.read_bytes()
    options = ["--target", "sick", "--json", *SMALL]
    from_stream = invoke("learn", "-", "-o", str(tmp_path / "x"), *options, stdin=text)
    from_file = invoke("learn", str(data), "-o", str(tmp_path / "y"), *options)
    assert json.loads(from_stream.stdout) | {"model": ""} == json.loads(from_file.stdout) | {"model": ""}


def test_regression_predicts_one_column(data: Path) -> None:
    report_of(data, "--target", "age")
    found = predictions_of(data.with_name("other.safetensors"), messy_table())
    assert list(found) == ["prediction"]
    assert found["prediction"].between(0, 100).all()


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty, expected a header and rows"),
        (b"\n\n", "the file is empty"),
        (b"age,sick\n", "x.csv: the table has no rows, expected at least one"),
        (
            b"age,sick\n1,a\xff\n",
            r"x.csv, line 2: b'\xff' is not UTF-8; convert the file, for example with iconv",
        ),
        (b"age;sick\n1;a\n", "the target 'sick' has only one class, 'a'"),
        (b"age,age,sick\n1,2,a\n", "the column 'age' occurs more than once"),
        (b"age,sick\n1,a,b,c\n2,b,c,d\n", "x.csv, line 2: the row has 4 values, expected 2"),
        (b"age,sick\n1,a\n2,b,c\n", "x.csv, line 3: the row has 3 values, expected 2"),
        (b"age,sick\n1,a\n\n2\n", "x.csv, line 4: the row has 1 value, expected 2"),
        (b"age,sick\n1,a\n2,a\n", "the target 'sick' has only one class, 'a'"),
        (b"age,sick\n1,\n2,\n", "the target 'sick' has no value in any row"),
        (b"age,sick\n,a\n,b\n", "no column beside the target 'sick' has any value"),
        (b"sick\na\nb\n", "there is no column beside the target 'sick'"),
        (
            b"age,sicc\n1,a\n",
            "there is no column 'sick', expected a column of the table as target; did you mean 'sicc'?",
        ),
        (b"age,other\n1,a\n", "the columns are 'age', 'other'"),
        (
            b"age,sick\n1,a\n2,a\n3,a\n4,b\n5,b\n",
            "the class b has 2 rows, expected at least 3, one per fold; use 2 folds",
        ),
        (
            b"age,sick\n1,a\n2,a\n3,a\n4,b\n",
            "the class b has 1 row, expected at least 3, one per fold; remove the class",
        ),
        (b"age,sick\ninf,a\n2,a\n3,a\n4,b\n5,b\n6,b\n", "'age' has an infinite value in row 1"),
        (b"age,sick\n1,2020-01-01\n2,2021-01-01\n", "different values of kind date, expected classes or numbers"),
        (b"age,sick\n1,1\n2,2\n3,3\n4,old\n", "4 values is not a number: 'old'; correct it"),
        (b"age,sick\n1,0.5\n2,0.6\n3,0.7\n", "3 rows are too few for 3 folds, expected at least 6; use fewer folds"),
    ],
)
def test_bad_tables_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    source, out = tmp_path / "x.csv", tmp_path / "model.safetensors"
    source.write_bytes(content)
    assert message in fails("learn", str(source), "--target", "sick", "-o", str(out), *SMALL)
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "sick", "--text", "nota"), "there is no column 'nota', expected a column of the table as text"),
        (("--target", "sick", "--drop", "Age"), "did you mean 'age'?"),
        (("--target", "sick", "--drop", "sick"), "'sick' is the target, expected another column"),
        (("--target", "sick", "--task", "guess"), "task must be one of 'classification', 'regression'; got 'guess'"),
        (("--target", "sick", "--task", "regression"), "expected numbers for a regression; use classification"),
        (("--target", "zip", "--task", "regression"), "1 of its 90 values is not a number: 'x1'; correct it"),
        (("--target", "sick", "--text", "city", "--drop", "city"), "'city' is both in text and in drop"),
        (("--target", "sick", "--seed", str(2**32)), "Invalid value for '--seed'"),
        (("--target", "age", "--training", "online"), "training applies to classification only"),
        (
            ("--target", "sick", "--training", "best"),
            "training must be one of 'ridge', 'refined', 'online', 'centroid'",
        ),
        (("--target", "sick", "--device", "nowhere"), "learn: device 'nowhere' cannot be used"),
    ],
)
def test_bad_options_are_refused(arguments: tuple[str, ...], message: str, data: Path) -> None:
    out = data.with_name("model.safetensors")
    assert message in fails("learn", str(data), "-o", str(out), *SMALL, *arguments)
    assert not out.exists()


def test_numbers_as_classes_are_refused_with_their_count(data: Path) -> None:
    table = messy_table().assign(price=np.arange(90) / 7)
    table.to_csv(data, index=False)
    out = ("-o", str(data.with_name("m")), *SMALL)
    message = fails("learn", str(data), "--target", "price", "--task", "classification", *out)
    assert "the target has 90 different numbers: use --task regression to predict them" in message
    table.loc[0, "sick"] = "perhaps"  # negative control: names
    table.to_csv(data, index=False)
    assert "regression" not in fails("learn", str(data), "--target", "sick", *out)


def test_columns_that_cannot_be_saved_are_refused_before_training(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*given: object, **named: object) -> None:
        raise AssertionError("training started")

    table = messy_table()
    table["at"] = pd.Series([dt.time(8)] * len(table), dtype=object)
    table["raw"] = b"x"
    table["month"] = pd.period_range("2020-01", periods=len(table), freq="M")
    source, out = data.with_name("data.parquet"), ("-o", str(data.with_name("m")), *SMALL)
    table.to_parquet(source)
    monkeypatch.setattr("ghrr.learn.reports.cross_validated_report", train)
    message = fails("learn", str(source), "--target", "sick", *out)
    assert "got 'at' (time), 'raw' (bytes); convert" in message
    assert "--drop 'at' --drop 'raw'" in message
    monkeypatch.undo()
    report_of(source, "--target", "sick", "--drop", "at", "--drop", "raw", "--text", "month")


def test_bad_files_are_refused(data: Path, model: Path, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "new"))
    assert "no such file" in fails("learn", str(tmp_path / "none.csv"), "--target", "sick", *out)
    assert "the suffix is '.xlsx', expected one of .jsonl, .ndjson, .json, .csv, .tsv, .parquet" in fails(
        "learn", "x.xlsx", "--target", "a", *out
    )
    broken = tmp_path / "x.parquet"
    broken.write_bytes(b"PAR1 and nothing else")
    assert "not a Parquet file" in fails("learn", str(broken), "--target", "sick", *out)
    assert "already exists" in fails("learn", str(data), "--target", "sick", "-o", str(model))
    assert "does not exist; create it first" in fails(
        "learn", str(data), "--target", "a", "-o", str(tmp_path / "n" / "m")
    )
    assert "no such file" in fails("predict", str(tmp_path / "none"), str(data))
    assert "not a readable safetensors file" in fails("predict", str(data), str(data))
    other = tmp_path / "other.safetensors"
    learn.save(other, HDClassifier(KernelFeatures(10)).fit(np.eye(4), [0, 0, 1, 1]))
    assert "the model is a HDClassifier with KernelFeatures, expected a classifier or regressor of tables" in fails(
        "predict", str(other), str(data)
    )
    assert not (tmp_path / "new").exists()


def test_missing_and_wrong_columns_are_named(model: Path) -> None:
    new = model.with_name("new.csv")
    messy_table().drop(columns=["city", "note"]).to_csv(new, index=False)
    assert "the table lacks the columns 'city', 'note'" in fails("predict", str(model), str(new))
    messy_table().assign(age="old").to_csv(new, index=False)
    assert "the column 'age' must have values of the kind number, got 'old'" in fails("predict", str(model), str(new))
    messy_table().assign(age=np.inf).to_csv(new, index=False)
    assert "predict: the column 'age' has an infinite value in row 1" in fails("predict", str(model), str(new))
    messy_table().assign(day="monday").to_csv(new, index=False)
    assert "the column 'day' must have values of the kind date, got 'monday'" in fails("predict", str(model), str(new))


def test_interrupt_leaves_the_old_model(data: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    before = model.read_bytes()
    monkeypatch.setattr("os.replace", interrupt)
    result = invoke("learn", str(data), "--target", "sick", "-o", str(model), "--force", *SMALL)
    assert result.exit_code != 0
    assert model.read_bytes() == before
    assert sorted(path.name for path in model.parent.iterdir()) == ["data.csv", "model.safetensors"]


def test_names_and_values_cannot_control_the_terminal(data: Path) -> None:
    table = messy_table().rename(columns={"city": "\x1b[2J[red]"}).replace({"sick": {"yes": "\x1b[31myes\u202e"}})
    table.to_csv(data, index=False)
    out = data.with_name("m.safetensors")
    shown = invoke("learn", str(data), "--target", "sick", "-o", str(out), *SMALL)
    assert shown.exit_code == 0, shown.output
    assert r"\x1b[2J[red]" in shown.output
    refused = invoke("learn", str(data), "--target", "\x1b[2J", "-o", str(out), "--force", *SMALL)
    table.drop(columns="age").assign(**{"\x1b]0;x\x07": 1}).to_csv(data, index=False)
    missing = invoke("predict", str(out), str(data))
    for result in (shown, refused, missing):
        assert not set("\x1b\x07\u202e") & set(result.output)


def test_missing_extra_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "sklearn" else object())
    message = fails("learn", str(data), "--target", "sick", "-o", "x")
    assert "this command needs sklearn; pip install 'ghrr[learn]'" in message

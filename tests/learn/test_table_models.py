"""Tasks and predictions of tables: warnings about columns, and booleans in files."""

from __future__ import annotations

import pandas as pd
import pytest

from ghrr.learn.reports import cross_validated_report
from ghrr.learn.table_models import describe_unknown, make_task, predict_table


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        (["1", "2.5", "x"], True),
        ([1, 2, "x"], True),
        (["2024-05-01", "2024-05-02", "soon"], True),
        (["1", "x", "y"], False),  # most values are strings
        (["1", "2", "3"], False),  # all are
        ([True, False, True], False),
    ],
)
def test_columns_with_a_few_misfits_have_a_note(values: list[object], warned: bool) -> None:
    table = pd.DataFrame({"a": pd.Series(values, dtype=object), "y": ["no", "yes", "no"]})
    assert bool(make_task(table, "y").notes) == warned
    assert make_task(table, "y", text=["a"]).notes == []


def test_target_of_text_names_the_value_that_is_not_a_number() -> None:
    prices = [str(price) for price in range(150)]
    table = pd.DataFrame({"a": range(150), "price": [*prices[:-1], "cheap"]})
    with pytest.raises(ValueError, match=r"values of kind text, .*; 1 of its 150 values is not a number: 'cheap'"):
        make_task(table, "price")
    with pytest.raises(ValueError, match=r"values of kind text, .*; choose another column"):
        make_task(table.assign(price=[f"price {price}" for price in prices]), "price")


def test_declared_categories_that_cannot_be_saved_are_refused() -> None:
    days = pd.Series(pd.to_datetime(["2024-05-01", "2024-05-02"] * 2), dtype="category")
    table = pd.DataFrame({"day": days, "y": ["no", "yes"] * 2})
    with pytest.raises(ValueError, match=r"got 'day' \(Timestamp\); convert them, or leave them out with --drop 'day'"):
        make_task(table, "y")
    assert make_task(table.astype({"day": str}), "y").notes == []


def test_booleans_that_a_file_shows_as_strings_are_known() -> None:
    table = pd.DataFrame({"flag": [True, False] * 10, "y": ["no", "yes"] * 10})
    task = make_task(table, "y")
    model = task.model(dim=50).fit(task.X, task.y)
    new = pd.DataFrame({"flag": ["True", "FALSE", "maybe", None]})
    assert predict_table(model, new)[0]["prediction"].tolist()[:2] == ["no", "yes"]
    assert describe_unknown(model, new) == ["1 row has an unknown value in 'flag', such as 'maybe'; treated as missing"]


@pytest.mark.parametrize("value", ["abc", "2024-05-01", True, 7.0])
@pytest.mark.parametrize("text", [(), ("rare",)])
def test_column_with_values_in_one_fold_only_is_cross_validated(value: object, text: tuple[str, ...]) -> None:
    table = pd.DataFrame({"rare": [value] + [None] * 39, "size": range(40), "y": ["no", "yes"] * 20})
    task = make_task(table, "y", text=text)
    assert set(task.columns) == {"rare", "size"}
    report = cross_validated_report(task.model(dim=20), task.X, task.y, folds=4)
    assert 0 <= report.scores[0].mean <= 1
    model = task.model(dim=20).fit(task.X, task.y)
    assert model.encoder_.columns_ == task.columns


def test_few_rows_of_many_classes_are_a_classification() -> None:
    table = pd.DataFrame({"a": range(60), "language": [f"language {n % 30}" for n in range(60)]})
    assert make_task(table, "language").kind == "classification"

"""Bad input: tables without content, of one row or column, of nothing but missing values, and of mixed types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr.learn import HDClassifier, HDRegressor, TableFeatures
from ghrr.learn.table_columns import guess_kind

MILLION = 1_000_000
SAD: dict[str, pd.DataFrame] = {
    "one column of numbers": pd.DataFrame({"a": np.arange(30) % 7}),
    "one column of categories": pd.DataFrame({"a": ["x", "y"] * 15}),
    "one column of identifiers": pd.DataFrame({"a": [f"{n * 7919 % 10_007:05d}" for n in range(30)]}),
    "all missing": pd.DataFrame({"a": [None] * 30, "b": [np.nan] * 30, "c": [""] * 30, "d": pd.NaT}),
    "constants": pd.DataFrame({"a": [1] * 30, "b": ["x"] * 30}),
    "mostly missing": pd.DataFrame({"a": [1.5] + [None] * 29, "b": ["x"] + [""] * 29, "c": range(30)}),
    "mixed types": pd.DataFrame({"a": [1, "two", 3.5, None, True, "2020-01-01"] * 5}),
    "lists and values": pd.DataFrame({"a": [1, "two", ["x", 1], None, {"y"}] * 6}),
    "many different values": pd.DataFrame({"a": [f"value {n}" for n in range(30)]}),
}


@pytest.mark.filterwarnings("ignore:HD[A-Z][a-z]+.fit. the kinds of some columns are unsure")
@pytest.mark.parametrize("name", SAD)
@pytest.mark.parametrize("made", [HDClassifier, HDRegressor])
def test_table_without_much_content_is_learned(made: Any, name: str) -> None:
    table, y = SAD[name], np.arange(30) % 2
    model = made(TableFeatures(20, random_state=0), random_state=0).fit(table, y)
    assert np.isfinite(model.predict(table)).all()
    assert model.predict(table[:1]).shape == (1,)


@pytest.mark.parametrize(
    ("table", "y", "message"),
    [
        (pd.DataFrame({"a": []}), [], "0 sample"),
        (pd.DataFrame(index=range(4)), [0, 1, 0, 1], "0 feature"),
        (pd.DataFrame({"a": [1], "b": ["x"]}), [1], "at least two classes"),
        (pd.DataFrame({"a": [1, "two", {"x": 1}, None]}), [0, 1, 0, 1], "got dict in column 'a'"),
        (pd.DataFrame({"a": [(1.5, 2.5)] * 4}), [0, 1, 0, 1], "column 'a' has lists of numbers"),
        (pd.DataFrame({"a": [1.0, np.inf] * 2}), [0, 1, 0, 1], "infinity"),
    ],
)
def test_table_that_cannot_be_learned_is_refused(table: pd.DataFrame, y: list[int], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        HDClassifier(TableFeatures(20, random_state=0)).fit(table, y)


def test_one_row_is_learned_by_a_regressor() -> None:
    row = pd.DataFrame({"a": [1], "b": ["x"]})
    assert HDRegressor(TableFeatures(20, random_state=0)).fit(row, [3.0]).predict(row) == pytest.approx([3.0])


@pytest.mark.slow
def test_million_different_values_are_text_or_ignored_and_refused_as_categories() -> None:
    numbers = np.arange(MILLION)
    table = pd.DataFrame({"a": [f"value {n}" for n in numbers], "b": numbers + 5_000_000})
    assert guess_kind(table["a"]).kind == "text"
    assert guess_kind(table["b"]).kind == "ignore"
    encoder = TableFeatures(1024, columns={"a": "category", "b": "ignore"}, random_state=0)
    with pytest.raises(
        ValueError, match=r"'a' has 1,000,000 categories, expected at most 262,144 .*columns=\{'a': 'text'\}"
    ):
        encoder.fit(table)

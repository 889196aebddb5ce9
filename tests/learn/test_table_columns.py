"""Kinds of columns, and dates as numbers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr.encoding import column_kinds
from ghrr.encoding.column_values import Notation
from ghrr.learn.table_columns import guess_kind, read_numbers, read_texts
from tests.encoding.test_column_kinds import COLUMNS


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (dt.date(2024, 5, 1), "date"),
        (dt.datetime(2024, 5, 1, 8), "date"),
        (dt.timedelta(hours=8), "date"),
        (dt.time(8), "category"),
        (pd.Period("2024-05"), "date"),
        (b"x", "category"),
    ],
)
def test_kinds_of_dates_and_of_other_objects(value: Any, kind: str) -> None:
    assert guess_kind(pd.Series([value, value, value, None], dtype=object)).kind == kind


def test_durations_and_far_dates_are_days() -> None:
    waits = pd.Series([dt.timedelta(hours=36), None], dtype=object)
    np.testing.assert_array_equal(read_numbers(waits, "date")[0], [1.5, np.nan])
    np.testing.assert_array_equal(read_numbers(pd.to_timedelta(waits), "date")[0], [1.5, np.nan])
    days = pd.Series([dt.date(1970, 1, 3), dt.date(9999, 12, 31)], dtype=object)
    np.testing.assert_array_equal(read_numbers(days, "date")[0], [2, 2_932_896])


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds_are_those_of_search_except_identifiers(name: str) -> None:
    column, values, kind = COLUMNS[name]
    if kind in ("point", "embedding"):
        with pytest.raises(ValueError, match="has lists of numbers, expected one value in each row"):
            guess_kind(pd.Series(values, name=column))
        return
    guess = column_kinds.infer_kind(column, values)
    wanted = {"nothing": "number"}.get(name, "ignore" if guess.is_identifier else guess.kind)
    assert guess_kind(pd.Series(values, name=column, dtype=object)).kind == wanted
    assert guess_kind(pd.Series([None, *values, ""], name=column, dtype=object)).kind == wanted


def test_identifiers_with_missing_values_are_found_though_pandas_makes_them_decimal_numbers() -> None:
    numbers = np.random.default_rng(0).choice(np.arange(100_000, 999_999), size=200, replace=False)
    assert guess_kind(pd.Series([*numbers, None], dtype=float)).kind == "ignore"
    assert guess_kind(pd.Series([*(numbers + 0.5), None], dtype=float)).kind == "number"
    assert guess_kind(pd.Series(numbers, dtype=float)).kind == "number"
    assert guess_kind(pd.Series(numbers[:10])).kind == "number"


def test_values_that_are_no_numbers_are_listed() -> None:
    column = pd.Series(["1.200,50 €", "n/a", None, " "])
    numbers, unread = read_numbers(column, "number", Notation(decimal=","))
    np.testing.assert_array_equal(numbers, [1200.5, np.nan, np.nan, np.nan])
    assert unread == ["n/a"]


def test_elements_of_lists_are_one_text() -> None:
    assert read_texts(pd.Series([["red", "blue"], ("green",), None, 12.0])) == ["red blue", "green", "", "12"]

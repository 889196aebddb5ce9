"""Kinds of columns, and dates as numbers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ghrr.learn.table_columns import infer_kind, read_numbers


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (dt.date(2024, 5, 1), "date"),
        (dt.datetime(2024, 5, 1, 8), "date"),
        (dt.timedelta(hours=8), "date"),
        (dt.time(8), "category"),
        (pd.Period("2024-05"), "category"),
        (b"x", "category"),
    ],
)
def test_kinds_of_dates_and_of_other_objects(value: Any, kind: str) -> None:
    assert infer_kind(pd.Series([value, None], dtype=object)) == kind


def test_durations_and_far_dates_are_days() -> None:
    waits = pd.Series([dt.timedelta(hours=36), None], dtype=object)
    np.testing.assert_array_equal(read_numbers(waits, "date"), [1.5, np.nan])
    days = pd.Series([dt.date(1970, 1, 3), dt.date(9999, 12, 31)], dtype=object)
    np.testing.assert_array_equal(read_numbers(days, "date"), [2, 2_932_896])

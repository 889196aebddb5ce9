"""Numbers and dates as people write them."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghrr.encoding.column_values import Notation, find_notation, parse_date, parse_number

COMMA = Notation(decimal=",")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$1,299.50", 1299.5),
        ("£32,000", 32_000),
        ("USD 54000.12", 54_000.12),
        ("1.299,50 €", 1299.5),
        ("€5", 5),
        ("12.5 %", 12.5),
        ("85%", 85),
        ("1 250 000", 1_250_000),
        ("1'250.5", 1250.5),
        ("-$5", -5),
        ("$-5", -5),
        ("($5.00)", -5),
        ("100 kr.", 100),
        ("US$ 7", 7),
        (".5", 0.5),
        ("3e4", 30_000),
        (" 7 ", 7),
        ("−3", -3),
        ("12,34,567", 1_234_567),
        (3, 3),
        (Decimal("1.5"), 1.5),
        (True, 1),
        ("1.234.567,8", 1_234_567.8),
    ],
)
def test_numbers_are_read(text: Any, expected: float) -> None:
    assert parse_number(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "A-77",
        "12.5kg",
        "0x10",
        "",
        "--5",
        "+-3",
        "1,2,3",
        "10.0.0.1",
        "12:30",
        "nan",
        "inf",
        "(5",
        "5)",
        "1 2",
        "1,234,56",
        None,
        [1],
        b"1",
        10**400,
        float("nan"),
        "1" * 400,
    ],
)
def test_other_values_are_not_numbers(text: Any) -> None:
    assert parse_number(text) is None


def test_single_mark_follows_the_notation_of_the_column() -> None:
    assert [parse_number("1.250"), parse_number("1.250", COMMA)] == [1.25, 1250]
    assert [parse_number("1,250"), parse_number("1,250", COMMA)] == [1250, 1.25]


@pytest.mark.parametrize(
    ("texts", "decimal"),
    [
        (["1.250,00 €", "12 €"], ","),
        (["1,250.00", "12"], "."),
        (["12,5 %"], ","),
        (["1,250", "1,300"], "."),
        (["1,250", "1.250.000"], ","),
        (["1.5", "2.25"], "."),
    ],
)
def test_decimal_mark_is_found(texts: list[str], decimal: str) -> None:
    assert find_notation(texts).decimal == decimal


def test_separator_that_could_be_either_is_in_doubt() -> None:
    assert "decimal" in find_notation(["1,250", "1,300"]).doubt
    assert not find_notation(["1,250", "1,300.50"]).doubt


@pytest.mark.parametrize(
    "text",
    [
        "2021-05-23",
        "2021/5/23",
        "2021.05.23",
        "23.05.2021",
        "23/05/2021",
        "05/23/2021",
        "23/5/21",
        "23 May 2021",
        "23rd May 2021",
        "May 23, 2021",
        "Sunday, 23 May 2021",
        "Sun May 23 2021",
        "23-May-2021",
        datetime.date(2021, 5, 23),
    ],
)
def test_dates_are_read(text: Any) -> None:
    assert parse_date(text) == (datetime.date(2021, 5, 23) - datetime.date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("1970-01-01T12:00:00", 12),
        ("1970-01-01 12:30", 12.5),
        ("1970-01-01T12:00Z", 12),
        ("1970-01-01 1:00 pm", 13),
        ("1970-01-01 12:00 am", 0),
        ("1970-01-01T12:00:00+02:00", 10),
        ("1 Jan 1970 12:00:00 -0130", 13.5),
        (datetime.datetime(1970, 1, 1, 6), 6),
    ],
)
def test_times_are_fractions_of_days(text: Any, hours: float) -> None:
    found = parse_date(text)
    assert found is not None
    assert abs(found - hours / 24) < 1e-9


@pytest.mark.parametrize(
    "text",
    [
        "2021-02-30",
        "31/31/2021",
        "May",
        "5 Mai 2021 or so",
        "20210523",
        "12/2021",
        "1.2.3",
        "2021-05-23T25:00",
        "",
        5,
        None,
        True,
        "1970-01-01 13:00 pm",
        "9" * 5000,
    ],
)
def test_other_values_are_not_dates(text: Any) -> None:
    assert parse_date(text) is None


def test_order_of_day_and_month_follows_the_column() -> None:
    assert find_notation(["03/05/2021", "23/05/2021"]).day_first
    assert not find_notation(["03/05/2021", "05/23/2021"]).day_first
    assert find_notation(["03/05/2021", "04/06/2021"]).doubt == "day or month first"
    assert parse_date("03/05/2021", Notation(day_first=True)) == parse_date("2021-05-03")
    assert parse_date("03/05/2021", Notation(day_first=False)) == parse_date("2021-03-05")


def test_eight_digits_are_dates_if_the_column_says_so() -> None:
    notation = find_notation(["20210523", "19991231", 20200101])
    assert parse_date("20210523", notation) == parse_date("2021-05-23")
    assert not find_notation(["20210523", "99999999"]).compact


@given(st.text(max_size=30) | st.integers() | st.floats() | st.none() | st.binary())
def test_any_value_is_read_or_refused(value: Any) -> None:
    for notation in (Notation(), COMMA, Notation(day_first=True, compact=True), find_notation([value])):
        for found in (parse_number(value, notation), parse_date(value, notation)):
            assert found is None or abs(found) < float("inf")


@given(st.floats(-1e12, 1e12).map(lambda x: round(x, 2)))
def test_written_numbers_are_read_back(number: float) -> None:
    assert parse_number(f"${number:,.2f}") == number
    european = f"{number:,.2f} €".translate(str.maketrans(",.", ".,"))
    assert parse_number(european) == number


@given(st.dates(datetime.date(1931, 1, 1), datetime.date(2030, 12, 31)))
def test_written_dates_are_read_back(day: datetime.date) -> None:
    expected = (day - datetime.date(1970, 1, 1)).days
    for form in ("%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%d.%m.%y"):
        assert parse_date(day.strftime(form)) == expected
    assert parse_date(day.strftime("%d/%m/%Y"), Notation(day_first=True)) == expected


def test_long_texts_are_refused_at_once() -> None:
    start = time.perf_counter()
    for text in ("1" * 100_000 + "x", "1,234" * 20_000, "1" + ",234" * 20_000 + "x", "1 " * 50_000):
        assert parse_number(text) is None
        assert parse_date(text) is None
        find_notation([text])
    assert time.perf_counter() - start < 1  # backtracking took minutes

"""Delimiters and rows of CSV files."""

from __future__ import annotations

import io

import pytest

from ghrr.files import find_separator, open_delimited


@pytest.mark.parametrize(
    ("lines", "separator"),
    [
        (["a,b", "1,2"], ","),
        (["a;b", "1,5;2"], ";"),
        (["a\tb", "1\t2"], "\t"),
        (["a|b", "1|2"], "|"),
        (["a, b;c, d", "1;2", "3;4"], ";"),  # commas in the header only
        (['"a;b",c', "1,2"], ","),
        (["a;b,c", "1;2,3"], ","),  # both divide evenly
        (["review", "good, but long", "bad, too"], ","),  # one column
        (["", "a;b", "1;2"], ";"),
        (["a;b", '"two', 'lines";2'], ";"),
        ([], ","),
    ],
)
def test_separator_is_found(lines: list[str], separator: str) -> None:
    assert find_separator([line + "\n" for line in lines]) == separator


def test_ragged_row_is_named_by_its_line() -> None:
    table = open_delimited(io.BytesIO(b'"two\nlines",b\n1,2\n\n'), "x.csv")
    assert (table.header, list(table.rows)) == (["two\nlines", "b"], [["1", "2"]])
    table = open_delimited(io.BytesIO(b'"two\nlines",b\n1,2\n3\n'), "x.csv")
    with pytest.raises(ValueError, match=r"x\.csv, line 4: the row has 1 value, expected 2"):
        list(table.rows)

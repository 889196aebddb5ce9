from typing import Any

import pytest

from ghrr.reasoning import Completion, complete

SERIES: list[tuple[Any, Any]] = [
    ([[1, 2, 3], [10, 20, 30], [5, 10, None]], 15),
    ([[2, 3, 5], [1, 6, 7], [4, 4, None]], 8),
    ([[9, 3, 6], [8, 1, 7], [5, 4, None]], 1),
    ([[-1, 0, 1], [5, 6, 7], [-3, -2, None]], -1),
    ([[0.1, 0.2, 0.3], [0.5, 0.7, 0.9], [1, 1.5, None]], 2),
    ([["a", "b", "c"], ["b", "c", "a"], ["c", "a", None]], "b"),
    ([["a", "b", "c"], ["c", "b", "a"], ["b", "c", None]], "a"),
    ([["x", "x"], ["y", None]], "y"),
    ([[10, 25], [40, None]], 55),
]


@pytest.mark.parametrize(("rows", "expected"), SERIES)
def test_complete_finds_the_missing_panel(rows: Any, expected: Any) -> None:
    assert complete(rows).guess == expected


def test_complete_solves_dicts_key_by_key() -> None:
    rows = [
        [{"price": 10, "shape": "round"}, {"price": 12, "shape": "square"}],
        [{"price": 30, "shape": "round"}, None],
    ]
    found = complete(rows)
    assert {key: answer.guess for key, answer in found.items()} == {"price": 32, "shape": "square"}


@pytest.mark.parametrize(
    "rows", [[[3, 1, 4], [1, 5, 9], [2, 6, None]], [["x", "y"], ["z", None]], [[2, 4, 8], [3, 6, 12], [5, 10, None]]]
)
def test_complete_is_unsure_if_no_rule_fits(rows: Any) -> None:
    found = complete(rows)
    assert isinstance(found, Completion)
    assert found.probability < 0.5
    assert not found.confident


BAD: list[tuple[Any, type[Exception], str]] = [
    ([[1, 2], [3]], ValueError, r"same length, got lengths \[2, 1\]"),
    ([[1, 2], [3, 4]], ValueError, "must be None, the gap"),
    ([[1, 2, None]], ValueError, "at least two rows"),
    ([[1, "a"], [2, None]], TypeError, "all numbers or all strings"),
    ([[1, None], [2, None]], TypeError, "got NoneType None"),
    ([[{"a": 1}, {"b": 2}], [{"a": 1}, None]], ValueError, "panel 2 of row 1 has the keys"),
    ([[float("nan"), 1], [2, None]], ValueError, "finite numbers"),
    ([[1, 2e9], [3, None]], ValueError, "round them"),
    ([1, 2], TypeError, "a row must be a list"),
    ("abc", TypeError, "rows must be a list"),
    (5, TypeError, "rows must be a list"),
    ([[True, False], [True, None]], TypeError, "got bool True"),
]


@pytest.mark.parametrize(("rows", "kind", "message"), BAD)
def test_complete_refuses(rows: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        complete(rows)

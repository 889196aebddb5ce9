"""Argument checks handle every tensor layout, and error messages can describe any value quickly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ghrr
from ghrr.checks import check_choice, check_device, check_integer, check_real, describe, short_repr

HUGE = 10**10_000  # too many digits for str


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class ListOfMany(list[int]):
    pass


def nested(kind: type, depth: int = 100_000) -> Any:
    value: Any = kind()
    for _ in range(depth):
        value = {"a": value} if kind is dict else [value]
    return value


def test_sparse_tensors_are_rejected() -> None:
    dense = ghrr.Space(10, 2).vectors(["a"])[0]
    sparse = dense.to_sparse()
    for operation in (ghrr.bind, ghrr.similarity):
        for a, b, name in ((sparse, dense, "a"), (dense, sparse, "b"), (sparse, sparse, "a")):
            with pytest.raises(TypeError, match=rf"{name} must be a dense tensor, got a sparse_\w+ complex64 tensor"):
                operation(a, b)
    ghrr.bind(dense, dense)  # negative control


@pytest.mark.parametrize(
    "value",
    [HUGE, -HUGE, [HUGE], nested(list), nested(dict), Unprintable(), [Unprintable()], "x" * 10**7],
    ids=["int", "negative", "in a list", "deep list", "deep dict", "unprintable", "unprintable in a list", "text"],
)
def test_any_value_can_be_described(value: Any) -> None:
    assert 0 < len(describe(value)) <= 120
    assert len(short_repr(value)) < 1000


def test_large_containers_are_described_by_their_beginning() -> None:
    many = range(10**6)
    for value in (list(many), set(many), dict.fromkeys(many), tuple(many), frozenset(many)):
        assert "0" in describe(value)
        assert len(describe(value)) <= 120
    assert describe(ListOfMany(many)) == "ListOfMany <ListOfMany of length 1000000>"
    assert describe([1, "a", None]) == "list [1, 'a', None]"  # negative control


@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["huge", "negative"])
def test_numbers_with_too_many_digits_are_described(value: int) -> None:
    with pytest.raises(ValueError, match=r"^x must be below 2\*\*62 in size, got an integer of \d+ bits"):
        check_integer("x", value, least=1)
    with pytest.raises(ValueError, match=r"^x must lie in \[0, 1\], got <int of \d+ bits>"):
        check_real("x", value, low=0, high=1)
    with pytest.raises(ValueError, match=r"^x must be one of 'a'; got <int of"):
        check_choice("x", value, ("a",))


def test_missing_devices_are_rejected() -> None:
    assert check_device("cpu") == torch.device("cpu")
    missing = ["nope", "meta", "cuda:99", *([] if torch.cuda.is_available() else ["cuda"])]
    for device in missing:
        with pytest.raises(ValueError, match=f"^device '{device}'.*; try 'cpu'"):
            check_device(device)

"""ghrr.testing: the checkers accept correct operations and encoders, and name what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space, testing
from tests.helpers import gaussian, generator, unitary


def test_check_laws_names_the_laws_that_fail() -> None:
    a, b, c = unitary(3, 5, m=2)
    testing.check_laws(a, b, c)
    with pytest.raises(AssertionError, match=r"similar to itself, δ\(v, v\) = 1: .* 3") as caught:
        testing.check_laws(2 * a, b, c)
    assert "associative" not in str(caught.value)
    testing.check_laws(2 * a, b, c, unitary=False)
    with pytest.raises(AssertionError, match="associative"):
        testing.check_laws(a * torch.nan, b, c)
    testing.check_laws(a[None][:0], b[None][:0], c[None][:0])


@pytest.mark.parametrize("settings", [{}, {"rotation": "fixed"}, {"rotation": "shared"}, {"diagonality": 0.6}])
def test_check_quasi_orthogonal_compares_mean_and_standard_deviation(settings: dict[str, object]) -> None:
    space = Space(80, 3, **settings)  # type: ignore[arg-type]
    x = space.random(150, generator=generator())
    testing.check_quasi_orthogonal(x, std=space.noise_std)
    with pytest.raises(AssertionError, match="standard deviation"):
        testing.check_quasi_orthogonal(x, std=1.3 * space.noise_std)
    with pytest.raises(AssertionError, match="mean similarity"):
        testing.check_quasi_orthogonal(x + 0.3 * x[:1], std=space.noise_std)
    with pytest.raises(AssertionError, match="standard deviation"):
        testing.check_quasi_orthogonal(torch.cat([x, x]), std=space.noise_std)


@pytest.mark.parametrize("rotation", ["varying", "fixed"])
def test_check_quasi_orthogonal_raises_no_false_alarm(rotation: str) -> None:
    space, source = Space(100, 2, rotation=rotation), generator()
    for _ in range(300):
        testing.check_quasi_orthogonal(space.random(10, generator=source))


def test_check_quasi_orthogonal_needs_ten_items() -> None:
    with pytest.raises(ValueError, match="needs at least ten items"):
        testing.check_quasi_orthogonal(unitary(9, 5, m=2))
    with pytest.raises(ValueError, match="axis of items"):
        testing.check_quasi_orthogonal(unitary(5, m=2))


BASE = Space(30, 1, dtype=torch.complex128).vectors(["x"])[0]
INPUTS = torch.arange(4, dtype=torch.float64)
calls = iter(range(100))
BROKEN_ENCODERS: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda x: 2 * ghrr.power(BASE, x), "is not unitary, got"),
    (lambda x: ghrr.power(BASE, x).real, "must be complex"),
    (lambda x: ghrr.power(BASE, x)[0], "expected (4, dim, m, m) for 4 inputs, got a complex128 tensor"),
    (lambda x: ghrr.power(BASE, x) / (x != 2)[:, None, None, None], "not finite"),
    (lambda x: ghrr.power(BASE, x + next(calls)), "a second call returns another result"),
    (lambda x: ghrr.power(BASE, x - x.mean()), "input 0 is encoded differently alone than in a batch"),
]


def test_check_encoder_accepts_a_correct_encoder() -> None:
    testing.check_encoder(lambda x: ghrr.power(BASE, x), INPUTS)
    testing.check_encoder(lambda x: 2 * ghrr.power(BASE, x), INPUTS, unitary=False)


@pytest.mark.parametrize(("encode", "reason"), BROKEN_ENCODERS)
def test_check_encoder_names_what_is_wrong(encode: Callable[[Tensor], Tensor], reason: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(reason)):
        testing.check_encoder(encode, INPUTS)


def test_check_encoder_names_the_input_that_is_not_finite() -> None:
    with pytest.raises(AssertionError, match="input 2 is not finite in slot 0"):
        testing.check_encoder(lambda x: BASE / (x != 2)[:, None, None, None], INPUTS, unitary=False)


def test_check_encoder_needs_two_inputs() -> None:
    with pytest.raises(ValueError, match="needs at least two inputs"):
        testing.check_encoder(lambda x: x, gaussian(1, 2))

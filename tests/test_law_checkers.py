"""ghrr.testing: the checkers accept correct operations and encoders, and name what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space, testing
from tests.helpers import gaussian, generator, unitary


def test_check_laws_names_failing_laws() -> None:
    a, b, c = unitary(3, 5, m=2)
    assert testing.check_laws(a, b, c, explain=True) == (True, "")
    fine, reason = testing.check_laws(2 * a, b, c, explain=True)
    assert not fine
    assert "similar to itself, δ(A, A) = 1: off by 3" in reason
    assert "associative" not in reason
    assert testing.check_laws(2 * a, b, c, unitary=False)
    assert not testing.check_laws(a * torch.nan, b, c)
    assert testing.check_laws(a[None][:0], b[None][:0], c[None][:0])


@pytest.mark.parametrize("settings", [{}, {"rotation": "fixed"}, {"rotation": "shared"}, {"diagonality": 0.6}])
def test_check_quasi_orthogonal_detects_violations(settings: dict[str, object]) -> None:
    space = Space(80, 3, **settings)  # type: ignore[arg-type]
    x = space.random(150, generator=generator())
    assert testing.check_quasi_orthogonal(x, std=space.noise_std)
    assert not testing.check_quasi_orthogonal(x, std=1.3 * space.noise_std)
    fine, reason = testing.check_quasi_orthogonal(x + 0.3 * x[:1], std=space.noise_std, explain=True)
    assert not fine
    assert "mean similarity" in reason
    fine, reason = testing.check_quasi_orthogonal(torch.cat([x, x]), std=space.noise_std, explain=True)
    assert "standard deviation" in reason


@pytest.mark.parametrize("rotation", ["varying", "fixed"])
def test_check_quasi_orthogonal_accepts_random_atoms(rotation: str) -> None:
    space, source = Space(100, 2, rotation=rotation), generator()
    assert all(testing.check_quasi_orthogonal(space.random(10, generator=source)) for _ in range(300))


def test_check_quasi_orthogonal_needs_items() -> None:
    with pytest.raises(ValueError, match="needs at least ten items"):
        testing.check_quasi_orthogonal(unitary(9, 5, m=2))
    with pytest.raises(ValueError, match="axis of items"):
        testing.check_quasi_orthogonal(unitary(5, m=2))


BASE = Space(30, 1, dtype=torch.complex128).vectors(["x"])[0]
calls = iter(range(100))
ENCODERS: list[tuple[Callable[[Tensor], Tensor], bool, str]] = [
    (lambda x: ghrr.power(BASE, x), True, ""),
    (lambda x: 2 * ghrr.power(BASE, x), False, ""),
    (lambda x: 2 * ghrr.power(BASE, x), True, "is not unitary: |A^H A - I| is up to 3"),
    (lambda x: ghrr.power(BASE, x).real, True, "must be complex"),
    (lambda x: ghrr.power(BASE, x)[0], True, "4 inputs should give (4, dim, m, m), got a complex128 tensor"),
    (lambda x: ghrr.power(BASE, x) / (x != 2)[:, None, None, None], True, "input 2 is not finite in slot 0"),
    (lambda x: ghrr.power(BASE, x + next(calls)), True, "a second call gives another result"),
    (lambda x: ghrr.power(BASE, x - x.mean()), True, "input 0 is encoded differently alone than in a batch"),
]


@pytest.mark.parametrize(("encode", "unit", "reason"), ENCODERS)
def test_check_encoder_explains_failures(encode: Callable[[Tensor], Tensor], unit: bool, reason: str) -> None:
    inputs = torch.arange(4, dtype=torch.float64)
    fine, why = testing.check_encoder(encode, inputs, unitary=unit, explain=True)
    assert fine == (not reason)
    assert reason in why
    assert isinstance(testing.check_encoder(encode, inputs, unitary=unit), bool)


def test_check_encoder_needs_inputs() -> None:
    with pytest.raises(ValueError, match="needs at least two inputs"):
        testing.check_encoder(lambda x: x, gaussian(1, 2))

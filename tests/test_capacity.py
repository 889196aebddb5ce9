"""Capacity and suggested size agree with simulation, in every regime of rotation."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.capacity import diagonal_weight, first_true, recall_error
from tests.helpers import STANDARD_ERRORS, generator, unitary
from tests.test_space import REGIMES

CANDIDATES, ERROR = 100, 0.1


def simulated_errors(space: Space, items: int, trials: int, bundles: int = 4) -> torch.Tensor:
    """Share of wrong answers in each of several trials, with fresh values and several bundles of pairs in each."""
    source = generator(11)
    shares = []
    for _ in range(trials):
        keys, values = space.random(bundles, items, generator=source), space.random(CANDIDATES, generator=source)
        chosen = torch.stack([torch.randperm(CANDIDATES, generator=source)[:items] for _ in range(bundles)])
        bundle = ghrr.bind_bundle(keys, values[chosen])
        answers = ghrr.pairwise_similarity(ghrr.unbind(bundle[:, None], keys, side="left"), values).argmax(dim=-1)
        shares.append((answers != chosen).double().mean())
    return torch.stack(shares)


def assert_share(shares: torch.Tensor, expected: float, *, precision: float) -> None:
    error = shares.std().item() / math.sqrt(len(shares))
    assert error <= precision * expected, "too few trials to tell"
    assert abs(shares.mean().item() - expected) <= STANDARD_ERRORS * error


@pytest.mark.parametrize("regime", REGIMES)
def test_capacity_agrees_with_simulation(regime: str) -> None:
    space = Space(30, 3, **(REGIMES[regime] | ({"rotation": unitary(30, m=3)} if "per slot" in regime else {})))
    items = space.capacity(candidates=CANDIDATES, error=ERROR)
    predicted = recall_error(items, CANDIDATES, space.noise_std, space.crosstalk_std)
    assert 0.7 * ERROR < predicted <= ERROR
    assert_share(simulated_errors(space, items, 150), predicted, precision=0.06)


@pytest.mark.parametrize("settings", [{"m": 1}, {"m": 3}, {"m": 3, "rotation": "shared"}])
def test_suggest_agrees_with_simulation(settings: dict[str, Any]) -> None:
    space = Space.suggest(12, candidates=CANDIDATES, error=0.02, **settings)
    predicted = recall_error(12, CANDIDATES, space.noise_std, space.crosstalk_std)
    assert_share(simulated_errors(space, 12, 500), predicted, precision=0.06)
    with pytest.raises(AssertionError):  # negative control: a smaller space errs more often
        smaller = Space(**(settings | {"dim": int(0.8 * space.dim)}))
        assert_share(simulated_errors(smaller, 12, 500), predicted, precision=0.06)


@pytest.mark.parametrize("settings", [{}, {"rotation": "shared"}, {"diagonality": 0.7}, {"rotation": "fixed"}])
@pytest.mark.parametrize("items", [1, 7, 200])
def test_suggest_is_the_smallest_that_suffices(settings: dict[str, Any], items: int) -> None:
    space = Space.suggest(items, m=3, candidates=1000, error=0.01, **settings)
    assert space.capacity(candidates=1000, error=0.01) >= items
    if space.dim > 1:
        assert Space(space.dim - 1, 3, **settings).capacity(candidates=1000, error=0.01) < items


def test_capacity_is_monotone() -> None:
    sizes = [Space(d, 1).capacity(candidates=100) for d in (1, 10, 50, 100, 400)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0  # even one pair errs too often
    assert sizes[-1] > 20
    assert Space(100, 3).capacity(candidates=10_000) < Space(100, 3).capacity(candidates=10)
    assert Space(100, 3).capacity(candidates=100, error=1e-6) < Space(100, 3).capacity(candidates=100, error=0.1)
    assert Space(100, 3, rotation="shared").capacity(candidates=100) < Space(100, 3).capacity(candidates=100)


def test_recall_error_equals_known_values() -> None:
    # One pair: the correct value scores exactly 1, and the other candidates are independent.
    want = 1 - (0.5 * math.erfc(-1 / 0.2 / math.sqrt(2))) ** 49
    assert recall_error(1, 50, 0.2, 0.2) == pytest.approx(want, rel=1e-6)
    # Noise alone: nearly guessing. No noise: no error.
    assert recall_error(10**9, 50, 0.05, 0.05) == pytest.approx(1 - 1 / 50, abs=1e-3)
    assert recall_error(2, 50, 1e-3, 1e-3) < 1e-12


@pytest.mark.parametrize("m", [2, 3, 5])
def test_diagonal_weight_equals_simulation(m: int) -> None:
    for value, q in (
        (None, unitary(20_000, m=m)),
        (0.4, ghrr.unitary.with_diagonality(0.4, 20_000, m=m, generator=generator())),
    ):
        measured = torch.diagonal(q, dim1=-2, dim2=-1).abs().square().mean(dim=-1)
        error = (measured.double().std() / math.sqrt(4096)).item()  # of the average over 4096 inside
        assert abs(measured.mean().item() - diagonal_weight(m, value)) <= STANDARD_ERRORS * error + 1e-6
    assert diagonal_weight(m, 1.0) == pytest.approx(1)
    assert diagonal_weight(m, 0.0) == pytest.approx(0)


def test_first_true_finds_smallest_number() -> None:
    for threshold in (1, 2, 3, 17, 1000):
        assert first_true(lambda n, t=threshold: n >= t) == threshold  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": 1}, "candidates must be a whole number of at least 2, got 1"),
        ({"candidates": 10, "error": 0.0}, "error must lie in (0.0, 0.9), got 0.0"),
        ({"candidates": 10, "error": 0.95}, "error must lie in (0.0, 0.9), got 0.95"),
        ({"candidates": 10, "error": math.nan}, "got nan"),
    ],
)
def test_impossible_tasks_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"Space.capacity: {message}" if message[0] != "g" else message)):
        Space(10, 3).capacity(**arguments)
    with pytest.raises(ValueError, match=re.escape(message)):
        Space.suggest(5, m=3, **arguments)
    with pytest.raises(ValueError, match=re.escape("Space.suggest: items must be a whole number of at least 1, got 0")):
        Space.suggest(0, m=3, candidates=10)


def test_suggest_takes_a_rotation_that_fits_any_size() -> None:
    assert Space.suggest(5, m=3, candidates=100, rotation=unitary(m=3, dtype=torch.complex64)).dim > 1
    with pytest.raises(ValueError, match=r"Space.suggest: a rotation must be \(m, m\), to fit any dim"):
        Space.suggest(5, m=3, candidates=100, rotation=unitary(4, m=3, dtype=torch.complex64))

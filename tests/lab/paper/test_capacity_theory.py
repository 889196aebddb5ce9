"""The search for the capacity follows the paper's definition, and theory agrees with closed forms and the search."""

from __future__ import annotations

import math
import operator
from functools import partial

import pytest
import torch

import ghrr
from ghrr_lab.paper.theory.capacity import (
    alphabet_size,
    bisect,
    capacity,
    chance_memorised,
    expected_size,
    is_memorised,
    permuted_similarities,
    possible_strings,
)
from tests.helpers import STANDARD_ERRORS, generator


def below(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


@pytest.mark.parametrize(("components", "letters"), [(1, 15000), (2, 122), (3, 25), (4, 11)])
def test_there_are_about_15000_strings(components: int, letters: int) -> None:
    assert alphabet_size(components) == letters
    strings = possible_strings(letters, components, True)
    assert strings.shape == (letters**components, components)
    assert len(strings.unique(dim=0)) == letters**components
    kept = possible_strings(letters, components, False)
    assert len(kept) == math.comb(letters + components - 1, components)
    assert len(kept.sort(dim=1).values.unique(dim=0)) == len(kept)


def test_tie_is_not_memorised() -> None:
    """In FHRR, a product and its permutation are equally similar to both bundles."""
    a, b = ghrr.Space(50, 1).random(2, generator=generator())
    same = torch.stack([ghrr.bind(a, b)] * 2)
    other = torch.stack([a, b])
    assert not is_memorised(same)
    assert is_memorised(other)
    assert is_memorised(other, both=True)
    # The first half is memorised, but one member of the second half is not.
    half = torch.stack([a, 2 * a, a, b])
    assert is_memorised(half)
    assert not is_memorised(half, both=True)


def test_bisection_finds_a_sharp_limit() -> None:
    for limit in range(40):
        assert bisect(partial(operator.ge, limit), 40) == limit


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
def test_capacity_follows_definition(ordered: bool, nested: bool, both: bool) -> None:
    """Compare with a search that uses the same random numbers and compares the two bundles as the paper does."""
    space = ghrr.Space(20, 2, dtype=torch.complex128)
    random = generator()
    alphabet = space.random(25, generator=random)
    strings = possible_strings(25, 3, ordered)
    fixed = torch.randperm(len(strings), generator=random)

    def holds(size: int) -> bool:
        drawn = fixed if nested else torch.randperm(len(strings), generator=random)
        first, second = (
            torch.stack([alphabet[a] @ alphabet[b] @ alphabet[c] for a, b, c in strings[half].tolist()])
            for half in (drawn[:size], drawn[-size:])
        )
        own, other = first.sum(dim=0), second.sum(dim=0)
        right = all(ghrr.similarity(x, own) > ghrr.similarity(x, other) for x in first)
        return right and (not both or all(ghrr.similarity(x, other) > ghrr.similarity(x, own) for x in second))

    found = capacity(space, 3, ordered=ordered, both=both, nested=nested, generator=generator())
    assert found == bisect(holds, 40)
    assert found > 0


@pytest.mark.parametrize(
    ("components", "m", "ordered"),
    [(1, 3, True), (4, 1, True), (4, 2, True), (4, 2, False)],
)
def test_capacity_has_predicted_mean_and_std(components: int, m: int, ordered: bool) -> None:
    space = ghrr.Space.from_total(144, m)
    random = generator(components)
    found = torch.tensor([capacity(space, components, ordered=ordered, generator=random) for _ in range(100)]).double()
    mean, std = expected_size(space, components, ordered=ordered)
    assert abs(found.mean().item() - mean) < STANDARD_ERRORS * std / math.sqrt(len(found))
    assert 0.7 * std < found.std().item() < 1.35 * std


@pytest.mark.parametrize("size", [5, 50, 137, 225])
def test_chance_without_permutations_is_power_of_gaussian_tail(size: int) -> None:
    space = ghrr.Space.from_total(900, 2)
    expected = below(math.sqrt(1800 / (2 * size - 1))) ** size
    for components in (1, 4):
        found = chance_memorised(size, space, components, ordered=components == 1)
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("m", "similarity"), [(1, 1.0), (2, 0.25)])
def test_chance_with_one_permutation_is_sum_of_three_tails(m: int, similarity: float) -> None:
    size, space = 110, ghrr.Space.from_total(900, m)
    z, q, double = math.sqrt(1800 / (2 * size - 1)), size / 122**2, 1 / 122
    lost = q * (below((similarity - 1) * z) + below((-similarity - 1) * z)) + (1 - 2 * q) * below(-z)
    lost = double * below(-z) + (1 - double) * lost
    assert chance_memorised(size, space, 2) == pytest.approx((1 - lost) ** size, rel=1e-6)


@pytest.mark.parametrize(("components", "other_orders"), [(1, 0.0), (2, 1.0), (3, 4.65), (4, 17.2)])
def test_median_of_fhrr_solves_equation(components: int, other_orders: float) -> None:
    """N Φ(-√(900/N)) + cN²/2 = ln 2, c being the chance that two strings are permutations of each other."""
    chance = other_orders / alphabet_size(components) ** components
    space = ghrr.Space.from_total(900, 1)
    solution = next(n for n in range(1, 500) if n * below(-math.sqrt(900 / n)) + chance * n**2 / 2 > math.log(2))
    median = next(n for n in range(1, 500) if chance_memorised(n, space, components) < 0.5)
    assert abs(solution - median) <= 0.05 * median


def test_permuted_similarities() -> None:
    assert permuted_similarities(2, 2) == pytest.approx({(): 1 / 122, ((0.25, 1),): 121 / 122})
    # E δ(AAB, BAA) = E|tr A²|² / m² = 2 / m², and both have 1 / m² with ABA.
    assert permuted_similarities(3, 2)[(0.25, 1), (0.5, 1)] == pytest.approx(2 / 3 * 3 * 25 * 24 / 25**3)
    four = permuted_similarities(4, 2)
    assert sum(four.values()) == pytest.approx(1)
    assert four[(0.0625, 8), (0.25, 15)] == pytest.approx(11 * 10 * 9 * 8 / 11**4)
    assert set(permuted_similarities(4, 1)) == {(), ((1.0, 3),), ((1.0, 5),), ((1.0, 11),), ((1.0, 23),)}


@pytest.mark.parametrize("bound", [256, 450, 7500])
def test_upper_end_of_search_hardly_matters(bound: int) -> None:
    space = ghrr.Space.from_total(900, 1)

    def mean(low: int, high: int) -> float:
        if high - low <= 1:
            return low
        middle = (low + high) // 2
        chance = chance_memorised(middle, space, 1)
        upper = mean(middle, high) if chance > 1e-7 else 0.0
        return chance * upper + (1 - chance) * (mean(low, middle) if chance < 1 - 1e-7 else 0.0)

    assert abs(2 * mean(0, bound) - 2 * expected_size(space, 1)[0]) < (4 if bound != 450 else 0.01)

"""Predicted scores and accuracies of bundles equal simulations, within error bars from theory."""

from __future__ import annotations

import math

import pytest
import torch

from ghrr import models
from ghrr.models.sbc import expected_largest_count
from ghrr.models.theory import members_found

names = pytest.mark.parametrize("name", models.MODELS)


def simulate(
    model: models.Architecture, items: int, candidates: int, bundles: int, seed: int
) -> tuple[torch.Tensor, ...]:
    """Return similarities of bundles of the first ``items`` of ``candidates`` with members and with the others."""
    generator = torch.Generator().manual_seed(seed)
    member, other = [], []
    for _ in range(bundles):
        x = model.random(candidates, generator=generator)
        scores = model.pairwise_similarity(model.bundle(x[:items], generator=generator), x).double()
        member.append(scores[:items])
        other.append(scores[items:])
    return torch.stack(member), torch.stack(other)


@names
def test_scores_of_bundles_equal_theory(name: str) -> None:
    model, items, bundles = models.make(name, reals=144), 6, 60
    expected = model.bundle_scores(items)
    member, other = simulate(model, items, 40, bundles, seed=0)
    means = member.mean(dim=1)  # members of one bundle are correlated; bundles are independent
    assert abs(float(means.mean()) - expected.member_mean) <= 5 * float(means.std()) / math.sqrt(bundles) + 1e-9
    for values, mean, std in (
        (member, expected.member_mean, expected.member_std),
        (other, 0.0, expected.other_std),
    ):
        squares = (values - mean).square().mean(dim=1)
        assert abs(float(squares.mean()) - std**2) <= 5 * float(squares.std()) / math.sqrt(bundles)


@names
def test_accuracy_of_bundling_equals_theory(name: str) -> None:
    """The error bar is computed for the share over independent bundles."""
    model, items, candidates, bundles = models.make(name, reals=144), 9, 100, 80
    member, other = simulate(model, items, candidates, bundles, seed=1)
    scores = torch.cat([member, other], dim=1)
    chosen = scores.topk(items, dim=1).indices
    shares = (chosen < items).double().mean(dim=1)
    expected = models.bundling_accuracy(model, items, candidates)
    error = max(float(shares.std()), math.sqrt(expected * (1 - expected) / items)) / math.sqrt(bundles)
    # Scores of binary and sparse models are whole numbers of components, so that ties are counted either way.
    assert abs(float(shares.mean()) - expected) <= 5 * error


def test_theory_of_another_size_is_rejected() -> None:
    small, large = (models.bundling_accuracy(models.MAP(dim), 9, 100) for dim in (72, 144))
    member, other = simulate(models.MAP(144), 9, 100, 80, seed=1)
    shares = (torch.cat([member, other], dim=1).topk(9, dim=1).indices < 9).double().mean(dim=1)
    error = float(shares.std()) / math.sqrt(80)
    assert abs(float(shares.mean()) - large) <= 5 * error < abs(float(shares.mean()) - small)


def test_members_are_found_for_sure_without_noise_and_by_chance_without_signal() -> None:
    assert members_found(models.Scores(1.0, 1e-9, 1e-9), 5, 50) == pytest.approx(1)
    assert members_found(models.Scores(0.0, 1.0, 1.0), 5, 50) == pytest.approx(0.1, abs=1e-6)


@pytest.mark.parametrize(("items", "size"), [(2, 2), (3, 4), (7, 3), (20, 64)])
def test_largest_count_equals_simulation(items: int, size: int) -> None:
    draws = torch.randint(size, (20_000, items), generator=torch.Generator().manual_seed(0))
    counts = torch.nn.functional.one_hot(draws, size).sum(dim=1).amax(dim=1).double()
    error = float(counts.std()) / math.sqrt(len(counts))
    assert abs(float(counts.mean()) - expected_largest_count(items, size)) <= 5 * error + 1e-9


def test_dimension_for_is_the_smallest_that_reaches_the_accuracy() -> None:
    model = models.dimension_for(models.HRR, 5, 100)
    assert models.bundling_accuracy(model, 5, 100) >= 0.99 > models.bundling_accuracy(models.HRR(model.dim - 1), 5, 100)

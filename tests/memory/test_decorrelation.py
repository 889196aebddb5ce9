"""Decorrelated keys: each reads its own product only, and noise, leakage and bias are as predicted."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory.decorrelation import DecorrelatedKeys, decorrelate, gram_matrix, weighted_sums
from tests.helpers import assert_std, generator

NOISE = 1e-3


def products_of(space: Space, letters: str) -> Tensor:
    """Products of all distinct permutations of these letters, sorted."""
    atoms = dict(zip("abcd", space.vectors(list("abcd")), strict=True))
    permutations = sorted(set(itertools.permutations(letters)))
    return ghrr.multibind(torch.stack([torch.stack([atoms[letter] for letter in letters]) for letters in permutations]))


def decorrelated(products: Tensor, noise: float) -> DecorrelatedKeys:
    solution = decorrelate(gram_matrix(products, products), noise=noise)
    return DecorrelatedKeys(weighted_sums(solution.coefficients, products), solution.variance_gain, solution.leakage)


@pytest.mark.parametrize("letters", ["ab", "aab", "abc", "aabb", "aabc"])
@pytest.mark.parametrize("m", [2, 3])
def test_each_key_is_similar_to_its_own_product_only(letters: str, m: int) -> None:
    space = Space(300, m, dtype=torch.complex128)
    products = products_of(space, letters)
    keys = decorrelated(products, NOISE)
    identity = torch.eye(len(products), dtype=torch.float64)
    g = ghrr.pairwise_similarity(products, products)
    # Only the regularisation λ leaves a similarity: the off-diagonal entries of λ(G + λ)⁻¹.
    rest = NOISE**2 * torch.linalg.inv(g + NOISE**2 * identity).abs().max().item()
    torch.testing.assert_close(ghrr.pairwise_similarity(keys.vectors, products), identity, rtol=0, atol=2 * rest)
    assert (keys.variance_gain > 1).all()
    torch.testing.assert_close(keys.variance_gain, torch.linalg.inv(g).diagonal(), rtol=1e-3, atol=0)
    assert keys.leakage.max() < 1e-9
    # Negative control: the products themselves are similar, by 1/m² on average.
    assert (g - identity).max() > 1 / m**2 - 4 * space.noise_std


def test_scores_of_decorrelated_keys_are_the_counts() -> None:
    products = products_of(Space(300, 2, dtype=torch.complex128), "aabb")
    counts = torch.tensor([3.0, 0.0, 1.0, 0.0, 0.0, 7.0], dtype=torch.float64)
    x = torch.tensordot(counts.to(products.dtype), products, dims=1)
    torch.testing.assert_close(ghrr.similarity(x, decorrelated(products, NOISE).vectors), counts, rtol=0, atol=1e-3)
    assert (ghrr.similarity(x, products) - counts).abs().max() > 1  # negative control


@pytest.mark.parametrize("letters", ["ab", "aab", "aabb"])
def test_noise_has_the_predicted_deviation(letters: str) -> None:
    space = Space(100, 2, seed=3)
    keys = decorrelated(products_of(space, letters), space.noise_std)
    unrelated = space.random(4000, generator=generator())
    predicted = keys.noise(torch.tensor(space.noise_std, dtype=torch.float64))
    for vector, deviation in zip(keys.vectors, predicted, strict=True):
        assert_std(ghrr.similarity(unrelated, vector), float(deviation))
    if letters == "aabb":
        with pytest.raises(AssertionError):  # negative control: the variance gain is not 1
            assert_std(ghrr.similarity(unrelated, keys.vectors[0]), space.noise_std)


def test_linearly_dependent_products_leak_into_each_other() -> None:
    """The signed sum of all permutations of four 2 x 2 matrices is zero (Amitsur, Levitzki), so one count is lost."""
    for m in (2, 3):
        space = Space(500, m, dtype=torch.complex128)
        products = products_of(space, "abcd")
        signs = [
            (-1) ** sum(a > b for a, b in itertools.combinations(order, 2)) for order in itertools.permutations("abcd")
        ]
        total = torch.tensordot(torch.tensor(signs, dtype=products.dtype), products, dims=1)
        keys = decorrelated(products, space.noise_std)
        if m == 2:
            assert total.abs().max() < 1e-10
            # 23 of 24 counts are determined: each estimate has 23/24 of its own count and up to 1/24 of each other.
            # After scaling to 1, the squares of the others add up to 23/24² · (24/23)².
            torch.testing.assert_close(keys.leakage, torch.full_like(keys.leakage, 1 / 23), rtol=0.01, atol=0)
        else:
            assert total.abs().max() > 0.1  # negative control
            assert keys.leakage.max() < 1e-6
        assert keys.variance_gain.max() < 3


@pytest.mark.parametrize(
    ("letters", "m", "dependent"),
    [("abcd", 2, True), ("aabcd", 2, True), ("aabbc", 2, True), ("abcd", 3, False), ("aabcd", 3, False)],
)
def test_estimated_count_of_an_absent_product_is_within_its_bias(letters: str, m: int, dependent: bool) -> None:
    products = products_of(Space(500, m, dtype=torch.complex128), letters)
    solution = decorrelate(gram_matrix(products, products), noise=NOISE)
    stream = generator()
    draws = [torch.rand(500, len(products), generator=stream, dtype=torch.float64) for _ in range(2)]
    counts = torch.where(draws[0] < 0.5, 1 + (40 * draws[1] ** 4).floor(), 0.0)
    estimates = counts @ solution.mixing.mT
    absent = counts == 0
    errors = (estimates - counts).abs()
    assert (errors <= solution.bias(estimates) + 1e-3)[absent].all()
    beyond_leakage = errors > 0.5 + 2 * solution.leakage.sqrt()
    assert beyond_leakage[absent].any() == dependent  # negative control: leakage is for counts of 1


def test_gram_matrix_is_the_same_for_any_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    products = products_of(Space(50, 2), "aab")
    want = ghrr.pairwise_similarity(products, products[:2]).double()
    for numbers in (1, 100, 1 << 20):
        monkeypatch.setattr("ghrr.memory.decorrelation._CHUNK_NUMBERS", numbers)
        torch.testing.assert_close(gram_matrix(products, products[:2]), want, rtol=0, atol=1e-6)


def test_equal_products_share_one_key_and_leak_fully() -> None:
    """For m = 1 all permutations are one product, so each may be any of the others."""
    products = products_of(Space(300, 1), "aab")
    keys = decorrelated(products, NOISE)
    torch.testing.assert_close(keys.vectors, products[:1].expand_as(products), rtol=0, atol=1e-5)
    torch.testing.assert_close(keys.variance_gain, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(keys.leakage, torch.full((3,), 2.0).double(), rtol=0, atol=1e-5)


def test_a_repeated_product_does_not_change_the_other_keys() -> None:
    two = products_of(Space(300, 2), "ab")
    three = decorrelated(torch.cat([two, two[:1]]), NOISE)
    torch.testing.assert_close(three.vectors[:2], decorrelated(two, NOISE).vectors)
    assert torch.equal(three.vectors[2], three.vectors[0])


def test_batches_equal_single_calls() -> None:
    space = Space(60, 2)
    groups = [products_of(space, letters) for letters in ("aab", "abb", "aac")]
    together = decorrelated(torch.stack(groups).reshape(3, 1, 3, *space.shape), space.noise_std)
    for index, products in enumerate(groups):
        alone = decorrelated(products, space.noise_std)
        torch.testing.assert_close(together.vectors[index, 0], alone.vectors)
        torch.testing.assert_close(together.variance_gain[index, 0], alone.variance_gain)
        torch.testing.assert_close(together.leakage[index, 0], alone.leakage)
    selected = together[torch.tensor([2])]
    assert torch.equal(selected.variance_gain[0], together.variance_gain[2])


def test_a_single_product_is_its_own_key() -> None:
    space = Space(60, 2)
    product = products_of(space, "aab")[:1]
    torch.testing.assert_close(decorrelated(product, space.noise_std).vectors, product)

"""Words of the same steps: each is read without what the others share, within the noise that is predicted."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory.orders import Apart, other_orders, overlaps, solve, tell_apart
from tests.helpers import STANDARD_ERRORS, assert_std, gaussian, generator

NOISE = 1e-3


def words_of(space: Space, letters: str) -> Tensor:
    """All orders of these letters, sorted."""
    atoms = dict(zip("abcd", space.vectors(list("abcd")), strict=True))
    orders = sorted(set(itertools.permutations(letters)))
    return ghrr.multibind(torch.stack([torch.stack([atoms[letter] for letter in order]) for order in orders]))


def wrong(value: object) -> Any:
    """A value of a type that the function does not take."""
    return value


@pytest.mark.parametrize("letters", ["ab", "aab", "abc", "aabb", "aabc"])
@pytest.mark.parametrize("m", [2, 3])
def test_each_is_similar_to_its_own_word_only(letters: str, m: int) -> None:
    words = words_of(Space(300, m, dtype=torch.complex128), letters)
    apart = tell_apart(words, noise=NOISE)
    own = torch.eye(len(words), dtype=torch.float64)
    found = ghrr.pairwise_similarity(apart.vectors, words)
    # λ is all that is left: the rows of λ(G + λ)⁻¹, off the diagonal.
    g = ghrr.pairwise_similarity(words, words)
    left = NOISE**2 * torch.linalg.inv(g + NOISE**2 * own).abs().max().item()
    torch.testing.assert_close(found, own, rtol=0, atol=2 * left)
    assert (apart.gain > 1).all()
    torch.testing.assert_close(apart.gain, torch.linalg.inv(g).diagonal(), rtol=1e-3, atol=0)
    assert apart.leak.max() < 1e-9
    assert (g - own).max() > 0.9 / m**2  # the control: words themselves are similar


def test_counts_come_back() -> None:
    words = words_of(Space(300, 2, dtype=torch.complex128), "aabb")
    counts = torch.tensor([3.0, 0.0, 1.0, 0.0, 0.0, 7.0], dtype=torch.float64)
    x = torch.tensordot(counts.to(words.dtype), words, dims=1)
    torch.testing.assert_close(ghrr.similarity(x, tell_apart(words, noise=NOISE).vectors), counts, rtol=0, atol=1e-3)
    assert (ghrr.similarity(x, words) - counts).abs().max() > 1  # the control


@pytest.mark.parametrize("letters", ["ab", "aab", "aabb"])
def test_the_noise_is_the_predicted_one(letters: str) -> None:
    space = Space(100, 2, seed=3)
    apart = tell_apart(words_of(space, letters), noise=space.noise_std)
    other = space.random(4000, generator=generator())
    predicted = apart.noise(torch.tensor(space.noise_std, dtype=torch.float64))
    for vector, deviation in zip(apart.vectors, predicted, strict=True):
        assert_std(ghrr.similarity(other, vector), float(deviation))
    if letters == "aabb":
        with pytest.raises(AssertionError):  # the control: the gain is not 1
            assert_std(ghrr.similarity(other, apart.vectors[0]), space.noise_std)


def test_words_that_depend_on_each_other() -> None:
    """The signed sum of all orders of four 2 x 2 matrices is zero (Amitsur and Levitzki), and so one count is lost."""
    for m in (2, 3):
        space = Space(500, m, dtype=torch.complex128)
        words = words_of(space, "abcd")
        signs = [
            (-1) ** sum(a > b for a, b in itertools.combinations(order, 2)) for order in itertools.permutations("abcd")
        ]
        total = torch.tensordot(torch.tensor(signs, dtype=words.dtype), words, dims=1)
        apart = tell_apart(words, noise=space.noise_std)
        if m == 2:
            assert total.abs().max() < 1e-10
            # Of 24 counts 23 can be told, so each has 23/24 of itself and up to 1/24 of each other one, of which the
            # squares add up to 23/24² · (24/23)².
            torch.testing.assert_close(apart.leak, torch.full_like(apart.leak, 1 / 23), rtol=0.01, atol=0)
        else:
            assert total.abs().max() > 0.1  # the control
            assert apart.leak.max() < 1e-6
        assert apart.gain.max() < 3


@pytest.mark.parametrize(
    ("letters", "m", "dependent"),
    [("abcd", 2, True), ("aabcd", 2, True), ("aabbc", 2, True), ("abcd", 3, False), ("aabcd", 3, False)],
)
def test_an_absent_word_is_never_further_off_than_its_bias(letters: str, m: int, dependent: bool) -> None:
    """Whatever the counts of the others are; they may add up, and to more than if each were there once."""
    words = words_of(Space(500, m, dtype=torch.complex128), letters)
    solution = solve(overlaps(words, words), noise=NOISE)
    some = generator()
    draws = [torch.rand(500, len(words), generator=some, dtype=torch.float64) for _ in range(2)]
    counts = torch.where(draws[0] < 0.5, 1 + (40 * draws[1] ** 4).floor(), 0.0)
    found = counts @ solution.shares.mT
    absent = counts == 0
    off = (found - counts).abs()
    assert (off <= solution.bias(found) + 1e-3)[absent].all()
    beyond = off > 0.5 + 2 * solution.leak.sqrt()
    assert beyond[absent].any() == dependent  # the control: the leak is for counts of 1


def test_similarities_some_slots_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    words = words_of(Space(50, 2), "aab")
    want = ghrr.pairwise_similarity(words, words[:2]).double()
    for numbers in (1, 100, 1 << 20):
        monkeypatch.setattr("ghrr.memory.orders._CHUNK_NUMBERS", numbers)
        torch.testing.assert_close(overlaps(words, words[:2]), want, rtol=0, atol=1e-6)


def test_words_that_are_the_same_cannot_be_distinguished() -> None:
    """For m = 1 all orders are one product: each is read as that one, and may be any of the others."""
    words = words_of(Space(300, 1), "aab")
    apart = tell_apart(words, noise=NOISE)
    torch.testing.assert_close(apart.vectors, words[:1].expand_as(words), rtol=0, atol=1e-5)
    torch.testing.assert_close(apart.gain, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-5)
    torch.testing.assert_close(apart.leak, torch.full((3,), 2.0).double(), rtol=0, atol=1e-5)
    two = words_of(Space(300, 2), "ab")
    three = tell_apart(torch.cat([two, two[:1]]), noise=NOISE)
    torch.testing.assert_close(three.vectors[:2], tell_apart(two, noise=NOISE).vectors)
    assert torch.equal(three.vectors[2], three.vectors[0])


def test_batches() -> None:
    space = Space(60, 2)
    some = [words_of(space, letters) for letters in ("aab", "abb", "aac")]
    together = tell_apart(torch.stack(some).reshape(3, 1, 3, *space.shape), noise=space.noise_std)
    for place, words in enumerate(some):
        alone = tell_apart(words, noise=space.noise_std)
        torch.testing.assert_close(together.vectors[place, 0], alone.vectors)
        torch.testing.assert_close(together.gain[place, 0], alone.gain)
        torch.testing.assert_close(together.leak[place, 0], alone.leak)
    single = tell_apart(some[0][:1], noise=space.noise_std)
    torch.testing.assert_close(single.vectors, some[0][:1])
    chosen = together[torch.tensor([2])]
    assert isinstance(chosen, Apart)
    assert torch.equal(chosen.gain[0], together.gain[2])


def test_other_orders() -> None:
    for count in range(1, 9):
        orders = other_orders(count)
        assert len(set(orders)) == len(orders)
        assert tuple(range(count)) not in orders
        assert all(sorted(order) == list(range(count)) for order in orders)
        assert len(orders) == (math.factorial(count) - 1 if count <= 5 else math.comb(count + 1, 3))
    assert (1, 2, 3, 4, 5, 0) in other_orders(6)  # what comes first comes last


def test_runs_that_swap_share_most() -> None:
    """1/m² on average, which is what is looked at of many steps; a reversal of six shares less."""
    space = Space(4000, 2, seed=2)
    atoms = space.vectors(list("abcdef"))
    given = ghrr.multibind(atoms)
    swaps = torch.stack([ghrr.multibind(atoms[list(order)]) for order in other_orders(6)])
    shares = ghrr.similarity(swaps, given)
    error = 1 / math.sqrt(space.dim)  # slots are independent, within [-1, 1]
    assert (shares - 1 / 4).abs().max() < STANDARD_ERRORS * error
    assert ghrr.similarity(ghrr.multibind(atoms.flip(0)), given) < 1 / 4 - STANDARD_ERRORS * error


A = gaussian(3, 10, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tell_apart(wrong([1]), noise=0.1), TypeError, "words must be a complex tensor of shape"),
        (lambda: tell_apart(A.real, noise=0.1), TypeError, "words must be complex"),
        (lambda: tell_apart(A[0], noise=0.1), ValueError, "words needs an axis of items before the slots"),
        (lambda: tell_apart(A, noise=0.0), ValueError, "noise must lie in (0.0, inf), got 0.0"),
        (lambda: tell_apart(A, noise=wrong("x")), TypeError, "noise must be a real number, got str 'x'"),
    ],
)
def test_bad_input(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert str(caught.value).startswith("tell_apart(words)")

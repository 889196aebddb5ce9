"""Resonator: it finds the factors of ordered products, and neither noise nor factors in another order."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.memory import factorization, resonator
from ghrr.memory.factorization import correlated_permutations
from tests.helpers import STANDARD_ERRORS, gaussian, generator, wrong

SIZES = (6, 11, 3)


def codebooks_of(space: Space, sizes: tuple[int, ...] = SIZES) -> list[Tensor]:
    stream = space.generator("books")
    return [space.random(size, generator=stream) for size in sizes]


def products(books: list[Tensor], count: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return random products of one entry from each codebook, and the indices of the entries, ``(count, factors)``."""
    stream = generator(seed)
    chosen = torch.stack([torch.randint(0, len(book), (count,), generator=stream) for book in books], dim=1)
    return ghrr.multibind([book[chosen[:, i]] for i, book in enumerate(books)]), chosen


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("sizes", [(9,), (12, 5), SIZES, (4, 3, 5, 2)])
def test_factors_of_products_are_found(m: int, sizes: tuple[int, ...]) -> None:
    books = codebooks_of(Space.from_total(1000, m), sizes)
    x, chosen = products(books, 20)
    answer = resonator(x, books)
    assert answer.found.all()
    assert torch.equal(answer.indices, chosen)
    assert torch.allclose(answer.score, torch.ones(20), atol=1e-4)
    assert ((answer.iterations >= 1) & (answer.iterations <= 300)).all()


@pytest.mark.parametrize("projection", ["norm", "phase", "polar"])
def test_every_projection_finds_the_factors(projection: str) -> None:
    books = codebooks_of(Space.from_total(600, 2))
    x, chosen = products(books, 10)
    assert torch.equal(resonator(x, books, projection=projection).indices, chosen)


def test_factors_in_another_order_are_found_only_for_m_1() -> None:
    for m in (1, 2, 3):
        books = codebooks_of(Space.from_total(1000, m))
        x, chosen = products(books[::-1], 20)
        answer = resonator(x, books, restarts=2)
        if m == 1:
            assert torch.equal(answer.indices, chosen.flip(1))
        else:
            assert not answer.found.any()
            assert (answer.indices == -1).all()
            assert (answer.score < answer.threshold).all()
            assert (answer.iterations == 200).all()


def repeated(space: Space, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a codebook, products of three of its entries with at least two equal ones, and their indices."""
    book, stream = space.random(10, generator=space.generator("book")), generator(space.seed)
    first, second, third = torch.randint(0, 10, (3, count), generator=stream)
    orders = torch.stack([first, first, second], dim=1)
    chosen = orders.gather(1, (torch.arange(3) + third[:, None]) % 3)
    return book, ghrr.multibind([book[chosen[:, i]] for i in range(3)]), chosen


@pytest.mark.parametrize("m", [2, 3])
def test_permutations_of_equal_factors_are_distinguished(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """aab and baa have a similarity of one half for m = 2; without comparing permutations some are confused."""
    plain = 0
    for seed in range(5):
        space = Space.from_total(900, m, seed=seed)
        book, x, chosen = repeated(space, 200)
        x = x + space.random(200, 2, generator=space.generator("noise")).sum(dim=1)
        answer = resonator(x, [book] * 3)
        assert torch.equal(answer.indices[answer.found], chosen[answer.found])
        assert answer.found.double().mean() > 0.98
        with monkeypatch.context() as patch:
            patch.setattr(factorization, "correlated_permutations", lambda count: [])
            answer = resonator(x, [book] * 3)
            plain += int((answer.indices[answer.found] != chosen[answer.found]).any(dim=1).sum())
    assert plain > 10 if m == 2 else plain == 0


def test_a_permutation_that_the_codebooks_exclude_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """b*a*a is not a product of codebooks for a, a and b, but similar to a*a*b."""
    space = Space.from_total(900, 2, seed=1)
    book, stream = space.random(10, generator=space.generator("book")), generator()
    first, second = torch.randint(0, 5, (100,), generator=stream), torch.randint(5, 10, (100,), generator=stream)
    x, books = ghrr.multibind([book[second], book[first], book[first]]), [book[:5], book[:5], book[5:]]
    answer = resonator(x, books, iterations=20)
    assert not answer.found.any()
    assert (answer.indices == -1).all()
    assert (answer.score >= answer.threshold).any()
    monkeypatch.setattr(factorization, "correlated_permutations", lambda count: [])
    assert resonator(x, books, iterations=20).found.sum() > 10  # negative control


def test_one_of_two_bundled_permutations_is_found() -> None:
    book = Space.from_total(900, 2, seed=1).random(6, generator=generator())
    a, b = book[0], book[1]
    one, other = ghrr.multibind(torch.stack([a, a, b])), ghrr.multibind(torch.stack([b, a, a]))
    answer = resonator(one + other, [book] * 3)
    assert answer.indices.tolist() in [[0, 0, 1], [1, 0, 0]]


def test_six_factors_are_found() -> None:
    """For more than five factors only block swaps are compared."""
    books = codebooks_of(Space.from_total(1000, 2), (2,) * 6)
    x, chosen = products(books, 10)
    answer = resonator(x, books)
    assert torch.equal(answer.indices[answer.found], chosen[answer.found])
    assert answer.found.sum() > 5


def test_unbinding_on_the_wrong_side_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: with the sides of unbinding swapped, almost nothing is found."""
    books = codebooks_of(Space.from_total(1000, 3), (40, 40, 40))
    x, chosen = products(books, 20)
    right = resonator(x, books)
    assert torch.equal(right.indices, chosen)
    module: Any = factorization
    right_way = ghrr.ops.bind
    iterate = module._Search._iterate

    def other_way(a: Tensor, b: Tensor, *, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
        return right_way(b, a, adjoint_a=adjoint_b, adjoint_b=adjoint_a)

    def swapped(self: Any, x: Tensor, estimates: list[Tensor]) -> Tensor:
        with monkeypatch.context() as patch:
            patch.setattr(ghrr.ops, "bind", other_way)
            result: Tensor = iterate(self, x, estimates)
        return result

    monkeypatch.setattr(module._Search, "_iterate", swapped)
    wrong = resonator(x, books)
    assert wrong.found.sum() <= 2


@pytest.mark.parametrize("m", [1, 2, 3])
def test_noise_is_not_found(m: int) -> None:
    """Fewer than one in a hundred random inputs and products of other codebooks are found."""
    space = Space.from_total(100, m)  # a small space has much noise
    books = codebooks_of(space)
    unrelated = space.random(300, generator=space.generator("unrelated"))
    others, _ = products(codebooks_of(Space.from_total(100, m, seed=1)), 100)
    answer = resonator(torch.cat([unrelated, others]), books, iterations=20)
    assert answer.found.sum() <= 4
    assert (answer.iterations[~answer.found] == 60).all()


def test_a_bundled_product_is_found() -> None:
    space = Space.from_total(2000, 2)
    books = codebooks_of(space)
    x, chosen = products(books, 20)
    noise = space.random(20, 4, generator=space.generator("noise")).sum(dim=1)
    answer = resonator(x + noise, books)
    assert torch.equal(answer.indices, chosen)
    assert (answer.threshold > resonator(x, books).threshold).all()  # more bundled items raise the threshold
    faint = resonator(0.3 * x + noise, books, iterations=20)
    assert not faint.found.any()  # negative control: a product with weight 0.3 is not found


def test_results_have_the_batch_shape_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    books = codebooks_of(Space.from_total(600, 2))
    x, chosen = products(books, 6)
    answer = resonator(x.reshape(2, 3, *x.shape[1:]), books)
    assert torch.equal(answer.indices, chosen.reshape(2, 3, 3))
    for part in (answer.found, answer.score, answer.threshold, answer.iterations):
        assert part.shape == (2, 3)
    single = resonator(x[0], books)
    assert single.indices.tolist() == chosen[0].tolist()
    assert single.found.shape == ()
    none = resonator(x[:0], books)
    assert none.indices.shape == (0, 3)
    module: Any = factorization
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 2 * 600 * 4)  # four products at a time
    assert torch.equal(resonator(x, books).indices, chosen)


def test_results_have_no_gradient_and_the_precision_of_the_input() -> None:
    books = [book.requires_grad_() for book in codebooks_of(Space.from_total(600, 2, dtype=torch.complex128))]
    x, chosen = products(books, 5)
    answer = resonator(x, books)
    assert torch.equal(answer.indices, chosen)
    assert answer.score.dtype == torch.float64
    assert not answer.score.requires_grad


def test_equal_calls_give_equal_results() -> None:
    books = codebooks_of(Space.from_total(300, 2), (20, 20, 20))
    x, _ = products(books, 20)
    first, second = resonator(x, books), resonator(x, books)
    assert torch.equal(first.iterations, second.iterations)
    other = resonator(x, books, generator=generator(1))
    assert not torch.equal(first.iterations, other.iterations)  # negative control: the generator is used


def test_noise_on_the_weights_finds_more() -> None:
    books = codebooks_of(Space.from_total(600, 2), (40, 40, 40))
    x, chosen = products(books, 60)
    with_noise = resonator(x, books, restarts=1)
    without = resonator(x, books, restarts=1, jitter=0)
    assert with_noise.found.sum() > without.found.sum() + 10
    assert torch.equal(with_noise.indices[with_noise.found], chosen[with_noise.found])


def test_more_restarts_find_more() -> None:
    books = codebooks_of(Space.from_total(600, 2), (40, 40, 40))
    x, _ = products(books, 60)
    once = resonator(x, books, iterations=10, restarts=1)
    often = resonator(x, books, iterations=10, restarts=10)
    assert often.found.sum() > once.found.sum() + 10
    assert (often.iterations[~often.found] == 100).all()


def test_nothing_wrong_is_found_with_too_large_codebooks() -> None:
    books = codebooks_of(Space.from_total(100, 2), (200, 200, 200))
    x, chosen = products(books, 40)
    answer = resonator(x, books, iterations=30, restarts=2)
    assert answer.found.sum() <= 4
    assert torch.equal(answer.indices[answer.found], chosen[answer.found])


def test_correlated_permutations_are_all_up_to_five_then_block_swaps() -> None:
    for count in range(1, 9):
        permutations = correlated_permutations(count)
        assert len(set(permutations)) == len(permutations)
        assert tuple(range(count)) not in permutations
        assert all(sorted(permutation) == list(range(count)) for permutation in permutations)
        assert len(permutations) == (math.factorial(count) - 1 if count <= 5 else math.comb(count + 1, 3))
    assert (1, 2, 3, 4, 5, 0) in correlated_permutations(6)  # swaps a block of one with a block of five


def test_block_swaps_share_one_over_m_squared_and_a_reversal_less() -> None:
    space = Space(4000, 2, seed=2)
    atoms = space.vectors(list("abcdef"))
    product = ghrr.multibind(atoms)
    swapped = torch.stack([ghrr.multibind(atoms[list(order)]) for order in correlated_permutations(6)])
    error = 1 / math.sqrt(space.dim)  # slots are independent, within [-1, 1]
    assert (ghrr.similarity(swapped, product) - 1 / 4).abs().max() < STANDARD_ERRORS * error
    assert ghrr.similarity(ghrr.multibind(atoms.flip(0)), product) < 1 / 4 - STANDARD_ERRORS * error


A = gaussian(3, 10, 2, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: resonator(A[0], []), TypeError, "codebooks must be a list of tensors (n, dim, m, m), one for each"),
        (lambda: resonator(A[0], wrong(A)), TypeError, "codebooks must be a list of tensors"),
        (lambda: resonator(A[0], [A[0]]), ValueError, "codebooks[0] must have shape (n, dim, m, m) with n >= 1, got a"),
        (lambda: resonator(A[0], [A, A[:0]]), ValueError, "codebooks[1] must have shape (n, dim, m, m) with n >= 1"),
        (lambda: resonator(A[0], [A[:, :5]]), ValueError, "product and codebooks[0] differ in dim: 10 and 5"),
        (lambda: resonator(A[0], [A.to(torch.complex64)]), ValueError, "differ in dtype"),
        (lambda: resonator(A[0] / 0, [A]), ValueError, "of product is not finite"),
        (lambda: resonator(A[0], [A / 0]), ValueError, "of codebooks[0] is not finite"),
        (lambda: resonator(A[0], [A], iterations=0), ValueError, "iterations must be a whole number of at least 1"),
        (lambda: resonator(A[0], [A], restarts=0), ValueError, "restarts must be a whole number of at least 1"),
        (lambda: resonator(A[0], [A], confidence=1.0), ValueError, "confidence must lie in (0.0, 1.0), got 1.0"),
        (lambda: resonator(A[0], [A], noise=0.0), ValueError, "noise must lie in (0.0, inf), got 0.0"),
        (lambda: resonator(A[0], [A], jitter=-1.0), ValueError, "jitter must lie in [0.0, 100.0], got -1.0"),
        (lambda: resonator(A[0], [A], projection="none"), ValueError, "projection must be one of 'norm', 'phase'"),
        (lambda: resonator(A[0], [A], generator=wrong(0)), TypeError, "generator must be a torch.Generator"),
    ],
)
def test_bad_input_raises(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)) as caught:
        call()
    assert str(caught.value).startswith("resonator(product, codebooks)")

r"""Factorization: find the factors of an ordered product, one from each codebook, without trying all combinations.

A resonator network holds an estimate of every factor. For :math:`x = A * B * C` and estimates a, b, c it unbinds the
other estimates from both sides, for example :math:`y = a^\dagger * x * c^\dagger` for B, and compares y with the
codebook. The new estimate is the sum of the codebook entries, weighted with their similarities to y. This is repeated
for each factor until the product of the most similar entries is found in x.

Negative weights become 0. Two design choices follow from measurements (``examples/resonator_limits.py``). First, random
noise of the size of the similarities is added to the weights; without it the search gets stuck at wrong products.
Second, only the weights are scaled, so that the largest is 1; the scale of an estimate changes no result. Projecting
estimates to unit phases or to unitary matrices finds no more factors, and the latter takes several times as long.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr import ops, unitary
from ghrr.checks import (
    check_choice,
    check_finite,
    check_generator,
    check_hypervectors,
    check_integer,
    check_real,
    describe,
    has_finite_sum,
    names_errors,
    type_error,
    value_error,
)
from ghrr.hypervector import Hypervector
from ghrr.memory.decorrelation import IDENTICAL
from ghrr.memory.match import check_confidence, required_score
from ghrr.memory.storage import CHUNK_NUMBERS, chunks

CONFIDENCE = 0.99
_ALL_PERMUTATIONS = 5  # up to this number of factors, all permutations are compared


@dataclass(frozen=True)
class Factors:
    """Result of :func:`resonator` for each product of a batch. All tensors are on the device of the product.

    Parameters
    ----------
    indices
        Index of the factor in each codebook, ``(*batch, factors)``; -1 if nothing was found.
    found
        Whether the product of these factors is in the input, ``(*batch)``. If False, the search used all iterations:
        the input is not such a product, or the codebooks are too large for the dimension.
    score
        Highest similarity of the input with a product of entries during the search, ``(*batch)``.
    threshold
        Score that a product needs to be found, ``(*batch)``. A product whose factors explain the input as well in
        another order is not found either.
    iterations
        Number of iterations, of all restarts together, ``(*batch)``.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.memory import resonator
    >>> space = ghrr.Space(dim=100, m=3, seed=0)
    >>> a, b = space.vectors(["a0", "a1", "a2"]), space.vectors(["b0", "b1"])
    >>> factors = resonator(ghrr.bind(a[2], b[1]), [a, b])
    >>> factors.indices.tolist(), bool(factors.found), bool(factors.score > factors.threshold)
    ([2, 1], True, True)
    """

    indices: Tensor
    found: Tensor
    score: Tensor
    threshold: Tensor
    iterations: Tensor


@names_errors("resonator(product, codebooks)")
def resonator(
    product: Tensor | Hypervector,
    codebooks: Sequence[Tensor | Hypervector],
    *,
    iterations: int = 100,
    restarts: int = 3,
    confidence: float = CONFIDENCE,
    noise: float | None = None,
    projection: str = "norm",
    jitter: float = 1.0,
    generator: torch.Generator | None = None,
) -> Factors:
    r"""Find the factors of an ordered product :math:`A^{(1)} * \dots * A^{(k)}`, one from each codebook.

    The threshold follows from the noise, as for :class:`ghrr.memory.Match`. A product that is in x has a similarity of
    about 1 with x, any other product about 0, both with variance :math:`\sigma^2 E`, where :math:`E = \delta(x, x)`.
    A product with similarity s, one of :math:`N = n_1 \cdots n_k`, is in x with a probability of at least p if

    .. math:: s \ge \tfrac12 + \sigma^2 E \left( \ln N + \ln \frac{p}{1 - p} \right) .

    For m > 1, the same factors in another order are another product, but the two are correlated: aab and baa have a
    similarity of one half for m = 2. Therefore no permutation of the factors may explain x as well. Let s' be the
    similarity of a permutation with x, g its similarity with the product, and q the number of permutations. Then s - s'
    or, if both products are in x, s - g - 1/2 must be at least :math:`\sigma^2 E \ln \frac{p\,q}{1 - p}`.

    The search is not differentiable: it ignores gradients of its inputs, and its results have none.

    Parameters
    ----------
    product
        One product or a batch. Other hypervectors may be bundled with it; they act as noise. Do not normalize it.
    codebooks
        For each factor, in order, the hypervectors to choose from, on the device of the product. Sizes may differ.
    iterations
        Maximum number of iterations before a restart.
    restarts
        Number of starts. The first one begins with equal weights, the others with random weights.
    confidence
        Probability p from which a product is found.
    noise
        Standard deviation :math:`\sigma` of the similarity of independent hypervectors, ``Space.noise_std``. By default
        the value for independent rotations, :math:`1/\sqrt{2 D m^2}`.
    projection
        How to normalize an estimate: ``"norm"`` scales it as a whole, ``"phase"`` its entries to magnitude 1/√m,
        ``"polar"`` takes the nearest unitary matrices.
    jitter
        Standard deviation of the noise on the weights, relative to the root mean square of the similarities. 0 gives
        the classical resonator.
    generator
        Random generator on the device of the product. By default a new one with a fixed seed, so equal calls give equal
        results.

    Returns
    -------
    Factors
        Indices of the factors, whether they were found, and the score.

    Shapes
    ------
    product: ``(*batch, dim, m, m)``; codebooks: ``(n_i, dim, m, m)``; see :class:`Factors` for the output

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.memory import resonator
    >>> space = ghrr.Space(dim=100, m=3, seed=0)
    >>> colours, shapes = space.vectors(["red", "green", "blue"]), space.vectors(["disc", "square"])
    >>> resonator(ghrr.bind(colours[1], shapes[0]), [colours, shapes]).indices
    tensor([1, 0])
    >>> resonator(ghrr.bind(shapes[0], colours[1]), [colours, shapes]).found  # in the wrong order
    tensor(False)
    """
    product, books = _check_codebooks(product, codebooks)
    iterations = check_integer("iterations", iterations, least=1)
    restarts = check_integer("restarts", restarts, least=1)
    confidence = check_confidence(confidence, low=0.0)
    check_choice("projection", projection, tuple(_PROJECTIONS))
    shape, batch = product.shape[-3:], product.shape[:-3]
    if noise is None:
        noise = 1 / math.sqrt(2 * shape.numel())
    noise = check_real("noise", noise, low=0.0, high=math.inf, open_ends=True)
    jitter = check_real("jitter", jitter, low=0.0, high=100.0)
    if generator is None:
        generator = torch.Generator(product.device).manual_seed(0)
    check_generator(generator)

    x = product.detach().reshape(-1, *shape)
    odds = math.log(confidence / (1 - confidence))
    variance = noise**2 * ops.similarity(x, x)
    products = math.prod(len(book) for book in books)
    # For m = 1 all permutations are the same product.
    permutations = correlated_permutations(len(books)) if shape[-1] > 1 else []
    search = _Search(
        x=x,
        books=[book.detach() for book in books],
        threshold=required_score(variance, odds=products, confidence=confidence),
        permutations=permutations,
        required_lead=variance * (odds + math.log(len(permutations) + 1)),
        project=_PROJECTIONS[projection],
        jitter=jitter,
        generator=generator,
    )
    for i, (book, total) in enumerate(zip(books, search.sums, strict=True)):
        if not has_finite_sum(total):  # all terms of a finite sum are finite
            check_finite(f"codebooks[{i}]", book)
    rows = max(1, CHUNK_NUMBERS // max(2 * shape.numel(), *(len(book) for book in books)))
    for chunk in chunks(len(x), rows):
        search.run(chunk, iterations, restarts)
    return Factors(
        indices=search.indices.reshape(*batch, len(books)),
        found=(search.indices[:, 0] >= 0).reshape(batch),
        score=search.score.reshape(batch),
        threshold=search.threshold.reshape(batch),
        iterations=search.iterations.reshape(batch),
    )


def _check_codebooks(
    product: Tensor | Hypervector, codebooks: Sequence[Tensor | Hypervector]
) -> tuple[Tensor, list[Tensor]]:
    if not isinstance(codebooks, (list, tuple)) or not codebooks:
        raise type_error(
            f"codebooks must be a list of tensors (n, dim, m, m), one for each factor, got {describe(codebooks)}"
        )
    named = {f"codebooks[{i}]": book for i, book in enumerate(codebooks)}
    product, *books = check_hypervectors(product=product, **named)
    for name, book in zip(named, books, strict=True):
        if book.ndim != 4 or not len(book):
            raise value_error(f"{name} must have shape (n, dim, m, m) with n >= 1, got {describe(book)}")
    check_finite("product", product)
    return product, books


def _to_phase(x: Tensor) -> Tensor:
    return x / (x.abs().clamp(min=1e-15) * math.sqrt(x.shape[-1]))


# The weights of an estimate are scaled already.
_PROJECTIONS: dict[str, Callable[[Tensor], Tensor] | None] = {"norm": None, "phase": _to_phase, "polar": unitary.polar}


def correlated_permutations(count: int) -> list[tuple[int, ...]]:
    """Return the permutations of ``count`` factors whose products are most similar to the original one.

    These are all permutations but the identity for ``count <= 5``, otherwise swaps of two adjacent blocks. Swapping two
    blocks x and y leaves a similarity of about 1/m² for any x and y; other permutations of many factors leave less.

    Examples
    --------
    >>> from ghrr.memory.factorization import correlated_permutations
    >>> correlated_permutations(3)
    [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    >>> len(correlated_permutations(5)), len(correlated_permutations(6))
    (119, 35)
    """
    identity = tuple(range(count))
    if count <= _ALL_PERMUTATIONS:
        return list(itertools.permutations(identity))[1:]
    bounds = itertools.combinations(range(count + 1), 3)
    return [(*identity[:i], *identity[j:k], *identity[i:j], *identity[k:]) for i, j, k in bounds]


class _Search:
    """State and results of a search."""

    def __init__(
        self,
        *,
        x: Tensor,
        books: list[Tensor],
        threshold: Tensor,
        permutations: list[tuple[int, ...]],
        required_lead: Tensor,
        project: Callable[[Tensor], Tensor] | None,
        jitter: float,
        generator: torch.Generator,
    ) -> None:
        self.x, self.books, self.threshold = x, books, threshold
        self.permutations, self.required_lead = permutations, required_lead
        self.project, self.jitter, self.generator = project, jitter, generator
        self.rows = [torch.view_as_real(book.resolve_conj()).flatten(start_dim=1) for book in books]
        self.sums = [row.sum(dim=0) for row in self.rows]
        self.indices = torch.full((len(x), len(books)), -1, device=x.device)
        self.score = torch.full_like(threshold, -torch.inf)
        self.iterations = torch.zeros(len(x), dtype=torch.int64, device=x.device)

    def run(self, rows: slice, iterations: int, restarts: int) -> None:
        """Search the factors of these products; stop for a product when they are found."""
        x, active = self.x[rows], torch.arange(rows.start, rows.stop, device=self.x.device)
        for start in range(restarts):
            estimates = [self._first_estimate(i, len(x), start) for i in range(1, len(self.books))]
            for _ in range(iterations):
                chosen, scores = self._iterate(x, estimates)
                found = self._judge(active, x, chosen)
                if found.any():
                    kept = ~found
                    active, x, scores = active[kept], x[kept], scores[kept]
                    if not len(x):
                        return
                    estimates = [estimate[kept] for estimate in estimates]
                if estimates:
                    estimates[-1] = self._superpose(len(estimates), self._weights(scores))

    def _first_estimate(self, i: int, count: int, start: int) -> Tensor:
        """Return the sum of all entries for the first start, otherwise a sum with random weights."""
        if start == 0:
            return self._projected(i, self.sums[i].expand(count, -1))
        weights = self.rows[i].new_empty(count, len(self.books[i]))
        return self._superpose(i, torch.rand(weights.shape, generator=self.generator, out=weights))

    def _superpose(self, i: int, weights: Tensor) -> Tensor:
        return self._projected(i, weights @ self.rows[i])

    def _projected(self, i: int, rows: Tensor) -> Tensor:
        estimate = torch.view_as_complex(rows.view(len(rows), *self.books[i].shape[1:], 2))
        return estimate if self.project is None else self.project(estimate)

    def _iterate(self, x: Tensor, estimates: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Compare every factor with its codebook, first to last, and replace all estimates but the last.

        ``estimates`` are for all factors but the first, whose estimate depends on the others only. Returns the
        indices of the most similar entries, and the similarities of the last factor, whose estimate is replaced only
        for products that were not found.
        """
        products_after: list[Tensor] = []  # products of all estimates after a factor, for the last factor first
        for estimate in reversed(estimates):
            products_after.append(ops.bind(estimate, products_after[-1]) if products_after else estimate)
        rest = x  # the input without the earlier factors
        chosen = []
        for i, rows in enumerate(self.rows):
            y = ops.bind(rest, products_after.pop(), adjoint_b=True) if products_after else rest
            scores = torch.view_as_real(y.resolve_conj()).flatten(start_dim=1) @ rows.mT
            chosen.append(scores.argmax(dim=1))
            if i < len(estimates):
                estimate = self._superpose(i, self._weights(scores))
                rest = ops.bind(estimate, rest, adjoint_a=True)
                if i > 0:
                    estimates[i - 1] = estimate
        return torch.stack(chosen, dim=1), scores

    def _weights(self, scores: Tensor) -> Tensor:
        """Return the similarities with noise, from 0 to 1; equal weights if no similarity is positive."""
        norm = torch.linalg.vector_norm(scores, dim=1, keepdim=True)
        random = torch.randn(scores.shape, generator=self.generator, dtype=scores.dtype, device=scores.device)
        weights = torch.addcmul(scores, norm, random, value=self.jitter / math.sqrt(scores.shape[1]))
        largest = weights.amax(dim=1, keepdim=True)
        return torch.where(largest > 0, weights.clamp_(min=0).div_(largest), 1.0)

    def _judge(self, active: Tensor, x: Tensor, chosen: Tensor) -> Tensor:
        """Compare the products of the chosen entries with the input; return which are found and store results."""
        factors = [book[chosen[:, i]] for i, book in enumerate(self.books)]
        product = functools.reduce(ops.bind, factors)
        score = ops.similarity(product, x)
        self.iterations[active] += 1
        self.score[active] = torch.maximum(self.score[active], score)
        found = score >= self.threshold[active]
        if self.permutations and found.any():
            above = slice(None) if found.all() else found.nonzero()[:, 0]  # a slice copies nothing
            factors, required_lead = [factor[above] for factor in factors], self.required_lead[active[above]]
            found[above] = self._is_best_order(x[above], required_lead, factors, product[above], score[above])
        self.indices[active[found]] = chosen[found]
        return found

    def _is_best_order(
        self, x: Tensor, required_lead: Tensor, factors: list[Tensor], product: Tensor, score: Tensor
    ) -> Tensor:
        """Return whether no permutation of the factors explains the input as well as the product itself."""
        permuted = (self._permuted(factors, order) for order in self.permutations)
        similarities = torch.stack([ops.similarity(other, product) for other in permuted])
        is_better = (score - similarities - 0.5 >= required_lead) | (similarities > IDENTICAL)
        if not is_better.all():
            for i in (~is_better).any(dim=1).nonzero()[:, 0].tolist():
                other = self._permuted(factors, self.permutations[i])
                is_better[i] |= score - ops.similarity(other, x) >= required_lead
        return is_better.all(dim=0)

    @staticmethod
    def _permuted(factors: list[Tensor], order: tuple[int, ...]) -> Tensor:
        return functools.reduce(ops.bind, [factors[i] for i in order])

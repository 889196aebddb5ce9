r"""Resonator: the factors of an ordered product, one from each codebook, without trying all combinations.

For :math:`x = A * B * C` and estimates a, b, c the factor in the middle is read on both sides, as
:math:`y = a^\dagger * x * c^\dagger`, and compared with its codebook. The new estimate is the superposition of the
codebook, weighted with the similarities. Each factor in turn is read so, again and again, until the product of the most
similar entries is in x beyond doubt.

Negative weights become 0. Two choices were made by measurement (``examples/resonator_limits.py``): weights get noise of
the size of the similarities, without which the search gets stuck at products that are not there; and estimates are
scaled to unit norm, since projecting them to unit phases or to unitary finds no more, and the latter takes several
times as long.
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
from ghrr._checks import (
    check_choice,
    check_finite,
    check_generator,
    check_hypervectors,
    check_integer,
    check_real,
    describe,
    has_finite_sum,
)
from ghrr.hypervector import Hypervector
from ghrr.memory.decorrelation import IDENTICAL
from ghrr.memory.storage import CHUNK_NUMBERS, steps

CONFIDENCE = 0.99
_ALL_PERMUTATIONS = 5  # up to this number of factors, all permutations are compared


@dataclass(frozen=True)
class Factors:
    """What a resonator found, for each product of a batch.

    Parameters
    ----------
    indices
        The entry of each codebook, ``(*batch, factors)``; -1 where nothing was found.
    found
        Whether the search converged: whether the product of these entries is in the input, ``(*batch)``. If not, it ran
        out of iterations: the input is no such product, or the codebooks are too large for the dimension.
    score
        The best similarity of the input with a product of entries that was seen, ``(*batch)``.
    threshold
        What it had to exceed, ``(*batch)``; a product of which another order explains more is not found all the same.
    iterations
        How many there were, those of all restarts together, ``(*batch)``.
    """

    indices: Tensor
    found: Tensor
    score: Tensor
    threshold: Tensor
    iterations: Tensor


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

    What counts as found follows from the noise law, as for :class:`ghrr.memory.Match`. A product that is in x has a
    similarity of about 1 with it, another one of about 0, both with the variance :math:`\sigma^2 E`, where
    :math:`E = \delta(x, x)`. Seen a similarity s, one of :math:`N = n_1 \cdots n_k` products is in x with the
    probability p or more when

    .. math:: s \ge \tfrac12 + \sigma^2 E \left( \ln N + \ln \frac{p}{1 - p} \right) .

    For m > 1 the same factors in another order are another product: they are not found. Such products are not
    independent of each other, aab and baa have a similarity of one half for m = 2. So no other order of the factors
    may explain x as well: if it has the similarity s' with x, and g with the product that was seen, either s - s' or
    s - g - 1/2 must be at least :math:`\sigma^2 E \ln \frac{p\,q}{1 - p}`, where q is the number of orders. The latter
    is for two that are there together.

    Parameters
    ----------
    product
        One product, or a batch. Other things may be bundled with it, as noise; then it must not be normalised.
    codebooks
        For each factor, in order, the hypervectors to choose from. Sizes may differ.
    iterations
        At most so many before a restart.
    restarts
        How often to start: the first time from all entries alike, then from random weights.
    confidence
        The probability p from which on a product counts as found.
    noise
        :math:`\sigma`, the deviation of the similarity of independent hypervectors: ``Space.noise_std``. The default is
        that of own rotations, :math:`1/\sqrt{2 D m^2}`.
    projection
        What is done to an estimate: ``"norm"`` scales it, ``"phase"`` gives all entries the magnitude 1/√m, ``"polar"``
        takes the nearest unitary.
    jitter
        Noise of the weights, in units of the root mean square of the similarities; 0 for the classical resonator.
    generator
        For this noise and the restarts; on the device of the product. The default is a fresh one, so that the same call
        gives the same answer.

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
    operation = "resonator(product, codebooks)"
    product, books = _check_codebooks(operation, product, codebooks)
    iterations = check_integer(operation, "iterations", iterations, least=1)
    restarts = check_integer(operation, "restarts", restarts, least=1)
    confidence = check_real(operation, "confidence", confidence, low=0.0, high=1.0, open_ends=True)
    check_choice(operation, "projection", projection, tuple(_PROJECTIONS))
    shape, batch = product.shape[-3:], product.shape[:-3]
    if noise is None:
        noise = 1 / math.sqrt(2 * shape.numel())
    noise = check_real(operation, "noise", noise, low=0.0, high=math.inf, open_ends=True)
    jitter = check_real(operation, "jitter", jitter, low=0.0, high=100.0)
    if generator is None:
        generator = torch.Generator(product.device).manual_seed(0)
    check_generator(operation, generator)

    x = product.detach().reshape(-1, *shape)
    odds = math.log(confidence / (1 - confidence))
    variance = noise**2 * ops.similarity(x, x)
    products = math.prod(len(book) for book in books)
    rivals = correlated_permutations(len(books)) if shape[-1] > 1 else []  # for m = 1 all orders are one product
    search = _Search(
        x=x,
        books=[book.detach() for book in books],
        threshold=0.5 + variance * (odds + math.log(products)),
        rivals=rivals,
        lead=variance * (odds + math.log(len(rivals) + 1)),
        project=_PROJECTIONS[projection],
        jitter=jitter,
        generator=generator,
    )
    for i, (book, total) in enumerate(zip(books, search.sums, strict=True)):
        if not has_finite_sum(total):  # a finite sum has finite terms only
            check_finite(operation, f"codebooks[{i}]", book)
    rows = max(1, CHUNK_NUMBERS // max(2 * shape.numel(), *(len(book) for book in books)))
    for some in steps(len(x), rows):
        search.run(torch.arange(some.start, some.stop, device=x.device), iterations, restarts)
    return Factors(
        indices=search.indices.reshape(*batch, len(books)),
        found=(search.indices[:, 0] >= 0).reshape(batch),
        score=search.score.reshape(batch),
        threshold=search.threshold.reshape(batch),
        iterations=search.iterations.reshape(batch),
    )


def _check_codebooks(
    operation: str, product: Tensor | Hypervector, codebooks: Sequence[Tensor | Hypervector]
) -> tuple[Tensor, list[Tensor]]:
    if not isinstance(codebooks, (list, tuple)) or not codebooks:
        raise TypeError(
            f"{operation}: codebooks must be a list of tensors (n, dim, m, m), one for each factor; "
            f"got {describe(codebooks)}"
        )
    named = {f"codebooks[{i}]": book for i, book in enumerate(codebooks)}
    product, *books = check_hypervectors(operation, product=product, **named)
    for name, book in zip(named, books, strict=True):
        if book.ndim != 4 or not len(book):
            raise ValueError(f"{operation}: {name} must have shape (n, dim, m, m), n >= 1; got {describe(book)}")
    check_finite(operation, "product", product)
    return product, books


def _to_norm(x: Tensor) -> Tensor:
    torch.view_as_real(x).mul_(ops.similarity(x, x).clamp_(min=1e-30).rsqrt_()[:, None, None, None, None])
    return x


def _to_phase(x: Tensor) -> Tensor:
    return x / (x.abs().clamp(min=1e-15) * math.sqrt(x.shape[-1]))


# Each may overwrite what it is given.
_PROJECTIONS: dict[str, Callable[[Tensor], Tensor]] = {"norm": _to_norm, "phase": _to_phase, "polar": unitary.polar}


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
    """The state of a search, and its answers so far."""

    def __init__(
        self,
        *,
        x: Tensor,
        books: list[Tensor],
        threshold: Tensor,
        rivals: list[tuple[int, ...]],
        lead: Tensor,
        project: Callable[[Tensor], Tensor],
        jitter: float,
        generator: torch.Generator,
    ) -> None:
        self.x, self.books, self.threshold = x, books, threshold
        self.rivals, self.lead = rivals, lead
        self.project, self.jitter, self.generator = project, jitter, generator
        self.rows = [torch.view_as_real(book.resolve_conj()).flatten(start_dim=1) for book in books]
        self.sums = [row.sum(dim=0) for row in self.rows]
        self.indices = torch.full((len(x), len(books)), -1, device=x.device)
        self.score = torch.full_like(threshold, -torch.inf)
        self.iterations = torch.zeros(len(x), dtype=torch.int64, device=x.device)

    def run(self, active: Tensor, iterations: int, restarts: int) -> None:
        """Look for the factors of some of the products; those that are found drop out."""
        for start in range(restarts):
            if not len(active):
                break
            estimates = [self._first_estimate(i, len(active), start) for i in range(len(self.books))]
            for _ in range(iterations):
                chosen, scores = self._iterate(self.x[active], estimates)
                found = self._judge(active, chosen)
                if found.any():
                    active, scores = active[~found], scores[~found]
                    if not len(active):
                        break
                    estimates = [estimate[~found] for estimate in estimates]
                estimates[-1] = self._superpose(len(estimates) - 1, self._weights(scores))

    def _first_estimate(self, i: int, count: int, start: int) -> Tensor:
        """All entries alike at first, then random weights."""
        if start == 0:
            return self._projected(i, self.sums[i].repeat(count, 1))
        weights = self.rows[i].new_empty(count, len(self.books[i]))
        return self._superpose(i, torch.rand(weights.shape, generator=self.generator, out=weights))

    def _superpose(self, i: int, weights: Tensor) -> Tensor:
        return self._projected(i, weights @ self.rows[i])

    def _projected(self, i: int, rows: Tensor) -> Tensor:
        return self.project(torch.view_as_complex(rows.reshape(len(rows), *self.books[i].shape[1:], 2)))

    def _iterate(self, x: Tensor, estimates: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Read every factor once, the first to the last, and replace its estimate, but for the last one.

        Gives the most similar entries, and the similarities of the last factor, for those products that go on.
        """
        behind: list[Tensor | None] = [None]  # for each factor the product of the estimates behind it
        for estimate in reversed(estimates[1:]):
            behind.append(estimate if behind[-1] is None else ops.bind(estimate, behind[-1]))
        left = x  # what is left when the factors before are taken off
        chosen = []
        for i, rest in enumerate(reversed(behind)):
            y = left if rest is None else ops.bind(left, rest, adjoint_b=True)
            scores = torch.view_as_real(y.resolve_conj()).flatten(start_dim=1) @ self.rows[i].mT
            chosen.append(scores.argmax(dim=1))
            if rest is not None:
                estimates[i] = self._superpose(i, self._weights(scores))
                left = ops.bind(estimates[i], left, adjoint_a=True)
        return torch.stack(chosen, dim=1), scores

    def _weights(self, scores: Tensor) -> Tensor:
        size = self.jitter * scores.square().mean(dim=1, keepdim=True).sqrt()
        random = torch.randn(scores.shape, generator=self.generator, dtype=scores.dtype, device=scores.device)
        weights = (scores + size * random).clamp(min=0)
        return torch.where((weights > 0).any(dim=1, keepdim=True), weights, torch.ones_like(weights))

    def _judge(self, active: Tensor, chosen: Tensor) -> Tensor:
        """Compare the products of the chosen entries with the input, and note what is better than before."""
        factors = [book[chosen[:, i]] for i, book in enumerate(self.books)]
        product = functools.reduce(ops.bind, factors)
        score = ops.similarity(product, self.x[active])
        self.iterations[active] += 1
        self.score[active] = torch.maximum(self.score[active], score)
        found = score >= self.threshold[active]
        seen = found.nonzero()[:, 0]
        found[seen] = self._leads(active[seen], [factor[seen] for factor in factors], product[seen], score[seen])
        self.indices[active[found]] = chosen[found]
        return found

    def _leads(self, active: Tensor, factors: list[Tensor], product: Tensor, score: Tensor) -> Tensor:
        """Whether no other order of the same factors explains the input as well as the product that was seen."""
        leads = torch.ones_like(score, dtype=torch.bool)
        if not len(active):
            return leads
        x, lead = self.x[active], self.lead[active]
        for order in self.rivals:
            rival = functools.reduce(ops.bind, [factors[i] for i in order])
            overlap = ops.similarity(rival, product)
            ahead = (score - overlap - 0.5 >= lead) | (overlap > IDENTICAL)
            if not ahead.all():
                ahead |= score - ops.similarity(rival, x) >= lead
            leads &= ahead
        return leads

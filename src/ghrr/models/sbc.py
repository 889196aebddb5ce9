"""SBC: sparse block codes."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr.checks import check_integer, names_errors, value_error
from ghrr.models.counting import count_equal_bytes
from ghrr.models.facts import Facts, Scores
from ghrr.models.protocol import Architecture, Device, draw_on

_CHUNK = 1 << 22  # entries of a table of counts


@names_errors
@dataclass(frozen=True, repr=False)
class SBC(Architecture):
    r"""Binary sparse block codes: ``dim`` bits in blocks, with a single 1 in each block.

    A vector is stored as the indices of its ones, a byte per block: ``(*batch, dim // block_size)``. Binding adds
    indices modulo the block size, which is a circular convolution in each block. A bundle takes the most frequent index
    of every block, with random ties, so it is sparse too. The similarity is the share s of equal indices, scaled so
    that independent vectors have a mean of 0: :math:`(Ls - 1)/(L - 1)` for blocks of size L.

    Parameters
    ----------
    dim
        Number of bits, a multiple of ``block_size``.
    dtype
        ``torch.uint8``.
    block_size
        Number of bits of a block, from 2 to 256.

    References
    ----------
    M. Laiho, J. H. Poikonen, P. Kanerva, E. Lehtonen, High-dimensional computing with sparse vectors, BioCAS 2015;
    E. P. Frady, D. Kleyko, F. T. Sommer, Variable binding for sparse distributed representations, IEEE TNNLS 2021.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model = models.SBC(16_000, block_size=16)
    >>> key, value = model.random(2, generator=torch.Generator().manual_seed(0))
    >>> torch.equal(model.unbind(model.bind(key, value), key, side="left"), value)
    True
    >>> models.SBC(1000, block_size=16)
    Traceback (most recent call last):
    ValueError: SBC: dim must be a size that the model supports, got 1000; the nearest are 992 or 1008
    """

    dtype: torch.dtype = torch.uint8
    block_size: int = 64
    name: ClassVar[str] = "SBC"
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.uint8,)

    def __post_init__(self) -> None:
        size = check_integer("block_size", self.block_size, least=2)
        if size > 256:
            raise value_error(f"block_size must be at most 256, so that an index fits a byte, got {size}")
        object.__setattr__(self, "block_size", size)
        super().__post_init__()

    def possible_sizes(self, near: int) -> tuple[int, ...]:
        """Return the multiples of the block size around a number."""
        size = self.block_size
        return (near,) if near % size == 0 else tuple(n for n in (near // size * size, (near // size + 1) * size) if n)

    @classmethod
    def _nearest(cls, budget: int, unit: str, order: int, settings: dict[str, Any]) -> Self:
        return cls(budget * settings.get("block_size", cls.block_size), **settings)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one vector, the number of blocks."""
        return (self.dim // self.block_size,)

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact",
            self_inverse=self.block_size == 2,
            keeps_similarity=True,
            differentiable=False,
            bind_cost="O(d / block size)",
            paper="Laiho et al. 2015",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        shape = (*batch, *self.shape)
        return torch.randint(0, self.block_size, shape, dtype=torch.uint8, generator=generator, device=device)

    def _identity(self, device: Device) -> Tensor:
        return torch.zeros(self.shape, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Add the indices modulo the block size."""
        a, b = self._check(a=a, b=b)
        if self.block_size & (self.block_size - 1) == 0:
            return (a + b) & (self.block_size - 1)  # bytes wrap at 256, a multiple of the block size
        return torch.remainder(a.short() + b, self.block_size).to(torch.uint8)

    def inverse(self, x: Tensor) -> Tensor:
        """Return the negative indices modulo the block size."""
        (x,) = self._check(x=x)
        return torch.where(x == 0, x, self.block_size - x)

    def bundle(self, items: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Take the most frequent index of every block; ``generator`` breaks ties."""
        (items,) = self._check(items=items)
        self._check_items(items)
        n, blocks = items.shape[-2:]
        if items.numel() == 0:
            return draw_on(items.device, generator, lambda d: self._sample(tuple(items.shape[:-2]), generator, d))
        rows = items.reshape(-1, n, blocks)
        per_row = blocks * self.block_size
        chunks = torch.split(rows, max(1, _CHUNK // per_row))
        return torch.cat([self._most_frequent(chunk, generator) for chunk in chunks]).reshape(*items.shape[:-2], blocks)

    def _most_frequent(self, rows: Tensor, generator: torch.Generator | None) -> Tensor:
        """Count the items ``(rows, n, blocks)`` in a table and choose the largest count of each block."""
        n = rows.shape[1]
        table = torch.zeros((len(rows), self.block_size, rows.shape[2]), device=rows.device)
        table.scatter_add_(1, rows.long(), torch.ones((1, 1, 1), device=rows.device).expand_as(rows))
        if n > 1:  # random numbers below 1 break ties
            table += draw_on(rows.device, generator, lambda d: torch.rand(table.shape, generator=generator, device=d))
        return table.argmax(dim=1).to(torch.uint8)

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Return the vector: every block has one index."""
        (x,) = self._check(x=x)
        return x

    def shift(self, x: Tensor, steps: int = 1) -> Tensor:
        """Shift the blocks cyclically."""
        (x,) = self._check(x=x)
        return x.roll(check_integer("steps", steps) % self.shape[0], dims=-1)

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the scaled share of equal indices."""
        a, b = self._check(a=a, b=b)
        return self._scaled((a == b).sum(dim=-1, dtype=torch.int32))

    def pairwise_similarity(self, queries: Tensor, items: Tensor) -> Tensor:
        """Return the similarity of every query with every item."""
        queries, items = self._check_pairwise(queries, items)
        equal: Tensor = count_equal_bytes(queries.reshape(-1, *self.shape), items)
        return self._scaled(equal.reshape(*queries.shape[:-1], len(items)))

    def _scaled(self, equal: Tensor) -> Tensor:
        return (self.block_size * (equal / self.shape[0]) - 1) / (self.block_size - 1)

    @property
    def noise_std(self) -> float:
        r"""Standard deviation of the similarity of two independent random vectors, :math:`1/\sqrt{(L - 1) B}`."""
        return 1 / math.sqrt((self.block_size - 1) * self.shape[0])

    def bundle_scores(self, items: int) -> Scores:
        """Return mean and standard deviation of the similarities of a bundle, by theory.

        A member has the index of a block with probability E[c]/n, where c is the count of the most frequent index.
        """
        items, size, blocks = self._check_count(items), self.block_size, self.shape[0]
        equal = expected_largest_count(items, size) / items
        factor = size / (size - 1)
        std = factor * math.sqrt(equal * (1 - equal) / blocks)
        return Scores((size * equal - 1) / (size - 1), std, self.noise_std, (blocks, equal, 1 / size))

    def _settings(self) -> Iterable[str]:
        yield from super()._settings()
        yield f"block_size={self.block_size}"


@functools.lru_cache(maxsize=4096)
def expected_largest_count(items: int, size: int) -> float:
    """Return the mean number of items in the fullest of ``size`` cells that each item falls into at random.

    Examples
    --------
    >>> expected_largest_count(2, 2), expected_largest_count(1, 5)
    (1.5, 1.0)
    """
    # P(all counts <= t) is the coefficient of x^n in the power of a truncated Poisson series, over the whole one's.
    rate = items / size
    counts = torch.arange(items + 1, dtype=torch.float64)
    poisson = torch.exp(counts * math.log(rate) - rate - torch.lgamma(counts + 1))
    total = math.exp(items * math.log(items) - items - math.lgamma(items + 1))
    mean = 0.0
    for most in range(items):
        below = _power(torch.where(counts <= most, poisson, 0.0), size)[items].item() / total
        mean += 1 - min(below, 1.0)
        if 1 - below < 1e-12:
            break
    return round(mean, 12)


def _power(series: Tensor, exponent: int) -> Tensor:
    """Return a power of a series, cut to its length."""
    n = len(series)
    result = torch.zeros_like(series)
    result[0] = 1
    while exponent:
        if exponent & 1:
            result = _product(result, series)[:n]
        series, exponent = _product(series, series)[:n], exponent >> 1
    return result


def _product(a: Tensor, b: Tensor) -> Tensor:
    kernel = b.flip(0)[None, None]
    return torch.nn.functional.conv1d(a[None, None], kernel, padding=len(b) - 1)[0, 0]

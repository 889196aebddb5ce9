"""BSC: binary spatter codes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from ghrr.checks import names_errors
from ghrr.models.counting import count_different_bits, pack_bits
from ghrr.models.facts import Facts, Scores
from ghrr.models.protocol import Architecture, Device, draw_on


@names_errors
@dataclass(frozen=True, repr=False)
class BSC(Architecture):
    r"""Binary spatter codes: bits, bound by exclusive or.

    A vector is its own inverse. A bundle is the majority in every component, so it is binary too; ties are broken at
    random. The similarity is :math:`1 - 2h`, where h is the share of different bits. Vectors are ``bool`` tensors, one
    byte per bit. :meth:`pack` stores 8 bits in a byte; :meth:`pairwise_similarity` compares packed bits.

    References
    ----------
    P. Kanerva, Binary spatter-coding of ordered K-tuples, ICANN 1996.

    Examples
    --------
    >>> import torch
    >>> from ghrr import models
    >>> model, generator = models.BSC(10_000), torch.Generator().manual_seed(0)
    >>> a, b, c = items = model.random(3, generator=generator)
    >>> torch.equal(model.bind(a, model.bind(a, b)), b)
    True
    >>> [f"{s:.1f}" for s in model.pairwise_similarity(model.bundle(items), items)]
    ['0.5', '0.5', '0.5']
    >>> model.pack(items).shape, model.bytes_per_vector
    (torch.Size([3, 1250]), 1250)
    """

    dtype: torch.dtype = torch.bool
    name: ClassVar[str] = "BSC"
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.bool,)

    @classmethod
    def _nearest(cls, budget: int, unit: str, order: int, settings: dict[str, Any]) -> Self:
        return cls(8 * budget if unit == "nbytes" else budget, **settings)

    @property
    def bytes_per_vector(self) -> int:
        """Number of bytes of a packed vector."""
        return (self.dim + 7) // 8

    @property
    def facts(self) -> Facts:
        """Properties of the model."""
        return Facts(
            commutative=True,
            associative=True,
            inverse="exact",
            self_inverse=True,
            keeps_similarity=True,
            differentiable=False,
            bind_cost="O(d)",
            paper="Kanerva 1996",
        )

    def _sample(self, batch: tuple[int, ...], generator: torch.Generator | None, device: Device) -> Tensor:
        shape = (*batch, self.dim)
        return torch.randint(0, 2, shape, dtype=torch.uint8, generator=generator, device=device).view(torch.bool)

    def _identity(self, device: Device) -> Tensor:
        return torch.zeros(self.dim, dtype=self.dtype, device=device)

    def bind(self, a: Tensor, b: Tensor) -> Tensor:
        """Take the exclusive or."""
        a, b = self._check(a=a, b=b)
        return a ^ b

    def inverse(self, x: Tensor) -> Tensor:
        """Return the vector, which is its own inverse."""
        (x,) = self._check(x=x)
        return x

    def bundle(self, items: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Take the majority of the items in every component; ``generator`` breaks ties."""
        (items,) = self._check(items=items)
        self._check_items(items)
        n = items.shape[-2]
        ones = items.sum(dim=-2, dtype=torch.int16 if n < 1 << 14 else torch.int32)
        if n % 2:
            return ones > n // 2
        random = draw_on(items.device, generator, lambda d: self._sample(tuple(ones.shape[:-1]), generator, d))
        return torch.where(ones == n // 2, random, ones > n // 2)

    def normalize(self, x: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Return the vector: every binary vector is normal."""
        (x,) = self._check(x=x)
        return x

    def pack(self, x: Tensor) -> Tensor:
        """Pack vectors ``(*batch, dim)`` into bytes, ``(*batch, ceil(dim / 8))``."""
        (x,) = self._check(x=x)
        return pack_bits(x)

    def similarity(self, a: Tensor, b: Tensor) -> Tensor:
        """Return 1 - 2h, where h is the share of different bits."""
        a, b = self._check(a=a, b=b)
        return 1 - 2 * (a ^ b).sum(dim=-1, dtype=torch.int32) / self.dim

    def pairwise_similarity(self, queries: Tensor, items: Tensor) -> Tensor:
        """Return the similarity of every query with every item, by counting bits of packed vectors."""
        queries, items = self._check_pairwise(queries, items)
        different: Tensor = count_different_bits(queries.reshape(-1, self.dim), items)
        return 1 - 2 * different.reshape(*queries.shape[:-1], len(items)) / self.dim

    def bundle_scores(self, items: int) -> Scores:
        r"""Return mean and standard deviation of the similarities of a bundle, by theory.

        A member agrees with the majority with a mean similarity of :math:`E|S_n|/n`, where :math:`S_n` is the sum of n
        random signs.
        """
        items = self._check_count(items)
        half = (items + 1) // 2
        mean = math.exp(math.log(2 * half) + _log_binomial(items, half) - items * math.log(2)) / items
        std = math.sqrt((1 - mean**2) / self.dim)
        return Scores(mean, std, 1 / math.sqrt(self.dim), (self.dim, (1 + mean) / 2, 0.5))


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

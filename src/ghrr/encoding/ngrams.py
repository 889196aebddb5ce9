"""NGramEncoder: sequences of hypervectors as the bundle of their n-grams."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from ghrr.algebra import bind_bundle, bundle, multibind
from ghrr.checks import (
    check_hypervectors,
    check_integer,
    check_items,
    describe,
    named,
    names_errors,
    type_error,
    value_error,
)
from ghrr.encoding.bags import bind_rows
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector

_CHUNK_NUMBERS = 1 << 19  # complex numbers in the n-grams computed at a time: 4 MiB in complex64, to stay in cache


@names_errors
class NGramEncoder(Encoder):
    r"""Encode sequences as the bundle of their n-grams: :math:`\sum_t x_t * x_{t+1} * \dots * x_{t+n-1}`.

    The encoding holds which n-grams occur and how often, but not where. The similarity of two texts counts their common
    n-grams. Differentiable with respect to the items.

    For m = 1 binding commutes, and an n-gram would equal its reversal. ``permute`` shifts factor j by j slots,
    :math:`x_t * \rho(x_{t+1}) * \rho^2(x_{t+2}) * \dots`, which makes all orders independent. For larger m binding
    distinguishes orders, but an n-gram and its reversal keep a similarity of about 1/m². Use ``permute=True`` to remove
    it, for example to compare texts at small m; from m = 4 on it makes little difference.

    Parameters
    ----------
    n
        Number of items in an n-gram.
    permute
        Shift factor j by j slots before binding; by default only for m = 1.

    Shapes
    ------
    items: ``(*batch, length, dim, m, m)``, length >= n; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> letters = ghrr.encoding.Codebook(ghrr.Space(dim=1000, m=3), list("abcdr"))
    >>> text = ghrr.encoding.NGramEncoder(3)(letters(list("abracadabra")))
    >>> for gram in ("abr", "rba"):
    ...     print(gram, f"{ghrr.similarity(text, ghrr.multibind(letters(list(gram)))):.1f}")
    abr 2.2
    rba 0.5

    The similarity of a text with its reversal, relative to the text itself, without and with shifts:

    >>> for m in (1, 2, 3, 4):
    ...     letters = ghrr.encoding.Codebook(ghrr.Space.from_total(9000, m), list("abcdefgh"))
    ...     plain, shifted = ghrr.encoding.NGramEncoder(3, permute=False), ghrr.encoding.NGramEncoder(3, permute=True)
    ...     text, reverse = letters([list("abcdefgh"), list("hgfedcba")])
    ...     scores = [ghrr.similarity(grams(text), grams(reverse)) / 6 for grams in (plain, shifted)]
    ...     print(f"m = {m}:", *(f"{abs(score):.1f}" for score in scores))
    m = 1: 1.0 0.0
    m = 2: 0.3 0.0
    m = 3: 0.1 0.0
    m = 4: 0.1 0.0
    """

    def __init__(self, n: int, *, permute: bool | None = None) -> None:
        super().__init__()
        self.n = check_integer("n", n, least=1)
        if permute is not None and not isinstance(permute, bool):
            raise type_error(f"permute must be True, False or None, got {describe(permute)}")
        self.permute = permute

    @names_errors("{cls}(items)")
    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        (items,) = check_hypervectors(items=items)
        check_items(items=items)
        if items.shape[-4] < self.n:
            raise value_error(f"{self.n}-grams need at least {self.n} items, got {describe(items)}")
        if not self._shifts(items) or self.n == 1:
            return self._bundle(items, 0)
        # The first n - 1 slots, into which factors are shifted from the other end, are separate to avoid copies.
        edge = self.n - 1
        ends = torch.cat([items[..., -edge:, :, :], items[..., :edge, :, :]], dim=-3)
        return torch.cat([self._bundle(ends, 1), self._bundle(items, 1)], dim=-3)

    def _bundle(self, items: Tensor, step: int) -> Tensor:
        """Return the bundle of n-grams; with ``step`` = 1, which shifts factors, without its first n - 1 slots."""
        if self.n == 1:
            return bundle(items)
        count, width = items.shape[-4] - self.n + 1, items.shape[-3] - (self.n - 1) * step
        slots = [(self.n - 1 - factor) * step for factor in range(self.n)]
        factors = [items[..., at : at + count, slot : slot + width, :, :] for at, slot in enumerate(slots)]
        if self.n == 2:
            return bind_bundle(*factors)
        numbers = max(1, factors[0].numel() // count)
        chunks = zip(*(torch.split(x, max(1, _CHUNK_NUMBERS // numbers), dim=-4) for x in factors), strict=True)
        # The last binding of a chunk and the bundling are one operation.
        return functools.reduce(torch.add, (bind_bundle(multibind(chunk[:-1]), chunk[-1]) for chunk in chunks))

    def from_codebook(self, codebook: Tensor, indices: Tensor) -> Tensor:
        """Encode one sequence, given by indices into a codebook.

        The result equals ``encoder(codebook[indices])``. N-grams with a common beginning share its binding, and no
        hypervector is copied, so long texts take little memory. Differentiable with respect to the codebook.

        Parameters
        ----------
        codebook
            Hypervectors of the symbols.
        indices
            Row of the codebook for each item.

        Shapes
        ------
        codebook: ``(k, dim, m, m)``, indices: ``(length,)``, length >= n; output: ``(dim, m, m)``

        Examples
        --------
        >>> import torch, ghrr
        >>> letters = ghrr.encoding.Codebook(ghrr.Space(dim=100, m=3), list("abcdr"))
        >>> indices = letters.indices(list("abracadabra"))
        >>> encoder = ghrr.encoding.NGramEncoder(3)
        >>> torch.allclose(encoder.from_codebook(letters.vectors(), indices), encoder(letters(indices)), atol=1e-5)
        True
        """
        check_hypervectors(codebook=codebook)
        if codebook.ndim != 4 or indices.ndim != 1 or indices.is_floating_point() or len(indices) < self.n:
            raise value_error(
                f"needs a codebook (k, dim, m, m) and at least {self.n} indices, got "
                f"{describe(codebook)} and {describe(indices)}"
            )
        low, high = int(indices.min()), int(indices.max())
        if low < 0 or high >= len(codebook):
            raise IndexError(named(f"indices must be from 0 to {len(codebook) - 1}, got {low} to {high}"))
        shifted = self._shifts(codebook)
        grams = indices.long().cpu().unfold(0, self.n, 1)
        grams = grams[torch.from_numpy(np.lexsort(grams.T.flip(0).numpy()))]
        if self.n == 1:
            counts = torch.bincount(grams[:, 0], minlength=len(codebook)).to(codebook.device, codebook.dtype)
            return torch.einsum("n,n...->...", counts, codebook)
        sums, rows = codebook, grams[:, -1]
        for factor in range(self.n - 2, -1, -1):  # x * ρ(y * ρ(z + z') + y' * ρ(z)), from the inside
            key, beginnings = grams[:, factor], grams[:, :factor]
            is_first = torch.ones(len(grams), dtype=torch.bool)
            is_first[1:] = (beginnings[1:] != beginnings[:-1]).any(dim=1)
            starts = is_first.nonzero()[:, 0]
            offsets = torch.cat([starts, torch.tensor([len(grams)])])
            sums = bind_rows(codebook, sums, *(x.to(codebook.device) for x in (key, rows, offsets)), shifted=shifted)
            grams, rows = beginnings[starts], torch.arange(len(starts))
        return sums[0]

    def _shifts(self, x: Tensor) -> bool:
        """Return whether factors are shifted; raise if there are fewer than n slots."""
        permute = x.shape[-1] == 1 if self.permute is None else self.permute
        if permute and self.n > x.shape[-3]:
            raise value_error(
                f"shifting the factors of {self.n}-grams needs at least {self.n} slots, got "
                f"{describe(x)}; use a larger dim, or permute=False"
            )
        return permute

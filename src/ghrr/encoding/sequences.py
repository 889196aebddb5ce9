"""Sequences by position, and n-grams: the order is kept by binding, and by shifting slots where binding commutes."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_hypervectors, check_integer, check_items, describe
from ghrr.algebra import bind_bundle, bundle, multibind, pairwise_similarity, unbind
from ghrr.encoding.bags import bind_rows
from ghrr.encoding.module import Encoder
from ghrr.encoding.positions import PowerPositions
from ghrr.encoding.powers import Powers
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space

_CHUNK_NUMBERS = (
    1 << 19
)  # complex numbers in the products of n-grams at a time: 4 MiB in complex64, which stay in cache


class Sequence(Encoder):
    r"""Encode sequences of hypervectors by position: :math:`\sum_t R^t * x_t`, with a random unitary R.

    A layer over tensors, with gradients. For lists of names, and answers that say how certain they are, use
    :class:`ghrr.structures.Sequence`. The element at an index is read by unbinding :math:`R^t` from the left.

    Parameters
    ----------
    space
        Space of the hypervectors.
    name
        Encoders of different names use different R.

    Shapes
    ------
    items: ``(*batch, n, dim, m, m)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=500, m=3)
    >>> letters = ghrr.encoding.Codebook(space, list("abc"))
    >>> model = ghrr.encoding.Sequence(space)
    >>> word = model(letters(list("cab")))
    >>> [letters.names[i] for i in model.read(word, 3, letters.vectors())]
    ['c', 'a', 'b']
    """

    def __init__(self, space: Space, *, name: str = "sequence") -> None:
        super().__init__()
        self.space = check_space(type(self).__name__, space)
        self.positions = PowerPositions(space, name=name)
        self.powers = Powers()

    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        operation = "Sequence(items)"
        check_hypervectors(operation, items=items)
        items = self.space.check(items, operation)
        check_items(operation, items=items)
        if self.positions.base.requires_grad:
            return bind_bundle(self.positions(torch.arange(items.shape[-4], device=items.device)), items)
        return self.powers.bundle(self.positions.base, items)

    def keys(self, index: int | Tensor) -> Tensor:
        """Return :math:`R^t` for indices: ``(*)`` to ``(*, dim, m, m)``. Indices may be any real numbers."""
        whole = isinstance(index, int) or (isinstance(index, Tensor) and not index.is_floating_point())
        if self.positions.base.requires_grad or not whole or bool((torch.as_tensor(index) < 0).any()):
            positions: Tensor = self.positions(index)
            return positions
        return self.powers(self.positions.base, torch.as_tensor(index))

    def item(self, x: Tensor | Hypervector, index: int | Tensor) -> Tensor:
        """Return the noisy elements at indices: ``(*batch, dim, m, m)`` to ``(*batch, *index, dim, m, m)``."""
        x = self.space.check(x, "Sequence.item")
        key = self.keys(index)
        x = x.reshape(*x.shape[:-3], *([1] * (key.ndim - 3)), *x.shape[-3:])
        return unbind(x, key, side="left")

    def read(self, x: Tensor | Hypervector, length: int, vectors: Tensor | Hypervector) -> Tensor:
        """Return the row of the best of ``vectors`` at each index: ``(*batch, dim, m, m)`` to ``(*batch, length)``."""
        length = check_integer("Sequence.read", "length", length, least=0)
        if len(vectors) == 0:
            raise ValueError(
                "Sequence.read: there are no vectors to choose from, got an empty tensor; give at least one"
            )
        return pairwise_similarity(self.item(x, torch.arange(length)), vectors).argmax(dim=-1)


class NGrams(Encoder):
    r"""Encode sequences as the bundle of their n-grams: :math:`\sum_t x_t * x_{t+1} * \dots * x_{t+n-1}`.

    The encoding holds which n-grams occur, and how often, not where. The similarity of two texts counts the n-grams
    that they have in common.

    For m = 1, where binding commutes, an n-gram equals its reversal. Then factor j is shifted by j slots,
    :math:`x_t * \rho(x_{t+1}) * \rho^2(x_{t+2}) * \dots`, which makes all orders independent. For larger m binding
    alone makes orders different, but an n-gram and its reversal keep a similarity of about 1/m². Use ``permute=True``
    if n-grams in another order should count as nothing, which is best for comparing texts at small m; from m = 4 on it
    makes little difference.

    Parameters
    ----------
    n
        Number of items in a gram.
    permute
        Shift factor j by j slots before binding; by default only for m = 1.

    Shapes
    ------
    items: ``(*batch, length, dim, m, m)``, length >= n; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> letters = ghrr.encoding.Codebook(ghrr.Space(dim=1000, m=3), list("abcdr"))
    >>> text = ghrr.encoding.NGrams(3)(letters(list("abracadabra")))
    >>> for gram in ("abr", "rba"):
    ...     print(gram, f"{ghrr.similarity(text, ghrr.multibind(letters(list(gram)))):.1f}")
    abr 2.2
    rba 0.5

    The similarity of a text with its reversal, relative to the text itself, without and with shifts:

    >>> for m in (1, 2, 3, 4):
    ...     letters = ghrr.encoding.Codebook(ghrr.Space.from_total(9000, m), list("abcdefgh"))
    ...     plain, shifted = ghrr.encoding.NGrams(3, permute=False), ghrr.encoding.NGrams(3, permute=True)
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
        self.n = check_integer("NGrams", "n", n, least=1)
        if permute is not None and not isinstance(permute, bool):
            raise TypeError(f"NGrams: permute must be True, False or None, got {describe(permute)}")
        self.permute = permute

    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        operation = "NGrams(items)"
        (items,) = check_hypervectors(operation, items=items)
        check_items(operation, items=items)
        if items.shape[-4] < self.n:
            raise ValueError(f"{operation}: {self.n}-grams need at least {self.n} items, got {describe(items)}")
        if not self._shifts(operation, items) or self.n == 1:
            return self._bundle(items, 0)
        # Slots that factors are shifted into from the other end are done by themselves, so that nothing is copied.
        edge = self.n - 1
        ends = torch.cat([items[..., -edge:, :, :], items[..., :edge, :, :]], dim=-3)
        return torch.cat([self._bundle(ends, 1), self._bundle(items, 1)], dim=-3)

    def _bundle(self, items: Tensor, step: int) -> Tensor:
        """The bundle of n-grams, without the first n - 1 slots if each factor is shifted by ``step`` = 1 more."""
        if self.n == 1:
            return bundle(items)
        count, width = items.shape[-4] - self.n + 1, items.shape[-3] - (self.n - 1) * step
        slots = [(self.n - 1 - factor) * step for factor in range(self.n)]
        factors = [items[..., at : at + count, slot : slot + width, :, :] for at, slot in enumerate(slots)]
        if self.n == 2:
            return bind_bundle(*factors)
        numbers = max(1, factors[0].numel() // count)
        chunks = zip(*(torch.split(x, max(1, _CHUNK_NUMBERS // numbers), dim=-4) for x in factors), strict=True)
        # In each chunk the last binding and the bundling are one.
        return functools.reduce(torch.add, (bind_bundle(multibind(some[:-1]), some[-1]) for some in chunks))

    def from_codebook(self, codebook: Tensor, rows: Tensor) -> Tensor:
        """Encode one sequence that is given by rows of a codebook, without gradients.

        The result is that of ``encoder(codebook[rows])``. Grams with a common beginning share its binding, and no
        hypervector is copied: long texts take little memory.

        Parameters
        ----------
        codebook
            Hypervectors of the symbols.
        rows
            Rows of the codebook.

        Shapes
        ------
        codebook: ``(k, dim, m, m)``, rows: ``(length,)``, length >= n; output: ``(dim, m, m)``

        Examples
        --------
        >>> import torch, ghrr
        >>> letters = ghrr.encoding.Codebook(ghrr.Space(dim=100, m=3), list("abcdr"))
        >>> rows = torch.tensor(["abcdr".index(letter) for letter in "abracadabra"])
        >>> grams = ghrr.encoding.NGrams(3)
        >>> torch.allclose(grams.from_codebook(letters.vectors(), rows), grams(letters(rows)), atol=1e-5)
        True
        """
        operation = "NGrams.from_codebook"
        check_hypervectors(operation, codebook=codebook)
        if codebook.ndim != 4 or rows.ndim != 1 or rows.is_floating_point() or len(rows) < self.n:
            raise ValueError(
                f"{operation}: needs a codebook (k, dim, m, m) and at least {self.n} rows of it, got "
                f"{describe(codebook)} and {describe(rows)}"
            )
        if int(rows.min()) < 0 or int(rows.max()) >= len(codebook):
            raise IndexError(
                f"{operation}: rows must be from 0 to {len(codebook) - 1}, got {int(rows.min())} to {int(rows.max())}"
            )
        shifted = self._shifts(operation, codebook)
        grams = rows.long().cpu().unfold(0, self.n, 1)
        grams = grams[torch.from_numpy(np.lexsort(grams.T.flip(0).numpy()))]
        if self.n == 1:
            counts = torch.bincount(grams[:, 0], minlength=len(codebook)).to(codebook.device, codebook.dtype)
            return torch.einsum("n,n...->...", counts, codebook)
        sums, at = codebook, grams[:, -1]
        for factor in range(self.n - 2, -1, -1):  # x * ρ(y * ρ(z + z') + y' * ρ(z)), from the inside
            key, beginnings = grams[:, factor], grams[:, :factor]
            first = torch.ones(len(grams), dtype=torch.bool)
            first[1:] = (beginnings[1:] != beginnings[:-1]).any(dim=1)
            starts = first.nonzero()[:, 0]
            bags = torch.cat([starts, torch.tensor([len(grams)])])
            places = (x.to(codebook.device) for x in (key, at, bags))
            sums = bind_rows(codebook, sums, *places, shifted=shifted)
            grams, at = beginnings[starts], torch.arange(len(starts))
        return sums[0]

    def _shifts(self, operation: str, x: Tensor) -> bool:
        """Whether factors are shifted, which needs at least n slots."""
        permute = x.shape[-1] == 1 if self.permute is None else self.permute
        if permute and self.n > x.shape[-3]:
            raise ValueError(
                f"{operation}: the factors of {self.n}-grams need at least {self.n} slots to be shifted by, got "
                f"{describe(x)}; use a larger dim, or permute=False"
            )
        return permute

"""Order by binding alone: sequences by position, and n-grams. Binding does not commute, so nothing is permuted."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr._checks import check_hypervectors, check_integer, check_items, describe
from ghrr.algebra import bind_bundle, bundle, multibind, pairwise_similarity, shift, unbind
from ghrr.encoding.module import Encoder
from ghrr.encoding.positions import PowerPositions
from ghrr.hypervector import Hypervector
from ghrr.space import Space


class Sequence(Encoder):
    r"""A sequence of hypervectors as one: :math:`\sum_t R^t * x_t`, with a random unitary R.

    The element at a place is read by unbinding :math:`R^t` from the left.

    Parameters
    ----------
    space
        Where the hypervectors live.
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
    >>> [letters.names[i] for i in model.read(word, 3, letters.vectors)]
    ['c', 'a', 'b']
    """

    def __init__(self, space: Space, *, name: str = "sequence") -> None:
        super().__init__()
        self.space = space
        self.positions = PowerPositions(space, name=name)

    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        operation = "Sequence(items)"
        check_hypervectors(operation, items=items)
        items = self.space.check(items, operation)
        check_items(operation, items=items)
        return bind_bundle(self.positions(torch.arange(items.shape[-4], device=items.device)), items)

    def item(self, x: Tensor | Hypervector, place: int | Tensor) -> Tensor:
        """The noisy elements at places: ``(*batch, dim, m, m)`` to ``(*batch, *places, dim, m, m)``."""
        x = self.space.check(x, "Sequence.item")
        key = self.positions(place)
        x = x.reshape(*x.shape[:-3], *([1] * (key.ndim - 3)), *x.shape[-3:])
        return unbind(x, key, side="left")

    def read(self, x: Tensor | Hypervector, length: int, vectors: Tensor | Hypervector) -> Tensor:
        """The most similar of ``vectors`` at each place: ``(*batch, dim, m, m)`` to ``(*batch, length)`` numbers."""
        length = check_integer("Sequence.read", "length", length, least=0)
        if len(vectors) == 0:
            raise ValueError("Sequence.read: there are no vectors to choose from")
        return pairwise_similarity(self.item(x, torch.arange(length)), vectors).argmax(dim=-1)


class NGrams(Encoder):
    r"""A sequence as the bundle of its n-grams: :math:`\sum_t x_t * x_{t+1} * \dots * x_{t+n-1}`.

    Which n-grams occur, and how often, not where. The similarity of two texts counts n-grams in common.

    Parameters
    ----------
    n
        Length of the runs that are bound.

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
    """

    def __init__(self, n: int, *, permute: bool | None = None) -> None:
        super().__init__()
        self.n = check_integer("NGrams", "n", n, least=1)
        self.permute = permute

    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        operation = "NGrams(items)"
        (items,) = check_hypervectors(operation, items=items)
        check_items(operation, items=items)
        length = items.shape[-4]
        if length < self.n:
            raise ValueError(f"{operation}: {self.n}-grams need at least {self.n} items, got {describe(items)}")
        count = length - self.n + 1
        if self.n == 1:
            return bundle(items)
        runs = [items[..., start : start + count, :, :, :] for start in range(self.n)]
        if items.shape[-1] == 1 if self.permute is None else self.permute:
            runs = [shift(run, place) for place, run in enumerate(runs)]
        if self.n == 2:
            return bind_bundle(*runs)
        return bind_bundle(multibind(runs[:-1]), runs[-1])  # the last binding and the bundling in one

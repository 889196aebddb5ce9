"""SequenceEncoder: sequences of hypervectors, bound to their positions."""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.algebra import bind_bundle, pairwise_similarity, unbind
from ghrr.checks import check_hypervectors, check_integer, check_items, names_errors, value_error
from ghrr.encoding.module import Encoder
from ghrr.encoding.positions import PowerPositions
from ghrr.encoding.powers import Powers
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space


@names_errors
class SequenceEncoder(Encoder):
    r"""Encode sequences of hypervectors by position: :math:`\sum_t R^t * x_t`, with a random unitary R.

    To read the item at index t, unbind :math:`R^t` from the left. Differentiable with respect to the items. For
    sequences of names, and answers with a confidence, use :class:`ghrr.structures.Sequence`.

    Parameters
    ----------
    space
        Space of the hypervectors.
    name
        Encoders with different names use different R.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    items: ``(*batch, n, dim, m, m)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=500, m=3)
    >>> letters = ghrr.encoding.Codebook(space, list("abc"))
    >>> encoder = ghrr.encoding.SequenceEncoder(space)
    >>> word = encoder(letters(list("cab")))
    >>> [letters.names[i] for i in encoder.read(word, 3, letters.vectors())]
    ['c', 'a', 'b']
    """

    def __init__(self, space: Space, *, name: str = "sequence", device: torch.device | str | None = None) -> None:
        super().__init__()
        self.space = check_space(space)
        self.positions = PowerPositions(space, name=name)
        self.powers = Powers()
        self._move(device)

    @names_errors("{cls}(items)")
    def forward(self, items: Tensor | Hypervector) -> Tensor:
        """Encode sequences along the item axis."""
        check_hypervectors(items=items)
        items = self.space.check(items)
        check_items(items=items)
        if self.positions.base.requires_grad:
            return bind_bundle(self.positions(torch.arange(items.shape[-4], device=items.device)), items)
        return self.powers.bundle(self.positions.base, items)

    def keys(self, index: int | Tensor) -> Tensor:
        """Return :math:`R^t` for indices t, which may be any real numbers: ``(*)`` to ``(*, dim, m, m)``."""
        is_integer = isinstance(index, int) or (isinstance(index, Tensor) and not index.is_floating_point())
        if self.positions.base.requires_grad or not is_integer or bool((torch.as_tensor(index) < 0).any()):
            positions: Tensor = self.positions(index)
            return positions
        return self.powers(self.positions.base, torch.as_tensor(index))

    def item(self, x: Tensor | Hypervector, index: int | Tensor) -> Tensor:
        """Return the items at indices, with noise: ``(*batch, dim, m, m)`` to ``(*batch, *index, dim, m, m)``."""
        x = self.space.check(x)
        key = self.keys(index)
        x = x.reshape(*x.shape[:-3], *([1] * (key.ndim - 3)), *x.shape[-3:])
        return unbind(x, key, side="left")

    def read(self, x: Tensor | Hypervector, length: int, vectors: Tensor | Hypervector) -> Tensor:
        """Return the index of the most similar of ``vectors`` at each position.

        Not differentiable.

        Shapes
        ------
        x: ``(*batch, dim, m, m)``, vectors: ``(k, dim, m, m)``; output: ``(*batch, length)``
        """
        length = check_integer("length", length, least=0)
        if len(vectors) == 0:
            raise value_error("needs at least one vector to choose from, got an empty tensor")
        return pairwise_similarity(self.item(x, torch.arange(length)), vectors).argmax(dim=-1)

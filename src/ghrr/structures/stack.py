r"""Stack: push, pop and peek on one hypervector, :math:`h' = x + R * h`.

The top is not bound; each push binds the whole stack below it to R once more. Popping subtracts the top and unbinds R
from the left. With n elements the top scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. R and the elements are
independent, so no factor needs to be shifted, for any m.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ghrr.algebra import bind, unbind
from ghrr.checks import named, names_errors, value_error
from ghrr.encoding import PowerPositions
from ghrr.encoding.powers import Powers
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchList
from ghrr.structures.vocabulary import Name


@names_errors
class Stack(Structure):
    """Stack of names in one hypervector; an empty stack is zero.

    Elements are names or given hypervectors.

    Parameters
    ----------
    space, confidence, device
        See :class:`ghrr.structures.base.Structure`.

    Shapes
    ------
    a stack: ``(dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Stack
    >>> stack = Stack(ghrr.Space(dim=300, m=3))
    >>> h = stack.encode(["plate", "bowl", "cup"])
    >>> stack.peek(h)
    Match('cup', score=1.003, margin=1.026, confident=True)
    >>> top, h = stack.pop(h)
    >>> stack.peek(stack.push(h, "plate")).label, stack.peek(h).label
    ('plate', 'bowl')
    """

    _SIZES = ("size", "names")

    def __init__(
        self, space: Space, *, confidence: float = CONFIDENCE, device: torch.device | str | None = None
    ) -> None:
        super().__init__(space, confidence=confidence, permute=False, device=device)

    def _create_tables(self) -> None:
        self.names = self._vocabulary("stack element")
        self._below = PowerPositions(self.space, name="stack").base.to(self.device)  # R
        self._powers = Powers()

    def encode(self, items: Iterable[Name]) -> Tensor:
        """Return the stack of these names, with the last one on top."""
        rows = self.names.indices(self.names.resolve_all(items))
        self._warn_if_full(len(rows), len(self.names))
        from_top = torch.tensor(rows[::-1], dtype=torch.long)
        return self._powers.bundle_rows(self._below, self.names.vectors(), from_top, torch.tensor([len(rows)]))[0]

    def push(self, h: Tensor | Hypervector, name: Name) -> Tensor:
        """Return the stack with one more element on top. Differentiable with respect to ``h``."""
        x = self._vector(h)
        longer = self.names.encode([self.names.resolve(name)])[0] + bind(self._below, x)
        self._warn_if_full(self._items(longer), len(self.names))
        return longer

    def peek(self, h: Tensor | Hypervector) -> Match:
        """Return the top; unknown if the stack is empty."""
        return self.names.match(self._constant(h)[None], confidence=self.confidence)[0]

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """Return the top, and the stack without it. The stack is differentiable with respect to ``h``."""
        x = self._vector(h)
        if not x.any():
            raise IndexError(named("the stack is empty"))
        top = self.peek(x)
        if top.unknown:
            raise IndexError(
                named(f"the stack is empty, or its top is not one of the {len(self.names)} names in the vocabulary")
            )
        if not top.confident:
            raise value_error(f"the top is not certain, got {top}; use a larger space")
        return top, self._without_top(x, top)

    def _without_top(self, x: Tensor, top: Match) -> Tensor:
        return unbind(x - self.names.encode([top.guess])[0], self._below, side="left")

    def decode(self, h: Tensor | Hypervector, limit: int | None = None) -> MatchList:
        """Return the elements from the top down to the first that is not confident.

        Parameters
        ----------
        h
            A stack, ``(dim, m, m)``.
        limit
            Maximum number of elements to read. By default 1000, with a warning if the limit is reached.
        """
        x = self._constant(h)
        maximum = self._limit(limit)

        def read(rest: Tensor, found: Mapping[int, Match]) -> dict[int, Match]:
            if len(found) >= maximum or not rest.any():
                return {}
            top = self.peek(rest)
            return {len(found): top} if top.confident else {}

        def remove(rest: Tensor, new: Mapping[int, Match]) -> Tensor:
            [top] = new.values()
            return self._without_top(rest, top)

        found, rest = peel(x, read, remove)
        self._warn_if_cut(len(found), limit)
        return MatchList(found.values(), **self._left(rest))

    def _settings(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

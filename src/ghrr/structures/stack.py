r"""Stack: push, pop and peek on one hypervector, :math:`h' = x + R * h`.

The top is not bound; what is below is bound to R once more with each push. Popping takes the top out and unbinds R from
the left. With n elements the top scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. R and the elements are independent, so
no factor needs to be shifted, for any m.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind, unbind
from ghrr.encoding import PowerPositions
from ghrr.encoding.powers import Powers
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, one_of


class Stack(Structure):
    """A stack of names in one hypervector; an empty one is zero.

    Elements are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.

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
    Match('cup', score=0.993, margin=0.986, confident=True)
    >>> top, h = stack.pop(h)
    >>> stack.peek(stack.push(h, "plate")).label, stack.peek(h).label
    ('plate', 'bowl')
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE) -> None:
        super().__init__(space, confidence=confidence, permute=False)
        self.names = Vocabulary(space, "stack element")
        self.step = PowerPositions(space, name="stack").base
        self._powers = Powers()

    @classmethod
    def suggest(cls, size: int, *, names: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which the top of a stack is read with confidence and right.

        Parameters
        ----------
        size
            Number of elements.
        names
            Number of different names.
        m
            Size of the slots' matrices.
        error
            Share of answers that may be not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Stack
        >>> Stack.suggest(50, names=100)
        Space(dim=165, m=3, seed=0)
        """
        size = check_integer("Stack.suggest", "size", size, least=1)
        names = check_integer("Stack.suggest", "names", names, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=size, candidates=names)

        return smallest_space("Stack.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, items: Iterable[Name]) -> Tensor:
        """Return the stack of these names, the last one on top."""
        rows = self.names.indices(self.names.resolve_all("Stack.encode", items))
        from_top = torch.tensor(rows[::-1], dtype=torch.long)
        return self._powers.bundle_rows(self.step, self.names.vectors, from_top, torch.tensor([len(rows)]))[0]

    def push(self, h: Tensor | Hypervector, name: Name) -> Tensor:
        """Return the stack with one more element on top."""
        x = one_of("Stack.push", h, self.space)
        return self.names.encode([self.names.resolve("Stack.push", name)])[0] + bind(self.step, x)

    def peek(self, h: Tensor | Hypervector) -> Match:
        """Return the top; unknown if the stack is empty."""
        return self.names.match(one_of("Stack.peek", h, self.space)[None], confidence=self.confidence)[0]

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """Return the top, and the stack without it."""
        x = one_of("Stack.pop", h, self.space)
        if not x.any():
            raise IndexError("Stack.pop: the stack is empty")
        top = self.peek(x)
        if top.unknown:
            raise IndexError(f"Stack.pop: the stack is empty, or its top is none of the {len(self.names)} known names")
        if not top.confident:
            raise ValueError(f"Stack.pop: the top is not certain, got {top}; use a larger space")
        return top, unbind(x - self.names.encode([top.guess])[0], self.step, side="left")

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> list[Match]:
        """Return the elements from the top, at most ``most`` of them, down to the first that is not certain."""
        x = one_of("Stack.decode", h, self.space)
        most = check_integer("Stack.decode", "most", most, least=0)
        found: list[Match] = []
        while len(found) < most and x.any() and self.peek(x).confident:
            top, x = self.pop(x)
            found.append(top)
        return found

    def _settings(self) -> dict[str, Any]:
        return {"confidence": self.confidence}

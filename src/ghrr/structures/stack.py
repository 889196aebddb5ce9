r"""Stack: push, pop and peek on one hypervector, :math:`h' = x + R * h`.

The top lies open; what is below is bound to R once more with each push. Popping takes the top out and unbinds R from
the left. With n elements the top scores 1 within about :math:`\sqrt{n/(2Dm^2)}`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.algebra import bind, bind_bundle, unbind
from ghrr.encoding import PowerPositions
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.book import Book, as_tensor, check_name, check_names


class Stack:
    """A stack of names in one hypervector; an empty one is zero.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

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

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.names = Book(space, "stack element")
        self.positions = PowerPositions(space, name="stack")
        self.step = self.positions.base

    def encode(self, items: Iterable[str]) -> Tensor:
        """The stack of these names, the last one on top."""
        vectors = self.names.vectors_of(check_names("Stack.encode", items))
        return bind_bundle(self.positions(torch.arange(len(vectors)).flip(0)), vectors)

    def push(self, h: Tensor | Hypervector, name: str) -> Tensor:
        """The stack with one more on top."""
        x = self._one("Stack.push", h)
        return self.names.vectors_of([check_name("Stack.push", name)])[0] + bind(self.step, x)

    def peek(self, h: Tensor | Hypervector) -> Match:
        """What is on top; unknown if the stack is empty."""
        return self.names.match(self._one("Stack.peek", h)[None], level=self.level)[0]

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """What is on top, and the stack without it."""
        x = self._one("Stack.pop", h)
        top = self.peek(x)
        if top.unknown:
            raise IndexError(f"Stack.pop: the stack is empty, or its top is none of the {len(self.names)} known names")
        return top, unbind(x - self.names.vectors_of([top.guess])[0], self.step, side="left")

    def decode(self, h: Tensor | Hypervector) -> list[Match]:
        """Everything, from the top down to the first that is unknown."""
        x = self._one("Stack.decode", h)
        found: list[Match] = []
        while len(self.names) and not self.peek(x).unknown:
            top, x = self.pop(x)
            found.append(top)
        return found

    def _one(self, operation: str, h: Tensor | Hypervector) -> Tensor:
        x = as_tensor(operation, h, self.space)
        if x.ndim != 3:
            raise ValueError(f"{operation}: needs one stack, (dim, m, m); got {describe(x)}")
        return x

r"""Stack: push, pop and peek on one hypervector, :math:`h' = x + R * h`.

The top lies open; what is below is bound to R once more with each push. Popping takes the top out and unbinds R from
the left. With n elements the top scores 1 within about :math:`\sqrt{n/(2Dm^2)}`.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind, bind_bundle, unbind
from ghrr.encoding import PowerPositions
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.vocabulary import Vocabulary, check_name, check_names, one_of


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
        self.names = Vocabulary(space, "stack element")
        self.positions = PowerPositions(space, name="stack")
        self.step = self.positions.base

    def encode(self, items: Iterable[str]) -> Tensor:
        """The stack of these names, the last one on top."""
        vectors = self.names.encode(check_names("Stack.encode", items))
        return bind_bundle(self.positions(torch.arange(len(vectors)).flip(0)), vectors)

    def push(self, h: Tensor | Hypervector, name: str) -> Tensor:
        """The stack with one more on top."""
        x = one_of("Stack.push", h, self.space)
        return self.names.encode([check_name("Stack.push", name)])[0] + bind(self.step, x)

    def peek(self, h: Tensor | Hypervector) -> Match:
        """What is on top; unknown if the stack is empty."""
        return self.names.match(one_of("Stack.peek", h, self.space)[None], level=self.level)[0]

    def pop(self, h: Tensor | Hypervector) -> tuple[Match, Tensor]:
        """What is on top, and the stack without it."""
        x = one_of("Stack.pop", h, self.space)
        top = self.peek(x)
        if top.unknown:
            raise IndexError(f"Stack.pop: the stack is empty, or its top is none of the {len(self.names)} known names")
        return top, unbind(x - self.names.encode([top.guess])[0], self.step, side="left")

    def decode(self, h: Tensor | Hypervector, most: int = 1000) -> list[Match]:
        """The elements from the top, at most ``most`` of them, down to the first that is not certain."""
        x = one_of("Stack.decode", h, self.space)
        most = check_integer("Stack.decode", "most", most, least=0)
        found: list[Match] = []
        while len(found) < most and len(self.names) and self.peek(x).confident:
            top, x = self.pop(x)
            found.append(top)
        return found

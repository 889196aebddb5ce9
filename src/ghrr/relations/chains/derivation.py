"""Derivation: which relations were composed to what, as a tree."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ghrr.checks import names_errors


@names_errors
@dataclass(frozen=True, repr=False)
class Derivation:
    """How a relation follows from a chain: a tree whose leaves are the steps of the chain.

    Parameters
    ----------
    relation
        The relation that the parts compose to; at a leaf, the relation of the chain.
    parts
        Derivations of the parts, in order; none at a leaf. More than two were read as one product.
    probability
        Probability of this step, given its parts; 1 at a leaf.

    Examples
    --------
    >>> from ghrr.relations.chains import Derivation
    >>> father, sister, son = (Derivation(name) for name in ("father", "sister", "son"))
    >>> brother = Derivation("brother", (father, son), 0.98)
    >>> print(Derivation("sister", (brother, sister), 0.99))
    sister (0.99)
    ├─ brother (0.98)
    │  ├─ father
    │  └─ son
    └─ sister
    >>> Derivation("sister", (brother, sister), 0.99).steps
    [('father', 'son', 'brother'), ('brother', 'sister', 'sister')]
    """

    relation: str
    parts: tuple[Derivation, ...] = ()
    probability: float = 1.0

    def __iter__(self) -> Iterator[Derivation]:
        """Yield all nodes, parts before the whole."""
        for part in self.parts:
            yield from part
        yield self

    @property
    def chain(self) -> tuple[str, ...]:
        """The relations of the chain."""
        return tuple(node.relation for node in self if not node.parts)

    @property
    def steps(self) -> list[tuple[str, ...]]:
        """Compositions, each as its parts and the result, in the order in which they can be done."""
        return [(*(part.relation for part in node.parts), node.relation) for node in self if node.parts]

    @property
    def log_probability(self) -> float:
        """Score in the chart, the sum of the logarithms of the probabilities of all steps."""
        return sum(math.log(max(node.probability, 1e-300)) for node in self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def __repr__(self) -> str:
        return f"Derivation({self.relation!r}, {len(self.chain)} steps)"

    def _lines(self) -> Iterator[str]:
        yield f"{self.relation} ({self.probability:.2f})" if self.parts else self.relation
        for position, part in enumerate(self.parts):
            is_last = position == len(self.parts) - 1
            first, *rest = part._lines()
            yield ("└─ " if is_last else "├─ ") + first
            yield from (("   " if is_last else "│  ") + line for line in rest)

"""What reading a record gives: Python data again, with a match for every leaf, and what was left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from ghrr.algebra import similarity
from ghrr.memory.match import Match
from ghrr.structures.layout import Path


class _Missing:
    """Stands where nothing was found: None would be a null that was found."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


@dataclass(frozen=True, repr=False)
class Reading:
    """Nested data that was read from a hypervector.

    Parameters
    ----------
    value
        Dicts, lists and leaves, ``MISSING`` where a place of a list, or a leaf that was asked for, is unknown.
    matches
        The match of every leaf in it, by path.
    vector
        What was read: the record, or the part of it under a path.
    residual
        What is left of it without the leaves that are certain.
    """

    value: Any
    matches: dict[Path, Match]
    vector: Tensor = field(compare=False)
    residual: Tensor = field(compare=False)

    @property
    def scores(self) -> dict[Path, float]:
        """The similarity of every leaf with what was found, by path: about 1 where it is right."""
        return {path: match.score for path, match in self.matches.items()}

    @property
    def confident(self) -> bool:
        """Whether every leaf is confident."""
        return all(match.confident for match in self.matches.values())

    @property
    def unexplained(self) -> float:
        """How many leaves' worth is left over, by energy: those that are not known, and parts that were not read."""
        return float(similarity(self.residual, self.residual))

    def __repr__(self) -> str:
        sure = sum(match.confident for match in self.matches.values())
        return f"Reading({self.value!r}, confident={sure}/{len(self.matches)}, unexplained={self.unexplained:.1f})"


def build(leaves: Mapping[Path, Any]) -> Any:
    """Nested data from its leaves by path; a gap in a list is ``MISSING``, and so is data without a leaf.

    Where a path leads through a leaf, as in a merge that went wrong, what is deeper is kept.
    """
    if set(leaves) <= {()}:
        return leaves.get((), MISSING)
    branches: dict[Any, dict[Path, Any]] = {}
    for path, value in leaves.items():
        if path:
            branches.setdefault(path[0], {})[path[1:]] = value
    parts = {part: build(below) for part, below in branches.items()}
    if all(isinstance(part, int) for part in parts):
        return [parts.get(place, MISSING) for place in range(max(parts) + 1)]
    return parts

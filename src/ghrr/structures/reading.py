"""Reading: nested data that was decoded from a hypervector, with a match for every value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from ghrr.algebra import similarity
from ghrr.memory.match import Match
from ghrr.structures.path_tree import Path


class _Missing:
    """Marker for a value that was not found; None would mean that a null was found."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()


@dataclass(frozen=True, repr=False)
class Reading:
    """Nested data decoded from a hypervector.

    Parameters
    ----------
    value
        Dicts, lists and values; ``MISSING`` for unknown elements of a list and for requested values that are unknown.
    matches
        The match of every value, by path.
    vector
        The hypervector that was read: the record, or the part of it under a path. It has no gradients.
    residual
        The hypervector without the values that are certain.

    Examples
    --------
    >>> import ghrr
    >>> record = ghrr.Record(ghrr.Space(dim=500, m=3))
    >>> reading = record.decode(record.encode({"name": "Ada", "born": {"year": 1815}}))
    >>> reading
    Reading({'name': 'Ada', 'born': {'year': 1815}}, confident=2/2, unexplained=0.0)
    >>> reading.matches["born", "year"].confident, reading.confident
    (True, True)
    """

    value: Any
    matches: dict[Path, Match]
    vector: Tensor = field(compare=False)
    residual: Tensor = field(compare=False)

    @property
    def scores(self) -> dict[Path, float]:
        """Score of every value, by path. A right value scores about 1."""
        return {path: match.score for path, match in self.matches.items()}

    @property
    def confident(self) -> bool:
        """Whether every match is confident."""
        return all(match.confident for match in self.matches.values())

    @property
    def unexplained(self) -> float:
        """Energy of the residual, about the number of values that were not read."""
        return float(similarity(self.residual, self.residual))

    def __repr__(self) -> str:
        confident = sum(match.confident for match in self.matches.values())
        return f"Reading({self.value!r}, confident={confident}/{len(self.matches)}, unexplained={self.unexplained:.1f})"


def nest(values: Mapping[Path, Any]) -> Any:
    """Return nested data from values by path; gaps in lists, and data without a value, are ``MISSING``.

    If one path is a prefix of another, as after a wrong merge, the longer path is used.
    """
    if set(values) <= {()}:
        return values.get((), MISSING)
    branches: dict[Any, dict[Path, Any]] = {}
    for path, value in values.items():
        if path:
            branches.setdefault(path[0], {})[path[1:]] = value
    nested = {key: nest(below) for key, below in branches.items()}
    if all(isinstance(key, int) for key in nested):
        return [nested.get(index, MISSING) for index in range(max(nested) + 1)]
    return nested

"""Results of reading: lists, dicts and nested data with a match for every value, and whether anything is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from torch import Tensor

from ghrr.algebra import similarity
from ghrr.checks import names_errors
from ghrr.documents import Path
from ghrr.memory.match import Match


class _Missing:
    """Marker for a value that was not found; None would mean that a null was found."""

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False


MISSING: Final = _Missing()
HALF = 0.5  # energy below which nothing is left of a hypervector, since an item has energy 1


@names_errors
class Answers:
    """Base class of results with several matches.

    Attributes
    ----------
    complete
        Whether nothing that is encoded is missing. For decoded structures: less than half an item is left of the
        hypervector. For answers of a query: the space can hold what the hypervector contains.
    unexplained
        Energy that is left of a decoded hypervector, about the number of items that were not read; None for a query.
    note
        What the reader should know, such as that a name is unknown and which names are similar; otherwise empty.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Answers, Graph
    >>> graph = Graph(ghrr.Space(dim=300, m=3))
    >>> found = graph.decode(graph.encode([("Ada", "Lima"), ("Kurt", "Rome")]))
    >>> isinstance(found, Answers), found.complete, found.confident, found.note
    (True, True, True, '')
    """

    complete: bool
    unexplained: float | None
    note: str

    def _matches(self) -> list[Match]:
        raise NotImplementedError

    @property
    def confident(self) -> bool:
        """Whether every match is confident, and nothing is missing."""
        return self.complete and all(match.confident for match in self._matches())

    def _summary(self) -> str:
        """Return the end of the repr."""
        matches = self._matches()
        sure = sum(match.confident for match in matches)
        left = "" if self.unexplained is None else f", unexplained={self.unexplained:.1f}"
        note = f", {self.note}" if self.note else ""
        return f"complete={self.complete}, confident={sure}/{len(matches)}{left}{note}"


@names_errors
class MatchList(list[Match], Answers):
    """List of matches: a decoded sequence, chain or stack, or the answers of a query.

    It is a list, with the attributes of :class:`ghrr.structures.Answers`.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Stack
    >>> stack = Stack(ghrr.Space(dim=300, m=3))
    >>> found = stack.decode(stack.encode(["plate", "bowl"]))
    >>> found
    MatchList(['bowl', 'plate'], complete=True, confident=2/2, unexplained=0.0)
    >>> found.complete, found.confident, found.labels, found[0].confident
    (True, True, ['bowl', 'plate'], True)
    """

    def __init__(
        self, matches: Iterable[Match] = (), *, complete: bool = True, unexplained: float | None = None, note: str = ""
    ) -> None:
        super().__init__(matches)
        self.complete, self.unexplained, self.note = complete, unexplained, note

    def _matches(self) -> list[Match]:
        return list(self)

    @property
    def labels(self) -> list[Any]:
        """The label of every match."""
        return [match.label for match in self]

    def __repr__(self) -> str:
        return f"MatchList({self.labels!r}, {self._summary()})"


@names_errors
class MatchDict(dict[Any, Match], Answers):
    """Dict of matches: a decoded table, set, graph or automaton, or decoded n-grams.

    It is a dict, with the attributes of :class:`ghrr.structures.Answers`.

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import HashTable
    >>> table = HashTable(ghrr.Space(dim=300, m=3))
    >>> table.decode(table.encode({"France": "Paris", "Peru": "Lima"}))
    MatchDict({'France': 'Paris', 'Peru': 'Lima'}, complete=True, confident=2/2, unexplained=0.0)
    """

    def __init__(
        self,
        matches: Mapping[Any, Match] | None = None,
        *,
        complete: bool = True,
        unexplained: float | None = None,
        note: str = "",
    ) -> None:
        super().__init__(matches or {})
        self.complete, self.unexplained, self.note = complete, unexplained, note

    def _matches(self) -> list[Match]:
        return list(self.values())

    @property
    def labels(self) -> dict[Any, Any]:
        """The label of every match, by key."""
        return {key: match.label for key, match in self.items()}

    def __repr__(self) -> str:
        return f"MatchDict({self.labels!r}, {self._summary()})"


@names_errors
@dataclass(frozen=True, repr=False)
class Reading(Answers):
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
        """Score of every value, by path. A correct value scores about 1."""
        return {path: match.score for path, match in self.matches.items()}

    @property
    def confident(self) -> bool:
        """Whether every match is confident."""
        return all(match.confident for match in self.matches.values())

    @property
    def complete(self) -> bool:  # type: ignore[override]
        """Whether less than half a value is left. Never for a part of a record, since the rest of it is left."""
        return self.unexplained < HALF

    @property
    def unexplained(self) -> float:  # type: ignore[override]
        """Energy of the residual, about the number of values that were not read."""
        return float(similarity(self.residual, self.residual))

    @property
    def note(self) -> str:  # type: ignore[override]
        """Always empty."""
        return ""

    def _matches(self) -> list[Match]:
        return list(self.matches.values())

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

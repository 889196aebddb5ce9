r"""Record: nested data in one hypervector, read by path.

A leaf v under the path :math:`k_1, \dots, k_d` is :math:`K_1 * \dots * K_d * V`, and a record is the bundle of its
leaves. Keys are bound on the left: reading unbinds from the left, the outermost key first. A path in another order is
another product. For m = 1, where binding commutes, factor j is shifted by j slots:

.. math:: K_1 * \rho(K_2) * \dots * \rho^{d-1}(K_d) * \rho^d(V),

so that the part of a record under a path, unbound and shifted back, is again a record. Each other leaf adds crosstalk
of deviation ``space.crosstalk_std`` to an answer: of n leaves the right one scores 1 within about
:math:`\sqrt{n/(2Dm^2)}`. A record that was scaled or normalised must be scaled back before it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.hypervector import Hypervector
from ghrr.memory import ItemMemory
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.layout import Layout, Part, Path, check_path, show
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.record.by_path import from_pairs
from ghrr.structures.record.codebook import Codebook
from ghrr.structures.record.decode import cancel, read_all, read_below, read_leaves
from ghrr.structures.record.documents import Lists
from ghrr.structures.record.encode import encode_documents
from ghrr.structures.record.query import match_paths
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.values import value_of
from ghrr.structures.vocabulary import Vocabulary, as_tensor, one_of, sparse_odds


class Record(Structure):
    r"""Nested dicts and lists as one hypervector: :math:`\sum_{\text{leaves}} K_1 * \dots * K_d * V`.

    Leaves are strings, numbers, booleans, None, empty dicts and lists, and hypervectors of your own. The record
    remembers the paths that it has encoded and the values at each of them. Reading chooses among the values that were
    seen at a path, or among all values at a path that is new.

    Parameters
    ----------
    space
        Space of the hypervectors.
    numbers
        A :class:`Scale` for all numbers, or a mapping of paths to scales: ``{"age": Scale(0, 120, 5), ("scores", None):
        Scale(0, 1, 0.1)}``. A key is a string or a path as a tuple, where None stands for any key or list index.
        Numbers without a scale are atoms, each unlike all others.
    lists
        ``"positions"``: an element is bound to its index. ``"set"``: all elements of a list are bound to one key, so
        that their order does not matter and the similarity of two lists counts common elements; they must be single
        values. Or a mapping of paths to these, as for numbers.
    confidence
        Probability from which on a match is confident.
    permute
        Shift factor j of a product by j slots before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

    Shapes
    ------
    documents: any JSON; output: ``(dim, m, m)`` for one, ``(n, dim, m, m)`` for a list of them

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record
    >>> codec = Record(ghrr.Space(dim=500, m=3))
    >>> h = codec.encode({"name": "Ada", "born": {"year": 1815, "city": "London"}, "tags": ["poet", "countess"]})
    >>> codec.query(h, "born", "city")
    Match('London', score=0.980, margin=0.980, confident=True)
    >>> codec.query(h, "city", "born").unknown
    True
    >>> codec.query(h, "tags")
    Reading(['poet', 'countess'], confident=2/2, unexplained=2.9)
    """

    def __init__(
        self,
        space: Space,
        *,
        numbers: Scale | Mapping[Any, Scale] | None = None,
        lists: Lists | Mapping[Any, Lists] = "positions",
        confidence: float = CONFIDENCE,
        permute: bool | None = None,
    ) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self._book = Codebook(space, numbers=numbers, lists=lists, permute=self.permute)
        self.values: Vocabulary = self._book.table.names

    @property
    def layout(self) -> Layout:
        """The paths that were encoded."""
        return self._book.layout

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> tuple[Self, Any]:
        """Read what :meth:`save` or the command ``ghrr encode`` wrote.

        Returns
        -------
        record, vectors
            The record with its vocabulary, and the hypervectors as they were given to :meth:`save`. Those of ``ghrr
            encode`` are a dict by label.
        """
        try:
            return super().load(path)
        except ValueError as error:
            try:
                memory = ItemMemory.open(path)
                memory.verify()
            except (ValueError, OSError):
                raise error from None
            if memory.about is None:
                raise ValueError(
                    f"Record.load({str(path)!r}): a file of ItemMemory without a vocabulary; use ItemMemory.open"
                ) from None
            record = cls.from_state(memory.space, memory.about)
            return record, dict(zip(memory.labels, memory.vectors(memory.labels), strict=True))

    @classmethod
    def suggest(cls, leaves: int, *, values: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which records answer with confidence and right.

        Parameters
        ----------
        leaves
            Number of leaves in the largest record.
        values
            Number of values that occur at one path, at most.
        m
            Size of the slots' matrices.
        error
            Share of answers that may be wrong or not confident.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import Record
        >>> Record.suggest(20, values=1000)
        Space(dim=74, m=3, seed=0)
        """
        leaves = check_integer("Record.suggest", "leaves", leaves, least=1)
        values = check_integer("Record.suggest", "values", values, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=leaves, candidates=values)

        return smallest_space("Record.suggest", rate, m=m, error=error, settings=settings)

    # Writing

    def encode(self, document: Any) -> Tensor:
        """Return the hypervector of one document, ``(dim, m, m)``."""
        return self.encode_many([document])[0]

    def encode_many(self, documents: Iterable[Any]) -> Tensor:
        """Return the hypervectors of many documents, ``(n, dim, m, m)``.

        Paths and values are looked up together for all documents, and bound and bundled in one go.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> people = codec.encode_many([{"name": "Ada", "sex": "f"}, {"name": "Charles", "sex": "m"}])
        >>> [match.label for [match] in codec.query_many(people, [["name"]])]
        ['Ada', 'Charles']
        """
        if isinstance(documents, (str, dict, Tensor)) or not isinstance(documents, Iterable):
            raise TypeError(f"Record.encode_many: needs a list of documents, got {describe(documents)}")
        return encode_documents(self._book, list(documents))

    # Reading

    def query(self, h: Tensor | Hypervector, *path: Part) -> Match | Reading:
        """Return what is at a path: a :class:`Match` for a leaf, a :class:`Reading` for a dict or a list.

        The value of a set is a list, the most similar element first; an element that is there twice stands in it twice.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        *path
            Keys of dicts (strings) and indices of lists (whole numbers), outermost first.
        """
        x = one_of("Record.query", h, self.space)
        where = self._checked_path("Record.query", path)
        node = self.layout.node(where)
        inner = node is not None and not self.layout.is_leaf(node)  # seen, but never as a leaf: this is tried last
        reading = read_below(self._book, x, where, confidence=self.confidence) if inner else None
        if reading is not None and reading.matches:
            return reading
        [match] = self._matches(x[None], [where])[0]
        if not match.unknown or inner:
            return match
        reading = read_below(self._book, x, where, confidence=self.confidence)
        return reading if reading.matches else match

    def query_many(self, h: Tensor | Hypervector, paths: Sequence[Sequence[Part]]) -> list[Any]:
        """Return the leaf at each of many paths, in each of many records.

        Shapes
        ------
        h: ``(dim, m, m)`` gives a list of matches, one per path; ``(n, dim, m, m)`` n such lists
        """
        operation = "Record.query_many"
        x = as_tensor(operation, h, self.space)
        if x.ndim > 4:
            raise ValueError(f"{operation}: needs one record or a list of them, (n, dim, m, m); got {describe(x)}")
        if isinstance(paths, str | Tensor) or not isinstance(paths, Sequence):
            raise TypeError(f"{operation}: needs a list of paths, got {describe(paths)}")
        rows = self._matches(x.reshape(-1, *self.space.shape), [self._checked_path(operation, path) for path in paths])
        return rows[0] if x.ndim == 3 else rows

    def _checked_path(self, operation: str, path: Any) -> Path:
        """Return a path; raise if it names an element of a list that is encoded as a set, which has no order."""
        where = check_path(operation, path)
        for depth, part in enumerate(where):
            if isinstance(part, int) and self._book.lists.at(where[:depth]) == "set":
                raise ValueError(
                    f"{operation}: the list at {show(where[:depth])} is encoded as a set, got the index {part}; a set "
                    f"has no order, so read or change the whole list"
                )
        return where

    def _matches(self, rows: Tensor, paths: Sequence[Path]) -> list[list[Match]]:
        found = match_paths(self._book, rows, paths, self._book.keys(paths), confidence=self.confidence)
        return [[column[row].match for column in found] for row in range(len(rows))]

    def decode(self, h: Tensor | Hypervector, like: Any = MISSING) -> Reading:
        """Return the whole record as Python data, with a match for every leaf.

        Leaves that are certain are subtracted from the record before the others are read again, with less noise.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        like
            A document with the paths to read, whatever its values. Without it all known paths are tried, and those kept
            at which there certainly is a value. If that does not explain the record, known keys are tried in new
            combinations too, up to 4096 of them.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(h)
        Reading({'name': 'Ada', 'born': {'year': 1815}}, confident=2/2, unexplained=0.0)
        >>> codec.decode(h, like={"name": "", "died": 0}).value
        {'name': 'Ada', 'died': MISSING}
        """
        x = one_of("Record.decode", h, self.space)
        if like is MISSING:
            if x.any() and not self.layout.leaves():
                self.values.check_not_empty()
            return read_all(self._book, x, confidence=self.confidence)
        asked = self._book.batch([like], add=False)
        paths = [asked.layout.path(node) for node in asked.nodes]
        return read_leaves(self._book, x, paths, confidence=self.confidence, sparse=False)

    # Changing

    def update(self, h: Tensor | Hypervector, path: Sequence[Part], value: Any, *, old: Any = MISSING) -> Tensor:
        """Return the record with another value at a path; the old value is read and subtracted first.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        path
            Where. A leaf above it, such as an empty dict, is removed.
        value
            A leaf, or nested data.
        old
            The value that is there now, if it is known or cannot be read with certainty.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(codec.update(h, ["born"], "London")).value
        {'name': 'Ada', 'born': 'London'}
        """
        x = one_of("Record.update", h, self.space)
        where = self._checked_path("Record.update", path)
        if old is MISSING:
            above = [where[:depth] for depth in range(len(where))]
            x, _ = self._clear("Record.update", x, {where, *above, *self.layout.leaves(where)})
        else:
            x = x - encode_documents(self._book, [old], where)[0]
        return x + encode_documents(self._book, [value], where)[0]

    def delete(self, h: Tensor | Hypervector, path: Sequence[Part], *, old: Any = MISSING) -> Tensor:
        """Return the record without what is at a path and under it; a dict or list that is left empty is removed too.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> h = codec.encode({"name": "Ada", "born": {"year": 1815}})
        >>> codec.decode(codec.delete(h, ["born"])).value
        {'name': 'Ada'}
        """
        x = one_of("Record.delete", h, self.space)
        where = self._checked_path("Record.delete", path)
        if old is not MISSING:
            return x - encode_documents(self._book, [old], where)[0]
        x, found = self._clear("Record.delete", x, {where, *self.layout.leaves(where)})
        if not found:
            raise KeyError(f"Record.delete: there is nothing at {show(where)}")
        return x

    def merge(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> Tensor:
        """Return both records in one, leaf by leaf; where both have a value at a path, that of the second is kept.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> codec = Record(ghrr.Space(dim=500, m=3))
        >>> a, b = codec.encode_many([{"name": "Ada", "age": 35}, {"age": 36, "city": "London"}])
        >>> codec.decode(codec.merge(a, b)).value
        {'name': 'Ada', 'age': 36, 'city': 'London'}
        """
        x, y = (one_of("Record.merge", h, self.space) for h in (first, second))
        known = self.layout.leaves()
        _, taken = self._clear("Record.merge", y, set(known))
        starts = {path[:-1] if path and path[-1] is None else path for path in taken}  # a set is replaced as a whole
        prefixes = {path[:depth] for path in starts for depth in range(len(path))}
        x, _ = self._clear("Record.merge", x, {p for p in known if p in prefixes or _starts_with_one_of(p, starts)})
        return x + y

    def _clear(self, operation: str, x: Tensor, paths: set[Path]) -> tuple[Tensor, list[Path]]:
        """The record without the leaves at these paths, and the paths at which there were some.

        Raises unless it is certain that nothing was overlooked: of many paths each may look empty while some are not,
        so that the probabilities of all of them count together.
        """
        asked = sorted(paths, key=str)
        found = cancel(self._book, x, asked, confidence=self.confidence, odds=sparse_odds(len(paths), x))
        doubts = {path: 1 - match.probability_unknown for path, match in found.doubtful.items()}
        if sum(doubts.values()) > 1 - self.confidence:
            path = max(doubts, key=lambda path: doubts[path])
            hint = "use a larger space" if operation == "Record.merge" else "give it as old=, or use a larger space"
            raise ValueError(
                f"{operation}: the value at {show(path)}, if any, cannot be read with certainty "
                f"({found.doubtful[path]}); {hint}"
            )
        known = set(asked)
        return found.residual, [path if path in known else (*path[:-1], None) for path in found.sure]

    # Files

    @classmethod
    def from_state(cls, space: Space, state: Mapping[str, Any], *, given: Mapping[str, Tensor] | None = None) -> Self:
        """Return the record that gave this state, in the same space; states of version 0.1 are read as well.

        ``given`` maps ``given.values.<name>`` to the hypervectors that were encoded as values.

        Examples
        --------
        >>> import ghrr, json
        >>> from ghrr.structures import Record
        >>> space = ghrr.Space(dim=500, m=3)
        >>> codec = Record(space)
        >>> h = codec.encode({"name": "Ada"})
        >>> later = Record.from_state(space, json.loads(json.dumps(codec.state())))
        >>> later.query(h, "name").label
        'Ada'
        """
        try:
            current = _from_version_0_1(state) if "format" in state else state
            settings = {
                **current["settings"],
                "numbers": from_pairs(current["settings"]["numbers"], lambda scale: scale and Scale(**scale)),
                "lists": from_pairs(current["settings"]["lists"], lambda value: value),
            }
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            raise ValueError(f"Record.from_state: not the state of a Record of this version ({error})") from error
        return super().from_state(space, {**current, "settings": settings}, given=given)

    def _settings(self) -> dict[str, Any]:
        book = self._book
        numbers = book.numbers.state(lambda scale: scale and asdict(scale))
        return {**super()._settings(), "numbers": numbers, "lists": book.lists.state(lambda value: value)}

    def _seen(self) -> list[Any]:
        """Every path with the indices of the values that were seen there, None for all."""
        book = self._book
        found = []
        for path in book.layout.leaves():
            indices = book.seen.at(book.layout.node(path))
            found.append([list(path), None if indices is None else indices.tolist()])
        return found

    def _restore(self, seen: Any) -> None:
        book = self._book
        given = set(self.values.state()["given"])
        for name in self.values.names:
            if name not in given:
                value_of(name)  # raises
        for parts, indices in seen:
            is_set = bool(parts) and parts[-1] is None
            path = check_path("path", parts[:-1] if is_set else parts)
            node = book.layout.insert((*path, None) if is_set else path)
            if indices is None:
                book.seen.add_all(node)
            elif all(isinstance(at, int) and -1 <= at < len(self.values) for at in indices) and indices:
                book.seen.add([(node, indices)])
            else:
                raise ValueError(f"the values at {show(path)} are not in the vocabulary")
            book.layout.mark_leaf(node)
        book.layout.check_indices()


def _from_version_0_1(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state of version 0.1 in today's form: products were not shifted, and values were not kept by path."""
    if (state["format"], state["version"]) != ("ghrr-record", 1):
        raise ValueError(f"format {state['format']!r}, version {state['version']!r}, expected 'ghrr-record', 1")
    return {
        "structure": "Record",
        "settings": {
            "confidence": state["level"],
            "permute": False,
            "numbers": [[None, state["numbers"]]],
            "lists": [[None, "positions"]],
        },
        "vocabulary": {"values": {"names": state["values"], "given": []}},
        "seen": [[path, None] for path in state["paths"]],
    }


def _starts_with_one_of(path: Path, starts: set[Path]) -> bool:
    return any(path[:depth] in starts for depth in range(len(path) + 1))

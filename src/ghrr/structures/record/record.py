r"""Record: nested data as one hypervector, read by path.

A value V under the path :math:`k_1, \dots, k_d` is the product :math:`K_1 * \dots * K_d * V`, and a record is the
bundle of its values. Keys are bound on the left, so reading unbinds them from the left, the outermost key first. A
path in another order is another product. For m = 1, where binding commutes, factor j is shifted by j slots:

.. math:: K_1 * \rho(K_2) * \dots * \rho^{d-1}(K_d) * \rho^d(V) .

The part of a record under a path, unbound and shifted back, is again a record. Every other value adds crosstalk noise
with the standard deviation ``space.crosstalk_std`` to an answer: with n values the correct one scores 1 within about
:math:`\sqrt{n/(2Dm^2)}`. A record that was scaled or normalised must be scaled back before it is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Self

import torch
from torch import Tensor

from ghrr.checks import describe, names_errors, type_error, value_error
from ghrr.documents import Path, check_path, show_path
from ghrr.hypervector import Hypervector
from ghrr.memory import ItemMemory
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.fullness import is_full
from ghrr.structures.path_tree import PathTree
from ghrr.structures.reading import MISSING, Reading
from ghrr.structures.record import decode
from ghrr.structures.record.encode import encode_documents
from ghrr.structures.record.paths import resolve_path
from ghrr.structures.record.query import query_paths
from ghrr.structures.record.tables import ListEncoding, RecordTables, parse_state
from ghrr.structures.record.values import Scale

PathLike = str | int | Sequence[str | int]


@names_errors
class Record(Structure):
    r"""Nested dicts and lists as one hypervector: :math:`\sum_{\text{values}} K_1 * \dots * K_d * V`.

    Values are strings, numbers, booleans, None, empty dicts and lists, and given hypervectors. The record stores the
    paths that it has encoded and the values at each of them. Reading a path chooses among the values that occurred
    there, or among all values if the path is new.

    Every method takes a path as one argument: a key, or a list of keys of dicts (strings) and indices of lists
    (integers), outermost first: ``"name"``, ``["born", "city"]``, ``["tags", 0]``. A known path may also be written
    with dots: ``"born.city"``, ``"tags.0"``. If there is a key that contains the dots, the string is this key.

    Parameters
    ----------
    space, confidence, permute, device
        See :class:`ghrr.structures.base.Structure`.
    numbers
        A :class:`Scale` for all numbers, or a mapping of paths to scales: ``{"age": Scale(0, 120, 5), ("scores", None):
        Scale(0, 1, 0.1)}``. A path is a string (one key) or a tuple of keys, in which None matches any key or list
        index; if several match, the one with the fewest None applies, and among these the first. Numbers without a
        scale are atoms that are not similar to each other.
    lists
        ``"positions"``: every element is bound to its index. ``"set"``: all elements of a list are bound to one key.
        Their order is then lost, the similarity of two lists counts common elements, and elements must be single
        values. Or a mapping of paths to these, as for numbers.

    Shapes
    ------
    documents: any JSON; output: ``(dim, m, m)`` for one, ``(n, dim, m, m)`` for a list of them

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import Record
    >>> record = Record(ghrr.Space(dim=500, m=3))
    >>> h = record.encode({"name": "Ada", "born": {"year": 1815, "city": "London"}, "tags": ["poet", "countess"]})
    >>> record.query(h, ["born", "city"])
    Match('London', score=1.012, margin=1.012, confident=True)
    >>> record.query(h, "born.city").label
    'London'
    >>> record.query(h, ["city", "born"]).unknown
    True
    >>> record.query(h, "tags")
    Reading(['poet', 'countess'], confident=2/2, unexplained=3.0)
    """

    _SIZES = ("leaves", "values")

    def __init__(
        self,
        space: Space,
        *,
        numbers: Scale | Mapping[Any, Scale] | None = None,
        lists: ListEncoding | Mapping[Any, ListEncoding] = "positions",
        confidence: float = CONFIDENCE,
        permute: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(space, confidence=confidence, permute=permute, device=device)
        self._tables = RecordTables(space, numbers=numbers, lists=lists, permute=self.permute, device=self.device)
        self.values = self._tables.values.vocabulary

    @property
    def paths(self) -> PathTree:
        """The paths that were encoded."""
        return self._tables.paths

    # Encode

    def encode(self, document: Any) -> Tensor:
        """Return the hypervector of one document, ``(dim, m, m)``."""
        return self._checked(encode_documents(self._tables, [document]))[0]

    def encode_many(self, documents: Iterable[Any]) -> Tensor:
        """Return the hypervectors of many documents, ``(n, dim, m, m)``, in one batch.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> record = Record(ghrr.Space(dim=500, m=3))
        >>> people = record.encode_many([{"name": "Ada", "sex": "f"}, {"name": "Charles", "sex": "m"}])
        >>> [match.label for [match] in record.query_many(people, ["name"])]
        ['Ada', 'Charles']
        """
        if isinstance(documents, (str, dict, Tensor)) or not isinstance(documents, Iterable):
            raise type_error(f"needs a list of documents, got {describe(documents)}")
        return self._checked(encode_documents(self._tables, list(documents)))

    def _checked(self, records: Tensor) -> Tensor:
        """Return records; warn if the space cannot hold the largest of them."""
        items = self._items(records)
        if is_full(self.space, items, len(self.values), confidence=self.confidence):  # for most paths, it may not be
            counts = [self._tables.candidates(path).count(self.values) for path in self.paths.leaves()]
            self._warn_if_full(items, int(median(counts)) if counts else 1)
        return records

    # Query

    def query(self, h: Tensor | Hypervector, path: PathLike) -> Match | Reading:
        """Return the value at a path as a :class:`Match`, or a dict or list there as a :class:`Reading`.

        A list that is encoded as a set is read as a list with the most similar element first; an element that occurs
        twice is in it twice.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        path
            A key, or a list of keys and list indices.
        """
        x = self._constant(h)
        return self._answers(x[None], [self._check_path(path)])[0][0]

    def query_many(self, h: Tensor | Hypervector, paths: Sequence[PathLike]) -> list[Any]:
        """Return what :meth:`query` returns, for each of many paths of one or many records, in one batch.

        Shapes
        ------
        h: ``(dim, m, m)`` gives a list with one answer per path; ``(n, dim, m, m)`` gives n of these lists
        """
        x = self._vectors(h).detach()
        if x.ndim > 4:
            raise value_error(f"needs one record or a list of them, (n, dim, m, m); got {describe(x)}")
        if isinstance(paths, str | Tensor) or not isinstance(paths, Sequence):
            raise type_error(f"needs a list of paths, got {describe(paths)}")
        answers = self._answers(x.reshape(-1, *self.space.shape), [self._check_path(path) for path in paths])
        return answers[0] if x.ndim == 3 else answers

    def _check_path(self, path: Any) -> Path:
        """Return a path as a tuple; raise if it has an index of a list that is encoded as a set."""
        keys = resolve_path(path, self.paths) if isinstance(path, str) else check_path(path)
        for depth, key in enumerate(keys):
            if isinstance(key, int) and self._tables.lists.at(keys[:depth]) == "set":
                raise value_error(
                    f"the list at {show_path(keys[:depth])} is encoded as a set, got the index {key}; a "
                    f"set has no order, so read or change the whole list"
                )
        return keys

    def _answers(self, records: Tensor, paths: Sequence[Path]) -> list[list[Match | Reading]]:
        """Return the answers of each record: values of all paths in one batch, dicts and lists one by one."""
        nodes = [self.paths.node(path) for path in paths]
        can_be_value = [node is None or self.paths.is_leaf(node) for node in nodes]
        values = iter(self._values(records, [path for path, can in zip(paths, can_be_value, strict=True) if can]))
        columns: list[list[Match | Reading]] = []
        for path, can in zip(paths, can_be_value, strict=True):
            matches = next(values) if can else [None] * len(records)
            columns.append([self._answer(x, path, match) for x, match in zip(records, matches, strict=True)])
        return [[column[row] for column in columns] for row in range(len(records))]

    def _answer(self, x: Tensor, path: Path, match: Match | None) -> Match | Reading:
        """Return a match, or the dict or list at a path if the match is unknown or None."""
        note = self.paths.note(path)
        if match is not None and not match.unknown:
            return self._noted(match, note)
        below = decode.decode_below(self._tables, x, path, confidence=self.confidence)
        return below or self._noted(match or self._values(x[None], [path])[0][0], note)

    def _values(self, records: Tensor, paths: Sequence[Path]) -> list[list[Match]]:
        """Return the best match of each record, for each path."""
        return query_paths(self._tables, records, paths, confidence=self.confidence)

    # Decode

    def decode(self, h: Tensor | Hypervector, like: Any = MISSING) -> Reading:
        """Return the whole record as Python data, with a match for every value.

        Confident values are subtracted from the record before the others are read again, with less noise.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        like
            A document with the paths to read; its values are ignored. Without it all known paths are tried, and only
            confident values are returned. If these do not explain the record, combinations of known keys are tried
            too, up to 4096 of them.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> record = Record(ghrr.Space(dim=500, m=3))
        >>> h = record.encode({"name": "Ada", "born": {"year": 1815}})
        >>> record.decode(h)
        Reading({'name': 'Ada', 'born': {'year': 1815}}, confident=2/2, unexplained=0.0)
        >>> record.decode(h, like={"name": "", "died": 0}).value
        {'name': 'Ada', 'died': MISSING}
        """
        x = self._constant(h)
        if like is MISSING:
            if x.any() and not self.paths.leaves():
                self.values.check_not_empty()
            return decode.decode_record(self._tables, x, confidence=self.confidence)
        return decode.decode_like(self._tables, x, like, confidence=self.confidence)

    # Change

    def update(self, h: Tensor | Hypervector, path: PathLike, value: Any, *, old: Any = MISSING) -> Tensor:
        """Return the record with another value at a path. Differentiable with respect to ``h``.

        Parameters
        ----------
        h
            A record, ``(dim, m, m)``.
        path
            A key, or a list of keys and list indices. A value above it, such as an empty dict, is removed.
        value
            A value, or nested data.
        old
            The current value, if it is known. By default it is read from ``h`` and subtracted.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> record = Record(ghrr.Space(dim=500, m=3))
        >>> h = record.encode({"name": "Ada", "born": {"year": 1815}})
        >>> record.decode(record.update(h, "born", "London")).value
        {'name': 'Ada', 'born': 'London'}
        """
        x, keys = self._vector(h), self._check_path(path)
        changed = decode.update(self._tables, x, keys, value, old, confidence=self.confidence)
        return self._checked(changed)

    def delete(self, h: Tensor | Hypervector, path: PathLike, *, old: Any = MISSING) -> Tensor:
        """Return the record without the value at a path, or the dict or list there. Differentiable w.r.t. ``h``.

        A dict or list that becomes empty is removed too.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> record = Record(ghrr.Space(dim=500, m=3))
        >>> h = record.encode({"name": "Ada", "born": {"year": 1815}})
        >>> record.decode(record.delete(h, "born")).value
        {'name': 'Ada'}
        """
        x, keys = self._vector(h), self._check_path(path)
        return decode.delete(self._tables, x, keys, old, confidence=self.confidence)

    def merge(self, first: Tensor | Hypervector, second: Tensor | Hypervector) -> Tensor:
        """Return both records in one; where both have a value, the value of the second. Differentiable w.r.t. both.

        Examples
        --------
        >>> import ghrr
        >>> from ghrr.structures import Record
        >>> record = Record(ghrr.Space(dim=500, m=3))
        >>> a, b = record.encode_many([{"name": "Ada", "age": 35}, {"age": 36, "city": "London"}])
        >>> record.decode(record.merge(a, b)).value
        {'name': 'Ada', 'age': 36, 'city': 'London'}
        """
        x, y = (self._vector(h) for h in (first, second))
        return self._checked(decode.merge(self._tables, x, y, confidence=self.confidence))

    # Files

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: torch.device | str | None = None) -> tuple[Self, Any]:
        """Read a file that :meth:`save` or the command ``ghrr encode`` wrote.

        Returns
        -------
        record, vectors
            The record with its vocabulary, and the hypervectors as they were given to :meth:`save`. Those of ``ghrr
            encode`` are a dict by label.
        """
        try:
            return super().load(path, device=device)
        except ValueError as error:
            try:
                memory = ItemMemory.open(path)
                memory.verify()
            except (ValueError, OSError):
                raise error from None
            if memory.about is None:
                raise value_error("a file of ItemMemory without a vocabulary; use ItemMemory.open", path=path) from None
            record = cls.from_state(memory.space, memory.about, device=device)
            vectors = memory.vectors(memory.labels).to(record.device)
            return record, dict(zip(memory.labels, vectors, strict=True))

    @classmethod
    def from_state(
        cls,
        space: Space,
        state: Mapping[str, Any],
        *,
        given: Mapping[str, Tensor] | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Return the record with a state from :meth:`state`, in the same space; states of version 0.1 work too.

        ``given`` maps ``given.values.<name>`` to the given hypervectors.

        Examples
        --------
        >>> import ghrr, json
        >>> from ghrr.structures import Record
        >>> space = ghrr.Space(dim=500, m=3)
        >>> record = Record(space)
        >>> h = record.encode({"name": "Ada"})
        >>> later = Record.from_state(space, json.loads(json.dumps(record.state())))
        >>> later.query(h, "name").label
        'Ada'
        """
        return super().from_state(space, parse_state(state), given=given, device=device)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), **self._tables.settings()}

    def _seen(self) -> list[Any]:
        return self._tables.seen_values()

    def _restore(self, seen: Any) -> None:
        self._tables.restore(seen)

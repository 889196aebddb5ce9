r"""HashTable: keys to values, read in both directions.

A table is :math:`\sum_n K_n * \rho(V_n)`, with the key on the left and the value shifted by one slot. A value is read
by unbinding its key from the left, a key by unbinding its value from the right. With n entries the correct answer
scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. The shift makes {a: b} and {b: a} independent if keys and values are
the same given hypervectors. With ``permute=False`` they keep a similarity of about 1/m², and for m = 1 they are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr.algebra import similarity, unbind
from ghrr.checks import describe, named, names_errors, type_error, value_error
from ghrr.encoding.bags import bind_rows
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.certainty import is_settled
from ghrr.structures.inputs import chunks
from ghrr.structures.peel import peel
from ghrr.structures.reading import MatchDict
from ghrr.structures.vocabulary import Name


@names_errors
class HashTable(Structure):
    r"""Dict of names as one hypervector: :math:`\sum_n K_n * \rho(V_n)`.

    Keys and values are names or given hypervectors.

    Parameters
    ----------
    space, confidence, device
        See :class:`ghrr.structures.base.Structure`.
    permute
        Shift values by one slot before binding, by default for every m.

    Shapes
    ------
    encode: a dict to ``(dim, m, m)``, a list of n dicts to ``(n, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> from ghrr.structures import HashTable
    >>> table = HashTable(ghrr.Space(dim=300, m=3))
    >>> h = table.encode({"France": "Paris", "Peru": "Lima"})
    >>> table.get(h, "Peru")
    Match('Lima', score=1.004, margin=1.023, confident=True)
    >>> table.key(h, "Lima").label
    'Peru'
    >>> table.get(h, "Chile").unknown
    True
    """

    _SIZES = ("entries", "values")

    def __init__(
        self,
        space: Space,
        *,
        confidence: float = CONFIDENCE,
        permute: bool | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(space, confidence=confidence, permute=True if permute is None else permute, device=device)

    def _create_tables(self) -> None:
        self.keys, self.values = self._vocabulary("table key"), self._vocabulary("table value")

    def encode(self, entries: Mapping[Any, Name] | Sequence[Mapping[Any, Name]]) -> Tensor:
        """Return the hypervector of a dict, or of each of a list of dicts."""
        if isinstance(entries, Mapping):
            return self.encode([entries])[0]
        h, largest = self._encode(entries)
        self._warn_if_full(largest, len(self.values))
        return h

    def _encode(self, entries: Any) -> tuple[Tensor, int]:
        """Return the hypervectors of dicts, and the number of entries of the largest."""
        if not isinstance(entries, Iterable) or hasattr(entries, "ndim"):  # a tensor or an array
            raise type_error(f"needs a dict of strings or a list of dicts, got {describe(entries)}")
        sizes = [0]
        keys: list[str] = []
        values: list[str] = []
        for table in entries:
            if not isinstance(table, Mapping):
                raise type_error(f"needs a dict of strings or a list of dicts, got {describe(table)}")
            keys += self.keys.resolve_all(table)
            values += self.values.resolve_all(table.values())
            sizes.append(len(table))
        columns = self.keys.indices(keys), self.values.indices(values), np.cumsum(sizes)
        bags = (torch.from_numpy(np.array(column, dtype=np.int64)).to(self.device) for column in columns)
        h = bind_rows(self.keys.vectors(), self.values.vectors(), *bags, shifted=self.permute)
        return h, max(np.diff(np.cumsum(sizes)), default=0)

    def get(self, h: Tensor | Hypervector, key: Name) -> Match:
        """Return the value of a key."""
        return self.get_many(h, [key])[0]

    def get_many(self, h: Tensor | Hypervector, keys: Sequence[Name]) -> list[Match]:
        """Return the values of many keys in one table, or of one key in each of as many tables ``(n, dim, m, m)``."""
        x = self._vectors(h).detach()
        names = self.keys.resolve_all(keys)
        if x.ndim > 4 or (x.ndim == 4 and len(x) != len(names)):
            raise value_error(f"needs one table, or one per key; got {describe(x)} and {len(names)} keys")
        tables, found = x.expand(len(names), *self.space.shape), []
        for chunk in chunks(len(names), self.space):
            answers = self._shift(unbind(tables[chunk], self.keys.vectors(names[chunk]), side="left"), -1)
            energy = similarity(tables[chunk], tables[chunk])
            found += self.values.match(answers, energy=energy, confidence=self.confidence)
        return [self._noted(match, self.keys.note(name)) for match, name in zip(found, names, strict=True)]

    def key(self, h: Tensor | Hypervector, value: Name) -> Match:
        """Return the key of a value; the match of a value with several keys is not confident."""
        x = self._constant(h)
        name = self.values.resolve(value)
        vector = self.values.vectors([name])
        answer = unbind(x, self._shift(vector, 1), side="right")
        [match] = self.keys.match(answer, energy=similarity(x, x), confidence=self.confidence)
        return self._noted(match, self.values.note(name))

    def put(self, h: Tensor | Hypervector, key: Name, value: Name) -> Tensor:
        """Return the table with an entry, which replaces the entry of the same key. Differentiable w.r.t. ``h``.

        Raises
        ------
        ValueError
            If the current value of the key is not certain.
        """
        x = self._vector(h)
        name = self.keys.resolve(key)
        if x.any():
            match = self.get(x, name)
            if not is_settled(match):
                raise value_error(f"the current value of {name!r} is not certain, got {match}; use a larger space")
            x = x - self._encode([{name: match.guess}])[0][0] if match.confident else x
        larger = x + self._encode([{name: value}])[0][0]
        self._warn_if_full(self._items(larger), len(self.values))
        return larger

    def remove(self, h: Tensor | Hypervector, key: Name) -> Tensor:
        """Return the table without the entry of a key. Differentiable with respect to ``h``.

        Raises
        ------
        KeyError
            If there is no such entry, or its value is not certain.
        """
        x = self._vector(h)
        name = self.keys.resolve(key)
        match = self.get(x, name)
        if not match.confident:
            raise KeyError(named(f"no certain entry with the key {name!r}, got {match}"))
        return x - self._encode([{name: match.guess}])[0][0]

    def decode(self, h: Tensor | Hypervector) -> MatchDict:
        """Return all known keys whose value is confident, in the order of the vocabulary.

        Confident entries are subtracted, and the rest is read again with less noise.
        """
        x = self._constant(h)
        if not x.any():
            return MatchDict(unexplained=0.0)
        self.keys.check_not_empty()

        def read(rest: Tensor, found: Mapping[str, Match]) -> dict[str, Match]:
            remaining = [key for key in self.keys.names if key not in found]
            matches = zip(remaining, self.get_many(rest, remaining), strict=True)
            return {key: match for key, match in matches if match.confident}

        def remove(rest: Tensor, new: Mapping[str, Match]) -> Tensor:
            return rest - self._encode([{key: match.guess for key, match in new.items()}])[0][0]

        found, rest = peel(x, read, remove)
        return MatchDict({key: found[key] for key in self.keys.names if key in found}, **self._left(rest))

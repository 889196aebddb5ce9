r"""HashTable: keys to values, read in both directions.

A table is :math:`\sum_n K_n * V_n`, key on the left. A value is read by unbinding its key from the left, a key by
unbinding its value from the right. Of n entries the right answer scores 1 within about :math:`\sqrt{n/(2Dm^2)}`. Keys
and values have different atoms, but a hypervector of your own may be both: for m = 1, where binding commutes, values
are shifted by one slot, so that {a: b} is not {b: a}. For larger m these two keep a similarity of about 1/m²; set
``permute=True`` if keys and values are the same hypervectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ghrr._checks import check_integer, describe
from ghrr.algebra import similarity, unbind
from ghrr.encoding.bags import bind_rows
from ghrr.hypervector import Hypervector
from ghrr.memory.match import CONFIDENCE, Match
from ghrr.space import Space
from ghrr.structures.base import Structure
from ghrr.structures.planning import answer_rate, smallest_space
from ghrr.structures.vocabulary import Name, Vocabulary, as_tensor, chunks, is_settled, one_of


class HashTable(Structure):
    r"""A dict of names as one hypervector: :math:`\sum_n K_n * V_n`.

    Keys and values are names or hypervectors of your own.

    Parameters
    ----------
    space
        Space of the hypervectors.
    confidence
        Probability from which on a match is confident.
    permute
        Shift values by one slot before binding; by default only for m = 1
        (:class:`ghrr.structures.base.Structure`).

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
    Match('Lima', score=1.014, margin=1.007, confident=True)
    >>> table.key(h, "Lima").label
    'Peru'
    >>> table.get(h, "Chile").unknown
    True
    """

    def __init__(self, space: Space, *, confidence: float = CONFIDENCE, permute: bool | None = None) -> None:
        super().__init__(space, confidence=confidence, permute=permute)
        self.keys = Vocabulary(space, "table key")
        self.values = Vocabulary(space, "table value")

    @classmethod
    def suggest(cls, entries: int, *, values: int, m: int = 3, error: float = 0.01, **settings: Any) -> Space:
        """Return the smallest space in which a table answers with confidence and right.

        Parameters
        ----------
        entries
            Number of entries.
        values
            Number of different values.
        m
            Size of the slots' matrices.
        error
            Share of values that may be not confident or wrong.
        **settings
            Further arguments of :class:`ghrr.Space`.

        Examples
        --------
        >>> from ghrr.structures import HashTable
        >>> HashTable.suggest(200, values=50)
        Space(dim=631, m=3, seed=0)
        """
        entries = check_integer("HashTable.suggest", "entries", entries, least=1)
        values = check_integer("HashTable.suggest", "values", values, least=1)

        def rate(space: Space) -> float:
            return answer_rate(space, items=entries, candidates=values)

        return smallest_space("HashTable.suggest", rate, m=m, error=error, settings=settings)

    def encode(self, entries: Mapping[Any, Name] | Sequence[Mapping[Any, Name]]) -> Tensor:
        """Return the hypervector of a dict, or of each of a list of dicts."""
        if isinstance(entries, Mapping):
            return self.encode([entries])[0]
        if not isinstance(entries, Iterable) or hasattr(entries, "ndim"):  # a tensor or an array
            raise TypeError(f"HashTable.encode: needs a dict of strings or a list of them, got {describe(entries)}")
        sizes = [0]
        keys: list[str] = []
        values: list[str] = []
        for table in entries:
            if not isinstance(table, Mapping):
                raise TypeError(f"HashTable.encode: needs a dict of strings or a list of them, got {describe(table)}")
            keys += self.keys.resolve_all("HashTable.encode", table)
            values += self.values.resolve_all("HashTable.encode", table.values())
            sizes.append(len(table))
        numbers = self.keys.indices(keys), self.values.indices(values), np.cumsum(sizes)
        places = (torch.from_numpy(np.array(column, dtype=np.int64)) for column in numbers)
        return bind_rows(self.keys.vectors, self.values.vectors, *places, shifted=self.permute)

    def get(self, h: Tensor | Hypervector, key: Name) -> Match:
        """Return the value of a key, which is unbound from the left."""
        return self.get_many(h, [key])[0]

    def get_many(self, h: Tensor | Hypervector, keys: Sequence[Name]) -> list[Match]:
        """Return the values of many keys in one table, or of one key in each of as many tables ``(n, dim, m, m)``."""
        x = as_tensor("HashTable.get", h, self.space)
        names = self.keys.resolve_all("HashTable.get", keys)
        if x.ndim > 4 or (x.ndim == 4 and len(x) != len(names)):
            raise ValueError(
                f"HashTable.get: needs one table, or as many as there are keys; got {describe(x)} and {len(names)} keys"
            )
        tables, found = x.expand(len(names), *self.space.shape), []
        for chunk in chunks(len(names), self.space):
            answers = self._shift(unbind(tables[chunk], self.keys.lookup(names[chunk]), side="left"), -1)
            energy = similarity(tables[chunk], tables[chunk])
            found += self.values.match(answers, energy=energy, confidence=self.confidence)
        return found

    def key(self, h: Tensor | Hypervector, value: Name) -> Match:
        """Return the key of a value, which is unbound from the right. A value of several keys is not confident."""
        x = one_of("HashTable.key", h, self.space)
        vector = self.values.lookup([self.values.resolve("HashTable.key", value)])
        answer = unbind(x, self._shift(vector, 1), side="right")
        return self.keys.match(answer, energy=similarity(x, x), confidence=self.confidence)[0]

    def put(self, h: Tensor | Hypervector, key: Name, value: Name) -> Tensor:
        """Return the table with an entry; what the key had before is taken out.

        Raises
        ------
        ValueError
            If it is not certain what the key has now.
        """
        x = one_of("HashTable.put", h, self.space)
        name = self.keys.resolve("HashTable.put", key)
        if x.any():
            match = self.get(x, name)
            if not is_settled(match):
                raise ValueError(
                    f"HashTable.put: the value that {name!r} has now is not certain, got {match}; use a larger space"
                )
            x = x - self.encode({name: match.guess}) if match.confident else x
        return x + self.encode({name: value})

    def remove(self, h: Tensor | Hypervector, key: Name) -> Tensor:
        """Return the table without the entry of a key.

        Raises
        ------
        KeyError
            If there is no such entry, or its value is not certain.
        """
        x = one_of("HashTable.remove", h, self.space)
        name = self.keys.resolve("HashTable.remove", key)
        match = self.get(x, name)
        if not match.confident:
            raise KeyError(f"HashTable.remove: no entry of {name!r} that is certain: {match}")
        return x - self.encode({name: match.guess})

    def decode(self, h: Tensor | Hypervector) -> dict[str, Match]:
        """Return all known keys whose value is certain.

        Entries that are certain are taken out, and the rest is read again with less noise.
        """
        x = one_of("HashTable.decode", h, self.space)
        if not x.any():
            return {}
        self.keys.check_not_empty()
        found: dict[str, Match] = {}
        waiting = list(self.keys.names)
        while waiting:
            matches = dict(zip(waiting, self.get_many(x, waiting), strict=True))
            sure = {key: match for key, match in matches.items() if match.confident}
            if not sure:
                break
            found |= sure
            x = x - self.encode({key: match.guess for key, match in sure.items()})
            waiting = [key for key in waiting if key not in sure]
        return {key: found[key] for key in self.keys.names if key in found}

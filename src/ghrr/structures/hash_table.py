r"""HashTable: keys to values, read in both directions.

A table is :math:`\sum_n K_n * V_n`, key on the left. A value is read by unbinding its key from the left, a key by
unbinding its value from the right. Of n entries the right answer scores 1 within about :math:`\sqrt{n/(2Dm^2)}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from ghrr._checks import describe
from ghrr.algebra import bind, bind_bundle, similarity, unbind
from ghrr.hypervector import Hypervector
from ghrr.memory.match import LEVEL, Match
from ghrr.space import Space
from ghrr.structures.vocabulary import Vocabulary, as_tensor, check_name, check_names, chunks, is_settled, one_of


class HashTable:
    r"""A dict of strings as one hypervector: :math:`\sum_n K_n * V_n`.

    Parameters
    ----------
    space
        Where the hypervectors live.
    level
        From which probability on a match is confident.

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

    def __init__(self, space: Space, *, level: float = LEVEL) -> None:
        self.space, self.level = space, level
        self.keys = Vocabulary(space, "table key")
        self.values = Vocabulary(space, "table value")

    def encode(self, entries: Mapping[str, str] | Sequence[Mapping[str, str]]) -> Tensor:
        """The hypervector of a dict, or of each of a list of dicts."""
        if isinstance(entries, Mapping):
            return self.encode([entries])[0]
        if not isinstance(entries, Iterable):
            raise TypeError(f"HashTable.encode: needs a dict of strings or a list of them, got {describe(entries)}")
        sizes = []
        keys: list[str] = []
        values: list[str] = []
        for table in entries:
            if not isinstance(table, Mapping):
                raise TypeError(f"HashTable.encode: needs a dict of strings or a list of them, got {describe(table)}")
            keys += check_names("HashTable.encode", list(table))
            values += check_names("HashTable.encode", list(table.values()))
            sizes.append(len(table))
        rows = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes, dtype=torch.long))
        total = self.space.empty(len(sizes))
        for run in chunks(len(keys), self.space):
            bound = bind(self.keys.encode(keys[run]), self.values.encode(values[run]))
            total.index_add_(0, rows[run], bound)
        return total

    def get(self, h: Tensor | Hypervector, key: str) -> Match:
        """The value of a key: it is unbound from the left."""
        return self.get_many(h, [key])[0]

    def get_many(self, h: Tensor | Hypervector, keys: Sequence[str]) -> list[Match]:
        """The values of many keys in one table, or of one key in each of as many tables ``(n, dim, m, m)``."""
        x = as_tensor("HashTable.get", h, self.space)
        names = check_names("HashTable.get", keys)
        if x.ndim > 4 or (x.ndim == 4 and len(x) != len(names)):
            raise ValueError(
                f"HashTable.get: needs one table, or as many as there are keys; got {describe(x)} and {len(names)} keys"
            )
        tables, found = x.expand(len(names), *self.space.shape), []
        for run in chunks(len(names), self.space):
            answers = unbind(tables[run], self.keys.lookup(names[run]), side="left")
            found += self.values.match(answers, energy=similarity(tables[run], tables[run]), level=self.level)
        return found

    def key(self, h: Tensor | Hypervector, value: str) -> Match:
        """The key of a value: the value is unbound from the right. One that has several keys is not confident."""
        x = one_of("HashTable.key", h, self.space)
        name = check_name("HashTable.key", value)
        answer = unbind(x, self.values.lookup([name]), side="right")
        return self.keys.match(answer, energy=similarity(x, x), level=self.level)[0]

    def put(self, h: Tensor | Hypervector, key: str, value: str) -> Tensor:
        """The table with an entry; what the key had before is taken out. Raises where that cannot be told."""
        x = one_of("HashTable.put", h, self.space)
        if len(self.values):
            match = self.get(x, key)
            if not is_settled(match):
                raise ValueError(
                    f"HashTable.put: what {key!r} has now cannot be told with certainty ({match}); use a larger space"
                )
            x = x - self.encode({key: match.guess}) if match.confident else x
        return x + self.encode({key: value})

    def remove(self, h: Tensor | Hypervector, key: str) -> Tensor:
        """The table without the entry of a key."""
        x = one_of("HashTable.remove", h, self.space)
        match = self.get(x, key)
        if not match.confident:
            raise KeyError(f"HashTable.remove: no entry of {key!r} that is certain: {match}")
        return x - self.encode({key: match.guess})

    def decode(self, h: Tensor | Hypervector) -> dict[str, Match]:
        """All known keys that have a value for certain; what is found is taken out, and the rest looked at again."""
        x = one_of("HashTable.decode", h, self.space)
        found: dict[str, Match] = {}
        waiting = list(self.keys.names) if len(self.values) else []
        while waiting:
            matches = dict(zip(waiting, self.get_many(x, waiting), strict=True))
            sure = {key: match for key, match in matches.items() if match.confident}
            if not sure:
                break
            found |= sure
            values = [match.guess for match in sure.values()]
            x = x - bind_bundle(self.keys.encode(sure), self.values.encode(values))
            waiting = [key for key in waiting if key not in sure]
        return {key: found[key] for key in self.keys.names if key in found}

"""LabelTable: labels with their ids, as a value that never changes, so that readers need no lock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress


class LabelTable:
    """Labels and their ids, in ascending order of the ids. :meth:`added` and :meth:`removed` return another table.

    Tables share one list: adding writes behind its last label, which no earlier table reads, so it takes amortised
    O(1). A list that already goes on behind this table, because an add was interrupted, is copied first. Removed
    labels stay in the list until they are more than half of it. One thread at a time may add.

    Parameters
    ----------
    names
        Labels, all different.
    ids
        Their ids, ascending.
    """

    def __init__(self, names: Iterable[str] = (), ids: Iterable[int] = ()) -> None:
        self._names, self._ids = list(names), list(ids)
        self._places = {name: place for place, name in enumerate(self._names)}  # of a name given again: the last
        self._count = len(self._names)
        self._gone = b""  # 1 for what was removed; shorter than the list if nothing was removed from its end
        self._removed = 0

    def __len__(self) -> int:
        return self._count - self._removed

    def __reduce__(self) -> tuple[type[LabelTable], tuple[list[str], list[int]]]:
        return LabelTable, (self.names, self.ids)

    def _here(self, start: int = 0) -> Iterator[bool]:
        """Whether each label from a place on is there."""
        gone = self._gone[start:]
        yield from (not flag for flag in gone)
        for _ in range(start + len(gone), self._count):
            yield True

    @property
    def names(self) -> list[str]:
        """The labels."""
        names = self._names[: self._count]
        return list(compress(names, self._here())) if self._removed else names

    @property
    def ids(self) -> list[int]:
        """The ids."""
        ids = self._ids[: self._count]
        return list(compress(ids, self._here())) if self._removed else ids

    def find(self, name: object) -> int | None:
        """Return the id of a label, None if it is not there."""
        place = self._place(name) if isinstance(name, str) else -1
        return None if place < 0 else self._ids[place]

    def _place(self, name: str) -> int:
        place = self._places.get(name, -1)
        # A later table may have the name at a later place, and an interrupted add may have left it at any.
        there = 0 <= place < self._count and self._names[place] == name
        return place if there and self._gone[place : place + 1] != b"\1" else -1

    def name_of(self, number: int) -> str:
        """Return the label of an id; raise KeyError if there is none."""
        place = bisect_left(self._ids, number, 0, self._count)
        if place == self._count or self._ids[place] != number or self._gone[place : place + 1] == b"\1":
            raise KeyError(number)
        return self._names[place]

    def since(self, first: int) -> dict[str, int]:
        """Return labels and ids from an id on."""
        start = bisect_left(self._ids, first, 0, self._count)
        here = list(self._here(start))
        names, ids = self._names[start : self._count], self._ids[start : self._count]
        return dict(zip(compress(names, here), compress(ids, here), strict=True))

    def missing_from(self, later: LabelTable) -> list[int]:
        """Return the ids that are in this table and not in a later one."""
        if self._ids is later._ids and self._gone is later._gone:  # nothing was removed meanwhile
            return []
        return sorted(set(self.ids).difference(later.ids))

    def added(self, names: Sequence[str], ids: Sequence[int]) -> LabelTable:
        """Return a table with more labels, which are not in this one; the ids are larger than all in it."""
        if not len(self._names) == len(self._ids) == self._count:
            return LabelTable(self.names, self.ids).added(names, ids)
        table = self._copy()
        self._names.extend(names)
        self._ids.extend(ids)
        self._places.update(zip(names, range(self._count, len(self._names)), strict=True))
        table._count = self._count + len(names)
        return table

    def removed(self, names: Iterable[str]) -> LabelTable:
        """Return a table without these labels, which are in this one and all different."""
        gone = bytearray(self._gone.ljust(self._count, b"\0"))
        for name in names:
            gone[self._place(name)] = 1
        table = self._copy()
        table._gone, table._removed = bytes(gone), gone.count(1)
        return table if 2 * table._removed <= table._count else LabelTable(table.names, table.ids)

    def _copy(self) -> LabelTable:
        table = LabelTable.__new__(LabelTable)
        vars(table).update(vars(self))
        return table

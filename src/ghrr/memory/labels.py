"""Labels: validation of labels, and a table of labels and ids that readers use without a lock."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

from torch import Tensor

from ghrr.checks import describe, type_error, value_error

_INVERTED = b"\1\0" + bytes(254)  # 0 becomes 1, and 1 becomes 0


def check_labels(labels: str | Iterable[str]) -> list[str]:
    """Return labels as a list of plain strings. A single string is one label."""
    if isinstance(labels, str):
        labels = [labels]
    if isinstance(labels, Tensor) or not isinstance(labels, Iterable):
        raise type_error(f"labels must be strings, got {describe(labels)}")
    names = list(labels)
    for name in names:
        if not isinstance(name, str):
            raise type_error(f"a label must be a string, got {describe(name)}")
    names = list(map(str.__str__, names))  # members of a StrEnum become plain strings
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise value_error(f"labels must be valid Unicode text: {error}") from None
    return names


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


class LabelTable:
    """Immutable table of labels and ids, in ascending order of ids.

    :meth:`added` and :meth:`removed` return new tables. Tables share one list: adding appends to it, and earlier tables
    do not read the new entries, so adding is amortised O(1). If the list already continues after this table, because an
    add was interrupted, it is copied first. Removed labels stay in the list until they are more than half of it, and
    can be added again. Only one thread may add at a time.

    Parameters
    ----------
    names
        Labels, all different.
    ids
        Their ids, ascending.
    """

    def __init__(self, names: Iterable[str] = (), ids: Iterable[int] = ()) -> None:
        self._names, self._ids = list(names), list(ids)
        self._indices = {name: index for index, name in enumerate(self._names)}  # the last index of a repeated name
        self._earlier: dict[int, int] = {}  # for a name that was removed and added again, its index before
        self._count = len(self._names)
        self._removed = b""  # 1 for removed entries; entries after its end are present
        self._removed_count = 0

    def __len__(self) -> int:
        return self._count - self._removed_count

    def __reduce__(self) -> tuple[type[LabelTable], tuple[list[str], list[int]]]:
        return LabelTable, (self.names, self.ids)

    def _present(self, start: int = 0) -> bytes:
        """Return for each entry from ``start`` on 1, or 0 if it was removed."""
        return self._removed[start:].translate(_INVERTED).ljust(self._count - start, b"\1")

    @property
    def names(self) -> list[str]:
        """All labels."""
        names = self._names[: self._count]
        return list(compress(names, self._present())) if self._removed_count else names

    @property
    def ids(self) -> list[int]:
        """All ids."""
        ids = self._ids[: self._count]
        return list(compress(ids, self._present())) if self._removed_count else ids

    def find(self, name: object) -> int | None:
        """Return the id of a label, or None if the label is not in the table."""
        index = self._index(name) if isinstance(name, str) else -1
        return None if index < 0 else self._ids[index]

    def _index(self, name: str) -> int:
        index = self._indices.get(name, -1)
        while index >= self._count:  # a later table, or an interrupted add, moved the name to a later index
            index = self._earlier.get(index, -1)
        is_here = index >= 0 and self._names[index] == name
        return index if is_here and self._removed[index : index + 1] != b"\1" else -1

    def name_of(self, number: int) -> str:
        """Return the label of an id; raise KeyError if there is none."""
        index = bisect_left(self._ids, number, 0, self._count)
        if index == self._count or self._ids[index] != number or self._removed[index : index + 1] == b"\1":
            raise KeyError(number)
        return self._names[index]

    def since(self, first: int) -> dict[str, int]:
        """Return labels and ids from the id ``first`` on."""
        start = bisect_left(self._ids, first, 0, self._count)
        present = self._present(start)
        names, ids = self._names[start : self._count], self._ids[start : self._count]
        return dict(zip(compress(names, present), compress(ids, present), strict=True))

    def missing_from(self, later: LabelTable) -> list[int]:
        """Return the ids that are in this table but not in a later one."""
        if self._ids is later._ids and self._removed is later._removed:  # nothing was removed in between
            return []
        return sorted(set(self.ids).difference(later.ids))

    def added(self, names: Sequence[str], ids: Sequence[int]) -> LabelTable:
        """Return a table with new labels. Their ids must be larger than all ids in this table."""
        if not len(self._names) == len(self._ids) == self._count:
            return LabelTable(self.names, self.ids).added(names, ids)
        table = self._copy()
        self._names.extend(names)
        self._ids.extend(ids)
        indices = dict(zip(names, range(self._count, len(self._names)), strict=True))
        self._earlier.update((index, self._indices[name]) for name, index in indices.items() if name in self._indices)
        self._indices.update(indices)
        table._count = self._count + len(names)
        return table

    def removed(self, names: Iterable[str]) -> LabelTable:
        """Return a table without these labels, which must be in this table and all different."""
        removed = bytearray(self._removed.ljust(self._count, b"\0"))
        for name in names:
            removed[self._index(name)] = 1
        table = self._copy()
        table._removed, table._removed_count = bytes(removed), removed.count(1)
        return table if 2 * table._removed_count <= table._count else LabelTable(table.names, table.ids)

    def _copy(self) -> LabelTable:
        table = LabelTable.__new__(LabelTable)
        vars(table).update(vars(self))
        return table

"""Codebook of a record: its paths, its values, and which values were seen at which path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ghrr._checks import check_choice, describe
from ghrr._locks import Lock
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.space import Space
from ghrr.structures.layout import Layout, Path
from ghrr.structures.record.by_path import ByPath
from ghrr.structures.record.candidates import Candidates
from ghrr.structures.record.documents import Batch, Lists
from ghrr.structures.record.matching import Choice
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.value_table import ValueTable


class Codebook:
    """What a record needs to encode documents and to read them.

    Parameters
    ----------
    space, permute
        As of :class:`ghrr.structures.Record`.
    numbers, lists
        As of :class:`ghrr.structures.Record`.
    """

    def __init__(
        self,
        space: Space,
        *,
        numbers: Scale | Mapping[Any, Scale] | None,
        lists: Lists | Mapping[Any, Lists],
        permute: bool,
    ) -> None:
        self.space, self.permute = space, permute
        self.numbers: ByPath[Scale | None] = ByPath("Record", "numbers", numbers, _checked_scale, None)
        self.lists: ByPath[Lists] = ByPath("Record", "lists", lists, _checked_lists, "positions")
        self.layout = Layout(space, permute=permute)
        self.table = ValueTable(space, self.numbers)
        self.seen = Candidates()
        self.lock = Lock()  # held while something is added, and while orders of paths are compared

    def batch(self, documents: Sequence[Any], path: Path = (), *, add: bool = True) -> Batch:
        """Return the leaves of documents that are at a path; their paths are added to the layout, if ``add``."""
        layout = self.layout if add else Layout(self.space, permute=self.permute)
        return Batch(layout, documents, layout.insert(path), numbers=self.numbers, lists=self.lists)

    def choice(self, path: Path) -> Choice:
        """Return the candidates of a path: the values that were seen there, or all if there were none."""
        node = self.layout.node(path)
        return Choice.of(self.seen.at(node), self.numbers.at(path))

    def keys(self, paths: Sequence[Path], **options: Any) -> DecorrelatedKeys:
        """Return what to unbind for each path, as :meth:`ghrr.structures.orders.Orders.apart`."""
        with self.lock:
            return self.layout.orders.apart(paths, **options)


def _checked_scale(value: Any) -> Scale | None:
    if value is not None and not isinstance(value, Scale):
        raise TypeError(
            f"Record: numbers must be a Scale(low, high, bandwidth), a mapping of paths to scales or None, got "
            f"{describe(value)}"
        )
    return value


def _checked_lists(value: Any) -> Lists:
    check_choice("Record", "lists", value, ("positions", "set"))
    lists: Lists = value
    return lists

"""Tables of a record: its paths, its values, and which values occurred at which path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ghrr._checks import check_choice, describe
from ghrr._locks import Lock
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.space import Space
from ghrr.structures.path_tree import Path, PathTree
from ghrr.structures.record.cleanup import Candidates
from ghrr.structures.record.leaves import Leaves, ListEncoding
from ghrr.structures.record.path_settings import PathSettings
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.seen_values import SeenValues
from ghrr.structures.record.value_table import ValueTable


class RecordTables:
    """Everything a record needs to encode documents and to read them.

    Parameters
    ----------
    space, numbers, lists, permute, device
        As for :class:`ghrr.structures.Record`.
    """

    def __init__(
        self,
        space: Space,
        *,
        numbers: Scale | Mapping[Any, Scale] | None,
        lists: ListEncoding | Mapping[Any, ListEncoding],
        permute: bool,
        device: torch.device,
    ) -> None:
        self.space, self.device = space, device
        self.numbers: PathSettings[Scale | None] = PathSettings("Record", "numbers", numbers, _check_scale, None)
        self.lists: PathSettings[ListEncoding] = PathSettings("Record", "lists", lists, _check_lists, "positions")
        self.paths = PathTree(space, permute=permute, device=device)
        self.values = ValueTable(space, self.numbers, device=device)
        self.seen = SeenValues()
        self.lock = Lock()  # held while documents are added, and while keys are decorrelated

    def leaves(self, documents: Sequence[Any], path: Path = (), *, add: bool = True) -> Leaves:
        """Return the leaves of documents at a path; their paths are added to the tree, unless ``add`` is False."""
        paths = self.paths if add else PathTree(self.space, permute=self.paths.permute, device=self.device)
        return Leaves(paths, documents, paths.insert(path), numbers=self.numbers, lists=self.lists)

    def candidates(self, path: Path) -> Candidates:
        """Return the candidates of a path: the values that occurred there, or all values if there were none."""
        return Candidates.of(self.seen.at(self.paths.node(path)), self.numbers.at(path))

    def keys(self, paths: Sequence[Path], **options: Any) -> DecorrelatedKeys:
        """Return the keys to unbind, with the options of :meth:`PermutedPaths.decorrelated_keys`."""
        with self.lock:
            return self.paths.permuted.decorrelated_keys(paths, **options)


def is_set(path: Path) -> bool:
    """Return whether a path stands for the elements of a list that is encoded as a set."""
    return bool(path) and path[-1] is None


def _check_scale(value: Any) -> Scale | None:
    if value is not None and not isinstance(value, Scale):
        raise TypeError(
            f"Record: numbers must be a Scale(low, high, bandwidth), a mapping of paths to scales or None, got "
            f"{describe(value)}"
        )
    return value


def _check_lists(value: Any) -> ListEncoding:
    check_choice("Record", "lists", value, ("positions", "set"))
    lists: ListEncoding = value
    return lists

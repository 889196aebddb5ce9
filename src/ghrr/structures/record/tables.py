"""Tables of a record, and their state as JSON: its paths, its values, and which values occurred at which path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

import torch

from ghrr._locks import Lock
from ghrr.checks import check_choice, describe, type_error, value_error, without_name
from ghrr.documents import Path, check_path, show_path
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.space import Space
from ghrr.structures.path_tree import PathTree
from ghrr.structures.record.paths import PathSettings, from_pairs, is_set
from ghrr.structures.record.values import Candidates, Scale, SeenValues, ValueTable, value_of

ListEncoding = Literal["positions", "set"]


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
        self.numbers: PathSettings[Scale | None] = PathSettings("numbers", numbers, _check_scale, None)
        self.lists: PathSettings[ListEncoding] = PathSettings("lists", lists, _check_lists, "positions")
        self.paths = PathTree(space, permute=permute, device=device)
        self.values = ValueTable(space, self.numbers, device=device)
        self.seen = SeenValues()
        self.lock = Lock()  # held while documents are added, and while keys are decorrelated

    def candidates(self, path: Path) -> Candidates:
        """Return the candidates of a path: the values that occurred there, or all values if there were none."""
        return Candidates.of(self.seen.at(self.paths.node(path)), self.numbers.at(path))

    def keys(self, paths: Sequence[Path], **options: Any) -> DecorrelatedKeys:
        """Return the keys to unbind, with the options of :meth:`PermutedPaths.decorrelated_keys`."""
        with self.lock:
            return self.paths.permuted.decorrelated_keys(paths, **options)

    # State

    def settings(self) -> dict[str, Any]:
        """Return the settings that differ between paths, as JSON."""
        numbers = self.numbers.state(lambda scale: scale and asdict(scale))
        return {"numbers": numbers, "lists": self.lists.state(lambda value: value)}

    def seen_values(self) -> list[Any]:
        """Return every path with the indices of the values that occurred there, None for all values, as JSON."""
        found = []
        for path in self.paths.leaves():
            indices = self.seen.at(self.paths.node(path))
            found.append([list(path), None if indices is None else indices.tolist()])
        return found

    def restore(self, seen: Any) -> None:
        """Restore paths and values from :meth:`seen_values`; raise for invalid ones."""
        vocabulary = self.values.vocabulary
        given = set(vocabulary.state()["given"])
        for name in vocabulary.names:
            if name not in given:
                value_of(name)  # raises
        for keys, indices in seen:
            if not isinstance(keys, list):
                raise TypeError(f"a path must be a list of keys, got {keys!r}")
            in_set = is_set(tuple(keys))
            path = check_path(keys[:-1] if in_set else keys)
            node = self.paths.insert((*path, None) if in_set else path)
            if indices is None:
                self.seen.allow_all(node)
            elif all(isinstance(n, int) and -1 <= n < len(vocabulary) for n in indices) and indices:
                self.seen.add([(node, indices)])
            else:
                raise ValueError(f"the values at {show_path(path)} are not in the vocabulary")
            self.paths.mark_leaf(node)
        self.paths.check_indices()


def _check_scale(value: Any) -> Scale | None:
    if value is not None and not isinstance(value, Scale):
        raise type_error(
            f"numbers must be a Scale(low, high, bandwidth), a mapping of paths to scales or None, got "
            f"{describe(value)}"
        )
    return value


def _check_lists(value: Any) -> ListEncoding:
    check_choice("lists", value, ("positions", "set"))
    lists: ListEncoding = value
    return lists


def parse_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with the settings as arguments of Record; states of version 0.1 are converted."""
    try:
        current = _from_version_0_1(state) if "format" in state else state
        settings = {
            **current["settings"],
            "numbers": from_pairs(current["settings"]["numbers"], lambda scale: scale and Scale(**scale)),
            "lists": from_pairs(current["settings"]["lists"], lambda value: value),
        }
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise value_error(f"not the state of a Record of this version ({without_name(error)})") from error
    return {**current, "settings": settings}


def _from_version_0_1(state: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a state of version 0.1, in which products were not shifted and values were not stored by path."""
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

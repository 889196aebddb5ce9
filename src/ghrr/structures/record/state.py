"""State of a record as JSON, and states of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ghrr.structures.path_tree import check_path, show_path
from ghrr.structures.record.path_settings import from_pairs
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.tables import RecordTables, is_set
from ghrr.structures.record.value_names import value_of


def settings_as_json(tables: RecordTables) -> dict[str, Any]:
    """Return the settings that differ between paths."""
    numbers = tables.numbers.state(lambda scale: scale and asdict(scale))
    return {"numbers": numbers, "lists": tables.lists.state(lambda value: value)}


def seen_as_json(tables: RecordTables) -> list[Any]:
    """Return every path with the indices of the values that occurred there, None for all values."""
    found = []
    for path in tables.paths.leaves():
        indices = tables.seen.at(tables.paths.node(path))
        found.append([list(path), None if indices is None else indices.tolist()])
    return found


def restore_seen(tables: RecordTables, seen: Any) -> None:
    """Restore paths and values from :func:`seen_as_json`; raise for invalid ones."""
    vocabulary, paths = tables.values.vocabulary, tables.paths
    given = set(vocabulary.state()["given"])
    for name in vocabulary.names:
        if name not in given:
            value_of(name)  # raises
    for keys, indices in seen:
        if not isinstance(keys, list):
            raise TypeError(f"a path must be a list of keys, got {keys!r}")
        in_set = is_set(tuple(keys))
        path = check_path("path", keys[:-1] if in_set else keys)
        node = paths.insert((*path, None) if in_set else path)
        if indices is None:
            tables.seen.allow_all(node)
        elif all(isinstance(n, int) and -1 <= n < len(vocabulary) for n in indices) and indices:
            tables.seen.add([(node, indices)])
        else:
            raise ValueError(f"the values at {show_path(path)} are not in the vocabulary")
        paths.mark_leaf(node)
    paths.check_indices()


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
        raise ValueError(f"Record.from_state: not the state of a Record of this version ({error})") from error
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

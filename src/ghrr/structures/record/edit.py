"""Changes of a record: values are read and subtracted before others are added."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ghrr.structures.certainty import empty_odds
from ghrr.structures.path_tree import Path, show_path
from ghrr.structures.reading import MISSING
from ghrr.structures.record.decode import read_paths
from ghrr.structures.record.encode import encode_documents
from ghrr.structures.record.tables import RecordTables, is_set


def update(tables: RecordTables, x: Tensor, path: Path, value: Any, old: Any, *, confidence: float) -> Tensor:
    """Return a record with another value at a path, and without values above it, such as an empty dict."""
    if old is MISSING:
        above = {path[:depth] for depth in range(len(path))}
        affected = {path, *above, *tables.paths.leaves(path)}
        removed, _ = _values_at(tables, x, affected, operation="Record.update", confidence=confidence)
    else:
        removed = encode_documents(tables, [old], path)[0]
    return x - removed + encode_documents(tables, [value], path)[0]


def delete(tables: RecordTables, x: Tensor, path: Path, old: Any, *, confidence: float) -> Tensor:
    """Return a record without the values at a path and below it."""
    if old is not MISSING:
        return x - encode_documents(tables, [old], path)[0]
    affected = {path, *tables.paths.leaves(path)}
    removed, found = _values_at(tables, x, affected, operation="Record.delete", confidence=confidence)
    if not found:
        raise KeyError(f"Record.delete: the record has no value at {show_path(path)}")
    return x - removed


def merge(tables: RecordTables, first: Tensor, second: Tensor, *, confidence: float) -> Tensor:
    """Return the sum of two records, without the values of the first at paths where the second has one."""
    known = tables.paths.leaves()
    _, taken = _values_at(tables, second, set(known), operation="Record.merge", confidence=confidence)
    replaced = {path[:-1] if is_set(path) else path for path in taken}  # a set is replaced as a whole
    above = {path[:depth] for path in replaced for depth in range(len(path))}
    affected = {path for path in known if path in above or _is_below(path, replaced)}
    removed, _ = _values_at(tables, first, affected, operation="Record.merge", confidence=confidence)
    return first - removed + second


def _values_at(
    tables: RecordTables, x: Tensor, paths: set[Path], *, operation: str, confidence: float
) -> tuple[Tensor, list[Path]]:
    """Return the part of a record at these paths, ``(dim, m, m)``, and the paths that have a value.

    Raises unless it is certain that no value was overlooked: the sum of the probabilities that a path without a
    confident value has one must be small.
    """
    x = x.detach()
    found = read_paths(tables, x, sorted(paths, key=str), confidence=confidence, odds=empty_odds(len(paths), x))
    chance_of_value = {path: 1 - match.probability_unknown for path, match in found.doubtful.items()}
    if sum(chance_of_value.values()) > 1 - confidence:
        path = max(chance_of_value, key=lambda path: chance_of_value[path])
        hint = "use a larger space" if operation == "Record.merge" else "give it as old=, or use a larger space"
        raise ValueError(
            f"{operation}: the value at {show_path(path)} cannot be read with certainty, got {found.doubtful[path]}; "
            f"{hint}"
        )
    return x - found.residual, [path if path in paths else (*path[:-1], None) for path in found.confident]


def _is_below(path: Path, tops: set[Path]) -> bool:
    return any(path[:depth] in tops for depth in range(len(path) + 1))

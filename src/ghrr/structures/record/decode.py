"""Decoding: read many paths of a record in rounds (:func:`ghrr.structures.peel.peel`), also before it is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import named, value_error
from ghrr.documents import Path, show_path
from ghrr.memory.match import Match
from ghrr.structures.certainty import empty_odds
from ghrr.structures.inputs import chunks
from ghrr.structures.peel import peel
from ghrr.structures.reading import MISSING, Reading, nest
from ghrr.structures.record.encode import encode_documents, encode_items, record_columns
from ghrr.structures.record.paths import is_set
from ghrr.structures.record.query import Found, query_set, query_values
from ghrr.structures.record.tables import RecordTables

_MAX_UNSEEN_PATHS = 1 << 12  # combinations of known keys that are tried if known paths do not explain a record
_LARGER = "use a larger space"

Rank = int  # of a member of a set; 0 elsewhere


@dataclass(frozen=True)
class PathMatches:
    """Result of reading many paths.

    Parameters
    ----------
    confident
        Confident matches by path; members of a set have the path of the set and their rank.
    doubtful
        The best match of every other path, and the best candidate of every set that is not confident.
    residual
        The record without the confident values, ``(dim, m, m)``.
    """

    confident: dict[Path, Match]
    doubtful: dict[Path, Match]
    residual: Tensor


def read_paths(
    tables: RecordTables,
    x: Tensor,
    paths: Sequence[Path],
    *,
    confidence: float,
    odds: float = 1.0,
    removed: Iterable[Path] = (),
) -> PathMatches:
    """Read paths of a record ``(dim, m, m)``, and subtract confident values before the others are read again.

    ``removed`` are paths whose values were subtracted from x before.
    """
    doubtful: dict[Path, Match] = {}
    # Paths with the same keys are adjacent, so that they are decorrelated in the same chunk.
    remaining = sorted(paths, key=lambda path: sorted(map(str, path)))

    def read(rest: Tensor, found: Mapping[tuple[Path, Rank], Found]) -> dict[tuple[Path, Rank], Found]:
        nonlocal remaining
        absent = {*removed, *(path for path, _ in found if not is_set(path))}
        new: dict[tuple[Path, Rank], Found] = {}
        for chunk in chunks(len(remaining), tables.space):
            for path, one in _read_once(
                tables, rest, remaining[chunk], removed=absent, doubtful=doubtful, confidence=confidence, odds=odds
            ):
                rank = sum(other == path for other, _ in (*found, *new)) if is_set(path) else 0
                new[path, rank] = one
        accepted = {path for path, _ in new}
        # A path is done when it has its value, a set when a round finds no further member.
        remaining = [path for path in remaining if (path in accepted) == is_set(path)]
        return new

    def remove(rest: Tensor, new: Mapping[tuple[Path, Rank], Found]) -> Tensor:
        items = [one.item for one in new.values() if one.item is not None]
        return rest - encode_items(tables, [path for path, _ in new], items)

    found, residual = peel(x, read, remove)
    confident = {path: one.match for (path, _), one in found.items() if not is_set(path)}
    members: dict[Path, list[Match]] = {}
    for (path, _), one in found.items():
        if is_set(path):
            members.setdefault(path, []).append(one.match)
    for path, matches in members.items():
        ranked = sorted(matches, key=lambda match: -match.score)
        confident |= {(*path[:-1], rank): match for rank, match in enumerate(ranked)}
    return PathMatches(confident, doubtful, residual)


def _read_once(
    tables: RecordTables,
    x: Tensor,
    paths: list[Path],
    *,
    removed: set[Path],
    doubtful: dict[Path, Match],
    confidence: float,
    odds: float,
) -> list[tuple[Path, Found]]:
    """Return the confident values at paths, and write the other matches to ``doubtful``."""
    keys = tables.keys(paths, all_present=True, removed=removed)
    confident: list[tuple[Path, Found]] = []
    single = [n for n, path in enumerate(paths) if not is_set(path)]
    single_paths = [paths[n] for n in single]
    single_keys = keys[torch.tensor(single, dtype=torch.long)]
    matched = query_values(tables, x[None], single_paths, single_keys, confidence=confidence, odds=odds)
    for path, [one] in zip(single_paths, matched, strict=True):
        doubtful.pop(path, None)
        if one.match.confident:
            confident.append((path, one))
        else:
            doubtful[path] = one.match
    for n, path in enumerate(paths):
        if is_set(path):
            members, other = query_set(tables, x, path, keys[torch.tensor([n])], confidence=confidence, odds=odds)
            confident += [(path, one) for one in members]
            doubtful.pop(path, None)
            if other is not None:
                doubtful[path] = other
    return confident


def decode_paths(
    tables: RecordTables,
    x: Tensor,
    paths: Sequence[Path],
    *,
    confidence: float,
    sparse: bool,
    removed: Iterable[Path] = (),
) -> Reading:
    """Decode the values at paths; with ``sparse`` most paths can be empty, and only confident values are returned."""
    odds = empty_odds(len(paths), x) if sparse else 1.0
    found = read_paths(tables, x, paths, confidence=confidence, odds=odds, removed=removed)
    matches = dict(found.confident)
    if not sparse:
        matches |= {path: match for path, match in found.doubtful.items() if not is_set(path)}
    rank = {path: n for n, path in enumerate(paths)}
    ordered = sorted(matches, key=lambda path: rank[path] if path in rank else rank[*path[:-1], None])
    matches = {path: matches[path] for path in ordered}
    value = nest({path: MISSING if match.unknown else match.guess for path, match in matches.items()})
    return Reading(value, matches, x, found.residual)


def decode_like(tables: RecordTables, x: Tensor, document: Any, *, confidence: float) -> Reading:
    """Decode the values at the paths of a document."""
    paths = list(dict.fromkeys(column.path for column in record_columns(tables, [document])))
    tables.paths.check_depth(max(map(len, paths), default=0))
    return decode_paths(tables, x, paths, confidence=confidence, sparse=False)


def decode_record(tables: RecordTables, x: Tensor, *, confidence: float) -> Reading:
    """Decode all known paths, and unseen paths of known keys if more than half a value is unexplained."""
    reading = decode_paths(tables, x, tables.paths.leaves(), confidence=confidence, sparse=True)
    for paths in tables.paths.unseen_paths(_MAX_UNSEEN_PATHS):
        if reading.unexplained < 0.5:
            break
        more = decode_paths(
            tables, reading.residual, paths, confidence=confidence, sparse=True, removed=reading.matches
        )
        matches = reading.matches | more.matches
        value = nest({path: match.guess for path, match in matches.items()})
        reading = Reading(value, matches, x, more.residual)
    return reading


def decode_below(tables: RecordTables, x: Tensor, top: Path, *, confidence: float) -> Reading | None:
    """Decode the part of a record below a path; None if nothing is confident there.

    The paths of the result start below ``top``, and its hypervectors belong to the part.
    """
    below = [leaf for leaf in tables.paths.leaves(top) if leaf != top]
    if not below:
        return None
    whole = decode_paths(tables, x, below, confidence=confidence, sparse=True)
    if not whole.matches:
        return None
    matches = {path[len(top) :]: match for path, match in whole.matches.items()}
    key = tables.paths.vectors([top, top])
    vector, residual = tables.paths.unbind(torch.stack([x, whole.residual]), key, [top, top])
    return Reading(nest({path: match.guess for path, match in matches.items()}), matches, vector, residual)


def update(tables: RecordTables, x: Tensor, path: Path, value: Any, old: Any, *, confidence: float) -> Tensor:
    """Return a record with another value at a path, and without values above it, such as an empty dict."""
    if old is MISSING:
        above = {path[:depth] for depth in range(len(path))}
        affected = {path, *above, *tables.paths.leaves(path)}
        removed, _ = _values_at(tables, x, affected, confidence=confidence, hint=f"give it as old=, or {_LARGER}")
    else:
        removed = encode_documents(tables, [old], path)[0]
    return x - removed + encode_documents(tables, [value], path)[0]


def delete(tables: RecordTables, x: Tensor, path: Path, old: Any, *, confidence: float) -> Tensor:
    """Return a record without the values at a path and below it."""
    if old is not MISSING:
        return x - encode_documents(tables, [old], path)[0]
    affected = {path, *tables.paths.leaves(path)}
    removed, found = _values_at(tables, x, affected, confidence=confidence, hint=f"give it as old=, or {_LARGER}")
    if not found:
        raise KeyError(named(f"the record has no value at {show_path(path)}"))
    return x - removed


def merge(tables: RecordTables, first: Tensor, second: Tensor, *, confidence: float) -> Tensor:
    """Return the sum of two records, without the values of the first at paths where the second has one."""
    known = tables.paths.leaves()
    _, taken = _values_at(tables, second, set(known), confidence=confidence, hint=_LARGER)
    replaced = {path[:-1] if is_set(path) else path for path in taken}  # a set is replaced as a whole
    above = {path[:depth] for path in replaced for depth in range(len(path))}
    affected = {path for path in known if path in above or _is_below(path, replaced)}
    removed, _ = _values_at(tables, first, affected, confidence=confidence, hint=_LARGER)
    return first - removed + second


def _values_at(
    tables: RecordTables, x: Tensor, paths: set[Path], *, confidence: float, hint: str
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
        raise value_error(
            f"the value at {show_path(path)} cannot be read with certainty, got {found.doubtful[path]}; {hint}"
        )
    return x - found.residual, [path if path in paths else (*path[:-1], None) for path in found.confident]


def _is_below(path: Path, tops: set[Path]) -> bool:
    return any(path[:depth] in tops for depth in range(len(path) + 1))

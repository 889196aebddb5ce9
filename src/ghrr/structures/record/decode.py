"""Decoding: read many paths of one record, round by round; what is certain is subtracted before the next round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ghrr.algebra import unbind
from ghrr.memory.match import Match
from ghrr.structures.layout import Path
from ghrr.structures.reading import MISSING, Reading, build
from ghrr.structures.record.codebook import Codebook
from ghrr.structures.record.encode import bind_items
from ghrr.structures.record.matching import Found
from ghrr.structures.record.query import match_paths, match_set, unshift
from ghrr.structures.vocabulary import chunks, sparse_odds

_MOST_PATHS = 1 << 12  # tried where known paths do not explain a record


@dataclass
class Cancelled:
    """Leaves of a record, and the record without those that are certain.

    Parameters
    ----------
    residual
        What is left of the record.
    sure
        Certain matches by path; those of a set by its path and their rank.
    doubtful
        For every other path its best match, and for every set the best candidate that is not certain.
    """

    residual: Tensor
    sure: dict[Path, Match] = field(default_factory=dict)
    doubtful: dict[Path, Match] = field(default_factory=dict)


def cancel(
    book: Codebook,
    x: Tensor,
    paths: Sequence[Path],
    *,
    confidence: float,
    odds: float = 1.0,
    taken: Iterable[Path] = (),
) -> Cancelled:
    """Read paths of a record ``(dim, m, m)``, and subtract what is certain. ``taken`` was subtracted from x before."""
    gone, sets = set(taken), dict[Path, list[Match]]()
    result = Cancelled(x)
    # Paths of the same keys stand together, to be decorrelated together.
    waiting = sorted(paths, key=lambda path: sorted(map(str, path)))
    while waiting:
        found = list[tuple[Path, Found]]()
        for run in chunks(len(waiting), book.space):
            found += _round(book, result, waiting[run], gone, confidence=confidence, odds=odds)
        if not found:
            break
        result.residual = result.residual - bind_items(
            book, [path for path, _ in found], [one.item for _, one in found if one.item is not None]
        )
        for path, one in found:
            if is_set(path):
                sets.setdefault(path, []).append(one.match)
            else:
                result.sure[path] = one.match
                gone.add(path)
        again = {path for path, _ in found if is_set(path)}
        waiting = [path for path in waiting if path not in result.sure and (not is_set(path) or path in again)]
    for path, matches in sets.items():
        ranked = sorted(matches, key=lambda match: -match.score)
        result.sure |= {(*path[:-1], rank): match for rank, match in enumerate(ranked)}
    return result


def _round(
    book: Codebook, result: Cancelled, paths: list[Path], gone: set[Path], *, confidence: float, odds: float
) -> list[tuple[Path, Found]]:
    """What is certain at some paths; the other matches go to ``result.doubtful``."""
    keys = book.keys(paths, together=True, without=gone)
    found: list[tuple[Path, Found]] = []
    single = [at for at, path in enumerate(paths) if not is_set(path)]
    chosen = torch.tensor(single, dtype=torch.long)
    here = [paths[at] for at in single]
    matched = match_paths(book, result.residual[None], here, keys[chosen], confidence=confidence, odds=odds)
    for path, [one] in zip(here, matched, strict=True):
        result.doubtful[path] = one.match
        if one.match.confident:
            del result.doubtful[path]
            found.append((path, one))
    for at, path in enumerate(paths):
        if is_set(path):
            sure, rest = match_set(
                book, result.residual, path, keys[torch.tensor([at])], confidence=confidence, odds=odds
            )
            found += [(path, one) for one in sure]
            result.doubtful.pop(path, None)
            if rest is not None:
                result.doubtful[path] = rest
    return found


def is_set(path: Path) -> bool:
    """Return whether a path stands for the elements of a list that is encoded as a set."""
    return bool(path) and path[-1] is None


def read_leaves(
    book: Codebook, x: Tensor, paths: Sequence[Path], *, confidence: float, sparse: bool, taken: Iterable[Path] = ()
) -> Reading:
    """Read paths; with ``sparse`` most of them may hold nothing, and only what is certain is kept."""
    odds = sparse_odds(len(paths), x) if sparse else 1.0
    found = cancel(book, x, paths, confidence=confidence, odds=odds, taken=taken)
    matches = dict(found.sure)
    if not sparse:
        matches |= {path: match for path, match in found.doubtful.items() if not is_set(path)}
    matches = {path: matches[path] for path in _in_order(paths, matches)}
    value = build({path: MISSING if match.unknown else match.guess for path, match in matches.items()})
    return Reading(value, matches, x, found.residual)


def _in_order(paths: Sequence[Path], found: Iterable[Path]) -> list[Path]:
    """The paths found in the order of those asked for, members of a set where the set is."""
    rank: dict[Path, int] = {path: at for at, path in enumerate(paths)}
    return sorted(found, key=lambda path: rank[path] if path in rank else rank[*path[:-1], None])


def read_all(book: Codebook, x: Tensor, *, confidence: float) -> Reading:
    """Read all that is certain at known paths and, if more than half a leaf is left over, at new ones."""
    reading = read_leaves(book, x, book.layout.leaves(), confidence=confidence, sparse=True)
    for paths in book.layout.new_paths(_MOST_PATHS):
        if reading.unexplained < 0.5:
            break
        more = read_leaves(book, reading.residual, paths, confidence=confidence, sparse=True, taken=reading.matches)
        found = reading.matches | more.matches
        reading = Reading(build({path: found[path].guess for path in found}), found, x, more.residual)
    return reading


def read_below(book: Codebook, x: Tensor, top: Path, *, confidence: float) -> Reading:
    """Read what is certain under a path, by whole paths, which x consists of; the result is a record of its own."""
    below = [leaf for leaf in book.layout.leaves(top) if leaf != top]
    whole = read_leaves(book, x, below, confidence=confidence, sparse=True)
    matches = {path[len(top) :]: match for path, match in whole.matches.items()}
    [key] = book.layout.path_vectors([top])
    both = unbind(torch.stack([x, whole.residual]), key, side="left")
    vector, residual = unshift(book, both, [len(top)] * 2)
    return Reading(build({path: match.guess for path, match in matches.items()}), matches, vector, residual)

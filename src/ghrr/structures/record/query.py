"""Querying: unbind paths from records, and choose the best of the values that are candidates at each path."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.algebra import pairwise_similarity, similarity
from ghrr.documents import Path
from ghrr.memory.decorrelation import DecorrelatedKeys
from ghrr.memory.match import Match, answer_noise, make_matches
from ghrr.structures.inputs import chunks
from ghrr.structures.record.tables import RecordTables
from ghrr.structures.record.values import Candidates, Integers, Item, ValueTable, label_of
from ghrr.structures.vocabulary import Vocabulary

_POOLED = 1024  # candidates of several paths that are compared together
_FEW_ANSWERS = 16  # paths with fewer answers are compared together with other paths

Group = TypeVar("Group", bound=Hashable)


class Found(NamedTuple):
    """A match, and its best candidate as an item of the value table."""

    match: Match
    item: Item | None


def query_paths(
    tables: RecordTables, records: Tensor, paths: Sequence[Path], *, confidence: float
) -> list[list[Match]]:
    """Return the best match at each path of each record ``(n, dim, m, m)``: for each path a list of n."""
    found = query_values(tables, records, paths, tables.keys(paths), confidence=confidence)
    return [[one.match for one in column] for column in found]


def query_values(
    tables: RecordTables,
    records: Tensor,
    paths: Sequence[Path],
    keys: DecorrelatedKeys,
    *,
    confidence: float,
    odds: float = 1.0,
) -> list[list[Found]]:
    """Return what :func:`query_paths` returns, with items, for given keys and prior odds that a path is empty."""
    energy, count = similarity(records, records), len(records)
    candidates = [tables.candidates(path) for path in paths]
    found: list[Found] = []
    for chunk in chunks(count * len(paths), tables.space):
        pair = torch.arange(chunk.start, chunk.stop)
        path, row = pair // max(1, count), pair % max(1, count)
        path_of = path.tolist()
        answers = tables.paths.unbind(records[row], keys.vectors[path], [paths[n] for n in path_of])
        noise = keys[path].noise(answer_noise(tables.space, energy[row]))
        found += _best_matches(
            tables.values, answers, candidates, path_of, noise=noise, confidence=confidence, odds=odds
        )
    return [found[n * count : (n + 1) * count] for n in range(len(paths))]


def query_set(
    tables: RecordTables, x: Tensor, path: Path, keys: DecorrelatedKeys, *, confidence: float, odds: float = 1.0
) -> tuple[list[Found], Match | None]:
    """Return the confident members of the set at a path of a record ``(dim, m, m)``, and the best other candidate."""
    answer = tables.paths.unbind(x, keys.vectors, [path])[0]
    noise = keys.noise(answer_noise(tables.space, similarity(x, x)))[0]
    return _set_members(tables.values, answer, tables.candidates(path), noise=noise, confidence=confidence, odds=odds)


def _best_matches(
    values: ValueTable,
    answers: Tensor,
    candidates: Sequence[Candidates],
    path_of: Sequence[int],
    *,
    noise: Tensor,
    confidence: float,
    odds: float,
) -> list[Found]:
    """Return the best match of each answer ``(n, dim, m, m)``, where answer a has ``candidates[path_of[a]]``.

    ``path_of`` must be sorted. ``noise`` is the standard deviation of the scores, ``(n,)``.
    """
    if not len(values.vocabulary) and any(one.scale is None for one in candidates):
        values.vocabulary.check_not_empty()
    scores, rows = _best_names(values.vocabulary, answers, candidates, path_of)
    numbers = torch.zeros(len(answers), 2, dtype=torch.float64)  # decoded number, standard error
    # The two best of the decoded number (0), the best name (1) and the second-best name (2).
    order = torch.tensor([[1, 2]]).expand(len(answers), 2).clone()
    for scale, members in _grouped_by(lambda n: candidates[path_of[n]].scale, len(answers)):
        if scale is not None:
            decoded = values.encoder(scale).decode(answers[members], low=scale.low, high=scale.high)
            numbers[members] = torch.stack([decoded.value[:, 0], decoded.std[:, 0]], dim=1).cpu()
            top = torch.cat([decoded.score[:, None].cpu(), scores[members]], dim=1).topk(2)
            scores[members], order[members] = top.values.nan_to_num(neginf=0.0), top.indices
    names, listed = values.vocabulary.names, (rows.tolist(), order.tolist(), numbers.tolist())

    def item(answer: int, rank: int) -> Item | None:
        scale = candidates[path_of[answer]].scale
        if rank == 0 and scale is not None:
            return scale, listed[2][answer][0]
        row = listed[0][answer][rank - 1]
        return names[row] if row >= 0 else None

    items = [[item(answer, rank) for rank in pair] for answer, pair in enumerate(listed[1])]
    errors = [None if isinstance(best[0], str | None) else listed[2][n][1] for n, best in enumerate(items)]
    found: dict[int, Found] = {}
    for count, members in _grouped_by(lambda n: candidates[path_of[n]].count(values.vocabulary), len(items)):
        matches = make_matches(
            [list(map(_label, items[n])) for n in members],
            scores[members][:, : min(2, count)],
            candidates=count,
            noise=noise[members],
            confidence=confidence,
            odds=odds,
            errors=[errors[n] for n in members],
        )
        found |= {n: Found(match, items[n][0]) for n, match in zip(members, matches, strict=True)}
    return [found[n] for n in range(len(items))]


def _label(item: Item | None) -> Any:
    return item if item is None else label_of(item) if isinstance(item, str) else item[1]


def _best_names(
    vocabulary: Vocabulary, answers: Tensor, candidates: Sequence[Candidates], path_of: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return scores and rows of the two best names of each answer, ``(n, 2)`` on the CPU; -inf and -1 if fewer."""
    scores = torch.full((len(answers), 2), -torch.inf, dtype=answers.real.dtype)
    rows = torch.full((len(answers), 2), -1)
    for block in _blocks(candidates, path_of):
        union, masks = _union([candidates[path].indices for path, _ in block])
        members = [n for _, path_answers in block for n in path_answers]
        mask = None
        if masks is not None:
            mask = torch.from_numpy(np.repeat(masks, [len(path_answers) for _, path_answers in block], axis=0))
        best, best_rows = vocabulary.best(answers[members], union, mask)
        scores[members, : best.shape[1]], rows[members, : best.shape[1]] = best, best_rows
    return scores, rows


def _blocks(candidates: Sequence[Candidates], path_of: Sequence[int]) -> Iterator[list[tuple[int, Sequence[int]]]]:
    """Yield paths that are compared together, with their answers.

    Paths with few candidates and few answers are pooled, because one large product is faster than many small ones.
    """
    pool: list[tuple[int, Sequence[int]]] = []
    unrestricted: list[tuple[int, Sequence[int]]] = []  # paths where all values are candidates
    size = 0
    starts = [n for n in range(len(path_of)) if n == 0 or path_of[n] != path_of[n - 1]]
    for start, stop in zip(starts, [*starts[1:], len(path_of)], strict=True):
        path, indices = path_of[start], candidates[path_of[start]].indices
        if indices is None:
            unrestricted.append((path, range(start, stop)))
        elif stop - start >= _FEW_ANSWERS or len(indices) > _POOLED // 4:
            yield [(path, range(start, stop))]
        else:
            if size + len(indices) > _POOLED:
                yield pool
                pool, size = [], 0
            pool.append((path, range(start, stop)))
            size += len(indices)
    yield from filter(None, (pool, unrestricted))


def _union(sets: Sequence[Integers | None]) -> tuple[Integers | None, NDArray[np.bool_] | None]:
    """Return all candidates of some paths, and a mask of the candidates of each path; no mask for a single path."""
    given = [indices for indices in sets if indices is not None]
    if not given:
        return None, None
    if len(given) == 1:
        return given[0], None
    union = np.unique(np.concatenate(given))
    masks = np.zeros((len(given), len(union)), dtype=bool)
    for row, indices in enumerate(given):
        masks[row, np.searchsorted(union, indices)] = True
    return union, masks


def _grouped_by(group: Callable[[int], Group], count: int) -> list[tuple[Group, list[int]]]:
    groups: dict[Group, list[int]] = {}
    for n in range(count):
        groups.setdefault(group(n), []).append(n)
    return list(groups.items())


def _set_members(
    values: ValueTable, answer: Tensor, candidates: Candidates, *, noise: Tensor, confidence: float, odds: float
) -> tuple[list[Found], Match | None]:
    """Return all confident members of a set ``(dim, m, m)``, with repeats, and the best of the other candidates.

    Each candidate is judged separately, with prior odds of one to their number. Of the numbers on a scale only the most
    similar one is considered.
    """
    vocabulary = values.vocabulary
    names = vocabulary.names
    scored: list[tuple[float, Item, float | None]] = []
    lowest = 0.5 - 20 * float(noise) ** 2  # far below the scores of members; the best candidate is always kept
    for _, rows, vectors in vocabulary.candidates(1, candidates.indices):
        scores = pairwise_similarity(answer, vectors).cpu()
        likely = (scores >= min(lowest, float(scores.max()))).nonzero()[:, 0].tolist()
        scored += [(float(scores[n]), names[int(rows[n])], None) for n in likely]
    if candidates.scale is not None:
        scale = candidates.scale
        decoded = values.encoder(scale).decode(answer, low=scale.low, high=scale.high)
        scored.append((float(decoded.score), (scale, float(decoded.value)), float(decoded.std)))
    copies = [(score - copy, item, error) for score, item, error in scored for copy in range(max(1, math.ceil(score)))]
    matches = make_matches(
        [[_label(item)] for _, item, _ in copies],
        torch.tensor([[score] for score, _, _ in copies], dtype=torch.float64),
        candidates=1,
        noise=noise,
        confidence=confidence,
        odds=odds * candidates.count(vocabulary),
        errors=[error for _, _, error in copies],
    )
    pairs = list(zip(matches, (item for _, item, _ in copies), strict=True))
    confident = [Found(match, item) for match, item in pairs if match.confident]
    others = [match for match, _ in pairs if not match.confident]
    return confident, max(others, key=lambda match: match.score, default=None)

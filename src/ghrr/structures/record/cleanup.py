"""Clean-up: the best value for each answer, among the candidates of its path."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr.algebra import pairwise_similarity
from ghrr.memory.match import Match, make_matches
from ghrr.structures.inputs import chunks
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.seen_values import ON_SCALE, Indices
from ghrr.structures.record.value_names import label_of
from ghrr.structures.record.value_table import Item, ValueTable
from ghrr.structures.vocabulary import Vocabulary

_CHUNK_SCORES = 1 << 22  # similarities computed at a time: 16 MiB
_POOLED = 1024  # candidates of several paths that are compared together
_FEW_ANSWERS = 16  # paths with fewer answers are compared together with other paths

Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True)
class Candidates:
    """Candidates of a path.

    Parameters
    ----------
    indices
        Rows of the vocabulary in ascending order; None for all.
    scale
        Scale whose numbers are candidates too.
    """

    indices: Indices | None
    scale: Scale | None

    @classmethod
    def of(cls, seen: Indices | None, scale: Scale | None) -> Candidates:
        """Return the candidates of a path with these :class:`SeenValues` and this scale."""
        if seen is None:
            return cls(None, scale)
        on_scale = bool(len(seen)) and seen[0] == ON_SCALE
        return cls(seen[1:] if on_scale else seen, scale if on_scale else None)

    def count(self, vocabulary: Vocabulary) -> int:
        """Return the number of candidates."""
        atoms = len(vocabulary) if self.indices is None else len(self.indices)
        return atoms + (0 if self.scale is None else self.scale.points)


class Found(NamedTuple):
    """A match, and its best candidate as an item of the value table."""

    match: Match
    item: Item | None


def best_matches(
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
        mask = None if masks is None else np.repeat(masks, [len(path_answers) for _, path_answers in block], axis=0)
        scores[members], rows[members] = _two_best(vocabulary, answers[members], union, mask)
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


def _union(sets: Sequence[Indices | None]) -> tuple[Indices | None, NDArray[np.bool_] | None]:
    """Return all candidates of some paths, and a mask of those of each path; no mask for a single path."""
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


def _two_best(
    vocabulary: Vocabulary, answers: Tensor, indices: Indices | None, mask: NDArray[np.bool_] | None
) -> tuple[Tensor, Tensor]:
    scores = torch.full((len(answers), 2), -torch.inf, dtype=answers.real.dtype)
    rows = torch.full((len(answers), 2), -1)
    for columns, vectors in _candidate_chunks(vocabulary, indices, len(answers)):
        similar = pairwise_similarity(answers, vectors)
        if mask is not None:
            similar = similar.masked_fill(~torch.from_numpy(mask[:, columns]).to(similar.device), -torch.inf)
        top = similar.topk(min(2, len(vectors)))
        names = torch.arange(columns.start, columns.stop) if indices is None else torch.from_numpy(indices[columns])
        both_scores = torch.cat([scores, top.values.cpu()], dim=1)
        both_rows = torch.cat([rows, names[top.indices.cpu()]], dim=1)
        best = both_scores.topk(2)
        scores, rows = best.values, both_rows.gather(1, best.indices)
    return scores, rows


def _candidate_chunks(vocabulary: Vocabulary, indices: Indices | None, answers: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield slices of the candidates with their hypervectors; both, and their scores, fit in memory."""
    table = vocabulary.vectors()
    count = len(table) if indices is None else len(indices)
    contiguous = indices is None or (count > 0 and indices[-1] - indices[0] == count - 1)  # no copy is needed
    first = 0 if indices is None or not count else int(indices[0])
    step = max(1, _CHUNK_SCORES // max(1, answers))
    if not contiguous:
        step = min(step, chunks(count, vocabulary.space)[0].stop if count else 1)
    for start in range(0, count, step):
        columns = slice(start, min(start + step, count))
        if contiguous:
            yield columns, table[first + columns.start : first + columns.stop]
        elif indices is not None:
            yield columns, table[torch.from_numpy(indices[columns])]


def _grouped_by(group: Callable[[int], Group], count: int) -> list[tuple[Group, list[int]]]:
    groups: dict[Group, list[int]] = {}
    for n in range(count):
        groups.setdefault(group(n), []).append(n)
    return list(groups.items())


def set_members(
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
    for columns, vectors in _candidate_chunks(vocabulary, candidates.indices, 1):
        scores = pairwise_similarity(answer, vectors).cpu()
        for n in (scores >= min(lowest, float(scores.max()))).nonzero()[:, 0].tolist():
            column = columns.start + n
            row = column if candidates.indices is None else int(candidates.indices[column])
            scored.append((float(scores[n]), names[row], None))
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

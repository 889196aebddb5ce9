"""The best value for each answer, among the candidates of its path."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ghrr.algebra import pairwise_similarity
from ghrr.memory.match import Match, make_matches
from ghrr.structures.record.candidates import ON_SCALE, Indices
from ghrr.structures.record.scale import Scale
from ghrr.structures.record.value_table import Item, ValueTable
from ghrr.structures.record.values import label_of
from ghrr.structures.vocabulary import Vocabulary, chunks

_CHUNK_SCORES = 1 << 22  # similarities computed at a time: 16 MiB
_POOLED = 1024  # candidates of several paths that are compared together
_FEW_ROWS = 16  # answers of a path: fewer are compared together with those of other paths


@dataclass(frozen=True)
class Choice:
    """Candidates of a path.

    Parameters
    ----------
    indices
        Rows of the vocabulary, rising; None for all.
    scale
        Scale of numbers that are candidates too.
    """

    indices: Indices | None
    scale: Scale | None

    @classmethod
    def of(cls, seen: Indices | None, scale: Scale | None) -> Choice:
        """Return the choice among the values that :class:`Candidates` gave for a path."""
        if seen is None:
            return cls(None, scale)
        on_scale = bool(len(seen)) and seen[0] == ON_SCALE
        return cls(seen[1:] if on_scale else seen, scale if on_scale else None)

    def count(self, names: Vocabulary) -> int:
        """Return the number of candidates."""
        atoms = len(names) if self.indices is None else len(self.indices)
        return atoms + (0 if self.scale is None else self.scale.points)


class Found(NamedTuple):
    """A match, and its best candidate as an item of the table of values."""

    match: Match
    item: Item | None


def best_matches(
    table: ValueTable,
    answers: Tensor,
    choices: Sequence[Choice],
    which: Sequence[int],
    *,
    noise: Tensor,
    confidence: float,
    odds: float,
) -> list[Found]:
    """Return the best match of each answer ``(n, dim, m, m)``, where answer a has the candidates ``choices[which[a]]``.

    ``which`` must rise. ``noise`` is the standard deviation of the scores, ``(n,)``.
    """
    if not len(table.names) and any(choice.scale is None for choice in choices):
        table.names.check_not_empty()
    scores, rows = _best_names(table.names, answers, choices, which)
    numbers = torch.zeros(len(answers), 2, dtype=torch.float64)
    order = torch.tensor([[1, 2]]).expand(len(answers), 2).clone()  # of the number and the two names: the best two
    for scale, places in _grouped_by(lambda at: choices[which[at]].scale, len(answers)):
        if scale is not None:
            decoded = table.encoder(scale).decode(answers[places], low=scale.low, high=scale.high)
            numbers[places] = torch.stack([decoded.value[:, 0], decoded.std[:, 0]], dim=1)
            top = torch.cat([decoded.score[:, None], scores[places]], dim=1).topk(2)
            scores[places], order[places] = top.values.nan_to_num(neginf=0.0), top.indices
    return _judged(table, choices, which, (scores, rows, order, numbers), noise=noise, confidence=confidence, odds=odds)


def _judged(
    table: ValueTable,
    choices: Sequence[Choice],
    which: Sequence[int],
    best: tuple[Tensor, Tensor, Tensor, Tensor],
    *,
    noise: Tensor,
    confidence: float,
    odds: float,
) -> list[Found]:
    """Matches from the two best candidates of each answer."""
    scores, rows, order, numbers = best
    names, listed = table.names.names, (rows.tolist(), order.tolist(), numbers.tolist())

    def item(at: int, place: int) -> Item | None:
        scale = choices[which[at]].scale
        if place == 0 and scale is not None:
            return scale, listed[2][at][0]
        row = listed[0][at][place - 1]
        return names[row] if row >= 0 else None

    items = [[item(at, place) for place in pair] for at, pair in enumerate(listed[1])]
    found: list[Found | None] = [None] * len(items)
    for count, places in _grouped_by(lambda at: choices[which[at]].count(table.names), len(items)):
        matches = make_matches(
            [list(map(_label, items[at])) for at in places],
            scores[places][:, : min(2, count)],
            candidates=count,
            noise=noise[places],
            confidence=confidence,
            odds=odds,
            errors=[None if isinstance(items[at][0], str | None) else listed[2][at][1] for at in places],
        )
        for at, match in zip(places, matches, strict=True):
            found[at] = Found(match, items[at][0])
    return [one for one in found if one is not None]


def _label(item: Item | None) -> Any:
    return item if item is None else label_of(item) if isinstance(item, str) else item[1]


def _best_names(
    names: Vocabulary, answers: Tensor, choices: Sequence[Choice], which: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Scores and rows of the two best names of each answer, ``(n, 2)``; -inf and -1 where there are fewer."""
    scores = answers.real.new_full((len(answers), 2), -torch.inf)
    rows = torch.full((len(answers), 2), -1)
    for block in _blocks(choices, which):
        shared, masks = _union([choices[path].indices for path, _ in block])
        places = [at for _, some in block for at in some]
        mask = None
        if masks is not None:
            mask = torch.from_numpy(np.repeat(masks, [len(some) for _, some in block], axis=0))
        some_scores, some_rows = _two_best(names, answers[places], shared, mask)
        scores[places], rows[places] = some_scores, some_rows
    return scores, rows


def _blocks(choices: Sequence[Choice], which: Sequence[int]) -> Iterator[list[tuple[int, Sequence[int]]]]:
    """Paths that are compared together, with their answers: those of few candidates and few answers, and the others."""
    pool: list[tuple[int, Sequence[int]]] = []
    everything: list[tuple[int, Sequence[int]]] = []  # paths at which all values are candidates
    size = 0
    starts = [at for at in range(len(which)) if at == 0 or which[at] != which[at - 1]]
    for start, stop in zip(starts, [*starts[1:], len(which)], strict=True):
        path, indices = which[start], choices[which[start]].indices
        if indices is None:
            everything.append((path, range(start, stop)))
        elif stop - start >= _FEW_ROWS or len(indices) > _POOLED // 4:
            yield [(path, range(start, stop))]
        else:
            if size + len(indices) > _POOLED:
                yield pool
                pool, size = [], 0
            pool.append((path, range(start, stop)))
            size += len(indices)
    yield from filter(None, (pool, everything))


def _union(sets: Sequence[Indices | None]) -> tuple[Indices | None, Any]:
    """All candidates of some paths, and for each path which of them are its own; no masks if they have the same."""
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
    names: Vocabulary, answers: Tensor, indices: Indices | None, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    scores = answers.real.new_full((len(answers), 2), -torch.inf)
    rows = torch.full((len(answers), 2), -1)
    for columns, vectors in _candidate_chunks(names, indices, len(answers)):
        similar = pairwise_similarity(answers, vectors)
        if mask is not None:
            similar = similar.masked_fill(~mask[:, columns], -torch.inf)
        top = similar.topk(min(2, len(vectors)))
        numbers = torch.arange(columns.start, columns.stop) if indices is None else torch.from_numpy(indices[columns])
        both_scores, both_rows = torch.cat([scores, top.values], dim=1), torch.cat([rows, numbers[top.indices]], dim=1)
        best = both_scores.topk(2)
        scores, rows = best.values, both_rows.gather(1, best.indices)
    return scores, rows


def _candidate_chunks(names: Vocabulary, indices: Indices | None, answers: int) -> Iterator[tuple[slice, Tensor]]:
    """Slices of the candidates, with their vectors, that fit in memory together with their scores."""
    table = names.vectors
    count = len(table) if indices is None else len(indices)
    whole = indices is None or (count > 0 and indices[-1] - indices[0] == count - 1)  # no copy is needed
    first = 0 if indices is None or not count else int(indices[0])
    step = max(1, _CHUNK_SCORES // max(1, answers))
    if not whole:
        step = min(step, chunks(count, names.space)[0].stop if count else 1)
    for start in range(0, count, step):
        columns = slice(start, min(start + step, count))
        if whole:
            yield columns, table[first + columns.start : first + columns.stop]
        elif indices is not None:
            yield columns, table[torch.from_numpy(indices[columns])]


def _grouped_by(key: Any, count: int) -> list[tuple[Any, list[int]]]:
    groups: dict[Any, list[int]] = {}
    for at in range(count):
        groups.setdefault(key(at), []).append(at)
    return list(groups.items())


def members(
    table: ValueTable, answer: Tensor, choice: Choice, *, noise: Tensor, confidence: float, odds: float
) -> tuple[list[Found], Match | None]:
    """Return all candidates that are surely in an answer ``(dim, m, m)``, with repeats, and the best of the rest.

    Each candidate is judged by itself, with prior odds of one to their number. Of numbers on a scale only the most
    similar is looked at.
    """
    count = choice.count(table.names)
    names = table.names.names
    scored: list[tuple[float, Item, float | None]] = []
    likely = 0.5 - 20 * float(noise) ** 2  # far below what is judged to be there; the best is kept in any case
    for columns, vectors in _candidate_chunks(table.names, choice.indices, 1):
        scores = pairwise_similarity(answer, vectors)
        chosen = (scores >= min(likely, float(scores.max()))).nonzero()[:, 0].tolist()
        for at in chosen:
            row = columns.start + at if choice.indices is None else int(choice.indices[columns.start + at])
            scored.append((float(scores[at]), names[row], None))
    if choice.scale is not None:
        decoded = table.encoder(choice.scale).decode(answer, low=choice.scale.low, high=choice.scale.high)
        scored.append((float(decoded.score), (choice.scale, float(decoded.value)), float(decoded.std)))
    copies = [(score - copy, item, error) for score, item, error in scored for copy in range(max(1, math.ceil(score)))]
    matches = make_matches(
        [[_label(item)] for _, item, _ in copies],
        torch.tensor([[score] for score, _, _ in copies], dtype=torch.float64),
        candidates=1,
        noise=noise,
        confidence=confidence,
        odds=odds * count,
        errors=[error for _, _, error in copies],
    )
    pairs = list(zip(matches, (item for _, item, _ in copies), strict=True))
    sure = [Found(match, item) for match, item in pairs if match.confident]
    rest = [match for match, _ in pairs if not match.confident]
    return sure, max(rest, key=lambda match: match.score, default=None)

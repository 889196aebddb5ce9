"""Exact search: the k best dot products of each query with rows that come chunk by chunk, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ghrr.memory.storage import CHUNK_NUMBERS, Stored, steps

Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def rows_per_chunk(width: int, k: int) -> int:
    """How many rows to look at together: more when many are wanted, since what a chunk gives must be merged."""
    return _power_of_two(max(CHUNK_NUMBERS // width, 16 * k))


def _power_of_two(most: int) -> int:
    """The largest one that is not above: matrix products of odd sizes took up to a third longer."""
    return 1 << max(1, most).bit_length() - 1


def settle_ties(search: Search, queries: Tensor, k: int, count: int, *, width: int = 0) -> tuple[Tensor, Tensor]:
    """The k best of ``count`` for each query: highest score first, of equal ones the lowest id.

    ``search(queries, width)`` gives the ``width`` best in falling order, but of equal ones any. So one more than needed
    is asked for; where it equals the last, four times as many, and so on.

    Shapes
    ------
    queries: ``(q, *)``; outputs: scores and ids, ``(q, k)``; k <= count
    """
    width = min(max(width, k + 1), count)
    scores, ids = search(queries, width)
    best_scores, best_ids = _in_order(scores, ids, k)
    if width < count:
        tied = (scores[:, -1] == scores[:, k - 1]).nonzero()[:, 0]
        for some in steps(len(tied), max(1, CHUNK_NUMBERS // (64 * width))):  # sorting takes many times the room
            again = tied[some]
            best_scores[again], best_ids[again] = settle_ties(search, queries[again], k, count, width=4 * width)
    return best_scores, best_ids


def _in_order(scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    ids, order = ids.sort(dim=1)
    scores, at = scores.gather(1, order).sort(dim=1, descending=True, stable=True)
    return scores[:, :k], ids.gather(1, at)[:, :k]


def _best_of_rows(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest of each row and their places, in order; of equal ones the first. Here all scores are known."""
    count = scores.shape[1]
    found, places = scores.topk(min(k + 1, count))
    best, best_at = _in_order(found, places, k)
    if k < count:
        tied = (found[:, -1] == found[:, k - 1]).nonzero()[:, 0]
        if len(tied):
            rows, last = scores[tied], found[tied, k - 1 : k]
            equal = rows == last
            wanted = k - (rows > last).sum(dim=1, keepdim=True)
            first = (rows > last) | (equal & (equal.cumsum(dim=1, dtype=torch.int32) <= wanted))
            at = first.nonzero()[:, 1].view(len(tied), k)
            best[tied], best_at[tied] = _in_order(rows.gather(1, at), at, k)
    return best, best_at


def search_chunks(
    queries: Tensor, chunks: Iterable[tuple[Tensor, Tensor | None, Stored]], k: int
) -> tuple[Tensor, Tensor]:
    """The k best rows for each query, exactly.

    Parameters
    ----------
    queries
        Real, in the precision to compute in.
    chunks
        Ids, which rows are alive (None: all) and rows; ids ascend within a chunk and from chunk to chunk.
    k
        How many; at most as many as are alive.

    Shapes
    ------
    queries: ``(q, width)``; outputs: scores and ids, ``(q, k)``
    """
    count = len(queries)
    best = queries.new_full((count, k), -torch.inf)
    best_ids = torch.zeros((count, k), dtype=torch.int64, device=queries.device)
    room = queries.new_empty(0)
    with torch.autocast(queries.device.type, enabled=False):
        for ids, alive, stored in chunks:
            rows = stored.numbers.to(queries.dtype).mT
            size = len(ids)
            step = _power_of_two(CHUNK_NUMBERS // size)
            if room.numel() < min(step, count) * size:
                room = queries.new_empty(min(step, count) * size)
            for part in steps(count, step):
                block = queries[part]
                scores = torch.mm(block, rows, out=room[: len(block) * size].view(len(block), size))
                if stored.scales is not None:
                    scores *= stored.scales
                if alive is not None:
                    scores[:, ~alive] = -torch.inf
                found, places = _best_of_rows(scores, min(k, size))
                # Earlier ids stand first and the sort is stable: of equal scores the first stays in front.
                merged = torch.cat([best[part], found], dim=1).sort(dim=1, descending=True, stable=True)
                best[part] = merged.values[:, :k]
                both = torch.cat([best_ids[part], ids[places]], dim=1)
                best_ids[part] = both.gather(1, merged.indices[:, :k])
    return best, best_ids

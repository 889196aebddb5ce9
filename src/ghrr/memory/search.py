"""Search: the k largest scores of each query, among rows that come in chunks, exactly and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ghrr.memory.storage import CHUNK_NUMBERS, Stored, chunks

Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]


class Cleanup(NamedTuple):
    """Result of :meth:`ItemMemory.cleanup`: the most similar items of each query, best first.

    Parameters
    ----------
    labels
        Lists nested as ``(*batch, k)``.
    scores
        Similarities, ``(*batch, k)``, on the device of the queries.

    Examples
    --------
    >>> import ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> labels, scores = ghrr.ItemMemory(space, ["a", "b"]).cleanup(space.vectors(["b"]), k=2)
    >>> labels
    [['b', 'a']]
    """

    labels: list[Any]
    scores: Tensor


def rows_per_chunk(width: int, k: int = 1) -> int:
    """Return how many rows to process at a time. Larger k need larger chunks, because chunk results are merged."""
    return _floor_power_of_two(max(CHUNK_NUMBERS // width, 16 * k))


def _floor_power_of_two(limit: int) -> int:
    """Return the largest power of two up to ``limit``: matrix products of odd sizes take up to a third longer."""
    return 1 << max(1, limit).bit_length() - 1


def search_chunks(
    queries: Tensor, row_chunks: Iterable[tuple[Tensor, Tensor | None, Stored]], k: int
) -> tuple[Tensor, Tensor]:
    """Return the k largest dot products of each query, in descending order, and the ids of their rows.

    Of equal products the row with the lowest id comes first.

    Parameters
    ----------
    queries
        Real rows, in the precision to compute in.
    row_chunks
        Ids, a mask of present rows (None: all) and rows. Ids ascend within a chunk and from chunk to chunk.
    k
        At most the number of present rows.

    Shapes
    ------
    queries: ``(q, width)``; outputs: ``(q, k)``
    """
    count = len(queries)
    best = queries.new_full((count, k), -torch.inf)
    best_ids = torch.zeros((count, k), dtype=torch.int64, device=queries.device)
    workspace, converted = queries.new_empty(0), queries.new_empty(0)  # fresh memory costs as much as the conversion
    with torch.autocast(queries.device.type, enabled=False):
        for ids, present, stored in row_chunks:
            rows, size = stored.numbers, len(ids)
            if rows.dtype != queries.dtype:
                if converted.numel() < rows.numel():
                    converted = queries.new_empty(rows.numel())
                rows = converted[: rows.numel()].view_as(rows).copy_(rows)
            block_size = _floor_power_of_two(CHUNK_NUMBERS // size)
            if workspace.numel() < min(block_size, count) * size:
                workspace = queries.new_empty(min(block_size, count) * size)
            for block in chunks(count, block_size):
                block_queries = queries[block]
                out = workspace[: len(block_queries) * size].view(len(block_queries), size)
                scores = torch.mm(block_queries, rows.mT, out=out)
                if stored.scales is not None:
                    scores *= stored.scales
                if present is not None:
                    scores[:, ~present] = -torch.inf
                best[block], best_ids[block] = keep_best((best[block], best_ids[block]), scores, ids, k)
    return best, best_ids


def keep_best(best: tuple[Tensor, Tensor] | None, scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores of each query and their ids: of earlier chunks, ``best``, and of another chunk.

    Of equal scores the lowest id comes first, if ids ascend within a chunk and from chunk to chunk.

    Shapes
    ------
    best: None, or scores and ids ``(q, j)``; scores: ``(q, n)``; ids: ``(n,)``; outputs: ``(q, min(k, j + n))``

    Examples
    --------
    >>> import torch
    >>> from ghrr.memory.search import keep_best
    >>> best = keep_best(None, torch.tensor([[0.3, 0.9, 0.1]]), torch.tensor([0, 1, 2]), k=2)
    >>> keep_best(best, torch.tensor([[0.3, 0.5]]), torch.tensor([3, 4]), k=2)
    (tensor([[0.9000, 0.5000]]), tensor([[1, 4]]))
    """
    found, indices = _largest(scores, min(k, scores.shape[1]))
    if best is None:
        return found, ids[indices]
    # Earlier ids come first and the sort is stable: of equal scores the lowest id stays in front.
    merged = torch.cat([best[0], found], dim=1).sort(dim=1, descending=True, stable=True)
    both = torch.cat([best[1], ids[indices]], dim=1)
    return merged.values[:, :k], both.gather(1, merged.indices[:, :k])


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest scores of each row and their indices, in order; equal scores by lowest index."""
    count = scores.shape[1]
    found, indices = scores.topk(min(k + 1, count))
    if not (found[:, 1:] - found[:, :-1] == 0).any():  # no equal scores, except the -inf of absent rows
        return found[:, :k], indices[:, :k]
    best, best_indices = _sort_by_score_then_id(found, indices, k)
    if k < count:
        tied = (found[:, -1] == found[:, k - 1]).nonzero()[:, 0]
        if len(tied):
            rows, last = scores[tied], found[tied, k - 1 : k]
            equal = rows == last
            wanted = k - (rows > last).sum(dim=1, keepdim=True)
            chosen = (rows > last) | (equal & (equal.cumsum(dim=1, dtype=torch.int32) <= wanted))
            columns = chosen.nonzero()[:, 1].view(len(tied), k)
            best[tied], best_indices[tied] = _sort_by_score_then_id(rows.gather(1, columns), columns, k)
    return best, best_indices


def _sort_by_score_then_id(scores: Tensor, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
    ids, order = ids.sort(dim=1)
    scores, order = scores.gather(1, order).sort(dim=1, descending=True, stable=True)
    return scores[:, :k], ids.gather(1, order)[:, :k]


def break_ties(search: Search, queries: Tensor, k: int, count: int, *, width: int = 0) -> tuple[Tensor, Tensor]:
    """Return the k best rows like :func:`search_chunks`, from a search that orders equal scores arbitrarily.

    It requests one result more than needed. If that one has the same score as the last, it requests four times as many,
    and so on.

    Parameters
    ----------
    search
        ``search(queries, width)`` returns the scores and ids of the ``width`` best rows, best first.
    queries, k
        As in :func:`search_chunks`.
    count
        Number of rows. If it is less than k, all are returned.
    """
    width = min(max(width, k + 1), count)
    if not width:
        return queries.new_empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    scores, ids = search(queries, width)
    best_scores, best_ids = _sort_by_score_then_id(scores, ids, k)
    if width < count:
        tied = (scores[:, -1] == scores[:, k - 1]).nonzero()[:, 0]
        for chunk in chunks(len(tied), max(1, CHUNK_NUMBERS // (64 * width))):  # sorting needs several copies
            again = tied[chunk]
            best_scores[again], best_ids[again] = break_ties(search, queries[again], k, count, width=4 * width)
    return best_scores, best_ids

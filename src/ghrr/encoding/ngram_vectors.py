"""Hypervectors of many n-grams, made for some slots at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ghrr import ops
from ghrr.encoding.ngram_counts import as_keys

# Complex numbers of n-gram vectors made at a time, on a CPU, where they should stay in the cache, and on a GPU.
CHUNK_NUMBERS = (1 << 21, 1 << 27)


@dataclass(frozen=True)
class _Halves:
    """Distinct halves of n-grams, and the rows of the two halves of each."""

    left: _Halves | Tensor
    right: _Halves | Tensor
    left_rows: Tensor
    right_rows: Tensor
    middle: int


def ngram_vectors(symbols: Tensor, grams: NDArray[Any], slots: slice = slice(None)) -> Iterator[tuple[slice, Tensor]]:
    """Yield the hypervectors of n-grams for some slots at a time: these slots and ``(k, slots, m, m)``.

    The symbols of an n-gram are bound in order; for m = 1, where binding commutes, symbol j is shifted by j slots. Many
    n-grams share their halves, which are bound once.

    Parameters
    ----------
    symbols
        Hypervectors of the symbols, ``(symbols, dim, m, m)``.
    grams
        Rows of the symbols of each n-gram, ``(k, n)``.
    slots
        Range of slots to compute; all by default.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from ghrr.encoding.ngram_vectors import ngram_vectors
    >>> symbols = torch.tensor([[1.0, 2.0], [3.0, 5.0]]).to(torch.complex64)[..., None, None]
    >>> [(_, vectors)] = ngram_vectors(symbols, np.array([[0, 1]]))  # (1, 2) times (5, 3)
    >>> vectors.real.flatten().tolist()
    [5.0, 6.0]
    """
    dim, m = symbols.shape[1:3]
    plan = _plan(grams, symbols.device)
    step = max(1, CHUNK_NUMBERS[symbols.is_cuda] // max(1, len(grams) * m**2))
    first, last, _ = slots.indices(dim)
    for start in range(first, last, step):
        chunk = slice(start, min(last, start + step))
        yield chunk, _bind_halves(plan, symbols, torch.arange(chunk.start, chunk.stop, device=symbols.device))


def _plan(grams: NDArray[Any], device: torch.device) -> _Halves | Tensor:
    middle = grams.shape[1] // 2
    if middle == 0:
        return torch.as_tensor(grams[:, 0], device=device)
    parts = []
    for half in (grams[:, :middle], grams[:, middle:]):
        first, rows = np.unique(as_keys(half), return_index=True, return_inverse=True)[1:]
        parts.append((_plan(half[first], device), torch.as_tensor(rows, device=device)))
    (left, left_rows), (right, right_rows) = parts
    return _Halves(left, right, left_rows, right_rows, middle)


def _bind_halves(plan: _Halves | Tensor, symbols: Tensor, slots: Tensor) -> Tensor:
    if isinstance(plan, Tensor):
        return symbols[:, slots][plan]
    dim, m = symbols.shape[1:3]
    left = _bind_halves(plan.left, symbols, slots)
    right = _bind_halves(plan.right, symbols, (slots - plan.middle) % dim if m == 1 else slots)
    return ops.bind(left[plan.left_rows], right[plan.right_rows])

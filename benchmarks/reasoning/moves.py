"""Where order matters: rows of three moves of a triangle, the third of which is the first, then the second.

The six moves (three turns, three reflections) form a group in which a * b differs from b * a. With m = 6 a hypervector
can hold a move exactly, as its permutation of the six moves in a random basis; then the third panel is the product of
the first two. With m = 1 all products commute: numbers that multiply as the moves do can only say whether a move is a
turn or a reflection, which leaves three of the six moves. The answers are the six moves.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from ghrr import Space, adjoint, bind, similarity

MOVES = tuple(permutations(range(3)))
PROBLEMS = 1000
DIM = 8


def after(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the move a, then b."""
    return tuple(b[i] for i in a)


def codes(m: int, seed: int) -> Tensor:
    """Return the hypervectors of the moves, ``(6, dim, m, m)``, with the same numbers per hypervector for all m."""
    if m == 1:
        signs = [(-1) ** sum(a > b for i, a in enumerate(move) for b in move[i + 1 :]) for move in MOVES]
        return torch.tensor(signs, dtype=torch.complex64)[:, None, None, None].expand(6, DIM * 36, 1, 1)
    table = torch.zeros(6, 6, 6)
    for k, move in enumerate(MOVES):
        for i, start in enumerate(MOVES):
            table[k, i, MOVES.index(after(start, move))] = 1
    rotation = Space(dim=DIM, m=6, seed=seed).rotations(["moves"])[0]
    return bind(bind(rotation, table[:, None].to(rotation.dtype).expand(6, DIM, 6, 6)), adjoint(rotation))


def measure(seeds: Sequence[int] | range) -> Iterator[dict[str, Any]]:
    """Choose among x3 = x1 * x2 and x3 = x2 * x1 by two rows, then the answer that fits the third."""
    for m in (1, 6):
        for seed in seeds:
            yield {"problem": "moves", "m": m, "seed": seed, "right": solve(codes(m, seed), seed), "total": PROBLEMS}


def solve(table: Tensor, seed: int) -> float:
    """Return the expected number of right answers; equal scores share a guess."""
    rng = random.Random(seed)  # noqa: S311
    right = 0.0
    for _ in range(PROBLEMS):
        forward = rng.random() < 0.5
        rows: list[tuple[tuple[int, ...], ...]] = []
        while len(rows) < 3:
            a, b = rng.sample(MOVES, 2)
            if after(a, b) != after(b, a):
                rows.append((a, b, after(a, b) if forward else after(b, a)))
        x = torch.stack([torch.stack([table[MOVES.index(move)] for move in row]) for row in rows])
        products = torch.stack([bind(x[:, 0], x[:, 1]), bind(x[:, 1], x[:, 0])])
        evidence = similarity(products[:, :2], x[:2, 2]).sum(dim=1)
        prediction = products[int(evidence.argmax()), 2]
        scores = similarity(prediction, table)
        best = scores >= scores.max() - 1e-4
        right += float(best[MOVES.index(rows[2][2])]) / float(best.sum())
    return right

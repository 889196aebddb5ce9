"""Word problems of finite groups: the product of all elements so far, after each element of a random sequence."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import Tensor

GROUPS = ("S3", "A4", "S4", "A5", "S5", "Z60")


@functools.cache
def multiplication_table(name: str) -> Tensor:
    """Return ``table[a, b]``, the number of the product a b; for permutations, b is applied first.

    S are the symmetric and A the alternating groups, with the identity first; Z are the cyclic groups, which commute.
    """
    kind, size = name[0], int(name[1:])
    if kind == "Z":
        return (torch.arange(size)[:, None] + torch.arange(size)) % size
    elements = [p for p in itertools.permutations(range(size)) if kind == "S" or _is_even(p)]
    number = {p: i for i, p in enumerate(elements)}
    return torch.tensor([[number[tuple(a[i] for i in b)] for b in elements] for a in elements])


def _is_even(permutation: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 0


def word_problem(name: str, batch: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return random sequences, and the product of the elements up to each one: both ``(batch, length + 1)``.

    A sequence starts with a token for the identity, numbered as the size of the group, whose product is not scored: its
    target is -1.
    """
    table = multiplication_table(name)
    elements = torch.randint(len(table), (batch, length), generator=generator)
    states = [elements[:, 0]]
    for t in range(1, length):
        states.append(table[elements[:, t], states[-1]])
    start = torch.full((batch, 1), len(table))
    return torch.cat((start, elements), dim=1), torch.cat((start * 0 - 1, torch.stack(states, dim=1)), dim=1)

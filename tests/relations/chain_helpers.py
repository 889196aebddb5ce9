"""Small compositions to test with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

Tree = int | tuple["Tree", "Tree"]


def random_table(relations: int, seed: int) -> Tensor:
    """Return random log-probabilities that a and b compose to c."""
    generator = torch.Generator().manual_seed(seed)
    return torch.log_softmax(2 * torch.randn((relations,) * 3, generator=generator, dtype=torch.float64), dim=2)


def bracketings(chain: tuple[int, ...]) -> Iterator[Tree]:
    """Yield all ways to compose a chain two at a time."""
    if len(chain) == 1:
        yield chain[0]
    for split in range(1, len(chain)):
        yield from itertools.product(bracketings(chain[:split]), bracketings(chain[split:]))


def scores_of(tree: Tree, table: Tensor, combine: Callable[[Tensor, Tensor], Tensor] = torch.add) -> Tensor:
    """Return the best score of each relation for one bracketing, over all names of its parts."""
    if isinstance(tree, int):
        scores = torch.full((len(table),), -1e9, dtype=table.dtype)
        scores[tree] = 0.0
        return scores
    left, right = (scores_of(part, table, combine) for part in tree)
    return combine(combine(left[:, None, None], right[None, :, None]), table).amax(dim=(0, 1))

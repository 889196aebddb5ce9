"""The flip-flop language (Liu et al. 2023): a model must repeat the last bit that was written.

A sequence consists of pairs of an instruction and a bit. After ``write`` and ``ignore`` the bit is random, after
``read`` it is the last bit that was written. Only bits after ``read`` are scored.
"""

from __future__ import annotations

import torch
from torch import Tensor

VOCABULARY = ("0", "1", "write", "read", "ignore")
_WRITE, _READ, _IGNORE = 2, 3, 4


def flip_flop(batch: int, length: int, generator: torch.Generator, ignore: float = 0.8) -> tuple[Tensor, Tensor]:
    """Return tokens and targets ``(batch, length - 1)``: the token at t + 1 is the target at t, if it is scored.

    ``ignore`` is the probability of that instruction; the others share the rest. It is .8 in training, .98 in the
    sparse test and .1 in the dense one. The first instruction is ``write``, the last one ``read``.
    """
    pairs = length // 2
    weights = torch.tensor([(1 - ignore) / 2, (1 - ignore) / 2, ignore])
    instructions = 2 + torch.multinomial(weights.expand(batch, 3), pairs, replacement=True, generator=generator)
    instructions[:, 0], instructions[:, -1] = _WRITE, _READ
    bits = torch.randint(2, (batch, pairs), generator=generator)
    written = torch.where(instructions == _WRITE, torch.arange(pairs), 0).cummax(dim=1).values
    bits = torch.where(instructions == _READ, bits.gather(1, written), bits)
    tokens = torch.stack((instructions, bits), dim=2).flatten(1)
    targets = torch.full_like(tokens, -1)
    targets[:, ::2] = torch.where(instructions == _READ, bits, -1)
    return tokens[:, :-1], targets[:, :-1]

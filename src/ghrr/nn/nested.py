"""Nested tensors, which hold sequences of different lengths: to padded tensors and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Ragged(NamedTuple):
    """The sequences of a nested tensor with padding behind them, and the place of each token."""

    padded: Tensor  # (batch, longest, features)
    padding: Tensor  # (batch, longest), True where there is no token
    tokens: tuple[Tensor, Tensor]  # of all tokens, the sequence and the place in it
    lengths: list[int]
    nested: Tensor

    def nest(self, padded: Tensor) -> Tensor:
        """Take the padding off ``(batch, longest, *)``: a nested tensor with the layout of the original one."""
        tokens = padded[self.tokens]
        source: Any = self.nested
        if source.layout != torch.jagged:
            sequences = torch.split(tokens, self.lengths)
            strided: Tensor = torch.nested.as_nested_tensor(list(sequences))
            return strided
        # With the same offsets it can be added to the original.
        offsets = source.offsets() if source.lengths() is None else _offsets(torch.tensor(self.lengths))
        jagged: Tensor = torch.nested.nested_tensor_from_jagged(tokens, offsets.to(tokens.device))
        return jagged


def pad(nested: Tensor) -> Ragged:
    """Pad sequences ``(n_i, features)`` to the length of the longest, or to 1 if all are empty."""
    sequences = nested.unbind()
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=nested.device)
    tokens = torch.cat(sequences)
    rows = torch.repeat_interleave(torch.arange(len(sequences), device=nested.device), lengths)
    places = torch.arange(len(tokens), device=nested.device) - _offsets(lengths)[rows]
    longest = max([1, *map(len, sequences)])
    padded = tokens.new_zeros(len(sequences), longest, tokens.shape[-1]).index_put((rows, places), tokens)
    padding = torch.arange(longest, device=nested.device) >= lengths[:, None]
    return Ragged(padded, padding, (rows, places), lengths.tolist(), nested)


def _offsets(lengths: Tensor) -> Tensor:
    return nn.functional.pad(lengths.cumsum(0), (1, 0))

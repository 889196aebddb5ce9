"""Conversion of nested tensors, which hold sequences of different lengths, to padded tensors and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class PaddedSequences(NamedTuple):
    """The sequences of a nested tensor, padded to equal length."""

    padded: Tensor  # (batch, longest, features)
    padding: Tensor  # (batch, longest), True at padding
    indices: tuple[Tensor, Tensor]  # of all tokens: sequence, and position in it
    lengths: list[int]
    nested: Tensor

    def to_nested(self, padded: Tensor) -> Tensor:
        """Remove the padding of ``(batch, longest, *)``; the result has the layout of the original nested tensor."""
        tokens = padded[self.indices]
        source: Any = self.nested
        if source.layout != torch.jagged:
            sequences = torch.split(tokens, self.lengths)
            strided: Tensor = torch.nested.as_nested_tensor(list(sequences))
            return strided
        # Tensors with the same offsets can be added, as a residual connection does.
        offsets = source.offsets() if source.lengths() is None else _offsets(torch.tensor(self.lengths))
        jagged: Tensor = torch.nested.nested_tensor_from_jagged(tokens, offsets.to(tokens.device))
        return jagged


def pad(nested: Tensor) -> PaddedSequences:
    """Pad sequences ``(n_i, features)`` to the length of the longest, or to 1 if all are empty."""
    sequences = nested.unbind()
    lengths = torch.tensor([len(sequence) for sequence in sequences], device=nested.device)
    tokens = torch.cat(sequences)
    batch = torch.repeat_interleave(torch.arange(len(sequences), device=nested.device), lengths)
    position = torch.arange(len(tokens), device=nested.device) - _offsets(lengths)[batch]
    longest = max([1, *map(len, sequences)])
    padded = tokens.new_zeros(len(sequences), longest, tokens.shape[-1]).index_put((batch, position), tokens)
    padding = torch.arange(longest, device=nested.device) >= lengths[:, None]
    return PaddedSequences(padded, padding, (batch, position), lengths.tolist(), nested)


def _offsets(lengths: Tensor) -> Tensor:
    return nn.functional.pad(lengths.cumsum(0), (1, 0))

"""Keys and values of earlier tokens, for generation token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import names_errors


@names_errors
@dataclass
class AttentionCache:
    """Keys, values and recent rows of earlier tokens, for causal attention; made by ``Attention.new_cache()``.

    Attributes
    ----------
    length
        Number of tokens so far.
    keys
        Keys of the tokens so far, ``(batch, num_kv_heads, length, 2 m)``; None before the first token.
    values
        Values of the tokens so far, in the same shape.
    recent
        Mode ``"feature"``: the rows of the last ``window - 1`` tokens. Mode ``"bundle"``: the phases of all tokens.

    Examples
    --------
    >>> import torch, ghrr
    >>> attention = ghrr.nn.Attention(embed_dim=16, num_heads=2, max_len=8, is_causal=True)
    >>> cache, x = attention.new_cache(), torch.randn(1, 5, 16)
    >>> steps = [attention(token, cache=cache) for token in x.split(1, dim=1)]
    >>> torch.allclose(torch.cat(steps, dim=1), attention(x), atol=1e-6), cache.length
    (True, 5)
    """

    length: int = 0
    keys: Tensor | None = None
    values: Tensor | None = None
    recent: Tensor | None = None

    def append(self, k: Tensor, v: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Add the keys and values of ``count`` tokens, and return the keys and values of all tokens."""
        if self.keys is not None and self.values is not None:
            k, v = torch.cat((self.keys, k), dim=-2), torch.cat((self.values, v), dim=-2)
        self.keys, self.values = k, v
        self.length += count
        return k, v

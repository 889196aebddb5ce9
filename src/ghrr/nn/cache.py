"""Keys and values of earlier tokens, for generation token by token."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import check_integer, names_errors, value_error

KEPT_PATHS = 64  # of mode "path": so many tokens can be removed again


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
    paths
        Mode ``"path"``: the paths to the last 64 tokens, ``(batch, at most 64, num_kv_heads, slots, m, m)``. The last
        one continues; the others are for :meth:`crop`.

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
    paths: Tensor | None = None

    def append(self, k: Tensor, v: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Add the keys and values of ``count`` tokens, and return the keys and values of all tokens."""
        if self.keys is not None and self.values is not None:
            k, v = torch.cat((self.keys, k), dim=-2), torch.cat((self.values, v), dim=-2)
        self.keys, self.values = k, v
        self.length += count
        return k, v

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in the given order, as beam search does."""
        for name in ("keys", "values", "recent", "paths"):
            tensor: Tensor | None = getattr(self, name)
            if tensor is not None:
                setattr(self, name, tensor.index_select(0, rows.to(tensor.device)))

    def crop(self, length: int) -> None:
        """Remove all tokens after the first ``length``, such as drafts that were not accepted.

        Paths are kept for the last 64 tokens, so mode ``"path"`` can remove 64 at a time at most, fewer than that. The
        modes ``"feature"`` with a window and ``"bundle"`` cannot remove tokens.

        Examples
        --------
        >>> import torch, ghrr
        >>> attention = ghrr.nn.Attention(embed_dim=16, num_heads=2, max_len=8, is_causal=True, mode="path")
        >>> cache, x = attention.new_cache(), torch.randn(1, 5, 16)
        >>> _ = attention(x.flip(1), cache=cache), cache.crop(0)
        >>> _ = attention(x[:, :4], cache=cache), cache.crop(2)
        >>> torch.allclose(attention(x[:, 2:], cache=cache), attention(x)[:, 2:], atol=1e-6)
        True
        """
        length = check_integer("length", length, least=0)
        removed = self.length - length
        if removed < 0:
            raise value_error(f"length must not exceed {self.length}, the tokens so far, got {length}")
        if removed and length and self.recent is not None:
            raise value_error(
                "rows that bundle several tokens cannot be removed; use mode 'path', or mode 'feature' with window=1"
            )
        if removed and length and self.paths is not None and removed >= self.paths.shape[1]:
            raise value_error(
                f"at most {self.paths.shape[1] - 1} tokens can be removed here, got {removed}; "
                "crop more often, or start with a new cache"
            )
        if not length:
            self.keys = self.values = self.recent = self.paths = None
        elif removed:
            assert self.keys is not None
            assert self.values is not None
            self.keys, self.values = self.keys[..., :length, :], self.values[..., :length, :]
            self.paths = None if self.paths is None else self.paths[:, : self.paths.shape[1] - removed]
        self.length = length

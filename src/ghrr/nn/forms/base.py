"""Interface of the forms, and functions that they share."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ghrr.nn.cache import AttentionCache
from ghrr.nn.complex_rows import normalize_rows
from ghrr.nn.phases import Phases

PARTS = 3  # query, key, value

QKV = tuple[Tensor, Tensor, Tensor]


class Form(Protocol):
    r"""How tokens become the matrices Q, K and V: one class for each mode of attention.

    Attributes
    ----------
    attends_across_tokens
        Whether the rows of Q, K and V belong to different tokens. If not, masks and caches do not apply.
    """

    attends_across_tokens: bool

    def __call__(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> tuple[Tensor, ...]:
        """Return Q, K and V, each ``(batch, heads, n, 2 m)``, real parts first; in mode ``"path"`` paths too.

        Parameters
        ----------
        phases
            The phases of the layer.
        tokens
            One tensor ``(batch, n, embed_dim)`` for self-attention, or three: for query, key and value.
        padding
            For each tensor of tokens a mask ``(batch, n)``, True at padding, which a row must not bundle; or None.
        log_scale
            Logarithm of the scale of the queries of each head, ``(heads, 1, 1, 1)``.
        cache
            Earlier tokens. A form updates ``cache.recent`` and ``cache.paths`` only.
        """

    def join_heads(self, out: Tensor) -> Tensor:
        """Flatten the output of attention, ``(batch, heads, n, 2 m)``, to the input of the output projection."""


def for_each_part(tensors: list[Tensor]) -> list[Tensor]:
    """Return one tensor each for query, key and value: for self-attention, the single given one three times."""
    return tensors * PARTS if len(tensors) == 1 else tensors


def scale_rows(q: Tensor, k: Tensor, log_scale: Tensor, *, normalize: bool) -> tuple[Tensor, Tensor]:
    """Scale the rows of Q and K to one length with ``normalize``, then the rows of Q by the scale of their head."""
    if normalize:
        q, k = normalize_rows(q), normalize_rows(k)
    return q * log_scale[..., 0].exp().to(q.dtype), k


def sharing_shape(sharing: str, heads: int, parts: int = PARTS) -> tuple[int, int]:
    """Return the number of position encodings: for query, key and value (or the first two), and for the heads."""
    return (parts if sharing in ("qkv", "different") else 1, heads if sharing in ("head", "different") else 1)


def split_heads(phases: Tensor, heads: int) -> Tensor:
    """Reshape phases ``(batch, n, 2 heads m)`` to ``(batch, heads, n, 2 m)``."""
    parts: Tensor = phases.unflatten(-1, (2, heads, -1))  # type: ignore[no-untyped-call]
    return parts.permute(0, 3, 1, 2, 4).flatten(-2)


def join_interleaved(out: Tensor) -> Tensor:
    """Flatten heads and rows, with each imaginary part next to its real part.

    The output projections of all modes but ``"feature"`` were stored in this order by ghrr 0.1.
    """
    pairs: Tensor = out.unflatten(-1, (2, -1))  # type: ignore[no-untyped-call]
    return pairs.transpose(-1, -2).transpose(1, 2).flatten(2)

"""Masks of attention: from the convention of ``torch.nn.MultiheadAttention`` to the one of attention kernels.

In the first True hides a key, in the second True shows it. A mask that hides all keys from a query raises: it is nearly
always a mask of the opposite convention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ghrr.checks import describe, is_true, type_error, value_error


def check_padding(padding: Tensor | None, keys: Tensor) -> Tensor | None:
    """Return the padding mask as ``(batch, keys)``, True where a key is ignored."""
    if padding is None:
        return None
    if (
        isinstance(padding, Tensor)
        and padding.is_floating_point()
        and not is_true((padding > -torch.inf).logical_and(padding != 0).any())
    ):
        padding = padding == -torch.inf  # torch's transformer layers convert bool masks to 0 and -inf
    if not isinstance(padding, Tensor) or padding.dtype != torch.bool:
        raise type_error(
            f"key_padding_mask must be bool (True: ignore this key), or numbers 0 and -inf, got {describe(padding)}"
        )
    padding = padding[None] if padding.ndim == 1 else padding
    if padding.shape != keys.shape[:2]:
        raise value_error(
            f"key_padding_mask must have shape (batch, keys) = {tuple(keys.shape[:2])}, got {describe(padding)}"
        )
    if is_true(padding.all(dim=-1).any()):
        raise value_error("key_padding_mask hides every token of a sequence; True means: ignore this key")
    return padding


def check_mask(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """Return the mask with axes that broadcast with the scores ``(batch, heads, queries, keys)``; True hides."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor) or (mask.dtype != torch.bool and not mask.is_floating_point()):
        raise type_error(
            f"attn_mask must be bool (True: hide this key) or numbers to add to the scores, got {describe(mask)}"
        )
    batch, heads, queries, keys = *q.shape[:3], k.shape[-2]
    if mask.shape == (queries, keys):
        full = mask[None, None]
    elif mask.shape == (batch * heads, queries, keys):
        full = mask.unflatten(0, (batch, heads))  # type: ignore[no-untyped-call]
    else:
        raise value_error(
            f"attn_mask must have shape (queries, keys) = ({queries}, {keys}) or (batch * heads, queries, "
            f"keys) = ({batch * heads}, {queries}, {keys}), got {describe(mask)}"
        )
    hidden = full if full.dtype == torch.bool else full == -torch.inf
    if is_true(hidden.all(dim=-1).any()):
        raise value_error(
            "attn_mask hides every key from some query. True hides, as in torch.nn.MultiheadAttention; for "
            "a mask of scaled_dot_product_attention, where True shows, pass ~mask"
        )
    return full


def combine_masks(hidden: Tensor | None, padding: Tensor | None, causal: bool, q: Tensor, k: Tensor) -> Tensor | None:
    """Return one mask for scaled_dot_product_attention, where True shows; None if its causal flag is enough."""
    queries, keys = q.shape[-2], k.shape[-2]
    if hidden is None and padding is None and (not causal or queries in (1, keys)):
        return None
    seen = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        seen = seen.tril(keys - queries)
    if padding is not None:
        seen = seen & ~padding[:, None, None, :]
    if hidden is None:
        return seen
    seen = seen & (~hidden if hidden.dtype == torch.bool else hidden > -torch.inf)
    if is_true((~seen).all(dim=-1).any()):
        raise value_error(
            "the masks together hide every key from some query. True and -inf hide, as in "
            "torch.nn.MultiheadAttention; for a bool mask where True shows, pass ~mask"
        )
    return seen if hidden.dtype == torch.bool else hidden.to(q.dtype).masked_fill(~seen, -torch.inf)

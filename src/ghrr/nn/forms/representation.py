"""Mode ``"representation"``: the paper's representation-level attention."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ghrr.nn.cache import AttentionCache
from ghrr.nn.complex_rows import from_pairs, multiply
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms.base import PARTS, QKV, for_each_part, join_interleaved, split_heads
from ghrr.nn.phases import Phases
from ghrr.nn.weights import Weights


class RepresentationForm(nn.Module):
    r"""Q, K and V of a token are its own matrices :math:`W \Lambda(x)`: it attends over their m rows.

    Tokens do not see each other, so that there are no positions and no masks.
    """

    attends_across_tokens = False

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads, m = config.num_heads, config.resolved_m
        self.weights = Weights(config.weights, (PARTS, self.heads), 1, m, gain=math.sqrt(m), dtype=dtype)

    def forward(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> QKV:
        """Return Q, K and V, each ``(batch, heads, n, m, 2 m)``: one axis more than in other forms."""
        token_phases = [split_heads(phases(x), self.heads)[..., None, :] for x in tokens]
        w = from_pairs(self.weights()[:, :, 0]).to(token_phases[0].dtype)[:, :, None]
        q, k, v = (multiply(w[i], x) for i, x in enumerate(for_each_part(token_phases)))
        return q * log_scale.exp().to(q.dtype), k, v

    def join_heads(self, out: Tensor) -> Tensor:
        return join_interleaved(out)

"""Modes ``"bundle"`` and ``"dense"``: rows that bundle several tokens."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr.nn.cache import AttentionCache
from ghrr.nn.complex_rows import from_complex, to_complex
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms.base import PARTS, QKV, for_each_part, join_interleaved, scale_rows, sharing_shape, split_heads
from ghrr.nn.phases import Phases
from ghrr.nn.precision import FullPrecision
from ghrr.nn.weights import Weights
from ghrr.seeding import labelled_generator


class BundleForm(FullPrecision):
    r"""Row r is :math:`\sum_j P_j[r, :]\, W \Lambda(x_j)`, for any matrices :math:`P_j`.

    In mode ``"bundle"`` :math:`P_j[r, :] = 0` for r < j, so that row t depends on tokens up to t. In mode ``"dense"``
    every row depends on all tokens. The entries that mode ``"bundle"`` does not use are stored, and counted as
    parameters if positions are trained.
    """

    attends_across_tokens = True
    positions: Tensor

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        heads, m, max_len = config.num_heads, config.resolved_m, config.max_len
        self.heads, self.normalize = heads, config.normalize_rows
        self.weights = Weights(config.weights, (PARTS, heads), 1, m, gain=1.0, dtype=dtype)
        self.causal = config.mode == "bundle"
        shape = (*sharing_shape(config.position_sharing, heads), max_len, max_len, m, 2)
        drawn = torch.randn(shape, dtype=torch.float64, generator=labelled_generator(config.seed, "positions"))
        bundled = torch.arange(1.0, max_len + 1) if self.causal else torch.full((max_len,), float(max_len))
        drawn = (drawn / torch.sqrt(2 * bundled)[:, None, None, None]).to(dtype)
        if config.trainable_positions:
            self.positions = nn.Parameter(drawn)
        else:
            self.register_buffer("positions", drawn)

    def forward(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> QKV:
        start = 0 if cache is None else cache.length
        token_phases = [phases(x) for x in tokens]
        token_phases = [x if pad is None else x * ~pad[..., None] for x, pad in zip(token_phases, padding, strict=True)]
        if cache is not None:
            token_phases = token_phases if cache.recent is None else [torch.cat((cache.recent, token_phases[0]), dim=1)]
            cache.recent = token_phases[0]
        token_phases = [split_heads(x, self.heads) for x in token_phases]
        w = self.weights()[:, :, 0]
        q, k, v = (self._rows(x, w[i], i, start) for i, x in enumerate(for_each_part(token_phases)))
        return *scale_rows(q, k, log_scale, normalize=self.normalize), v

    def _rows(self, phases: Tensor, w: Tensor, part: int, start: int) -> Tensor:
        """Return the rows of query, key or value from ``start`` on; ``phases`` has the phases of all tokens."""
        length = phases.shape[-2]
        with torch.autocast(phases.device.type, enabled=False):
            p = self.positions[part if len(self.positions) > 1 else 0][:, start:length, :length]
            if self.causal:
                seen = torch.ones(length, length, dtype=torch.bool, device=p.device).tril()[start:]
                p = p * seen[:, :, None, None]
            w = torch.view_as_complex(w.contiguous())
            projection = torch.view_as_complex(p.contiguous()) @ w[:, None]  # (heads, rows, tokens, m)
            rows = torch.einsum("hrjc,bhjc->bhrc", projection, to_complex(phases.to(self.positions.dtype)))
            return from_complex(rows).to(phases.dtype)

    def join_heads(self, out: Tensor) -> Tensor:
        return join_interleaved(out)

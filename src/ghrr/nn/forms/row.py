"""Mode ``"row"``: the matrices :math:`E_j` of the paper."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ghrr.nn.cache import AttentionCache
from ghrr.nn.complex_rows import from_complex, from_pairs, multiply
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms.base import PARTS, QKV, for_each_part, join_interleaved, scale_rows, sharing_shape, split_heads
from ghrr.nn.phases import Phases
from ghrr.nn.precision import FullPrecision
from ghrr.nn.weights import Weights


class RowForm(FullPrecision):
    r"""Row j is :math:`r_j^\top W \Lambda(x_j)`, the form with :math:`P_j = e_j r_j^\top`.

    With :math:`r_j = e_j` this is the paper's :math:`E_j`: row j of W multiplies the phases feature by feature, and
    features do not mix. Fixed orthonormal :math:`r_j` are equivalent to another W, so all variants start at
    :math:`e_j`, and sharing makes a difference only if positions are trained. Row t depends on token t only.
    """

    attends_across_tokens = True

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        heads, m = config.num_heads, config.resolved_m
        self.heads, self.normalize = heads, config.normalize_rows
        self.weights = Weights(config.weights, (PARTS, heads), 1, m, gain=math.sqrt(m), dtype=dtype)
        start = torch.eye(config.max_len, m, dtype=dtype).expand(*sharing_shape(config.position_sharing, heads), -1, -1)
        start = torch.stack((start, torch.zeros_like(start)), dim=-1)
        self.positions = nn.Parameter(start) if config.trainable_positions else None

    def forward(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> QKV:
        start = 0 if cache is None else cache.length
        token_phases = [split_heads(phases(x), self.heads) for x in tokens]
        w = self.weights()[:, :, 0]
        q, k, v = (self._rows(x, w[i], i, start) for i, x in enumerate(for_each_part(token_phases)))
        return *scale_rows(q, k, log_scale, normalize=self.normalize), v

    def _rows(self, phases: Tensor, w: Tensor, part: int, start: int) -> Tensor:
        """Return the rows of query, key or value, ``(batch, heads, n, 2 m)``."""
        end = start + phases.shape[-2]
        gains = from_pairs(w[:, start:end])
        if self.positions is not None:
            with torch.autocast(phases.device.type, enabled=False):
                r = self.positions[part if len(self.positions) > 1 else 0][:, start:end]
                product = torch.view_as_complex(r.contiguous()) @ torch.view_as_complex(w.contiguous())
                gains = from_complex(product)
        return multiply(gains.to(phases.dtype), phases)

    def join_heads(self, out: Tensor) -> Tensor:
        return join_interleaved(out)

"""Mode ``"path"``: rows are bound to the product of what came before, instead of to a position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ghrr import ops
from ghrr.checks import value_error
from ghrr.nn.cache import KEPT_PATHS, AttentionCache
from ghrr.nn.complex_rows import multiply
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forget_gate import ForgetGate, fold, last_sums
from ghrr.nn.forms.base import scale_rows
from ghrr.nn.path_steps import PathSteps
from ghrr.nn.paths import carry, path
from ghrr.nn.phases import Phases
from ghrr.nn.positions import PositionRotation


class PathForm(nn.Module):
    r"""Row j is :math:`R_j^\dagger W x_j` with the path :math:`R_j = U_j * \dots * U_1`.

    The scores are :math:`\mathrm{Re}\, q_i^\dagger R_i R_j^\dagger k_j`, and the output is
    :math:`R_i \sum_j a_{ij} R_j^\dagger v_j`. Both depend on the tokens from j + 1 to i only, through
    :math:`R_i R_j^\dagger = U_i * \dots * U_{j+1}`, so sequences that a mask separates do not influence each other. The
    same holds for a layer that is not causal: a key behind the query is reached by the inverse of the path between
    them. Padding has the identity as its step.

    With :math:`\theta = 0` paths on scores are rotary positions. With m = 1 they commute: tokens rotate features by
    angles that they choose, and their order makes no difference. Rows are linear in tokens, without phases.
    """

    attends_across_tokens = True

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.normalize = config.num_heads, config.resolved_kv_heads, config.normalize_rows
        self.features, transport = config.row_features, config.transport
        self.carries_scores, self.carries_values = transport in ("scores", "both"), transport in ("values", "both")
        rows = 2 * self.features * (self.heads + 2 * self.kv_heads)
        weight = torch.randn(rows, config.embed_dim, dtype=dtype) / config.embed_dim**0.5
        weight[: 2 * self.features * (self.heads + self.kv_heads)] *= config.qk_gain
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(rows, dtype=dtype))
        self.steps = None if transport == "none" else PathSteps(config, dtype)
        self.gate = ForgetGate(config.embed_dim, self.kv_heads, dtype) if config.forget_gate else None
        self.positions = None
        if config.rotary_scores:
            shape, heads, m, n = (1, 1), (1,), self.features, config.max_len
            self.positions = PositionRotation(shape, heads, m, n, trainable=False, seed=config.seed, dtype=dtype)

    def forward(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> tuple[Tensor, ...]:
        """Return Q, K and V, and the paths ``(batch, n, kv_heads, slots, m, m)`` if values are carried."""
        if len(tokens) > 1:
            raise value_error(
                "mode 'path' needs self-attention, since a path leads through one sequence; give one tensor "
                "as query, key and value"
            )
        x, padded = tokens[0], padding[0]
        rows = nn.functional.linear(x, self.weight, self.bias).unflatten(-1, (-1, 2 * self.features))  # type: ignore[no-untyped-call]
        q, k, v = rows.split((self.heads, self.kv_heads, self.kv_heads), dim=2)
        q, k = scale_rows(q, k, log_scale[:, 0], normalize=self.normalize)
        paths = []
        if self.steps is not None:
            paths = [self._paths(self.steps(x, padded), cache)]
            q, k, v = self._carry_back(q, k, v, paths[0])
        if self.positions is not None:
            rotations = self.positions(0 if cache is None else cache.length, x.shape[1])[0][:, None].to(q.dtype)
            q, k = multiply(q, rotations), multiply(k, rotations)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if self.gate is not None:
            sums = self.gate(x, padded).cumsum(dim=-1)
            if cache is not None and cache.keys is not None and cache.length:
                sums = sums + last_sums(cache.keys)
            q, k, v = fold(q, k, v, sums)
        return q, k, v, *(paths if self.carries_values else [])

    def _paths(self, steps: Tensor, cache: AttentionCache | None) -> Tensor:
        """Return the paths. With a cache they continue from its last one, and the cache keeps the last of them."""
        hypervectors = path(steps.flatten(2, 3))
        if cache is None:
            return hypervectors.view_as(steps)
        if cache.paths is not None and cache.length:
            hypervectors = ops.bind(hypervectors, cache.paths[:, -1:].flatten(2, 3))
        paths = hypervectors.view_as(steps)
        known = paths if cache.paths is None else torch.cat((cache.paths, paths), dim=1)
        cache.paths = known[:, -KEPT_PATHS:].clone()  # a view would keep all paths in memory
        return paths

    def _carry_back(self, q: Tensor, k: Tensor, v: Tensor, paths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        grouped = [q.unflatten(2, (self.kv_heads, -1)), k[:, :, :, None]] if self.carries_scores else []  # type: ignore[no-untyped-call]
        grouped += [v[:, :, :, None]] if self.carries_values else []
        together = carry(paths, torch.cat(grouped, dim=3), back=True)
        carried = list(together.split([x.shape[3] for x in grouped], dim=3))  # type: ignore[no-untyped-call]
        if self.carries_values:
            v = carried.pop()[:, :, :, 0]
        return (carried[0].flatten(2, 3), carried[1][:, :, :, 0], v) if self.carries_scores else (q, k, v)

    def join_heads(self, out: Tensor) -> Tensor:
        return out[..., : 2 * self.features].transpose(1, 2).flatten(2)

"""Mode ``"feature"``: positions rotate the features of a row."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ghrr.nn.cache import AttentionCache
from ghrr.nn.config import AttentionConfig
from ghrr.nn.forms.base import PARTS, QKV, sharing_shape
from ghrr.nn.phases import Phases
from ghrr.nn.positions import PositionRotation
from ghrr.nn.rows import rotate_rows, torch_implementation
from ghrr.nn.weights import Weights


class FeatureForm(nn.Module):
    r"""Row j is :math:`P_j \bigl(b + \sum_s W_s (\lambda_s(x_j) - \mu)\bigr)`, :math:`P_j = R^j`, R diagonal, unitary.

    A head bundles its bindings with the slots s of :math:`\lambda`, with all of them or with its own, and with a
    trained b. The constant :math:`\mu` is the mean of the phases. It only shifts b, but without it W would have to
    compensate for a mean that carries no information about the token. If Q and K share their R, scores depend on the
    distance of tokens: rotary positions are the special case in which :math:`\lambda` is replaced by its linear part.

    With a ``window`` of T each row bundles the last T tokens,
    :math:`P_j \sum_{\tau < T} A_\tau (b + W (\lambda(x_{j-\tau}) - \mu))`, with :math:`A_0 = 1` and trained diagonal
    taps :math:`A_\tau`, initially 0. Row t depends on tokens up to t only.

    The rows of all heads of queries, then of keys, then of values are side by side on one axis, which suits compilers
    and kernels.
    """

    attends_across_tokens = True

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        m, kv_heads = config.resolved_m, config.resolved_kv_heads
        self.m, self.mix_slots, self.normalize = m, config.mix_slots, config.normalize_rows
        self.heads = (config.num_heads, kv_heads, kv_heads)
        self.mean = math.exp(-(config.phase_std**2) / 2)
        rows, slots = sum(self.heads), config.num_slots if config.mix_slots else 1
        self.weights = Weights(config.weights, (rows,), slots, m, gain=min(4.0, 1 / config.phase_std), dtype=dtype)
        if config.qk_gain != 1:  # unitary weights, which are not parameters themselves, always have qk_gain = 1
            with torch.no_grad():
                self.weights.matrix[: self.rows_of(PARTS - 1).start] *= config.qk_gain
        self.bias = nn.Parameter(torch.zeros(rows, 2 * m, dtype=dtype))
        self.rotated_parts = PARTS if config.position_values else PARTS - 1
        self.positions = PositionRotation(
            sharing_shape(config.position_sharing, kv_heads, self.rotated_parts),
            self.heads[: self.rotated_parts],
            m,
            config.max_len,
            trainable=config.trainable_positions,
            seed=config.seed,
            dtype=dtype,
        )
        taps = torch.zeros(config.window - 1, rows, 2 * m, dtype=dtype)
        self.taps = nn.Parameter(taps) if config.window > 1 else None

    def forward(
        self,
        phases: Phases,
        tokens: list[Tensor],
        padding: list[Tensor | None],
        log_scale: Tensor,
        cache: AttentionCache | None,
    ) -> QKV:
        dtype = _compute_dtype(tokens[0])
        parts = [slice(None)] if len(tokens) == 1 else [self.rows_of(part) for part in range(PARTS)]
        rows = [self.project(phases(x, self.mean, dtype), part) for x, part in zip(tokens, parts, strict=True)]
        if self.taps is not None:
            rows = [r if pad is None else r * ~pad[:, :, None, None] for r, pad in zip(rows, padding, strict=True)]
        rotations = self.positions(0 if cache is None else cache.length, max(r.shape[1] for r in rows))
        if len(rows) == 1:
            return self._position_together(rows[0], rotations, log_scale.flatten(), cache)
        return self._position_separately(rows, rotations, log_scale.flatten())

    def rows_of(self, part: int) -> slice:
        """Return the rows of query, key or value."""
        first = sum(self.heads[:part])
        return slice(first, first + self.heads[part])

    def project(self, phases: Tensor, rows: slice) -> Tensor:
        r"""Return :math:`b + W (\lambda(x_j) - \mu)` for some rows: ``(batch, n, rows, 2 m)``.

        ``phases`` are :math:`\lambda - \mu`: ``(batch, n, 2 slots m)``.
        """
        real, imaginary = self.weights()[rows].to(phases.dtype).transpose(1, 2).flatten(2, 3).unbind(-1)
        # The complex product as a real matrix: its upper half gives real parts, its lower half imaginary parts.
        w = torch.cat((torch.cat((real, -imaginary), dim=-1), torch.cat((imaginary, real), dim=-1)), dim=1)
        bias = self.bias[rows].to(phases.dtype)
        if self.mix_slots:
            mixed: Tensor = nn.functional.linear(phases, w.flatten(0, 1), bias.flatten())
            return mixed.unflatten(-1, bias.shape)  # type: ignore[no-untyped-call, no-any-return]
        slot_phases = phases.unflatten(-1, (2, -1, self.m)).transpose(-2, -3).flatten(-2)  # type: ignore[no-untyped-call]
        parts = len(bias) // slot_phases.shape[-2]
        out: Tensor = torch.einsum("bnhf,phrf->bnphr", slot_phases, w.unflatten(0, (parts, -1))).flatten(2, 3)  # type: ignore[no-untyped-call]
        return out + bias

    def _position_together(
        self, rows: Tensor, rotations: Tensor, log_scale: Tensor, cache: AttentionCache | None
    ) -> QKV:
        """Apply window, scale and positions to the rows of query, key and value of the same tokens."""
        before = 0
        if cache is not None and self.taps is not None:  # prepend the earlier rows in the window
            before = len(self.taps)
            recent = cache.recent
            if recent is None:
                recent = rows.new_zeros(len(rows), before, *rows.shape[2:])
            rows = torch.cat((recent, rows), dim=1)
            cache.recent = rows[:, rows.shape[1] - before :].clone()  # a view would keep all rows in memory
            rotations = nn.functional.pad(rotations, (0, 0, before, 0))
        heads, kv_heads, _ = self.heads
        q, k, v = rotate_rows(
            rows, self.taps, rotations, log_scale, heads=heads, kv_heads=kv_heads, normalize=self.normalize
        )
        return q[:, :, before:], k[:, :, before:], v[:, :, before:]

    def _position_separately(self, rows: list[Tensor], rotations: Tensor, log_scale: Tensor) -> QKV:
        """Apply window, scale and positions where query, key and value come from different tokens."""
        out = []
        for part, part_rows in enumerate(rows):  # one at a time, as queries: the operator takes three of equal length
            n, count = part_rows.shape[1:3]
            selected = self.rows_of(part)
            part_rotations = rotations[selected, :n] if part < self.rotated_parts else _identity(rotations[:count, :n])
            taps = None if self.taps is None else self.taps[:, selected]
            scale = log_scale if part == 0 else log_scale.new_zeros(count)
            normalize = self.normalize and part < PARTS - 1
            out.append(
                torch_implementation(part_rows, taps, part_rotations, scale, count, 0, normalize)[0].transpose(1, 2)
            )
        return out[0], out[1], out[2]

    def join_heads(self, out: Tensor) -> Tensor:
        return out.transpose(1, 2).flatten(2)


def _compute_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of the rows: from autocast, which leaves double precision alone, or from the tokens."""
    kind = x.device.type
    cast = torch.is_autocast_enabled(kind) and x.dtype != torch.float64
    return torch.get_autocast_dtype(kind) if cast else x.dtype


def _identity(rotations: Tensor) -> Tensor:
    """Return rotations by an angle of 0: cosines of 1, sines of 0."""
    cosines = rotations[..., : rotations.shape[-1] // 2]
    return torch.cat((torch.ones_like(cosines), torch.zeros_like(cosines)), dim=-1)

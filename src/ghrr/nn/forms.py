r"""How tokens become the rows of the matrices Q, K and V: the forms of :math:`\sum_j P_j * W \Lambda(x_j)`.

Each form takes the phases :math:`\lambda(x_j)` of the tokens and gives Q, K and V of every head. They differ in what
:math:`P_j` may be, and so in whether row t can know of tokens after t. Complex numbers are real pairs here, so that
compilers and 16-bit arithmetic can treat them: on a last axis of 2, or real parts first and imaginary parts after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from ghrr._random import labelled_generator
from ghrr.nn.config import AttentionConfig
from ghrr.nn.phases import FullPrecision
from ghrr.nn.positions import PositionRotation
from ghrr.nn.rows import in_torch, place_rows
from ghrr.unitary import haar

PARTS = 3  # query, key, value


def sharing_shape(sharing: str, heads: int, parts: int = PARTS) -> tuple[int, int]:
    """How many position encodings there are: for query, key and value (or the first two), and for the heads."""
    return (parts if sharing in ("qkv", "different") else 1, heads if sharing in ("head", "different") else 1)


class Weights(FullPrecision):
    r"""The matrices W: free (``"relaxed"``), or kept unitary by parametrisation (``"unitary"``).

    Shapes
    ------
    output: ``(*rows, slots, m, m, 2)``
    """

    matrix: Tensor

    def __init__(
        self, kind: str, rows: tuple[int, ...], slots: int, m: int, *, gain: float, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.unitary = kind == "unitary"
        if self.unitary:
            generator = torch.Generator().manual_seed(int(torch.randint(1 << 62, ())))  # follows torch.manual_seed
            start = haar(*rows, slots, m=m, generator=generator, dtype=dtype.to_complex())
            self.matrix = nn.Parameter(start)
            orthogonal(self, "matrix", orthogonal_map="matrix_exp")
        else:
            start = torch.randn(*rows, slots, m, m, 2, dtype=dtype)
            self.matrix = nn.Parameter(start * (gain / math.sqrt(2 * slots * m)))
        self.slots = slots

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Weights:
        # Free numbers may be rounded like those of any layer.
        apply: Any = FullPrecision._apply if self.unitary else nn.Module._apply
        apply(self, fn, *arguments, **settings)
        return self

    def forward(self) -> Tensor:
        """The matrices as real pairs."""
        return torch.view_as_real(self.matrix) / math.sqrt(self.slots) if self.unitary else self.matrix


class Feature(nn.Module):
    r"""Row j is :math:`P_j \bigl(b + \sum_s W_s (\lambda_s(x_j) - \mu)\bigr)`, :math:`P_j = R^j`, R diagonal, unitary.

    A head bundles its bindings with the slots s of :math:`\lambda`, all of them or its own alone, and with a trained b.
    The constant :math:`\mu`, the mean of phases of the given spread, only moves b: without it W would have to learn
    against a mean that says nothing about the token. Scores depend on the distance of tokens if Q and K share their R:
    rotary positions are the special case in which :math:`\lambda` is replaced by its linear part. A ``window`` of T
    bundles the last T tokens in each row, :math:`P_j \sum_{\tau < T} A_\tau (b + W (\lambda(x_{j-\tau}) - \mu))`
    with :math:`A_0 = 1` and trained diagonal :math:`A_\tau`, 0 at first. Row t knows of tokens up to t alone.

    Rows of all heads of queries, then of keys, then of values stand side by side, and of each row the real parts, then
    the imaginary parts: that suits compilers and kernels best.
    """

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        m, kv_heads = config.resolved_m, config.resolved_kv_heads
        self.mix_slots, self.m = config.mix_slots, m
        self.heads = (config.num_heads, kv_heads, kv_heads)
        self.mean = math.exp(-(config.phase_std**2) / 2)
        rows, slots = sum(self.heads), config.num_slots if config.mix_slots else 1
        self.weights = Weights(config.weights, (rows,), slots, m, gain=min(4.0, 1 / config.phase_std), dtype=dtype)
        if config.qk_gain != 1:  # unitary weights have none, and are computed each time that they are looked at
            with torch.no_grad():
                self.weights.matrix[: self.rows_of(PARTS - 1).start] *= config.qk_gain
        self.bias = nn.Parameter(torch.zeros(rows, 2 * m, dtype=dtype))
        self.parts = PARTS if config.position_values else PARTS - 1  # which of query, key and value are turned
        shape = sharing_shape(config.position_sharing, kv_heads, self.parts)
        turned = self.heads[: self.parts]
        self.positions = PositionRotation(
            shape, turned, m, config.max_len, trainable=config.trainable_positions, seed=config.seed, dtype=dtype
        )
        self.taps = (
            nn.Parameter(torch.zeros(config.window - 1, rows, 2 * m, dtype=dtype)) if config.window > 1 else None
        )

    def forward(
        self,
        phases: list[Tensor],
        keep: list[Tensor | None],
        recent: Tensor | None,
        start: int,
        log_scale: Tensor,
        *,
        unit: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Q, K and V, each ``(batch, heads, n, 2 m)``, and the rows to be remembered if ``recent`` ones were given.

        Parameters
        ----------
        phases
            Those of the tokens, or of queries, keys and values apart, less their mean, real parts first.
        keep
            For each, which tokens are no padding, which a window must not find; None where all are kept.
        recent
            Rows before these tokens, as many as the window reaches back; None if there are none before.
        start
            Position of the first token.
        log_scale
            Logarithm of the scale of each head of queries.
        unit
            Whether rows of queries and keys are made equally long.
        """
        cut = [slice(None)] if len(phases) == 1 else [self.rows_of(part) for part in range(PARTS)]
        rows = [self.project(p, some) for p, some in zip(phases, cut, strict=True)]
        if self.taps is not None:
            rows = [r if k is None else r * k[:, :, None, None] for r, k in zip(rows, keep, strict=True)]
        turns = self.positions(start, max(r.shape[1] for r in rows))
        if len(rows) == 1:
            before = 0 if recent is None else recent.shape[1]
            if recent is not None:  # they go before the others, and off again
                rows[0] = torch.cat((recent, rows[0]), dim=1)
                recent = rows[0][:, rows[0].shape[1] - before :].clone()  # of all rows no more is kept
                turns = nn.functional.pad(turns, (0, 0, before, 0))
            heads, kv_heads, _ = self.heads
            three = place_rows(rows[0], self.taps, turns, log_scale, heads=heads, kv_heads=kv_heads, unit=unit)
            q, k, v = (placed[:, :, before:] for placed in three)
            return q, k, v, recent
        apart = []
        for part, own in enumerate(rows):  # each as if it were queries, of scale 1 if it is not; kernels want all three
            n, count = own.shape[1:3]
            turned = turns[cut[part], :n] if part < self.parts else _no_turns(turns[:count, :n])
            taps = None if self.taps is None else self.taps[:, cut[part]]
            scale = log_scale if part == 0 else log_scale.new_zeros(count)
            apart.append(in_torch(own, taps, turned, scale, count, 0, unit and part < PARTS - 1)[0].transpose(1, 2))
        return apart[0], apart[1], apart[2], None

    def nothing(self, batch: int, dtype: torch.dtype) -> Tensor:
        """The rows before the first token: zeros, as many as the window reaches back."""
        before = 0 if self.taps is None else len(self.taps)
        return self.bias.new_zeros(batch, before, *self.bias.shape, dtype=dtype)

    def rows_of(self, part: int) -> slice:
        """Which rows belong to query, key or value."""
        first = sum(self.heads[:part])
        return slice(first, first + self.heads[part])

    def project(self, phases: Tensor, rows: slice) -> Tensor:
        r"""The products :math:`b + W (\lambda(x_j) - \mu)` for some rows: ``(batch, n, rows, 2 m)``.

        ``phases`` are :math:`\lambda - \mu`, real parts first: ``(batch, n, 2 slots m)``.
        """
        real, imaginary = self.weights()[rows].to(phases.dtype).transpose(1, 2).flatten(2, 3).unbind(-1)
        # (c + is)(a + ib) as a real matrix: above what gives real parts, below what gives imaginary parts.
        w = torch.cat((torch.cat((real, -imaginary), dim=-1), torch.cat((imaginary, real), dim=-1)), dim=1)
        bias = self.bias[rows].to(phases.dtype)
        if self.mix_slots:
            mixed: Tensor = nn.functional.linear(phases, w.flatten(0, 1), bias.flatten())
            return mixed.unflatten(-1, bias.shape)  # type: ignore[no-untyped-call, no-any-return]
        own = phases.unflatten(-1, (2, -1, self.m)).transpose(-2, -3).flatten(-2)  # type: ignore[no-untyped-call]
        parts = len(bias) // own.shape[-2]
        out: Tensor = torch.einsum("bnhf,phrf->bnphr", own, w.unflatten(0, (parts, -1))).flatten(2, 3)  # type: ignore[no-untyped-call]
        return out + bias


def _no_turns(turns: Tensor) -> Tensor:
    """Positions that leave rows as they are: cosines of 1, sines of 0."""
    half = turns[..., : turns.shape[-1] // 2]
    return torch.cat((torch.ones_like(half), torch.zeros_like(half)), dim=-1)


class Rows(FullPrecision):
    r"""Row j is :math:`r_j^\top W \Lambda(x_j)`: the form with :math:`P_j = e_j r_j^\top`, the paper's :math:`E_j`.

    With :math:`r_j = e_j` row j holds row j of W times the phases, feature by feature: a gain for each place, and no
    mixing of features. Fixed orthonormal :math:`r_j` would only rename W, so all variants start there, and sharing
    makes a difference once positions are trained. Row t knows of token t alone.
    """

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        heads, m = config.num_heads, config.resolved_m
        self.weights = Weights(config.weights, (PARTS, heads), 1, m, gain=math.sqrt(m), dtype=dtype)
        start = torch.eye(config.max_len, m, dtype=dtype).expand(*sharing_shape(config.position_sharing, heads), -1, -1)
        start = torch.stack((start, torch.zeros_like(start)), dim=-1)
        self.positions = nn.Parameter(start) if config.trainable_positions else None

    def forward(self, phases: Tensor, part: int, start: int) -> Tensor:
        """Rows ``(batch, heads, n, m, 2)`` from phases ``(batch, n, heads, m, 2)`` of tokens from ``start`` on."""
        n = phases.shape[1]
        w = self.weights()[part, :, 0]
        gains = w[:, start : start + n]
        if self.positions is not None:
            with torch.autocast(phases.device.type, enabled=False):
                p = self.positions[part if len(self.positions) > 1 else 0][:, start : start + n]
                gains = torch.view_as_real(
                    torch.view_as_complex(p.contiguous()) @ torch.view_as_complex(w.contiguous())
                )
        return pairs_product(gains.to(phases.dtype), phases.transpose(1, 2))


class Bundles(FullPrecision):
    r"""Row r is :math:`\sum_j P_j[r, :]\, W \Lambda(x_j)`, for any matrices :math:`P_j`.

    Causal (``"bundle"``): :math:`P_j[r, :] = 0` for r < j, so that row t knows of tokens up to t. Otherwise
    (``"dense"``) every row knows of all tokens, and no mask of the scores can change that. The numbers that a causal
    form does not use are stored, and counted as parameters if positions are trained.
    """

    positions: Tensor

    def __init__(self, config: AttentionConfig, dtype: torch.dtype) -> None:
        super().__init__()
        heads, m, max_len = config.num_heads, config.resolved_m, config.max_len
        self.weights = Weights(config.weights, (PARTS, heads), 1, m, gain=1.0, dtype=dtype)
        self.causal = config.mode == "bundle"
        shape = (*sharing_shape(config.position_sharing, heads), max_len, max_len, m, 2)
        drawn = torch.randn(shape, dtype=torch.float64, generator=labelled_generator(config.seed, "positions"))
        tokens = torch.arange(1.0, max_len + 1) if self.causal else torch.full((max_len,), float(max_len))
        drawn = (drawn / torch.sqrt(2 * tokens)[:, None, None, None]).to(dtype)
        if config.trainable_positions:
            self.positions = nn.Parameter(drawn)
        else:
            self.register_buffer("positions", drawn)

    def forward(self, phases: Tensor, part: int, start: int) -> Tensor:
        """Rows from ``start`` on, ``(batch, heads, n, m, 2)``, from the phases of all tokens from the first on."""
        length = phases.shape[1]
        with torch.autocast(phases.device.type, enabled=False):
            p = self.positions[part if len(self.positions) > 1 else 0][:, start:length, :length]
            if self.causal:
                seen = torch.ones(length, length, dtype=torch.bool, device=p.device).tril()[start:]
                p = p * seen[:, :, None, None]
            w = torch.view_as_complex(self.weights()[part, :, 0].contiguous())
            reading = torch.view_as_complex(p.contiguous()) @ w[:, None]  # (heads, rows, tokens, m)
            full = phases.to(self.positions.dtype)
            rows = torch.einsum("hrjc,bjhc->bhrc", reading, torch.view_as_complex(full.contiguous()))
            return torch.view_as_real(rows).to(phases.dtype)


def pairs_product(a: Tensor, b: Tensor) -> Tensor:
    """Product of complex numbers given as real pairs."""
    ar, ai = a.unbind(-1)
    br, bi = b.unbind(-1)
    return torch.stack((ar * br - ai * bi, ar * bi + ai * br), dim=-1)

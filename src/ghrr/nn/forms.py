r"""How tokens become the rows of the matrices Q, K and V: the forms of :math:`\sum_j P_j * W \Lambda(x_j)`.

Each form takes the phases :math:`\lambda(x_j)` of the tokens and gives Q, K and V of every head. They differ in what
:math:`P_j` may be, and so in whether row t can know of tokens after t. Complex numbers are real pairs on a last axis
of 2 here, so that compilers and 16-bit arithmetic can treat them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from ghrr._random import labelled_generator
from ghrr.nn.phases import FullPrecision
from ghrr.unitary import haar

SHARING = ("all", "qkv", "head", "different")
PARTS = 3  # query, key, value


def sharing_shape(sharing: str, heads: int, parts: int = PARTS) -> tuple[int, int]:
    """How many position encodings there are: for query, key and value (or the first two), and for the heads."""
    return (parts if sharing in ("qkv", "different") else 1, heads if sharing in ("head", "different") else 1)


class Weights(FullPrecision):
    r"""The matrices W: free (``"relaxed"``), or kept unitary by parametrisation (``"unitary"``).

    Shapes
    ------
    output: ``(3, heads, slots, m, m, 2)``
    """

    matrix: Tensor

    def __init__(self, kind: str, heads: int, slots: int, m: int, *, gain: float, dtype: torch.dtype) -> None:
        super().__init__()
        self.unitary = kind == "unitary"
        if self.unitary:
            generator = torch.Generator().manual_seed(int(torch.randint(1 << 62, ())))  # follows torch.manual_seed
            start = haar(PARTS, heads, slots, m=m, generator=generator, dtype=dtype.to_complex())
            self.matrix = nn.Parameter(start)
            orthogonal(self, "matrix", orthogonal_map="matrix_exp")
        else:
            start = torch.randn(PARTS, heads, slots, m, m, 2, dtype=dtype)
            self.matrix = nn.Parameter(start * (gain / math.sqrt(2 * slots * m)))

    def _apply(self, fn: Callable[[Tensor], Tensor], *arguments: Any, **settings: Any) -> Weights:
        # Free numbers may be rounded like those of any layer.
        apply: Any = FullPrecision._apply if self.unitary else nn.Module._apply
        apply(self, fn, *arguments, **settings)
        return self

    def forward(self) -> Tensor:
        """The matrices as real pairs."""
        return torch.view_as_real(self.matrix) / math.sqrt(self.matrix.shape[2]) if self.unitary else self.matrix


class Feature(nn.Module):
    r"""Row j is :math:`P_j \bigl(b + \sum_s W_s (\lambda_s(x_j) - \mu)\bigr)`, :math:`P_j = R^j`, R diagonal, unitary.

    A head bundles its bindings with the slots s of :math:`\lambda`, all of them or its own alone, and with a trained b.
    The constant :math:`\mu`, the mean of phases of the given spread, only moves b: without it W would have to learn
    against a mean that says nothing about the token. Scores
    depend on the distance of tokens if Q and K share their R: rotary positions are the special case in which
    :math:`\lambda` is replaced by its linear part. A ``window`` of T bundles the last T tokens in each row,
    :math:`q_j = P_j \sum_{\tau < T} A_\tau W \lambda(x_{j-\tau})` with diagonal :math:`A_\tau`, trained from
    :math:`A_0 = 1`, the others 0. Row t knows of tokens up to t alone.
    """

    def __init__(
        self,
        heads: int,
        slots: int,
        m: int,
        *,
        mix_slots: bool,
        window: int,
        position_sharing: str,
        position_trainable: bool,
        position_values: bool,
        weights: str,
        spread: float,
        seed: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.mix_slots = mix_slots
        self.mean = math.exp(-(spread**2) / 2)
        self.bias = nn.Parameter(torch.zeros(PARTS, heads, m, 2, dtype=dtype))
        self.parts = PARTS if position_values else PARTS - 1  # which of query, key and value are turned
        self.weights = Weights(weights, heads, slots if mix_slots else 1, m, gain=min(4.0, 1 / spread), dtype=dtype)
        shape = sharing_shape(position_sharing, heads, self.parts)
        self.positions = Turns(shape, m, trainable=position_trainable, seed=seed, dtype=dtype)
        taps = torch.zeros(PARTS, window, heads, 1, m, 2, dtype=dtype)
        taps[:, 0, ..., 0] = 1
        self.taps = nn.Parameter(taps) if window > 1 else None

    def project(self, phases: Tensor, parts: slice) -> Tensor:
        r"""The products :math:`W \lambda(x_j)` for some of query, key, value: ``(parts, batch, heads, n, m, 2)``."""
        w = self.weights()[parts].to(phases.dtype)
        real, imaginary = w.unbind(-1)
        bias = (self.bias[parts] - self.mean * w.sum(dim=(2, 4))).flatten()
        # (c + is)(a + ib) as a real matrix, whose rows are real and imaginary parts in turn.
        w = torch.stack((torch.stack((real, -imaginary), -1), torch.stack((imaginary, real), -1)), dim=4)
        count, heads, slots, m = w.shape[:4]
        rows = w.permute(0, 1, 3, 4, 2, 5, 6).reshape(count, heads, m * 2, slots * m * 2)
        batch, n = phases.shape[:2]
        if self.mix_slots:
            mixed: Tensor = nn.functional.linear(phases.flatten(2), rows.flatten(0, 2), bias)
            return mixed.view(batch, n, count, heads, m, 2).permute(2, 0, 3, 1, 4, 5)
        own = phases.reshape(batch, n, heads, m * 2)
        out: Tensor = torch.einsum("bnhf,phrf->pbhnr", own, rows) + bias.view(count, 1, heads, 1, m * 2)
        return out.view(count, batch, heads, n, m, 2)

    def bundle_window(self, rows: Tensor, parts: slice, recent: Tensor | None) -> Tensor:
        """The last tokens bundled in each row; ``recent`` holds what came before these rows."""
        if self.taps is None:
            return rows
        taps = self.taps[parts].to(rows.dtype)
        window, n = taps.shape[1], rows.shape[-3]
        before = rows.new_zeros(*rows.shape[:-3], window - 1, *rows.shape[-2:]) if recent is None else recent
        padded = torch.cat((before, rows), dim=-3)
        total = torch.zeros_like(rows)
        for lag in range(window):
            earlier = padded[..., window - 1 - lag : window - 1 - lag + n, :, :]
            total = total + pairs_product(taps[:, None, lag], earlier)
        return total

    def position(self, rows: Tensor, part: int, start: int) -> Tensor:
        """Bind rows with their positions, if rows of this part have any."""
        return self.positions(rows, part, start) if part < self.parts else rows


class Turns(FullPrecision):
    r"""Positions :math:`R^j`: feature k of token j is turned by the angle :math:`j f_k`.

    Frequencies f fall geometrically from 1 to 1/10,000; where there are several sets, each is scaled by a random factor
    around 1, or else they would be alike.
    """

    def __init__(self, shape: tuple[int, int], m: int, *, trainable: bool, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        f = 10000 ** (-torch.arange(m, dtype=torch.float64) / m)
        factors = torch.randn(*shape, 1, dtype=torch.float64, generator=labelled_generator(seed, "positions"))
        frequencies = (f * torch.exp(0.3 * factors) if math.prod(shape) > 1 else f.expand(1, 1, m)).to(dtype).clone()
        if trainable:
            self.frequencies = nn.Parameter(frequencies)
        else:
            self.register_buffer("frequencies", frequencies)

    def forward(self, rows: Tensor, part: int, start: int) -> Tensor:
        """Turn rows ``(batch, heads, n, m, 2)`` that begin with token ``start``."""
        frequencies = self.frequencies[part if len(self.frequencies) > 1 else 0]
        with torch.autocast(rows.device.type, enabled=False):
            places = torch.arange(start, start + rows.shape[-3], device=rows.device, dtype=frequencies.dtype)
            angles = places[:, None] * frequencies[:, None]  # (heads or 1, n, m)
            turn = torch.stack((angles.cos(), angles.sin()), dim=-1).to(rows.dtype)
        return pairs_product(turn, rows)


class Rows(FullPrecision):
    r"""Row j is :math:`r_j^\top W \Lambda(x_j)`: the form with :math:`P_j = e_j r_j^\top`, the paper's :math:`E_j`.

    With :math:`r_j = e_j` row j holds row j of W times the phases, feature by feature: a gain for each place, and no
    mixing of features. Fixed orthonormal :math:`r_j` would only rename W, so all variants start there, and sharing
    makes a difference once positions are trained. Row t knows of token t alone.
    """

    def __init__(
        self, heads: int, m: int, max_len: int, *, sharing: str, trainable: bool, weights: str, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.weights = Weights(weights, heads, 1, m, gain=math.sqrt(m), dtype=dtype)
        start = torch.eye(max_len, m, dtype=dtype).expand(*sharing_shape(sharing, heads), -1, -1)
        start = torch.stack((start, torch.zeros_like(start)), dim=-1)
        self.positions = nn.Parameter(start) if trainable else None

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

    def __init__(
        self,
        heads: int,
        m: int,
        max_len: int,
        *,
        causal: bool,
        sharing: str,
        trainable: bool,
        weights: str,
        seed: int,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.weights = Weights(weights, heads, 1, m, gain=1.0, dtype=dtype)
        self.causal = causal
        shape = (*sharing_shape(sharing, heads), max_len, max_len, m, 2)
        drawn = torch.randn(shape, dtype=torch.float64, generator=labelled_generator(seed, "positions"))
        tokens = torch.arange(1.0, max_len + 1) if causal else torch.full((max_len,), float(max_len))
        drawn = (drawn / torch.sqrt(2 * tokens)[:, None, None, None]).to(dtype)
        if trainable:
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

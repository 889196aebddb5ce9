"""Every configuration of the layer, at a small size, and the layer by its formulas in complex numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

import ghrr
from ghrr.nn import Attention
from ghrr.nn.config import SHARING
from ghrr.nn.forms import Bundles, Feature, Rows
from tests.helpers import generator

EMBED, HEADS, LENGTH, BATCH = 16, 2, 6, 2
MODES = ("feature", "row", "bundle", "dense", "representation")

# Of each mode: its options one by one, and all of them together.
COMMON: list[dict[str, Any]] = [{}, {"weights": "unitary"}, {"trainable_phases": True}, {"normalize_rows": True}]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    mode: [
        *COMMON,
        {"weights": "unitary", "trainable_phases": True, "normalize_rows": True},
        {"split_inputs": True, "trainable_phases": True},
    ]
    for mode in MODES
}
FEATURE: list[dict[str, Any]] = [{"window": 3}, {"mix_slots": False}, {"position_values": True}, {"num_kv_heads": 1}]
TOGETHER = {"window": 3, "mix_slots": False, "position_values": True, "trainable_phases": True, "normalize_rows": True}
OPTIONS["feature"] += [*FEATURE, TOGETHER, {"window": 2, "position_values": True, "weights": "unitary"}]
OPTIONS["feature"] += [{"window": 3, "num_kv_heads": 1, "normalize_rows": True, "position_values": True}]
OPTIONS["feature"] += [{"window": 3, "num_kv_heads": 1, "normalize_rows": True, "split_inputs": True, "qk_gain": 0.5}]

# The eight variants of the paper, with every option; "representation" has no positions, and so one variant alone.
VARIANTS = [
    {"mode": mode, "position_sharing": sharing, "trainable_positions": trainable, **options}
    for mode in MODES
    for sharing, trainable in (
        itertools.product(SHARING, (False, True)) if mode != "representation" else [("all", False)]
    )
    for options in OPTIONS[mode]
    if not (mode == "representation" and "normalize_rows" in options)
]
# Matrices that are not square: fewer or more features than tokens, or than divide what a token has.
SIZES: list[dict[str, Any]] = [
    {"mode": "feature", "m": 3},
    {"mode": "feature", "m": 5, "mix_slots": False, "window": 2},
    {"mode": "row", "m": LENGTH + 2, "trainable_positions": True},
    {"mode": "bundle", "m": 4},
    {"mode": "dense", "m": LENGTH + 1},
]
VARIANTS += [{"position_sharing": "different", "trainable_positions": False} | sizes for sizes in SIZES]
CAUSAL = [variant for variant in VARIANTS if variant["mode"] != "dense"]
DIFFERENT = [v for v in VARIANTS if v["position_sharing"] == "different" or v["mode"] == "representation"]
PLAIN: list[dict[str, Any]] = [{"mode": mode} for mode in MODES]  # one of each mode, where the variant cannot matter


def label(variant: dict[str, Any]) -> str:
    words = {True: "", False: "not "}
    return ", ".join(f"{words[v]}{k}" if isinstance(v, bool) else f"{k} {v}" for k, v in variant.items())


def make(variant: dict[str, Any], *, scrambled: bool = True, **settings: Any) -> Attention:
    """A layer, with noise on all that is trained: biases, taps and offsets are zero at first, and would hide faults."""
    torch.manual_seed(1)
    given: dict[str, Any] = {"max_len": LENGTH, "dtype": torch.float64} | variant | settings
    attention = Attention(EMBED, HEADS, **given)
    if scrambled:
        noise = generator(2)
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype, generator=noise), alpha=0.3)
    return attention


def tokens(n: int = LENGTH, *, batch: int = BATCH, seed: int = 3, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(batch, n, EMBED, dtype=dtype, generator=generator(seed))


# ------------------------------------------------------------------------------------------------------ by the formulas


def literal_phases(attention: Attention, x: Tensor) -> Tensor:
    """The unit complex numbers e^{i(ω·x + b)} of one sequence, ``(n, count)``."""
    slots = attention.num_slots if attention.config.split_inputs else 1
    parts, own = x.chunk(slots, dim=-1), attention.phases.frequencies.chunk(slots)
    angles = torch.cat([part @ frequencies.T for part, frequencies in zip(parts, own, strict=True)], dim=-1)
    return torch.exp(1j * (angles if attention.phases.offsets is None else angles + attention.phases.offsets))


def literal_weights(attention: Attention, part: int) -> Tensor:
    """The matrices W of one part, ``(heads, slots, m, m)``, as complex numbers."""
    form, matrix = attention.form, attention.form.weights.matrix.detach()
    matrix = of_heads(matrix[form.rows_of(part)]) if isinstance(form, Feature) else matrix[part]
    return matrix / math.sqrt(matrix.shape[1]) if matrix.is_complex() else torch.view_as_complex(matrix.contiguous())


def of_heads(shared: Tensor) -> Tensor:
    """One for each head, where neighbouring heads share keys and values."""
    return torch.cat([shared[h * len(shared) // HEADS][None] for h in range(HEADS)])


def as_complex(halves: Tensor) -> Tensor:
    """Complex numbers of which all real parts come first, then all imaginary parts."""
    m = halves.shape[-1] // 2
    return torch.complex(halves[..., :m], halves[..., m:])


def of_part(positions: Tensor, part: int, heads: int = HEADS) -> Tensor:
    """The positions of query, key or value, one for each head, however they are shared."""
    own = positions[part if len(positions) > 1 else 0]
    return own.expand(heads, *own.shape[1:])


def side_by_side(attention: Attention, x: Tensor) -> Tensor:
    """Complex rows as the layer has them: all real parts first in mode "feature", elsewhere each with its imaginary."""
    halves = isinstance(attention.form, Feature)
    return torch.cat((x.real, x.imag), dim=-1) if halves else torch.view_as_real(x).flatten(-2)


def position_matrices(attention: Attention, part: int, n: int) -> Tensor:
    """The P_j of modes other than "feature", ``(n, heads, rows, m)``, each built entry by entry."""
    form, m = attention.form, attention.m
    out = torch.zeros(n, HEADS, attention.max_len, m, dtype=torch.complex128)
    for j, h in itertools.product(range(n), range(HEADS)):
        if isinstance(form, Bundles):
            given = torch.view_as_complex(of_part(form.positions.detach(), part).contiguous())
            first = j if attention.mode == "bundle" else 0
            out[j, h, first:] = given[h, first:, j]
        elif isinstance(form, Rows) and form.positions is not None:
            out[j, h, j] = torch.view_as_complex(of_part(form.positions.detach(), part).contiguous())[h, j]
        else:
            out[j, h, j, j] = 1
    return out


def literal_rows(attention: Attention, x: Tensor, part: int) -> Tensor:
    """The rows of Q, K or V for one sequence, ``(heads, n, m)``: the sum over tokens of P_j * W Λ(x_j)."""
    form, n, m = attention.form, len(x), attention.m
    phases, w = literal_phases(attention, x), literal_weights(attention, part)
    if not isinstance(form, Feature):
        diagonal = torch.diag_embed(phases.unflatten(1, (HEADS, m)))
        encoded = ghrr.bind(w[:, 0].expand_as(diagonal), diagonal)
        return (position_matrices(attention, part, n) @ encoded).sum(dim=0)[:, :n]
    slots = phases.unflatten(1, (attention.num_slots, m)) - form.mean
    projected = torch.zeros(HEADS, n, m, dtype=torch.complex128)
    for h, j in itertools.product(range(HEADS), range(n)):
        own = slots[j] if form.mix_slots else slots[j, h : h + 1]
        projected[h, j] = as_complex(of_heads(form.bias.detach()[form.rows_of(part)])[h])
        for s, values in enumerate(own):
            projected[h, j] += w[h, s] @ values
    turned = part < 2 or form.parts == 3
    frequencies = of_heads(of_part(form.positions.frequencies.detach(), part if turned else 0, attention.num_kv_heads))
    rows = torch.zeros_like(projected)
    for h, j in itertools.product(range(HEADS), range(n)):
        taps = [torch.ones(m, dtype=torch.complex128)]
        if form.taps is not None:
            taps += [as_complex(of_heads(tap[form.rows_of(part)])[h]) for tap in form.taps.detach()]
        for lag, tap in enumerate(taps):
            rows[h, j] += tap * projected[h, j - lag] if lag <= j else 0
        if turned:
            rows[h, j] = torch.linalg.matrix_power(torch.diag(torch.exp(1j * frequencies[h])), j) @ rows[h, j]
    return rows


def literal_parts(attention: Attention, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V of one sequence, Q with its scale and rows of equal length where that is asked for."""
    rows = [literal_rows(attention, x, part) for part, x in enumerate((q, k, v))]
    if attention.config.normalize_rows:
        rows[:2] = [
            r / (r.abs().square().sum(dim=-1, keepdim=True) / (2 * attention.m) + 1e-6).sqrt() for r in rows[:2]
        ]
    return rows[0] * attention.log_scale.detach().exp()[..., 0], rows[1], rows[2]


def literal_attention(attention: Attention, q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    """The whole layer for one sequence: softmax(Re Q K†) V, then the output projection."""
    query, key, value = literal_parts(attention, q, k, v)
    scores = (query @ key.mH).real
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    out = torch.softmax(scores, dim=-1).to(value.dtype) @ value
    projected: Tensor = attention.out_proj(side_by_side(attention, out).transpose(0, 1).flatten(1))
    return projected.detach()

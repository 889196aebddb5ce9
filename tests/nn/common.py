"""Configurations of the layer at a small size, and the layer by its formulas in complex numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import Tensor

import ghrr
from ghrr.nn import Attention
from ghrr.nn.config import SHARING
from tests.helpers import generator

EMBED, HEADS, LENGTH, BATCH = 16, 2, 6, 2
MODES = ("feature", "row", "bundle", "dense", "representation")

# Options of each mode one by one, and many of them together.
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

# The eight variants of the paper without options, and two of them, other ones each time, with every option.
# "representation" has no positions, and so one variant.
PAPER = list(itertools.product(SHARING, (False, True)))


def _variants(mode: str) -> list[dict[str, Any]]:
    if mode == "representation":
        positions = [("all", False, options) for options in OPTIONS[mode] if "normalize_rows" not in options]
    else:
        positions = [(*variant, {}) for variant in PAPER]
        for i, options in enumerate(OPTIONS[mode][1:]):
            positions += [(*PAPER[j % 8], options) for j in (i, i + 5)]  # fixed and trained, sharing of two kinds
    return [{"mode": mode, "position_sharing": s, "trainable_positions": t, **options} for s, t, options in positions]


VARIANTS = [variant for mode in MODES for variant in _variants(mode)]
# Matrices that are not square: m differs from the number of tokens, or does not divide embed_dim.
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
PLAIN: list[dict[str, Any]] = [{"mode": mode} for mode in MODES]  # for tests where the variant cannot matter
TOKENWISE: list[dict[str, Any]] = [variant for variant in PLAIN if variant["mode"] != "representation"]
PADDING = torch.tensor([[False] * 4 + [True] * 2, [False] * 5 + [True]])


def label(variant: dict[str, Any]) -> str:
    words = {True: "", False: "not "}
    return ", ".join(f"{words[v]}{k}" if isinstance(v, bool) else f"{k} {v}" for k, v in variant.items())


def make(variant: dict[str, Any], *, scrambled: bool = True, **settings: Any) -> Attention:
    """Make a layer with noise on all parameters: biases, taps and offsets start at zero, which would hide errors."""
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


# ------------------------------------------------------------------------------------------------------------- formulas


def literal_phases(attention: Attention, x: Tensor) -> Tensor:
    """The unit complex numbers e^{i(ω·x + b)} of one sequence, ``(n, count)``."""
    slots = attention.config.num_slots if attention.config.split_inputs else 1
    parts, own = x.chunk(slots, dim=-1), attention.phases.frequencies.chunk(slots)
    angles = torch.cat([part @ frequencies.T for part, frequencies in zip(parts, own, strict=True)], dim=-1)
    return torch.exp(1j * (angles if attention.phases.offsets is None else angles + attention.phases.offsets))


def form_of(attention: Attention) -> Any:
    """The form of a layer with all its attributes, which differ between modes."""
    return attention.form


def literal_weights(attention: Attention, part: int) -> Tensor:
    """The matrices W of one part, ``(heads, slots, m, m)``, as complex numbers."""
    form = form_of(attention)
    matrix = form.weights.matrix.detach()
    matrix = of_heads(matrix[form.rows_of(part)]) if attention.config.mode == "feature" else matrix[part]
    return matrix / math.sqrt(matrix.shape[1]) if matrix.is_complex() else torch.view_as_complex(matrix.contiguous())


def of_heads(shared: Tensor) -> Tensor:
    """Repeat keys and values that neighbouring heads share, one for each head."""
    return torch.cat([shared[h * len(shared) // HEADS][None] for h in range(HEADS)])


def as_complex(halves: Tensor) -> Tensor:
    """Convert rows of real parts, then imaginary parts, to complex numbers."""
    m = halves.shape[-1] // 2
    return torch.complex(halves[..., :m], halves[..., m:])


def of_part(positions: Tensor, part: int, heads: int = HEADS) -> Tensor:
    """The positions of query, key or value, one for each head."""
    own = positions[part if len(positions) > 1 else 0]
    return own.expand(heads, *own.shape[1:])


def output_features(attention: Attention, x: Tensor) -> Tensor:
    """Complex rows in the order of stored output projections: real parts first in mode "feature", else interleaved."""
    real_first = attention.config.mode == "feature"
    return torch.cat((x.real, x.imag), dim=-1) if real_first else torch.view_as_real(x).flatten(-2)


def position_matrices(attention: Attention, part: int, n: int) -> Tensor:
    """The P_j of modes other than "feature", ``(n, heads, rows, m)``, each built entry by entry."""
    form, m = form_of(attention), attention.m
    out = torch.zeros(n, HEADS, attention.config.max_len, m, dtype=torch.complex128)
    for j, h in itertools.product(range(n), range(HEADS)):
        if attention.config.mode in ("bundle", "dense"):
            given = torch.view_as_complex(of_part(form.positions.detach(), part).contiguous())
            first = j if attention.config.mode == "bundle" else 0
            out[j, h, first:] = given[h, first:, j]
        elif form.positions is not None:
            out[j, h, j] = torch.view_as_complex(of_part(form.positions.detach(), part).contiguous())[h, j]
        else:
            out[j, h, j, j] = 1
    return out


def literal_rows(attention: Attention, x: Tensor, part: int) -> Tensor:
    """The rows of Q, K or V for one sequence, ``(heads, n, m)``: the sum over tokens of P_j * W Λ(x_j)."""
    form, n, m = form_of(attention), len(x), attention.m
    phases, w = literal_phases(attention, x), literal_weights(attention, part)
    if attention.config.mode != "feature":
        diagonal = torch.diag_embed(phases.unflatten(1, (HEADS, m)))
        encoded = ghrr.bind(w[:, 0].expand_as(diagonal), diagonal)
        return (position_matrices(attention, part, n) @ encoded).sum(dim=0)[:, :n]
    slots = phases.unflatten(1, (attention.config.num_slots, m)) - form.mean
    projected = torch.zeros(HEADS, n, m, dtype=torch.complex128)
    for h, j in itertools.product(range(HEADS), range(n)):
        own = slots[j] if form.mix_slots else slots[j, h : h + 1]
        projected[h, j] = as_complex(of_heads(form.bias.detach()[form.rows_of(part)])[h])
        for s, values in enumerate(own):
            projected[h, j] += w[h, s] @ values
    rotated = part < 2 or form.rotated_parts == 3
    frequencies = of_heads(of_part(form.positions.frequencies.detach(), part if rotated else 0, attention.num_kv_heads))
    rows = torch.zeros_like(projected)
    for h, j in itertools.product(range(HEADS), range(n)):
        taps = [torch.ones(m, dtype=torch.complex128)]
        if form.taps is not None:
            taps += [as_complex(of_heads(tap[form.rows_of(part)])[h]) for tap in form.taps.detach()]
        for lag, tap in enumerate(taps):
            rows[h, j] += tap * projected[h, j - lag] if lag <= j else 0
        if rotated:
            rows[h, j] = torch.linalg.matrix_power(torch.diag(torch.exp(1j * frequencies[h])), j) @ rows[h, j]
    return rows


def literal_parts(attention: Attention, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Q, K and V of one sequence, with the scale of Q and with normalized rows if set."""
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
    projected: Tensor = attention.out_proj(output_features(attention, out).transpose(0, 1).flatten(1))
    return projected.detach()

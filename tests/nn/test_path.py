"""Mode "path": the layer equals its formula, is rotary attention at an angle of 0, and commutes at m = 1 alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ghrr
from ghrr.nn import Attention
from ghrr.nn.paths import carry, path
from ghrr.ops import reference
from tests.helpers import generator
from tests.nn.common import EMBED, HEADS, LENGTH, as_complex, form_of, label, make, tokens
from tests.nn.test_rope import rope

TRANSPORT = ("scores", "values", "both", "none")
VARIANTS: list[dict[str, Any]] = [{"mode": "path", "transport": transport} for transport in TRANSPORT]
VARIANTS += [
    {"mode": "path", "m": 2, "reflections": 3, "num_kv_heads": 1},
    {"mode": "path", "m": 3, "slots": 2, "transport": "values", "rotary_scores": True},
    {"mode": "path", "m": 1, "normalize_rows": True, "trainable_positions": True, "qk_gain": 0.5},
]
GATED: list[dict[str, Any]] = [{**variant, "forget_gate": True} for variant in VARIANTS]


def causal_seen(n: int = LENGTH) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def make_causal(variant: dict[str, Any], **settings: Any) -> Attention:
    return make(variant, is_causal=True, **settings)


# ------------------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 70])
def test_path_and_its_gradient_equal_the_reference(n: int, m: int) -> None:
    steps = ghrr.Space(dim=3, m=m, dtype=torch.complex128).random(2, n).requires_grad_()
    weights = torch.randn(steps.shape, dtype=steps.dtype, generator=generator())
    found, wanted = path(steps), reference.path(steps)
    torch.testing.assert_close(found, wanted)
    if n == 0:
        return
    got, want = (torch.autograd.grad((y * weights).real.sum(), steps)[0] for y in (found, wanted))
    torch.testing.assert_close(got, want)
    if n > 1 and m > 1:  # negative control: the other order
        assert not torch.allclose(found[:, -1], ghrr.multibind(steps.detach()), atol=1e-3)


def test_gradient_of_the_path_needs_unitary_steps() -> None:
    steps = (2 * ghrr.Space(dim=1, m=2, seed=0, dtype=torch.complex128).random(3)).requires_grad_()
    got, want = (torch.autograd.grad(f(steps).real.sum(), steps)[0] for f in (path, reference.path))
    assert not torch.allclose(got, want)


def test_path_of_65536_tokens_stays_unitary() -> None:
    torch.manual_seed(0)
    attention = Attention(EMBED, 1, max_len=4, mode="path", m=4, reflections=2, angle_std=1.0)
    with torch.no_grad():
        steps = form_of(attention).steps(torch.randn(1, 1 << 16, EMBED), None).flatten(2, 3)
        last = path(steps)[:, -1]
        error = last.mH @ last - torch.eye(4)
    assert error.abs().max() < 1e-5
    assert (reference.path(steps.to(torch.complex128)[:, :4096])[:, -1] - path(steps)[:, 4095]).abs().max() < 1e-3


def test_carry_back_undoes_carry() -> None:
    paths = ghrr.Space(dim=2, m=3, dtype=torch.complex128).random(2, 5, 1)
    for count in (1, 3, 4):
        rows = torch.randn(2, 5, 1, count, 12, dtype=torch.float64, generator=generator())
        carried = carry(paths, rows, back=False)
        torch.testing.assert_close(carry(paths, carried, back=True), rows)
        want = paths[..., None, :, :, :, :].expand(2, 5, 1, count, 2, 3, 3) @ as_complex(rows).unflatten(-1, (2, 3, 1))
        torch.testing.assert_close(as_complex(carried), want.flatten(-3))
        assert not torch.allclose(carry(paths, rows, back=True), carried, atol=1e-3)


# -------------------------------------------------------------------------------------------------------------- formula


def literal_steps(attention: Attention, x: Tensor) -> Tensor:
    """The steps of one sequence by matrix exponentials, ``(n, kv_heads, slots, m, m)``."""
    steps, m = form_of(attention).steps, attention.m
    code = x @ steps.reduce.T
    w = torch.einsum("hsrcmk,nk->nhsrcm", steps.directions, code) + steps.direction_bias
    w = torch.nn.functional.normalize(torch.complex(w[..., 0, :], w[..., 1, :]), dim=-1)
    angles = torch.einsum("hsrk,nk->nhsr", steps.angles, code) + steps.angle_bias
    product = torch.eye(m, dtype=w.dtype)
    if steps.frequencies is not None:
        product = torch.diag_embed(torch.exp(-1j * steps.frequencies))
    for r in range(angles.shape[-1]):
        projector = w[..., r, :, None] * w[..., r, None, :].conj()
        product = product @ torch.linalg.matrix_exp((1j * angles[..., r, None, None] * projector).contiguous())
    return product.detach()


def literal_path_attention(attention: Attention, x: Tensor, seen: Tensor) -> Tensor:
    """The layer for one sequence ``(n, embed)``: every relative path is multiplied out token by token."""
    form, n = form_of(attention), len(x)
    rows = as_complex((x @ form.weight.T + form.bias).unflatten(-1, (-1, 2 * form.features))).detach()
    q, k, v = rows.split((HEADS, form.kv_heads, form.kv_heads), dim=1)
    if form.normalize:
        q, k = (y / (y.abs().square().sum(dim=-1, keepdim=True) / (2 * form.features) + 1e-6).sqrt() for y in (q, k))
    q = q * attention.log_scale.detach().exp()[..., 0, 0]
    if form.positions is not None:
        frequencies = 10000 ** (-torch.arange(form.features, dtype=torch.float64) / form.features)
        rotations = torch.exp(1j * torch.arange(n)[:, None] * frequencies)[:, None]
        q, k = q * rotations, k * rotations
    steps = None if form.steps is None else literal_steps(attention, x)
    out = torch.zeros(n, HEADS, form.features, dtype=torch.complex128)
    for h in range(HEADS):
        g = h * form.kv_heads // HEADS
        for i in range(n):
            scores, moved = torch.full((n,), -torch.inf, dtype=torch.float64), v[:, g].clone()
            for j in range(n):
                key = k[j, g]
                if steps is not None:
                    between = relative(steps[:, g], i, j)
                    key = (between @ key.reshape(-1, attention.m, 1)).flatten() if form.carries_scores else key
                    if form.carries_values:
                        moved[j] = (between @ moved[j].reshape(-1, attention.m, 1)).flatten()
                scores[j] = (q[i, h] * key.conj()).sum().real
                if form.gate is not None:
                    gates = torch.sigmoid(x @ form.gate.weight[g] + form.gate.bias[g]).detach()
                    scores[j] += gates[j + 1 : i + 1].log().sum()
            weights = torch.softmax(scores.masked_fill(~seen[i], -torch.inf), dim=0)
            out[i, h] = (weights[:, None] * moved).sum(dim=0)
    joined = torch.cat((out.real, out.imag), dim=-1).flatten(1)
    projected: Tensor = attention.out_proj(joined)
    return projected.detach()


def relative(steps: Tensor, i: int, j: int) -> Tensor:
    """The product of the steps from j + 1 to i, or the inverse of those from i + 1 to j."""
    product = torch.eye(steps.shape[-1], dtype=steps.dtype).expand(steps.shape[1:])
    for s in range(min(i, j) + 1, max(i, j) + 1):
        product = steps[s] @ product
    return product if i >= j else product.mH


@pytest.mark.parametrize("variant", [*VARIANTS, *GATED], ids=label)
def test_layer_equals_its_formula(variant: dict[str, Any]) -> None:
    attention, x = make_causal(variant), tokens()
    want = torch.stack([literal_path_attention(attention, s, causal_seen()) for s in x])
    torch.testing.assert_close(attention(x).detach(), want, rtol=0, atol=1e-9)
    if form_of(attention).steps is not None:
        with torch.no_grad():  # negative control: other steps
            form_of(attention).steps.reduce.neg_()
        assert not torch.allclose(attention(x).detach(), want, atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS, ids=label)
def test_layer_that_is_not_causal_uses_inverse_paths(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    everything = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    want = torch.stack([literal_path_attention(attention, s, everything) for s in x])
    torch.testing.assert_close(attention(x).detach(), want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("transport", ["scores", "none"])
def test_without_angles_scores_are_those_of_rotary_attention(transport: str) -> None:
    attention = make_causal(
        {"mode": "path", "transport": transport, "rotary_scores": transport == "none"},
        m=2 if transport == "scores" else None,
    )
    form, x = form_of(attention), tokens()
    for zeroed in (form.steps.angles, form.steps.angle_bias) if form.steps is not None else ():
        nn.init.zeros_(zeroed)
    weights = attention(x, x, x, average_attn_weights=False)[1].detach()
    rows = torch.view_as_real(
        as_complex((x @ form.weight.T + form.bias).unflatten(-1, (-1, 2 * form.features)))
    ).flatten(-2)
    q, k, _ = (y.transpose(1, 2) for y in rows.detach().split(HEADS, dim=2))
    scale = attention.log_scale.detach().exp()[..., 0]

    def weights_at(places: Tensor) -> Tensor:
        scores = scale * (rope(q, places) @ rope(k, places).mT)
        return torch.softmax(scores.masked_fill(~causal_seen(), -torch.inf), dim=-1)

    torch.testing.assert_close(weights, weights_at(torch.arange(LENGTH)), rtol=0, atol=1e-14)
    assert not torch.allclose(weights, weights_at(2 * torch.arange(LENGTH)), atol=1e-3)  # negative control


@pytest.mark.parametrize("m", [1, 2])
def test_order_of_tokens_between_matters_unless_m_is_1(m: int) -> None:
    attention, x = make_causal({"mode": "path", "m": m}), tokens()
    first_only = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    first_only[:, 0] = False
    swapped = x[:, [0, 2, 1, 4, 3, 5]]
    outs = [attention(y, attn_mask=first_only)[:, -1] for y in (x, swapped)]
    assert torch.allclose(outs[0], outs[1], rtol=0, atol=1e-12) == (m == 1)


def test_steps_of_padding_are_identities_and_values_follow_paths() -> None:
    attention, x = make_causal({"mode": "path"}), tokens()
    steps = form_of(attention).steps(x, torch.tensor([[False, True] * 3] * 2))
    eye = torch.eye(attention.m, dtype=steps.dtype).expand(2, 3, *steps.shape[2:])
    assert torch.equal(steps[:, 1::2], eye)
    torch.testing.assert_close(
        steps.mH @ steps, torch.eye(attention.m, dtype=steps.dtype).expand_as(steps), atol=1e-10, rtol=0
    )
    assert not torch.allclose(steps[:, ::2], eye, atol=1e-2)


# --------------------------------------------------------------------------------------------------------------- errors

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "m": (
        {"m": 3},
        "m must divide the complex features of a head, embed_dim / (2 num_heads) = 4, got m=3; change m, or",
    ),
    "reflections": ({"reflections": 0}, "reflections must be a whole number of at least 1, got 0"),
    "rank": ({"path_rank": 0}, "path_rank must be a whole number of at least 1, got 0"),
    "angle_std": ({"angle_std": -1.0}, "angle_std must lie in (0.0, inf), got -1.0"),
    "transport": ({"transport": "keys"}, "transport must be one of 'scores', 'values', 'both', 'none'; got 'keys'"),
    "rope": (
        {"rotary_scores": True},
        "rotary_scores=True needs transport 'values' or 'none', got 'both', with which the",
    ),
    "positions": ({"transport": "values", "trainable_positions": True}, "trainable_positions needs transport 'scores'"),
    "gate": ({"forget_gate": True}, "forget_gate=True needs is_causal=True, since a gate forgets in one direction"),
    "phases": ({"phase_std": 2.0}, "mode 'path' has no phase_std, got 2.0; leave it out"),
    "weights": ({"weights": "unitary"}, "mode 'path' has no weights, got 'unitary'; leave it out"),
    "window": ({"window": 2}, "window, position_values and mix_slots need mode 'feature', got 'path'"),
    "embed_dim": ({"num_heads": 3}, "embed_dim must be a multiple of 2 x num_heads = 6"),
    "another mode": ({"mode": "feature", "reflections": 2}, "reflections needs mode 'path', got mode 'feature'; leave"),
    "a flag": ({"forget_gate": 1, "is_causal": True}, "forget_gate must be True or False, got int 1"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_invalid_settings_raise_and_are_named(case: str) -> None:
    settings, message = SETTINGS[case]
    given: dict[str, Any] = {"embed_dim": EMBED, "num_heads": HEADS, "max_len": LENGTH, "mode": "path"} | settings
    with pytest.raises((ValueError, TypeError), match="^Attention.*" + re.escape(message)):
        Attention(**given)


def test_cross_attention_raises() -> None:
    attention, x = make({"mode": "path"}), tokens()
    with pytest.raises(
        ValueError, match=r"^Attention: mode 'path' needs self-attention, since a path leads through one"
    ):
        attention(x, x + 1, x + 1)

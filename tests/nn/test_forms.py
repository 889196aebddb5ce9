"""The equations of the paper: each mode equals the sum over tokens of P_j * W Λ(x_j)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr.encoding import OneHotPositions
from ghrr.nn import Attention
from ghrr.nn.config import SHARING
from ghrr.nn.forms.base import sharing_shape
from ghrr.nn.phases import Phases
from tests.helpers import STANDARD_ERRORS, assert_mean, generator
from tests.nn.common import (
    BATCH,
    CAUSAL,
    DIFFERENT,
    EMBED,
    HEADS,
    LENGTH,
    VARIANTS,
    as_complex,
    form_of,
    label,
    literal_attention,
    literal_phases,
    literal_rows,
    literal_weights,
    make,
    position_matrices,
    tokens,
)

WITH_POSITIONS = [variant for variant in VARIANTS if variant["mode"] != "representation"]


# ----------------------------------------------------------------------------------------------------------- all modes


@pytest.mark.parametrize("variant", WITH_POSITIONS, ids=label)
def test_every_variant_equals_its_formula(variant: dict[str, Any]) -> None:
    attention, x = make(variant), tokens()
    want = torch.stack([literal_attention(attention, s, s, s) for s in x])
    torch.testing.assert_close(attention(x).detach(), want, rtol=0, atol=1e-10)
    shifted = torch.stack([literal_attention(attention, s.roll(1, 0), s, s) for s in x])  # negative control
    assert not torch.allclose(shifted, want, atol=1e-3)


@pytest.mark.parametrize("variant", [v for v in CAUSAL if v["mode"] != "representation"], ids=label)
def test_every_causal_variant_equals_its_formula(variant: dict[str, Any]) -> None:
    attention, x = make(variant, is_causal=True), tokens(LENGTH - 1)
    seen = torch.ones(LENGTH - 1, LENGTH - 1, dtype=torch.bool).tril()
    want = torch.stack([literal_attention(attention, s, s, s, seen) for s in x])
    torch.testing.assert_close(attention(x).detach(), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize("variant", [v for v in DIFFERENT if v["mode"] != "representation"], ids=label)
def test_cross_attention_equals_its_formula(variant: dict[str, Any]) -> None:
    attention, query, key, value = make(variant), tokens(3), tokens(5, seed=4), tokens(5, seed=5)
    want = torch.stack([literal_attention(attention, *parts) for parts in zip(query, key, value, strict=True)])
    out, weights = attention(query, key, value)
    torch.testing.assert_close(out.detach(), want, rtol=0, atol=1e-10)
    assert weights.shape == (BATCH, 3, 5)


# ----------------------------------------------------------------------------------------------------------- one by one


def unscaled_rows(attention: Attention, x: Tensor) -> list[Tensor]:
    """Q, K and V as complex numbers, with a scale of 1: ``(batch, heads, n, m)``."""
    log_scale = torch.zeros_like(attention.log_scale)
    return [as_complex(rows.detach()) for rows in attention.form(attention.phases, [x], [None], log_scale, None)]


def test_row_mode_binds_one_hot_positions() -> None:
    attention, x = make({"mode": "row"}), tokens()[0]
    space = ghrr.Space(HEADS, LENGTH, dtype=torch.complex128)
    phases = literal_phases(attention, x).unflatten(1, (HEADS, LENGTH))
    for part in range(3):
        w = literal_weights(attention, part)[:, 0]
        encoded = ghrr.bind(w.expand(LENGTH, *space.shape), torch.diag_embed(phases))
        matrix = ghrr.bind_bundle(OneHotPositions(space)(torch.arange(LENGTH)), encoded)
        for j in range(LENGTH):
            torch.testing.assert_close(matrix[:, j], w[:, j] * phases[j])
        torch.testing.assert_close(unscaled_rows(attention, x[None])[part][0], matrix)
        other_side = ghrr.bind_bundle(encoded, OneHotPositions(space)(torch.arange(LENGTH)))  # negative control
        assert not torch.allclose(other_side, matrix, atol=0.1)


@pytest.mark.parametrize("mode", ["bundle", "dense"])
def test_bundle_modes_bind_tokens_with_position_matrices(mode: str) -> None:
    """On square slots the rows are the rows of a bundle of P_j * W * Λ(x_j), as computed by ghrr.bind_bundle."""
    attention, x = make({"mode": mode, "position_sharing": "different"}), tokens()[0]
    phases = literal_phases(attention, x).unflatten(1, (HEADS, LENGTH))
    for part in range(3):
        matrices = position_matrices(attention, part, LENGTH)
        encoded = ghrr.bind(literal_weights(attention, part)[:, 0].expand_as(matrices), torch.diag_embed(phases))
        rows = unscaled_rows(attention, x[None])[part][0]
        torch.testing.assert_close(rows, ghrr.bind_bundle(matrices, encoded))
        assert not torch.allclose(ghrr.bind_bundle(encoded, matrices), ghrr.bind_bundle(matrices, encoded), atol=0.1)
        blank = matrices.abs().sum(dim=(1, 3)) == 0  # (token, row): rows that do not depend on a token
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(-1)
        assert torch.equal(blank, later if mode == "bundle" else torch.zeros_like(later))


def test_row_mode_mixes_neither_tokens_nor_features() -> None:
    form = make({"mode": "row"}).form
    phases = torch.randn(1, LENGTH, 2, HEADS, LENGTH, dtype=torch.float64, generator=generator())
    changed = phases.clone()
    changed[:, 2, :, 1, 3] += 1
    given: Any = lambda x: x  # noqa: E731 (the tokens are their own phases)
    rows, others = (
        as_complex(form(given, [x.flatten(2)], [None], torch.zeros(HEADS, 1, 1, 1), None)[0]) for x in (phases, changed)
    )
    assert (rows != others).nonzero().tolist() == [[0, 1, 2, 3]]


def test_representation_mode_binds_the_hypervectors_of_one_token() -> None:
    attention, x = make({"mode": "representation"}), tokens()
    out, weights = attention(x, x, x, average_attn_weights=False)
    scale = attention.log_scale.detach().exp()[..., 0]
    for b in range(BATCH):
        diagonal = torch.diag_embed(literal_phases(attention, x[b]).unflatten(1, (HEADS, LENGTH)))
        q, k, v = (ghrr.bind(literal_weights(attention, i)[:, 0].expand_as(diagonal), diagonal) for i in range(3))
        sigma = torch.softmax(scale * ghrr.bind(q, ghrr.adjoint(k)).real, dim=-1)
        bound = ghrr.bind(sigma.to(v.dtype), v)  # (n, heads, m, m)
        torch.testing.assert_close(out[b].detach(), attention.out_proj(torch.view_as_real(bound).flatten(1)).detach())
        torch.testing.assert_close(weights[b].detach(), sigma.transpose(0, 1))
        wrong = torch.softmax(scale * ghrr.bind(k, ghrr.adjoint(q)).real, dim=-1)  # negative control
        assert not torch.allclose(wrong, sigma, atol=1e-3)


@pytest.mark.parametrize("options", [{"weights": "unitary"}, {"trainable_phases": True}], ids=label)
def test_options_of_representation_mode(options: dict[str, Any]) -> None:
    attention, x = make({"mode": "representation", **options}), tokens()[0]
    diagonal = torch.diag_embed(literal_phases(attention, x).unflatten(1, (HEADS, LENGTH)))
    q, k, v = (ghrr.bind(literal_weights(attention, i)[:, 0].expand_as(diagonal), diagonal) for i in range(3))
    sigma = torch.softmax(attention.log_scale.exp()[..., 0] * ghrr.bind(q, ghrr.adjoint(k)).real, dim=-1)
    bound = torch.view_as_real(ghrr.bind(sigma.to(v.dtype), v))
    torch.testing.assert_close(attention(x), attention.out_proj(bound.flatten(1)))


def test_representation_mode_ignores_other_tokens_and_positions() -> None:
    attention, x = make({"mode": "representation"}), tokens()
    torch.testing.assert_close(attention(x.flip(1)).flip(1), attention(x))
    torch.testing.assert_close(attention(x)[:, 2:3], attention(x[:, 2:3]))
    feature = make({"mode": "feature"})  # negative control
    assert not torch.allclose(feature(x.flip(1)).flip(1), feature(x), atol=1e-3)


# ---------------------------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize(("mode", "trained"), [("feature", True), ("bundle", True), ("dense", False)])
@pytest.mark.parametrize("sharing", SHARING)
def test_sharing_decides_the_number_of_positions(mode: str, trained: bool, sharing: str) -> None:
    variant = {
        "mode": mode,
        "position_sharing": sharing,
        "trainable_positions": trained,
        "position_values": mode == "feature",
    }
    attention: Any = make(variant, scrambled=False)
    positions = attention.form.positions
    given = (positions.frequencies if mode == "feature" else positions).detach()
    parts, heads = given.shape[:2]
    assert (parts, heads) == sharing_shape(sharing, HEADS)
    assert parts == (3 if sharing in ("qkv", "different") else 1)
    assert heads == (HEADS if sharing in ("head", "different") else 1)
    sets = given.flatten(0, 1)
    for i in range(len(sets)):
        for j in range(i):
            assert not torch.allclose(sets[i], sets[j])


def test_trained_positions_of_row_mode_start_one_hot() -> None:
    x = tokens()
    for sharing in SHARING:
        variant = {"mode": "row", "position_sharing": sharing}
        fixed, trained = (make({**variant, "trainable_positions": t}, scrambled=False) for t in (False, True))
        torch.testing.assert_close(trained(x), fixed(x))


def test_window_has_no_effect_before_training() -> None:
    x = tokens()
    torch.testing.assert_close(make({"window": 3}, scrambled=False)(x), make({}, scrambled=False)(x))


def entries_of_rows(mode: str, row: int, **settings: Any) -> Tensor:
    """One entry of Q, K and V for each of many heads with independent matrices."""
    torch.manual_seed(2)
    variant = {"mode": mode, "position_sharing": "different", **settings}
    attention = Attention(EMBED, 200, m=LENGTH, max_len=LENGTH, dtype=torch.float64, **variant)
    x, form = tokens(batch=1), form_of(attention)
    if mode == "feature":
        rows = form.project(attention.phases(x, form.mean), slice(None))[0, row].detach()
        return torch.view_as_real(as_complex(rows)[:, 0])
    rows = torch.cat([part[0, :, row, 0] for part in unscaled_rows(attention, x)])
    return torch.view_as_real(rows)


@pytest.mark.parametrize("row", [0, LENGTH - 1])
@pytest.mark.parametrize("mode", ["row", "bundle", "dense"])
def test_initial_entries_of_rows_have_unit_variance(mode: str, row: int) -> None:
    squares = entries_of_rows(mode, row).square().sum(dim=-1)
    assert_mean(squares, 1.0)
    with pytest.raises(AssertionError):  # negative control
        assert_mean(squares, 0.5)


@pytest.mark.parametrize(("std", "gain"), [(0.1, 4.0), (0.5, 2.0), (1.0, 1.0)])
def test_initial_weights_compensate_a_small_phase_std(std: float, gain: float) -> None:
    """The mean square of an entry is gain² times the mean square of the token's phases less their mean."""
    squares = entries_of_rows("feature", 1, phase_std=std).square().sum(dim=-1)
    phases = Phases(EMBED, 18, phase_std=std, dtype=torch.float64)(tokens(batch=1)[0, 1])
    centred = as_complex(phases) - math.exp(-(std**2) / 2)
    assert_mean(squares, gain**2 * float(centred.abs().square().mean()))
    with pytest.raises(AssertionError):  # negative control
        assert_mean(squares, 2 * gain**2 * float(centred.abs().square().mean()))


def test_phases_have_the_requested_std() -> None:
    x = torch.randn(4000, EMBED, dtype=torch.float64, generator=generator())
    for std in (0.25, 1.0):
        module = Phases(EMBED, EMBED, phase_std=std, dtype=torch.float64)
        # Lengths of the frequencies are random too, but their squares are drawn once: compare with what they are.
        variance = module.frequencies.square().sum(dim=-1)
        angles = x @ module.frequencies.T
        error = variance * (2 / len(x)) ** 0.5
        assert ((angles.var(dim=0) - variance).abs() < STANDARD_ERRORS * error).all()
        bars = std**2 * (2 / EMBED / EMBED) ** 0.5  # of a mean of 16 lengths, each of 16 squares
        assert abs(variance.mean() - std**2) < STANDARD_ERRORS * bars
        crossed = module.frequencies @ module.frequencies.T
        assert torch.allclose(crossed, torch.diag(crossed.diag()), atol=1e-12)  # orthogonal


def test_phases_of_split_inputs_depend_on_their_own_inputs_only() -> None:
    slots, std = 4, 0.5
    module = Phases(EMBED, EMBED, slots=slots, phase_std=std, dtype=torch.float64)
    many = Phases(1024, 4096, slots=256, phase_std=std, dtype=torch.float64).frequencies
    squares = many.square().sum(dim=-1)  # of four normal numbers, over four
    assert abs(squares.mean() - std**2) < STANDARD_ERRORS * std**2 * (2 / 4 / 4096) ** 0.5
    own = EMBED // slots
    for frequencies in module.frequencies.chunk(slots):
        crossed = frequencies @ frequencies.T
        assert torch.allclose(crossed, torch.diag(crossed.diag()), atol=1e-12)
    x = torch.randn(EMBED, dtype=torch.float64, generator=generator())
    reached = torch.func.jacrev(lambda z: torch.view_as_real(as_complex(module(z))))(x).abs().sum(dim=1) > 0
    assert torch.equal(reached, torch.block_diag(*[torch.ones(own, own)] * slots) > 0)
    mixed = torch.func.jacrev(Phases(EMBED, EMBED, dtype=torch.float64))(x).abs() > 0  # negative control
    assert mixed.all()


def test_seed_decides_frequencies_and_fixed_positions() -> None:
    for mode in ("feature", "bundle"):
        variant = {"mode": mode, "position_sharing": "different"}
        one, again, other = (make(variant, scrambled=False, seed=s).state_dict() for s in (5, 5, 6))
        torch.manual_seed(99)
        third = dict(make(variant, seed=5).named_buffers())
        fixed = {"phases.frequencies", "form.positions.frequencies" if mode == "feature" else "form.positions"}
        assert set(third) - {"form.positions.table"} == fixed
        for name in fixed:
            assert torch.equal(one[name], again[name])
            assert torch.equal(one[name], third[name])
            assert not torch.allclose(one[name], other[name], atol=1e-3)


def test_reference_rows_depend_on_the_window_only() -> None:
    """A check of the reference itself."""
    attention, x = make({"window": 3}), tokens()[0]
    changed = x.clone()
    changed[1] += 1
    moved = (literal_rows(attention, changed, 0) != literal_rows(attention, x, 0)).any(dim=-1).any(dim=0)
    assert moved.tolist() == [False, True, True, True, False, False]

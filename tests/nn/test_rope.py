"""Rotary positions are a special case of mode "feature", and scores depend on distance where Q and K share R."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from ghrr.nn import Attention
from ghrr.nn.config import SHARING
from ghrr.nn.forms import Feature
from ghrr.nn.positions import PositionRotation
from tests.helpers import generator
from tests.nn.common import BATCH, EMBED, HEADS, LENGTH, as_complex, make, tokens

M = EMBED // HEADS // 2


def rope(x: Tensor, places: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary positions as often written: features 2k and 2k + 1 of ``(*, n, size)`` turned by a 2 x 2 matrix."""
    size = x.shape[-1]
    out = torch.empty_like(x)
    for n, place in enumerate(places.tolist()):
        for k in range(size // 2):
            angle = place * base ** (-2 * k / size)
            cos, sin = math.cos(angle), math.sin(angle)
            matrix = torch.tensor([[cos, -sin], [sin, cos]], dtype=x.dtype)
            out[..., n, 2 * k : 2 * k + 2] = x[..., n, 2 * k : 2 * k + 2] @ matrix.T
    return out


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("start", [0, 3])
def test_positions_turn_pairs_as_rotary_positions_do(start: int, trainable: bool) -> None:
    rows = torch.randn(BATCH, HEADS, LENGTH, M, 2, dtype=torch.float64, generator=generator())
    positions = PositionRotation((1, 1), (HEADS,), M, start + LENGTH, trainable=trainable, seed=0, dtype=torch.float64)
    turns = as_complex(positions(start, LENGTH).detach())
    turned = torch.view_as_real(turns * torch.view_as_complex(rows)).flatten(-2)
    want = rope(rows.flatten(-2), torch.arange(start, start + LENGTH))
    torch.testing.assert_close(turned, want, rtol=0, atol=1e-14)
    backwards = rope(rows.flatten(-2), -torch.arange(start, start + LENGTH))  # the control
    assert not torch.allclose(turned, backwards, atol=0.1)


@pytest.mark.parametrize("sharing", SHARING)
def test_values_have_positions_only_when_asked(sharing: str) -> None:
    for asked in (False, True):
        attention = make({"position_sharing": sharing, "position_values": asked})
        assert isinstance(attention.form, Feature)
        for (
            part
        ) in attention.form.weights.parameters():  # without W the same token everywhere: rows differ by position alone
            part.data.zero_()
        with torch.no_grad():
            attention.form.bias.fill_(1.0)
        placed = attention._rows([tokens()], [None], 0, None)
        same = [torch.equal(rows[:, :, 1:], rows[:, :, :-1]) for rows in placed]
        assert same == [False, False, not asked]


def linear_weights(attention: Attention, x: Tensor, spread: float, *, turned: bool = True) -> Tensor:
    """The weights of rotary attention on the linear features i W u(x), u being the phases per unit of spread."""
    form = attention.form
    assert isinstance(form, Feature)
    u = x @ (attention.phases.frequencies / spread).T
    w = torch.view_as_complex(form.weights.matrix.detach() * spread).unflatten(0, (3, HEADS))
    linear = torch.einsum("phsij,bnsj->pbhni", w, 1j * u.unflatten(-1, (attention.num_slots, M)))
    q, k = (torch.view_as_real(part.contiguous()).flatten(-2) for part in linear[:2])
    if turned:
        q, k = rope(q, torch.arange(x.shape[1])), rope(k, torch.arange(x.shape[1]))
    return torch.softmax(attention.log_scale.detach().exp()[..., 0] * (q @ k.mT), dim=-1)


def errors(*, turned: bool = True) -> list[float]:
    """How far the weights are from those of rotary attention, for a spread that is halved each time."""
    out, x = [], tokens()
    for spread in (0.02, 0.01, 0.005, 0.0025):
        attention = make({}, scrambled=False, phase_std=spread)
        assert isinstance(attention.form, Feature)
        with torch.no_grad():  # the same W for all, over the spread
            matrix = attention.form.weights.matrix
            matrix.copy_(torch.randn(matrix.shape, dtype=matrix.dtype, generator=generator()) / (8 * spread))
            weights = attention(x, x, x, average_attn_weights=False)[1]
        out.append(float((weights - linear_weights(attention, x, spread, turned=turned)).abs().max()))
    return out


def test_rotary_attention_is_the_limit_of_a_small_spread() -> None:
    off = errors()
    for wide, narrow in itertools.pairwise(off):
        assert 1.9 < wide / narrow < 2.1  # of first order in the spread
    without = errors(turned=False)  # the control: without positions there is no such limit
    assert min(without) > 0.05
    assert without[0] / without[-1] < 1.9


# ------------------------------------------------------------------------------------------------------------- distance


def depends_on_distance_alone(attention: Attention) -> bool:
    """Whether differences of scores of equal tokens stay when queries and keys move by one place together."""
    x = tokens(1).expand(BATCH, LENGTH, EMBED)
    weights = attention(x, x, x, average_attn_weights=False)[1].detach()
    steps = weights.log().diff(dim=-1)  # the sum that softmax divides by falls out
    assert steps.abs().max() > 0.01
    return torch.allclose(steps[..., 1:, 1:], steps[..., :-1, :-1], rtol=0, atol=1e-10)


@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("sharing", SHARING)
def test_scores_depend_on_distance_alone_where_query_and_key_share_positions(sharing: str, trainable: bool) -> None:
    attention = make({"position_sharing": sharing, "trainable_positions": trainable})
    assert depends_on_distance_alone(attention) == (sharing in ("all", "head"))


@pytest.mark.parametrize("mode", ["row", "bundle", "dense"])
def test_scores_of_other_modes_do_not(mode: str) -> None:
    assert not depends_on_distance_alone(make({"mode": mode}))

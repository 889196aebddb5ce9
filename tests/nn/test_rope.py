"""Rotary positions are a special case of mode "feature", and scores depend on distance where Q and K share R."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from ghrr.nn import Attention
from ghrr.nn.config import SHARING
from ghrr.nn.positions import PositionRotation
from tests.helpers import generator
from tests.nn.common import BATCH, EMBED, HEADS, LENGTH, as_complex, form_of, make, tokens

M = EMBED // HEADS // 2


def rope(x: Tensor, places: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary positions as often written: features 2k and 2k + 1 of ``(*, n, size)`` rotated by a 2 x 2 matrix."""
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
def test_positions_rotate_features_like_rotary_positions(start: int, trainable: bool) -> None:
    rows = torch.randn(BATCH, HEADS, LENGTH, M, 2, dtype=torch.float64, generator=generator())
    positions = PositionRotation((1, 1), (HEADS,), M, start + LENGTH, trainable=trainable, seed=0, dtype=torch.float64)
    rotations = as_complex(positions(start, LENGTH).detach())
    rotated = torch.view_as_real(rotations * torch.view_as_complex(rows)).flatten(-2)
    want = rope(rows.flatten(-2), torch.arange(start, start + LENGTH))
    torch.testing.assert_close(rotated, want, rtol=0, atol=1e-14)
    backwards = rope(rows.flatten(-2), -torch.arange(start, start + LENGTH))  # negative control
    assert not torch.allclose(rotated, backwards, atol=0.1)


@pytest.mark.parametrize("sharing", SHARING)
def test_values_have_positions_only_with_position_values(sharing: str) -> None:
    for asked in (False, True):
        attention = make({"position_sharing": sharing, "position_values": asked})
        for part in form_of(
            attention
        ).weights.parameters():  # without W the same token everywhere: rows differ by position alone
            part.data.zero_()
        with torch.no_grad():
            form_of(attention).bias.fill_(1.0)
        placed = attention.form(attention.phases, [tokens()], [None], attention.log_scale, None)
        same = [torch.equal(rows[:, :, 1:], rows[:, :, :-1]) for rows in placed]
        assert same == [False, False, not asked]


def linear_weights(attention: Attention, x: Tensor, std: float, *, rotated: bool = True) -> Tensor:
    """The weights of rotary attention on the linear features i W u(x), u being the phases per unit of std."""
    form = form_of(attention)
    u = x @ (attention.phases.frequencies / std).T
    w = torch.view_as_complex(form.weights.matrix.detach() * std).unflatten(0, (3, HEADS))
    linear = torch.einsum("phsij,bnsj->pbhni", w, 1j * u.unflatten(-1, (attention.config.num_slots, M)))
    q, k = (torch.view_as_real(part.contiguous()).flatten(-2) for part in linear[:2])
    if rotated:
        q, k = rope(q, torch.arange(x.shape[1])), rope(k, torch.arange(x.shape[1]))
    return torch.softmax(attention.log_scale.detach().exp()[..., 0] * (q @ k.mT), dim=-1)


def errors(*, rotated: bool = True) -> list[float]:
    """Distance of the weights from rotary attention, for a std that is halved each time."""
    out, x = [], tokens()
    for std in (0.02, 0.01, 0.005, 0.0025):
        attention = make({}, scrambled=False, phase_std=std)
        with torch.no_grad():  # the same W for all, over the std
            matrix = form_of(attention).weights.matrix
            matrix.copy_(torch.randn(matrix.shape, dtype=matrix.dtype, generator=generator()) / (8 * std))
            weights = attention(x, x, x, average_attn_weights=False)[1]
        out.append(float((weights - linear_weights(attention, x, std, rotated=rotated)).abs().max()))
    return out


def test_rotary_attention_is_the_limit_of_a_small_phase_std() -> None:
    off = errors()
    for wide, narrow in itertools.pairwise(off):
        assert 1.9 < wide / narrow < 2.1  # of first order in the std
    without = errors(rotated=False)  # negative control: without positions there is no such limit
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
def test_scores_of_other_modes_depend_on_positions(mode: str) -> None:
    assert not depends_on_distance_alone(make({"mode": mode}))

"""Decoding: values and their standard errors."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import Decoded, FractionalPower
from tests.encoding.common import KERNELS, wrong
from tests.helpers import assert_mean, assert_std, generator, unitary

SPACE = Space(400, 2)


def noisy(encoder: FractionalPower, count: int, noise: float, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Draw inputs in [-2, 2], and encode them with added noise of ``noise`` times the energy of a hypervector."""
    source = generator(seed)
    x = 4 * torch.rand(count, encoder.n_features, generator=source) - 2
    return x, encoder(x) + math.sqrt(noise) * encoder.space.random(count, generator=source)


@pytest.mark.parametrize("noise", [1.0, 4.0])
@pytest.mark.parametrize(
    ("kernel", "n"),
    [("rbf", 1), ("matern-3/2", 1), ("matern-5/2", 1), ("cauchy", 1), ("sinc", 1), ("rbf", 2), ("sinc", 2)],
)
def test_standard_error_equals_measured_error(kernel: str, n: int, noise: float) -> None:
    encoder = FractionalPower(SPACE, n, kernel=kernel, bandwidth=0.5)
    x, h = noisy(encoder, 400, noise)
    found = encoder.decode(h, low=-2.5, high=2.5)
    z = (found.value - x) / found.std
    assert z.abs().max() < 5  # always the right peak
    for feature in range(n):
        assert_std(z[:, feature], 1.0)
        assert_mean(z[:, feature], 0.0)
    with pytest.raises(AssertionError):  # negative control
        assert_std(1.4 * z[:, 0], 1.0)


@pytest.mark.parametrize("kernel", ["matern-3/2", "matern-5/2", "cauchy"])
def test_standard_error_is_right_for_two_features_and_long_tailed_kernels(kernel: str) -> None:
    encoder = FractionalPower(SPACE, 2, kernel=kernel, bandwidth=0.5)
    x, h = noisy(encoder, 300, 1.0)
    found = encoder.decode(h, low=-2.5, high=2.5)
    z = (found.value - x) / found.std
    assert z.abs().max() < 5
    assert_std(z.flatten(), 1.0)
    with pytest.raises(AssertionError):
        assert_std(1.4 * z.flatten(), 1.0)


def test_standard_error_scales_with_noise_and_dimension() -> None:
    small, large = (FractionalPower(Space(dim, 2), 1) for dim in (200, 800))
    stds = [encoder.decode(noisy(encoder, 200, 1.0)[1], low=-3, high=3).std.mean() for encoder in (small, large)]
    assert float(stds[0] / stds[1]) == pytest.approx(2, rel=0.1)
    loud = small.decode(noisy(small, 200, 4.0)[1], low=-3, high=3).std.mean()
    assert float(loud / stds[0]) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [1, 2])
def test_decode_inverts_encode_without_noise(kernel: str, n: int) -> None:
    encoder = FractionalPower(Space(300, 2), n, kernel=kernel, bandwidth=0.5)
    x = 4 * torch.rand(40, n, generator=generator(2)) - 2
    found = encoder.decode(encoder(x), low=-2, high=2)
    sharp = kernel == "matern-1/2" and n == 2  # the search along the axes stops before the top of this sharp peak
    torch.testing.assert_close(found.value, x.double(), atol=5e-3 if sharp else 2e-6, rtol=0)
    torch.testing.assert_close(found.score, torch.ones(40), atol=0.1 if sharp else 1e-5, rtol=0)
    assert sharp or found.std.max() < 1e-4
    other = FractionalPower(Space(300, 2), n, kernel=kernel, bandwidth=0.5, name="other")
    assert encoder.decode(other(x), low=-2, high=2).score.max() < 0.35  # negative control: encoded by another encoder


@pytest.mark.parametrize("kernel", ["laplace", "matern-1/2"])
@pytest.mark.parametrize("n", [1, 2])
def test_rough_kernels_are_decoded_more_accurately_than_smooth_ones(kernel: str, n: int) -> None:
    errors = []
    for name in (kernel, "rbf"):
        encoder = FractionalPower(SPACE, n, kernel=name, bandwidth=0.5)
        x, h = noisy(encoder, 60, 1.0)
        errors.append((encoder.decode(h, low=-2.5, high=2.5).value - x).square().mean().sqrt())
    assert errors[0] < 0.4 * errors[1]


def test_decoded_value_is_a_local_maximum_of_similarity() -> None:
    encoder = FractionalPower(SPACE, 1)
    _, h = noisy(encoder, 20, 4.0)
    found = encoder.decode(h, low=-2.5, high=2.5)
    torch.testing.assert_close(found.score, ghrr.similarity(h, encoder(found.value)))
    near = found.value[:, None] + torch.linspace(-0.2, 0.2, 41)[:, None]
    assert (ghrr.similarity(h[:, None], encoder(near)) <= found.score[:, None] + 1e-6).all()
    assert (ghrr.similarity(h, encoder(found.value + 0.3)) < found.score).all()


@pytest.mark.parametrize("origin", [0.0, 1.7e9, -4e12])
def test_numbers_far_from_zero_are_decoded(origin: float) -> None:
    encoder = FractionalPower(SPACE, 1, bandwidth=60)
    x = origin + 86400 * torch.rand(200, 1, generator=generator(4), dtype=torch.float64)
    h = encoder(x) + SPACE.random(200, generator=generator(5))
    found = encoder.decode(h, low=origin, high=origin + 86400)
    assert_std((found.value - x) / found.std, 1.0)


def test_value_of_a_record_is_decoded_after_unbind() -> None:
    space = Space(1000, 2)
    encoder = FractionalPower(space, 1)
    keys = space.vectors(["height", "weight", "age"])
    values = torch.tensor([[1.8], [-2.5], [0.4]])
    record = ghrr.bind_bundle(keys, encoder(values))
    found = encoder.decode(ghrr.unbind(record, keys, side="left"), low=-4, high=4)
    assert ((found.value - values).abs() < 5 * found.std).all()
    assert (found.score > 10 * space.noise_std).all()
    missed = encoder.decode(ghrr.unbind(record, keys, side="right"), low=-4, high=4)  # negative control: wrong side
    assert missed.score.max() < 0.5 * found.score.min()


@pytest.mark.parametrize("batch", [(), (1,), (0,), (2, 3), (2, 0)])
@pytest.mark.parametrize("n", [1, 2])
def test_results_have_the_batch_shape_of_the_input(batch: tuple[int, ...], n: int) -> None:
    encoder = FractionalPower(Space(50, 2), n)
    found = encoder.decode(encoder(torch.full((*batch, n), 0.5)), low=-1, high=1)
    assert isinstance(found, Decoded)
    assert found.value.shape == found.std.shape == (*batch, n)
    assert found.score.shape == batch


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("trainable", [False, True])
@pytest.mark.parametrize("rotation", ["fixed", "shared", unitary(m=3)])
def test_decode_works_for_every_rotation(dtype: torch.dtype, trainable: bool, rotation: Any) -> None:
    encoder = FractionalPower(Space(100, 3, rotation=rotation, dtype=dtype), 1, trainable_rotation=trainable)
    x = torch.linspace(-1, 1, 5)[:, None]
    found = encoder.decode(encoder(x.requires_grad_()), low=-2, high=2)
    torch.testing.assert_close(found.value, x.detach().to(found.value.dtype), atol=1e-5, rtol=0)
    assert found.score.dtype == encoder.frequencies.dtype
    assert found.value.dtype == found.std.dtype == torch.float64
    assert not found.value.requires_grad


def test_bounds_can_differ_between_features() -> None:
    encoder = FractionalPower(Space(200, 2), 2, bandwidth=[1.0, 100.0])
    x = torch.tensor([[0.5, 300.0], [-0.5, -200.0]])
    for low, high in (([-1, -500], [1, 500]), (torch.tensor([-1.0, -500.0]), [1.0, 500.0])):
        found = encoder.decode(encoder(x), low=wrong(low), high=high)
        torch.testing.assert_close(found.value, x.double(), atol=1e-2, rtol=0)


def test_decoded_values_are_within_bounds() -> None:
    encoder = FractionalPower(Space(200, 2), 1)
    found = encoder.decode(encoder([[3.0]]), low=-1, high=1)
    assert -1 <= found.value.item() <= 1
    assert found.score < 0.3
    assert encoder.decode(encoder([[3.0]]), low=-1, high=4).score > 0.99


def test_zero_hypervector_has_infinite_standard_error() -> None:
    encoder = FractionalPower(Space(50, 2), 2)
    found = encoder.decode(encoder.space.zeros(3), low=-1, high=1)
    assert (found.std == math.inf).all()
    assert (found.score == 0).all()


def test_decode_does_not_depend_on_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = FractionalPower(Space(50, 2), 2)
    _, h = noisy(encoder, 20, 0.5)
    whole = encoder.decode(h, low=-2, high=2)
    monkeypatch.setattr(ghrr.encoding.decoding, "_CHUNK_NUMBERS", 1000)
    for one, two in zip(encoder.decode(h, low=-2, high=2), whole, strict=True):
        torch.testing.assert_close(one, two)


def test_too_large_grid_raises() -> None:
    encoder = FractionalPower(Space(20, 2), 2)
    with pytest.raises(ValueError, match=r"the grid for this box has \d+ x \d+ points, .*; use a smaller box"):
        encoder.decode(encoder([[0.0, 0.0]]), low=-1e6, high=1e6)
    with pytest.raises(ValueError, match=r"the grid for this box has \S+ x \S+ points, .*; use a smaller box"):
        encoder.decode(encoder([[0.0, 0.0]]), low=0, high=1e308)
    FractionalPower(Space(20, 2), 1).decode(encoder.space.zeros(), low=-100, high=100)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 1), (2, 1), (math.nan, 1), (-math.inf, 1), (0, math.inf), ([0, 2], 1), ([0, 0, 0], 1), ([[0, 0]], 1)],
)
def test_invalid_bounds_raise(low: Any, high: Any) -> None:
    encoder = FractionalPower(Space(20, 2), 2)
    with pytest.raises(ValueError, match="low must be below high, both finite, a number or one per feature; got"):
        encoder.decode(encoder([[0.0, 0.0]]), low=low, high=high)


def test_invalid_hypervectors_raise() -> None:
    encoder = FractionalPower(Space(20, 2), 1)
    with pytest.raises(TypeError, match=re.escape("FractionalPower.decode: needs numbers, got str 'a'")):
        encoder.decode(encoder.space.zeros(), low=wrong("a"), high=1)
    with pytest.raises(ValueError, match="does not fit Space"):
        encoder.decode(Space(20, 3).zeros(), low=0, high=1)
    with pytest.raises(TypeError, match=re.escape("FractionalPower.decode")):
        encoder.decode(torch.zeros(20, 2, 2), low=0, high=1)
    with pytest.raises(ValueError, match=re.escape("FractionalPower.decode: slot (0, 0) of h")):
        encoder.decode(encoder.space.zeros(1) * math.nan, low=0, high=1)


@pytest.mark.parametrize("bandwidth", [[[10.0], [0.1]], [[100.0], [0.1]]])
def test_mixtures_of_wide_and_narrow_kernels_are_decoded(bandwidth: list[list[float]]) -> None:
    encoder = FractionalPower(Space(1000, 2), 1, bandwidth=bandwidth)
    x = torch.linspace(-4.9, 4.9, 200)[:, None]
    found = encoder.decode(encoder(x), low=-5, high=5)
    torch.testing.assert_close(found.value, x.double(), atol=1e-3, rtol=0)


def test_maximum_at_a_bound_has_infinite_standard_error() -> None:
    encoder = FractionalPower(Space(1000, 2), 1)
    found = encoder.decode(encoder([[2.0], [1.0]]), low=-1, high=1.5)
    assert found.std.isinf().tolist() == [[True], [False]]

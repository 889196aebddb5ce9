"""Level, Thermometer and Circular: similarities, clamping and periodicity."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import Circular, Level, Thermometer
from ghrr.unitary import is_unitary
from tests.encoding.common import slots
from tests.helpers import assert_mean, assert_std, generator

SPACE = Space(200, 2)
SCALES: list[type[Level] | type[Thermometer]] = [Level, Thermometer]


def share_of_upper_slots(level: Level | Thermometer, x: Tensor) -> Tensor:
    """Return the share of slots that equal the slots of the upper end."""
    same: Tensor = (level(x) == level.above).all(dim=(-1, -2)).double().mean(dim=-1)
    return same


@pytest.mark.parametrize("scale", SCALES)
def test_share_of_upper_slots_is_linear_in_the_number(scale: type[Level] | type[Thermometer]) -> None:
    level = scale(SPACE, -3, 7)
    x = torch.linspace(-3, 7, 97)
    assert ((share_of_upper_slots(level, x) - (x.double() + 3) / 10).abs() <= 1 / SPACE.dim).all()
    assert share_of_upper_slots(level, torch.tensor(-3)) == 0
    assert share_of_upper_slots(level, torch.tensor(7)) == 1
    assert ((share_of_upper_slots(level, x) - (x.double() + 2) / 10).abs() > 1 / SPACE.dim).any()  # negative control
    assert is_unitary(level(x))


@pytest.mark.parametrize("m", [1, 3])
def test_level_similarity_is_linear_with_predicted_noise(m: int) -> None:
    """It is 1 - |x - y| / (high - low), plus noise from the slots in which the encodings differ."""
    values = []
    for seed in range(200):
        level = Level(Space(40, m, seed=seed), 0, 10)
        values.append(ghrr.similarity(level(torch.tensor([0.0, 2.0, 5.0])), level(torch.tensor([10.0, 5.0, 6.0]))))
    for off, distance in zip(torch.stack(values).unbind(1), (10, 3, 1), strict=True):
        assert_mean(off, 1 - distance / 10)
        # A share distance / 10 of the slots has noise, so its deviation is multiplied by the root of this share.
        assert_std(off - (1 - distance / 10), Space(40, m).noise_std * math.sqrt(distance / 10))
        with pytest.raises(AssertionError):  # negative control: another slope
            assert_mean(off, 1 - distance / 8)


def test_level_similarity_is_linear_up_to_noise_of_its_ends() -> None:
    level = Level(SPACE, 0, 1)
    x = torch.linspace(0, 1, 21)
    matrix = ghrr.pairwise_similarity(level(x), level(x))
    straight = 1 - (x[:, None] - x).abs()
    assert (matrix - straight).abs().max() < 1 / SPACE.dim + 5 * SPACE.noise_std


def test_thermometer_similarity_is_linear_without_noise() -> None:
    thermometer = Thermometer(SPACE, 0, 5)
    x = torch.linspace(0, 5, 41)
    matrix = ghrr.pairwise_similarity(thermometer(x), thermometer(x))
    straight = 1 - 2 * (x[:, None] - x).abs() / 5
    assert (matrix - straight).abs().max() <= 2 / SPACE.dim + 1e-5
    assert (matrix[0, -1] + 1).abs() < 1e-5
    assert (matrix - (1 - (x[:, None] - x).abs() / 5)).abs().max() > 0.5  # negative control: the line of Level


@pytest.mark.parametrize("scale", SCALES)
def test_numbers_outside_the_scale_are_clamped(scale: type[Level] | type[Thermometer]) -> None:
    level = scale(SPACE, 0, 10)
    assert torch.equal(level([-5.0, -1e30, 0.0]), level([0.0, 0.0, 0.0]))
    assert torch.equal(level([11, 10**9]), level([10, 10]))
    assert not torch.equal(level(9), level(10))
    assert torch.equal(level(0), level.below)
    assert torch.equal(level(10), level.above)


@pytest.mark.parametrize("scale", SCALES)
def test_every_number_type_and_batch_shape(scale: type[Level] | type[Thermometer]) -> None:
    level = scale(Space(20, 2, dtype=torch.complex128), 0, 10)
    want = level(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert want.dtype == torch.complex128
    inputs: list[Any] = [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]]).double()]
    for x in inputs:
        assert torch.equal(level(x), want)
    assert level(3).shape == (20, 2, 2)
    assert level([]).shape == (0, 20, 2, 2)
    assert level(torch.empty(2, 0)).shape == (2, 0, 20, 2, 2)


def test_scales_of_different_names_are_independent() -> None:
    space = Space(3000, 2)
    one, two = Level(space, 0, 1), Level(space, 0, 1, name="other")
    assert_mean(slots(one(0.3), two(0.3)), 0.0)
    assert torch.equal(one(0.3), Level(space, 0, 1)(0.3))
    with pytest.raises(AssertionError):
        assert_mean(slots(one(0.3), one(0.4)), 0.0)
    assert not torch.equal(one.thresholds, two.thresholds)


# --------------------------------------------------------------------------------------------------------------- circle


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_circular_encoding_is_periodic(dtype: torch.dtype) -> None:
    clock = Circular(Space(200, 2, dtype=dtype), period=24)
    x = torch.linspace(0, 24, 50, dtype=torch.float64)
    digits = 1e-5 if dtype == torch.complex64 else 1e-11
    for turns in (1, -1, 3):
        torch.testing.assert_close(clock(x + 24 * turns), clock(x), atol=digits, rtol=0)
    assert not torch.allclose(clock(x + 12), clock(x), atol=0.5)


def test_circular_encoding_is_periodic_for_large_numbers() -> None:
    """Hours since 1970 in double precision, although frequencies have single precision."""
    clock = Circular(SPACE, period=24)
    x = torch.rand(20, dtype=torch.float64, generator=generator())
    torch.testing.assert_close(clock(x + 24 * 20_000), clock(x), atol=1e-5, rtol=0)
    torch.testing.assert_close(clock.compose(x + 24 * 20_000), clock(x), atol=1e-5, rtol=0)
    assert not torch.allclose(clock(x + 24 * 20_000 + 6), clock(x), atol=0.5)


@pytest.mark.parametrize("bandwidth", [None, 1.0, 12.0])
def test_circular_similarity_equals_kernel(bandwidth: float | None) -> None:
    clock = Circular(Space(5000, 2), period=24, bandwidth=bandwidth)
    for x, y in ((1.0, 2.0), (23.0, 1.0), (3.0, 9.0)):
        value = clock.kernel(x, y).item()
        assert_mean(slots(clock(x), clock(y)), value)
        assert value == pytest.approx(clock.kernel(x + 24, y).item(), abs=1e-5)
    if bandwidth == 1.0:
        # The rbf kernel times the kernel of rounding the frequencies.
        assert clock.kernel(23.0, 1.0).item() == pytest.approx(math.exp(-2) * np.sinc(2 / 24), abs=1e-5)
        with pytest.raises(AssertionError):
            assert_mean(
                slots(clock(23.0), clock(1.0)), math.exp(-(22**2) / 2)
            )  # negative control: distance without period


def test_circular_encoding_is_decoded_and_differentiable() -> None:
    clock = Circular(SPACE, period=24)
    found = clock.decode(clock([[5.0], [29.0]]))
    torch.testing.assert_close(found.value, torch.tensor([[5.0], [5.0]]).double(), atol=1e-3, rtol=0)
    x = torch.tensor(5.0, requires_grad=True)
    ghrr.similarity(clock(x), clock(6.0)).backward()
    assert x.grad is not None
    assert x.grad.item() > 0


@pytest.mark.parametrize("bandwidth", [1.0, 8.0])
def test_circular_encoding_is_decoded_over_the_whole_period(bandwidth: float) -> None:
    """Also across the end of the period, and if most frequencies are zero."""
    space = Space(1000, 2)
    clock = Circular(space, period=24, bandwidth=bandwidth)
    x = torch.linspace(0, 23.99, 200)
    noise = space.random(200, generator=generator())
    for h, most in ((clock(x), 1e-3), (clock(x) + noise, 0.25 * bandwidth)):
        found = clock.decode(h)
        off = (found.value - x + 12).remainder(24) - 12
        assert off.abs().max() < most
        assert ((found.value >= 0) & (found.value <= 24)).all()
    spread = (off / found.std).square().mean().sqrt().item()
    assert 0.8 < spread < 1.2  # the last one: errors are as large as they say


@pytest.mark.parametrize("whole", [16_777_217, 1_700_000_003])
def test_large_whole_numbers_are_not_rounded(whole: int) -> None:
    clock = Circular(SPACE, period=24)
    torch.testing.assert_close(clock(whole), clock(float(whole % 24)), atol=1e-4, rtol=0)


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("low", "high", "error", "message"),
    [
        (1, 1, ValueError, "high must lie in (1.0, inf), got"),
        (2, 1, ValueError, "high must lie in (2.0, inf), got"),
        (math.nan, 1, ValueError, "low must lie in (-inf, inf), got"),
        (0, math.inf, ValueError, "high must lie in (0.0, inf), got"),
        ("a", 1, TypeError, "low must be a real number, got str 'a'"),
    ],
)
def test_invalid_scales_raise(
    scale: type[Level] | type[Thermometer], low: Any, high: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(f"{scale.__name__}: {message}")):
        scale(SPACE, low, high)


@pytest.mark.parametrize("scale", SCALES)
def test_invalid_numbers_raise(scale: type[Level] | type[Thermometer]) -> None:
    level = scale(SPACE, 0, 1)
    with pytest.raises(ValueError, match=re.escape("input (1,) is not finite: nan")):
        level([0.1, math.nan])
    with pytest.raises(ValueError, match="is not finite: inf"):
        level(math.inf)
    for x in ("a", None, [0.1, "b"]):
        with pytest.raises(TypeError, match=f"{scale.__name__}: needs numbers, got"):
            level(x)


def test_invalid_periods_raise() -> None:
    for period in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="Circular: period must lie in"):
            Circular(SPACE, period)
    with pytest.raises(ValueError, match="Circular: bandwidth must lie in"):
        Circular(SPACE, 24, bandwidth=0)
    with pytest.raises(ValueError, match=re.escape("Circular: input (0, 0) is not finite")):
        Circular(SPACE, 24)([[math.inf]])


# -------------------------------------------------------------------------------------------------- shapes of the input


@pytest.mark.parametrize("make", [lambda s: Level(s, 0, 1), lambda s: Thermometer(s, 0, 1), lambda s: Circular(s, 24)])
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 0), (2, 1)])
def test_scalar_encoders_take_one_number_per_hypervector(make: Callable[[Space], Any], batch: tuple[int, ...]) -> None:
    space = Space(6, 2)
    encoder = make(space)
    assert encoder(torch.zeros(batch)).shape == (*batch, *space.shape)
    if isinstance(encoder, Circular):
        found = encoder.decode(encoder(torch.zeros(batch)))
        assert encoder.kernel(torch.zeros(batch), 1.0).shape == batch
        assert found.value.shape == found.std.shape == found.score.shape == batch

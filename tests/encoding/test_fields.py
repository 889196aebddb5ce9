"""Images and time series: unbinding a position recovers its value."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
import torch

import ghrr
from ghrr import Space
from ghrr.encoding import Image, TimeSeries, fields
from tests.helpers import generator

SPACE = Space(1500, 2)


def test_unbinding_a_position_recovers_the_pixel() -> None:
    encoder = Image(SPACE, 4, 5, position_bandwidth=0.3, value_bandwidth=0.5)
    image = 2 * torch.rand(4, 5, generator=generator()) - 1
    h = encoder(image)
    places = [[0, 0], [3, 4], [2, 1]]
    found = encoder.value.decode(ghrr.unbind(h, encoder.place(places), side="left"), low=-2, high=2)
    want = torch.stack([image[r, c] for r, c in places])[:, None]
    assert ((found.value - want).abs() < 5 * found.std).all()
    assert found.std.max() < 0.1
    # Negative controls: wrong side, and row and column exchanged.
    wrong_side = encoder.value.decode(ghrr.unbind(h, encoder.place(places), side="right"), low=-2, high=2)
    assert wrong_side.score.max() < 0.4 < 0.7 < found.score.min()
    swapped = encoder.value.decode(ghrr.unbind(h, encoder.place([[1, 2]]), side="left"), low=-2, high=2)
    assert abs(swapped.value - image[2, 1]) > 5 * found.std.max()
    assert ((swapped.value - image[1, 2]).abs() < 5 * swapped.std).all()


def test_unbinding_a_position_recovers_all_channels() -> None:
    encoder = Image(SPACE, 3, 3, channels=2, position_bandwidth=0.3, value_bandwidth=0.5)
    image = 2 * torch.rand(2, 3, 3, generator=generator()) - 1
    found = encoder.value.decode(ghrr.unbind(encoder(image), encoder.place([2, 1]), side="left"), low=-2, high=2)
    assert ((found.value - image[:, 2, 1]).abs() < 5 * found.std).all()
    assert ((found.value - image[:, 1, 2]).abs() > 5 * found.std).any()


def test_unbinding_a_time_recovers_the_value() -> None:
    encoder = TimeSeries(SPACE, 10, 1, position_bandwidth=0.3, value_bandwidth=0.5)
    series = torch.sin(torch.arange(10.0))[:, None]
    times = torch.arange(10)[:, None]
    found = encoder.value.decode(ghrr.unbind(encoder(series), encoder.place(times), side="left"), low=-2, high=2)
    assert ((found.value - series).abs() < 5 * found.std).all()
    assert ((found.value - series.flip(0)).abs() > 5 * found.std).any()


def test_encoding_is_the_sum_of_positions_bound_to_values() -> None:
    encoder = Image(Space(20, 3, dtype=torch.complex128), 2, 3, 2)
    image = torch.randn(2, 2, 3, dtype=torch.float64, generator=generator())
    want = torch.zeros(20, 3, 3, dtype=torch.complex128)
    for row in range(2):
        for column in range(3):
            want += ghrr.bind(encoder.place([row, column]), encoder.value(image[:, row, column]))
    torch.testing.assert_close(encoder(image), want)
    series = TimeSeries(Space(20, 3, dtype=torch.complex128), 4, 2)
    values = torch.randn(4, 2, dtype=torch.float64, generator=generator())
    bound = [ghrr.bind(series.place([t]), series.value(values[t])) for t in range(4)]
    torch.testing.assert_close(series(values), torch.stack(bound).sum(dim=0))
    assert not torch.allclose(series(values.flip(0)), series(values), atol=0.1)


def test_similarity_falls_with_shift_and_brightness() -> None:
    encoder = Image(SPACE, 8, 8, position_bandwidth=1.5, value_bandwidth=0.3)
    image = torch.zeros(8, 8)
    image[2:5, 2:5] = 1
    h = encoder(image)
    similar = [float(ghrr.similarity(h, encoder(image.roll(s, 1))) / ghrr.similarity(h, h)) for s in (0, 1, 2, 3)]
    assert similar == sorted(similar, reverse=True)
    brighter = [float(ghrr.similarity(h, encoder(image + b)) / ghrr.similarity(h, h)) for b in (0, 0.1, 0.3, 1)]
    assert brighter == sorted(brighter, reverse=True)


@pytest.mark.parametrize("chunk", [1, 500, 3000])
def test_encoding_does_not_depend_on_chunk_size(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TimeSeries(Space(20, 2), 6, 2)
    x = torch.randn(3, 5, 6, 2, generator=generator())
    whole = encoder(x)
    assert not torch.allclose(whole[0, 0], whole[0, 1], atol=0.1)
    monkeypatch.setattr(fields, "_CHUNK_NUMBERS", chunk)
    torch.testing.assert_close(encoder(x), whole)


def test_gradients_reach_the_pixels() -> None:
    encoder = Image(Space(5, 2, dtype=torch.complex128), 2, 2)
    image = torch.rand(2, 2, dtype=torch.float64, generator=generator(), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.view_as_real(encoder(x)), (image,))


def test_every_pixel_type_and_batch_shape() -> None:
    encoder = Image(Space(10, 2), 2, 3)
    want = encoder(torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]))
    inputs: list[Any] = [
        [[0, 1, 2], [3, 4, 5]],
        np.arange(6, dtype=np.uint8).reshape(2, 3),
        np.arange(6.0).reshape(2, 3),
        torch.arange(6).reshape(2, 3),
    ]
    for x in inputs:
        torch.testing.assert_close(encoder(x), want)
    assert encoder(torch.zeros(0, 2, 3)).shape == (0, 10, 2, 2)
    assert encoder(torch.zeros(4, 5, 2, 3)).shape == (4, 5, 10, 2, 2)
    assert Image(Space(10, 2), 2, 3, 4)(torch.zeros(5, 4, 2, 3)).shape == (5, 10, 2, 2)
    assert TimeSeries(Space(10, 2), 7, 2)(torch.zeros(3, 0, 7, 2)).shape == (3, 0, 10, 2, 2)


def test_loaded_state_determines_positions() -> None:
    """Encoded positions are not saved, but computed from the loaded frequencies."""
    x = torch.rand(3, 4, generator=generator())
    one, two = (Image(Space(20, 2, seed=seed), 3, 4, position_bandwidth=1 + seed) for seed in (0, 1))
    assert not torch.allclose(one(x), two(x), atol=0.1)
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))
    assert not any("places" in key for key in one.state_dict())


@pytest.mark.parametrize(
    ("encoder", "x", "error", "message"),
    [
        (Image(Space(4, 2), 2, 3), torch.zeros(3, 2), ValueError, "Image: needs (*batch, 2, 3), got shape (3, 2)"),
        (Image(Space(4, 2), 2, 3), 1.0, ValueError, "Image: needs (*batch, 2, 3), got shape ()"),
        (Image(Space(4, 2), 2, 3, 3), torch.zeros(2, 3, 3), ValueError, "Image: needs (*batch, 3, 2, 3), got shape"),
        (TimeSeries(Space(4, 2), 5, 1), torch.zeros(5), ValueError, "TimeSeries: needs (*batch, 5, 1), got shape (5,)"),
        (TimeSeries(Space(4, 2), 5, 1), torch.zeros(1, 5), ValueError, "TimeSeries: needs (*batch, 5, 1), got"),
        (Image(Space(4, 2), 2, 3), torch.full((2, 3), math.nan), ValueError, "Image: feature 0 of input (0,) is not"),
        (Image(Space(4, 2), 2, 3), math.nan, ValueError, "Image: feature 0 is not finite: nan"),
        (TimeSeries(Space(4, 2), 5, 1), [[math.inf]] * 5, ValueError, "TimeSeries: feature 0 of input (0,) is not"),
        (TimeSeries(Space(4, 2), 5, 1), "hello", TypeError, "TimeSeries: needs numbers, got str 'hello'"),
    ],
)
def test_invalid_inputs_raise_and_are_named(encoder: Any, x: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        encoder(x)


def test_invalid_settings_raise() -> None:
    with pytest.raises(ValueError, match="Image: size must be a whole number of at least 1"):
        Image(Space(4, 2), 0, 3)
    with pytest.raises(ValueError, match="TimeSeries: channels must be a whole number of at least 1"):
        TimeSeries(Space(4, 2), 3, 0)
    with pytest.raises(ValueError, match=r"bandwidth must be positive and finite, got 0\.0 for feature 0"):
        Image(Space(4, 2), 2, 3, value_bandwidth=0)

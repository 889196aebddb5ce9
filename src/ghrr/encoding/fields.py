r"""Values on a grid: images and time series, each value bound to its place and all of them bundled."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_integer
from ghrr.algebra import bind_bundle
from ghrr.encoding.fractional_power import FractionalPower
from ghrr.encoding.inputs import as_numbers, check_features
from ghrr.encoding.module import Encoder
from ghrr.space import Space, check_space

_CHUNK_NUMBERS = 1 << 24  # encoded values held at a time: 128 MiB in complex64


class _Field(Encoder):
    r""":math:`\sum_p \phi(p) * \psi(v_p)` over the places p of a grid: place on the left, value on the right."""

    places: Tensor

    def __init__(
        self,
        space: Space,
        shape: tuple[int, ...],
        channels: int,
        *,
        place_bandwidth: float,
        value_bandwidth: float,
        name: str,
    ) -> None:
        super().__init__()
        operation = type(self).__name__
        self.space = check_space(type(self).__name__, space)
        self.shape = tuple(check_integer(operation, "size", size, least=1) for size in shape)
        self.channels = check_integer(operation, "channels", channels, least=1)
        self.place = FractionalPower(space, len(self.shape), bandwidth=place_bandwidth, name=f"{name} place")
        self.value = FractionalPower(space, self.channels, bandwidth=value_bandwidth, name=f"{name} value")
        self.register_buffer("places", self._all_places(), persistent=False)  # made again from the encoder of places
        self.register_load_state_dict_post_hook(_renew_places)  # type: ignore[no-untyped-call]

    def _all_places(self) -> Tensor:
        axes = torch.meshgrid(*(torch.arange(size) for size in self.shape), indexing="ij")
        encoded: Tensor = self.place(torch.stack(axes, dim=-1).reshape(-1, len(self.shape)))
        return encoded

    def _encode(self, values: Tensor) -> Tensor:
        """Values ``(*batch, *shape, channels)`` to hypervectors."""
        batch = values.shape[: -1 - len(self.shape)]
        rows = values.reshape(-1, math.prod(self.shape), self.channels)
        step = max(1, _CHUNK_NUMBERS // (rows.shape[1] * self.space.total_dim))
        parts = [bind_bundle(self.places, self.value(part)) for part in torch.split(rows, step)]
        encoded: Tensor = torch.cat(parts).reshape(*batch, *self.space.shape)
        return encoded

    def _numbers(self, x: Any) -> Tensor:
        operation = type(self).__name__
        numbers = as_numbers(operation, x, like=self.place.frequencies)
        check_features(operation, numbers)
        return numbers


def _renew_places(field: _Field, _: object) -> None:
    field.places = field._all_places()


class Image(_Field):
    r"""An image as one hypervector: :math:`\sum_{r,c} \phi(r, c) * \psi(v_{rc})`.

    Places near each other, and values near each other, have similar hypervectors; so a small shift or change of
    brightness changes the image's hypervector little.

    Parameters
    ----------
    space
        Where the encodings live.
    height, width, channels
        Size of the images.
    place_bandwidth
        In pixels: how far a shift may be before similarity falls.
    value_bandwidth
        In the units of the pixel values.
    name
        Encoders of different names are independent.

    Shapes
    ------
    x: ``(*batch, height, width)`` for one channel, or ``(*batch, channels, height, width)``;
    output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> encoder = ghrr.encoding.Image(ghrr.Space(dim=500, m=2), 8, 8, place_bandwidth=1.5, value_bandwidth=0.3)
    >>> image = torch.zeros(8, 8)
    >>> image[2:5, 2:5] = 1
    >>> near, far = (ghrr.similarity(encoder(image), encoder(image.roll(s, 1))) for s in (1, 4))
    >>> bool(near > far)
    True
    """

    def __init__(
        self,
        space: Space,
        height: int,
        width: int,
        channels: int = 1,
        *,
        place_bandwidth: float = 1.0,
        value_bandwidth: float = 0.5,
        name: str = "image",
    ) -> None:
        super().__init__(
            space,
            (height, width),
            channels,
            place_bandwidth=place_bandwidth,
            value_bandwidth=value_bandwidth,
            name=name,
        )

    def forward(self, x: Any) -> Tensor:
        """Encode images."""
        x = self._numbers(x)
        wanted = self.shape if self.channels == 1 else (self.channels, *self.shape)
        if tuple(x.shape[-len(wanted) :]) != wanted:
            raise ValueError(f"Image: needs (*batch, {', '.join(map(str, wanted))}), got shape {tuple(x.shape)}")
        return self._encode(x[..., None] if self.channels == 1 else x.movedim(-3, -1))


class TimeSeries(_Field):
    r"""A time series as one hypervector: :math:`\sum_t \phi(t) * \psi(v_t)`.

    Parameters
    ----------
    space
        Where the encodings live.
    length, channels
        Size of the series.
    place_bandwidth
        In steps: how far a shift in time may be before similarity falls.
    value_bandwidth
        In the units of the values.
    name
        Encoders of different names are independent.

    Shapes
    ------
    x: ``(*batch, length, channels)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> encoder = ghrr.encoding.TimeSeries(ghrr.Space(dim=500, m=2), length=20, channels=1)
    >>> encoder(torch.sin(torch.arange(20.0))[:, None]).shape
    torch.Size([500, 2, 2])
    """

    def __init__(
        self,
        space: Space,
        length: int,
        channels: int,
        *,
        place_bandwidth: float = 1.0,
        value_bandwidth: float = 0.5,
        name: str = "series",
    ) -> None:
        super().__init__(
            space, (length,), channels, place_bandwidth=place_bandwidth, value_bandwidth=value_bandwidth, name=name
        )

    def forward(self, x: Any) -> Tensor:
        """Encode series."""
        x = self._numbers(x)
        if tuple(x.shape[-2:]) != (*self.shape, self.channels):
            raise ValueError(
                f"TimeSeries: needs (*batch, {self.shape[0]}, {self.channels}), got shape {tuple(x.shape)}"
            )
        return self._encode(x)

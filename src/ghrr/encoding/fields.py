"""Encoders of images and time series: each value is bound to its position, and all pairs are bundled."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ghrr.algebra import bind_bundle
from ghrr.checks import check_integer, names_errors, value_error
from ghrr.encoding.fractional_power import FractionalPower
from ghrr.encoding.inputs import as_numbers, check_features
from ghrr.encoding.module import Encoder
from ghrr.space import Space, check_space

_CHUNK_NUMBERS = 1 << 24  # encoded values held at a time: 128 MiB in complex64


class _Field(Encoder):
    r"""Encode values on a grid as :math:`\sum_p \phi(p) * \psi(v_p)`, positions p on the left, values on the right."""

    positions: Tensor

    def __init__(
        self,
        space: Space,
        shape: tuple[int, ...],
        channels: int,
        *,
        position_bandwidth: float,
        value_bandwidth: float,
        name: str,
        device: torch.device | str | None,
    ) -> None:
        super().__init__()
        self.space = check_space(space)
        self.shape = tuple(check_integer("size", size, least=1) for size in shape)
        self.channels = check_integer("channels", channels, least=1)
        # The module and the name keep the word "place", so that state dicts and encodings of version 0.1 stay valid.
        self.place = FractionalPower(space, len(self.shape), bandwidth=position_bandwidth, name=f"{name} place")
        self.value = FractionalPower(space, self.channels, bandwidth=value_bandwidth, name=f"{name} value")
        self.register_buffer("positions", self._all_positions(), persistent=False)  # computed from self.place
        self.register_load_state_dict_post_hook(_update_positions)  # type: ignore[no-untyped-call]
        self._move(device)

    def _all_positions(self) -> Tensor:
        axes = torch.meshgrid(*(torch.arange(size) for size in self.shape), indexing="ij")
        encoded: Tensor = self.place(torch.stack(axes, dim=-1).reshape(-1, len(self.shape)))
        return encoded

    def _encode(self, values: Tensor) -> Tensor:
        """Encode values ``(*batch, *shape, channels)``."""
        batch = values.shape[: -1 - len(self.shape)]
        rows = values.reshape(-1, math.prod(self.shape), self.channels)
        step = max(1, _CHUNK_NUMBERS // (rows.shape[1] * self.space.total_dim))
        parts = [bind_bundle(self.positions, self.value(part)) for part in torch.split(rows, step)]
        encoded: Tensor = torch.cat(parts).reshape(*batch, *self.space.shape)
        return encoded

    def _numbers(self, x: Any) -> Tensor:
        numbers = as_numbers(x, like=self.place.frequencies)
        check_features(numbers)
        return numbers


def _update_positions(field: _Field, _: object) -> None:
    field.positions = field._all_positions()


@names_errors
class Image(_Field):
    r"""Encode images: :math:`\sum_{r,c} \phi(r, c) * \psi(v_{rc})` over rows r and columns c.

    Nearby positions and similar values have similar hypervectors, so a small shift or change of brightness changes the
    encoding little. Differentiable with respect to the values.

    Parameters
    ----------
    space
        Space of the encodings.
    height, width, channels
        Size of the images.
    position_bandwidth
        Length scale of the kernel over positions, in pixels.
    value_bandwidth
        Length scale of the kernel over values, in the units of the pixel values.
    name
        Encoders with different names are independent.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    x: ``(*batch, height, width)`` for one channel, or ``(*batch, channels, height, width)``;
    output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> encoder = ghrr.encoding.Image(ghrr.Space(dim=500, m=2), 8, 8, position_bandwidth=1.5, value_bandwidth=0.3)
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
        position_bandwidth: float = 1.0,
        value_bandwidth: float = 0.5,
        name: str = "image",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            space,
            (height, width),
            channels,
            position_bandwidth=position_bandwidth,
            value_bandwidth=value_bandwidth,
            name=name,
            device=device,
        )

    def forward(self, x: Any) -> Tensor:
        """Encode a batch of images."""
        x = self._numbers(x)
        expected = self.shape if self.channels == 1 else (self.channels, *self.shape)
        if tuple(x.shape[-len(expected) :]) != expected:
            raise value_error(f"needs (*batch, {', '.join(map(str, expected))}), got shape {tuple(x.shape)}")
        return self._encode(x[..., None] if self.channels == 1 else x.movedim(-3, -1))


@names_errors
class TimeSeries(_Field):
    r"""Encode time series: :math:`\sum_t \phi(t) * \psi(v_t)`. Differentiable with respect to the values.

    Parameters
    ----------
    space
        Space of the encodings.
    length, channels
        Size of the series.
    position_bandwidth
        Length scale of the kernel over time, in steps.
    value_bandwidth
        Length scale of the kernel over values, in their units.
    name
        Encoders with different names are independent.
    device
        Device of the encoder, the CPU by default.

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
        position_bandwidth: float = 1.0,
        value_bandwidth: float = 0.5,
        name: str = "series",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__(
            space,
            (length,),
            channels,
            position_bandwidth=position_bandwidth,
            value_bandwidth=value_bandwidth,
            name=name,
            device=device,
        )

    def forward(self, x: Any) -> Tensor:
        """Encode a batch of series."""
        x = self._numbers(x)
        if tuple(x.shape[-2:]) != (*self.shape, self.channels):
            raise value_error(f"needs (*batch, {self.shape[0]}, {self.channels}), got shape {tuple(x.shape)}")
        return self._encode(x)

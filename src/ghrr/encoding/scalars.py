"""Encoders of single numbers: level, thermometer and circular encoding.

Their input has any shape ``(*batch)``, one number per hypervector.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ghrr.checks import check_real, names_errors
from ghrr.encoding.decoding import Decoded
from ghrr.encoding.fractional_power import FractionalPower
from ghrr.encoding.inputs import as_scalars
from ghrr.encoding.kernels import Spectrum
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.seeding import labelled_uniform
from ghrr.space import Space, check_space

Device = torch.device | str | None


class _Scale(Encoder):
    """Take each slot from one of two hypervectors: ``above`` where the number exceeds the slot's threshold."""

    below: Tensor
    above: Tensor
    thresholds: Tensor

    def __init__(self, space: Space, low: float, high: float, name: str, vectors: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.low = check_real("low", low, low=-math.inf, high=math.inf, open_ends=True)
        self.high = check_real("high", high, low=self.low, high=math.inf, open_ends=True)
        self.space = check_space(space)
        # Evenly spaced thresholds in random order: equal steps along the scale exchange equal numbers of slots.
        order = labelled_uniform(space.dim, space.seed, "thresholds", name).argsort()
        real = torch.float32 if space.dtype == torch.complex64 else torch.float64
        self.register_buffer("thresholds", ((order + 0.5) / space.dim).to(real))
        self.register_buffer("below", vectors[0])
        self.register_buffer("above", vectors[1])

    def forward(self, x: Any) -> Tensor:
        """Encode numbers: ``(*batch)`` to ``(*batch, dim, m, m)``. Numbers outside the scale are clipped."""
        x = as_scalars(x, like=self.thresholds)
        share = (x - self.low) / (self.high - self.low)
        is_above = share[..., None] > self.thresholds
        return torch.where(is_above[..., None, None], self.above, self.below)


@names_errors
class Level(_Scale):
    r"""Encode numbers on a scale: the similarity is :math:`1 - |x - y| / (high - low)`, from 1 down to 0.

    Two random hypervectors represent the ends of the scale. In between, some slots come from one and some from the
    other, in proportion. The encoding is piecewise constant in x, so its gradient is zero.

    Parameters
    ----------
    space
        Space of the encodings.
    low, high
        Ends of the scale. Numbers outside are clipped.
    name
        Encoders with different names are independent.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    x: ``(*batch)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> level = ghrr.encoding.Level(ghrr.Space(dim=1000, m=2), low=0, high=10)
    >>> f"{ghrr.similarity(level(2), level(5)):.1f}"
    '0.7'
    """

    def __init__(self, space: Space, low: float, high: float, *, name: str = "level", device: Device = None) -> None:
        ends = check_space(space).vectors([f"{name} low", f"{name} high"], namespace="level")
        super().__init__(space, low, high, name, (ends[0], ends[1]))
        self._move(device)


@names_errors
class Thermometer(_Scale):
    r"""Encode numbers on a signed scale: the similarity is :math:`1 - 2|x - y| / (high - low)`, from 1 down to -1.

    The slots of one random hypervector change their sign one after the other as the number grows. The encoding is
    piecewise constant in x, so its gradient is zero.

    Parameters
    ----------
    space
        Space of the encodings.
    low, high
        Ends of the scale. Numbers outside are clipped.
    name
        Encoders with different names are independent.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    x: ``(*batch)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> thermometer = ghrr.encoding.Thermometer(ghrr.Space(dim=1000, m=2), low=0, high=10)
    >>> [f"{ghrr.similarity(thermometer(0), thermometer(x)):.1f}" for x in (0, 5, 10)]
    ['1.0', '0.0', '-1.0']
    """

    def __init__(
        self, space: Space, low: float, high: float, *, name: str = "thermometer", device: Device = None
    ) -> None:
        vector = check_space(space).vectors([name], namespace="thermometer")[0]
        super().__init__(space, low, high, name, (-vector, vector))
        self._move(device)


@names_errors
class Circular(FractionalPower):
    r"""Encode numbers on a circle, such as hours or angles: x and x + period have the same encoding.

    The frequencies are integer multiples of :math:`2\pi/period`, drawn by rounding a Gaussian. The similarity
    approximates the kernel :math:`\sum_k p_k \cos(2\pi k \Delta / period)`, which is close to an rbf of the given
    bandwidth, wrapped around the circle. Differentiable with respect to x.

    Parameters
    ----------
    space
        Space of the encodings.
    period
        Length of the circle.
    bandwidth
        Length scale of the kernel, in the units of the period; a sixth of the period by default.
    name
        Encoders with different names are independent.
    device
        Device of the encoder, the CPU by default.

    Shapes
    ------
    x: ``(*batch)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> clock = ghrr.encoding.Circular(ghrr.Space(dim=1000, m=2), period=24)
    >>> f"{ghrr.similarity(clock(23), clock(1)):.2f} {ghrr.similarity(clock(23), clock(11)):.2f}"
    '0.88 0.00'
    """

    def __init__(
        self,
        space: Space,
        period: float,
        *,
        bandwidth: float | None = None,
        name: str = "circle",
        device: Device = None,
    ) -> None:
        period = check_real("period", period, low=0.0, high=math.inf, open_ends=True)
        width = period / 6 if bandwidth is None else bandwidth
        width = check_real("bandwidth", width, low=0.0, high=math.inf, open_ends=True)
        self.period = period
        deviation = period / (2 * math.pi * width)
        spectrum = Spectrum("circle", partial(_round_frequencies, deviation), partial(_circle_kernel, deviation))
        super().__init__(space, 1, kernel=spectrum, bandwidth=period / (2 * math.pi), name=name, device=device)

    def _features(self, x: Any) -> Tensor:
        """Return numbers ``(*batch, 1)`` within one period, so that rounding of frequencies does not add up."""
        return torch.remainder(as_scalars(x, like=self.frequencies), self.period)[..., None]

    def decode(self, h: Tensor | Hypervector) -> Decoded:  # type: ignore[override]
        """Find the number whose encoding is most similar to a noisy hypervector, and its standard error.

        As :meth:`FractionalPower.decode`, over the whole circle. Not differentiable.

        Shapes
        ------
        h: ``(*batch, dim, m, m)``; value, from 0 to the period, std and score: ``(*batch)``
        """
        found = self._decode(h, 0.0, self.period, slack=self.period / 4)  # a peak at 0 may be found from below
        return Decoded(torch.remainder(found.value, self.period)[..., 0], found.std[..., 0], found.score)


def _round_frequencies(deviation: float, u: Tensor) -> Tensor:
    return torch.round(torch.special.ndtri(u) * deviation)


def _circle_kernel(deviation: float, delta: Tensor) -> Tensor:
    most = math.ceil(10 * deviation) + 1
    multiples = torch.arange(-most, most + 1, dtype=delta.dtype, device=delta.device)
    upper, lower = (torch.special.ndtr((multiples + half) / deviation) for half in (0.5, -0.5))
    value: Tensor = (torch.cos(multiples * delta) * (upper - lower)).sum(dim=-1)
    return value

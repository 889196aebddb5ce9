"""A number on a scale: level, circle and thermometer encodings."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ghrr._checks import check_real
from ghrr._random import labelled_uniform
from ghrr.encoding.decoding import Decoded
from ghrr.encoding.fractional_power import FractionalPower
from ghrr.encoding.inputs import as_numbers, check_features
from ghrr.encoding.kernels import Spectrum
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space


class _Scale(Encoder):
    """Where a number stands between ``low`` and ``high`` decides, slot by slot, which of two hypervectors is taken."""

    below: Tensor
    above: Tensor
    thresholds: Tensor

    def __init__(self, space: Space, low: float, high: float, name: str, vectors: tuple[Tensor, Tensor]) -> None:
        super().__init__()
        self.low = check_real(type(self).__name__, "low", low, low=-math.inf, high=math.inf, open_ends=True)
        self.high = check_real(type(self).__name__, "high", high, low=self.low, high=math.inf, open_ends=True)
        self.space = check_space(type(self).__name__, space)
        # Evenly spread thresholds in random order: each step along the scale exchanges the same number of slots.
        order = labelled_uniform(space.dim, space.seed, "thresholds", name).argsort()
        real = torch.float32 if space.dtype == torch.complex64 else torch.float64
        self.register_buffer("thresholds", ((order + 0.5) / space.dim).to(real))
        self.register_buffer("below", vectors[0])
        self.register_buffer("above", vectors[1])

    def forward(self, x: Any) -> Tensor:
        """Encode numbers: ``(*batch)`` to ``(*batch, dim, m, m)``. Outside the scale the nearer end is taken."""
        operation = type(self).__name__
        x = as_numbers(operation, x, like=self.thresholds)
        check_features(operation, x[..., None])
        place = (x - self.low) / (self.high - self.low)
        passed = place[..., None] > self.thresholds
        return torch.where(passed[..., None, None], self.above, self.below)


class Level(_Scale):
    r"""Numbers on a scale: similarity falls in a straight line, :math:`1 - |x - y| / (high - low)`, from 1 to 0.

    Two random hypervectors stand for the ends; in between, a share of the slots comes from each.

    Parameters
    ----------
    space
        Where the encodings live.
    low, high
        Ends of the scale.
    name
        Encoders of different names are independent.

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

    def __init__(self, space: Space, low: float, high: float, *, name: str = "level") -> None:
        ends = space.vectors([f"{name} low", f"{name} high"], namespace="level")
        super().__init__(space, low, high, name, (ends[0], ends[1]))


class Thermometer(_Scale):
    r"""Numbers on a signed scale: similarity falls straight, :math:`1 - 2|x - y| / (high - low)`, from 1 to -1.

    One random hypervector, whose slots change sign one after the other as the number rises.

    Parameters and shapes are those of :class:`Level`.

    Examples
    --------
    >>> import ghrr
    >>> thermometer = ghrr.encoding.Thermometer(ghrr.Space(dim=1000, m=2), low=0, high=10)
    >>> [f"{ghrr.similarity(thermometer(0), thermometer(x)):.1f}" for x in (0, 5, 10)]
    ['1.0', '0.0', '-1.0']
    """

    def __init__(self, space: Space, low: float, high: float, *, name: str = "thermometer") -> None:
        vector = space.vectors([name], namespace="thermometer")[0]
        super().__init__(space, low, high, name, (-vector, vector))


class Circular(FractionalPower):
    r"""Numbers on a circle, such as hours or angles: x and x + period have the same encoding.

    The frequencies are whole multiples of :math:`2\pi/period`, drawn by rounding a Gaussian; so the kernel is
    :math:`\sum_k p_k \cos(2\pi k \Delta / period)`, close to an rbf of the given bandwidth, closed to a circle.

    Parameters
    ----------
    space
        Where the encodings live.
    period
        Length of the circle.
    bandwidth
        The distance at which similarity falls, in the units of the period; by default a sixth of it.
    name
        Encoders of different names are independent.

    Shapes
    ------
    x: ``(*batch, 1)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import ghrr
    >>> clock = ghrr.encoding.Circular(ghrr.Space(dim=1000, m=2), period=24)
    >>> f"{ghrr.similarity(clock([23.0]), clock([1.0])):.2f} {ghrr.similarity(clock([23.0]), clock([11.0])):.2f}"
    '0.88 0.00'
    """

    def __init__(self, space: Space, period: float, *, bandwidth: float | None = None, name: str = "circle") -> None:
        period = check_real("Circular", "period", period, low=0.0, high=math.inf, open_ends=True)
        width = period / 6 if bandwidth is None else bandwidth
        width = check_real("Circular", "bandwidth", width, low=0.0, high=math.inf, open_ends=True)
        self.period = period
        spectrum = _rounded_gaussian(period / (2 * math.pi * width))
        super().__init__(space, 1, kernel=spectrum, bandwidth=period / (2 * math.pi), name=name)

    def _numbers(self, x: Any) -> Tensor:
        """Within one turn, so that rounding of the frequencies does not add up over many."""
        return torch.remainder(super()._numbers(x), self.period)

    def decode(self, h: Tensor | Hypervector) -> Decoded:  # type: ignore[override]
        """The place on the circle, from 0 up to the period, with its standard error: no box, since there is no edge."""
        found = self._decode(h, 0.0, self.period, slack=self.period / 4)  # over the seam, if the peak is there
        return found._replace(value=torch.remainder(found.value, self.period))


def _rounded_gaussian(deviation: float) -> Spectrum:
    """Whole frequencies, in units of one turn per period."""
    return Spectrum("circle", partial(_round_frequencies, deviation), partial(_circle_kernel, deviation))


def _round_frequencies(deviation: float, u: Tensor) -> Tensor:
    return torch.round(torch.special.ndtri(u) * deviation)


def _circle_kernel(deviation: float, delta: Tensor) -> Tensor:
    most = math.ceil(10 * deviation) + 1
    whole = torch.arange(-most, most + 1, dtype=delta.dtype, device=delta.device)
    chances = torch.special.ndtr((whole + 0.5) / deviation) - torch.special.ndtr((whole - 0.5) / deviation)
    value: Tensor = (torch.cos(whole * delta) * chances).sum(dim=-1)
    return value

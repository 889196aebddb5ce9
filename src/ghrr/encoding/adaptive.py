r"""Rotations that depend on the input: a kernel whose length scale adapts to the region.

For :math:`\phi(x) = Q(x) \Lambda(x)` the weight of kernel k between x and y is :math:`(Q(y)^\dagger Q(x))_{kk}`. Where
Q is constant, all weights are 1 and the kernel is stationary. Where Q changes quickly with x, similarity falls faster
than :math:`\Lambda` alone would make it. So a learned Q(x) gives each region its own length scale.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init

from ghrr.checks import check_integer, names_errors, value_error
from ghrr.encoding.fractional_power import FractionalPower
from ghrr.encoding.inputs import as_features
from ghrr.encoding.module import Encoder
from ghrr.space import Space, check_space
from ghrr.unitary import exp_hermitian


@names_errors
class AdaptiveEncoder(Encoder):
    r"""Encode numbers with a learned rotation that depends on them: :math:`\phi(x)_j = Q_j e^{i H_j(x)} \Lambda_j(x)`.

    A small network computes coordinates :math:`u_r(x)`, and each slot rotates about its own random Hermitian axes:
    :math:`H_j(x) = \sum_r u_r(x)\,G_{jr}`. So the kernel is the stationary one times a function of the distance
    between u(x) and u(y), which takes few parameters to learn. The last layer of the network starts at zero: an
    untrained encoder equals the :class:`FractionalPower` of the same name.

    Differentiable with respect to x and the parameters of the network.

    Parameters
    ----------
    space, n_features
        As for :class:`FractionalPower`.
    latent
        Number of coordinates u.
    hidden
        Width of the two hidden layers of the network. Inputs should be of the order of 1.
    network
        Module to use instead: ``(*batch, n_features)`` to ``(*batch, latent)``.
    device
        Device of the encoder, the CPU by default.
    **settings
        Further arguments of :class:`FractionalPower`: kernel, bandwidth, sampling, name, …

    Shapes
    ------
    x: ``(*batch, n_features)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> space = ghrr.Space(dim=100, m=2, seed=0)
    >>> adaptive = ghrr.encoding.AdaptiveEncoder(space, n_features=3)
    >>> x = torch.linspace(-1, 1, 6).reshape(2, 3)
    >>> torch.allclose(adaptive(x), ghrr.encoding.FractionalPower(space, n_features=3)(x), atol=1e-5)
    True
    """

    axes: Tensor

    def __init__(
        self,
        space: Space,
        n_features: int,
        *,
        latent: int = 2,
        hidden: int = 32,
        network: nn.Module | None = None,
        device: torch.device | str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self.base = FractionalPower(space, n_features, **settings)
        self.space = check_space(space)
        self.latent = check_integer("latent", latent, least=1)
        hidden = check_integer("hidden", hidden, least=1)
        self.network = _mlp(space, (n_features, hidden, self.latent), self.base.name) if network is None else network
        source = space.generator(f"axes {self.base.name}")
        gaussian = torch.randn((self.latent, *space.shape), generator=source, dtype=torch.complex128)
        self.register_buffer("axes", ((gaussian + gaussian.mH) / 2).to(space.dtype))
        self._move(device)

    def hermitian(self, x: Any) -> Tensor:
        r"""Return the Hermitian matrices :math:`H_j(x)`: ``(*batch, n)`` to ``(*batch, dim, m, m)``."""
        matrices: Tensor = torch.tensordot(self._coordinates(x).to(self.axes.dtype), self.axes, dims=1)
        return matrices

    def _coordinates(self, x: Any) -> Tensor:
        """Return u(x): ``(*batch, n)`` to ``(*batch, latent)``."""
        x = as_features(x, self.base.n_features, like=self.base.frequencies)
        coordinates: Tensor = self.network(x.to(self.base.frequencies.dtype))
        if coordinates.shape != (*x.shape[:-1], self.latent):
            raise value_error(
                f"the network must return {(*x.shape[:-1], self.latent)} for an input of shape "
                f"{tuple(x.shape)}, got {tuple(coordinates.shape)}"
            )
        return coordinates

    def rotation(self, x: Any) -> Tensor:
        r"""Return the rotation :math:`Q_j e^{iH_j(x)}`: ``(*batch, n)`` to ``(*batch, dim, m, m)``."""
        return self.base.rotation @ exp_hermitian(self.hermitian(x))

    def forward(self, x: Any) -> Tensor:
        """Encode a batch: ``(*batch, n_features)`` to ``(*batch, dim, m, m)``."""
        return self.rotation(x) * self.base.diagonal(x)[..., None, :]

    def kernel(self, x: Any, y: Any) -> Tensor:
        r"""Return the exact kernel that similarity approximates, for a single coordinate u (``latent=1``).

        The axes are drawn from the Gaussian unitary ensemble, so their rotation by :math:`t = u(x) - u(y)` is, on
        average, a multiple of the identity. With the kernel K of :class:`FractionalPower` and a Laguerre polynomial L,

        .. math:: E\,\delta(\phi(x), \phi(y)) = K(x - y)\; e^{-t^2/4}\, \tfrac1m L^{(1)}_{m-1}(t^2/2) .

        Shapes
        ------
        x, y: ``(*batch, n)``, broadcast; output: ``(*batch)``

        Examples
        --------
        >>> import torch, ghrr
        >>> network = torch.nn.Identity()  # u(x) = x
        >>> space = ghrr.Space(dim=4000, m=2)
        >>> adaptive = ghrr.encoding.AdaptiveEncoder(space, n_features=1, latent=1, network=network)
        >>> x, y = torch.tensor([[0.0], [1.0]])
        >>> bool((ghrr.similarity(adaptive(x), adaptive(y)) - adaptive.kernel(x, y)).abs() < 0.02)
        True
        """
        if self.latent != 1:
            raise value_error(f"known for latent=1 only, got latent={self.latent}; measure similarities")
        m = self.space.m
        first, second = (self._coordinates(z) for z in (x, y))
        z = (first - second).squeeze(-1).square() / 2
        laguerre = sum((-z) ** i * (math.comb(m, i + 1) / math.factorial(i)) for i in range(m))
        return self.base.kernel(x, y) * torch.exp(-z / 2) * laguerre / m


def _mlp(space: Space, widths: tuple[int, int, int], name: str) -> nn.Sequential:
    """Return a network with two hidden layers, initialised from the seed of the space; its last layer is zero."""
    n_features, hidden, latent = widths
    sizes = ((n_features, hidden), (hidden, hidden), (hidden, latent))
    # The default initialisation would draw from the global generator.
    first, second, last = (skip_init(nn.Linear, *pair) for pair in sizes)  # type: ignore[no-untyped-call]
    source = space.generator(f"adaptive network {name}")
    with torch.no_grad():
        for layer, gain in ((first, 4.0), (second, 1.0), (last, 0.0)):  # large first layer: nonlinear within the data
            bound = gain * layer.in_features**-0.5
            for parameter in layer.parameters():
                parameter.uniform_(-bound, bound, generator=source)
    real = torch.float32 if space.dtype == torch.complex64 else torch.float64
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), last).to(real)

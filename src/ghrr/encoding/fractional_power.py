r"""Fractional power encoding: numbers to hypervectors whose similarity is a kernel you choose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from ghrr import ops
from ghrr._checks import (
    check_broadcast,
    check_choice,
    check_finite,
    check_hypervectors,
    check_integer,
    describe,
    is_true,
)
from ghrr.algebra import multibind, similarity
from ghrr.encoding.decoding import Decoded, decode_peak
from ghrr.encoding.inputs import as_features, as_numbers
from ghrr.encoding.kernels import FEATURES, Kernel, Spectrum, draw_frequencies, find_spectrum
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space
from ghrr.unitary import check_unitary


class FractionalPower(Encoder):
    r"""Encode numbers: :math:`\phi(x)_j = Q_j\,\mathrm{diag}(e^{i w_{j1}^\top x}, \dots, e^{i w_{jm}^\top x})`.

    The similarity of two encodings approximates a kernel, :math:`\delta(\phi(x), \phi(y)) \approx \frac1m \sum_k
    K_k(x - y)`, where :math:`K_k` belongs to the distribution of the frequencies :math:`w_{jk}` of the k-th
    diagonal entry. Its error is at most about :math:`1/\sqrt{2Dm}`.

    Parameters
    ----------
    space
        Where the encodings live; gives Q (by its rotation regime) and the seed.
    n_features
        How many numbers make one input.
    kernel
        ``"rbf"``, ``"laplace"``, ``"cauchy"``, ``"sinc"``, ``"matern-1/2"``, ``"matern-3/2"`` or ``"matern-5/2"``;
        a :class:`Spectrum`; a function ``(count, n_features, generator)`` that draws frequencies; or a list of m of
        these, one per diagonal entry.
    bandwidth
        The distance at which similarity falls, in the units of the input: a number, one per feature ``(n,)``, or
        one per diagonal entry ``(m, 1)`` or ``(m, n)``.
    features
        How frequencies are spread: ``"random"``, ``"orthogonal"`` (kernels that are the same in all directions) or
        ``"qmc"``.
    rotation
        Q for this encoder, ``(m, m)`` or ``(dim, m, m)``, instead of the one that the space gives for ``name``.
    trainable
        Make Q a parameter: ``"unitary"``, kept unitary by parametrisation, or ``"relaxed"``, free.
    name
        Encoders of different names have independent frequencies and rotations.

    Shapes
    ------
    x: ``(*batch, n_features)``; output: ``(*batch, dim, m, m)``

    Examples
    --------
    >>> import torch, ghrr
    >>> encoder = ghrr.encoding.FractionalPower(ghrr.Space(dim=2000, m=2), n_features=1, bandwidth=0.5)
    >>> x, y = torch.tensor([[0.0], [0.5]])
    >>> f"{ghrr.similarity(encoder(x), encoder(y)):.2f} {encoder.kernel(x, y):.2f}"
    '0.61 0.61'
    """

    bandwidth: Tensor
    frequencies: Tensor
    rotation: Tensor

    def __init__(
        self,
        space: Space,
        n_features: int,
        *,
        kernel: Kernel | Sequence[Kernel] = "rbf",
        bandwidth: float | Sequence[float] | Sequence[Sequence[float]] | Tensor = 1.0,
        features: str = "random",
        rotation: Tensor | None = None,
        trainable: str | None = None,
        name: str = "x",
    ) -> None:
        super().__init__()
        operation = "FractionalPower"
        self.space = check_space(type(self).__name__, space)
        self.n_features = check_integer(operation, "n_features", n_features, least=1)
        self.name = name
        check_choice(operation, "features", features, FEATURES)
        kernels = list(kernel) if isinstance(kernel, Sequence) and not isinstance(kernel, str) else [kernel] * space.m
        if len(kernels) != space.m:
            raise ValueError(
                f"{operation}: give one kernel, or m={space.m} of them, one per diagonal entry; got {kernel}"
            )
        self.spectra = [find_spectrum(operation, one) for one in kernels]
        real = torch.float32 if space.dtype == torch.complex64 else torch.float64
        self.register_buffer("bandwidth", _as_bandwidths(operation, bandwidth, space.m, self.n_features))
        self.register_buffer("frequencies", self._draw(features).to(real))
        if not torch.isfinite(self.frequencies).all():
            raise ValueError(f"{operation}: bandwidth {float(self.bandwidth.min())} is too small for {real}")
        given = (
            space.rotations([name], namespace="encoder")[0].clone() if rotation is None else _checked(rotation, space)
        )
        _hold_rotation(self, given, trainable)

    def _draw(self, features: str) -> Tensor:
        """Frequencies ``(dim, m, n)``. Diagonal entries of one kernel share one long sequence, cut into m runs."""
        space, n = self.space, self.n_features
        drawn = torch.empty(space.m, space.dim, n, dtype=torch.float64)
        for spectrum in dict.fromkeys(self.spectra):
            entries = [k for k, other in enumerate(self.spectra) if other == spectrum]
            label = f"{self.name} {entries[0]}"
            run = draw_frequencies(
                spectrum, len(entries) * space.dim, n, features=features, seed=space.seed, label=label
            )
            drawn[entries] = run.reshape(len(entries), space.dim, n)
        return (drawn / self.bandwidth[:, None, :]).movedim(0, 1).contiguous()

    def phases(self, x: Any) -> Tensor:
        r"""The angles :math:`w_{jk}^\top x`: ``(*batch, n)`` to ``(*batch, dim, m)``."""
        return self._angles(self._numbers(x))

    def _numbers(self, x: Any) -> Tensor:
        numbers = as_features(type(self).__name__, x, self.n_features, like=self.frequencies)
        if numbers.numel():
            largest = numbers.abs().amax() * self.frequencies.abs().amax() * self.n_features
            if is_true(~torch.isfinite(largest)):
                raise ValueError(
                    f"{type(self).__name__}: numbers as large as {numbers.abs().max():.3g} have no angle here"
                )
        return numbers

    def _angles(self, x: Tensor) -> Tensor:
        weights = self.frequencies.to(x.dtype).flatten(0, 1)
        with torch.autocast(x.device.type, enabled=False):  # angles need all their digits
            angles: Tensor = x @ weights.mT
        return angles.reshape(*x.shape[:-1], *self.frequencies.shape[:2])

    def forward(self, x: Any) -> Tensor:
        """Encode a batch: ``(*batch, n_features)`` to ``(*batch, dim, m, m)``."""
        return ops.fractional_power(self.rotation, self.frequencies, self._numbers(x))

    def diagonal(self, x: Any) -> Tensor:
        r"""The phases on the diagonal, :math:`e^{i w_{jk}^\top x}`: ``(*batch, n)`` to ``(*batch, dim, m)``."""
        return self._diagonal(self._numbers(x))

    def _diagonal(self, x: Tensor) -> Tensor:
        angles = self._angles(x)
        real = self.frequencies.dtype
        return torch.complex(torch.cos(angles).to(real), torch.sin(angles).to(real))

    def factors(self, x: Any) -> Tensor:
        r"""One diagonal hypervector per feature, :math:`\mathrm{diag}(e^{i w_{jkf} x_f})`.

        Binding them all to the rotation gives the same encoding as :meth:`forward`: composition by binding and joint
        encoding agree, since diagonal matrices commute.

        Shapes
        ------
        x: ``(*batch, n)``; output: ``(*batch, n, dim, m, m)``
        """
        x = self._numbers(x)
        angles = x[..., :, None, None] * self.frequencies.to(x.dtype).movedim(-1, 0)
        real = self.frequencies.dtype
        return torch.diag_embed(torch.complex(torch.cos(angles).to(real), torch.sin(angles).to(real)))

    def compose(self, x: Any) -> Tensor:
        r"""Encode by binding, :math:`Q * \Lambda_1(x_1) * \dots * \Lambda_n(x_n)`: equal to :meth:`forward`, slower."""
        factors = self.factors(x)
        rotation = self.rotation.expand_as(factors[..., :1, :, :, :])
        return multibind(torch.cat([rotation, factors], dim=-4))

    def kernel(self, x: Any, y: Any) -> Tensor:
        r"""The kernel that similarity approximates, exactly: :math:`\frac1m \sum_k K_k(x - y)`.

        Shapes
        ------
        x, y: ``(*batch, n)``, broadcast; output: ``(*batch)``
        """
        first, second = (as_features("kernel(x, y)", z, self.n_features, like=self.frequencies) for z in (x, y))
        check_broadcast("kernel(x, y)", x=first.shape, y=second.shape)
        delta = (first - second)[..., None, :] / self.bandwidth.to(first.dtype)
        values = []
        for k, spectrum in enumerate(self.spectra):
            if not isinstance(spectrum, Spectrum):
                raise ValueError(
                    "kernel(x, y): a sampler of your own has no known kernel; give a Spectrum, which has both"
                )
            values.append(spectrum.kernel(delta[..., k, :]))
        return torch.stack(values).mean(dim=0)

    def decode(
        self, h: Tensor | Hypervector, *, low: float | Sequence[float], high: float | Sequence[float]
    ) -> Decoded:
        """The input whose encoding is most similar to a noisy hypervector.

        A grid over the box, then Newton's method. The standard error takes what is left over in h for noise, and the
        peak for round, which those of laplace and matern-1/2 are not (theirs is too small, by a factor of six for two
        features). It holds when the right peak was found, which ``score`` tells: well above ``space.noise_std`` times
        the size of h. It is infinite where there
        is no peak, and where the best place is on the edge of the box.

        Parameters
        ----------
        h
            Hypervectors, such as an answer of ``unbind``.
        low, high
            The box to look in: numbers, or one per feature.

        Shapes
        ------
        h: ``(*batch, dim, m, m)``; value and std: ``(*batch, n_features)``, in double precision; score:
        ``(*batch)``

        Examples
        --------
        >>> import torch, ghrr
        >>> space = ghrr.Space(dim=500, m=2, seed=0)
        >>> encoder = ghrr.encoding.FractionalPower(space, n_features=1)
        >>> noisy = encoder([[0.7]]) + space.vectors(["something else"])
        >>> found = encoder.decode(noisy, low=-5, high=5)
        >>> f"{found.value.item():.2f} ± {found.std.item():.2f}"
        '0.68 ± 0.02'
        """
        return self._decode(h, low, high)

    def _decode(
        self, h: Tensor | Hypervector, low: float | Sequence[float], high: float | Sequence[float], slack: float = 0.0
    ) -> Decoded:
        """As :meth:`decode`; from the grid in the box the climb may leave it by ``slack``."""
        h = self.space.check(h, "FractionalPower.decode")
        check_finite("FractionalPower.decode", "h", h)
        frequencies = self.frequencies.flatten(0, 1)
        corners = [as_numbers("decode(h, low, high)", c, like=frequencies).double() for c in (low, high)]
        if (
            any(c.shape not in ((), (self.n_features,)) or not c.isfinite().all() for c in corners)
            or not (corners[0] < corners[1]).all()
        ):
            raise ValueError(
                f"decode: low must be below high, both finite, a number or one per feature; got {low} and {high}"
            )
        low_corner, high_corner = (c.expand(self.n_features) for c in corners)
        rows = h.detach().reshape(-1, *self.space.shape)
        z = (self.rotation.detach().conj() * rows).sum(dim=-2).flatten(start_dim=-2)
        with torch.autocast(h.device.type, enabled=False):
            found = decode_peak(
                z,
                frequencies,
                typical=self._typical_frequency(),
                energy=similarity(rows, rows),
                m=self.space.m,
                box=(low_corner, high_corner),
                slack=slack,
            )
        return Decoded(*(part.reshape(h.shape[:-3] + part.shape[1:]) for part in found))

    def _typical_frequency(self) -> Tensor:
        """For each feature the median frequency but for zeros, of the diagonal entry where it is largest: ``(n,)``."""
        sizes = self.frequencies.abs()
        medians = torch.where(sizes > 0, sizes, torch.nan).nanmedian(dim=0).values
        return medians.nan_to_num(0.0).amax(dim=0).clamp(min=1e-12)


def kernel_weights(first: Tensor | Hypervector, second: Tensor | Hypervector) -> Tensor:
    r"""Weights of the kernels in the similarity of two encodings that share their phases but not Q.

    :math:`\delta(Q \Lambda(x), R \Lambda(y)) \approx \frac1m \sum_k a_k K_k(x - y)` with :math:`a_k =
    \mathrm{Re}\,E_j[(R_j^\dagger Q_j)_{kk}]`, which has a sign: the paper's equation reads as if weights were
    magnitudes. Equal rotations give weights of 1.

    Shapes
    ------
    first, second: ``(*batch, dim, m, m)``; output: ``(*batch, m)``, real

    Examples
    --------
    >>> import torch, ghrr
    >>> q = ghrr.Space(dim=50, m=2, seed=0).rotations(["a"])[0]
    >>> ghrr.encoding.kernel_weights(q, -q)
    tensor([-1., -1.])
    """
    first, second = check_hypervectors("kernel_weights(first, second)", first=first, second=second)
    check_broadcast("kernel_weights(first, second)", first=first.shape[:-3], second=second.shape[:-3])
    relative = (second.conj() * first).sum(dim=-2)  # the diagonal of R^H Q
    return relative.real.mean(dim=-2)


def _checked(rotation: Tensor, space: Space) -> Tensor:
    fits = isinstance(rotation, Tensor) and rotation.shape in ((space.m, space.m), space.shape)
    if not fits or rotation.dtype != space.dtype:
        raise ValueError(
            f"FractionalPower: rotation must be {space.dtype} of shape ({space.m}, {space.m}) or {space.shape}, "
            f"got {describe(rotation)}"
        )
    full = rotation.detach().expand(space.shape).clone()
    fine, reason = check_unitary(full, explain=True)
    if not fine:
        raise ValueError(f"FractionalPower: the given rotation is not unitary: {reason}")
    return full


def _hold_rotation(module: nn.Module, rotation: Tensor, trainable: str | None) -> None:
    """Keep Q in a module: as a buffer, as a free parameter, or as a parameter that stays unitary."""
    if trainable is None:
        module.register_buffer("rotation", rotation)
        return
    check_choice("FractionalPower", "trainable", trainable, ("unitary", "relaxed"))
    module.register_parameter("rotation", nn.Parameter(rotation))
    if trainable == "unitary":
        orthogonal(module, "rotation", orthogonal_map="matrix_exp")


def _as_bandwidths(operation: str, bandwidth: Any, m: int, n: int) -> Tensor:
    """Bandwidths as ``(m, n)``; raises for one that is not positive, naming the feature."""
    given = as_numbers(f"{operation}: bandwidth", bandwidth, like=torch.empty(0, dtype=torch.float64))
    if tuple(given.shape) not in ((), (n,), (1, n), (m, 1), (m, n)):
        raise ValueError(
            f"{operation}: bandwidth must be a number, one per feature ({n},), or one per diagonal entry ({m}, 1) or "
            f"({m}, {n}); got shape {tuple(given.shape)}"
        )
    full = given.expand(m, n).clone()
    bad = (~((full > 0) & torch.isfinite(full))).nonzero()
    if len(bad):
        k, feature = bad[0].tolist()
        raise ValueError(
            f"{operation}: bandwidth must be positive and finite, got {full[k, feature]} for feature {feature}"
            + (f" of diagonal entry {k}" if given.ndim == 2 else "")
        )
    return full

r"""Fractional power encoding: numbers to hypervectors whose similarity approximates a kernel of your choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from ghrr import ops
from ghrr.algebra import multibind, similarity
from ghrr.checks import (
    check_broadcast,
    check_choice,
    check_finite,
    check_hypervectors,
    check_integer,
    describe,
    is_true,
    names_errors,
    type_error,
    value_error,
)
from ghrr.encoding.decoding import Decoded, decode_peak
from ghrr.encoding.inputs import as_features, as_numbers
from ghrr.encoding.kernels import SAMPLING, Kernel, Spectrum, draw_frequencies, find_spectrum
from ghrr.encoding.module import Encoder
from ghrr.hypervector import Hypervector
from ghrr.space import Space, check_space
from ghrr.unitary.projection import check_unitary


@names_errors
class FractionalPower(Encoder):
    r"""Encode numbers: :math:`\phi(x)_j = Q_j\,\mathrm{diag}(e^{i w_{j1}^\top x}, \dots, e^{i w_{jm}^\top x})`.

    The similarity of two encodings approximates a kernel, :math:`\delta(\phi(x), \phi(y)) \approx \frac1m \sum_k
    K_k(x - y)`. The distribution of the frequencies :math:`w_{jk}` of diagonal entry k determines :math:`K_k`. The
    error is at most about :math:`1/\sqrt{2Dm}`.

    Differentiable with respect to x and to Q; the frequencies are constants.

    Parameters
    ----------
    space
        Space of the encodings. It determines Q, by its rotation, and the seed.
    n_features
        Numbers per input.
    kernel
        ``"rbf"``, ``"laplace"``, ``"cauchy"``, ``"sinc"``, ``"matern-1/2"``, ``"matern-3/2"`` or ``"matern-5/2"``;
        a :class:`Spectrum`; a function ``(count, n_features, generator)`` that draws frequencies; or a list of m of
        these, one per diagonal entry.
    bandwidth
        Length scale of the kernel, in the units of the input: a number, one per feature ``(n,)``, or one per diagonal
        entry ``(m, 1)`` or ``(m, n)``.
    sampling
        How frequencies are drawn: ``"random"``, ``"orthogonal"`` (only for isotropic kernels) or ``"qmc"``
        (quasi-Monte Carlo). The last two lower the error of the kernel.
    rotation
        Q of this encoder, ``(m, m)`` or ``(dim, m, m)``, copied without its gradient. By default the space determines Q
        from ``name``.
    trainable_rotation
        Make Q a parameter.
    keep_unitary
        Keep a trainable Q unitary, by parametrisation. With False it may become any matrix.
    name
        Encoders with different names have independent frequencies and rotations.
    device
        Device of the encoder, by default the device of ``rotation`` or the CPU.

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
        sampling: str = "random",
        rotation: Tensor | None = None,
        trainable_rotation: bool = False,
        keep_unitary: bool = True,
        name: str = "x",
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.space = check_space(space)
        self.n_features = check_integer("n_features", n_features, least=1)
        self.name = name
        check_choice("sampling", sampling, SAMPLING)
        kernels = list(kernel) if isinstance(kernel, Sequence) and not isinstance(kernel, str) else [kernel] * space.m
        if len(kernels) != space.m:
            raise value_error(f"give one kernel, or m={space.m} of them, one per diagonal entry; got {kernel}")
        self.spectra = [find_spectrum(one) for one in kernels]
        real = torch.float32 if space.dtype == torch.complex64 else torch.float64
        self.register_buffer("bandwidth", _as_bandwidths(bandwidth, space.m, self.n_features))
        self.register_buffer("frequencies", self._draw(sampling).to(real))
        if not torch.isfinite(self.frequencies).all():
            raise value_error(
                f"bandwidth {float(self.bandwidth.min())} is too small for {real}; use a larger "
                f"bandwidth, or rescale the input"
            )
        if rotation is None:
            rotation = space.rotations([name], namespace="encoder")[0].clone()
        else:
            rotation = _check_rotation(rotation, space)
            device = rotation.device if device is None else device
        _register_rotation(self, rotation, trainable_rotation, keep_unitary)
        self._move(device)

    def _draw(self, sampling: str) -> Tensor:
        """Return frequencies ``(dim, m, n)``; diagonal entries of one kernel share one sequence, cut into parts."""
        space, n = self.space, self.n_features
        drawn = torch.empty(space.m, space.dim, n, dtype=torch.float64)
        for spectrum in dict.fromkeys(self.spectra):
            entries = [k for k, other in enumerate(self.spectra) if other == spectrum]
            label = f"{self.name} {entries[0]}"
            count = len(entries) * space.dim
            sequence = draw_frequencies(spectrum, count, n, sampling=sampling, seed=space.seed, label=label)
            drawn[entries] = sequence.reshape(len(entries), space.dim, n)
        return (drawn / self.bandwidth[:, None, :]).movedim(0, 1).contiguous()

    def forward(self, x: Any) -> Tensor:
        """Encode a batch: ``(*batch, n_features)`` to ``(*batch, dim, m, m)``."""
        return ops.fractional_power(self.rotation, self.frequencies, self._checked(x))

    def phases(self, x: Any) -> Tensor:
        r"""Return the angles :math:`w_{jk}^\top x`: ``(*batch, n)`` to ``(*batch, dim, m)``."""
        return self._angles(self._checked(x))

    def diagonal(self, x: Any) -> Tensor:
        r"""Return the diagonal entries :math:`e^{i w_{jk}^\top x}`: ``(*batch, n)`` to ``(*batch, dim, m)``."""
        return self._phasors(self._angles(self._checked(x)))

    def _features(self, x: Any) -> Tensor:
        """Return finite numbers ``(*batch, n_features)`` on the device of the encoder."""
        return as_features(x, self.n_features, like=self.frequencies)

    def _checked(self, x: Any) -> Tensor:
        """Return the features; raise for numbers so large that their angles would not be finite."""
        features = self._features(x)
        if features.numel():
            largest = features.abs().amax() * self.frequencies.abs().amax() * self.n_features
            if is_true(~torch.isfinite(largest)):
                raise value_error(
                    f"the angles of numbers as large as {features.abs().max():.3g} are not "
                    f"finite; rescale the input or use a larger bandwidth"
                )
        return features

    def _angles(self, x: Tensor) -> Tensor:
        weights = self.frequencies.to(x.dtype).flatten(0, 1)
        with torch.autocast(x.device.type, enabled=False):  # angles need full precision
            angles: Tensor = x @ weights.mT
        return angles.reshape(*x.shape[:-1], *self.frequencies.shape[:2])

    def _phasors(self, angles: Tensor) -> Tensor:
        real = self.frequencies.dtype
        return torch.complex(torch.cos(angles).to(real), torch.sin(angles).to(real))

    def factors(self, x: Any) -> Tensor:
        r"""Return one diagonal hypervector per feature, :math:`\mathrm{diag}(e^{i w_{jkf} x_f})`.

        Binding the rotation with all of them gives the same encoding as :meth:`forward`, since diagonal matrices
        commute.

        Shapes
        ------
        x: ``(*batch, n)``; output: ``(*batch, n, dim, m, m)``
        """
        x = self._checked(x)
        angles = x[..., :, None, None] * self.frequencies.to(x.dtype).movedim(-1, 0)
        return torch.diag_embed(self._phasors(angles))

    def compose(self, x: Any) -> Tensor:
        r"""Encode by binding, :math:`Q * \Lambda_1(x_1) * \dots * \Lambda_n(x_n)`: equal to :meth:`forward`, slower."""
        factors = self.factors(x)
        rotation = self.rotation.expand_as(factors[..., :1, :, :, :])
        return multibind(torch.cat([rotation, factors], dim=-4))

    @names_errors("{cls}.kernel(x, y)")
    def kernel(self, x: Any, y: Any) -> Tensor:
        r"""Return the exact kernel that similarity approximates: :math:`\frac1m \sum_k K_k(x - y)`.

        Shapes
        ------
        x, y: ``(*batch, n)``, broadcast; output: ``(*batch)``
        """
        first, second = (self._features(z) for z in (x, y))
        check_broadcast(x=first.shape, y=second.shape)
        delta = (first - second)[..., None, :] / self.bandwidth.to(first.dtype)
        values = []
        for k, spectrum in enumerate(self.spectra):
            if not isinstance(spectrum, Spectrum):
                raise value_error("the kernel of a sampling function is not known; use a Spectrum, which has both")
            values.append(spectrum.kernel(delta[..., k, :]))
        return torch.stack(values).mean(dim=0)

    def decode(
        self, h: Tensor | Hypervector, *, low: float | Sequence[float], high: float | Sequence[float]
    ) -> Decoded:
        """Find the input whose encoding is most similar to a noisy hypervector, and its standard error.

        Searches a grid over the box, then improves the best point with Newton's method. Not differentiable.

        The standard error treats the rest of h as noise. It is valid if the search found the correct peak: then
        ``score`` is well above ``space.noise_std`` times the norm of h. It assumes a round peak; peaks of laplace and
        matern-1/2 are sharp, and their standard error is too small, by a factor of six for two features. It is infinite
        if there is no peak, and if the best point is on the edge of the box.

        Parameters
        ----------
        h
            Hypervectors, such as the result of ``unbind``.
        low, high
            Corners of the box to search: numbers, or one number per feature.

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
        '0.69 ± 0.02'
        """
        return self._decode(h, low, high)

    def _decode(
        self, h: Tensor | Hypervector, low: float | Sequence[float], high: float | Sequence[float], slack: float = 0.0
    ) -> Decoded:
        """Decode; Newton's method may leave the box by ``slack``."""
        h = self.space.check(h)
        check_finite("h", h)
        frequencies = self.frequencies.flatten(0, 1)
        corners = [as_numbers(c, like=frequencies).double() for c in (low, high)]
        if (
            any(c.shape not in ((), (self.n_features,)) or not c.isfinite().all() for c in corners)
            or not (corners[0] < corners[1]).all()
        ):
            raise value_error(f"low must be below high, both finite, a number or one per feature; got {low} and {high}")
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
        """Return the median nonzero frequency of each feature, at the diagonal entry where it is largest: ``(n,)``."""
        sizes = self.frequencies.abs()
        medians = torch.where(sizes > 0, sizes, torch.nan).nanmedian(dim=0).values
        return medians.nan_to_num(0.0).amax(dim=0).clamp(min=1e-12)


@names_errors("kernel_weights(first, second)")
def kernel_weights(first: Tensor | Hypervector, second: Tensor | Hypervector) -> Tensor:
    r"""Return the weights of the kernels in the similarity of two encodings with the same phases but other rotations.

    :math:`\delta(Q \Lambda(x), R \Lambda(y)) \approx \frac1m \sum_k a_k K_k(x - y)` with :math:`a_k =
    \mathrm{Re}\,E_j[(R_j^\dagger Q_j)_{kk}]`. Weights can be negative, although the paper's equation suggests
    magnitudes. Equal rotations have weights of 1. Differentiable.

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
    first, second = check_hypervectors(first=first, second=second)
    check_broadcast(first=first.shape[:-3], second=second.shape[:-3])
    relative = (second.conj() * first).sum(dim=-2)  # the diagonal of R^H Q
    return relative.real.mean(dim=-2)


def _check_rotation(rotation: Tensor, space: Space) -> Tensor:
    fits = isinstance(rotation, Tensor) and rotation.shape in ((space.m, space.m), space.shape)
    if not fits or rotation.dtype != space.dtype:
        raise value_error(
            f"rotation must be {space.dtype} of shape ({space.m}, {space.m}) or {space.shape}, got {describe(rotation)}"
        )
    return check_unitary("rotation", rotation.detach().expand(space.shape).clone())


def _register_rotation(module: nn.Module, rotation: Tensor, trainable: bool, keep_unitary: bool) -> None:
    """Register Q as a buffer, as a parameter, or as a parameter that stays unitary."""
    for name, value in (("trainable_rotation", trainable), ("keep_unitary", keep_unitary)):
        if not isinstance(value, bool):
            raise type_error(f"{name} must be True or False, got {describe(value)}")
    if not trainable:
        module.register_buffer("rotation", rotation)
        return
    module.register_parameter("rotation", nn.Parameter(rotation))
    if keep_unitary:
        orthogonal(module, "rotation", orthogonal_map="matrix_exp")


def _as_bandwidths(bandwidth: Any, m: int, n: int) -> Tensor:
    """Return bandwidths as ``(m, n)``; raise for one that is not positive, with its feature."""
    given = as_numbers(bandwidth, like=torch.empty(0, dtype=torch.float64), name="bandwidth")
    if tuple(given.shape) not in ((), (n,), (1, n), (m, 1), (m, n)):
        raise value_error(
            f"bandwidth must be a number, one per feature ({n},), or one per diagonal entry ({m}, 1) or "
            f"({m}, {n}); got shape {tuple(given.shape)}"
        )
    full = given.expand(m, n).clone()
    bad = (~((full > 0) & torch.isfinite(full))).nonzero()
    if len(bad):
        k, feature = bad[0].tolist()
        raise value_error(
            f"bandwidth must be positive and finite, got {full[k, feature]} for feature {feature}"
            + (f" of diagonal entry {k}" if given.ndim == 2 else "")
        )
    return full

r"""Kernels and their distributions of frequencies (Bochner's theorem).

A shift-invariant kernel is the expectation :math:`K(\Delta) = E \cos(w^\top \Delta)` over random frequencies w. A
:class:`Spectrum` holds both sides of this equation. It computes frequencies from uniform numbers, so it works for
random, orthogonal and quasi-random points alike. Differences are in units of the bandwidth.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ghrr.checks import check_choice, names_errors, type_error, value_error
from ghrr.seeding import labelled_generator, labelled_uniform
from ghrr.unitary import orthonormalize


@names_errors
@dataclass(frozen=True)
class Spectrum:
    r"""Kernel and its distribution of frequencies, at bandwidth 1.

    Attributes
    ----------
    name
        Name of the kernel.
    frequencies
        Function of uniform numbers ``(*, n + extra)`` in (0, 1) that returns frequencies ``(*, n)``.
    kernel
        Function of differences ``(*, n)`` that returns values ``(*)``, with value 1 at zero: the Fourier transform of
        the distribution of frequencies.
    extra
        Number of uniform numbers that a frequency needs beyond one per feature.
    isotropic
        Whether the distribution is the same in all directions. ``sampling="orthogonal"`` requires it.
    norm
        Norm in which ``KernelFeatures(bandwidth="median")`` measures distances: 1 for a kernel that depends on the sum
        of absolute differences, otherwise 2.

    Examples
    --------
    >>> import torch, ghrr
    >>> triangle = ghrr.encoding.Spectrum(
    ...     "sinc squared",
    ...     frequencies=lambda u: torch.pi * (u[..., :1] + u[..., 1:] - 1),
    ...     kernel=lambda delta: torch.sinc(delta / 2).square().prod(dim=-1),
    ...     extra=1,
    ... )
    >>> encoder = ghrr.encoding.FractionalPower(ghrr.Space(dim=2000, m=2), n_features=1, kernel=triangle)
    >>> f"{ghrr.similarity(encoder([0.0]), encoder([1.0])):.2f} {encoder.kernel([0.0], [1.0]):.2f}"
    '0.41 0.41'
    """

    name: str
    frequencies: Callable[[Tensor], Tensor]
    kernel: Callable[[Tensor], Tensor]
    extra: int = 0
    isotropic: bool = False
    norm: float = 2.0

    def __reduce__(self) -> tuple[object, ...]:
        # The built-in spectra contain lambdas, which cannot be pickled.
        if SPECTRA.get(self.name) is self:
            return _built_in, (self.name,)
        return Spectrum, (self.name, self.frequencies, self.kernel, self.extra, self.isotropic, self.norm)


def _built_in(name: str) -> Spectrum:
    return SPECTRA[name]


def _chi_squared_quantile(u: Tensor, freedom: int) -> Tensor:
    """Invert the distribution function of chi-squared by bisection; torch has no such function."""
    low, high = torch.zeros_like(u), torch.full_like(u, 200.0)
    half = torch.full_like(u, freedom / 2)
    for _ in range(60):
        middle = (low + high) / 2
        below = torch.special.gammainc(half, middle / 2) < u
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def _student(u: Tensor, freedom: int) -> Tensor:
    """Return multivariate Student t: a Gaussian divided by the root of an independent chi-squared."""
    scale = torch.sqrt(_chi_squared_quantile(u[..., -1:], freedom) / freedom)
    student: Tensor = torch.special.ndtri(u[..., :-1]) / scale
    return student


def _double_exponential(u: Tensor) -> Tensor:
    centred = u - 0.5
    return -torch.sign(centred) * torch.log1p(-2 * centred.abs())


def _matern(twice_nu: int) -> Callable[[Tensor], Tensor]:
    def kernel(delta: Tensor) -> Tensor:
        s = math.sqrt(twice_nu) * torch.linalg.vector_norm(delta, dim=-1)
        polynomial = {1: torch.ones_like(s), 3: 1 + s, 5: 1 + s + s.square() / 3}[twice_nu]
        value: Tensor = polynomial * torch.exp(-s)
        return value

    return kernel


SPECTRA: dict[str, Spectrum] = {
    spectrum.name: spectrum
    for spectrum in (
        Spectrum(
            "rbf",
            torch.special.ndtri,
            lambda delta: torch.exp(-delta.square().sum(dim=-1) / 2),
            isotropic=True,
        ),
        Spectrum(
            "laplace",
            lambda u: torch.tan(math.pi * (u - 0.5)),
            lambda delta: torch.exp(-delta.abs().sum(dim=-1)),
            norm=1.0,
        ),
        Spectrum("cauchy", _double_exponential, lambda delta: (1 / (1 + delta.square())).prod(dim=-1)),
        Spectrum("sinc", lambda u: math.pi * (2 * u - 1), lambda delta: torch.sinc(delta).prod(dim=-1)),
        *(
            Spectrum(
                f"matern-{twice_nu}/2",
                functools.partial(_student, freedom=twice_nu),
                _matern(twice_nu),
                extra=1,
                isotropic=True,
            )
            for twice_nu in (1, 3, 5)
        ),
    )
}

Sampler = Callable[[int, int, torch.Generator], Tensor]
Kernel = str | Spectrum | Sampler
SAMPLING = ("random", "orthogonal", "qmc")


def find_spectrum(kernel: Kernel) -> Spectrum | Sampler:
    """Return the spectrum of a name; a spectrum or a sampler is returned as it is."""
    if isinstance(kernel, str):
        check_choice("kernel (or a Spectrum, or a sampler)", kernel, tuple(SPECTRA))
        return SPECTRA[kernel]
    if not isinstance(kernel, Spectrum) and not callable(kernel):
        raise type_error(f"kernel must be a name, a Spectrum or a callable, got {kernel!r}")
    return kernel


def draw_frequencies(
    spectrum: Spectrum | Sampler, count: int, n: int, *, sampling: str, seed: int, label: str
) -> Tensor:
    """Draw ``count`` frequencies of ``n`` features, ``(count, n)`` in double precision, from a seed and a label.

    ``"random"`` draws them independently. ``"orthogonal"`` makes groups of n of them orthogonal and keeps the
    distribution of each. ``"qmc"`` uses scrambled Sobol points instead of random numbers. The last two distribute the
    frequencies more evenly, which lowers the error of the kernel at equal dimension.
    """
    if not isinstance(spectrum, Spectrum):
        return _sampled(spectrum, count, n, sampling, labelled_generator(seed, "frequencies", label))
    width = n + spectrum.extra
    if sampling == "qmc":
        if width > torch.quasirandom.SobolEngine.MAXDIM:
            most = torch.quasirandom.SobolEngine.MAXDIM - spectrum.extra
            raise value_error(f'sampling="qmc" supports at most {most} features, got {n}; use "random"')
        scramble = labelled_generator(seed, "scramble", label).initial_seed()
        engine = torch.quasirandom.SobolEngine(width, scramble=True, seed=scramble)  # type: ignore[no-untyped-call]
        points = engine.draw(count, dtype=torch.float64)
    else:
        points = labelled_uniform(count * width, seed, "frequencies", label).reshape(count, width)
    frequencies = spectrum.frequencies(points.clamp(2.0**-40, 1 - 2.0**-40))
    if sampling != "orthogonal":
        return frequencies
    if not spectrum.isotropic:
        fitting = ", ".join(name for name, other in SPECTRA.items() if other.isotropic)
        raise value_error(f'sampling="orthogonal" needs an isotropic kernel ({fitting}), got {spectrum.name!r}')
    blocks = -(-count // n)
    directions = labelled_uniform(blocks * n * n, seed, "directions", label).clamp(min=2.0**-40)
    directions = orthonormalize(torch.special.ndtri(directions.reshape(blocks, n, n))).reshape(blocks * n, n)[:count]
    radii: Tensor = torch.linalg.vector_norm(frequencies, dim=-1, keepdim=True)
    return radii * directions


def _sampled(sampler: Sampler, count: int, n: int, sampling: str, generator: torch.Generator) -> Tensor:
    if sampling != "random":
        raise value_error(f'a sampling function needs sampling="random", got {sampling!r}; or use a Spectrum')
    frequencies = sampler(count, n, generator)
    fits = isinstance(frequencies, Tensor) and frequencies.shape == (count, n) and not frequencies.is_complex()
    if not fits or not frequencies.isfinite().all():
        raise value_error(
            f"the sampling function must return finite real frequencies of shape ({count}, {n}), got "
            f"{frequencies!r:.100}"
        )
    return frequencies.double()

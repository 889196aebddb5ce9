"""Kernels: closed formulas, frequencies, and the error of each way to sample frequencies."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from torch import Tensor

import ghrr
from ghrr import Space
from ghrr.encoding import FractionalPower, Spectrum
from ghrr.encoding.kernels import SPECTRA, _chi_squared_quantile, draw_frequencies
from tests.encoding.common import KERNELS
from tests.helpers import assert_mean, assert_std, generator

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

BANDWIDTH = 0.7
ORACLES: dict[str, Callable[[Array, Array], Array]] = {
    "rbf": lambda x, y: rbf_kernel(x, y, gamma=1 / (2 * BANDWIDTH**2)),
    "laplace": lambda x, y: laplacian_kernel(x, y, gamma=1 / BANDWIDTH),
    "cauchy": lambda x, y: np.prod(1 / (1 + ((x[:, None] - y) / BANDWIDTH) ** 2), axis=-1),
    "sinc": lambda x, y: np.prod(np.sinc((x[:, None] - y) / BANDWIDTH), axis=-1),
    "matern-1/2": Matern(BANDWIDTH, nu=0.5),
    "matern-3/2": Matern(BANDWIDTH, nu=1.5),
    "matern-5/2": Matern(BANDWIDTH, nu=2.5),
}


def test_every_kernel_has_a_closed_formula() -> None:
    assert tuple(SPECTRA) == KERNELS == tuple(ORACLES)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 3])
def test_kernels_equal_their_closed_formulas(name: str, n: int) -> None:
    x, y = torch.randn(2, 20, n, dtype=torch.float64, generator=generator())
    encoder = FractionalPower(Space(4, 2, dtype=torch.complex128), n, kernel=name, bandwidth=BANDWIDTH)
    got = encoder.kernel(x[:, None], y)
    np.testing.assert_allclose(got.numpy(), ORACLES[name](x.numpy(), y.numpy()), rtol=1e-10, atol=1e-12)
    assert (encoder.kernel(x, x) == 1).all()
    other = FractionalPower(Space(4, 2, dtype=torch.complex128), n, kernel=name, bandwidth=1.1 * BANDWIDTH)
    assert not np.allclose(other.kernel(x[:, None], y).numpy(), ORACLES[name](x.numpy(), y.numpy()), atol=1e-2)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_kernel_is_the_fourier_transform_of_its_frequencies(name: str, n: int) -> None:
    """The mean of exp(i w^T delta) is real and equals the kernel."""
    spectrum = SPECTRA[name]
    uniform = torch.rand(40_000, n + spectrum.extra, dtype=torch.float64, generator=generator(n))
    frequencies = spectrum.frequencies(uniform)
    assert frequencies.shape == (40_000, n)
    assert frequencies.isfinite().all()
    for size in (0.2, 0.8, 2.0):
        delta = torch.randn(n, dtype=torch.float64, generator=generator(7))
        delta *= size / delta.norm()
        angles = frequencies @ delta
        assert_mean(torch.cos(angles), spectrum.kernel(delta).item())
        assert_mean(torch.sin(angles), 0.0)
    with pytest.raises(AssertionError):  # negative control: a bandwidth a tenth larger
        assert_mean(torch.cos(frequencies @ delta / 2), spectrum.kernel(delta / 2 / 1.1).item())


def test_chi_squared_quantile_inverts_the_distribution() -> None:
    u = torch.linspace(1e-6, 1 - 1e-6, 1001, dtype=torch.float64)
    for freedom in (1, 3, 5):
        np.testing.assert_allclose(_chi_squared_quantile(u, freedom), stats.chi2.ppf(u, freedom), rtol=1e-9, atol=1e-15)
        assert not np.allclose(_chi_squared_quantile(u, freedom), stats.chi2.ppf(u, freedom + 1), rtol=1e-2)


# ------------------------------------------------------------------------------------------- sampling of frequencies


def draw(name: str, count: int, n: int, sampling: str, seed: int = 0, label: str = "x") -> Tensor:
    return draw_frequencies(SPECTRA[name], count, n, sampling=sampling, seed=seed, label=label)


@pytest.mark.parametrize("sampling", ["random", "orthogonal", "qmc"])
@pytest.mark.parametrize("name", ["rbf", "matern-3/2"])
def test_frequencies_depend_on_seed_and_label_only(sampling: str, name: str) -> None:
    torch.manual_seed(1)
    one = draw(name, 50, 3, sampling)
    torch.manual_seed(2)
    assert torch.equal(one, draw(name, 50, 3, sampling))
    assert one.dtype == torch.float64
    for other in (draw(name, 50, 3, sampling, seed=1), draw(name, 50, 3, sampling, label="y")):
        assert not torch.allclose(one, other, rtol=0.1)


def test_orthogonal_frequencies_are_orthogonal_and_normally_distributed() -> None:
    n, count = 4, 20_000
    blocks = draw("rbf", count, n, "orthogonal").reshape(-1, n, n)
    gram = blocks @ blocks.mT
    lengths = torch.diagonal(gram, dim1=-2, dim2=-1)
    torch.testing.assert_close(gram, torch.diag_embed(lengths), atol=1e-10, rtol=0)
    assert_mean(lengths.flatten(), n)
    assert_std(blocks[:, 0].flatten(), 1.0)
    assert_mean(blocks[:, 0].flatten(), 0.0)
    plain = draw("rbf", count, n, "random").reshape(-1, n, n)
    assert (plain @ plain.mT - torch.diag_embed((plain**2).sum(-1))).abs().mean() > 0.5  # negative control
    assert draw("rbf", 7, n, "orthogonal").shape == (7, n)  # the last block may be incomplete


def test_qmc_draws_one_frequency_from_each_quantile_interval() -> None:
    def parts(sampling: str) -> Tensor:
        return torch.floor(torch.special.ndtr(draw("rbf", 64, 1, sampling)[:, 0]) * 64).sort().values

    assert torch.equal(parts("qmc"), torch.arange(64.0, dtype=torch.float64))
    assert not torch.equal(parts("random"), torch.arange(64.0, dtype=torch.float64))


def squared_errors(sampling: str, dim: int, points: Tensor, seeds: int) -> Tensor:
    """Return the mean squared error of the rbf kernel between the points and 0 for each seed."""
    out = []
    for seed in range(seeds):
        encoder = FractionalPower(Space(dim, 2, seed=seed), points.shape[-1], sampling=sampling)
        zero = torch.zeros(points.shape[-1])
        error = ghrr.similarity(encoder(points), encoder(zero)) - encoder.kernel(points, zero)
        out.append(error.square().mean())
    return torch.stack(out)


@pytest.mark.parametrize("n", [1, 2])
def test_rbf_error_equals_monte_carlo_prediction(n: int) -> None:
    axis = torch.linspace(-3, 3, 13)
    grid = torch.stack(torch.meshgrid(*[axis] * n, indexing="ij"), dim=-1).reshape(-1, n)
    dim, seeds = 100, 25
    law = 1 / math.sqrt(2 * dim * 2)
    squares = squared_errors("random", dim, grid, seeds)
    assert squares.mean().sqrt() <= 1.1 * law
    # Exact prediction: the mean over the grid of ((1 + K(2 delta)) / 2 - K(delta)²) / (D m).
    kernel, double = (torch.exp(-(s * grid).square().sum(dim=-1) / 2) for s in (1, 2))
    assert_mean(squares, float(((1 + double) / 2 - kernel.square()).mean()) / (2 * dim))
    fewer = squared_errors("random", dim // 3, grid, seeds)
    assert fewer.mean().sqrt() > 1.1 * law  # negative control: a third of the slots


def test_orthogonal_and_qmc_frequencies_reduce_the_error() -> None:
    """At equal dimension, over points within two bandwidths of each other."""
    n, dim, seeds = 8, 64, 40
    points = torch.randn(40, n, generator=generator())
    points *= torch.linspace(0.2, 2, 40)[:, None] / points.norm(dim=-1, keepdim=True)
    random, orthogonal = (squared_errors(f, dim, points, seeds) for f in ("random", "orthogonal"))
    law = 1 / math.sqrt(2 * dim * 2)
    assert orthogonal.mean().sqrt() < 0.7 * random.mean().sqrt()  # measured: 0.42 and 0.71 of the law
    assert orthogonal.mean().sqrt() < 0.5 * law
    few = points[:, :2]
    random, qmc = (squared_errors(f, dim, few, seeds) for f in ("random", "qmc"))
    assert qmc.mean().sqrt() < 0.2 * random.mean().sqrt()  # measured: 0.03 and 0.34 of the law
    assert qmc.mean().sqrt() < 0.1 * law
    with pytest.raises(AssertionError):  # negative control: one dimension, without orthogonal frequencies
        one = points[:, :1]
        assert squared_errors("orthogonal", dim, one, 5).mean() < 0.9 * squared_errors("random", dim, one, 5).mean()


@pytest.mark.parametrize("name", KERNELS)
def test_qmc_reduces_the_error_of_every_kernel(name: str) -> None:
    x = torch.tensor([[0.3, -0.2], [1.0, 0.5]])
    errors = []
    for sampling in ("random", "qmc"):
        encoders = [FractionalPower(Space(256, 2, seed=s), 2, kernel=name, sampling=sampling) for s in range(8)]
        off = [ghrr.similarity(e(x), e(torch.zeros(2))) - e.kernel(x, torch.zeros(2)) for e in encoders]
        errors.append(torch.stack(off).square().mean().sqrt())
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("name", ["rbf", "matern-1/2", "matern-5/2"])
def test_orthogonal_frequencies_approximate_the_same_kernel(name: str) -> None:
    encoder_values = []
    x, zero = torch.tensor([0.5, -0.4, 0.3]), torch.zeros(3)
    for seed in range(300):
        encoder = FractionalPower(Space(10, 1, seed=seed), 3, kernel=name, sampling="orthogonal")
        encoder_values.append(ghrr.similarity(encoder(x), encoder(zero)))
    assert_mean(torch.stack(encoder_values), encoder.kernel(x, zero).item())
    with pytest.raises(AssertionError):
        assert_mean(torch.stack(encoder_values), encoder.kernel(1.3 * x, zero).item())


@pytest.mark.parametrize("name", ["laplace", "cauchy", "sinc"])
def test_orthogonal_frequencies_need_an_isotropic_kernel(name: str) -> None:
    with pytest.raises(ValueError, match=f"needs an isotropic kernel .*rbf.*got '{name}'"):
        FractionalPower(Space(4, 2), 2, kernel=name, sampling="orthogonal")
    with pytest.raises(ValueError, match="needs an isotropic kernel"):
        FractionalPower(Space(4, 2), 2, kernel=["rbf", name], sampling="orthogonal")


# -------------------------------------------------------------------------------------------------- custom kernels


def test_custom_spectrum_gives_its_kernel() -> None:
    """Frequencies ±1 give the cosine exactly."""
    cosine = Spectrum("cosine", lambda u: torch.sign(u - 0.5), lambda delta: torch.cos(delta).prod(dim=-1))
    encoder = FractionalPower(Space(30, 2, dtype=torch.complex128), 1, kernel=cosine, bandwidth=2.0)
    x, y = torch.randn(2, 10, 1, dtype=torch.float64, generator=generator())
    torch.testing.assert_close(ghrr.similarity(encoder(x), encoder(y)), torch.cos((x - y)[:, 0] / 2))
    torch.testing.assert_close(encoder.kernel(x, y), torch.cos((x - y)[:, 0] / 2))
    assert not torch.allclose(encoder.kernel(x, y), torch.cos((x - y)[:, 0]), atol=0.1)


def test_custom_sampler_gives_its_kernel() -> None:
    def uniform(count: int, n: int, source: torch.Generator) -> Tensor:
        return math.pi * (2 * torch.rand(count, n, generator=source) - 1)

    encoder = FractionalPower(Space(3000, 2), 1, kernel=uniform, bandwidth=1.5)
    assert torch.equal(
        encoder.frequencies, FractionalPower(Space(3000, 2), 1, kernel=uniform, bandwidth=1.5).frequencies
    )
    x, zero = torch.tensor([1.0]), torch.zeros(1)
    values = torch.cos(encoder.phases(x)).flatten()
    assert_mean(values, torch.sinc(x / 1.5).item())
    with pytest.raises(AssertionError):
        assert_mean(values, torch.sinc(x).item())
    with pytest.raises(ValueError, match="kernel of a sampling function is not known"):
        encoder.kernel(x, zero)


@pytest.mark.parametrize(
    "bad",
    [
        lambda count, n, source: torch.zeros(3),
        lambda count, n, source: torch.full((count, n), math.nan),
        lambda count, n, source: np.zeros((count, n)),
        lambda count, n, source: torch.zeros(count, n, dtype=torch.complex64),
    ],
)
def test_invalid_result_of_a_sampler_raises(bad: Callable[[int, int, torch.Generator], Tensor]) -> None:
    with pytest.raises(ValueError, match=re.escape("must return finite real frequencies of shape (8, 2)")):
        FractionalPower(Space(4, 2), 2, kernel=bad)


@pytest.mark.parametrize("sampling", ["qmc", "orthogonal"])
def test_custom_sampler_needs_random_sampling(sampling: str) -> None:
    with pytest.raises(ValueError, match='needs sampling="random"'):
        FractionalPower(Space(4, 2), 2, kernel=lambda count, n, source: torch.zeros(count, n), sampling=sampling)

"""Haar sampling, orthonormalisation and the exponential of Hermitian matrices."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ghrr import Space, ops
from ghrr.unitary import exp_hermitian, haar, is_unitary, orthonormalize, sampling, with_diagonality
from ghrr.unitary.sampling import add_phases, draw_uniform, haar_from_uniform
from tests.helpers import assert_mean, gaussian, generator, haar_product

EPS = torch.finfo(torch.float64).eps


@pytest.fixture(params=["torch", "numba"])
def each_backend(request: pytest.FixtureRequest) -> Iterator[None]:
    with ops.backend(request.param):
        yield


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [1, 2, 3, 5, 8, 9, 16])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_haar_matrices_are_unitary(m: int, dtype: torch.dtype) -> None:
    q = haar(50, 4, m=m, generator=generator(), dtype=dtype)
    assert q.shape == (50, 4, m, m)
    assert q.dtype == dtype
    assert is_unitary(q)


def moments(q: torch.Tensor) -> dict[str, tuple[torch.Tensor, float]]:
    """Return quantities and their means for the uniform distribution on U(m)."""
    m = q.shape[-1]
    trace = torch.diagonal(q, dim1=-2, dim2=-1).sum(-1)
    return {
        "real trace": (trace.real, 0.0),
        "trace squared": (trace.abs().square(), 1.0),
        "square of the trace": ((trace * trace).real, 0.0),
        "fourth moment of the trace": (trace.abs().pow(4), 2.0),
        "entry": (q[..., 0, 0].abs().square(), 1 / m),
        "fourth power of an entry": (q[..., 0, 0].abs().pow(4), 2 / (m * (m + 1))),
        "trace of the square": (trace_of_power(q, 2).abs().square(), min(2, m)),
        "trace of the cube": (trace_of_power(q, 3).abs().square(), min(3, m)),
    }


def trace_of_power(q: torch.Tensor, k: int) -> torch.Tensor:
    """Compute tr Q^k, which depends on the spacing of eigenvalues: E|tr Q^k|² = min(k, m) if Q is uniform."""
    return torch.diagonal(torch.linalg.matrix_power(q, k), dim1=-2, dim2=-1).sum(-1)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [2, 3, 4, 8, 9])
def test_haar_has_the_moments_of_the_uniform_distribution(m: int) -> None:
    for values, expected in moments(haar(200_000 // m, m=m, generator=generator(m))).values():
        assert_mean(values, expected)


def test_qr_without_the_phases_of_r_is_not_uniform() -> None:
    """Negative control: the moments of LAPACK's Q differ."""
    plain = torch.linalg.qr(gaussian(100_000, 3, 3)).Q
    with pytest.raises(AssertionError):
        for values, expected in moments(plain).values():
            assert_mean(values, expected)


def test_independent_eigenvalues_are_noticed() -> None:
    """Negative control: with independent eigenvalues the trace of the square differs."""
    independent = torch.polar(torch.ones(100_000, 3), 2 * math.pi * torch.rand(100_000, 3, generator=generator()))
    q = torch.diag_embed(independent)
    with pytest.raises(AssertionError):
        assert_mean(trace_of_power(q, 2).abs().square(), 2.0)
    assert_mean(trace_of_power(q, 2).abs().square(), 3.0)


@pytest.mark.usefixtures("each_backend")
def test_slots_of_base_hypervectors_are_uniform() -> None:
    """Rotations and phases are sampled together."""
    for values, expected in moments(Space(100, 3).random(500, generator=generator()).flatten(0, 1)).values():
        assert_mean(values, expected)


def test_haar_is_invariant_under_rotation() -> None:
    q, fixed = haar(50_000, m=3, generator=generator(1)), haar(m=3, generator=generator(2))
    for values, expected in (moments(fixed @ q) | moments(q @ fixed)).values():
        assert_mean(values, expected)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_haar_has_the_joint_moments_of_the_uniform_distribution(m: int) -> None:
    q = haar(100_000, m=m, generator=generator(m), dtype=torch.complex128)
    fixed = haar(m=m, generator=generator(9), dtype=torch.complex128)
    for x in (q, q.mH, fixed @ q, q @ fixed):
        for values, expected in joint_moments(x):
            assert_mean(values, expected)


def joint_moments(q: torch.Tensor) -> Iterator[tuple[torch.Tensor, float]]:
    """Return products of four entries, for every 2 x 2 block of neighbours, and their means (Weingarten calculus)."""
    m = q.shape[-1]
    for j, k in itertools.product(range(m - 1), repeat=2):
        a, b, c, d = q[..., j, k], q[..., j, k + 1], q[..., j + 1, k], q[..., j + 1, k + 1]
        yield (a * d * (b * c).conj()).real, -1 / (m * (m * m - 1))
        yield (a * d).abs().square(), 1 / (m * m - 1)
        yield (a * b).abs().square(), 1 / (m * (m + 1))
        yield (a * c).abs().square(), 1 / (m * (m + 1))
        yield (a * d * (b * c).conj()).imag, 0.0


@pytest.mark.parametrize("power", [0.4, 0.6])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_other_powers_of_the_gaps_are_not_uniform(m: int, power: float) -> None:
    """Negative control: unitary matrices of the same form with other lengths are noticed."""
    q = haar_product(draw_uniform(generator(m), 100_000, m * m), power=power)
    assert is_unitary(q)
    with pytest.raises(AssertionError):
        for values, expected in joint_moments(q):
            assert_mean(values, expected)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12])
def test_haar_is_the_documented_product(m: int) -> None:
    u = draw_uniform(generator(m), 7, 30, m * m)
    torch.testing.assert_close(haar_from_uniform(u), haar_product(u), rtol=0, atol=4 * m * EPS)
    single = haar_from_uniform(u, dtype=torch.complex64)
    assert torch.equal(single, haar_from_uniform(u).to(torch.complex64))
    assert not torch.allclose(haar_from_uniform(u), haar_product(u.roll(1, 0)))  # negative control: other slots


def test_haar_from_uniform_does_not_change_its_argument() -> None:
    u = draw_uniform(generator(), 5, 9)
    before = u.clone()
    haar_from_uniform(u)
    assert torch.equal(u, before)


@pytest.mark.parametrize("m", [1, 3, 9])
def test_phases_multiply_the_columns(m: int) -> None:
    u, turns = draw_uniform(generator(0), 7, 30, m * m), draw_uniform(generator(1), 7, 30, m)
    phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
    want = haar_from_uniform(u) * phases[..., None, :]
    torch.testing.assert_close(haar_from_uniform(add_phases(u, turns)), want, rtol=0, atol=8 * EPS)
    assert m == 1 or not torch.allclose(want, haar_from_uniform(u) * phases[..., :, None])  # negative control: rows


@pytest.mark.parametrize("m", [2, 3, 8])
@pytest.mark.parametrize("value", [0.0, 1 - 2.0**-53, 0.5])
def test_haar_is_unitary_for_extreme_and_equal_numbers(m: int, value: float) -> None:
    u = draw_uniform(generator(), 200, m * m)
    u[:100] = value
    u[100:, : (m - 1) ** 2 + 1] = value
    assert is_unitary(haar_from_uniform(u))
    assert is_unitary(haar_from_uniform(u, dtype=torch.complex64))


@pytest.mark.parametrize("threads", [1, 2])
def test_haar_does_not_depend_on_chunks_and_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    u = draw_uniform(generator(0), 5, 20, 9)
    whole = haar_from_uniform(u)
    monkeypatch.setattr(sampling, "_CHUNK_NUMBERS", (7 * 9, 7 * 9))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.testing.assert_close(haar_from_uniform(u), whole, rtol=0, atol=8 * EPS)
        with torch.inference_mode():
            torch.testing.assert_close(haar_from_uniform(u + 0), whole, rtol=0, atol=8 * EPS)
        with ThreadPoolExecutor(1) as pool:  # the number of threads is restored, for new threads too
            assert torch.get_num_threads() == pool.submit(torch.get_num_threads).result() == threads
    finally:
        torch.set_num_threads(before)
    assert haar_from_uniform(u[:0]).shape == (0, 20, 3, 3)


def test_nan_stays_in_its_slot() -> None:
    u = draw_uniform(generator(), 40, 9)
    u[17, 5] = torch.nan
    slots = haar_from_uniform(u).isnan().any(dim=-1).any(dim=-1).nonzero().flatten()
    assert slots.tolist() == [17]


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_orthonormalize_is_qr_with_a_positive_diagonal(m: int) -> None:
    for x in (gaussian(30, m, m), gaussian(30, m, m).real):
        q = orthonormalize(x)
        r = q.mH @ x
        torch.testing.assert_close(r, r.triu())
        diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
        torch.testing.assert_close(diagonal, diagonal.abs().to(x.dtype))
        assert is_unitary(q.to(torch.complex128))


def test_orthonormalize_is_unitary_for_dependent_columns() -> None:
    x = gaussian(20, 3, 3)
    x[..., 1] = x[..., 0] + 1e-9 * x[..., 1]
    assert is_unitary(orthonormalize(x))
    x[..., 1] = 0
    assert is_unitary(orthonormalize(x))


def test_orthonormalize_passes_gradcheck() -> None:
    for m in (1, 2, 3):
        assert torch.autograd.gradcheck(orthonormalize, gaussian(2, m, m).requires_grad_())


def test_haar_depends_on_its_generator_only() -> None:
    state = torch.get_rng_state()
    one, two = (haar(5, m=3, generator=generator(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one, haar(5, m=3, generator=generator(8)))


@pytest.mark.parametrize("sample", [haar, functools.partial(with_diagonality, 0.5)])
def test_default_generator_is_that_of_torch(sample: Callable[..., torch.Tensor]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one, two = sample(5, m=3), sample(5, m=3)
        torch.manual_seed(0)
        assert torch.equal(sample(5, m=3), one)
    assert not torch.equal(one, two)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_exp_hermitian_is_unitary_for_any_matrix(m: int) -> None:
    x = 3 * gaussian(20, m, m)
    q = exp_hermitian(x)
    assert is_unitary(q)
    eigenvalues = torch.linalg.eigvalsh((x + x.mH) / 2)
    want = torch.exp(1j * eigenvalues).sum(-1)
    torch.testing.assert_close(torch.diagonal(q, dim1=-2, dim2=-1).sum(-1), want)
    assert not is_unitary(torch.matrix_exp(1j * x))  # negative control: X is not Hermitian


def test_exp_hermitian_passes_gradcheck() -> None:
    for m in (1, 2, 3):
        assert torch.autograd.gradcheck(exp_hermitian, gaussian(2, m, m).requires_grad_())
        assert torch.autograd.gradcheck(exp_hermitian, torch.zeros(2, m, m, dtype=torch.complex128, requires_grad=True))


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 1.0, 30.0])
def test_exp_hermitian_equals_matrix_exp(scale: float) -> None:
    x = scale * gaussian(50, 2, 2)
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))
    x[0] = scale * torch.eye(2)  # equal eigenvalues
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))

"""Haar sampling is uniform, which plain QR is not; the exponential of a Hermitian matrix is unitary."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ghrr import Space, ops
from ghrr.unitary import exp_hermitian, haar, is_unitary, orthonormalize, sampling
from ghrr.unitary.sampling import draw_uniform, haar_from_uniform
from tests.helpers import assert_mean, gaussian, generator


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
    """Quantities whose mean is known for the uniform distribution on U(m)."""
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
    """It tells how the eigenvalues are spaced: E|tr Q^k|² = min(k, m) for the uniform distribution."""
    return torch.diagonal(torch.linalg.matrix_power(q, k), dim1=-2, dim2=-1).sum(-1)


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [2, 3, 4, 8, 9])
def test_haar_has_the_moments_of_the_uniform_distribution(m: int) -> None:
    for values, expected in moments(haar(200_000 // m, m=m, generator=generator(m))).values():
        assert_mean(values, expected)


def test_qr_without_the_phases_of_r_is_not_uniform() -> None:
    """The control: the same check notices LAPACK's plain Q."""
    plain = torch.linalg.qr(gaussian(100_000, 3, 3)).Q
    with pytest.raises(AssertionError):
        for values, expected in moments(plain).values():
            assert_mean(values, expected)


def test_eigenvalues_keep_apart() -> None:
    """The traces of powers alone notice eigenvalues that are independent of one another: the control."""
    independent = torch.polar(torch.ones(100_000, 3), 2 * math.pi * torch.rand(100_000, 3, generator=generator()))
    q = torch.diag_embed(independent)
    with pytest.raises(AssertionError):
        assert_mean(trace_of_power(q, 2).abs().square(), 2.0)
    assert_mean(trace_of_power(q, 2).abs().square(), 3.0)


@pytest.mark.usefixtures("each_backend")
def test_base_hypervectors_are_uniform_as_well() -> None:
    """Q times phases, both drawn in one step."""
    for values, expected in moments(Space(100, 3).random(500, generator=generator()).flatten(0, 1)).values():
        assert_mean(values, expected)


def test_the_distribution_is_invariant_under_rotation() -> None:
    q, fixed = haar(50_000, m=3, generator=generator(1)), haar(m=3, generator=generator(2))
    for values, expected in (moments(fixed @ q) | moments(q @ fixed)).values():
        assert_mean(values, expected)


def gaussians(u: torch.Tensor) -> torch.Tensor:
    """The complex Gaussian matrices that uniform numbers stand for."""
    return torch.polar(torch.sqrt(-2 * torch.log1p(-u[..., 0])), 2 * math.pi * u[..., 1])


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12])
def test_haar_is_qr_of_gaussians_with_a_positive_diagonal(m: int) -> None:
    u = draw_uniform(generator(m), 7, 30, m, m, 2)
    x = gaussians(u)
    q, r = torch.linalg.qr(x)
    diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
    want = q * (diagonal / diagonal.abs())[..., None, :]
    torch.testing.assert_close(haar_from_uniform(u), want, rtol=0, atol=1e-11)
    torch.testing.assert_close(haar_from_uniform(u, dtype=torch.complex64), want.to(torch.complex64))
    assert m == 1 or not torch.allclose(haar_from_uniform(u), q)  # the control: what LAPACK gives


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("slots", [1, 5])
def test_uniform_numbers_are_left_as_they_are(slots: int) -> None:
    u, turns = draw_uniform(generator(0), slots, 3, 3, 2), draw_uniform(generator(1), slots, 3)
    before = u.clone(), turns.clone()
    haar_from_uniform(u, turns)
    assert torch.equal(u, before[0])
    assert torch.equal(turns, before[1])


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [1, 3, 9])
def test_phases_turn_the_columns(m: int) -> None:
    u, turns = draw_uniform(generator(0), 7, 30, m, m, 2), draw_uniform(generator(1), 7, 30, m)
    phases = torch.polar(torch.ones_like(turns), 2 * math.pi * turns)
    want = haar_from_uniform(u) * phases[..., None, :]
    torch.testing.assert_close(haar_from_uniform(u, turns), want, rtol=0, atol=1e-11)
    assert m == 1 or not torch.allclose(want, haar_from_uniform(u) * phases[..., :, None])  # the control: rows


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("m", [2, 3, 6, 8, 9])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_haar_holds_for_nearly_dependent_columns(m: int, dtype: torch.dtype) -> None:
    u = draw_uniform(generator(), 200, m, m, 2)
    u[..., 1, :] = u[..., 0, :] + 1e-9 * (u[..., 1, :] - u[..., 0, :])
    assert is_unitary(haar_from_uniform(u, dtype=dtype))


def test_gram_schmidt_needs_its_second_pass() -> None:
    """The control: with one pass nearly dependent columns are not orthogonal."""
    u = draw_uniform(generator(), 200, 3, 3, 2)
    u[..., 1, :] = u[..., 0, :] + 1e-9 * (u[..., 1, :] - u[..., 0, :])
    basis: list[torch.Tensor] = []
    for column in gaussians(u).unbind(dim=-1):
        rest = column - sum(q * (q.conj() * column).sum(-1, keepdim=True) for q in basis)
        basis.append(rest / torch.linalg.vector_norm(rest, dim=-1, keepdim=True))
    assert not is_unitary(torch.stack(basis, dim=-1))


@pytest.mark.usefixtures("each_backend")
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_and_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    u, turns = draw_uniform(generator(0), 5, 20, 3, 3, 2), draw_uniform(generator(1), 5, 20, 3)
    whole = haar_from_uniform(u, turns)
    monkeypatch.setattr(sampling, "_CHUNK_NUMBERS", (7 * 9, 7 * 9))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.testing.assert_close(haar_from_uniform(u, turns), whole, rtol=0, atol=1e-13)
        with torch.inference_mode():
            torch.testing.assert_close(haar_from_uniform(u + 0, turns), whole, rtol=0, atol=1e-13)
        with ThreadPoolExecutor(1) as pool:  # threads started later are as they would have been
            assert torch.get_num_threads() == pool.submit(torch.get_num_threads).result() == threads
    finally:
        torch.set_num_threads(before)
    assert haar_from_uniform(u[:0], turns[:0]).shape == (0, 20, 3, 3)


@pytest.mark.parametrize("m", [1, 2, 3, 8])
def test_orthonormalize_leaves_a_triangle_with_a_positive_diagonal(m: int) -> None:
    for x in (gaussian(30, m, m), gaussian(30, m, m).real):
        q = orthonormalize(x)
        r = q.mH @ x
        torch.testing.assert_close(r, r.triu())
        diagonal = torch.diagonal(r, dim1=-2, dim2=-1)
        torch.testing.assert_close(diagonal, diagonal.abs().to(x.dtype))
        assert is_unitary(q.to(torch.complex128))


def test_orthonormalize_holds_for_ill_conditioned_columns() -> None:
    x = gaussian(20, 3, 3)
    x[..., 1] = x[..., 0] + 1e-9 * x[..., 1]
    assert is_unitary(orthonormalize(x))
    x[..., 1] = 0
    assert is_unitary(orthonormalize(x))


def test_orthonormalize_gradient() -> None:
    for m in (1, 2, 3):
        assert torch.autograd.gradcheck(orthonormalize, gaussian(2, m, m).requires_grad_())


def test_the_same_generator_gives_the_same_matrices_and_the_global_seed_is_untouched() -> None:
    state = torch.get_rng_state()
    one, two = (haar(5, m=3, generator=generator(7)) for _ in range(2))
    assert torch.equal(one, two)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one, haar(5, m=3, generator=generator(8)))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_exp_hermitian_is_unitary_for_any_matrix(m: int) -> None:
    x = 3 * gaussian(20, m, m)
    q = exp_hermitian(x)
    assert is_unitary(q)
    eigenvalues = torch.linalg.eigvalsh((x + x.mH) / 2)
    want = torch.exp(1j * eigenvalues).sum(-1)
    torch.testing.assert_close(torch.diagonal(q, dim1=-2, dim2=-1).sum(-1), want)
    assert not is_unitary(torch.matrix_exp(1j * x))  # the control: X itself will not do


def test_exp_hermitian_gradient() -> None:
    for m in (1, 2, 3):
        assert torch.autograd.gradcheck(exp_hermitian, gaussian(2, m, m).requires_grad_())
        assert torch.autograd.gradcheck(exp_hermitian, torch.zeros(2, m, m, dtype=torch.complex128, requires_grad=True))


@pytest.mark.parametrize("scale", [0.0, 1e-12, 1e-3, 1.0, 30.0])
def test_closed_form_of_exp_equals_the_series(scale: float) -> None:
    x = scale * gaussian(50, 2, 2)
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))
    x[0] = scale * torch.eye(2)  # equal eigenvalues
    torch.testing.assert_close(exp_hermitian(x), torch.matrix_exp(0.5j * (x + x.mH)))
